"""stop_gradient, which ends gradients."""

from __future__ import annotations

from pykernels.call.arrays import Array, array_of
from pykernels.device import Tensor

__all__ = ["stop_gradient"]


def stop_gradient(x: Array) -> Array:
    """A copy that counts as a constant: no gradient passes through it (JAX; torch's detach).

    The copy has its own memory. A view would not work, because gradients are tracked by memory.

    Args:
        x: Tensor or numpy array, any dtype.

    Returns:
        A contiguous copy. A numpy array for a numpy array, and a Tensor for a Tensor.

    Raises:
        DTypeError: x is neither a Tensor nor a numpy array.
    """
    given = array_of("stop_gradient", "x", x)
    return given.detach() if isinstance(given, Tensor) else given.copy()
