"""flash_attn: every body on the sizes, layouts and options that it may be chosen for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.forcing import force
from pykernels.kernels import flash_attn
from pykernels.plans.attention import flash_attn as plans
from pykernels.plans.attention.arguments import Dims
from pykernels.plans.attention.select import BLOCKS, DECODE, PRODUCTS, AttentionChoice, choose
from pykernels.plans.attention.select import LARGE as LARGE_TILE
from pykernels.plans.attention.select import SMALL as SMALL_TILE
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named
from tests.harness import Form, assert_same_bits, caps, forms, random_form
from tests.kernels.attention.attention_calls import F16, F32, AttentionCalls

gpu = pytest.mark.gpu
BODIES = {
    "decode": AttentionChoice(DECODE), "decode split": AttentionChoice(DECODE, 5),
    "32": AttentionChoice(SMALL_TILE), "32 split": AttentionChoice(SMALL_TILE, 3),
    "large": AttentionChoice(LARGE_TILE), "large split": AttentionChoice(LARGE_TILE, 2),
    "products": AttentionChoice(PRODUCTS), "products split": AttentionChoice(PRODUCTS, queries=8),
}  # fmt: skip
# Drivers on processors take half a minute for the largest text: the short run has it seldom.
SOME = [pytest.param(n, marks=pytest.mark.sample) for n in BODIES]
DEPTHS = [(40, 40), (64, 64), (72, 72), (80, 80), (96, 96), (112, 112), (128, 128), (192, 128),
          (256, 256), (576, 512)]  # fmt: skip

# -- every body -----------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("body", SOME)
def test_body_at_its_edges(dev: pk.Device, body: str, dtype: str) -> None:
    """Lengths 1 and around the size of the tile, T < S, T > S, causal both ways, in one group."""
    value_depth = 36 if (dtype == F32) != (body == "large") else 100  # the two shapes of a tile
    padded = 64 if value_depth <= 64 else 128
    rows, keys = BLOCKS.get((f"attention_tile/{body.split()[0]}", padded), (32, 32))
    calls = AttentionCalls(dev)
    for s, t in ((1, 1), (1, keys + 1), (rows - 1, keys), (rows, keys - 1), (rows + 1, 2 * keys)):
        for causal in (False, True, "top-left"):
            calls.add((1, 2, 1), (s, t), (40, value_depth), dtype, causal=causal)
    calls.add((2, 4, 2), (9, 2 * keys + 3), (64, padded), dtype, out_dtype=F32)
    with force(dev, BODIES[body]):
        calls.check(body)


@gpu
@pytest.mark.parametrize("body", SOME)
def test_body_with_every_option(dev: pk.Device, body: str) -> None:
    """Masks of each kind, ALiBi, sinks, soft cap and window together, over many tiles."""
    calls = AttentionCalls(dev)
    deep = 100 if body == "large split" else 24  # the other shape of the tile
    sinks = np.float32([0.5, -np.inf, 20.0, -1.0])
    for kind in (F32, F16, "bool"):
        mask = calls.mask((4, 37, 150), kind)
        mask[:, 5] = False if kind == "bool" else -np.inf
        mask[..., 32:96] = False if kind == "bool" else -np.inf
        calls.add((2, 4, 2), (37, 150), (20, deep), mask=mask, sinks=sinks, max_bias=8.0,
                  softcap=3.0)  # fmt: skip
        calls.add(
            (2, 4, 2), (37, 150), (20, deep), mask=mask[0, :, :1], window=(40, 2), causal=True
        )
    calls.add((1, 4, 4), (37, 150), (16, deep), sinks=sinks, window=(0, 0))
    calls.add((1, 4, 4), (37, 20), (16, deep), softcap=0.5, scale=2.0, causal=True)
    with force(dev, BODIES[body]):
        calls.check(body)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("depths", DEPTHS, ids=str)
def test_depths(dev: pk.Device, depths: tuple[int, int], dtype: str) -> None:
    calls = AttentionCalls(dev)
    for s in (1, 8, 40):
        calls.add((1, 4, 1), (s, 67), depths, dtype, causal=True)
    with caps(dev, tuning=named("generic-small")):
        calls.check()


@gpu
@pytest.mark.parametrize("first", (1, 9, 130, 255))
@pytest.mark.sample
def test_odd_depths(dev: pk.Device, first: int) -> None:
    calls = AttentionCalls(dev)
    for depth in (first, first + 1):
        for other in (1, 33, depth):
            calls.add((1, 2, 1), (35, 40), (depth, other))
            calls.add((1, 2, 1), (2, 40), (other, depth))
    with caps(dev, tuning=named("generic-small")):
        calls.check()


@gpu
@pytest.mark.parametrize("kinds", ((F32, F16), (F16, F32)), ids="-".join)
@pytest.mark.parametrize("out", (F32, F16))
def test_mixed_dtypes(dev: pk.Device, kinds: tuple[str, str], out: str) -> None:
    calls = AttentionCalls(dev)
    for s in (2, 40):
        calls.add((1, 2, 1), (s, 50), (16, 16), kinds[0], kv_dtype=kinds[1], out_dtype=out)
    k = calls.values((1, 1, 40, 16), kinds[0])
    calls.give(k, k, calls.values((1, 1, 40, 16), kinds[1]), out_dtype=out)
    with caps(dev, tuning=named("generic-small")):
        calls.check()


@gpu
def test_without_native_halves(dev: pk.Device) -> None:
    calls = AttentionCalls(dev)
    for s in (2, 40):
        calls.add((1, 2, 1), (s, 50), (16, 16), F16, mask=calls.mask((s, 50), F16))
    with caps(dev, f16=False, tuning=named("generic-small")):
        calls.check()


@gpu
def test_without_subgroups(dev: pk.Device) -> None:
    calls = AttentionCalls(dev)
    for dtype, group in ((F32, 1), (F32, 4), (F16, 8)):
        calls.add((1, group, 1), (1, 300), (64, 64), dtype)
    with caps(dev, subgroups=False):
        calls.check()


@gpu
@pytest.mark.parametrize("climb", (0.02, 0.3, -0.3))
def test_maxima_that_climb(dev: pk.Device, climb: float) -> None:
    """Few rows whose logits rise or fall all along the keys, a little and far more than 2^8."""
    calls = AttentionCalls(dev)
    for sizes, group, splits in (((1, 700), 4, 1), ((2, 331), 2, 3)):
        q = calls.values((1, group, sizes[0], 64))
        q[..., 0] = 8
        k = calls.values((1, 1, sizes[1], 64))
        k[..., 0] = climb * np.arange(sizes[1])
        calls.give(q, k, calls.values((1, 1, sizes[1], 64)))
        with force(dev, AttentionChoice("decode", splits)):
            calls.check()


# -- heads, grids, layouts ------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("dtype", (F32, F16))
def test_long_splits_of_few_rows(dev: pk.Device, dtype: str) -> None:
    """Twice as many invocations a workgroup, where there is the memory."""
    calls = AttentionCalls(dev)
    calls.add((1, 4, 2), (1, 1030), (128, 100), dtype)
    calls.add((1, 4, 1), (3, 900), (72, 128), dtype, causal=True, sinks=calls.values((4,)))
    calls.add((2, 2, 1), (2, 1100), (80, 80), dtype, window=(700, 5), softcap=2.0)
    calls.add((1, 2, 2), (1, 660), (96, 96), dtype, mask=calls.mask((1, 660), F16))
    with force(dev, AttentionChoice("decode", 5)):
        calls.check()


@gpu
def test_shared_heads(dev: pk.Device) -> None:
    """Blocks that hold rows of several query heads, heads that begin a block, several batches."""
    calls = AttentionCalls(dev)
    for h, hkv, s in ((6, 2, 20), (6, 1, 33), (4, 4, 64), (3, 1, 70), (12, 4, 5)):
        calls.add((2, h, hkv), (s, 45), (16, 20))
        calls.add((2, h, hkv), (s, 45), (16, 20), causal=True, sinks=calls.values((h,)))
    with caps(dev, tuning=named("generic-small")):
        calls.check()


@gpu
@pytest.mark.crowd
def test_a_long_grid_folds(dev: pk.Device) -> None:
    calls = AttentionCalls(dev)
    calls.add((3, 2, 1), (40, 40), (16, 16))
    calls.add((3, 2, 1), (3, 40), (16, 16))
    with caps(dev, max_groups=2, tuning=named("generic-small")):
        calls.check()


@gpu
@pytest.mark.parametrize("limit", (32768, 16384))
def test_copies_larger_than_a_binding(dev: pk.Device, limit: int) -> None:
    """Copies of as many KV heads at a time as one binding holds: a batch of three, or two of it."""
    calls = AttentionCalls(dev)
    if limit == 32768:
        calls.add((2, 6, 3), (40, 60), (16, 16), sinks=calls.values((6,)), causal=True)
    calls.add((2, 6, 3), (17, 34), (20, 17), F16)
    with caps(dev, max_binding=limit, tuning=named("generic-small")):
        calls.check()


@gpu
@pytest.mark.parametrize("order", ((2, 0), (4, 1), (5, 2), (1, 2), (3, 1)), ids=str)
def test_orders_of_blocks(dev: pk.Device, order: tuple[int, int]) -> None:
    """Some KV heads' blocks are neighbours, and what is left of five; short blocks wait."""
    calls = AttentionCalls(dev)
    for h, hkv in ((5, 5), (10, 5)):
        calls.add((1, h, hkv), (64, 70), (16, 20), causal=True)
        calls.add((1, h, hkv), (64, 70), (16, 140), window=(9, 3))
    with force(dev, AttentionChoice(SMALL_TILE, order=order)):
        calls.check()


@gpu
@pytest.mark.parametrize("form", forms(4, repeats=True))
@pytest.mark.sample
def test_any_layout(dev: pk.Device, form: str) -> None:
    layout = forms(4, repeats=True)[form]
    calls = AttentionCalls(dev)
    for s, dtype in ((3, F32), (40, F32), (3, F16), (40, F16)):
        names = ["q", "k", "v", "mask"] + ([] if "repeat" in form else ["dst"])
        for name in names:
            mask = calls.mask((2, 2, s, 36), F16)
            calls.add((2, 2, 1), (s, 36), (16, 8), dtype, mask=mask, forms={name: layout})
        calls.add((2, 2, 1), (s, 36), (16, 8), dtype, forms=dict.fromkeys(names, layout))
    with caps(dev, tuning=named("generic-small")):
        calls.check()


@gpu
@pytest.mark.parametrize("dtype", (F32, F16))
def test_values_that_begin_anywhere(dev: pk.Device, dtype: str) -> None:
    """v in vectors of 8 and 16 bytes, in single elements, and beyond the first 256 bytes."""
    calls = AttentionCalls(dev)
    for depth, phases in ((60, (0, 4, 8)), (64, (1, 4, 8, 200)), (72, (4, 8, 136)), (136, (8, 24))):
        for phase in phases:
            calls.add((2, 4, 2), (35, 40), (16, depth), dtype, forms={"v": Form(phase=phase)})
    with force(dev, BODIES["32"]):
        calls.check()


@gpu
@pytest.mark.parametrize("dtype", (F32, F16))
def test_tokens_before_heads(dev: pk.Device, dtype: str) -> None:
    """(B, S, H, D) in memory, as models have it, and packed q, k and v."""
    rng = np.random.default_rng(0)
    packed = dev.tensor(rng.normal(0, 1, (2, 40, 3, 4, 16)).astype(dtype))
    q, k, v = (packed[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    out = dev.zeros((2, 40, 4, 16), dtype)  # type: ignore[arg-type]
    flat = pk.flash_attn(*(t.copy() for t in (q, k, v)), causal=True)
    pk.flash_attn(q, k, v, causal=True, out=out.transpose(0, 2, 1, 3))
    assert_same_bits(out.numpy().transpose(0, 2, 1, 3), flat.numpy())


@gpu
@pytest.mark.parametrize("s", (3, 40))
def test_one_buffer_for_everything(dev: pk.Device, s: int) -> None:
    """Inputs and outputs in one buffer, apart and close together, as in ggml."""
    everything = dict.fromkeys(("q", "k", "v", "mask", "sinks", "lse", "dst"), "all")
    for some in (everything, {"lse": "out", "dst": "out"}, {"v": "x", "dst": "x"},
                 {"k": "x", "lse": "x"}):  # fmt: skip
        for dtype in (F32, F16):
            calls = AttentionCalls(dev)
            calls.add((1, 2, 1), (s, 36), (16, 8), dtype, mask=calls.mask((s, 36), F32),
                      sinks=calls.values((2,)), buffers=some)  # fmt: skip
            with caps(dev, tuning=named("generic-small")):
                calls.check()


@gpu
def test_outputs_side_by_side(dev: pk.Device) -> None:
    """lse right behind dst, in one binding's alignment; then over it, which is refused."""
    rng = np.random.default_rng(0)
    q = dev.tensor(rng.normal(0, 1, (1, 2, 3, 8)).astype(F32))
    want, want_lse = pk.flash_attn(q, q, q, return_lse=True)
    both = dev.zeros(60)
    dst, lse = both[1:49].reshape(1, 2, 3, 8), both[49:55].reshape(1, 2, 3)
    flash_attn(q, q, q, dst, lse=lse)
    assert_same_bits(dst.numpy(), want.numpy())
    assert_same_bits(lse.numpy(), want_lse.numpy())
    assert not both.numpy()[[0, *range(55, 60)]].any()
    with pytest.raises(pk.AliasError, match="lse and dst share elements"):
        flash_attn(q, q, q, dst, lse=both[40:46].reshape(1, 2, 3))


@gpu
def test_result_over_an_input(dev: pk.Device) -> None:
    """dst may be q: it is copied first."""
    rng = np.random.default_rng(0)
    q = rng.normal(0, 1, (1, 2, 40, 16)).astype(F32)
    want = pk.flash_attn(*(dev.tensor(q) for _ in range(3))).numpy()
    t = dev.tensor(q)
    flash_attn(t, t, t, t)
    assert_same_bits(t.numpy(), want)


# -- random calls ---------------------------------------------------------------------------------


def random_call(calls: AttentionCalls, rng: np.random.Generator) -> None:
    """Any sizes, layouts and options."""
    hkv, group = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3, 5]))
    b, h = int(rng.integers(1, 3)), hkv * group
    s, t = (int(rng.choice([1, 2, 7, 16, 31, 32, 33, 50, 70])) for _ in range(2))
    depths = tuple(int(rng.choice([1, 4, 8, 16, 24, 33, 40, 64])) for _ in range(2))
    dtype = str(rng.choice([F32, F16]))
    options: dict[str, Any] = {"causal": [False, False, True, "top-left"][int(rng.integers(4))]}
    if rng.random() < 0.3:
        sides = [None if rng.random() < 0.3 else int(rng.integers(0, 40)) for _ in range(2)]
        options["window"] = tuple(sides)
    if rng.random() < 0.3:
        options["softcap"] = float(rng.choice([0.5, 5.0, 50.0]))
    if rng.random() < 0.3:
        options["scale"] = float(rng.choice([0.0, 0.3, 1.0, -0.5]))
    mask = sinks = None
    if rng.random() < 0.5:
        shape = tuple(n if rng.random() < 0.6 else 1 for n in (b, h, s, t))
        shape = shape[int(rng.integers(0, 4)) :]
        mask = calls.mask(shape, str(rng.choice([F32, F16, "bool"])), float(rng.random()))
        options["max_bias"] = float(rng.choice([0.0, 8.0]))
    if rng.random() < 0.3:
        sinks = calls.values((h,))
    given = {
        name: random_form(rng, 4, repeats=name != "dst")
        for name in ("q", "k", "v", "dst")
        if rng.random() < 0.3
    }
    calls.add((b, h, hkv), (s, t), depths, dtype, mask=mask, sinks=sinks, forms=given,  # type: ignore[arg-type]
              lse=bool(rng.random() < 0.7), **options)  # fmt: skip


@gpu
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sample
def test_random_calls(dev: pk.Device, seed: int) -> None:
    """26 calls each: with all 40 seeds, 1,040 sets of parameters."""
    calls = AttentionCalls(dev, seed)
    for _ in range(26):
        random_call(calls, calls.rng)
    body = ("decode", "32", "32 split", "auto")[seed % 4]
    if body == "auto":
        with caps(dev, tuning=named("generic-small")):
            calls.check()
    else:
        with force(dev, BODIES[body]):
            calls.check(body)


# -- plans, without a GPU -------------------------------------------------------------------------

BIG = Caps(True, True, 256, 1024, 49152, (1 << 31) - 4, 65535, named("nvidia-h200"))
SMALL = Caps(False, False, 256, 256, 16384, 128 << 20, 65535, named("generic-small"))


@pytest.mark.parametrize(
    "caps_, sizes, want",
    [
        (BIG, (1, 32, 32, 4096, 4096, 128), LARGE_TILE),
        (BIG, (8, 16, 16, 1024, 1024, 64), LARGE_TILE),
        (BIG, (1, 32, 8, 1, 16384, 128), DECODE),
        (BIG, (1, 8, 8, 16, 16384, 128), DECODE),
        (BIG, (1, 1, 1, 64, 64, 64), SMALL_TILE),
        (SMALL, (1, 32, 32, 4096, 4096, 128), SMALL_TILE),
    ],
)
def test_choice(caps_: Caps, sizes: tuple[int, ...], want: str) -> None:
    d = Dims(*sizes, sizes[-1])
    choice = choose(caps_, d)
    assert choice.body == want
    assert choose(caps_, d, True).body == want
    assert 1 <= choice.splits <= max(d.keys, 1)


def view(shape: tuple[int, ...], dtype: str = F32) -> View:
    return View(0, DTYPES[dtype], shape, contiguous_strides(shape, DTYPES[dtype].itemsize), 0)


def test_a_decoding_step_is_split_over_keys() -> None:
    less = replace(BIG, max_workgroup_bytes=16384)
    for caps_, t, groups in (
        (BIG, 16384, 8 * 32),  # KV heads times splits of 512 keys
        (less, 16384, 8 * 64),  # half as many invocations each
        (BIG, 4096, 8 * 64),  # splits of 64
    ):
        q, kv = view((1, 32, 1, 128)), view((1, 8, t, 128))
        steps = plans.plan(caps_, Scratch(), q, kv, kv, None, None, None, None, q)
        assert [s.body.name for s in steps] == ["attention_decode", "attention_combine"]
        assert steps[0].groups == groups


def test_what_stands_before_the_tiles_is_one_dispatch() -> None:
    """q and k depth first, and v as f32 where the tiles cannot read it as it lies."""
    for dtype, depth, squares, copied in (
        (F32, 64, 32, 0), (F16, 64, 32, 0), (F16, 60, 32, 0), (F16, 128, 64, 0),
        (F16, 62, 32, 16), (F16, 68, 64, 32),
    ):  # fmt: skip
        x = view((1, 4, 256, depth), dtype)
        steps = plans.plan(BIG, Scratch(), x, x, x, None, None, None, None, x)
        assert [s.body.name for s in steps][:2] == ["pack_qk", "attention_tile"]
        assert steps[0].groups == squares + copied  # of 64 x 64


def test_scratch_grows_with_the_length() -> None:
    def nbytes(n: int) -> int:
        scratch = Scratch()
        x = view((1, 1, n, 64))
        plans.plan(BIG, scratch, x, x, x, None, None, None, None, x)
        return sum(scratch.sizes)

    assert nbytes(32768) <= 2.1 * nbytes(16384)
    assert nbytes(32768) < 64 << 20  # the matrix would have 4 GiB
