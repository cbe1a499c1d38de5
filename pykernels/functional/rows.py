"""Rows that an index picks."""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.wrappers import get_rows as _get_rows
from pykernels._generated.wrappers import set_rows as _set_rows
from pykernels.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.errors import DTypeError, ShapeError
from pykernels.host import type_name
from pykernels.runtime.launch import run
from pykernels.scalars import flag

__all__ = ["embedding", "get_rows", "set_rows"]

_EMBEDDING = replace(_get_rows.KERNEL, name="embedding")


def set_rows(
    src: Array, index: Array, dst: Tensor, *, check: bool = True, distinct: bool = False
) -> None:
    """Write rows to the places that an index gives: dst[..., index[..., i], :] = src[..., i, :].
    Of several rows with one index the last one stays.

    Args:
        src: Tensor or numpy array (..., n, k) of dst's dtype, or both float32, float16, bfloat16.
        index: Tensor or numpy array (..., n), int32 or int64; sizes of leading axes may divide
            those of src and repeat (ggml).
        dst: Tensor (..., m, k); rows that no index names stay as they are.
        check: False skips indices out of range, without an error.
        distinct: True says that no two rows have one index, and saves the passes that find the
            last of them; where it is wrong, each element is one of theirs.

    Raises:
        IndexRangeError: at the next synchronisation, for an index outside [0, m).
        DTypeError, ShapeError and the errors of `pykernels.kernels.set_rows`.
    """
    if not isinstance(dst, Tensor):
        raise DTypeError(f"[set_rows] dst must be a pykernels.Tensor but is {type_name(dst)}")
    call = Call(_set_rows.KERNEL, src, index, out=dst)
    rows, places = call.tensor("src", src), call.tensor("index", index)
    _set_rows.set_rows(rows, places, dst, check=check, distinct=distinct)


def get_rows(src: Array, index: Array, *, check: bool = True, out: Tensor | None = None) -> Array:
    """The rows of src that an index names: result[..., i, :] = src[..., index[..., i], :].

    Args:
        src: Tensor or numpy array (..., m, k), any dtype.
        index: Tensor or numpy array (..., n), int32 or int64. Of two sizes of a leading axis the
            smaller one divides the larger one and repeats (ggml).
        check: False leaves the rows of indices that are out of range as they are, in silence.
        out: The Tensor to write to; None makes one. Floats may be converted to its dtype.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        IndexRangeError: at the next synchronisation, for an index outside [0, m); at once where
            numpy arrays come back.
        DTypeError, ShapeError and the errors of `pykernels.kernels.get_rows`.
    """
    call = Call(_get_rows.KERNEL, src, index, out=out)
    rows, indices = call.tensor("src", src), call.tensor("index", index)
    if rows.ndim < 2 or indices.ndim < 1:
        raise ShapeError(
            "[get_rows] src must have two or more axes and index one, but they have shapes "
            f"{rows.shape} and {indices.shape}"
        )
    a, b = rows.shape[:-2], indices.shape[:-1]
    size = max(len(a), len(b))
    pairs = zip((1,) * (size - len(a)) + a, (1,) * (size - len(b)) + b, strict=True)
    lead = tuple(0 if 0 in (m, n) else max(m, n) for m, n in pairs)
    result = call.out((*lead, indices.shape[-1], rows.shape[-1]), _dtype(rows, out))
    _get_rows.get_rows(rows, indices, result, check=check)
    return call.leave(result)


def embedding(
    weight: Array, index: Array, *, check: bool = True, out: Tensor | None = None
) -> Array:
    """weight[index]: a row of the matrix `weight` for each index, of any shape.

    Args:
        weight: Tensor or numpy array (m, k), any dtype.
        index: Tensor or numpy array of any shape, int32 or int64; none counts from the end.
        check: False leaves the rows of indices that are out of range as they are, in silence.
        out: The Tensor (*index.shape, k) to write to; None makes one. Floats may be converted to
            its dtype.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        IndexRangeError: at the next synchronisation, for an index outside [0, m); at once where
            numpy arrays come back.
        DTypeError, ShapeError and the errors of `pykernels.kernels.get_rows`.
    """
    first, second = (str(getattr(a, "dtype", "")) for a in (weight, index))
    if "int" in first and "float" in second:
        raise DTypeError(
            f"[embedding] index must be int32 or int64 but is {second}, and weight is {first}: the "
            "table comes first here, as in embedding(weight, index)"
        )
    call = Call(_EMBEDDING, weight, index, out=out)
    matrix, indices = call.tensor("src", weight), call.tensor("index", index)
    if matrix.ndim != 2:
        raise ShapeError(f"[embedding] weight must have two axes but has shape {matrix.shape}")
    result = call.out((*indices.shape, matrix.shape[1]), _dtype(matrix, out))
    tensors = (matrix, indices, result)
    run(_EMBEDDING, tensors, options=(flag("embedding", "check", check),))
    return call.leave(result)


def _dtype(src: Tensor, out: Tensor | None) -> DTypeName:
    """The result's: that of `out`, which the kernel checks, or that of the rows."""
    return src.dtype if out is None else out.dtype
