"""A user's kernels from a folder of sources: as a typed package, or as a module loaded directly.

Only this package imports `codegen`, which builds pykernels and is installed as
`pykernels._codegen`. It is imported when something is built, not before.
"""

from .package import Built, SourceError, build_package, load_kernels

__all__ = ["Built", "SourceError", "build_package", "load_kernels"]
