"""Layer one: the kernels themselves. Views in, views out; nothing is allocated but scratch."""

from ._generated import index as _index
from ._generated.index import *  # noqa: F403

__all__: list[str] = []
__all__ += _index.__all__
