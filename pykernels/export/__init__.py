"""Kernels for web pages: see docs/guide/exporting.md. `pykernels export` is the command."""
