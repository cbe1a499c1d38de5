"""cpy: copies of any layout bit for bit, and conversions rounded as the reference says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES, numpy_dtype
from pykernels.kernels import cpy
from pykernels.plans.copy.tiles import block_sides, tile_sides
from pykernels.reference.copy import cpy as reference
from tests.harness import (
    DTYPE_NAMES,
    Array,
    Case,
    Form,
    Operand,
    assert_same,
    assert_same_bits,
    caps,
    forms,
    random_form,
    run_one,
    values,
)

pytestmark = pytest.mark.gpu

PAIRS = [
    (s, d)
    for s, d in itertools.product(DTYPE_NAMES, DTYPE_NAMES)
    if s == d or {s, d} == {"int64", "int32"} or ("int64" not in (s, d) and s != "complex64")
]
# One dtype of each size.
SIZES = ("uint8", "float16", "float32", "int64")
SWAPPED = Form(order=(0, 2, 1))

Copy = tuple[Operand, Operand]


def check(case: Case, copies: list[Copy]) -> None:
    """Run all copies of a case at once and compare each with the reference."""
    case.build()
    before = [s.array.copy() for s, _ in copies]
    results = case.run(lambda: [cpy(s.tensor, d.tensor) for s, d in copies])
    outputs = [o for o in case.operands if o.output]
    for got, d in zip(results, outputs, strict=True):
        i = next(i for i, (_, dst) in enumerate(copies) if dst is d)
        s = copies[i][0]
        want = reference(before[i], d.dtype, d.shape)  # type: ignore[arg-type]
        same = assert_same_bits if s.dtype == d.dtype else assert_same
        same(got, want, f"{s.dtype} {s.shape} {s.strides} at {s.first} -> {d.dtype} {d.shape} "
                        f"{d.strides} at {d.first}")  # fmt: skip


def add(case: Case, src: str, dst: str, shape: tuple[int, ...], s_form: Form, d_form: Form) -> Copy:
    s = case.input(values(case.rng, src, shape), s_form, buffer="src")
    return s, case.output(shape, dst, d_form, buffer="dst")


# -- conversions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("src", "dst"), PAIRS)
@pytest.mark.sample
def test_cpy_converts_by_the_reference(dev: pk.Device, src: str, dst: str) -> None:
    case = Case(dev, seed=len(src) * 31 + len(dst))
    copies = [
        add(case, src, dst, (2051,), Form(), Form()),  # vectors
        add(case, src, dst, (1029,), Form(phase=1), Form(phase=3)),  # words of the destination
        add(case, src, dst, (1030,), Form(phase=3), Form(phase=2)),
        add(case, src, dst, (519,), Form(steps=(3,)), Form(steps=(2,), phase=1)),  # elements
        add(case, src, dst, (2, 37, 41), SWAPPED, Form(phase=1)),  # tiles
    ]
    check(case, copies)


def every(dtype: str) -> Array:
    """Every value of a dtype of one or two bytes."""
    size = DTYPES[dtype].itemsize
    return np.arange(2 ** (8 * size), dtype=f"u{size}").view(numpy_dtype(dtype))  # type: ignore[arg-type]


@pytest.mark.parametrize("src", ("float16", "bfloat16", "int16", "uint16", "int8", "uint8"))
def test_cpy_converts_every_value_of_a_small_dtype(dev: pk.Device, src: str) -> None:
    case = Case(dev)
    s = case.input(every(src))
    targets = [d for d in DTYPE_NAMES if d != "int64"]
    check(case, [(s, case.output(s.shape, d)) for d in targets])


def around(dtype: str) -> Array:
    """float32: every value of a half dtype, the middle to the next one, and beside the middle."""
    exact = every(dtype).astype(np.float32)
    exact = np.sort(exact[np.isfinite(exact)])
    middle = ((exact[:-1].astype(np.float64) + exact[1:]) / 2).astype(np.float32)
    down, up = np.nextafter(middle, np.float32(-np.inf)), np.nextafter(middle, np.float32(np.inf))
    last = np.float32([65519.99, 65520.0, 65520.01, 3.3895e38, 3.3961e38, 3.4e38, np.inf, np.nan])
    return np.concatenate([exact, middle, down, up, last, -last])


@pytest.mark.parametrize("dst", ("float16", "bfloat16"))
def test_cpy_rounds_to_nearest_even(dev: pk.Device, dst: str) -> None:
    x = around(dst)
    assert_same(run_one(dev, cpy, [x], x.shape, dst), reference(x, dst))  # type: ignore[arg-type]


def test_cpy_keeps_nan_payloads(dev: pk.Device) -> None:
    for dtype, patterns in (("float32", np.uint32([0x7F800001, 0xFFC12345, 0x7FFFFFFF])),
                            ("float16", np.uint16([0x7C01, 0xFE55, 0x7FFF]))):  # fmt: skip
        x = np.tile(patterns, 5).view(dtype)
        case = Case(dev)
        check(case, [
            (case.input(x, f), case.output(x.shape, dtype, g))
            for f in (Form(), Form(phase=1)) for g in (Form(), Form(steps=(2,)))
        ])  # fmt: skip


def test_cpy_rounds_integers_to_bfloat16_once(dev: pk.Device) -> None:
    # By way of a float32 rounded to nearest, these would end on the wrong side of a tie.
    x = np.int32([2**30 + 2**22 + 1, 2**30 + 2**22, 2**30 + 2**22 - 1, -(2**30) - 2**22 - 1])
    got = run_one(dev, cpy, [x], x.shape, "bfloat16").astype(np.float64)
    assert got.tolist() == [2**30 + 2**23, 2**30, 2**30, -(2**30) - 2**23]


# -- sizes and layouts ----------------------------------------------------------------------------


@pytest.mark.parametrize("phase", range(16))
def test_cpy_bytes_at_every_phase(dev: pk.Device, phase: int) -> None:
    case = Case(dev)
    sizes = (0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 255, 256, 257, 4095, 4096, 4097)
    check(case, [
        add(case, "uint8", "uint8", (n,), Form(phase=phase), Form(phase=(i * 5 + n) % 17))
        for n in sizes for i in range(4)
    ])  # fmt: skip


@pytest.mark.parametrize("n", (0, 1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1025))
def test_cpy_casts_of_every_size(dev: pk.Device, n: int) -> None:
    case = Case(dev)
    check(case, [
        add(case, s, d, (n,), Form(phase=p), Form(phase=q))
        for s, d in itertools.permutations(("int8", "float16", "float32"), 2)
        for p, q in ((0, 0), (1, 0), (0, 1), (4, 4), (3, 2), (2, 3))
    ])  # fmt: skip


@pytest.mark.sample
@pytest.mark.parametrize("tail", (0, 3, 8, 12))
@pytest.mark.parametrize("dtype", SIZES)
def test_cpy_at_the_end_of_a_buffer(dev: pk.Device, dtype: str, tail: int) -> None:
    """No binding may be rounded up past the end of a buffer that the caller owns."""
    for shape, form in (((5,), Form()), ((13,), Form(phase=1)), ((3, 8), Form(gap=8)),
                        ((9, 10), Form(order=(1, 0)))):  # fmt: skip
        for dst in {dtype, "int32", "uint8" if dtype != "int64" else "int32"}:
            case = Case(dev, tail=tail)
            check(case, [(case.input(values(case.rng, dtype, shape), form),
                          case.output(shape, dst, form))])  # fmt: skip


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("form", forms(3, repeats=True))
@pytest.mark.sample
def test_cpy_from_any_layout(dev: pk.Device, form: str, dtype: str) -> None:
    case = Case(dev)
    s_form = forms(3, repeats=True)[form]
    shapes = ((4, 5, 6), (2, 16, 32), (3, 1, 8), (2, 33, 9), (1, 1, 1), (0, 3, 4))
    check(case, [
        add(case, dtype, dtype, shape, s_form, d)
        for shape in shapes for d in (Form(), Form(phase=1), Form(gap=1))
    ])  # fmt: skip


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("form", forms(3, repeats=False))
@pytest.mark.sample
def test_cpy_to_any_layout(dev: pk.Device, form: str, dtype: str) -> None:
    case = Case(dev)
    d_form = forms(3, repeats=False)[form]
    shapes = ((4, 5, 6), (2, 16, 32), (3, 1, 8), (2, 33, 9), (1, 1, 1), (3, 0, 4))
    check(case, [
        add(case, dtype, dtype, shape, s, d_form)
        for shape in shapes for s in (Form(), Form(phase=1), SWAPPED)
    ])  # fmt: skip


@pytest.mark.parametrize("width", (8, 9, 31, 32, 33, 63, 64, 65))
def test_cpy_transposes(dev: pk.Device, width: int) -> None:
    case = Case(dev)
    swapped = Form(order=(1, 0))
    check(case, [
        add(case, s, d, (height, width), f, g)
        for height in (8, 31, 33, 70)
        for s, d in (("uint8", "uint8"), ("float16", "float16"), ("float32", "float32"),
                     ("int64", "int64"), ("float32", "float16"), ("int8", "float32"))
        for f, g in ((swapped, Form(phase=1)), (Form(phase=1, order=(1, 0)), Form(gap=1)))
    ])  # fmt: skip


@pytest.mark.parametrize("dtype", ("float16", "float32"))
def test_cpy_transposes_blocks(dev: pk.Device, dtype: str) -> None:
    """Sides that are multiples of four or eight, aligned: any sign of the strides, around 64."""
    case = Case(dev)
    swapped = (Form(order=(0, 2, 1)), Form(order=(0, 2, 1), steps=(1, 1, -1)),
               Form(order=(0, 2, 1), steps=(-1, 1, 1), gap=4, phase=4))  # fmt: skip
    straight = (Form(), Form(steps=(1, -1, 1)), Form(steps=(-1, -2, 1), gap=8, phase=8))
    check(case, [
        add(case, dtype, dtype, (2, height, width), f, g)
        for height, width in ((8, 8), (12, 64), (64, 60), (68, 128), (72, 136))
        for f in swapped for g in straight
    ])  # fmt: skip


@pytest.mark.parametrize("dtype", SIZES)
def test_cpy_transposes_narrow_matrices(dev: pk.Device, dtype: str) -> None:
    """One side short, alone and in batches: tiles that are not square, some matrices in one."""
    case = Case(dev)
    swapped = Form(order=(0, 2, 1))
    check(case, [
        add(case, dtype, dtype, shape, f, g)
        for shape in ((2, 3, 700), (2, 700, 3), (3, 16, 600), (3, 600, 16), (2, 5, 1100),
                      (1, 1100, 2), (2, 4, 300), (2, 300, 4), (70, 8, 8), (9, 12, 20), (2, 68, 300))
        for f, g in ((swapped, Form()), (Form(order=(0, 2, 1), gap=1), Form(phase=1)))
    ])  # fmt: skip


@pytest.mark.parametrize("run", (1, 2, 4, 6))
@pytest.mark.parametrize("dtype", ("uint8", "float16", "float32"))
def test_cpy_permutes_runs(dev: pk.Device, dtype: str, run: int) -> None:
    """Elements that stay together: transposed as one where they are 2, 4, 8 or 16 bytes."""
    case = Case(dev)
    check(case, [
        add(case, dtype, dtype, shape, Form(order=order), Form(phase=phase))
        for order in ((1, 0, 2, 3), (2, 1, 0, 3), (1, 2, 0, 3), (0, 2, 1, 3), (3, 1, 2, 0))
        for shape in ((9, 3, 70, run), (33, 10, 12, run))
        for phase in (0, run)
    ])  # fmt: skip


@pytest.mark.parametrize("dtype", ("uint8", "float16", "float32"))
def test_cpy_moves_rows_at_every_phase(dev: pk.Device, dtype: str) -> None:
    """Rows whose sides differ in phase: lanes that share one, rows that share a word, long rows."""
    case = Case(dev)
    check(case, [
        add(case, dtype, dtype, shape, Form(gap=a, phase=p), Form(gap=b, phase=q))
        for shape in ((5, 33), (3, 2, 67), (40, 129), (2, 5000))
        for a, b, p, q in ((1, 0, 0, 0), (1, 1, 1, 2), (0, 1, 3, 0), (3, 2, 2, 3), (0, 5, 0, 1))
    ])  # fmt: skip


def test_sides_of_tiles() -> None:
    """As much of a tile as its matrix allows, and no bank twice for neighbours on either side."""
    for bits, nbytes in ((12, 4), (10, 16)):
        for height, width in itertools.product((2, 3, 5, 16, 17, 100, 4096), repeat=2):
            sides = tile_sides(height, width, bits, nbytes)
            rows, cols = 1 << sides.rows, 1 << sides.cols
            assert sides.rows + sides.cols <= bits
            if {height, width} <= {4096}:
                assert rows == cols
            r, c = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
            cells = c * rows + (r ^ (((c << sides.left) >> sides.right) & (rows - 1)))
            assert sorted(cells.reshape(-1)) == list(range(rows * cols))
            banks = 128 // nbytes
            along_rows, along_cols = cells.T.reshape(-1, banks), cells.reshape(-1, banks)
            for lanes in (along_rows, along_cols):
                assert all(len(set(some % banks)) == banks for some in lanes), sides
    assert tile_sides(4096, 16, 12, 4)[:2] == (8, 4)
    assert tile_sides(3, 9999, 12, 4)[:2] == (2, 10)
    assert block_sides(1024, 1024, 8) == (4, 4)
    assert block_sides(1024, 4, 8) == (6, 2)
    assert block_sides(4, 1024, 8) == (2, 6)
    assert block_sides(2, 2, 8) == (1, 1)


def test_cpy_without_axes(dev: pk.Device) -> None:
    case = Case(dev)
    check(case, [add(case, s, d, (), Form(phase=p), Form(phase=3 - p))
                 for s, d in (("float32", "float16"), ("uint8", "uint8"), ("int64", "int32"))
                 for p in range(4)])  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_cpy_random_layouts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = Case(dev, seed)
    copies = []
    for _ in range(16):
        src, dst = PAIRS[rng.integers(len(PAIRS))]
        ndim = int(rng.integers(1, 7))
        shape = tuple(int(n) for n in rng.integers(1, 2 + 60 // 2**ndim, ndim))
        forms_ = random_form(rng, ndim, repeats=True), random_form(rng, ndim, repeats=False)
        copies.append(add(case, src, dst, shape, *forms_))
    check(case, copies)


def test_cpy_reshapes(dev: pk.Device) -> None:
    case = Case(dev)
    copies = []
    for s_shape, d_shape in (((6, 4), (24,)), ((6, 4), (2, 3, 4)), ((2, 3, 4), (6, 4)),
                             ((24,), (4, 6)), ((1, 24), (24, 1)), ((6, 4), (3, 2, 2, 2)),
                             ((4, 3), (6, 2)), ((), (1, 1)), ((2, 0), (0, 7))):  # fmt: skip
        for f in (Form(), Form(gap=2, phase=1), Form(steps=(-1,) * len(s_shape))):
            for g in (Form(), Form(gap=2, phase=1)):
                for s, d in (("float16", "float16"), ("uint8", "float32")):
                    source = case.input(values(case.rng, s, s_shape), f, buffer="src")
                    copies.append((source, case.output(d_shape, d, g, buffer="dst")))
    check(case, copies)


def test_cpy_between_strided_shapes_without_a_common_index(dev: pk.Device) -> None:
    """Through a contiguous temporary, of the smaller dtype."""
    case = Case(dev)
    pairs = (((4, 3, 2, 3), (2, 4, 3, 3)), ((4, 3), (6, 2)), ((6, 35), (10, 21)), ((5, 6), (3, 10)))
    dtypes = (
        ("float32", "float32"),
        ("float32", "float16"),
        ("uint8", "float32"),
        ("int64", "int32"),
    )
    copies = []
    for (s_shape, d_shape), (s, d) in itertools.product(pairs, dtypes):
        turned = [
            Form(order=tuple(range(len(shape)))[::-1], phase=1) for shape in (s_shape, d_shape)
        ]
        for f, g in (turned, (Form(gap=1), Form(gap=2, phase=3)), (turned[0], Form(gap=1))):
            source = case.input(values(case.rng, s, s_shape), f, buffer="src")
            copies.append((source, case.output(d_shape, d, g, buffer="dst")))
    check(case, copies)
    x = dev.rand((4, 3, 2, 3), seed=0)
    dst = dev.zeros((2, 4, 3, 3))
    cpy(x.transpose(2, 0, 1, 3), dst.transpose(0, 2, 1, 3))
    want = x.numpy().transpose(2, 0, 1, 3).reshape(2, 3, 4, 3).transpose(0, 2, 1, 3)
    assert np.array_equal(dst.numpy(), want)
    both = dev.rand((6, 10), seed=0)  # each element before the first is overwritten
    want = both.numpy()
    turned = want[:, ::2].reshape(3, 10).copy()
    want[::2] = turned
    cpy(both[:, ::2], both[::2])
    assert np.array_equal(both.numpy(), want)


# -- large, folded, split -------------------------------------------------------------------------


def test_cpy_splits_what_no_binding_holds(dev: pk.Device) -> None:
    with caps(dev, max_binding=2 * dev._context.caps.alignment + 2048):
        case = Case(dev)
        swapped = Form(order=(1, 0))
        copies = [
            add(case, s, d, shape, f, g)
            for s, d in (("float32", "float32"), ("uint8", "uint8"), ("float16", "float32"),
                         ("float32", "uint8"), ("int64", "int32"))
            for shape in ((71, 39), (3, 2100))
            for f, g in ((Form(phase=1), Form(phase=3)), (swapped, Form()), (Form(gap=1), Form()),
                         (Form(steps=(0, -1)), Form(phase=1)), (Form(), Form(steps=(-1, 2))))
        ]  # fmt: skip
        check(case, copies)
    with caps(dev, max_binding=2 * dev._context.caps.alignment + 1024):
        for dtype in ("uint8", "float16"):
            case = Case(dev, tail=0)
            check(case, [(case.input(values(case.rng, dtype, 2049), Form(phase=5)),
                          case.output((2049,), dtype, Form(phase=3)))])  # fmt: skip


@pytest.mark.crowd
@pytest.mark.parametrize("dtypes", (("uint8", "uint8"), ("float32", "float16")))
def test_cpy_folds_a_long_grid(dev: pk.Device, dtypes: tuple[str, str]) -> None:
    with caps(dev, max_groups=1):
        case = Case(dev)
        check(case, [
            add(case, *dtypes, (9, 131), Form(phase=1), Form(phase=2)),
            add(case, *dtypes, (9, 131), Form(steps=(1, 2)), Form(gap=1)),
        ])  # fmt: skip


@pytest.mark.crowd
def test_cpy_folds_a_long_grid_of_tiles(dev: pk.Device) -> None:
    with caps(dev, max_groups=1):
        case = Case(dev)
        check(case, [add(case, s, d, (35, 131), Form(order=(1, 0)), Form())
                     for s, d in (("uint8", "uint8"), ("float32", "float32"))])  # fmt: skip


def test_cpy_again_with_the_same_tensors(dev: pk.Device) -> None:
    """The second launch on the same views takes a kept bind group."""
    for src, dst in (("uint8", "uint8"), ("float32", "float16"), ("int64", "int32")):
        rng = np.random.default_rng(0)
        s, d = dev.empty((3, 5), src), dev.empty((5, 3), dst)  # type: ignore[arg-type]
        for _ in range(3):
            x = values(rng, src, (3, 5))
            s.write(x)
            cpy(s.T, d)
            assert_same(d.numpy(), reference(x.T, dst))  # type: ignore[arg-type]


# -- one buffer -----------------------------------------------------------------------------------


def shared(
    dev: pk.Device, data: Array, dtype: str, s_form: Form, d_form: Form, how: str, delta: int = 0
) -> tuple[Array, Array]:
    """The same copy within one buffer and between two: both results."""
    results = []
    for together in (True, False):
        case = Case(dev, seed=3)
        s = case.input(data, s_form, buffer="one")
        where: dict[str, object] = {"buffer": "one" if together else "two"}
        if together and how == "touching":
            where["near"] = 0
        elif together and how == "over":
            where = {"over": s, "delta": delta}
        d = case.output(data.shape, dtype, d_form, **where)
        case.build()
        results += case.run(lambda s=s, d=d: cpy(s.tensor, d.tensor))  # type: ignore[misc]
    return results[0], results[1]


@pytest.mark.sample
@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("how", ("apart", "touching", "over"))
def test_cpy_within_one_buffer(dev: pk.Device, how: str, dtype: str) -> None:
    item = DTYPES[dtype].itemsize
    rng = np.random.default_rng(5)
    shape = (12, 20)
    layouts = (Form(), Form(phase=1), Form(order=(1, 0)), Form(steps=(1, 2)), Form(steps=(-1, 1)))
    deltas = (0, 1, -1, 3, 17, 20, 64) if how == "over" else (0,)
    for s_form, d_form, delta in itertools.product(layouts[:4], layouts, deltas):
        # The mirror decides what the source is: an overlapping destination holds its bytes, too.
        data = values(rng, dtype, shape)
        got, want = shared(dev, data, dtype, s_form, d_form, how, delta * item)
        assert_same_bits(got, want, f"{how} {delta} {s_form} {d_form}")
        if dtype in ("uint8", "float16") and delta % 2 == 0 and how != "over":
            got, want = shared(dev, data, "int32" if item == 1 else "float32", s_form, d_form, how)
            assert_same_bits(got, want, f"cast, {how} {s_form} {d_form}")


def test_cpy_between_interleaved_views(dev: pk.Device) -> None:
    for dtype in SIZES:
        item = DTYPES[dtype].itemsize
        data = values(np.random.default_rng(1), dtype, (7, 9))
        for form in (Form(steps=(1, 2)), Form(steps=(2, 1)), Form(steps=(1, -2), phase=1)):
            case = Case(dev)
            s = case.input(data, form)
            step = item if form.steps[1] != 1 else 9 * item
            d = case.output((7, 9), dtype, form, over=s, delta=step)
            check(case, [(s, d)])


# -- refusals -------------------------------------------------------------------------------------


def test_cpy_rejects(dev: pk.Device) -> None:
    f32 = dev.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    with pytest.raises(pk.ShapeError, match=r"\[cpy\] dst .* src, \(3, 4\), .* shape \(5,\)"):
        cpy(f32, dev.zeros(5))
    for name in ("float32", "uint32", "int8", "bool"):
        with pytest.raises(pk.DTypeError, match=rf"\[cpy\] int64 .* dst {name}"):
            cpy(dev.zeros(4, "int64"), dev.zeros(4, name))  # type: ignore[arg-type]
        with pytest.raises(pk.DTypeError, match=rf"\[cpy\] int64 .* src is {name}"):
            cpy(dev.zeros(4, name), dev.zeros(4, "int64"))  # type: ignore[arg-type]
    with pytest.raises(pk.AliasError, match=r"\[cpy\] dst is broadcast or overlaps itself"):
        cpy(f32, f32[:1].broadcast_to((3, 4)))
    with pytest.raises(
        pk.DTypeError, match=r"\[cpy\] src must be a pykernels.Tensor but is numpy.nd"
    ):
        cpy(np.zeros(3), f32)  # type: ignore[arg-type]
    deep = dev.zeros((2,) * 14)[(slice(None), 0) * 7]
    with pytest.raises(pk.LimitError, match=r"\[cpy\] at most 6 axes"):
        cpy(deep, dev.zeros((2,) * 7))
    assert np.array_equal(f32.numpy(), np.arange(12).reshape(3, 4))
