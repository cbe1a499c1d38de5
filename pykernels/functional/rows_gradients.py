"""The gradient of an embedding."""

from __future__ import annotations

from dataclasses import replace

from pykernels import kernels
from pykernels._generated.kernels.add_rows import KERNEL
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import flag, integer
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.host import size_of

__all__ = ["embedding_backward"]

_BACKWARD = replace(KERNEL, name="embedding_backward")
_NAMES = {"src": "dy", "index": "indices"}
_CALL = replace(
    _BACKWARD,
    args=tuple(replace(arg, name=_NAMES.get(arg.name, arg.name)) for arg in KERNEL.args),
)


@again
@whole
def embedding_backward(
    dy: Array, indices: Array, num_rows: int, padding_idx: int | None = None, *,
    check: bool = True, out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The gradient of `embedding` with respect to its weight: row m is the sum of the rows of dy
    whose index is m.

    The result is deterministic: indices are sorted, and the order of the additions depends only on
    the indices. Sums are f32, rounded once if dy is of 16 bits.

    Args:
        dy: Tensor or numpy array, float32, float16 or bfloat16, (*indices.shape, k).
        indices: Tensor or numpy array, int32 or int64, of any shape; negative indices do not count
            from the end.
        num_rows: rows of the weight.
        padding_idx: an index whose row gets 0, because it is not trained; -1 is the last row.
        check: False skips indices out of range, without an error.
        out: The Tensor (num_rows, k) of dy's dtype to write to; None makes one.

    Returns:
        (num_rows, k) of dy's dtype: a numpy array if both arguments are, else a Tensor.

    Raises:
        IndexRangeError: at the next synchronisation, for an index outside [0, num_rows); at once if
            the result is a numpy array.
        ShapeError, DTypeError, ArgumentError: for arguments that do not fit.
    """
    call = Call(_CALL, dy, indices, out=out)
    op = _BACKWARD.name
    rows, places = call.tensor("dy", dy), call.tensor("indices", indices)
    count = size_of(op, "num_rows", num_rows)
    if rows.shape[:-1] != places.shape or rows.ndim == 0:
        raise ShapeError(
            f"[{op}] dy must have the shape of indices, {places.shape}, and one axis more but has "
            f"shape {rows.shape}"
        )
    skip = None if padding_idx is None else integer(op, "padding_idx", padding_idx)
    if skip is not None and not -count <= skip < count:
        raise ArgumentError(
            f"[{op}] padding_idx must be in [{-count}, {count}) but is {skip}"
        )  # fmt: skip
    skip = None if skip is None else skip % count
    checked = flag(op, "check", check)
    width = rows.shape[-1]
    result = call.out((count, width), rows.dtype)
    if result.dtype not in FLOATS:
        raise DTypeError(f"[{op}] out must be float32, float16 or bfloat16 but is {result.dtype}")
    # the result is set to zero before dy and indices are read, so it must not share their buffers
    alone = result._block not in (rows._block, places._block)
    direct = alone and result.dtype == "float32"
    whole = result if direct else result.device.empty(result.shape)
    kernels.fill(whole, 0.0)
    tensors = rows.reshape(places.size, width), places.reshape(-1), whole
    run(_BACKWARD, tensors, options=(skip, checked))
    if not direct:
        kernels.cpy(whole, result)
    return call.leave(result)
