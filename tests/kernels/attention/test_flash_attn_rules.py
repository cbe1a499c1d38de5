"""flash_attn: identities, what NaN and infinities mean, memory, arguments; torch's function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.kernels import flash_attn
from pykernels.plans.attention.select import BLOCKS
from pykernels.reference.attention import attention
from pykernels.reference.attention import flash_attn_budget as budget
from pykernels.tuning import named
from tests.harness import Array, assert_close, assert_same_bits, caps
from tests.kernels.attention.attention_calls import F16, F32, AttentionCalls, run
from tests.kernels.attention.test_flash_attn import BODIES

INF, NAN = np.inf, np.nan
gpu = pytest.mark.gpu
# One text of each kind; the largest only in the full run.
KINDS = ["decode", "32", "32 split", pytest.param("large", marks=pytest.mark.sample)]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def qkv(
    rng: np.random.Generator, heads: tuple[int, int], s: int, t: int, d: int = 16
) -> tuple[Array, Array, Array]:
    shapes = ((1, heads[0], s, d), (1, heads[1], t, d), (1, heads[1], t, d))
    q, k, v = (rng.normal(0, 1, shape).astype(F32) for shape in shapes)
    return q, k, v


def near(q: Array, k: Array, v: Array, got: Array, want: Array, **options: Any) -> None:
    """Both within the budget, so apart by two of them at most."""
    assert_close(got, want.astype(np.float64), 2 * budget(q, k, v, **options))


# -- identities -----------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("body", KINDS)
def test_more_masked_keys_change_nothing(
    dev: pk.Device, rng: np.random.Generator, body: str
) -> None:
    q, k, v = qkv(rng, (2, 1), 9, 32)
    k2, v2 = (np.concatenate([a, np.full((1, 1, 40, 16), NAN, F32)], 2) for a in (k, v))
    mask = np.arange(72) < 32
    with force(dev, BODIES[body]):
        want = run(dev, q, k, v, np.ones(32, bool))
        got = run(dev, q, k2, v2, mask)
        hidden = run(dev, q, k2, v2, causal="top-left")
        alone = run(dev, q, k, v, causal="top-left")
    near(q, k, v, got[0], want[0])
    near(q, k, v, hidden[0], alone[0], causal="top-left")


@gpu
@pytest.mark.parametrize("body", KINDS)
def test_shared_heads_equal_repeated_ones(
    dev: pk.Device, rng: np.random.Generator, body: str
) -> None:
    q, k, v = qkv(rng, (6, 2), 33, 70)
    k3, v3 = (np.repeat(a, 3, 1) for a in (k, v))
    with force(dev, BODIES[body]):
        for options in ({}, {"causal": True}):
            got, want = run(dev, q, k, v, **options), run(dev, q, k3, v3, **options)
            near(q, k, v, got[0], want[0], **options)


@gpu
@pytest.mark.parametrize("body", KINDS)
def test_keys_in_two_parts(dev: pk.Device, rng: np.random.Generator, body: str) -> None:
    """Parts joined by their lse are the whole."""
    q, k, v = qkv(rng, (2, 1), 33, 90)
    with force(dev, BODIES[body]):
        o, lse = run(dev, q, k, v)
        (o1, l1), (o2, l2) = (
            run(dev, q, k[:, :, c], v[:, :, c]) for c in (slice(41), slice(41, 90))
        )
    top = np.maximum(l1, l2)
    w1, w2 = (np.exp(x - top)[..., None] for x in (l1, l2))
    near(q, k, v, o, (o1 * w1 + o2 * w2) / (w1 + w2))
    np.testing.assert_allclose(lse, top + np.log(w1 + w2)[..., 0], rtol=2e-6)


@gpu
def test_no_soft_cap_is_none(dev: pk.Device, rng: np.random.Generator) -> None:
    q, k, v = qkv(rng, (2, 1), 3, 40)
    want = run(dev, q, k, v)
    assert_same_bits(run(dev, q, k, v, softcap=0.0)[0], want[0])
    near(q, k, v, run(dev, q, k, v, softcap=1e4)[0], want[0], softcap=1e4)


@gpu
@pytest.mark.parametrize("s", (2, 40))
def test_the_same_bits_each_time(dev: pk.Device, rng: np.random.Generator, s: int) -> None:
    q, k, v = qkv(rng, (4, 2), s, 300)
    with caps(dev, tuning=named("generic-small")):
        first = run(dev, q, k, v, causal=True)
        for _ in range(3):
            again = run(dev, q, k, v, causal=True)
            assert_same_bits(again[0], first[0])
            assert_same_bits(again[1], first[1])


@gpu
@pytest.mark.parametrize("body", ("decode", "32"))
def test_small_integers_are_exact(dev: pk.Device, rng: np.random.Generator, body: str) -> None:
    """Scale 0: means of small integers over a power of two of keys."""
    q, k, _ = qkv(rng, (2, 1), 33, 64)
    v = rng.integers(-8, 9, k.shape).astype(F32)
    mask = np.zeros(64, bool)
    mask[[0, 5, 31, 32, 33, 60, 62, 63]] = True
    with force(dev, BODIES[body]):
        o, lse = run(dev, q, k, v, mask, scale=0.0)
    assert_same_bits(o, np.broadcast_to(v[:, :, mask].mean(2, keepdims=True), o.shape).astype(F32))
    np.testing.assert_allclose(lse, np.log(8), rtol=1e-6)


# -- what counts ----------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("body", KINDS)
@pytest.mark.parametrize("bad", (NAN, INF, -INF))
def test_masked_keys_may_hold_anything(
    dev: pk.Device, rng: np.random.Generator, body: str, bad: float
) -> None:
    """Hidden by a mask of each kind, by causal, by a window; soft cap, ALiBi and sinks with it."""
    s, t = 33, 70
    q, k, v = qkv(rng, (2, 1), s, t)
    k[:, :, 40:] = bad
    v[:, :, 40:] = bad
    q[:, 0, 3] = bad  # a query that spoils its own row only, unless it sees nothing
    seen = np.broadcast_to(np.arange(t) < 40, (s, t)).copy()
    seen[[3, 20]] = False
    sinks = np.float32([0.5, -1.0])
    added = np.where(seen, 0.25, -INF).astype(F32)
    with force(dev, BODIES[body]):
        for mask, options in (
            (seen, {}), (added, {"softcap": 2.0}), (added.astype("f2"), {"max_bias": 8.0}),
        ):  # fmt: skip
            for extra in (None, sinks):
                got, lse = run(dev, q, k, v, mask, extra, **options)
                want = attention(q, k, v, mask, extra, **options)
                assert np.isfinite(got).all()
                clean = [np.where(np.isfinite(a), a, 0) for a in (q, k, v)]
                assert_close(got, want.o, budget(*clean, mask, extra, **options))  # type: ignore[arg-type]
                assert (got[:, :, [3, 20]] == 0).all()
                assert (lse[:, :, [3, 20]] == -INF).all()
        got, _ = run(dev, q, k, v, causal="top-left")
        want = attention(q, k, v, causal="top-left")
    fine = np.isfinite(want.o)
    assert fine[:, 1].all() and not fine[:, 0, 3].any()
    assert (np.isfinite(got) == fine).all()


@gpu
@pytest.mark.parametrize("body", KINDS)
def test_rows_without_keys(dev: pk.Device, rng: np.random.Generator, body: str) -> None:
    """Fewer keys than queries: the first queries stand before the first key."""
    q, k, v = qkv(rng, (2, 1), 70, 33)
    with force(dev, BODIES[body]):
        for options in ({"causal": True}, {"window": (0, 0)}, {"window": (None, 3)}):
            got, lse = run(dev, q, k, v, **options)  # type: ignore[arg-type]
            want = attention(q, k, v, **options)  # type: ignore[arg-type]
            assert_close(got, want.o, budget(q, k, v, result=want, **options))
            none = want.lse == -INF
            assert none.any() and (lse[none] == -INF).all() and np.isfinite(lse[~none]).all()
            assert (got[none] == 0).all()


@gpu
@pytest.mark.parametrize("body", KINDS)
@pytest.mark.parametrize("what", ("nan in q", "nan in k", "inf in k", "nan in mask", "inf in mask"))
def test_a_bad_logit_spoils_its_row(
    dev: pk.Device, rng: np.random.Generator, body: str, what: str
) -> None:
    q, k, v = qkv(rng, (1, 1), 33, 70)
    q, mask = np.abs(q), np.zeros((33, 70), F32)
    value, place = what.split(" in ")
    number = np.float32(value)
    if place == "q":
        q[0, 0, 4, 3] = number
    elif place == "k":
        k[0, 0, 50, 3] = number
        mask[:20, 50] = -INF
    else:
        mask[4, 50] = number
    with force(dev, BODIES[body]):
        for options in ({}, {"softcap": 2.0}):  # a cap makes +inf finite, NaN stays
            got, lse = run(dev, q, k, v, mask, **options)
            want = attention(q, k, v, mask, **options)
            if not options or value == "nan":
                assert np.isnan(want.lse).any() and not np.isnan(want.lse).all()
            assert (np.isnan(lse) == np.isnan(want.lse)).all()
            assert (np.isnan(got) == np.isnan(want.o)).all()


@gpu
def test_a_bad_sink_spoils_its_head(dev: pk.Device, rng: np.random.Generator) -> None:
    q, k, v = qkv(rng, (4, 1), 40, 50)
    sinks = np.float32([NAN, INF, -INF, 1.0])
    mask = np.ones((40, 50), bool)
    mask[7] = False
    for s in (1, 40):
        with caps(dev, tuning=named("generic-small")):
            got, lse = run(dev, q[:, :, :s], k, v, mask[:s], sinks)
        want = attention(q[:, :, :s], k, v, mask[:s], sinks)
        assert (np.isnan(got) == np.isnan(want.o)).all()
        assert (np.isnan(lse) == np.isnan(want.lse)).all()


@gpu
def test_huge_logits(dev: pk.Device, rng: np.random.Generator) -> None:
    """Far beyond what exp holds: the largest wins."""
    for s in (2, 40):
        q, k, v = qkv(rng, (1, 1), s, 50)
        with caps(dev, tuning=named("generic-small")):
            got, _ = run(dev, q, k, v, scale=1e6)
        want = attention(q, k, v, scale=1e6)
        assert_close(got, want.o, budget(q, k, v, result=want, scale=1e6))


@gpu
@pytest.mark.parametrize("dtype", (F32, F16))
@pytest.mark.parametrize("body", KINDS)
def test_logits_that_grow_with_the_keys(dev: pk.Device, body: str, dtype: str) -> None:
    """Tiles count from a top of each row that is raised where logits pass it by 2^8: never after
    the first tile, every third tile, in each of them, for one key of one row, for some rows.

    By q and k alone (whole tiles) and by a mask.
    """
    calls = AttentionCalls(dev)
    rows, keys = BLOCKS.get((f"attention_tile/{body.split()[0]}", 64), (32, 32))
    s, t, d = rows + 1, 6 * keys, 16
    tiles = np.arange(t) // keys
    for step in (1.0, 2.2, 15.0, 90.0, -15.0):
        q, k, v = (calls.values((1, 1, n, d), dtype) for n in (s, t, t))
        q[..., 0], k[..., 0] = 4.0, step * tiles  # * scale: step more in each tile
        calls.give(q, k, v)
        q[:, :, 3::2, 0] = 0.0
        calls.give(q, k, v, causal="top-left")
        q[..., 0] = 0.0
        mask = (step * tiles + np.zeros((s, 1))).astype(F32)
        mask[4] = -INF
        mask[5, : 3 * keys] = -INF
        calls.give(q, k, v, mask)
    q, k, v = (calls.values((1, 1, n, d), dtype) for n in (s, t, t))
    q[:, :, 7, 0], k[:, :, 5 * keys + 3, 0] = 4.0, 60.0
    q[:, :, 8, 0] = -4.0
    calls.give(q, k, v)
    with force(dev, BODIES[body]):
        calls.check(body)


# -- memory ---------------------------------------------------------------------------------------


@gpu
def test_memory_does_not_grow_with_the_square(dev: pk.Device) -> None:
    """S = T = 32,768: a window keeps the work small, and shows that hidden tiles are skipped."""
    n = 32768
    x = dev.rand((1, 1, n, 16), seed=0)
    with caps(dev, tuning=named("generic-small")):
        dev.sync()
        dev.trim()
        before = dev.memory_stats().current
        out = pk.flash_attn(x, x, x, window=(8, 8))
        dev.sync()
        stats = dev.memory_stats()
    used = stats.current + stats.pooled - before
    assert out.nbytes <= used <= 6 * x.nbytes  # 12 MiB; the matrix alone would have 4 GiB
    rows = slice(0, n, n - 1)
    got, host = out.numpy()[:, :, rows], x.numpy()
    for i, row in enumerate((0, n - 1)):
        keys = slice(0, 9) if row == 0 else slice(n - 9, n)
        part = host[:, :, row : row + 1], host[:, :, keys], host[:, :, keys]
        assert_close(got[:, :, i : i + 1], attention(*part).o, budget(*part))


# -- arguments ------------------------------------------------------------------------------------

X = (1, 4, 8, 16)
BAD: list[tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = [
    ({"q": (4, 8, 16)}, {}, pk.ShapeError, "q must have four axes"),
    ({"k": (1, 2, 8, 8)}, {}, pk.ShapeError, r"k must have shape \(1, 2, 8, 16\)"),
    (
        {"k": (1, 3, 8, 16), "v": (1, 3, 8, 16)},
        {},
        pk.ShapeError,
        "multiple of those of k and v, 3",
    ),
    ({"v": (1, 2, 7, 16)}, {}, pk.ShapeError, "v must have shape"),
    ({"k": (2, 2, 8, 16)}, {}, pk.ShapeError, "k must have shape"),
    ({"dst": (1, 4, 8, 15)}, {}, pk.ShapeError, "dst must have shape"),
    ({"lse": (1, 4, 7)}, {}, pk.ShapeError, "lse must have shape"),
    ({"mask": (3, 8)}, {}, pk.ShapeError, "mask must broadcast to"),
    ({"sinks": (2,)}, {}, pk.ShapeError, "sinks must have shape"),
    ({"q": (1, 4, 8, 577), "k": (1, 2, 8, 577)}, {}, pk.LimitError, "D may be up to 576"),
    ({}, {"causal": "left"}, pk.ArgumentError, "causal must be"),
    ({}, {"window": (1, 2, 3)}, pk.ArgumentError, "window must be"),
    ({}, {"window": (-1, 2)}, pk.ArgumentError, "no negative sizes"),
    ({}, {"window": (1.5, 2)}, pk.ArgumentError, "window must hold integers"),
    ({}, {"softcap": -1.0}, pk.ArgumentError, "softcap must be a finite number of 0 or more"),
    ({}, {"softcap": NAN}, pk.ArgumentError, "softcap must be"),
    ({}, {"precision": "split"}, pk.ArgumentError, "precision must be None, 'fast' or 'high'"),
    ({}, {"max_bias": INF}, pk.ArgumentError, "max_bias must be"),
    ({}, {"scale": NAN}, pk.ArgumentError, "scale must be a finite number but is nan"),
    ({}, {"scale": "2"}, pk.ArgumentError, "scale must be"),
]


@gpu
@pytest.mark.parametrize("shapes, options, error, message", BAD, ids=[m for *_, m in BAD])
def test_refused(
    dev: pk.Device, shapes: dict[str, Any], options: dict[str, Any], error: type[Exception],
    message: str,
) -> None:  # fmt: skip
    kv = (1, 2, 8, 16)
    given = {"q": X, "k": kv, "v": kv, "dst": X, **shapes}
    t = {name: dev.zeros(shape) for name, shape in given.items()}
    q, k, v, dst = (t.pop(n) for n in ("q", "k", "v", "dst"))
    with pytest.raises(error, match=message):
        flash_attn(q, k, v, dst, **t, **options)


@gpu
def test_wrong_dtypes(dev: pk.Device) -> None:
    x, ints = dev.zeros(X), dev.zeros(X, "int32")
    for args in ((ints, x, x, x), (x, ints, x, x), (x, x, x, ints)):
        with pytest.raises(pk.DTypeError, match=r"must be .* or bfloat16 but is int32"):
            flash_attn(*args)
    with pytest.raises(pk.DTypeError, match="mask must be float32, float16, bfloat16 or bool"):
        flash_attn(x, x, x, x, mask=dev.zeros((8, 8), "uint8"))


@gpu
def test_nothing_to_do(dev: pk.Device) -> None:
    for shape in ((0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4)):
        x = dev.zeros(shape)
        assert pk.flash_attn(x, x, x).shape == shape
    q, none = dev.rand((1, 2, 3, 4), seed=0), dev.zeros((1, 2, 0, 4))
    out, lse = pk.flash_attn(q, none, none, return_lse=True, sinks=dev.zeros(2))
    assert (out.numpy() == 0).all() and (lse.numpy() == -INF).all()
    out, lse = pk.flash_attn(q, q, q[..., :0], return_lse=True)
    assert out.shape == (1, 2, 3, 0)
    np.testing.assert_allclose(
        lse.numpy(), attention(q.numpy(), q.numpy(), q.numpy()).lse, rtol=1e-5
    )


# -- torch's function -----------------------------------------------------------------------------


def torch_rule(q: Array, k: Array, v: Array, mask: Array | None, causal: bool) -> Array:
    """What torch's documentation says it does, in float64."""
    s, t = q.shape[-2], k.shape[-2]
    logits = q.astype(float) @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        mask = np.tril(np.ones((s, t), bool))
    if mask is not None:
        logits = np.where(mask, logits, -INF) if mask.dtype == bool else logits + mask
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.astype(float)


@gpu
@pytest.mark.parametrize(
    "lead_q, lead_kv",
    [((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (1, 3)), ((2, 3), ()),
     ((2, 2, 3), (2, 2, 3)), ((2, 2, 3), (1, 3))], ids=str,
)  # fmt: skip
def test_torch_shapes(
    dev: pk.Device, rng: np.random.Generator, lead_q: tuple[int, ...], lead_kv: tuple[int, ...]
) -> None:
    q = rng.normal(0, 1, (*lead_q, 6, 8)).astype(F32)
    k, v = (rng.normal(0, 1, (*lead_kv, 9, n)).astype(F32) for n in (8, 12))
    seen = rng.random((6, 9)) < 0.7
    seen[:, 0] = True
    added = np.where(seen, rng.normal(0, 1, (*lead_q, 6, 9)), -INF).astype(F32)
    for mask, causal in ((None, False), (None, True), (seen, False), (added, False)):
        got = pk.scaled_dot_product_attention(
            *map(dev.tensor, (q, k, v)), None if mask is None else dev.tensor(mask),
            is_causal=causal,
        )  # fmt: skip
        want = torch_rule(q, k, v, mask, causal)
        assert got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want, atol=1e-5)
    assert isinstance(pk.scaled_dot_product_attention(q, k, v), np.ndarray)


@gpu
def test_torch_shared_heads(dev: pk.Device, rng: np.random.Generator) -> None:
    q, k, v = (dev.tensor(a) for a in qkv(rng, (6, 2), 5, 7))
    got = pk.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.5)
    assert_same_bits(got.numpy(), pk.flash_attn(q, k, v, scale=0.5).numpy())
    with pytest.raises(pk.ShapeError, match="enable_gqa=True lets KV heads be shared"):
        pk.scaled_dot_product_attention(q, k, v)
    with pytest.raises(pk.ShapeError, match="must be equal and divide the query's, 6"):
        pk.scaled_dot_product_attention(q, q[:, :4], q[:, :4], enable_gqa=True)


@gpu
def test_torch_refuses(dev: pk.Device) -> None:
    x, mask = dev.zeros((2, 4, 8)), dev.zeros((4, 4), "bool")
    call = pk.scaled_dot_product_attention
    with pytest.raises(pk.ArgumentError, match=r"dropout_p must be in \[0, 1\]"):
        call(x, x, x, None, 1.5)
    with pytest.raises(pk.ArgumentError, match="attn_mask must be None when is_causal"):
        call(x, x, x, mask, is_causal=True)
    with pytest.raises(pk.ShapeError, match="attn_mask must broadcast to"):
        call(x, x, x, dev.zeros((3, 4), "bool"))
    with pytest.raises(pk.ShapeError, match="two or more axes"):
        call(x, x[0, 0], x)
    with pytest.raises(pk.DTypeError, match="query must be float32, float16 or bfloat16"):
        call(mask, x, x)
