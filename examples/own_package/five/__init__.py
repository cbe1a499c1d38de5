"""Five kernels: `pykernels build` makes `_kernels` from ../shaders."""

from ._kernels import blend, norm, normals, peaks, soft_clip

__all__ = ["blend", "norm", "normals", "peaks", "soft_clip"]
