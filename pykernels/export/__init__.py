"""Kernels for web pages: see docs/export.md. `pykernels export` is the command."""
