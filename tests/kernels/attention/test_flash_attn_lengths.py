"""flash_attn with lengths: how many keys of each batch count is read on the device.

What lies behind them is NaN and infinite in all calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.kernels import flash_attn
from pykernels.plans.attention import flash_attn as plans
from pykernels.plans.attention.select import BLOCKS, AttentionChoice, AttentionTail
from pykernels.plans.attention.select import SMALL as SMALL_TILE
from pykernels.reference.attention import _product, attention
from pykernels.reference.attention import flash_attn_budget as budget
from pykernels.steps import Caps, Scratch, Step
from pykernels.tuning import named
from tests.harness import Form, assert_close, assert_same_bits, caps, random_form
from tests.kernels.attention.attention_calls import F16, F32, AttentionCalls
from tests.kernels.attention.test_flash_attn import BIG, BODIES, SMALL, SOME, view

gpu = pytest.mark.gpu
CAUSAL: tuple[Any, ...] = (False, True, "top-left")


@pytest.fixture(autouse=True)
def scratch_of_nan(request: pytest.FixtureRequest) -> None:
    """What is not written of scratch is NaN: blocks of the pool that were full of it."""
    if "dev" in request.fixturenames:
        dev = request.getfixturevalue("dev")
        full = [dev.full((1 << n,), np.nan) for n in range(6, 18) for _ in range(4)]
        dev.sync()
        del full


# -- every body -----------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("body", SOME)
def test_edges(dev: pk.Device, body: str, dtype: str) -> None:
    """None, one, all, too many, too few; around the size of a tile; causal both ways, windows."""
    value_depth = 36 if (dtype == F32) != (body == "large") else 100  # the two shapes of a tile
    padded = 64 if value_depth <= 64 else 128
    rows, keys = BLOCKS.get((f"attention_tile/{body.split()[0]}", padded), (32, 32))
    t = 2 * keys + 3
    lengths = [0, 1, keys - 1, keys, keys + 1, t - 1, t, t + 9, -7, 2**31 - 1, -(2**31)]
    calls = AttentionCalls(dev)
    for s, causal in zip((1, 4, rows + 1), CAUSAL, strict=True):
        calls.add((11, 2, 1), (s, t), (40, value_depth), dtype, lengths=lengths, causal=causal)
    for window in ((5, None), (None, 2), (3, 4)):
        calls.add((11, 2, 1), (3, t), (40, value_depth), dtype, lengths=lengths, window=window,
                  causal="top-left" if window[0] else False)  # fmt: skip
    with force(dev, BODIES[body]):
        calls.check(body)


@gpu
@pytest.mark.parametrize("body", SOME)
def test_every_option(dev: pk.Device, body: str) -> None:
    """Masks of each kind, ALiBi, sinks, soft cap, window and causality, in any combination."""
    calls = AttentionCalls(dev)
    deep = 100 if body == "large split" else 24  # the other shape of the tile
    sinks = np.float32([0.5, -np.inf, 20.0, -1.0])
    lengths = [97, 150, 0, 31]
    for kind, causal in zip((F32, F16, "bool"), CAUSAL, strict=True):
        mask = calls.mask((4, 37, 150), kind)
        mask[:, 5] = False if kind == "bool" else -np.inf
        calls.add((4, 4, 2), (37, 150), (20, deep), mask=mask, sinks=sinks, lengths=lengths,
                  max_bias=8.0, softcap=3.0)  # fmt: skip
        calls.add((4, 4, 2), (37, 150), (20, deep), mask=mask[0, :, :1], lengths=lengths,
                  window=(40, 2), causal=causal)  # fmt: skip
    calls.add((4, 4, 4), (37, 150), (16, deep), sinks=sinks, lengths=lengths, window=(0, 0))
    calls.add((4, 4, 4), (37, 20), (16, deep), lengths=[20, 3, 25, 0], softcap=0.5, causal=True)
    with force(dev, BODIES[body]):
        calls.check(body)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("depths", [(64, 64), (72, 100), (256, 256), (33, 60), (576, 512)], ids=str)
def test_decoding(dev: pk.Device, depths: tuple[int, int], dtype: str) -> None:
    """All lane groups and the body without them, in many splits, most of them without keys."""
    calls = AttentionCalls(dev)
    for s, lengths in ((1, [700, 2, 0]), (3, [64, 333, 1]), (2, [128, 129, 699])):
        calls.add((3, 4, 1), (s, 700), depths, dtype, lengths=lengths, causal=True)
        calls.add((3, 4, 2), (s, 700), depths, dtype, lengths=lengths, window=(50, 0),
                  sinks=calls.values((4,)))  # fmt: skip
    for splits in (5, 64) if max(depths) < 256 else (5,):  # a number of splits is no text
        with force(dev, AttentionChoice("decode", splits)):
            calls.check(f"{splits}")


@gpu
def test_without_subgroups(dev: pk.Device) -> None:
    calls = AttentionCalls(dev)
    for dtype in (F32, F16):
        calls.add((4, 4, 1), (1, 300), (64, 64), dtype, lengths=[300, 17, 0, 64])
    with caps(dev, subgroups=False):
        calls.check()


@gpu
def test_without_native_halves(dev: pk.Device) -> None:
    calls = AttentionCalls(dev)
    for s in (2, 40):
        calls.add((2, 2, 1), (s, 50), (16, 16), F16, lengths=[13, 49])
    with caps(dev, f16=False, tuning=named("generic-small")):
        calls.check()


@gpu
@pytest.mark.parametrize("kinds", ((F32, F16), (F16, F32)), ids="-".join)
def test_mixed_dtypes(dev: pk.Device, kinds: tuple[str, str]) -> None:
    calls = AttentionCalls(dev)
    for s in (2, 40):
        k, v = (calls.values((2, 1, 50, 16), kind) for kind in kinds)
        k[0, :, 20:] = v[0, :, 20:] = np.nan
        calls.give(calls.values((2, 2, s, 16)), k, v, lengths=np.int32([20, 50]))
    with caps(dev, tuning=named("generic-small")):
        calls.check()


@gpu
@pytest.mark.parametrize("limit", (32768, 16384))
def test_copies_larger_than_a_binding(dev: pk.Device, limit: int) -> None:
    """Keys are packed for some of the batches at a time, or some KV heads of one."""
    calls = AttentionCalls(dev)
    for form in (None, Form(steps=(-3,), phase=5)) if limit == 32768 else ():
        calls.add((5, 2, 1), (40, 60), (16, 17), lengths=[60, 5, 0, 33, 32],
                  forms={"lengths": form} if form else None)  # fmt: skip
    calls.add((2, 6, 3), (17, 34), (20, 17), F16, lengths=[3, 34], causal=True)
    with caps(dev, max_binding=limit, tuning=named("generic-small")):
        calls.check()


@gpu
def test_a_tail(dev: pk.Device) -> None:
    """Blocks at the end in splits of their own, of which lengths may leave none a key."""
    calls = AttentionCalls(dev)
    calls.add((2, 3, 3), (70, 128), (16, 20), lengths=[20, 97], sinks=calls.values((3,)))
    with force(dev, AttentionChoice(SMALL_TILE, 1, AttentionTail(4, 2, 1, 3))):
        calls.check()


# -- layouts --------------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("s", (2, 40))
def test_layouts_of_lengths(dev: pk.Device, s: int) -> None:
    """Apart, backwards, one for all batches; beside and between the other tensors."""
    calls = AttentionCalls(dev)
    for form in (Form(phase=3), Form(steps=(3,), phase=1), Form(steps=(-2,), phase=7)):
        calls.add((3, 2, 1), (s, 70), (16, 16), lengths=[5, 70, 33], forms={"lengths": form})
    calls.add((3, 2, 1), (s, 70), (16, 16), lengths=[33] * 3, forms={"lengths": Form(steps=(0,))})
    everything = ("q", "k", "v", "mask", "sinks", "lengths", "lse", "dst")
    for some in (everything, ("lengths", "dst"), ("lengths", "lse"), ("lengths", "k")):
        mask, sinks = calls.mask((s, 36), F32), calls.values((2,))
        calls.add((2, 2, 1), (s, 36), (16, 8), mask=mask, sinks=sinks, lengths=[7, 20],
                  buffers=dict.fromkeys(some, "x"))  # fmt: skip
    with caps(dev, tuning=named("generic-small")):
        calls.check()


# -- a cache that grows ---------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("body", ("decode split", "32 split"))
def test_one_call_for_every_position(dev: pk.Device, body: str) -> None:
    """The same tensors again and again, with another token and other lengths."""
    rng = np.random.default_rng(5)
    q = dev.tensor(rng.normal(0, 1, (2, 4, 2, 16)).astype(F32))
    k, v = (np.full((2, 2, 70, 16), np.nan, F32) for _ in range(2))
    tk, tv, lengths = dev.tensor(k), dev.tensor(v), dev.zeros(2, "int32")
    out, lse = dev.zeros((2, 4, 2, 16)), dev.zeros((2, 4, 2))
    with force(dev, BODIES[body]):
        for n in (0, 1, 2, 31, 32, 33, 64, 70):
            for a, t in ((k, tk), (v, tv)):
                a[:, :, :n] = rng.normal(0, 1, a[:, :, :n].shape)
                t.write(a)
            lengths.write(np.int32([n, n // 2]))
            flash_attn(q, tk, tv, out, lse=lse, lengths=lengths, causal=True)
            want = attention(q.numpy(), k, v, lengths=np.int32([n, n // 2]), causal=True)
            assert_close(out.numpy(), want.o, budget(q.numpy(), k, v, result=want))
            assert (np.isneginf(lse.numpy()) == np.isneginf(want.lse)).all()


@gpu
@pytest.mark.parametrize("s", (1, 40))
def test_all_keys_are_as_without_lengths(dev: pk.Device, s: int) -> None:
    """Bit for bit, where the same blocks are read in the same order."""
    calls = AttentionCalls(dev)
    q, k, v = (dev.tensor(calls.values((2, 2, n, 16))) for n in (s, 90, 90))
    lengths = dev.full(2, 90, "int32")
    for options in ({}, {"causal": True}, {"causal": "top-left"}, {"window": (9, 9)}):
        with force(dev, BODIES["decode split" if s == 1 else "32 split"]):
            want = pk.flash_attn(q, k, v, return_lse=True, **options)  # type: ignore[call-overload]
            got = pk.flash_attn(q, k, v, lengths=lengths, return_lse=True, **options)  # type: ignore[call-overload]
        for a, b in zip(got, want, strict=True):
            assert_same_bits(a.numpy(), b.numpy())


# -- random calls ---------------------------------------------------------------------------------


def random_call(calls: AttentionCalls, rng: np.random.Generator) -> None:
    """Any sizes, layouts and options."""
    hkv, group = int(rng.integers(1, 3)), int(rng.choice([1, 2, 3, 5]))
    b, h = int(rng.integers(1, 5)), hkv * group
    s, t = (int(rng.choice([1, 2, 7, 16, 31, 33, 50, 70])) for _ in range(2))
    depths = int(rng.choice([1, 8, 16, 33, 64])), int(rng.choice([1, 8, 24, 40, 64]))
    options: dict[str, Any] = {"causal": CAUSAL[int(rng.integers(3))]}
    if rng.random() < 0.4:
        sides = [None if rng.random() < 0.3 else int(rng.integers(0, 40)) for _ in range(2)]
        options["window"] = tuple(sides)
    if rng.random() < 0.3:
        options["softcap"] = float(rng.choice([0.5, 5.0]))
    mask = None
    if rng.random() < 0.4:
        shape = tuple(n if rng.random() < 0.6 else 1 for n in (b, h, s, t))
        mask = calls.mask(shape, str(rng.choice([F32, F16, "bool"])), float(rng.random()))
        options["max_bias"] = float(rng.choice([0.0, 8.0]))
    given = {
        name: random_form(rng, 4, repeats=False)
        for name in ("q", "k", "v", "dst")
        if rng.random() < 0.3
    }
    given["lengths"] = random_form(rng, 1, repeats=False)
    calls.add((b, h, hkv), (s, t), depths, str(rng.choice([F32, F16])), mask=mask,  # type: ignore[arg-type]
              sinks=calls.values((h,)) if rng.random() < 0.3 else None,
              lengths=rng.integers(-3, t + 5, b).tolist(), forms=given,
              lse=bool(rng.random() < 0.7), **options)  # fmt: skip


@gpu
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sample
def test_random_calls(dev: pk.Device, seed: int) -> None:
    """26 calls each: with all 20 seeds, 520 sets of parameters."""
    calls = AttentionCalls(dev, seed)
    for _ in range(26):
        random_call(calls, calls.rng)
    body = ("decode", "32", "32 split", "decode split")[seed % 4]
    with force(dev, BODIES[body]):
        calls.check(body)


# -- arguments, and plans without a GPU -----------------------------------------------------------


@gpu
def test_refused(dev: pk.Device) -> None:
    x = dev.zeros((2, 2, 8, 16))
    for shape in ((1,), (2, 1), ()):
        with pytest.raises(pk.ShapeError, match=r"lengths must have shape \(2,\)"):
            flash_attn(x, x, x, x, lengths=dev.zeros(shape, "int32"))
    for dtype in ("int64", "uint32", "float32"):
        with pytest.raises(pk.DTypeError, match="lengths must be int32"):
            flash_attn(x, x, x, x, lengths=dev.zeros(2, dtype))
    with pytest.raises(pk.ArgumentError, match="int32"):
        pk.flash_attn(x, x, x, lengths=np.array([3, 1 << 40], np.int64))


@gpu
def test_nothing_to_do(dev: pk.Device) -> None:
    """No keys at all; no depth of values, so that lse is all there is."""
    q, none, lengths = (
        dev.rand((2, 2, 3, 4), seed=0),
        dev.zeros((2, 2, 0, 4)),
        dev.full(2, 5, "int32"),
    )
    out, lse = pk.flash_attn(q, none, none, lengths=lengths, return_lse=True)
    assert (out.numpy() == 0).all() and (lse.numpy() == -np.inf).all()
    some = dev.tensor(np.int32([1, 3]))
    out, lse = pk.flash_attn(q, q, q[..., :0], lengths=some, return_lse=True)
    a = q.numpy()
    assert out.shape == (2, 2, 3, 0)
    np.testing.assert_allclose(lse.numpy(), attention(a, a, a, lengths=some.numpy()).lse, rtol=1e-5)


def planned(caps_: Caps, sizes: tuple[int, int, int], lengths: bool, **options: Any) -> list[Step]:
    """The steps for 32 heads, 8 of them of keys: batch, S, T."""
    b, s, t = sizes
    q, kv = view((b, 32, s, 128)), view((b, 8, t, 128))
    given = view((b,), "int32") if lengths else None
    return plans.plan(caps_, Scratch(), q, kv, kv, None, None, given, None, q, **options)


@pytest.mark.parametrize("caps_", (BIG, SMALL), ids=("large", "small"))
def test_eight_bindings_at_most(caps_: Caps) -> None:
    """What each device has: also with a mask and sinks, which are bound without being given."""
    for s in (1, 600):
        for step in planned(caps_, (2, s, 5000), True):
            assert len(step.bound) <= 8


# The first params of attention_decode.
PARAMS = ("kv_heads", "group", "queries", "keys", "depth", "value_depth", "matrices", "row_groups",
          "splits", "first_key", "last_key")  # fmt: skip


def test_a_window_needs_few_splits() -> None:
    """As many keys as the window may show, wherever lengths put it; top-left as many as queries."""
    for options, keys in (
        ({}, 5000), ({"causal": True}, 5000), ({"window": (63, 0)}, 64 + 3),
        ({"causal": "top-left"}, 4), ({"causal": "top-left", "window": (1, 1)}, 4),
    ):  # fmt: skip
        step = planned(BIG, (1, 4, 5000), True, **options)[0]
        values = dict(zip(PARAMS, step.values, strict=False))
        assert values["last_key"] - values["first_key"] == keys, options


@pytest.mark.parametrize("s", (1, 600))
def test_only_calls_with_lengths_bind_them(s: int) -> None:
    for given in (False, True):
        steps = planned(BIG, (1, s, 5000), given)
        bound = [s.body.name for s in steps if "lengths" in [b.name for b in s.bound]]
        assert bound == [s.body.name for s in steps if given and "combine" not in s.body.name]


@pytest.mark.parametrize("dead", (range(3, 7), (1,)), ids=("of no query", "of some"))
def test_products_of_the_reference_leave_out_what_is_not_allowed(dead: Any) -> None:
    rng = np.random.default_rng(1)
    weights, rows = rng.random((2, 3, 5, 7)), rng.random((2, 3, 7, 4))
    rows[..., list(dead), :] = [np.nan, np.inf, -np.inf, np.nan]
    allowed = rng.random(weights.shape) < 0.7
    allowed[..., list(dead)] = False
    allowed[0, 0, 0, dead[0]] = len(dead) == 1  # then one row has the values, and is NaN
    with np.errstate(all="ignore"):
        want = np.zeros((2, 3, 5, 4))
        for j in range(7):
            want += np.where(
                allowed[..., j, None], weights[..., j, None] * rows[..., j, None, :], 0
            )
    np.testing.assert_allclose(_product(weights, rows, allowed), want, rtol=1e-12)
