"""mul_mat on matrix units, emulated: every text, splits, epilogues, exactness, the choice."""

from __future__ import annotations

import itertools

import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.matmul.select import GemmChoice
from pykernels.plans.matmul.select_mma import TILES
from tests.emulation import emulated
from tests.harness import caps
from tests.kernels.matmul.mul_mat_calls import (
    F16,
    F32,
    K_RUNS,
    NOTHING_RUNS,
    ROWS_RUN,
    GemmCalls,
)

LOADS = {"k": K_RUNS, "rows": ROWS_RUN, "any": NOTHING_RUNS}


def _affordable(dev: pk.Device, tile: str) -> None:
    """Software drivers take a second to compile the smallest tile, and minutes for large ones."""
    if tile != "32x32" and dev._context.caps.matrix is None:
        pytest.skip("too large to be emulated")


@pytest.mark.gpu
@pytest.mark.sample
@pytest.mark.parametrize("dst", (F32, F16))
@pytest.mark.parametrize("loads", [*itertools.product(LOADS, LOADS)], ids="-".join)
@pytest.mark.parametrize("tile", TILES)
def test_tile_at_its_edges(dev: pk.Device, tile: str, loads: tuple[str, str], dst: str) -> None:
    if "shader-f16" not in dev.features:
        pytest.skip("halves are f32 here before a plan sees them")
    _affordable(dev, tile)
    own = TILES[tile]
    a_form, b_form = (LOADS[name] for name in loads)
    calls = GemmCalls(dev)
    edge = max(own.BM, own.BN)
    sizes = [(1, 1), (own.BN, own.BM), (own.BN - 8, own.BM + 8), (edge + 1, 17), (16, edge + 40)]
    for (m, n), k in zip(sizes, (16, 64, 40, 33, 7), strict=True):
        for exact in (True, False):
            kinds = (F16, F16, dst)
            calls.add((m, k), (n, k), kinds, a_form=a_form, b_form=b_form, exact=exact)
    with emulated(dev, "gemm_mma"), force(dev, GemmChoice(f"gemm_mma/{tile}")):
        calls.check(tile)
