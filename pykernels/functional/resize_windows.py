"""Windows of ggml's image encoders: views and copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pykernels._generated.kernels.cpy import KERNEL
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.kernels import cpy, fill
from pykernels.runtime.whole import whole
from pykernels.steps import cdiv
from pykernels.tensors.host import shape_of

__all__ = ["get_rel_pos", "win_part", "win_unpart"]

_PART, _UNPART, _REL_POS = (
    replace(KERNEL, name=op) for op in ("win_part", "win_unpart", "get_rel_pos")
)


@again
@whole
def win_part(x: Array, window: int, *, out: Tensor | None = None) -> Array:
    """An image cut into square windows, row by row, as ggml's win_part.

    A window that the edge of the image cuts is padded with zeros. Bits are copied.

    Args:
        x: Tensor or numpy array (H, W, C), any dtype.
        window: rows and columns of a window, w.
        out: The Tensor to write to; None makes one.

    Returns:
        (ceil(H / w) * ceil(W / w), w, w, C).

    Raises:
        ShapeError: x does not have three axes.
        ArgumentError: window is not an integer of 1 or more.
    """
    call = Call(_PART, x, out=out)
    t, w = call.tensor("src", x), _window("win_part", window)
    if t.ndim != 3:
        raise ShapeError(f"[win_part] x must have axes (H, W, C) but has shape {t.shape}")
    rows, cols, channels = t.shape
    down, across = cdiv(rows, w), cdiv(cols, w)
    result = call.out((down * across, w, w, channels), t.dtype)
    if rows % w or cols % w:
        fill(result, 0)
    for image, windows in _parts(t, result, w):
        cpy(image, windows)
    return call.leave(result)


@again
@whole
def win_unpart(x: Array, size: int | Sequence[int], *, out: Tensor | None = None) -> Array:
    """The image that `win_part` cut into windows, without its padding. Bits are copied.

    Args:
        x: Tensor or numpy array (windows, w, w, C), any dtype.
        size: (H, W) of the image, or one integer for both.
        out: The Tensor (H, W, C) to write to; None makes one.

    Raises:
        ShapeError: x does not hold the windows of such an image.
    """
    op = "win_unpart"
    call = Call(_UNPART, x, out=out)
    t = call.tensor("src", x)
    sizes = shape_of(size)
    if len(sizes) not in (1, 2):
        raise ShapeError(f"[{op}] size must be one or two sizes but is {size!r}")
    rows, cols = sizes * 2 if len(sizes) == 1 else sizes
    w = t.shape[1] if t.ndim == 4 else 0
    if t.ndim != 4 or w < 1 or t.shape[2] != w:
        raise ShapeError(f"[{op}] x must have axes (windows, w, w, C) but has shape {t.shape}")
    if t.shape[0] != cdiv(rows, w) * cdiv(cols, w):
        raise ShapeError(
            f"[{op}] an image of {rows} x {cols} has {cdiv(rows, w) * cdiv(cols, w)} windows of "
            f"{w} but x has shape {t.shape}"
        )
    result = call.out((rows, cols, t.shape[3]), t.dtype)
    for image, windows in _parts(result, t, w):
        cpy(windows, image)
    return call.leave(result)


@again
@whole
def get_rel_pos(x: Array, q: int, k: int) -> Array:
    """The embeddings of the distances of queries and keys: result[i, j] = x[i - j + k - 1].

    As ggml's get_rel_pos. For a Tensor the result is a view.

    Args:
        x: Tensor or numpy array (q + k - 1, C), any dtype: a row for each distance.
        q: number of queries, 1 or more.
        k: number of keys, 1 or more.

    Returns:
        (q, k, C).

    Raises:
        ShapeError: x has another shape.
        ArgumentError: q or k is not an integer of 1 or more.
    """
    op = "get_rel_pos"
    call = Call(_REL_POS, x)
    t = call.tensor("src", x)
    q, k = integer(op, "q", q), integer(op, "k", k)
    if min(q, k) < 1:
        raise ArgumentError(f"[{op}] q and k must be 1 or more but are {q} and {k}")
    if t.ndim != 2 or t.shape[0] != q + k - 1:
        raise ShapeError(f"[{op}] x must have shape ({q + k - 1}, C) but has {t.shape}")
    step, column = t.strides
    return call.leave(t._view((q, k, t.shape[1]), (step, -step, column), t.offset + (k - 1) * step))


def _window(op: str, window: int) -> int:
    window = integer(op, "window", window)
    if window < 1:
        raise ArgumentError(f"[{op}] window must be 1 or more but is {window}")
    return window


def _parts(image: Tensor, windows: Tensor, w: int) -> list[tuple[Tensor, Tensor]]:
    """Pairs of views, of the image and of the windows, with the same elements: for whole windows,
    and for windows that an edge cuts."""
    if image.size == 0:
        return []
    rows, cols, channels = image.shape
    across = cdiv(cols, w)
    grid = windows.reshape(cdiv(rows, w), across, w, w, channels)
    found = []
    for first, down, high in _cuts(rows, w):
        for left, right, wide in _cuts(cols, w):
            part = image[first : first + down * high, left : left + right * wide]
            views = grid[first // w : first // w + down, left // w : left // w + right]
            tiles = part.reshape(down, high, right, wide, channels)
            found.append((tiles, views[:, :, :high, :wide].transpose(0, 2, 1, 3, 4)))
    return found


def _cuts(size: int, w: int) -> list[tuple[int, int, int]]:
    """For the whole windows, and then for the last window that is cut: the first element in the
    image, the number of windows, and their size in the image."""
    whole, rest = divmod(size, w)
    parts = [(0, whole, w), (whole * w, 1, rest)]
    return [p for p in parts if p[1] and p[2]]
