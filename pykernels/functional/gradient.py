"""stop_gradient, which ends gradients."""

from __future__ import annotations

import numpy as np

from pykernels.call.arrays import Array
from pykernels.device import Tensor
from pykernels.errors import DTypeError
from pykernels.tensors.host import type_name

__all__ = ["stop_gradient"]


def stop_gradient(x: Array) -> Array:
    """A copy that counts as a constant: no gradient passes it (JAX; torch's detach).

    The copy has memory of its own. A view would not work, since gradients belong to memory.

    Args:
        x: Tensor or numpy array, any dtype.

    Returns:
        A contiguous copy. A numpy array gives a numpy array, all else gives a Tensor.

    Raises:
        DTypeError: x is neither.
    """
    if isinstance(x, Tensor):
        return x.detach()
    if isinstance(x, np.ndarray):
        return x.copy()
    raise DTypeError(
        f"[stop_gradient] x must be a pykernels.Tensor or a numpy array but is {type_name(x)}"
    )
