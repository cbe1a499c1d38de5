"""flash_attn_backward: within its budget for every tile, window, option and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.attention.select_backward import AttentionGradChoice
from tests.conftest import FULL
from tests.harness import Array, caps, forms, random_form
from tests.kernels.attention.attention_gradients import F16, F32, AttentionGradCalls

pytestmark = pytest.mark.gpu

# One tile a call, and windows of several tiles.
CHOICES = {
    "32": AttentionGradChoice(32, 8, 64, 96),
    "128": AttentionGradChoice(128, 8, 128, 256),
}
LENGTHS = ((1, 1), (31, 33), (32, 64), (33, 31), (1, 70), (70, 1), (127, 129), (130, 260))


@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("tile", CHOICES)
def test_flash_attn_backward_matches_reference(dev: pk.Device, tile: str, dtype: str) -> None:
    """Lengths around the tiles."""
    calls = AttentionGradCalls(dev)
    for n, (s, t) in enumerate(LENGTHS):
        calls.add((1, 2, 1 + n % 2, s, t, 16, 24), dtype, causal=n % 3 == 2)
    with force(dev, CHOICES[tile]):
        calls.check(tile)


@pytest.mark.sample
@pytest.mark.parametrize(
    ("d", "dv"),
    [(1, 1), (3, 5), (8, 200), (40, 40), (64, 64), (72, 72), (80, 80), (96, 96), (112, 112),
     (128, 128), (192, 128), (256, 256), (576, 512), (17, 0), (0, 17)],
)  # fmt: skip
@pytest.mark.parametrize("tile", CHOICES)
def test_depths(dev: pk.Device, tile: str, d: int, dv: int) -> None:
    calls = AttentionGradCalls(dev, d)
    scale = None if d else 1.0
    with force(dev, CHOICES[tile]):
        calls.add((1, 2, 2, 40, 50, d, dv), causal=True, scale=scale)
        calls.add((1, 2, 1, 20, 35, d, dv), F16, scale=scale)
        calls.check(tile)


def masks(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Array]:
    """Masks of each kind that broadcast to (B, H, S, T), some with rows without a key."""
    b, h, s, t = shape
    added = rng.normal(0, 2, (b, h, s, t))
    added[rng.random(added.shape) < 0.3] = -np.inf
    added[:, 0, :2] = -np.inf
    seen = rng.random((b, 1, s, t)) < 0.6
    seen[:, :, -1] = False
    return {
        "f32": added.astype(F32),
        "f16": added[:1].astype(F16),
        "bool": seen,
        "row": added[0, :1, 3:4].astype(F32),
        "per head": added[:1, :, 3:4, :1].astype(F16),
        "keys": rng.random(t) < 0.7,
        "one": np.array(0.5, F16),
    }


OPTIONS: list[dict[str, Any]] = [
    {}, {"causal": True}, {"causal": "top-left"}, {"window": (3, 10)}, {"window": (None, 0)},
    {"causal": True, "window": (7, None), "softcap": 2.0}, {"softcap": 30.0, "scale": 1.5},
    {"max_bias": 8.0}, {"max_bias": 4.0, "causal": "bottom-right", "scale": -0.2},
]  # fmt: skip


@pytest.mark.sample
@pytest.mark.parametrize("tile", CHOICES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(dev: pk.Device, options: dict[str, Any], tile: str) -> None:
    """Causality, windows, soft cap and ALiBi, with masks of each kind and sinks: a mask with one
    of the shapes, in turn from case to case; in the full mode with all of them."""
    calls = AttentionGradCalls(dev)
    turn = OPTIONS.index(options)
    for i, (h, hkv, s, t) in enumerate(((4, 4, 40, 70), (6, 2, 70, 40), (5, 1, 65, 65))):
        calls.add((2, h, hkv, s, t, 12, 20), **options)
        for n, (name, mask) in enumerate(masks(calls.rng, (2, h, s, t)).items()):
            sinks = calls.rng.normal(0, 2, h).astype(F32) if name in ("f32", "bool") else None
            if FULL or (n + turn) % 3 == i:
                calls.add((2, h, hkv, s, t, 12, 20), mask=mask, sinks=sinks, **options)
    with force(dev, CHOICES[tile]):
        calls.check()


@pytest.mark.parametrize("sizes", ((1, 32, 32), (3, 96, 32)), ids=str)
def test_many_windows(dev: pk.Device, sizes: tuple[int, int, int]) -> None:
    """Sums over several windows, hidden ones and short ones among them."""
    calls = AttentionGradCalls(dev)
    for options in (*OPTIONS[:3], {"window": (10, 40)}, {"window": (10, None)}):
        calls.add((2, 4, 2, 100, 170, 20, 24), **options)
        calls.add((1, 2, 2, 170, 100, 20, 24), **options)
    with force(dev, AttentionGradChoice(32, *sizes)):
        calls.check()


@pytest.mark.sample
@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("form", forms(4, repeats=True))
def test_layouts(dev: pk.Device, form: str, dtype: str) -> None:
    """Every tensor in this layout; the outputs too, where it repeats nothing."""
    four = forms(4, repeats=True)[form]
    three = forms(3, repeats=True)[form]
    layouts = {name: four for name in ("q", "k", "v", "do", "mask")} | {"lse": three}
    if "repeat" not in form:
        layouts |= {name: four for name in ("o", "dq", "dk", "dv")}
    else:
        layouts.pop("lse")
    calls = AttentionGradCalls(dev)
    calls.add((2, 4, 2, 9, 35, 8, 12), dtype, forms=layouts, causal=True)
    if "repeat" not in form:
        mask = calls.rng.normal(0, 1, (2, 4, 34, 9)).astype(dtype)
        calls.add((2, 4, 4, 34, 9, 8, 12), dtype, mask=mask, forms=layouts)
    calls.check(form)


@pytest.mark.parametrize("seed", range(3))
def test_one_buffer(dev: pk.Device, seed: int) -> None:
    """All tensors of a call, and of several calls, in one buffer; kinds of both sizes mixed."""
    calls = AttentionGradCalls(dev, seed)
    names = ("q", "k", "v", "o", "do", "dq", "dk", "dv")
    for n in range(3):
        kinds = {name: str(calls.rng.choice((F32, F16))) for name in names}
        layouts = {name: random_form(calls.rng, 4, repeats=False) for name in names}
        calls.add((1, 2, 1 + n % 2, 10, 21, 5, 8), kinds=kinds, forms=layouts, shared=True)
    calls.check()


def test_without_native_halves(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        calls = AttentionGradCalls(dev)
        calls.add((1, 2, 1, 20, 30, 8, 12), F16, mask=np.zeros((20, 30), F16), causal=True)
        calls.check()


def test_panels_beyond_one_binding(dev: pk.Device) -> None:
    """Some batches at a time, then some KV heads: masks and slopes still know which."""
    calls = AttentionGradCalls(dev)
    for b, h, hkv in ((4, 2, 2), (2, 6, 3), (1, 4, 2)):
        mask = calls.rng.normal(0, 2, (b, h, 60, 70)).astype(F32)
        calls.add((b, h, hkv, 60, 70, 40, 40), F16, mask=mask, max_bias=8.0)
        calls.add((b, h, hkv, 60, 70, 40, 40), mask=mask[:1, :, :1], max_bias=8.0, causal=True)
    with caps(dev, max_binding=400_000):
        calls.check()


def random_call(calls: AttentionGradCalls) -> None:
    """Any call of moderate size."""
    rng = calls.rng
    hkv, group = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    top = int(rng.choice([5, 40, 140]))
    s, t = (int(n) for n in rng.integers(1, top, 2))
    d, dv = (int(n) for n in rng.choice([1, 4, 7, 16, 33, 64, 80], 2))
    b, h = int(rng.integers(1, 3)), hkv * group
    options: dict[str, Any] = {"causal": [False, True, "top-left", False][rng.integers(4)]}
    if rng.random() < 0.3:
        sides = [None if rng.random() < 0.3 else int(rng.integers(0, top)) for _ in range(2)]
        options["window"] = tuple(sides)
    if rng.random() < 0.3:
        options["softcap"] = float(rng.uniform(1, 40))
    if rng.random() < 0.3:
        options["scale"] = float(rng.uniform(-1, 1))
    if rng.random() < 0.3:
        options["max_bias"] = float(rng.uniform(0, 16))
    mask = None
    if rng.random() < 0.5:
        found = masks(rng, (b, h, max(s, 4), t))
        mask = found[str(rng.choice(list(found)))]
        mask = mask[..., :s, :] if mask.ndim > 1 else mask
    sinks = rng.normal(0, 2, h).astype(F32) if rng.random() < 0.3 else None
    calls.add((b, h, hkv, s, t, d, dv), str(rng.choice((F32, F16))), mask=mask, sinks=sinks,
              **options)  # fmt: skip


@pytest.mark.sample
@pytest.mark.parametrize("seed", range(50))
def test_random_calls(dev: pk.Device, seed: int) -> None:
    """1,000 calls in all."""
    calls = AttentionGradCalls(dev, seed)
    for _ in range(20):
        random_call(calls)
    tile = int(calls.rng.choice([32, 32, 32, 128]))
    sizes = calls.rng.integers(1, 5, 2) * tile
    with force(
        dev, AttentionGradChoice(tile, int(calls.rng.integers(1, 9)), *(int(n) for n in sizes))
    ):
        calls.check()


@pytest.mark.crowd
def test_a_long_grid_folds(dev: pk.Device) -> None:
    with caps(dev, max_groups=3):
        calls = AttentionGradCalls(dev)
        calls.add((1, 1, 1, 40, 40, 8, 40))
        calls.check()
