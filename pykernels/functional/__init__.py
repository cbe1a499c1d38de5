"""Layer two: functions that allocate their output, with the names and arguments of numpy and torch.

If all arguments are numpy arrays, the result is a numpy array, computed on the default device. If
an argument is a Tensor, the result is a Tensor on its device. Functions that only allocate are
generated, and so are functions that `kernels/FAMILY/NAME.op.toml` declares. All other functions are
in FAMILY.py here; `__all__` of the file names them. These functions are annotated with `Array`:
generated overloads tell type checkers how the type of the result follows from the arguments.
"""

import sys
from typing import TYPE_CHECKING

from pykernels._generated.functions import HOMES as HOMES
from pykernels.lazy import Lazy

if TYPE_CHECKING:
    from pykernels._generated.functions import *  # noqa: F403
else:  # mypy treats a computed `__all__` as an empty list
    __all__ = sorted(HOMES)

sys.modules[__name__].__class__ = Lazy
