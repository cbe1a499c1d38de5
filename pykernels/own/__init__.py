"""Kernels of one's own from a folder of sources: as a typed package, or loaded at once.

Only this package imports what builds pykernels, `codegen`, which an installed pykernels carries as
`pykernels._codegen`: when something is built, not before.
"""

from .package import Built, SourceError, build_package, load_kernels

__all__ = ["Built", "SourceError", "build_package", "load_kernels"]
