"""Layouts against numpy's strided arrays: extents, merging, index spaces, alignment."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.runtime.overlap import overlaps_itself, share_elements
from pykernels.tensors.layout import (
    Nd,
    Rows,
    Tiles,
    View,
    Window,
    contiguous_strides,
    extent,
    is_contiguous,
    layout,
    merge_axes,
)
from tests.harness import Form, random_form

F32, F16, U8 = DTYPES["float32"], DTYPES["float16"], DTYPES["uint8"]


def positions(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> np.ndarray:
    """The byte of every element, in C order."""
    grid = np.indices(shape).reshape(len(shape), math.prod(shape))
    return offset + np.array(strides, int) @ grid


def random_layout(rng: np.random.Generator, repeats: bool = True) -> tuple[tuple[int, ...], Form]:
    ndim = int(rng.integers(0, 6))
    shape = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 5, ndim))
    return shape, random_form(rng, ndim, repeats=repeats)


@pytest.mark.parametrize("seed", range(40))
def test_extent_and_contiguity_agree_with_the_elements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for item in (1, 2, 4, 8):
        shape, form = random_layout(rng)
        strides = form.strides(shape, item)
        at = positions(shape, strides)
        want = (int(at.min()), int(at.max()) + item) if at.size else (0, 0)
        assert extent(shape, strides, item) == want
        in_order = at.tolist() == [i * item for i in range(at.size)]
        assert is_contiguous(shape, strides, item) == in_order
    assert contiguous_strides((2, 3, 4), 2) == (24, 8, 2)
    assert contiguous_strides((2, 0, 4), 2) == (8, 8, 2)


@pytest.mark.parametrize("seed", range(40))
def test_merge_axes_keeps_every_element(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, form = random_layout(rng)
    if 0 in shape:
        shape = tuple(max(n, 1) for n in shape)
    both = [form.strides(shape, 4), random_form(rng, len(shape), repeats=True).strides(shape, 2)]
    dims, merged = merge_axes(shape, both)
    assert dims == (1,) or (dims and all(n > 1 for n in dims))
    for before, after in zip(both, merged, strict=True):
        assert positions(shape, before).tolist() == positions(dims, after).tolist()


def test_merge_axes_joins_what_can_be_joined() -> None:
    assert merge_axes((2, 3, 4), [(48, 16, 4)]) == ((24,), [(4,)])
    assert merge_axes((2, 3, 4), [(64, 16, 4)]) == ((2, 12), [(64, 4)])
    assert merge_axes((2, 3), [(0, 0)]) == ((6,), [(0,)])
    assert merge_axes((2, 3), [(12, 4), (4, 8)]) == ((2, 3), [(12, 4), (4, 8)])
    assert merge_axes((5, 1, 3), [(12, 999, 4)]) == ((15,), [(4,)])
    assert merge_axes((4, 3), [(-12, -4)]) == ((12,), [(-4,)])
    assert merge_axes((), [()]) == ((1,), [(0,)])


def view(shape: tuple[int, ...], form: Form | None = None, dtype: str = "float32",
         offset: int = 0) -> View:  # fmt: skip
    dt = DTYPES[dtype]
    return View(0, dt, shape, (form or Form()).strides(shape, dt.itemsize), offset)


def test_index_spaces_put_the_innermost_level_first() -> None:
    it = Nd((2, 3, 4), {"x": view((2, 3, 4), Form(gap=1))})
    assert (it.total, it.levels, it.dims) == (24, 3, (4, 3, 2, 1, 1, 1))
    assert it.strides["x"] == (1, 5, 16, 0, 0, 0)
    rows = Rows((2, 3, 4), {"x": view((2, 3, 4)), "mask": None})
    assert (rows.rows, rows.cols, rows.levels) == (6, 4, 1)
    assert rows.strides["x"] == (4, 0, 0, 0, 0, 1)
    tiles = Tiles((2, 3, 4), {"x": view((2, 3, 4))})
    assert (tiles.batches, tiles.strides["x"]) == (2, (12, 0, 0, 0, 4, 1))


def test_index_spaces_refuse_too_many_axes() -> None:
    shape = (2,) * 7
    with pytest.raises(pk.LimitError, match="at most 6 axes are left after merging"):
        Nd(shape, {"x": view(shape, Form(gap=1))})
    Nd((2,) * 9, {"x": view((2,) * 9)})  # all of them merge


def elements(it: Nd | Rows | Tiles, name: str, tail: tuple[int, ...]) -> list[int]:
    """The element that each index of the space means, in C order."""
    dims = (*it.dims[: it.levels][::-1], *tail)
    steps = it.strides[name]
    strides = (*steps[: it.levels][::-1], *steps[it.LEVELS :])
    return positions(dims, strides).tolist()


REPEAT = [(4, 6), (1, 6), (4, 1), (6,), (1,), (), (4, 4, 6), (1, 4, 1), (3, 2, 4, 6), (3, 1, 1, 1)]


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        *((space, shape) for space in (Nd, Rows, Tiles) for shape in REPEAT),
        *((space, shape) for space in (Nd, Rows) for shape in ((2, 6), (2, 1), (4, 2, 1))),
    ],
)
def test_index_spaces_repeat_views(space: type[Nd | Rows | Tiles], shape: tuple[int, ...]) -> None:
    full = (3, 8, 4, 6)
    strides = contiguous_strides(shape, 4)
    it = space(full, {"w": view(shape), "x": view(full)}, ("w",))
    grid = np.indices(full).reshape(4, -1)[4 - len(shape) :] % np.array(shape, int)[:, None]
    tail = full[4 - space.TAIL :]
    assert elements(it, "w", tail) == (np.array(strides, int) @ grid // 4).tolist()
    assert elements(it, "x", tail) == list(range(math.prod(full)))


def test_index_spaces_repeat_two_views_at_once() -> None:
    views = {"a": view((2, 5)), "b": view((4, 5)), "x": view((8, 5))}
    it = Nd((8, 5), views, ("a", "b"))
    assert elements(it, "a", ()) == [i % 10 for i in range(40)]
    assert elements(it, "b", ()) == [i % 20 for i in range(40)]
    views = {"a": view((2, 5)), "b": view((3, 5)), "x": view((6, 5))}
    with pytest.raises(pk.LimitError, match="an axis of 6 cannot repeat 2 and 3 at once"):
        Nd((6, 5), views, ("a", "b"))


def test_index_spaces_refuse_views_that_do_not_fill_them() -> None:
    def space(kind: type[Nd | Rows | Tiles], *shape: int, repeats: tuple[str, ...] = ()) -> None:
        kind((4, 6), {"w": view(shape), "x": view((4, 6))}, repeats)

    for shape in ((6,), (1, 6), (4, 1), (1, 4, 6)):
        with pytest.raises(pk.ShapeError, match=r"w of shape .* does not fill an index space"):
            space(Nd, *shape)
    space(Rows, 4, 1)  # the columns are the body's
    space(Tiles, 5, 2)
    for shape in ((3, 6), (4, 3), (4,), (1, 4, 6)):
        with pytest.raises(pk.ShapeError, match=r"w of shape .* does not fill an index space"):
            space(Nd, *shape, repeats=("w",))
    with pytest.raises(pk.LimitError, match=r"the last 2 axes of \(4, 6\) cannot repeat by modulo"):
        space(Tiles, 2, 6, repeats=("w",))


def test_rows_take_vectors_only_where_everything_is_aligned() -> None:
    def vec(shape: tuple[int, ...], form: Form, offset: int = 0, dtype: str = "float32") -> bool:
        return Rows(shape, {"x": view(shape, form, dtype, offset)}).vec(4)

    assert vec((3, 8), Form()) and vec((3, 8), Form(gap=4)) and vec((3, 8), Form(steps=(-1, 1)))
    assert vec((1, 8), Form(gap=1))  # one row: its stride does not matter
    assert not vec((3, 6), Form()) and not vec((3, 8), Form(gap=1))
    assert not vec((3, 8), Form(steps=(1, 2))) and not vec((3, 8), Form(order=(1, 0)))
    assert not vec((3, 8), Form(), 4) and vec((3, 8), Form(), 16)
    assert vec((3, 8), Form(), 8, "float16") and not vec((3, 8), Form(), 4, "float16")


# -- which views share elements -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_share_elements_agrees_with_the_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = [int(n) for n in rng.choice([1, 2, 4], 2)]
    views, bytes_ = [], []
    for item in items:
        shape, form = random_layout(rng)
        offset = int(rng.integers(-4, 8)) * item
        strides = form.strides(shape, item)
        dtype = {1: U8, 2: F16, 4: F32}[item]
        views.append(View(0, dtype, shape, strides, offset))
        at = positions(shape, strides, offset)
        bytes_.append({int(b) + i for b in at for i in range(item)})
    assert share_elements(*views) == bool(bytes_[0] & bytes_[1])


def test_share_elements_of_interleaved_views() -> None:
    even, odd = view((9,), Form(steps=(2,))), view((9,), Form(steps=(2,)), offset=4)
    assert not share_elements(even, odd) and share_elements(even, even)
    assert share_elements(even, view((9,), Form(steps=(2,)), offset=8))


@pytest.mark.parametrize("seed", range(60))
def test_overlaps_itself_agrees_with_the_bytes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(0, 4))
    shape = tuple(int(n) for n in rng.integers(1, 6, ndim))
    strides = tuple(int(s) * 2 for s in rng.integers(-8, 9, ndim))
    at = np.sort(positions(shape, strides))
    want = bool((np.diff(at) < 2).any())
    assert overlaps_itself(layout(shape, strides, F16)) == want


def test_overlaps_itself_at_the_edges() -> None:
    assert not overlaps_itself(layout((), (), F32))
    assert not overlaps_itself(layout((0, 3), (0, 0), F32))
    assert not overlaps_itself(layout((1, 3), (0, 4), F32))
    assert overlaps_itself(layout((2, 3), (0, 4), F32))
    assert overlaps_itself(layout((3, 3), (4, 4), F32))
    assert not overlaps_itself(layout((2, 2), (4, 12), F32))
    assert not overlaps_itself(layout((3, 2), (8, 12), F32))  # 0 8 16, 12 20 28: crossed, apart
    assert overlaps_itself(layout((4, 2), (8, 16), F32))
    assert overlaps_itself(layout((5000, 5000), (4, 12), F32))
    assert not overlaps_itself(layout((5000, 5000), (20000, 4), F32))


# -- vectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_vectorizable_agrees_with_the_bytes(seed: int) -> None:
    """Along the axis, each n-th element begins a run of n neighbours at a multiple of its size."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        ndim, n = int(rng.integers(1, 4)), int(rng.choice([1, 2, 4]))
        axis = int(rng.integers(-ndim, ndim))
        shape = tuple(int(k) for k in rng.choice([1, 2, 3, 4, 8], ndim))
        steps = [int(s) * 2 for s in rng.choice([0, 1, 3, 4, 8, -4], ndim)]
        steps[axis] = int(rng.choice([2, 2, 2, 4]))
        v = View(0, F16, shape, tuple(steps), int(rng.choice([0, 0, 2, 8, 16])))
        at = np.moveaxis(
            v.offset + sum(
                (np.arange(k) * s).reshape([-1 if a == b else 1 for b in range(ndim)])
                for a, (k, s) in enumerate(zip(shape, steps, strict=True))
            ),
            axis, -1,
        )  # fmt: skip
        whole = shape[axis] % n == 0 and steps[axis] == 2
        assert v.vectorizable(n, axis) == (whole and bool((at[..., ::n] % (2 * n) == 0).all()))


@pytest.mark.parametrize(
    ("a", "b", "met"),
    [
        ((0, 4), (4, 8), False),
        ((0, 5), (4, 8), True),
        ((2, 3), (0, 9), True),
        ((9, 12), (0, 9), False),
    ],
)
def test_windows_overlap_where_they_have_a_byte_in_common(
    a: tuple[int, int], b: tuple[int, int], met: bool
) -> None:
    one, other = Window(*a), Window(*b)
    assert one.overlaps(other) is other.overlaps(one) is met
