"""flash_attn on matrix units, emulated: every option, exactness, the choice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.attention.select import MMA, AttentionChoice
from pykernels.plans.attention.select_mma import TILES
from tests.emulation import emulated
from tests.kernels.attention.attention_calls import F16, F32, AttentionCalls

gpu = pytest.mark.gpu


@pytest.fixture(params=[(tile, splits) for tile in TILES for splits in (1, 3)], ids=str)
def tile(request: pytest.FixtureRequest, dev: pk.Device) -> Iterator[str]:
    """Plans take this tile, in so many splits of the keys: the small one where it is emulated."""
    if "shader-f16" not in dev.features:
        pytest.skip("halves are f32 here before a plan sees them")
    name, splits = request.param
    if (name == "emulated") != (dev._context.caps.matrix is None):
        pytest.skip("a tile for devices with matrix units, or for those without")
    with emulated(dev, MMA), force(dev, AttentionChoice(f"{MMA}/{name}", splits)):
        yield name


@gpu
def test_edges(dev: pk.Device, tile: str) -> None:
    own = TILES[tile]
    calls = AttentionCalls(dev)
    sizes = [(1, 1), (1, own.BC + 1), (own.BR - 1, own.BC), (own.BR, own.BC - 1),
             (own.BR + 1, 2 * own.BC)]  # fmt: skip
    for s, t in sizes:
        for causal in (False, True, "top-left"):
            calls.add((1, 2, 1), (s, t), (40, 36), F16, causal=causal)
    calls.check(tile)
