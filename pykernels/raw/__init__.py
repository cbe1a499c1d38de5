"""Own kernels from a text in WGSL."""

from .kernel import RawKernel, raw_kernel

__all__ = ["RawKernel", "raw_kernel"]
