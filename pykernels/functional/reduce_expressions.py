"""Reductions of expressions of the caller's own."""

from __future__ import annotations

from typing import TypeAlias

from pykernels._generated.ops.reductions import RESULTS
from pykernels.call.apply import reduce
from pykernels.call.arrays import Array
from pykernels.call.scalars import axes, flag
from pykernels.device import Tensor
from pykernels.errors import ArgumentError

__all__ = ["reduction"]

Axis: TypeAlias = int | tuple[int, ...] | None


def reduction(
    expression: str, how: str, /, axis: Axis = None, keepdims: bool = False,
    out: Tensor | None = None, **operands: Array | float,
) -> Array:  # fmt: skip
    """The reduction of an expression over axes, in one pass that does not store the expression.

        pk.reduction("x * y", "sum", x=a, y=b)
        pk.reduction("abs(x - y)", "max", axis=-1, x=a, y=b)

    The expression is in the language of `elementwise`, with its operands by name. The operands
    repeat to one shape, and `axis` counts the axes of that shape. Values are not rounded before
    they are reduced: 16-bit floats count as float32, integers as 32-bit integers. The result has
    the dtype that the function `how` gives for the dtype of the expression.

    An expression is compiled for each new combination of text, `how`, dtypes and layouts. A call
    with other numbers, in the text or as operands, needs no new compilation.

    Args:
        expression: The text.
        how: The reduction by its name: sum, mean, prod, max, min, argmax, argmin, any, all,
            count_nonzero, var, std (both divide by the number of elements), norm (the root of the
            sum of squares) or logsumexp.
        axis: One axis or several axes; None means all axes.
        keepdims: True keeps the reduced axes, with size 1.
        out: The Tensor to write to; None makes one.
        operands: Tensors, numpy arrays or numbers, by their names in the text; one to seven Tensors
            and arrays.

    Returns:
        A Tensor if an argument is a Tensor, else a numpy array.

    Raises:
        ArgumentError: the text is not an expression (the message shows the place of the error), or
            the reduction is unknown.
        LimitError: more tensors or numbers than one launch can have.
        DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    if not isinstance(how, str) or how not in RESULTS:
        raise ArgumentError(f"[reduction] how must be {', '.join(RESULTS)} but is {how!r}")
    if axis is not None and type(axis) is not int:
        axis = axes("reduction", "axis", axis)
    if type(keepdims) is not bool:
        keepdims = flag("reduction", "keepdims", keepdims)
    return reduce("reduction", expression, how, operands, axis, keepdims, out)  # type: ignore[no-any-return]
