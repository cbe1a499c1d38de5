"""precision="split": f32 on matrix units as planes of halves, emulated where there are none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTypeName, dtype_of
from pykernels.forcing import force
from pykernels.plans.matmul.mul_mat import plan
from pykernels.plans.matmul.select import GemmChoice, GemmShape, choose
from pykernels.plans.matmul.select_mma import SPLIT_TILES, longest_slice
from pykernels.reference.matmul import mul_mat as reference
from pykernels.reference.matmul import mul_mat_budget as budget
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View, contiguous_layout
from pykernels.tuning import named
from tests.emulation import UNITS, emulated
from tests.harness import assert_same_bits
from tests.kernels.matmul.mul_mat_calls import (
    F16,
    F32,
    K_RUNS,
    NOTHING_RUNS,
    ROWS_RUN,
    GemmCalls,
)

Array = np.ndarray[Any, Any]
SMALL = GemmChoice("gemm_split/32x32")
MIXED = (F16, F32)
gpu = pytest.mark.gpu


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", [(F32, F32), MIXED, MIXED[::-1]], ids="-".join)
@pytest.mark.parametrize("tile", SPLIT_TILES)
def test_tile_at_its_edges(dev: pk.Device, tile: str, kinds: tuple[str, str]) -> None:
    """Rows, columns and k around the sizes of the tile and of the packing, in every layout."""
    if tile != "32x32" and dev._context.caps.matrix is None:
        pytest.skip("software drivers take minutes to compile large tiles emulated")
    own = SPLIT_TILES[tile]
    calls = GemmCalls(dev)
    forms = (K_RUNS, ROWS_RUN, NOTHING_RUNS)
    edge = max(own.BM, own.BN)
    sizes = [(1, 1), (own.BN, own.BM), (own.BN - 8, own.BM + 8), (edge + 1, 17), (16, edge + 40)]
    for i, ((m, n), k) in enumerate(zip(sizes, (16, 64, 40, 33, 7), strict=True)):
        for j, dst in enumerate((F32, F16)):
            for exact in (True, False):
                a_form, b_form = forms[i % 3], forms[(i + j + exact) % 3]
                calls.add(
                    (m, k), (n, k), (*kinds, dst), a_form=a_form, b_form=b_form, exact=exact,
                    precision="split",
                )  # fmt: skip
    with emulated(dev, "gemm_split"), force(dev, GemmChoice(f"gemm_split/{tile}")):
        calls.check(tile)


@gpu
def test_splits_batches_and_epilogues(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    bias = rng.normal(0, 1, 40).astype(np.float32)
    residual = rng.normal(0, 1, (2, 24, 40)).astype(np.float32)
    for splits in (1, 3):
        calls = GemmCalls(dev)
        for kinds in ((F32, F32, F32), (*MIXED, F16)):
            calls.add((40, 100), (50, 100), kinds, exact=True, precision="split")
            # Each matrix of a serves three of b, or repeats along an axis between others.
            calls.add((2, 40, 72), (6, 24, 72), kinds, precision="split")
            calls.add((3, 1, 24, 40), (3, 4, 17, 40), kinds, precision="split")
            calls.add(
                (40, 64), (2, 24, 64), kinds, bias=bias, residual=residual, scale=0.25,
                activation="silu", precision="split",
            )  # fmt: skip
        with emulated(dev, "gemm_split"), force(dev, SMALL._replace(splits=splits)):
            calls.check(f"{splits} splits")


def _product(dev: pk.Device, a: Array, b: Array, splits: int = 1) -> Array:
    dst = dev.empty((b.shape[0], a.shape[0]))
    with emulated(dev, "gemm_split"), force(dev, SMALL._replace(splits=splits)):
        pk.kernels.mul_mat(dev.tensor(a), dev.tensor(b), dst, precision="split")
        return dst.numpy()


def _scaled(rng: np.random.Generator) -> tuple[Array, Array]:
    """Rows from 1e-30 to 1e30: products of them pass what f32 has, at both ends."""
    scales = 10.0 ** np.linspace(-30, 30, 40)
    a, b = (rng.normal(0, 1, (40, 96)) * s[:, None] for s in (scales, scales[::-1]))
    return a, b


def _cancelling(rng: np.random.Generator) -> tuple[Array, Array]:
    """Sums that are small beside their terms."""
    a, b = rng.normal(0, 1, (32, 48)), rng.normal(0, 1, (40, 48))
    nearly = b * (1 + rng.normal(0, 1e-5, b.shape))
    return np.concatenate([a, a], 1), np.concatenate([b, -nearly], 1)


def _uneven(rng: np.random.Generator) -> tuple[Array, Array]:
    """Numbers of a row that differ by up to 2^60: the term of the largest magnitudes."""
    a, b = rng.normal(0, 1, (32, 96)), rng.normal(0, 1, (40, 96))
    return a * 2.0 ** rng.integers(-60, 1, a.shape), b * 2.0 ** rng.integers(-60, 1, b.shape)


DATA: dict[str, Callable[[np.random.Generator], tuple[Array, Array]]] = {
    "rows of any scale": _scaled,
    "uniform": lambda rng: (rng.uniform(0, 1, (32, 1000)), rng.uniform(0, 1, (40, 1000))),
    "one sign": lambda rng: (rng.uniform(0.5, 1, (32, 2000)), rng.uniform(0.5, 1, (40, 2000))),
    "cancelling": _cancelling,
    "uneven rows": _uneven,
    "powers of two": lambda rng: (2.0 ** rng.integers(-9, 9, (32, 40)), -np.ones((40, 40)) / 3),
}


@gpu
@pytest.mark.parametrize("name", DATA)
def test_error_is_within_the_bound(dev: pk.Device, name: str) -> None:
    a, b = (x.astype(np.float32) for x in DATA[name](np.random.default_rng(5)))
    # Parts of a sum may overflow where the sum does not, in any f32.
    for splits in (1,) if name == "rows of any scale" else (1, 3):
        got = _product(dev, a, b, splits)
        want = reference(a, b)
        gate = budget(a, b, precision="split") + 2.0**-126  # denormals may be 0
        near = np.abs(got - want) <= gate
        beyond = (np.abs(want) + gate >= 2.0**128) & (got == np.copysign(np.inf, want))
        assert (near | beyond).all(), (splits, (np.abs(got - want) / gate).max())


@gpu
def test_denormals_are_numbers_or_zero(dev: pk.Device) -> None:
    rng = np.random.default_rng(6)
    a = (rng.normal(0, 1, (32, 40)) * 1e-41).astype(np.float32)
    b = (rng.normal(0, 1, (40, 40)) * 1e36).astype(np.float32)
    got, want = _product(dev, a, b), reference(a, b)
    gate = budget(a, b, precision="split")
    flushed = np.abs(got) <= gate  # a device without them
    assert ((np.abs(got - want) <= gate) | flushed.all()).all()


@gpu
def test_inf_and_nan_are_as_in_plain_f32(dev: pk.Device) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.normal(0, 1, (n, 72)).astype(np.float32) for n in (32, 40))
    a[3, 5], a[4, 7], a[5, 2], a[6] = np.inf, np.nan, -np.inf, 0
    a[7, 0], a[7, 40] = np.inf, -np.inf  # in two splits
    a[8, 60] = np.frombuffer(np.uint32(0x7FFFFFFF).tobytes(), np.float32)[0]  # NaN, all ones
    b[9, 9], b[10, 3], b[11, 2], b[12] = -np.inf, np.nan, 0, 0
    b[13] *= 1e30
    b[13, 5], b[14, 5] = 2e-38, -2e-38  # far below their rows, but not zero
    for splits in (1, 2):
        got = _product(dev, a, b, splits)
        with np.errstate(invalid="ignore"):
            want = reference(a, b)
            gate = budget(a, b, precision="split")
        assert (np.isnan(got) == np.isnan(want)).all()
        infinite = np.isinf(want)
        assert (got[infinite] == want[infinite]).all() and infinite.sum() > 60
        finite = np.isfinite(want)
        assert (np.abs(got[finite] - want[finite]) <= gate[finite]).all()
        assert (got[12, :3] == 0).all() and (got[:9, 6] == 0).all()


@gpu
def test_elsewhere_it_is_plain_f32(dev: pk.Device) -> None:
    if dev._context.caps.matrix is not None:
        pytest.skip("matrix units are here")
    rng = np.random.default_rng(8)
    a, b = (rng.normal(0, 1, (96, 96)).astype(np.float32) for _ in range(2))
    x, y = dev.tensor(a), dev.tensor(b)
    assert_same_bits(pk.matmul(x, y, precision="split").numpy(), pk.matmul(x, y).numpy())
    split = pk.linear(x, y, precision="split")
    assert_same_bits(split.numpy(), pk.linear(x, y).numpy())


CAPS = Caps(
    True, True, 256, 1024, 49152, (1 << 31) - 4, 65535, named("nvidia-h200"),
    matrix=replace(UNITS, dialect="subgroup_matrix"),
)  # fmt: skip


def test_choose() -> None:
    def chosen(rows: int, cols: int, k: int) -> GemmChoice:
        return choose(CAPS, GemmShape(1, rows, cols, k, split=True, longest=longest_slice(k)))

    assert chosen(4096, 4096, 4096) == GemmChoice("gemm_split/64x128")
    assert chosen(64, 64, 4096).body == "mul_mat/32"  # few tiles: the packing costs more
    assert chosen(4, 4096, 4096).body == "gemv"
    plain = choose(CAPS, GemmShape(1, 4096, 4096, 4096))
    assert plain.body == "gemm_tile"
    without = replace(CAPS, matrix=None)
    assert choose(without, GemmShape(1, 4096, 4096, 4096, split=True, longest=512)) == plain


def test_plan_of_a_large_product() -> None:
    """A maximum and a packing for each f32 operand, the product, the sum over splits."""
    size = (4096, 4096)
    a, b, dst = (_view(size, "float32", n) for n in range(3))

    def names(a: View, b: View, precision: str | None) -> list[str]:
        steps = plan(CAPS, Scratch(), a, b, None, None, dst, None, precision)
        return [s.body.name for s in steps]

    packing = ["reduce_rows", "split_halves"]
    assert names(a, b, "split") == [*packing, *packing, "gemm_split", "splitk_reduce"]
    flipped = b.with_layout(size, b.strides[::-1])
    assert names(flipped, b, "split")[:3] == ["reduce_columns", "reduce_combine", "split_halves"]
    half = _view(size, "float16", 3)
    assert names(half.with_layout(size, half.strides[::-1]), b, "split")[:2] == packing
    assert "gemm_split" not in names(a, b, None)
    assert names(half, half, "split") == ["gemm_mma"]


def _view(shape: tuple[int, ...], dtype: DTypeName, buffer: int) -> View:
    lay = contiguous_layout(shape, dtype_of(dtype))
    return View(buffer, lay.dtype, shape, lay.strides, 0)
