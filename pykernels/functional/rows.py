"""Rows that an index picks."""

from __future__ import annotations

from pykernels._generated.wrappers import set_rows as _set_rows
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.errors import DTypeError
from pykernels.tensors.host import type_name
from pykernels.tensors.quantised import QTensor

from ._caches import set_block_rows

__all__ = ["set_rows"]


@again
def set_rows(
    src: Array, index: Array, dst: Tensor | QTensor, *, check: bool = True, distinct: bool = False
) -> None:
    """Write rows to the places that an index gives: dst[..., index[..., i], :] = src[..., i, :].
    If several rows have the same index, the last row is stored.

    Args:
        src: Tensor or numpy array (..., n, k) of dst's dtype. The dtypes may differ if both are
            float32, float16 or bfloat16.
        index: Tensor or numpy array (..., n), int32 or int64; the sizes of its leading axes may be
            divisors of the sizes of src: then the index repeats along these axes (ggml).
        dst: Tensor (..., m, k); rows that no index names do not change. Or a QTensor of q8_0 or
            q4_0, whose rows are quantised from float32, float16 or bfloat16 by ggml's rule; then no
            two rows of a matrix may have the same index, else the stored row mixes numbers of both.
        check: False skips indices out of range, without an error.
        distinct: True promises that no two rows have the same index. This saves the passes that
            find the last row for each index. If the promise is wrong, each element is from one of
            the rows.

    Raises:
        IndexRangeError: at the next synchronisation, for an index outside [0, m).
        DTypeError, ShapeError and the errors of `pykernels.kernels.set_rows`.
    """
    if isinstance(dst, QTensor):
        set_block_rows(src, index, dst, check)
        return
    if not isinstance(dst, Tensor):
        raise DTypeError(f"[set_rows] dst must be a pykernels.Tensor but is {type_name(dst)}")
    call = Call(_set_rows.KERNEL, src, index, out=dst)
    rows, places = call.tensor("src", src), call.tensor("index", index)
    _set_rows.set_rows(rows, places, dst, check=check, distinct=distinct)
