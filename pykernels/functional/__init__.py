"""Layer two: functions that allocate their output, with the names and arguments of numpy and torch.

numpy arrays in give a numpy array out, computed on the default device. A Tensor among the
arguments makes the result a Tensor on its device. What only allocates is generated, and so is what
`kernels/FAMILY/NAME.op.toml` declares; the rest is in FAMILY.py here, and its `__all__` names it.
These functions are annotated with `Array`: generated overloads tell type checkers that what they
give follows from what they get.
"""

import sys
from typing import TYPE_CHECKING

from pykernels._generated.functions import HOMES as HOMES
from pykernels.lazy import Lazy

if TYPE_CHECKING:
    from pykernels._generated.functions import *  # noqa: F403
else:  # a list that is computed is an empty one to mypy, and pykernels would have no function
    __all__ = sorted(HOMES)

sys.modules[__name__].__class__ = Lazy
