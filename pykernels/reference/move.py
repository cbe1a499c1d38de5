"""gather, scatter, tri, pad, nonzero: movements of elements, in their own dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "gather", "last_index", "nonzero", "nonzero_offsets", "pad", "scatter", "scatter_add", "tri",
]  # fmt: skip

Array = np.ndarray[Any, Any]
CHUNK = 4096
_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def gather(src: Array, index: Array, dst: Array, axis: int = -1) -> Array:
    """`dst` after dst[i, j, k] = src[i, index[i, j, k], k] for axis 1.

    Indices outside of src leave their element of dst as it was.
    """
    out = np.array(dst, order="C")
    inside = (index >= 0) & (index < src.shape[axis])
    places: list[Array] = [*np.indices(index.shape)]
    places[axis] = index
    out[inside] = src[tuple(p[inside].astype(np.int64) for p in places)]
    return out


def scatter(src: Array, index: Array, dst: Array, axis: int = -1) -> Array:
    """`dst` after dst[i, index[i, j, k], k] = src[i, j, k] for axis 1, in C order.

    Indices outside of dst write nothing. If several elements go to one place, the last of them
    stays.
    """
    out = np.array(dst, order="C")
    inside = (index >= 0) & (index < dst.shape[axis])
    places: list[Array] = [*np.indices(index.shape)]
    places[axis] = index
    out[tuple(p[inside].astype(np.int64) for p in places)] = src[inside]
    return out


def last_index(index: Array, axis: int = -1, limit: int = 2**31 - 1) -> Array:
    """The index as int32. An element becomes -1 if it is outside of [0, limit), or if the same
    index comes again further along the axis."""
    along = np.moveaxis(np.atleast_1d(index), axis, -1)
    kept = np.full(along.shape, -1, np.int32)
    for line in np.ndindex(along.shape[:-1]):
        last = {int(i): at for at, i in enumerate(along[line]) if 0 <= i < limit}
        for i, at in last.items():
            kept[(*line, at)] = i
    return np.moveaxis(kept, -1, axis).reshape(index.shape)


def tri(src: Array, upper: bool = False, diagonal: int = 0, value: float = 0) -> Array:
    """src on one side of a diagonal of each matrix, and `value` on the other side."""
    rows, cols = np.indices(src.shape[-2:])
    keep = cols >= rows + diagonal if upper else cols <= rows + diagonal
    return np.where(keep, src, np.array(value).astype(src.dtype))


def pad(
    src: Array, dst: Array, value: float = 0, before: tuple[int, ...] | None = None,
    mode: str = "constant",
) -> Array:  # fmt: skip
    """src with a border that makes it as large as dst, by numpy's `pad`."""
    front = before or (0,) * src.ndim
    widths = [(a, n - a - m) for a, n, m in zip(front, dst.shape, src.shape, strict=True)]
    if mode == "constant":
        return np.pad(src, widths, constant_values=np.array(value).astype(src.dtype))
    return np.pad(src, widths, mode=_MODES[mode])


def nonzero_offsets(src: Array) -> Array:
    """For each chunk of 4096 elements, the number of nonzero elements before it; and at the end,
    the number of all nonzero elements. All are int32."""
    flat = (src != 0).reshape(-1)
    counts = [int(flat[i : i + CHUNK].sum()) for i in range(0, flat.size, CHUNK)]
    return np.cumsum([0, *counts]).astype(np.int32)


def nonzero(src: Array, offsets: Array, dst: Array) -> Array:
    """`dst`, int32 (ndim, count), with the indices of elements that are not zero, in C order; the
    rest of dst does not change."""
    out = np.array(dst, order="C")
    found = np.array(np.nonzero(src), np.int32).reshape(src.ndim, -1)[:, : dst.shape[1]]
    out[:, : found.shape[1]] = found
    return out


def scatter_add(src: Array, index: Array, dst: Array, axis: int = -1) -> Array:
    """`dst` after dst[i, index[i, j, k], k] += src[i, j, k] for axis 1, floats in float64.

    Indices outside of dst add nothing. Integers wrap.
    """
    out = np.array(dst, np.float64 if dst.dtype.kind == "f" else dst.dtype, order="C")
    inside = (index >= 0) & (index < dst.shape[axis])
    places: list[Array] = [*np.indices(index.shape)]
    places[axis] = index
    np.add.at(out, tuple(p[inside].astype(np.int64) for p in places), src[inside])
    return out
