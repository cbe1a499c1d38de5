"""Layer two: functions that allocate their output, with the names and arguments of numpy and torch.

numpy arrays in give a numpy array out, computed on the default device. A Tensor among the
arguments makes the result a Tensor on its device. What only allocates is generated; functions that
do more are in FAMILY.py here, and its `__all__` names them.
"""

from pykernels._generated.functions import *  # noqa: F403
from pykernels._generated.functions import __all__ as __all__
