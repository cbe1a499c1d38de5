"""flash_attn as two products with attention_softmax between them: options, chunks, matrix units,
and the choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force, with_forced
from pykernels.plans.attention.arguments import Dims
from pykernels.plans.attention.flash_attn import plan
from pykernels.plans.attention.select import (
    LARGE,
    MMA,
    PRODUCTS,
    AttentionChoice,
    candidates,
    choose,
)
from pykernels.plans.matmul.select import GemmChoice
from pykernels.reference.attention import attention
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View
from pykernels.tuning import named
from tests.emulation import UNITS, emulated
from tests.harness import Form, caps, random_form
from tests.kernels.attention.attention_calls import F16, F32, AttentionCalls, run
from tests.kernels.attention.test_flash_attn import BIG, SMALL, view

gpu = pytest.mark.gpu
CAUSAL: tuple[Any, ...] = (False, True, "top-left")
TILE = GemmChoice("gemm_mma/32x32")
UNITED = replace(BIG, matrix=replace(UNITS, dialect="subgroup_matrix"))


def taken(queries: int = 0) -> AttentionChoice:
    return AttentionChoice(PRODUCTS, queries=queries)


# -- calls ----------------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("queries", (0, 1, 5, 16))
def test_chunks(dev: pk.Device, queries: int) -> None:
    """Rows and chunks of any length, bands that hide whole chunks, deep heads, shared KV heads."""
    calls = AttentionCalls(dev)
    for (s, t), causal in zip(((1, 1), (17, 40), (40, 17)), CAUSAL, strict=True):
        calls.add((1, 2, 1), (s, t), (40, 36), causal=causal)
        calls.add((2, 4, 2), (s, t), (16, 20), F16, causal=causal, window=(3, 2), out_dtype=F32)
    calls.add((1, 2, 2), (33, 70), (256, 256), causal=True)
    calls.add((1, 6, 2), (9, 21), (8, 512), kv_dtype=F16, softcap=2.0)
    calls.add((1, 4, 4), (31, 10), (16, 24), causal=True, sinks=np.float32([0.5, -np.inf, 20, -1]))
    with force(dev, taken(queries)):
        calls.check(f"{queries} queries")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("seed", range(8))
def test_random_arguments(dev: pk.Device, seed: int) -> None:
    """Any sizes, layouts and options but masks; calls with masks take another body."""
    calls = AttentionCalls(dev, seed)
    rng = calls.rng
    for _ in range(12):
        hkv, group = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3]))
        s, t = (int(rng.choice([1, 7, 16, 31, 33, 64, 70])) for _ in range(2))
        depths = tuple(int(rng.choice([1, 4, 16, 33, 64, 130])) for _ in range(2))
        options: dict[str, Any] = {"causal": CAUSAL[int(rng.integers(3))]}
        if rng.random() < 0.3:
            options["window"] = tuple(
                None if rng.random() < 0.3 else int(rng.integers(0, 40)) for _ in range(2)
            )
        if rng.random() < 0.3:
            options["softcap"] = float(rng.choice([0.5, 5.0, 50.0]))
        if rng.random() < 0.3:
            options["scale"] = float(rng.choice([0.0, 0.3, -0.5]))
        b, h = int(rng.integers(1, 3)), hkv * group
        forms = {
            name: random_form(rng, 4, repeats=name != "dst")
            for name in ("q", "k", "v", "dst")
            if rng.random() < 0.4
        }
        mask = calls.mask((s, t), "bool", 0.5) if rng.random() < 0.2 else None
        sinks = calls.values((h,)) if rng.random() < 0.3 else None
        calls.add((b, h, hkv), (s, t), depths, str(rng.choice([F32, F16])), mask=mask,  # type: ignore[arg-type]
                  kv_dtype=str(rng.choice(["", F32, F16])), sinks=sinks, forms=forms,
                  lse=bool(rng.random() < 0.7), **options)  # fmt: skip
    with force(dev, taken(int(rng.choice([0, 8, 24])))):
        calls.check(f"seed {seed}")


@gpu
def test_heads_in_turn(dev: pk.Device) -> None:
    """Little room for scores: some heads, then others, of one batch and of several; and tensors
    that no binding of this size holds."""
    table = named("generic-small")
    for room in (1 << 11, 1 << 13, 1 << 15):
        own = replace(table.attention, products=replace(table.attention.products, room=room))
        calls = AttentionCalls(dev)
        calls.add((3, 4, 2), (20, 30), (24, 20), causal=True, sinks=calls.values((4,)))
        calls.add((2, 3, 3), (33, 9), (8, 8), F16, forms={"q": Form(steps=(1, 1, -1, 1))})
        with caps(dev, tuning=replace(table, attention=own)), force(dev, taken(16)):
            calls.check(f"room of {room}")
    calls = AttentionCalls(dev)
    calls.add((2, 4, 2), (64, 64), (64, 64))
    with caps(dev, max_binding=1 << 15), force(dev, taken()):
        calls.check("small bindings")


@gpu
def test_values_that_are_not_finite(dev: pk.Device) -> None:
    """Values of keys that no query of a call sees do not count; a logit of NaN or infinity makes
    its row NaN, and no other row."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(1, 2, n, 32)).astype(F32) for n in (24, 40, 40))
    want = attention(q, k, v, window=(10, 0))
    v[:, :, :6], k[:, :, :6] = np.nan, np.inf  # the first query stands at key 16
    with force(dev, taken()):
        got, lse = run(dev, q, k, v, window=(10, 0))
    np.testing.assert_allclose(got, want.o, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(lse, want.lse, rtol=1e-4, atol=1e-5)
    v[:, :, :6], k[:, :, :6] = 1, 1
    q[:, 0, 3], k = np.inf, np.abs(k)
    with force(dev, taken(8)):
        got, lse = run(dev, q, k, v)
    assert np.isnan(got[0, 0, 3]).all()
    assert np.isnan(lse[0, 0, 3])
    others = np.delete(np.arange(24), 3)
    np.testing.assert_allclose(got[:, :, others], attention(q, k, v).o[:, :, others], rtol=1e-4,
                               atol=1e-5)  # fmt: skip


# -- matrix units ---------------------------------------------------------------------------------


@gpu
def test_on_matrix_units(dev: pk.Device) -> None:
    """Both products on the units, weights as halves; results within the bound of rounded
    weights."""
    if "shader-f16" not in dev.features:
        pytest.skip("halves are f32 here before a plan sees them")
    with emulated(dev, "gemm_mma"):
        calls = AttentionCalls(dev)
        calls.add((1, 4, 2), (40, 70), (256, 256), F16, causal=True)
        calls.add((1, 2, 2), (33, 64), (136, 192), F16, window=(20, 3), out_dtype=F32)
        calls.add((2, 2, 1), (16, 48), (64, 160), F16, sinks=calls.values((2,)), softcap=3.0)
        with force(dev, taken(16), TILE):
            calls.check("units")
            q = dev.tensor(calls.values((1, 2, 32, 160), F16))
            with dev.profile() as p:
                pk.flash_attn(q, q, q)
    bodies = [r.label.split()[0] for r in p.records]
    assert bodies.count("attention_softmax") == 2
    assert "gemm_mma" in bodies
    assert not {"mul_mat", "gemm_tile"} & {*bodies}


# -- the choice -----------------------------------------------------------------------------------


def bodies(caps_: Caps, sizes: tuple[int, ...], dtype: str = F32, **options: Any) -> list[str]:
    b, h, hkv, s, t, d, dv = sizes
    q, k, v, o = (
        view(x, dtype) for x in ((b, h, s, d), (b, hkv, t, d), (b, hkv, t, dv), (b, h, s, dv))
    )
    given: dict[str, View | None] = {n: options.pop(n, None) for n in ("mask", "lengths")}
    steps = plan(
        caps_, Scratch(), q, k, v, given["mask"], None, given["lengths"], None, o, **options
    )
    return [s.body.name for s in steps]


@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("depth", (256, 512))
def test_deep_heads_take_products(depth: int, dtype: str) -> None:
    sizes = (1, 8, 8, 2048, 2048, depth, depth)
    found = bodies(BIG, sizes, dtype)
    assert found.count("attention_softmax") == 1
    assert found.count("gemm_tile") == 2
    for hidden in ({"mask": view((2048, 2048))}, {"lengths": view((1,), "int32")}):
        assert "attention_tile" in bodies(BIG, sizes, dtype, **hidden)
    assert "attention_tile" in bodies(SMALL, sizes, dtype)
    d = Dims(1, 8, 8, 2048, 2048, depth, depth)
    [own] = [c for c in candidates(BIG, d) if c.choice.body == PRODUCTS]
    assert own.choice == choose(BIG, d)
    assert own.seconds is not None
    [own] = [c for c in candidates(BIG, d, hidden=True) if c.choice.body == PRODUCTS]
    assert own.why


def test_shallow_heads_take_tiles() -> None:
    for depths in ((128, 128), (192, 128), (64, 64)):
        assert choose(BIG, Dims(1, 8, 8, 2048, 2048, *depths)).body == LARGE
    assert choose(UNITED, Dims(1, 8, 8, 2048, 2048, 128, 128), False, True).body.startswith(MMA)


def test_causal_chunks_leave_out_hidden_keys() -> None:
    """Of four chunks of 512 queries, each multiplies only the keys up to its last one."""
    x = view((1, 8, 2048, 512))
    given = with_forced(BIG, taken(512))
    scratch = Scratch()
    steps = plan(given, scratch, x, x, x, None, None, None, None, x, causal=True)
    keys = [s.bound[1].view.shape[3] for s in steps if s.body.name == "attention_softmax"]  # type: ignore[union-attr]
    assert keys == [512, 1024, 1536, 2048]
    assert all(s.scalars == (1.0,) for s in steps if s.body.args)


def test_units_take_halves_between_the_products() -> None:
    sizes = (1, 8, 8, 2048, 2048, 512, 512)
    found = bodies(UNITED, sizes, F16)
    assert [n for n in found if n != "splitk_reduce"] == [
        "gemm_mma",
        "attention_softmax",
        "gemm_mma",
    ]
    assert "gemm_mma" not in bodies(UNITED, sizes, F32)


@pytest.mark.parametrize("keys", (2048, 8192))
def test_scores_stay_within_their_room(keys: int) -> None:
    scratch = Scratch()
    q, kv = view((1, 32, keys, 256)), view((1, 8, keys, 256))
    assert choose(BIG, Dims(1, 32, 8, keys, keys, 256, 256)).body == PRODUCTS
    plan(BIG, scratch, q, kv, kv, None, None, None, None, q)
    room = BIG.tuning.attention.products.room
    assert max(scratch.sizes) <= max(room, 4 * kv.size)


def test_long_calls_keep_few_dispatches() -> None:
    """Where chunks would be many, and in parts of tensors larger than a binding."""
    assert choose(BIG, Dims(1, 32, 8, 65536, 65536, 256, 256)).body == LARGE
    sizes = (1, 8, 8, 2048, 2048, 512, 512)
    assert "attention_softmax" in bodies(replace(BIG, max_binding=1 << 25), sizes)
    assert "attention_softmax" not in bodies(replace(BIG, max_binding=1 << 24), sizes)
