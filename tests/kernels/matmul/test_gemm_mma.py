"""mul_mat on matrix units, emulated where there are none: every text, splits, exactness, choice."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import pykernels as pk
from bench import probe_matrix_units as probe
from pykernels.dtypes import DTypeName, dtype_of
from pykernels.forcing import force
from pykernels.plans.matmul.mul_mat import plan
from pykernels.plans.matmul.select import GemmChoice, GemmShape, choose
from pykernels.plans.matmul.select_mma import TILES, longest_slice
from pykernels.reference.matmul import mul_mat as reference
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View, contiguous_layout
from pykernels.tuning import named
from tests.emulation import UNITS, emulated
from tests.kernels.matmul.mul_mat_calls import (
    F16,
    F32,
    K_RUNS,
    NOTHING_RUNS,
    ROWS_RUN,
    GemmCalls,
)

LOADS = {"k": K_RUNS, "rows": ROWS_RUN, "any": NOTHING_RUNS}
SMALL = GemmChoice("gemm_mma/32x32")
gpu = pytest.mark.gpu


def _needs_f16(dev: pk.Device) -> None:
    if "shader-f16" not in dev.features:
        pytest.skip("halves are f32 here before a plan sees them")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("dst", (F32, F16))
@pytest.mark.parametrize("loads", [*itertools.product(LOADS, LOADS)], ids="-".join)
@pytest.mark.parametrize("tile", TILES)
def test_tile_at_its_edges(dev: pk.Device, tile: str, loads: tuple[str, str], dst: str) -> None:
    """Rows, columns and k around the sizes of the tile. Where halves are f32 before a plan sees
    them, it rounds small integers to halves."""
    halves = "shader-f16" in dev.features
    if dst == F16 and not halves:
        pytest.skip("float16 is float32 here before a plan sees it")
    if tile != "32x32" and dev._context.caps.matrix is None:
        pytest.skip("software drivers take minutes to compile large tiles emulated")
    own = TILES[tile]
    a_form, b_form = (LOADS[name] for name in loads)
    calls = GemmCalls(dev)
    edge = max(own.BM, own.BN)
    sizes = [(1, 1), (own.BN, own.BM), (own.BN - 8, own.BM + 8), (edge + 1, 17), (16, edge + 40)]
    for (m, n), k in zip(sizes, (16, 64, 40, 33, 7), strict=True):
        kinds = (F16, F16, dst) if halves else (F32, F32, F32)
        for exact in (True, False) if halves else (True,):
            calls.add(
                (m, k), (n, k), kinds, a_form=a_form, b_form=b_form, exact=exact, precision="fast"
            )
    with emulated(dev, "gemm_mma"), force(dev, GemmChoice(f"gemm_mma/{tile}")):
        calls.check(tile)


@gpu
def test_splits_batches_and_epilogues(dev: pk.Device) -> None:
    _needs_f16(dev)
    rng = np.random.default_rng(1)
    for splits in (1, 3):
        calls = GemmCalls(dev)
        for dst in (F32, F16):
            kinds = (F16, F16, dst)
            calls.add((40, 100), (50, 100), kinds, exact=True)
            calls.add((2, 40, 72), (6, 24, 72), kinds)  # each matrix of a serves three of b
            calls.add((3, 1, 24, 40), (3, 4, 17, 40), kinds)
            bias = rng.normal(0, 1, 40).astype(np.float32)
            residual = rng.normal(0, 1, (2, 24, 40)).astype(np.float16)
            calls.add(
                (40, 64), (2, 24, 64), kinds, bias=bias, residual=residual, scale=0.25,
                activation="relu",
            )  # fmt: skip
            calls.add((40, 64), (2, 24, 64), kinds, bias=residual[:, :, :1], activation="silu")
        with emulated(dev, "gemm_mma"), force(dev, SMALL._replace(splits=splits)):
            calls.check(f"{splits} splits")


@gpu
@pytest.mark.parametrize("precision", (None, "fast"))
def test_numbers_that_are_rounded_to_halves(dev: pk.Device, precision: str | None) -> None:
    """precision="fast" rounds f32 operands; without it they stay what they are."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(0, 1, (40, 96)).astype("f4"), rng.normal(0, 1, (50, 96)).astype("f4")
    dst = dev.empty((50, 40))
    with emulated(dev, "gemm_mma"), force(dev, *([SMALL] if precision else [])):
        pk.kernels.mul_mat(dev.tensor(a), dev.tensor(b), dst, precision=precision)  # type: ignore[arg-type]
        got = dst.numpy()
    rounded = [x.astype(np.float16).astype(np.float64) for x in (a, b)]
    assert (np.abs(got - reference(a, b)).max() < 1e-4) == (precision is None)
    assert (np.abs(got - reference(*rounded)).max() < 1e-4) == (precision is not None)


@gpu
@pytest.mark.parametrize("first", (1.0, 64.0))
def test_numbers_of_one_sign_need_slices(dev: pk.Device, first: float) -> None:
    """The units cut what they add: whole sums miss the bound of products, and slices and splits
    keep it, also where the first products outweigh all others."""
    _needs_f16(dev)
    rng = np.random.default_rng(3)
    k = 8192
    a, b = (rng.uniform(0.5, 1, (32, k)).astype(np.float16) for _ in range(2))
    a[:, 0] *= np.float16(first)
    b[:, 0] *= np.float16(first)
    want = reference(a, b)
    gate = (np.sqrt(k) + 4) * 2.0**-23 * want
    wrong = []
    with emulated(dev, "gemm_mma"):
        enough = -(-k // longest_slice(k))
        for splits, precision in ((1, "fast"), (1, None), (3, None), (enough, "fast")):
            dst = dev.empty((32, 32))
            with force(dev, SMALL._replace(splits=splits)):
                pk.kernels.mul_mat(dev.tensor(a), dev.tensor(b), dst, precision=precision)
            wrong.append((np.abs(dst.numpy() - want) / gate).max())
    assert max(wrong[1:]) < 1 < wrong[0]


CAPS = Caps(
    True, True, 256, 1024, 49152, (1 << 31) - 4, 65535, named("nvidia-h200"),
    matrix=replace(UNITS, dialect="subgroup_matrix"),
)  # fmt: skip


def test_choose() -> None:
    def chosen(rows: int, cols: int, k: int, longest: int = 0, batches: int = 1) -> GemmChoice:
        shape = GemmShape(batches, rows, cols, k, halves=True, longest=longest)
        return choose(CAPS, shape)

    assert chosen(4096, 4096, 4096) == GemmChoice("gemm_mma/128x128")
    assert chosen(4096, 4096, 4096, longest_slice(4096)) == GemmChoice("gemm_mma/128x128")
    assert chosen(4, 4096, 4096).body == "gemv"
    assert chosen(16, 4096, 14336).splits > 8
    assert chosen(64, 64, 64, batches=384).body == "gemm_mma/64x64"
    without = replace(CAPS, matrix=None)
    shape = GemmShape(1, 4096, 4096, 4096, halves=True, longest=1024)
    assert choose(without, shape) == choose(without, shape._replace(halves=False, longest=0))
    other = replace(CAPS, matrix=replace(UNITS, shapes=frozenset([("f16", "f16", 16, 16, 16)])))
    assert choose(other, shape) == choose(without, shape)


@pytest.mark.parametrize("k", [1, 31, 32, 256, 512, 1024, 4096, 14336, 100_000])
def test_slices_of_the_default(k: int) -> None:
    """A unit loses 2.5 last places of the sum in a step of 16 k: so it stays within the gate."""
    assert 2.5 / 16 * min(longest_slice(k), k) < np.sqrt(k) + 4


def test_plan_of_a_large_product() -> None:
    """One dispatch and the sum; operands that units of eight can read are not copied."""
    scratch = Scratch()
    a, b = _view((4096, 4096), "float16", 0), _view((4096, 4096), "float16", 1)
    dst = _view((4096, 4096), "float32", 2)
    steps = plan(CAPS, scratch, a, b, None, None, dst)
    assert [s.body.name for s in steps] == ["gemm_mma"]
    steps = plan(CAPS, scratch, a, b, None, None, dst, None, "fast")
    assert [s.body.name for s in steps] == ["gemm_mma"]
    odd = replace(a, offset=2)
    steps = plan(CAPS, scratch, odd, b, None, None, dst, None, "fast")
    assert [s.body.name for s in steps][1:] == ["gemm_mma"]


@pytest.mark.parametrize(
    ("dst", "precision", "sliced"),
    [
        ("float16", None, False), ("float16", "high", True), ("float16", "fast", False),
        ("float32", None, True), ("float32", "high", True), ("float32", "fast", False),
    ],
)  # fmt: skip
def test_sums_in_one_piece(dst: DTypeName, precision: str | None, sliced: bool) -> None:
    """Results of float16 take one piece by default, those of float32 only with "fast"."""
    a, b = (_view((4096, 4096), "float16", n) for n in range(2))
    steps = plan(CAPS, Scratch(), a, b, None, None, _view((4096, 4096), dst, 2), None, precision)
    assert steps[0].body.name == "gemm_mma"
    assert dict(zip(steps[0].body.axes, steps[0].axes, strict=True))["SLICES"] is sliced


@gpu
def test_halves_in_one_piece_stay_within_their_bound(dev: pk.Device) -> None:
    """Of one sign: what is lost shows in float32 results, and counts less than the rounding to
    float16, by default and with "high"."""
    _needs_f16(dev)
    rng = np.random.default_rng(4)
    a, b = (rng.uniform(0.05, 0.1, (32, 4096)).astype(np.float16) for _ in range(2))
    want = reference(a, b)
    found = {}
    with emulated(dev, "gemm_mma"), force(dev, SMALL):
        for precision in (None, "high"):
            dst = dev.empty((32, 32), "float16")
            pk.kernels.mul_mat(dev.tensor(a), dev.tensor(b), dst, precision=precision)  # type: ignore[arg-type]
            found[precision] = np.abs(dst.numpy() - want)
    allowed = (0.16 * 4096 + np.sqrt(4096) + 4) * 2.0**-23 * want + want * 2.0**-11
    assert (found[None] <= allowed).all()
    assert (found["high"] <= (np.sqrt(4096) + 4) * 2.0**-23 * want + want * 2.0**-11).all()


def _view(shape: tuple[int, ...], dtype: DTypeName, buffer: int) -> View:
    lay = contiguous_layout(shape, dtype_of(dtype))
    return View(buffer, lay.dtype, shape, lay.strides, 0)


@gpu
def test_the_probe_finds_the_emulated_unit(dev: pk.Device) -> None:
    """What is asked of real units, asked of one that is known."""
    if dev._context.caps.matrix is not None or "shader-f16" not in dev.features:
        pytest.skip("for emulated halves")
    with emulated(dev, "gemm_mma"):
        sums = probe.summing(dev)
        assert probe.kept_below(sums) == 2 and probe.joint(sums) == 2
        assert probe.rounding(sums) == "towards zero"
        assert probe.together(sums) == [[*range(8)], [*range(8, 16)]]
