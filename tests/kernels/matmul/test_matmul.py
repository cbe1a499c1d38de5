"""matmul by numpy's rules, and what the plans of mul_mat choose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.plans.cost import split_k
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.plans.matmul import mul_mat as plans
from pykernels.plans.matmul.select import GemmChoice, GemmShape, choose
from pykernels.steps import Caps, Scratch, cdiv
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named
from tests.harness import (
    assert_same_bits,
)
from tests.kernels.matmul.mul_mat_calls import (
    F16,
    F32,
)

gpu = pytest.mark.gpu


# -- matmul: numpy's rules ------------------------------------------------------------------------

FIT = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((4, 0), (0, 3)), ((0, 3), (3, 4)),
    ((5, 2, 3), (3,)), ((3,), (5, 3, 2)), ((0, 2, 3), (1, 3, 4)), ((0,), (0,)),
    ((2, 1, 2, 3, 4), (2, 1, 4, 5)),
]  # fmt: skip
UNFIT = [((), (3,)), ((3,), ()), ((2, 3), (4,)), ((3,), (2, 3)), ((2, 3, 4), (3, 4, 5)),
         ((2, 3), (2, 3))]  # fmt: skip


@gpu
@pytest.mark.parametrize("a_shape, b_shape", FIT, ids=str)
def test_matmul_has_numpys_shapes(
    dev: pk.Device, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, a_shape).astype(np.float32)
    b = rng.integers(-3, 4, b_shape).astype(np.float32)
    want = np.asarray(np.matmul(a, b))
    got = pk.matmul(dev.tensor(a), dev.tensor(b))
    assert isinstance(got, pk.Tensor)
    assert_same_bits(got.numpy(), want)
    out = dev.empty(want.shape, F16)
    assert pk.matmul(dev.tensor(a), b, out=out) is out
    assert_same_bits(out.numpy(), want.astype(np.float16))
    backwards = dev.tensor(a[..., ::-1].copy())[..., ::-1]
    bias = rng.integers(-3, 4, want.shape).astype(np.float32)
    got = pk.matmul(backwards, b, bias=bias, activation="relu")
    assert_same_bits(got.numpy(), np.maximum(want + bias, 0) + np.float32(0))


@gpu
@pytest.mark.parametrize("a_shape, b_shape", UNFIT, ids=str)
def test_matmul_refuses_what_numpy_refuses(
    dev: pk.Device, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> None:
    a, b = np.ones(a_shape, np.float32), np.ones(b_shape, np.float32)
    with pytest.raises(ValueError):
        np.matmul(a, b)
    with pytest.raises(pk.ShapeError, match=r"\[matmul\]") as e:
        pk.matmul(dev.tensor(a), dev.tensor(b))
    if a_shape and b_shape:
        assert str(a_shape) in str(e.value) and str(b_shape) in str(e.value)


@gpu
def test_matmul_dtypes_and_out(dev: pk.Device) -> None:
    half, full = dev.ones((2, 3), F16), dev.ones((3, 4))
    assert pk.matmul(half, full).dtype == F32
    assert pk.matmul(half, half.T).dtype == F16
    x = np.ones((2, 3), np.float32)
    assert isinstance(pk.matmul(x, x.T), np.ndarray)
    with pytest.raises(pk.DTypeError, match=r"\[matmul\] a must be .* but is float64"):
        pk.matmul(np.ones((2, 3)), np.ones((3, 4)))
    assert pk.matmul(np.ones((2, 3)), full).dtype == F32
    with pytest.raises(pk.DTypeError, match=r"\[matmul\] out must be .* but is int32"):
        pk.matmul(half, full, out=dev.zeros((2, 4), "int32"))
    with pytest.raises(pk.ShapeError, match=r"\[matmul\] out must have shape \(2, 4\)"):
        pk.matmul(half, full, out=dev.zeros((4, 2)))
    with pytest.raises(pk.ShapeError, match=r"\[matmul\] bias must broadcast to \(2, 4\)"):
        pk.matmul(half, full, bias=dev.ones(3))


@gpu
def test_matmul_with_residual_and_scale(dev: pk.Device) -> None:
    """act(scale * (a @ b) + bias + residual), for every place where a vector has no axis."""
    rng = np.random.default_rng(0)
    for a_shape, b_shape in (((5, 2, 3), (3, 4)), ((2, 3), (3,)), ((3,), (5, 3, 4)), ((3,), (3,))):
        a, b = (rng.integers(-3, 4, s).astype(F32) for s in (a_shape, b_shape))
        plain = np.asarray(np.matmul(a, b))
        bias = rng.integers(-3, 4, plain.shape[-1:]).astype(F32)
        residual = rng.integers(-3, 4, plain.shape).astype(F16)
        want = np.maximum(-2 * plain + bias + residual, 0).astype(F32) + np.float32(0)
        more: dict[str, Any] = {"scale": -2, "activation": "relu"}
        x = dev.tensor(a)
        for _ in range(2):  # the second call is known
            got = pk.matmul(x, dev.tensor(b), bias=dev.tensor(bias), residual=dev.tensor(residual),
                            **more)  # fmt: skip
            assert_same_bits(got.numpy(), want)
        assert_same_bits(pk.matmul(a, b, bias=bias, residual=residual, **more), want)
        # bias and residual are not each other's, known or not.
        got = pk.matmul(x, dev.tensor(b), residual=dev.tensor(residual))
        assert_same_bits(got.numpy() + 0, (plain + residual).astype(F32) + 0)
        got = pk.matmul(x, dev.tensor(b), bias=dev.tensor(residual))
        assert_same_bits(got.numpy() + 0, (plain + residual).astype(F32) + 0)
    x, same = dev.ones((2, 3)), dev.ones((2, 2))
    assert (pk.matmul(x, x.T, residual=same, out=same).numpy() == 4).all()
    with pytest.raises(pk.ShapeError, match=r"\[matmul\] residual must broadcast to \(2, 2\)"):
        pk.matmul(x, x.T, residual=dev.ones(3))
    with pytest.raises(
        pk.DTypeError, match=r"\[matmul\] residual must be float32, float16 or bfloat16"
    ):
        pk.matmul(x, x.T, residual=dev.ones(2, "int32"))
    for call in (lambda v: pk.matmul(x, x.T, scale=v), lambda v: pk.matmul(x, x, scale=v)):
        with pytest.raises(pk.PyKernelsError, match=r"\[matmul\]"):
            call("2")


# -- choices, without a GPU -----------------------------------------------------------------------

LARGE = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535, named("nvidia-h200"))
SMALL = Caps(False, False, 256, 256, 16384, 1 << 27, 65535, named("generic-small"))
RESIDENT = 396  # workgroups of gemm_tile at a time: three on each of 132 multiprocessors


def test_choices() -> None:
    square = [choose(LARGE, GemmShape(1, n, n, n)).body for n in (4096, 2048, 512, 100, 8)]
    assert square[0] == square[1] == "gemm_tile"
    assert square[-1] == "mul_mat/32"
    assert choose(LARGE, GemmShape(1, 8, 8, 512)).body == "gemv"
    assert choose(LARGE, GemmShape(1, 1, 8, 8)).body == "gemv"
    assert choose(LARGE, GemmShape(1, 64, 64, 1 << 16)).splits > 16
    assert choose(LARGE, GemmShape(1, 1, 1, 1 << 24)).splits > 256
    for n in (9, 100, 4096):
        assert choose(SMALL, GemmShape(1, n, n, n)).body == "mul_mat/32"


@pytest.mark.parametrize(
    ("rows", "depth", "cols", "body", "splits"),
    [
        (16, 4096, 4096, "16x64", 16), (16, 4096, 14336, "16x64", 4), (9, 768, 3072, "16x64", 8),
        (32, 4096, 4096, "32x128", 16), (17, 4096, 14336, "32x128", 4),
        (32, 768, 50257, "32x128", 1),
    ],
)  # fmt: skip
def test_few_rows_fill_one_wave(rows: int, depth: int, cols: int, body: str, splits: int) -> None:
    """The best of those measured on one NVIDIA H200 (docs/records/matmul.md)."""
    assert choose(LARGE, GemmShape(1, rows, cols, depth)) == GemmChoice(f"mul_mat/{body}", splits)


@pytest.mark.parametrize("cols", (5, 9, 16, 17, 32))
def test_few_columns_are_few_rows(cols: int) -> None:
    """Weights on the left: the tile and the splits of weights on the right, and no tile of columns
    that do not exist."""
    weights, few = view((8192, 80)), view((cols, 80))
    found = plans.plan(LARGE, Scratch(), few, weights, None, None, view((8192, cols)))
    other = plans.plan(LARGE, Scratch(), weights, few, None, None, view((cols, 8192)))
    assert (
        [s.groups for s in found] == [s.groups for s in other] == [8192 // 64 if cols <= 16 else 64]
    )
    for step in (*found, *other):
        axes = dict(zip(step.body.axes, step.axes, strict=True))
        assert axes["TILE"] == ("16x64" if cols <= 16 else "32x128")
    # Operands of two dtypes have texts for one order only: tiles of 64 rows of the weights.
    half = replace(few, dtype=DTYPES[F16], strides=(160, 2))
    step = plans.plan(LARGE, Scratch(), half, weights, None, None, view((8192, cols)))[0]
    assert dict(zip(step.body.axes, step.axes, strict=True))["A"] == "f16"


def test_tails_leave_whole_waves() -> None:
    for rows, cols in ((4096, 4096), (2048, 2048), (512, 14336), (3001, 2999)):
        choice = choose(LARGE, GemmShape(1, rows, cols, 4096))
        assert choice.splits == 1
        assert choice.tail.splits > 1
        across, down = cdiv(cols, 128), cdiv(rows, 64)
        whole = across * (down - choice.tail.rows)
        waves = across * down // RESIDENT * RESIDENT
        assert waves - across < whole <= waves
    assert choose(LARGE, GemmShape(1, 33 * 64, 60 * 128, 4096)).tail.rows == 0  # five waves


# What took at most 2 % longer than the best on one NVIDIA H200 through Vulkan: the rows of tiles in
# the tail (0: none), and its splits.
MEASURED = {
    (1792, 1792, 1792): (0, {1}),
    (2048, 2048, 2048): (8, {2, 3, 5, 6, 7, 8}),
    (2048, 2048, 4096): (8, {2, 3}),
    (2304, 2304, 2304): (14, {3, 4}),
    (2560, 2560, 2560): (1, {5, 6, 7, 8}),
    (2816, 2816, 2816): (8, {6, 7, 8}),
    (3200, 3200, 3200): (3, {3, 4, 5, 6, 7, 8}),
    (3584, 3584, 3584): (0, {1}),
    (4096, 2048, 1024): (0, {1}),
    (4096, 4096, 1024): (3, {3, 4}),
    (4096, 4096, 4096): (3, {3, 4, 5, 6, 7, 8}),
    (4608, 4608, 4608): (6, {3, 4, 5, 6, 7, 8}),
    (512, 14336, 4096): (1, {5, 6, 7, 8}),
}


def test_choices_are_among_the_fastest_measured() -> None:
    for sizes, (rows, splits) in MEASURED.items():
        choice = choose(LARGE, GemmShape(1, *sizes))
        assert (choice.body, choice.splits, choice.tail.rows) == ("gemm_tile", 1, rows), sizes
        assert choice.tail.splits in splits, sizes


def test_long_splits_leave_room_for_short_ones() -> None:
    """Two waves of three long splits of each of 256 tiles; the fourth, short one of each takes the
    places that are left."""
    choice = choose(LARGE, GemmShape(1, 4096, 512, 14336))
    assert (choice.body, choice.splits, choice.each % 16) == ("gemm_tile", 4, 0)
    assert 14336 - 3 * choice.each >= 128
    assert 0 <= 256 * 14336 - 2 * RESIDENT * choice.each < 2 * RESIDENT * 16


def view(shape: tuple[int, ...], strides: tuple[int, ...] = (), slot: int = 0) -> View:
    steps = strides or contiguous_strides(shape, 1)
    return View(slot, DTYPES[F32], shape, tuple(4 * s for s in steps), 0)


def steps_of(a: View, b: View, dst: View, caps: Caps = LARGE) -> list[tuple[str, tuple[Any, ...]]]:
    found = plans.plan(caps, Scratch(), a, b, None, None, dst)
    axes = [dict(zip(s.body.axes[3:], s.axes[3:], strict=True)) for s in found]
    forms = [[v for name, v in a.items() if name != "TILE"] for a in axes]
    return [(s.body.name, (s.groups, *form)) for s, form in zip(found, forms, strict=True)]


def test_plans_for_large_devices() -> None:
    """(groups, vectors of a, of b, b has k as the row, vectors of dst, dst's rows run) of
    gemm_tile, after copies."""
    square = view((4096, 4096))
    turned = view((4096, 4096), (1, 4096))
    # Whole tiles, the tail in splits, the sum of these.
    splits = choose(LARGE, GemmShape(1, 4096, 4096, 4096)).tail.splits
    tiles, total = (61 * 32, 3 * 32 * splits), ("splitk_reduce", (192 * 4096 // (4 * 256),))
    wide = [*(("gemm_tile", (n, 4, 4, True, 4, False)) for n in tiles), total]
    last = [*(("gemm_tile", (n, 4, 4, False, 4, False)) for n in tiles), total]
    assert steps_of(turned, turned, square) == wide
    assert steps_of(turned, square, square) == last
    assert steps_of(square, square, square)[1:] == last  # after one copy
    half = replace(square, dtype=DTYPES[F16], strides=(8192, 2))
    assert steps_of(half.with_layout((4096, 4096), (2, 8192)), half, square) == last  # no copy
    # Either operand may be the one with k last: dst is then written along its columns.
    flipped = [("gemm_tile", (n, 4, 4, False, 4, True)) for n in tiles]
    assert steps_of(square, turned, square)[:2] == flipped
    # dst runs down its columns: the operands change places.
    assert steps_of(turned, turned, turned) == wide
    odd = view((4095, 4095))
    assert steps_of(odd, odd, odd)[-3] == ("gemm_tile", (61 * 32, 4, 4, True, 1, False))
    # Of a much larger product a copy costs less than the loads with k last.
    large, rows = view((16384, 16384)), view((16384, 16384), (1, 16384))
    assert steps_of(rows, large, large)[1][1][2:4] == (4, True)
    # A copy of the larger operand would cost more than it gives: it takes the place of b.
    few, many = view((512, 14336)), view((4096, 14336))
    step = steps_of(many, few, view((512, 4096)))[1]
    assert step == ("gemm_tile", (4 * 256, 4, 4, False, 4, True))
    few, many = view((512, 14335)), view((4096, 14335))  # no vectors of k
    step = steps_of(many, few, view((512, 4096)))[1]
    assert step == ("gemm_tile", (4 * 256, 4, 1, False, 4, True))
    # Batches with one a are rows of one product.
    many = view((64, 64, 4096))
    assert steps_of(turned, many, many) == last
    names = [name for name, _ in steps_of(view((64, 1 << 16)), view((64, 1 << 16)), view((64, 64)))]
    assert names == ["mul_mat", "splitk_reduce"]
    assert [n for n, _ in steps_of(square, view((3, 4096)), view((3, 4096)))] == ["gemv"]


def test_cuts_cover_k() -> None:
    for depth in (1, 15, 16, 17, 100, 4097, 10**7):
        for splits in (1, 2, 3, 64):
            for unit in (1, 16, 1024):
                cut = split_k(depth, splits, unit)
                assert (cut.splits - 1) * cut.depth < depth <= cut.splits * cut.depth
                assert cut.depth % unit == 0
                assert cut.depth <= unit * MAX_ROUNDS
    assert split_k(14336, 4, 16, 4624) == (4, 4624)
    assert split_k(100, 9, 16, 48) == (3, 48)
    assert split_k(10**7, 2, 16, 9 * 10**6).depth == 16 * MAX_ROUNDS


def test_fast_is_a_choice_of_the_plan() -> None:
    """Packed where the device has f16; the default elsewhere; no other word."""
    x, half = view((4096, 4096)), replace(view((4096, 4096)), dtype=DTYPES[F16])
    turned = half.with_layout((4096, 4096), (2, 8192))

    def names(x: View, y: View, caps: Caps = LARGE) -> list[str]:
        dst = view((4096, 4096))
        found = plans.plan(caps, Scratch(), x, y, None, None, dst, None, "fast")
        return [step.body.name for step in found]

    fast = ["gemm_f16acc", "gemm_f16acc", "splitk_reduce"]
    assert names(turned, turned) == fast  # no copies
    assert names(turned, replace(half, strides=(8192, 2))) == ["cpy_block", *fast]
    assert names(x, x)[-3:] == fast
    assert names(x, x, replace(LARGE, f16=False))[-3] == "gemm_tile"
    with pytest.raises(pk.ArgumentError, match="'fast', 'high' or 'split' but is 'exact'"):
        plans.plan(LARGE, Scratch(), x, x, None, None, x, None, "exact")
