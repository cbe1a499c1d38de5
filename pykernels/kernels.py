"""Layer one: the kernels themselves. They take views and write to views, and allocate only scratch
memory."""

import sys
from typing import TYPE_CHECKING

from ._generated.index import HOMES as HOMES
from .lazy import Lazy

if TYPE_CHECKING:
    from ._generated.index import *  # noqa: F403
    from ._generated.index import __all__ as __all__
else:  # as in functional
    __all__ = sorted(HOMES)

sys.modules[__name__].__class__ = Lazy
