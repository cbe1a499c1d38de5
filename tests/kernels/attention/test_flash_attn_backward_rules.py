"""flash_attn_backward: what is promised beyond figures, and the windows of its plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES, DTypeName
from pykernels.forcing import force
from pykernels.kernels import flash_attn_backward
from pykernels.plans.attention import flash_attn_backward as plans
from pykernels.plans.attention.arguments import OPEN, Band, Dims
from pykernels.plans.attention.select_backward import AttentionGradChoice, choose
from pykernels.reference.attention import attention, flash_attn
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named
from tests.harness import Array, assert_same_bits
from tests.kernels.attention.attention_gradients import F16, F32, AttentionGradCalls

gpu = pytest.mark.gpu
SMALL_WINDOWS = AttentionGradChoice(32, 2, 64, 32)


def inputs(rng: np.random.Generator, *shape: int) -> list[Array]:
    """q, k, v and do of (B, H, Hkv, S, T, D, Dv)."""
    b, h, hkv, s, t, d, dv = shape
    sizes = ((b, h, s, d), (b, hkv, t, d), (b, hkv, t, dv), (b, h, s, dv))
    return [rng.normal(0, 1, size).astype(F32) for size in sizes]


def gradients(
    dev: pk.Device, q: Array, k: Array, v: Array, do: Array, mask: Array | None = None,
    sinks: Array | None = None, **options: Any,
) -> list[Array]:  # fmt: skip
    """What the kernel makes of the reference's o and lse."""
    f = attention(q, k, v, mask, sinks, **options)
    given = [dev.tensor(a) for a in (q, k, v, f.o.astype(F32), f.lse.astype(F32), do)]
    outs = [dev.full(a.shape, 7.0) for a in (q, k, v)]
    extras = {"mask": mask, "sinks": sinks}
    tensors = {n: None if a is None else dev.tensor(a) for n, a in extras.items()}
    flash_attn_backward(*given, *outs, **tensors, **options)  # type: ignore[arg-type]
    return [t.numpy() for t in outs]


# -- masks, NaN and infinity ----------------------------------------------------------------------


@gpu
def test_rows_and_keys_without_a_partner_give_zeros(dev: pk.Device) -> None:
    """Their own gradients are 0, whatever they hold, and the others' are as without them."""
    calls = AttentionGradCalls(dev)
    for bad in (np.nan, np.inf, -np.inf, 3e38):
        q, k, v, do = inputs(calls.rng, 1, 4, 2, 50, 70, 12, 20)
        mask = calls.rng.random((1, 1, 50, 70)) < 0.5
        lost_rows, lost_keys = [0, 7, 33, 49], [0, 31, 40, 69]
        mask[..., lost_rows, :] = False
        mask[..., lost_keys] = False
        for a, where in ((q, lost_rows), (do, lost_rows), (k, lost_keys), (v, lost_keys)):
            a[:, :, where] = bad
        added = np.where(mask, 0.25, -np.inf).astype(F32)
        given = dict(zip(("q", "k", "v", "do"), (q, k, v, do), strict=True))
        for m, options in ((mask, {}), (added, {"max_bias": 2.0}), (added, {"softcap": 5.0})):
            calls.add((1, 4, 2, 50, 70, 12, 20), mask=m, values=given, **options)
    with force(dev, SMALL_WINDOWS):
        for dq, dk, dv in calls.check():
            assert not dq[:, :, lost_rows].any()
            assert not dk[:, :, lost_keys].any()
            assert not dv[:, :, lost_keys].any()


@gpu
def test_logits_far_below_zero(dev: pk.Device) -> None:
    """What lies past the end of queries and keys must not get a weight of e^300."""
    calls = AttentionGradCalls(dev)
    calls.add((1, 2, 1, 40, 50, 8, 12), mask=np.array(-300.0, F32))
    low = {"q": np.full((1, 2, 40, 8), 5, F32), "k": np.full((1, 1, 50, 8), -5, F32)}
    calls.add((1, 2, 1, 40, 50, 8, 12), values=low, scale=1.5)
    calls.check()


@gpu
def test_keys_of_minus_infinity_are_masked(dev: pk.Device) -> None:
    """Logits of -inf: some, then all of a row's; what is computed is as if they were masked."""
    calls = AttentionGradCalls(dev)
    q, k, _, _ = inputs(calls.rng, 1, 2, 1, 40, 50, 8, 12)
    k[:, :, 10:20] = -np.inf
    calls.add((1, 2, 1, 40, 50, 8, 12), values={"q": np.abs(q) + 0.1, "k": k})
    calls.add(
        (1, 2, 1, 40, 50, 8, 12), values={"q": np.abs(q) + 0.1, "k": np.full_like(k, -np.inf)}
    )
    calls.check()


@gpu
def test_a_key_that_some_may_see_does_not_leak_to_others(dev: pk.Device) -> None:
    """Keys of NaN or infinity behind the diagonal: queries before them keep their gradients."""
    rng = np.random.default_rng(1)
    q, k, v, do = inputs(rng, 1, 2, 1, 70, 70, 12, 20)
    clean = gradients(dev, q, k, v, do, causal=True)[0]
    for bad in (np.nan, np.inf):
        for spoilt in (k, v):
            before = spoilt.copy()
            spoilt[:, :, 40:] = bad
            dq = gradients(dev, q, k, v, do, causal=True)[0]
            spoilt[...] = before
            np.testing.assert_allclose(dq[:, :, :40], clean[:, :, :40], rtol=1e-5, atol=1e-6)
            assert np.isnan(dq[:, :, 40:]).all()


@gpu
def test_lengths_without_a_common_key(dev: pk.Device) -> None:
    """More queries than keys: causality leaves the first ones nothing. Windows beyond the end."""
    calls = AttentionGradCalls(dev)
    calls.add((1, 2, 1, 90, 20, 8, 8), causal=True)
    calls.add((1, 2, 1, 20, 90, 8, 8), causal="top-left")
    calls.add((1, 2, 2, 90, 20, 8, 8), window=(0, 0), causal="top-left")
    with force(dev, SMALL_WINDOWS):
        (dq, _, _), (_, dk, dv), (last, *_) = calls.check()
    assert not dq[:, :, :70].any()
    assert not dk[:, :, 20:].any()
    assert not dv[:, :, 20:].any()
    assert not last[:, :, :70].any()


# -- identities -----------------------------------------------------------------------------------


@gpu
def test_heads_in_groups_equal_repeated_heads(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    q, k, v, do = inputs(rng, 2, 6, 2, 40, 70, 16, 24)
    dq, dk, dv = gradients(dev, q, k, v, do, causal=True)
    all_k, all_v = (np.repeat(a, 3, axis=1) for a in (k, v))
    want_q, *want = gradients(dev, q, all_k, all_v, do, causal=True)
    assert_same_bits(dq, want_q)
    for got, a in zip((dk, dv), want, strict=True):
        np.testing.assert_allclose(got, a.reshape(2, 2, 3, 70, -1).sum(2), rtol=1e-5, atol=1e-5)


@gpu
def test_masked_keys_behind_the_end_change_nothing(dev: pk.Device) -> None:
    rng = np.random.default_rng(3)
    q, k, v, do = inputs(rng, 1, 2, 2, 40, 50, 16, 24)
    want = gradients(dev, q, k, v, do)
    longer = [np.concatenate([a, np.full((1, 2, 100, a.shape[3]), np.nan, F32)], 2) for a in (k, v)]
    mask = np.arange(150) < 50
    dq, dk, dv = gradients(dev, q, *longer, do, mask=mask)
    for got, w in zip((dq, dk[:, :, :50], dv[:, :, :50]), want, strict=True):
        assert_same_bits(got, w)
    assert not dk[:, :, 50:].any()
    assert not dv[:, :, 50:].any()


@gpu
def test_the_same_call_gives_the_same_bits(dev: pk.Device) -> None:
    """Twice, and in other windows but for the order of sums: then close to it."""
    rng = np.random.default_rng(4)
    arrays = inputs(rng, 1, 4, 2, 100, 130, 20, 24)
    first = gradients(dev, *arrays, causal=True)
    for a, b in zip(first, gradients(dev, *arrays, causal=True), strict=True):
        assert_same_bits(a, b)
    with force(dev, SMALL_WINDOWS):
        for a, b in zip(first, gradients(dev, *arrays, causal=True), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@gpu
@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True, "softcap": 2.0}, {"max_bias": 8.0, "scale": 0.7}, {"window": (2, 1)}],
    ids=str,
)
def test_finite_differences(dev: pk.Device, options: dict[str, Any]) -> None:
    """Against the slopes of the forward reference itself, element by element."""
    rng = np.random.default_rng(5)
    q, k, v, do = inputs(rng, 1, 2, 1, 4, 5, 3, 2)
    mask = rng.normal(0, 1, (2, 4, 5)).astype(F32)
    sinks = np.array([0.5, -1.0], F32)
    got = gradients(dev, q, k, v, do, mask, sinks, **options)
    wide = [a.astype(np.float64) for a in (q, k, v)]
    for a, grads in zip(wide, got, strict=True):
        for at in np.ndindex(a.shape):
            ends = []
            for step in (1e-5, -1e-5):
                a[at] += step
                ends.append((do * flash_attn(*wide, mask, sinks, **options)).sum())
                a[at] -= step
            assert abs((ends[0] - ends[1]) / 2e-5 - grads[at]) < 2e-5


# -- empty tensors, wrong calls, the functional layer ---------------------------------------------


@gpu
def test_empty(dev: pk.Device) -> None:
    for b, s, t, d, dv in ((0, 3, 4, 5, 6), (1, 0, 4, 5, 6), (1, 3, 0, 5, 6), (1, 3, 4, 5, 0)):
        wide, narrow = (b, 2, s, d), (b, 1, t, d)
        o, v = (b, 2, s, dv), (b, 1, t, dv)
        outs = [dev.full(shape, 7.0) for shape in (wide, narrow, v)]
        lse, do = dev.zeros((b, 2, s)), dev.ones(o)
        flash_attn_backward(
            dev.ones(wide), dev.ones(narrow), dev.ones(v), dev.zeros(o), lse, do, *outs
        )
        assert not any(t.numpy().any() for t in outs)


@gpu
def test_rejects(dev: pk.Device) -> None:
    def run(**changed: Any) -> None:
        shapes: dict[str, Any] = {
            "q": (1, 4, 6, 8), "k": (1, 2, 5, 8), "v": (1, 2, 5, 3), "o": (1, 4, 6, 3),
            "lse": (1, 4, 6), "do": (1, 4, 6, 3), "dq": (1, 4, 6, 8), "dk": (1, 2, 5, 8),
            "dv": (1, 2, 5, 3),
        }  # fmt: skip
        options = {n: a for n, a in changed.items() if n not in shapes}
        shapes |= {n: a for n, a in changed.items() if n in shapes}
        tensors = [dev.zeros(s) if isinstance(s, tuple) else s for s in shapes.values()]
        flash_attn_backward(*tensors, **options)

    run()
    for message, changed in (
        (r"lse must have shape \(1, 4, 6\) but has shape \(4, 6\)", {"lse": (4, 6)}),
        (r"o must have shape \(1, 4, 6, 3\)", {"o": (1, 4, 6, 4), "do": (1, 4, 6, 4)}),
        (r"do must have the shape of o", {"do": (1, 4, 6, 4)}),
        (r"dk must have the shape of k, \(1, 2, 5, 8\)", {"dk": (1, 4, 5, 8)}),
        (r"the heads of q must be a multiple", {"k": (1, 3, 5, 8), "v": (1, 3, 5, 3),
                                            "dk": (1, 3, 5, 8), "dv": (1, 3, 5, 3)}),
        (r"mask must broadcast to \(1, 4, 6, 5\)", {"mask": dev.zeros((6, 4))}),
        (r"sinks must have shape \(4,\)", {"sinks": dev.zeros(3)}),
    ):  # fmt: skip
        with pytest.raises(pk.ShapeError, match=r"\[flash_attn_backward\] " + message):
            run(**changed)
    for message, changed in (
        ("causal must be", {"causal": "yes"}),
        ("window must", {"window": (1, -1)}),
        ("softcap must be a finite number of 0 or more but is -1", {"softcap": -1.0}),
        ("scale must be a finite number", {"scale": float("nan")}),
        ("max_bias must be", {"max_bias": "a"}),
    ):
        with pytest.raises(pk.ArgumentError, match=r"\[flash_attn_backward\] " + message):
            run(**changed)
    with pytest.raises(pk.DTypeError, match=r"q must be .* or bfloat16 but is int32"):
        run(q=dev.zeros((1, 4, 6, 8), "int32"))
    with pytest.raises(pk.AliasError, match="dq is broadcast"):
        run(dq=dev.zeros((1, 4, 6, 1)).broadcast_to((1, 4, 6, 8)))


@gpu
def test_functional(dev: pk.Device) -> None:
    q, k, v, do = inputs(np.random.default_rng(6), 1, 2, 1, 5, 7, 4, 3)
    want = gradients(dev, q, k, v, do, causal=True)
    f = attention(q, k, v, causal=True)
    o, lse = f.o.astype(F32), f.lse.astype(F32)
    given = [dev.tensor(a) for a in (q, k, v, o, lse, do)]
    for a, b in zip(pk.flash_attn_backward(*given, causal=True), want, strict=True):
        assert isinstance(a, pk.Tensor)
        assert_same_bits(a.numpy(), b)
    for a, b in zip(
        pk.flash_attn_backward(given[0], k, v, o, lse, do, causal=True), want, strict=True
    ):
        assert_same_bits(a.numpy(), b)
    half = pk.flash_attn_backward(*(t.astype(F16) if t is not given[4] else t for t in given))
    assert [t.dtype for t in half] == [F16] * 3
    outs = (dev.zeros(q.shape), dev.zeros(k.shape, F16), dev.zeros(v.shape))
    assert pk.flash_attn_backward(q, k, v, o, lse, do, causal=True, out=outs) == outs
    assert_same_bits(outs[0].numpy(), want[0])
    assert_same_bits(outs[1].numpy(), want[1].astype(F16))
    with pytest.raises(pk.ArgumentError, match=r"\[flash_attn_backward\] out must be a tuple"):
        pk.flash_attn_backward(*given, out=outs[0])  # type: ignore[call-overload]
    with pytest.raises(pk.ShapeError, match="dq must have the shape of q"):
        pk.flash_attn_backward(*given, out=(outs[1], outs[1], outs[2]))
    with pytest.raises(pk.DTypeError, match=r"lse must be float32 but is float64"):
        pk.flash_attn_backward(q, k, v, o, f.lse, do)


# -- plans, without a GPU -------------------------------------------------------------------------

LARGE = Caps(True, True, 32, 1024, 49152, (1 << 31) - 4, 65535, named("nvidia-h200"))
SMALL = Caps(False, False, 256, 256, 16384, 1 << 27, 65535, named("generic-small"))


def planned(caps: Caps, shape: tuple[int, ...], **options: Any) -> tuple[list[Step], int]:
    """The steps of a call on contiguous f32 tensors, and the bytes of scratch."""
    b, h, hkv, s, t, d, dv = shape
    wide, o, narrow, values = (b, h, s, d), (b, h, s, dv), (b, hkv, t, d), (b, hkv, t, dv)
    views: list[View | None] = []
    name: DTypeName = F32  # type: ignore[assignment]
    for n, size in enumerate((wide, narrow, values, o, o[:3], o, (), (), wide, narrow, values)):
        strides = contiguous_strides(size, 4)
        views.append(View(n, DTYPES[name], size, strides, 0) if size else None)
    scratch = Scratch()
    return plans.plan(caps, scratch, *views, **options), sum(scratch.sizes)  # type: ignore[arg-type]


def test_memory_grows_with_the_lengths_not_with_their_product() -> None:
    """Panels and stats of O(S), and three matrices of at most ROOM elements."""
    for caps, room in ((LARGE, 1 << 25), (SMALL, 1 << 22)):
        used = []
        for length in (8192, 16384, 32768):
            _, size = planned(caps, (1, 1, 1, length, length, 128, 128))
            panels = 4 * length * (7 * 128 + 2)
            assert size <= panels + 12 * room
            used.append(size)
        assert used[2] - used[1] <= 2 * (used[1] - used[0]) + 12 * room // 8
        assert used[2] < 32768 * 32768 * 4 // 4


@pytest.mark.parametrize("caps", [LARGE, SMALL], ids=("large", "small"))
def test_windows_cover_each_tile_once(caps: Caps) -> None:
    for shape in ((1, 1, 1, 1, 1, 8, 8), (2, 6, 3, 5000, 300, 64, 64), (3, 40, 8, 700, 9000, 8, 8),
                  (1, 1, 1, 20000, 20000, 8, 8)):  # fmt: skip
        b, h, hkv, s, t, d, dv = shape
        choice = choose(caps, Dims(b, h, hkv, s, t, d, dv), Band(-OPEN, OPEN, OPEN))
        assert choice.heads * choice.queries * choice.keys <= max(1 << 25, 128 * 128)
        assert choice.queries % choice.tile == choice.keys % choice.tile == 0
        steps, _ = planned(caps, shape)
        seen = set()
        count = 0
        for step in (s for s in steps if s.body.name.endswith("_scores")):
            # Params in order: a_rs, b_rs, depth, value_depth, then these.
            down, across, head, query, key = (int(v) for v in step.values[4:9])
            heads = step.groups // (down * across)
            down = down * plans.SCORE_ROWS[choice.tile] // choice.tile
            for z in range(head, head + heads):
                for i in range(query // choice.tile, query // choice.tile + down):
                    for j in range(key // choice.tile, key // choice.tile + across):
                        seen.add((z, i, j))
                        count += 1
        tiles = b * h * -(-s // choice.tile) * -(-t // choice.tile)
        assert len(seen) == count == tiles


def test_hidden_windows_take_no_steps() -> None:
    """Causality halves the scores; what no query sees still gets its zeros."""
    full, _ = planned(LARGE, (1, 32, 32, 4096, 4096, 128, 128))
    half, _ = planned(LARGE, (1, 32, 32, 4096, 4096, 128, 128), causal=True)
    count = [sum(s.body.name.endswith("_scores") for s in steps) for steps in (full, half)]
    assert count == [16, 10]
    far, _ = planned(LARGE, (1, 32, 32, 4096, 4096, 128, 128), window=(0, 0), causal="top-left")
    sums = [s for s in far if s.body.name.endswith("_sums")]
    adds = [s.values[-1] for s in sums]
    assert adds.count(0) == 12  # a first sum for each of three gradients and four windows


def test_tiles_of_the_sums() -> None:
    for depth, narrow in ((64, True), (128, False), (80, False), (192, True), (256, False)):
        steps, _ = planned(LARGE, (1, 32, 32, 1024, 1024, depth, depth))
        assert {s.axes[1] for s in steps if s.body.name.endswith("_sums")} == {
            "tile128x64" if narrow else "tile128"
        }
    steps, _ = planned(SMALL, (1, 32, 32, 1024, 1024, 64, 64))
    assert {s.axes[1] for s in steps if s.body.name.endswith("_sums")} == {"tile32"}
