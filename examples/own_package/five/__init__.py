"""Five kernels: `_kernels` is made from ../shaders by `pykernels build`."""

from ._kernels import blend, norm, normals, peaks, soft_clip

__all__ = ["blend", "norm", "normals", "peaks", "soft_clip"]
