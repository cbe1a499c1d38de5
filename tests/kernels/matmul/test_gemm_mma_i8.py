"""mul_mat_i8 on matrix units, emulated where there are none: edges, extremes, factors, choice."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.matmul.select import GemmShape
from pykernels.plans.matmul.select_i8 import Int8Choice, choose
from pykernels.plans.matmul.select_mma import TILES_I8
from pykernels.steps import Caps
from pykernels.tuning import named
from tests.emulation import UNITS, emulated
from tests.harness import Form
from tests.kernels.matmul.int8_calls import KINDS, OUTS, Int8Calls

gpu = pytest.mark.gpu
FORMS = {"k": Form(), "rows": Form(order=(1, 0)), "any": Form(phase=1, gap=1)}


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tile", TILES_I8)
def test_tiles_at_their_edges(dev: pk.Device, tile: str, kind: str, out: str) -> None:
    if tile != "32x32" and dev._context.caps.matrix is None:
        pytest.skip("software drivers take minutes to compile large tiles emulated")
    edge = TILES_I8[tile].BM
    calls = Int8Calls(dev)
    sizes = ((1, 1, 64), (edge, edge, 128), (edge - 8, edge + 8, 40), (edge + 1, 17, 65))
    for (m, n, k), loads in itertools.product(sizes, itertools.product(FORMS, FORMS)):
        a_form, b_form = (FORMS[name] for name in loads)
        calls.add((m, k), (n, k), kind, out, a_form=a_form, b_form=b_form)
    calls.add((2, edge + 4, 48), (4, 24, 48), kind, out)
    for splits in (1, 2):
        with emulated(dev, "gemm_mma_i8"):
            with force(dev, Int8Choice(f"gemm_mma_i8/{tile}", splits)):
                calls.check(f"{tile}, {splits} splits")


@gpu
def test_extremes(dev: pk.Device) -> None:
    """Sums of the largest products, and of uint8 beyond 2^31."""
    for low, high, dtype in ((-128, -128, np.int8), (-128, 127, np.int8), (255, 255, np.uint8)):
        k = 40_000
        a, b = (np.full((33, k), x, dtype) for x in (low, high))
        dst = dev.empty((33, 33), "int32")
        with emulated(dev, "gemm_mma_i8"), force(dev, Int8Choice("gemm_mma_i8/32x32", 3)):
            pk.kernels.mul_mat_i8(dev.tensor(a), dev.tensor(b), dst)
        want = np.int64(low) * high * k
        assert (dst.numpy() == (want + 2**31) % 2**32 - 2**31).all()


def test_choose() -> None:
    caps = Caps(
        True, True, 256, 1024, 49152, (1 << 31) - 4, 65535, named("nvidia-h200"), matrix=UNITS
    )
    large = GemmShape(1, 4096, 4096, 4096)
    assert choose(caps, large) == Int8Choice("gemm_mma_i8/128x128")
    assert choose(caps, large._replace(rows=4)).body == "gemv_i8"
    only = replace(UNITS, shapes=frozenset([("u8", "u32", 16, 16, 32)]))
    assert choose(replace(caps, matrix=only), large, True).body == "mul_mat_i8/64"
    assert choose(replace(caps, matrix=only), large, False).body == "gemm_mma_i8/128x128"
    assert choose(replace(caps, matrix=None), large).body == "mul_mat_i8/64"
