"""cpy: copies bytes, casts vectors, transposes in tiles, or copies element by element."""

from __future__ import annotations

import math
from itertools import pairwise

from pykernels._generated.bodies import cpy as cpy_body
from pykernels._generated.bodies import cpy_block, cpy_bytes, cpy_cast, cpy_rows, cpy_tile
from pykernels.dtypes import DTYPES
from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.fft import complex as pairs
from pykernels.plans.parts import parts
from pykernels.plans.runs import KINDS, chunks, lane_bits, runs
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View, contiguous_strides, merge_axes

from .tiles import block_sides, tile_sides

__all__ = ["plan"]

SHORTEST = 32  # fewest bytes of a row that lanes share
LONG = 64  # a tile saves time if one side has at least this length, even if the other side is short


def plan(caps: Caps, scratch: Scratch, src: View, dst: View) -> list[Step]:
    """Copy src to dst, which have the same shape, or the same number of elements in C order."""
    _check(src, dst)
    if src.size == 0:
        return []
    if dst.dtype.kind == "c" != src.dtype.kind:
        return _of_real(caps, scratch, src, dst)
    if src.contiguous and dst.contiguous:
        return _contiguous(caps, src, dst)
    pair = _same_shape(src, dst)
    if pair is None:
        dtype = src.dtype if src.dtype.itemsize <= dst.dtype.itemsize else dst.dtype
        between = scratch.empty(src.shape, dtype.name)
        return [*plan(caps, scratch, src, between), *plan(caps, scratch, between, dst)]
    return [step for s, d in _split(caps, *pair) for step in _strided(caps, s, d)]


def _check(src: View, dst: View) -> None:
    if src.size != dst.size:
        raise ShapeError(
            f"[cpy] dst must have the shape or the number of elements of src, {src.shape}, "
            f"but has shape {dst.shape}"
        )
    names = {src.dtype.name, dst.dtype.name}
    if "int64" in names and not names <= {"int64", "int32"}:
        raise DTypeError(
            f"[cpy] int64 converts to and from int32 only, but src is {src.dtype.name} and dst "
            f"{dst.dtype.name}"
        )
    if src.dtype.kind == "c" != dst.dtype.kind:
        raise DTypeError(
            f"[cpy] {src.dtype.name} does not convert to {dst.dtype.name}: take .real, .imag or "
            "abs of it"
        )


def _of_real(caps: Caps, scratch: Scratch, src: View, dst: View) -> list[Step]:
    """Copies real numbers to complex numbers. If src is not float32, or does not have the shape of
    dst, it is first copied to a float32 temporary of this shape."""
    if src.dtype.name == "float32" and src.shape == dst.shape:
        return pairs.plan(caps, scratch, src, None, dst)
    real = scratch.empty(dst.shape, "float32")
    return [*plan(caps, scratch, src, real), *pairs.plan(caps, scratch, real, None, dst)]


def _contiguous(caps: Caps, src: View, dst: View) -> list[Step]:
    if src.dtype == dst.dtype:
        return [cpy_bytes.step(caps, s, d) for s, d in chunks(caps, [src, dst])]
    flat = [v.with_layout((v.size,), (v.dtype.itemsize,)) for v in (src, dst)]
    if "int64" in (src.dtype.name, dst.dtype.name):
        return [step for s, d in _split(caps, *flat) for step in _strided(caps, s, d)]
    return [
        cpy_cast.step(caps, s, d, src_kind=KINDS[s.dtype.name], dst_kind=KINDS[d.dtype.name])
        for s, d in _split(caps, *flat)
    ]


def _same_shape(src: View, dst: View) -> tuple[View, View] | None:
    """Both views with the same shape. If the copy reshapes, this shape refines both of their
    shapes; None if there is no such shape."""
    if src.shape == dst.shape:
        return src, dst
    if src.contiguous:
        strides = contiguous_strides(dst.shape, src.dtype.itemsize)
        return src.with_layout(dst.shape, strides), dst
    if dst.contiguous:
        strides = contiguous_strides(src.shape, dst.dtype.itemsize)
        return src, dst.with_layout(src.shape, strides)
    shape = _refine(src.shape, dst.shape)
    return None if shape is None else (_over(src, shape), _over(dst, shape))


def _refine(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape with the fewest axes from which both `a` and `b` can be made by merging
    neighbouring axes; None if there is no such shape."""

    def cuts(shape: tuple[int, ...]) -> set[int]:
        return {math.prod(shape[i:]) for i in range(len(shape) + 1)}

    marks = sorted(cuts(a) | cuts(b), reverse=True)
    if any(m % n for m, n in pairwise(marks)):
        return None
    return tuple(m // n for m, n in pairwise(marks))


def _over(view: View, shape: tuple[int, ...]) -> View:
    """The view over a refinement of its shape."""
    strides: list[int] = []
    parts = list(shape)
    for n, step in zip(reversed(view.shape), reversed(view.strides), strict=True):
        inner = 1
        while inner < n:
            strides.append(step * inner)
            inner *= parts.pop()
    strides += [0] * (len(shape) - len(strides))
    return view.with_layout(shape, tuple(reversed(strides)))


def _split(caps: Caps, src: View, dst: View) -> list[tuple[View, View]]:
    """The copy in parts whose windows fit one binding."""
    axes = [{"src": axis, "dst": axis} for axis in range(src.ndim)]
    found = parts(caps, {"src": src, "dst": dst}, axes)
    return [(part.views["src"], part.views["dst"]) for part in found]


def _strided(caps: Caps, src: View, dst: View) -> list[Step]:
    dims, (s_steps, d_steps) = merge_axes(src.shape, [src.strides, dst.strides])
    # The axes in the order of the destination's steps, so that neighbouring invocations write
    # neighbouring elements.
    order = sorted(range(len(dims)), key=lambda a: (-abs(d_steps[a]), -abs(s_steps[a])))
    dims, (s_steps, d_steps) = merge_axes(
        tuple(dims[a] for a in order),
        [tuple(s[a] for a in order) for s in (s_steps, d_steps)],
    )
    src, dst = src.with_layout(dims, s_steps), dst.with_layout(dims, d_steps)
    kinds = {"src_kind": KINDS[src.dtype.name], "dst_kind": KINDS[dst.dtype.name]}
    if src.dtype == dst.dtype:
        wide, wide_dst = runs(src, dst)
        # runs of one element may be transposed, longer runs are not
        if src.ndim > 1 and wide.shape[-1] == 1:
            src, dst = _without_last(wide), _without_last(wide_dst)
            kinds = {"src_kind": 0, "dst_kind": 0}
    tile = _tile_axis(src, dst, caps.tuning.copy.tile_side)
    if tile is not None:
        return [_transposed(caps, _last_two(src, tile), _last_two(dst, tile), kinds)]
    if src.dtype == dst.dtype:
        src, dst = runs(src, dst)
        kinds = {"src_kind": 0, "dst_kind": 0}
        if _in_rows(src, dst):
            return [_rows(caps, src, dst)]
    return [cpy_body.step(caps, src, dst, S=src.dtype.itemsize, D=dst.dtype.itemsize, **kinds)]


def _without_last(view: View) -> View:
    return view.with_layout(view.shape[:-1], view.strides[:-1])


def _transposed(caps: Caps, src: View, dst: View, kinds: dict[str, int]) -> Step:
    """Copy a matrix, or a batch of matrices: columns are contiguous in src, rows in dst."""
    height, width = dst.shape[-2], dst.shape[-1]
    size = dst.dtype.itemsize
    side = _block(src, dst)
    if side:
        rows, cols = block_sides(height // side, width // side, 8)
        return cpy_block.step(caps, src, dst, SIDE=side, row_bits=rows, col_bits=cols)
    t = tile_sides(height, width, 10 if size >= 8 else 12, size)
    return cpy_tile.step(
        caps, src, dst, S=src.dtype.itemsize, D=size, row_bits=t.rows, left=t.left, right=t.right,
        **kinds,
    )  # fmt: skip


def _tile_axis(src: View, dst: View, least: int) -> int | None:
    """The axis along which src is contiguous. There is a result only if dst is contiguous along its
    last axis, and if both axes have size `least` or more, or one of them is long."""
    last = dst.ndim - 1
    item_s, item_d = src.dtype.itemsize, dst.dtype.itemsize
    if "int64" in (src.dtype.name, dst.dtype.name) and src.dtype != dst.dtype:
        return None
    if dst.strides[last] != item_d or src.strides[last] == item_s or dst.ndim > 6:
        return None
    for axis in range(last):
        low = min(src.shape[axis], dst.shape[last])
        high = max(src.shape[axis], dst.shape[last])
        if src.strides[axis] == item_s and (low >= least or (low > 1 and high >= LONG)):
            return axis
    return None


def _block(src: View, dst: View) -> int:
    """The side of blocks whose rows are vectors in src and in dst, of 16 bytes if possible; 0 if
    there are no such blocks."""
    size = src.dtype.itemsize
    # If a row has fewer than 8 elements, its store fills a memory sector only in part.
    if src.dtype != dst.dtype or size not in (2, 4) or dst.shape[-1] < 8:
        return 0
    fits = (n for n in (16 // size, 4) if src.vectorizable(n, -2) and dst.vectorizable(n, -1))
    return next(fits, 0)


def _in_rows(src: View, dst: View) -> bool:
    """True if both views have rows that are long enough for lanes to share them. They are rows of
    words, or rows of bytes, which may begin at any byte of a word."""
    item = src.dtype.itemsize
    spans = [v.window[1] - v.window[0] for v in (src, dst)]
    return (
        item <= 4
        and src.strides[-1] == dst.strides[-1] == item
        and src.shape[-1] * item >= SHORTEST
        and max(spans) < 1 << 31  # the indices of bytes must fit 32 bits
        and src.ndim <= 6
    )


def _rows(caps: Caps, src: View, dst: View) -> Step:
    width = src.shape[-1]
    if src.dtype.itemsize < 4:
        src, dst = _bytes(src), _bytes(dst)
        width = src.shape[-1] // 4 + 2
    bits = lane_bits(cdiv(width, 4), 256)
    return cpy_rows.step(caps, src, dst, lane_bits=bits, tiles=cdiv(width, 4 << bits))


def _bytes(view: View) -> View:
    """The view with its last axis, which is contiguous, in bytes."""
    n = view.shape[-1] * view.dtype.itemsize
    return view.with_layout((*view.shape[:-1], n), (*view.strides[:-1], 1), DTYPES["uint8"])


def _last_two(view: View, axis: int) -> View:
    """The view with `axis` moved to the place before the last axis."""
    order = [a for a in range(view.ndim) if a not in (axis, view.ndim - 1)]
    order += [axis, view.ndim - 1]
    return view.with_layout(
        tuple(view.shape[a] for a in order), tuple(view.strides[a] for a in order)
    )
