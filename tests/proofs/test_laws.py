"""Laws of the pure parts: layouts, index spaces, parts of calls, aliases, promotion, grids.

Each says what must hold for every input, beside numpy or beside a count of elements; hypothesis
looks for an input where it does not. A failure is shrunk and printed as an example to keep.
"""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pykernels.call.promotion import promote, result_type, weak
from pykernels.contract import GRID_ROW
from pykernels.dtypes import DTYPES
from pykernels.errors import LimitError, ShapeError
from pykernels.plans.parts import fits_binding, in_levels, narrow, parts, row_parts
from pykernels.runtime.dispatch import fold
from pykernels.runtime.overlap import decide, overlaps_itself, rounded, share_elements
from pykernels.steps import Arg, Caps
from pykernels.tensors.layout import (
    Nd,
    View,
    contiguous_layout,
    contiguous_strides,
    expanded,
    expands_to,
    layout,
    merge_axes,
    repeated,
    repeats_to,
)
from pykernels.tensors.strides import broadcast, reshaped_strides, transposed
from pykernels.tuning import named

# The same examples each time, so that a change is judged by what it changed. PYKERNELS_LAWS=5000
# looks at that many others.
EXAMPLES = int(os.environ.get("PYKERNELS_LAWS", "0"))
laws = settings(
    max_examples=EXAMPLES or 100, derandomize=not EXAMPLES,
    deadline=None, suppress_health_check=[HealthCheck.too_slow],  # on a busy machine
)  # fmt: skip

SIZES = st.integers(1, 4)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
FULL = st.lists(SIZES, min_size=1, max_size=4).map(tuple)
NAMES = sorted(DTYPES)


def places(shape: Any, strides: Any, offset: int = 0) -> np.ndarray:
    """The byte of each element's start, in C order."""
    found = np.full((1,), offset, np.int64)
    for n, s in zip(shape, strides, strict=True):
        found = (found[:, None] + np.arange(n, dtype=np.int64) * s).ravel()
    return found


@st.composite
def views(draw: Any, shape: tuple[int, ...] | None = None, slot: int = 0) -> View:
    """A view as slices, transposes and broadcasts of a tensor make it: strides of any sign, 0."""
    shape = draw(SHAPES) if shape is None else shape
    dtype = DTYPES[draw(st.sampled_from(["float32", "float16", "uint8"]))]
    steps, step = {}, dtype.itemsize
    for axis in draw(st.permutations(range(len(shape)))):
        steps[axis] = draw(st.sampled_from([1, 1, 1, -1, 0])) * step
        step *= max(1, shape[axis]) * draw(st.sampled_from([1, 1, 2]))
    strides = tuple(steps[a] for a in range(len(shape)))
    low = min(0, *(places(shape, strides).tolist() or [0]))
    return View(slot, dtype, shape, strides, draw(st.integers(0, 20)) * dtype.itemsize - low)


def elements(v: View) -> set[int]:
    starts = places(v.shape, v.strides, v.offset)
    return {int(at) + i for at in starts for i in range(v.dtype.itemsize)}


@laws
@given(st.data(), FULL, st.integers(1, 3))
def test_merged_axes_name_the_same_elements_in_the_same_order(
    data: Any, shape: tuple[int, ...], count: int
) -> None:
    found = [data.draw(views(shape)) for _ in range(count)]
    dims, steps = merge_axes(shape, [v.strides for v in found])
    assert 1 <= len(dims) <= len(shape)
    for v, step in zip(found, steps, strict=True):
        assert np.array_equal(places(dims, step), places(shape, v.strides))
    # Merging once more changes nothing.
    assert merge_axes(dims, steps) == (dims, steps)


@laws
@given(st.data())
def test_views_share_elements_as_numpy_counts_them(data: Any) -> None:
    a, b = data.draw(views()), data.draw(views(slot=1))
    assert share_elements(a, b) == share_elements(b, a) == bool(elements(a) & elements(b))


@laws
@given(views())
def test_a_view_overlaps_itself_if_it_has_fewer_bytes_than_elements_fill(v: View) -> None:
    assert overlaps_itself(v) == (len(elements(v)) < v.nbytes)


@laws
@given(views())
def test_a_window_is_the_least_that_holds_all_elements(v: View) -> None:
    found = elements(v)
    if found:
        assert (v.window.start, v.window.end) == (min(found), max(found) + 1)
    else:
        assert v.window.start == v.window.end
    low, high = rounded(v, 256)
    assert low % 256 == 0 and high % 16 == 0 and low <= v.window.start and high >= v.window.end


@laws
@given(st.data(), FULL)
def test_repeats_follow_numpy_tile_or_modulo(data: Any, shape: tuple[int, ...]) -> None:
    own = tuple(
        data.draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0])) for n in shape
    )
    own = (*own[:-1], data.draw(st.sampled_from([1, shape[-1]])))
    own = own[data.draw(st.integers(0, len(own))) :]
    v, out = data.draw(views(own)), data.draw(views(shape, slot=1))
    assert repeats_to(own, shape)
    try:
        space, over = repeated(shape, len(shape) - 1, {"x": v, "dst": out}, ["x"])
    except LimitError:
        assume(False)
        return
    assert math.prod(space) == math.prod(shape)
    full = (1,) * (len(shape) - len(own)) + own
    index = np.indices(shape).reshape(len(shape), -1)
    strides = (0,) * (len(shape) - len(own)) + v.strides
    want = v.offset + sum(i % n * s for i, n, s in zip(index, full, strides, strict=True))
    got = over["x"].broadcast_to(space) if over["x"].shape != space else over["x"]
    assert np.array_equal(places(space, got.strides, v.offset), np.broadcast_to(want, got.size))
    assert np.array_equal(places(space, over["dst"].strides), places(shape, out.strides))


def caps(binding: int) -> Caps:
    return Caps(
        f16=True, subgroups=False, alignment=256, max_invocations=256,
        max_workgroup_bytes=16384, max_binding=binding, max_groups=65535,
        tuning=named("generic-large"),
    )  # fmt: skip


@laws
@given(st.data(), st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple))
def test_parts_hold_each_element_once_and_fit_the_binding(
    data: Any, shape: tuple[int, ...]
) -> None:
    a, b = data.draw(views(shape)), data.draw(views(shape, slot=1))
    small = caps(data.draw(st.sampled_from([320, 512, 1024, 4096])))
    axes = [{"a": i, "b": i} for i in range(len(shape))]
    try:
        found = parts(small, {"a": a, "b": b}, axes)
    except LimitError:
        return
    whole = np.arange(math.prod(shape)).reshape(shape)
    seen = []
    for part in found:
        sizes = part.views["a"].shape
        assert part.views["b"].shape == sizes
        assert all(fits_binding(small, v) for v in part.views.values())
        inside = tuple(slice(f, f + n) for f, n in zip(part.first, sizes, strict=True))
        seen.append(whole[inside].ravel())
        for name, v in (("a", a), ("b", b)):
            own = part.views[name]
            want = places(shape, v.strides, v.offset)[whole[inside].ravel()]
            assert np.array_equal(places(own.shape, own.strides, own.offset), want)
    assert np.array_equal(np.sort(np.concatenate(seen)), whole.ravel())


@laws
@given(st.data(), st.lists(st.integers(1, 4), min_size=3, max_size=7).map(tuple))
def test_parts_of_many_axes_merge_into_the_levels_asked(data: Any, shape: tuple[int, ...]) -> None:
    a, b = data.draw(views(shape)), data.draw(views(shape, slot=1))
    axes = [{"a": i, "b": i} for i in range(len(shape))]
    [whole] = parts(caps(1 << 27), {"a": a, "b": b}, axes)
    levels = data.draw(st.integers(2, 4))
    found = in_levels(whole, axes, levels)
    assert sum(p.views["a"].size for p in found) == a.size
    for part in found:
        views_ = part.views.values()
        assert len(merge_axes(part.views["a"].shape, [v.strides for v in views_])[0]) <= levels


@laws
@given(st.data(), st.lists(st.integers(1, 6), min_size=2, max_size=6).map(tuple))
def test_row_parts_keep_whole_rows(data: Any, shape: tuple[int, ...]) -> None:
    x, dst = data.draw(views(shape)), data.draw(views(shape, slot=1))
    found = row_parts(caps(1 << 27), shape, {"x": x, "dst": dst})
    assert {p.views["x"].shape[-1] for p in found} == {shape[-1]}
    got = np.concatenate(
        [places(p.views["x"].shape, p.views["x"].strides, p.views["x"].offset) for p in found]
    )
    assert np.array_equal(np.sort(got), np.sort(places(shape, x.strides, x.offset)))


@laws
@given(st.data(), FULL)
def test_a_narrowed_view_is_a_slice(data: Any, shape: tuple[int, ...]) -> None:
    v = data.draw(views(shape))
    axis = data.draw(st.integers(0, len(shape) - 1))
    first = data.draw(st.integers(0, shape[axis] - 1))
    size = data.draw(st.integers(1, shape[axis] - first))
    want = places(shape, v.strides, v.offset).reshape(shape)
    got = narrow(v, axis, first, size)
    inside = np.take(want, range(first, first + size), axis).ravel()
    assert np.array_equal(places(got.shape, got.strides, got.offset), inside)


@laws
@given(st.data(), FULL)
def test_what_a_call_binds_is_what_webgpu_allows(data: Any, shape: tuple[int, ...]) -> None:
    """No buffer is bound read-only and writable, and no two writable windows touch."""
    x, y, dst = (data.draw(views(shape, slot=i)) for i in range(3))
    assume(not overlaps_itself(dst))
    args = [
        Arg("x", "in", tuple(NAMES)),
        Arg("y", "in", tuple(NAMES)),
        Arg("dst", "out", tuple(NAMES), alias="x"),
    ]
    mode, copies = decide(args, {"x": x, "y": y, "dst": dst}, ["x", "y"], 16)
    assert mode in ("read", "rw", "merged")
    left = [n for n in ("x", "y") if n not in copies]
    if mode == "read":
        assert not left
    if mode == "rw":
        windows = [rounded({"x": x, "y": y, "dst": dst}[n], 16) for n in (*left, "dst")]
        for a, b in itertools.combinations(windows, 2):
            assert not a.overlaps(b)
    if mode == "merged":
        assert left == ["x"] and x.dtype == dst.dtype
        same = (x.offset, x.shape, x.strides) == (dst.offset, dst.shape, dst.strides)
        assert same or not elements(x) & elements(dst)


@laws
@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_shapes_expand_as_in_numpy(shapes: list[tuple[int, ...]]) -> None:
    try:
        want = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast"):
            expanded(*shapes)
        return
    assert expanded(*shapes) == want
    assert all(expands_to(s, want) for s in shapes)


@laws
@given(st.data(), SHAPES)
def test_layouts_move_as_numpy_arrays_do(data: Any, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, np.float32)
    own = contiguous_layout(shape, DTYPES["float32"])
    assert own.contiguous and own.strides == contiguous_strides(shape, 4)
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    moved = transposed(own, axes)
    assert moved.shape == array.transpose(axes).shape
    if array.size:
        assert moved.strides == array.transpose(axes).strides
    assert moved is layout(moved.shape, moved.strides, moved.dtype)
    wider = (
        data.draw(SIZES),
        *(data.draw(st.sampled_from([n, n] if n != 1 else [1, 3])) for n in shape),
    )
    got = broadcast(own, wider)
    assert np.array_equal(
        places(wider, got.strides), places(wider, np.broadcast_to(array, wider).strides)
    )


@laws
@given(st.data(), views())
def test_a_reshape_is_a_view_where_numpy_has_one(data: Any, v: View) -> None:
    size = v.size
    assume(size)
    factors: list[int] = []
    left = size
    while left > 1:
        factors.append(data.draw(st.sampled_from([d for d in range(2, left + 1) if left % d == 0])))
        left //= factors[-1]
    target = tuple(factors)
    own = layout(v.shape, v.strides, v.dtype)
    found = reshaped_strides(own, target)
    one = np.zeros(1, f"V{v.dtype.itemsize}")
    base = np.lib.stride_tricks.as_strided(one, v.shape, v.strides, writeable=False)
    try:
        np.reshape(base, target, copy=False)
        viewed = True
    except ValueError:
        viewed = False
    if viewed:
        assert found is not None
    if found is not None:
        assert np.array_equal(places(target, found), places(v.shape, v.strides))


@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(NAMES))
@laws
def test_promotion_is_a_lattice(a: str, b: str, c: str) -> None:
    assert promote(a, a) == a
    assert promote(a, b) == promote(b, a)
    both = promote(a, b)
    assert promote(a, both) == both or "int64" in (a, b)
    assert result_type([a, b]) == both
    assert result_type([a, weak("bool")]) == a
    del c


@laws
@given(st.integers(1, 65535 * GRID_ROW), st.sampled_from([65535, 1 << 20]))
def test_a_folded_grid_covers_all_groups_and_less_than_a_row_more(groups: int, limit: int) -> None:
    try:
        x, y = fold("test", groups, limit)
    except LimitError:
        assert groups > GRID_ROW * 65535
        return
    assert x <= limit and y <= 65535 and groups <= x * y < groups + x


@laws
@given(st.data(), FULL)
def test_an_index_space_counts_every_element(data: Any, shape: tuple[int, ...]) -> None:
    found = {"x": data.draw(views(shape)), "dst": data.draw(views(shape, slot=1))}
    try:
        space = Nd(shape, found)
    except (LimitError, ShapeError):
        assume(False)
        return
    assert space.total == math.prod(shape)
    for name, v in found.items():
        steps = [s * v.dtype.itemsize for s in space.strides[name][: space.levels]]
        dims = space.dims[: space.levels]
        assert np.array_equal(places(dims[::-1], steps[::-1]), places(shape, v.strides))
