"""Kernels that a user writes as a text in WGSL."""

from .kernel import RawKernel, raw_kernel

__all__ = ["RawKernel", "raw_kernel"]
