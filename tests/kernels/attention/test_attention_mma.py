"""flash_attn on matrix units, emulated: every option, exactness, the choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.attention import flash_attn as plans
from pykernels.plans.attention.arguments import Dims
from pykernels.plans.attention.select import DECODE, MMA, AttentionChoice, choose
from pykernels.plans.attention.select import LARGE as LARGE_TILE
from pykernels.plans.attention.select_mma import TILES
from pykernels.reference import attention as reference
from pykernels.steps import Caps, Scratch
from tests.emulation import UNITS, emulated
from tests.harness import Form, assert_same_bits, caps, random_form
from tests.kernels.attention.attention_calls import F16, F32, AttentionCalls, run
from tests.kernels.attention.test_flash_attn import BIG, view

gpu = pytest.mark.gpu
CAUSAL: tuple[Any, ...] = (False, True, "top-left")


@pytest.fixture(params=TILES)
def tile(request: pytest.FixtureRequest, dev: pk.Device) -> Iterator[str]:
    """Plans may take this tile: the small one where it is emulated."""
    if "shader-f16" not in dev.features:
        pytest.skip("halves are f32 here before a plan sees them")
    if (request.param == "emulated") != (dev._context.caps.matrix is None):
        pytest.skip("a tile for devices with matrix units, or for those without")
    with emulated(dev, MMA):
        yield request.param


def taken(tile: str, splits: int = 1, **more: Any) -> AttentionChoice:
    return AttentionChoice(f"{MMA}/{tile}", splits, **more)


# -- calls ----------------------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("splits", (1, 3))
def test_edges(dev: pk.Device, tile: str, splits: int) -> None:
    """Lengths 1 and around the size of the tile, T < S, T > S, causal both ways; depths that are
    no units, values wider than the tile."""
    own = TILES[tile]
    calls = AttentionCalls(dev)
    sizes = [(1, 1), (1, own.BC + 1), (own.BR - 1, own.BC), (own.BR, own.BC - 1),
             (own.BR + 1, 2 * own.BC + 1)]  # fmt: skip
    depths = [(40, 36), (own.DEPTH, own.DEPTH), (3, own.DEPTH + 9), (17, 1), (8, 24)]
    for (s, t), depth in zip(sizes, depths, strict=True):
        for causal in CAUSAL:
            out = F32 if causal else F16
            calls.add((1, 2, 1), (s, t), depth, F16, causal=causal, out_dtype=out)
    with force(dev, taken(tile, splits)):
        calls.check(tile)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("splits", (1, 2))
def test_every_option(dev: pk.Device, tile: str, splits: int) -> None:
    """Masks of each kind, ALiBi, sinks, soft cap and window together, with and without lengths."""
    calls = AttentionCalls(dev)
    sinks = np.float32([0.5, -np.inf, 20.0, -1.0])
    for kind, causal in zip((F32, F16, "bool"), CAUSAL, strict=True):
        mask = calls.mask((4, 37, 150), kind)
        mask[:, 5] = False if kind == "bool" else -np.inf
        mask[..., 32:96] = False if kind == "bool" else -np.inf
        calls.add((2, 4, 2), (37, 150), (20, 24), F16, mask=mask, sinks=sinks, max_bias=8.0,
                  softcap=3.0)  # fmt: skip
        calls.add((2, 4, 2), (37, 150), (20, 24), F16, mask=mask[0, :, :1], window=(40, 2),
                  causal=causal, lengths=[97, 31], max_bias=8.0 * bool(causal))  # fmt: skip
    calls.add((1, 4, 4), (37, 150), (16, 24), F16, sinks=sinks, window=(0, 0), out_dtype=F32)
    calls.add((1, 4, 4), (37, 20), (16, 24), F16, softcap=0.5, scale=2.0, causal=True)
    with force(dev, taken(tile, splits)):
        calls.check(tile)


@gpu
def test_lengths(dev: pk.Device, tile: str) -> None:
    """None, one, all, too many, too few; NaN and infinity lie behind them."""
    own = TILES[tile]
    t = 2 * own.BC + 3
    lengths = [0, 1, own.BC - 1, own.BC, own.BC + 1, t, t + 9, -7]
    for splits, causal in enumerate(CAUSAL, 1):
        calls = AttentionCalls(dev)
        calls.add((8, 2, 1), (own.BR + 1, t), (40, 36), F16, lengths=lengths, causal=causal)
        calls.add((8, 2, 1), (3, t), (40, 36), F16, lengths=lengths, window=(5 * splits, 2))
        with force(dev, taken(tile, splits)):
            calls.check(tile)


@gpu
def test_layouts(dev: pk.Device, tile: str) -> None:
    """Units that can be read, and others, which are copied: any strides, starts, one buffer for
    everything, tensors in parts."""
    calls = AttentionCalls(dev)
    heads, sizes = (2, 4, 2), (35, 40)
    everything = dict.fromkeys(("q", "k", "v", "mask", "sinks", "lse", "dst"), "all")
    mask = calls.mask((2, 1, 35, 40), F16)
    calls.add(heads, sizes, (24, 24), F16, mask=mask, buffers=everything)
    for name, depth, phase in (("q", 24, 8), ("k", 20, 4), ("v", 24, 1), ("dst", 24, 1)):
        calls.add(heads, sizes, (depth, depth), F16, forms={name: Form(phase=phase)})
    for _ in range(3):
        forms = {n: random_form(calls.rng, 4, repeats=n != "dst") for n in ("q", "k", "v", "dst")}
        calls.add(heads, sizes, (16, 24), F16, forms=forms, causal=True)
    with force(dev, taken(tile)):
        calls.check(tile)
    parts = AttentionCalls(dev)
    parts.add((2, 6, 3), (40, 60), (16, 16), F16, sinks=parts.values((6,)), causal=True)
    with force(dev, taken(tile)), caps(dev, max_binding=8192):
        parts.check(tile)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("order", ((2, 0), (5, 2), (3, 1)), ids=str)
def test_orders_of_blocks(dev: pk.Device, tile: str, order: tuple[int, int]) -> None:
    calls = AttentionCalls(dev)
    rows = 2 * TILES[tile].BR
    calls.add((1, 5, 5), (rows, 70), (16, 20), F16, causal=True)
    calls.add((1, 10, 5), (rows, 70), (16, 140), F16, window=(9, 3))
    with force(dev, taken(tile, order=order)):
        calls.check(tile)


# -- numbers --------------------------------------------------------------------------------------


@gpu
def test_long_sums_of_one_sign(dev: pk.Device, tile: str) -> None:
    """4,096 keys of equal weights, which are halves, and a first value that is larger than the sum
    of all others: as exact as plain f32."""
    calls = AttentionCalls(dev)
    q = np.zeros((1, 1, 33, 16), F16)
    v = calls.rng.uniform(0.001, 0.1, (1, 1, 4096, 40)).astype(F16)
    v[:, :, 0] = 513
    calls.give(q, calls.values((1, 1, 4096, 16), F16), v, out_dtype=F32)
    with force(dev, taken(tile)):
        calls.check(tile, exact=True)


@gpu
def test_precision_says_how_sums_are_bounded(dev: pk.Device, tile: str) -> None:
    """Equal weights, and a first value that is larger than the sum of all others: "fast" leaves
    the bound of None and "high", and keeps its own."""
    rng = np.random.default_rng(5)
    q, k = np.zeros((1, 1, 16, 16), F16), rng.standard_normal((1, 1, 8192, 16)).astype(F16)
    v = rng.uniform(0.001, 0.1, (1, 1, 8192, 40)).astype(F16)
    v[:, :, 0] = 1025
    want = reference.flash_attn(q, k, v)
    found: dict[str | None, Any] = {}
    with force(dev, taken(tile)):
        for precision in (None, "high", "fast"):
            dst = dev.empty(want.shape)
            pk.flash_attn(*map(dev.tensor, (q, k, v)), precision=precision, out=dst)
            found[precision] = dst.numpy()
    assert_same_bits(found[None], found["high"])
    strict = reference.flash_attn_budget(q, k, v)
    assert (np.abs(found["high"] - want) <= strict).all()
    assert (np.abs(found["fast"] - want) > strict).any()
    loose = reference.flash_attn_budget(q, k, v, precision="fast")
    assert (np.abs(found["fast"] - want) <= loose).all()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("climb", (0.02, 0.3, -0.3))
def test_maxima_that_climb(dev: pk.Device, tile: str, climb: float) -> None:
    """Logits that rise or fall all along the keys, a little and far more than 2^8."""
    calls = AttentionCalls(dev)
    q = calls.values((1, 2, 35, 64), F16)
    q[..., 0] = 8
    k = calls.values((1, 1, 700, 64), F16)
    k[..., 0] = climb * np.arange(700)
    calls.give(q, k, calls.values((1, 1, 700, 64), F16), out_dtype=F32)
    with force(dev, taken(tile)):
        calls.check(tile)


@gpu
def test_rows_that_are_lost(dev: pk.Device, tile: str) -> None:
    """A logit of NaN or +inf makes its row NaN, and no other; one of -inf is masked."""
    calls = AttentionCalls(dev)
    q, k, v = (calls.values((1, 1, 40, 16), F16) for _ in range(3))
    q[0, 0, 3], q[0, 0, 5, 0] = np.nan, np.inf
    k[..., 0] = np.where(np.arange(40) % 2, 1, -1)
    mask = np.zeros((40, 40), F32)
    mask[7, 9], mask[8, 4], mask[9, 2] = np.inf, np.nan, -np.inf
    for sinks in (None, np.float32([np.nan])):
        calls.give(q, k, v, mask, sinks)
    with force(dev, taken(tile)):
        calls.check(tile)


@gpu
def test_the_same_bits_each_time(dev: pk.Device, tile: str) -> None:
    calls = AttentionCalls(dev)
    q = calls.values((1, 2, 70, 24), F16)
    with force(dev, taken(tile, 2)):
        first = run(dev, q, q, q, causal=True)
        for a, b in zip(first, run(dev, q, q, q, causal=True), strict=True):
            assert_same_bits(a, b)


# -- plans, without a GPU -------------------------------------------------------------------------

WITH_UNITS = replace(BIG, matrix=UNITS)


@pytest.mark.parametrize(
    "sizes, depths, want",
    [
        ((1, 32, 32, 4096, 4096), (128, 128), "attention_mma/d128"),
        ((8, 16, 16, 1024, 1024), (64, 64), "attention_mma/d64"),
        ((8, 16, 16, 1024, 1024), (64, 72), "attention_mma/d128"),
        ((1, 8, 8, 4096, 4096), (192, 128), LARGE_TILE),
        ((1, 32, 8, 1, 16384), (128, 128), DECODE),
    ],
)
def test_choice(sizes: tuple[int, ...], depths: tuple[int, int], want: str) -> None:
    d = Dims(*sizes, *depths)
    assert choose(WITH_UNITS, d, halves=True).body == want
    # Neither other dtypes, nor other devices.
    less = (replace(UNITS, shapes=frozenset()), None)
    for own, halves in ((WITH_UNITS, False), *((replace(BIG, matrix=m), True) for m in less)):
        assert choose(own, d, halves=halves) == choose(BIG, d)
    if want != DECODE:
        assert choose(replace(WITH_UNITS, max_workgroup_bytes=8192), d, halves=True).body != want


def test_the_device_is_kept_busy() -> None:
    d = Dims(1, 8, 8, 256, 16384, 128, 128)  # 16 blocks
    assert 4 <= choose(WITH_UNITS, d, halves=True).splits <= 32
    assert choose(WITH_UNITS, d._replace(batch=64), halves=True).splits == 1


def steps(caps_: Caps, dtypes: tuple[str, str, str], depth: int) -> list[str]:
    q, k, v = (view((1, 4, 100, depth), dtype) for dtype in dtypes)
    dst = view((1, 4, 100, depth), F16)
    found = plans.plan(caps_, Scratch(), q, k, v, None, None, None, None, dst)
    return [s.body.name for s in found]


def test_one_dispatch_for_units_that_can_be_read() -> None:
    assert steps(WITH_UNITS, (F16, F16, F16), 64) == [MMA]
    assert steps(WITH_UNITS, (F16, F16, F16), 60)[-1] == MMA
    assert len(steps(WITH_UNITS, (F16, F16, F16), 60)) == 4
    for other in ((F32, F16, F16), (F16, F32, F16), (F16, F16, F32)):
        assert steps(WITH_UNITS, other, 64) == steps(BIG, other, 64)
