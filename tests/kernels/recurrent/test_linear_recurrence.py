"""linear_recurrence: depths around the lanes, layouts, stored states, parts; its functions beside
their definitions, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import choice, force
from pykernels.plans.recurrent.linear_recurrence import choose
from pykernels.reference.recurrent import linear_recurrence, linear_recurrence_budget
from pykernels.steps import Caps
from pykernels.tuning import named
from tests.harness import Array, Case, Form, assert_close, caps, random_form

gpu = pytest.mark.gpu
CAPS = Caps(True, False, 256, 256, 16384, 1 << 27, 65535, named("generic-large"))
# (B, T, H, K, V), what goes with the plain arguments, every
SHAPES: list[tuple[tuple[int, ...], str, int]] = [
    ((1, 1, 1, 1, 1), "", 0), ((2, 5, 3, 16, 1), "rate", 0), ((1, 4, 2, 17, 3), "pair", 1),
    ((2, 3, 2, 33, 70), "", 2), ((1, 7, 1, 64, 20), "pair", 3), ((1, 3, 2, 65, 9), "rate", 0),
    ((1, 3, 1, 128, 10), "pair", 0), ((1, 2, 1, 200, 17), "", 1), ((2, 2, 1, 300, 5), "pair", 0),
]  # fmt: skip


def given(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> dict[str, Array]:
    """Arguments of the kernel: the state neither grows nor vanishes."""
    b, t, h, k, v = shape
    found = {
        "q": rng.normal(size=(b, t, h, k)), "k": rng.normal(size=(b, t, h, k)) / k**0.5,
        "v": rng.normal(size=(b, t, h, v)), "decay": rng.uniform(0.5, 1, (b, t, h, k)),
        "state": rng.normal(size=(b, h, k, v)),
    }  # fmt: skip
    if kind == "pair":
        found["pair"] = rng.normal(size=(b, t, h, 2, k)) / k**0.5
    if kind == "rate":
        found["rate"] = -rng.uniform(0.1, 3, (h, k))
    return {name: a.astype("f4") for name, a in found.items()}


def form(rng: np.random.Generator, shape: tuple[int, ...]) -> Form:
    """Any layout."""
    return random_form(rng, len(shape), repeats=False)


def test_choose() -> None:
    chosen = [choose(CAPS, depth).group for depth in (1, 16, 17, 64, 65, 129, 256, 257, 1024)]
    assert chosen == ["lanes1", "lanes1", "lanes2", "lanes4", "lanes8", "lanes16", "lanes16",
                      "lanes64", "lanes64"]  # fmt: skip


@gpu
@pytest.mark.parametrize("before", [False, True])
def test_matches_its_reference(dev: pk.Device, before: bool) -> None:
    case = Case(dev, seed=1)
    calls = []
    for shape, kind, every in SHAPES:
        b, t, h, k, v = shape
        for odd in (False, True):
            arrays = given(case.rng, shape, kind)
            inputs = {
                n: case.input(a, form(case.rng, a.shape) if odd else None)
                for n, a in arrays.items()
            }
            count = -(-t // every) if every else 1
            outs = [
                case.output(s, "float32", form(case.rng, s) if odd else None)
                for s in ((b, t, h, v), (b, count, h, k, v))
            ]  # fmt: skip
            calls.append((inputs, arrays, outs, every))
    case.build()

    def run() -> None:
        for inputs, _, outs, every in calls:
            tensors: dict[str, Any] = {n: o.tensor for n, o in inputs.items()}
            pk.kernels.linear_recurrence(
                tensors.pop("q"), tensors.pop("k"), tensors.pop("v"), tensors.pop("decay"),
                tensors.pop("state"), *[o.tensor for o in outs], every=every, before=before,
                **tensors,
            )  # fmt: skip

    got = iter(case.run(run))
    for inputs, arrays, _, every in calls:
        want = linear_recurrence(**arrays, every=every, before=before)
        bound = linear_recurrence_budget(**arrays, every=every, before=before)
        for w, limit in zip(want, bound, strict=True):
            assert_close(next(got), w, limit, f"{inputs['q'].shape} {every}")


@gpu
@pytest.mark.parametrize("group", ["lanes2", "lanes4", "lanes8", "lanes16", "lanes64"])
def test_every_number_of_lanes(dev: pk.Device, group: str) -> None:
    rng = np.random.default_rng(2)
    arrays = given(rng, (2, 4, 2, 19, 21), "pair")
    with force(dev, choice("linear_recurrence", group=group)):
        y, last = run_plain(dev, arrays)
    want, states = linear_recurrence(**arrays)
    bound, limit = linear_recurrence_budget(**arrays)
    assert_close(y, want, bound)
    assert_close(last, states, limit)


def run_plain(dev: pk.Device, arrays: dict[str, Array]) -> tuple[Array, Array]:
    """Result and last state of a call."""
    t = {n: dev.tensor(a) for n, a in arrays.items()}
    y = dev.empty(arrays["v"].shape)
    b, h, k, v = arrays["state"].shape
    last = dev.empty((b, 1, h, k, v))
    names = ("q", "k", "v", "decay", "state")
    more: dict[str, Any] = {n: a for n, a in t.items() if n not in names}
    pk.kernels.linear_recurrence(*[t[n] for n in names], y, last, **more)
    return y.numpy(), last.numpy()


@gpu
def test_parts_and_long_grids(dev: pk.Device) -> None:
    arrays = given(np.random.default_rng(3), (2, 43, 4, 16, 40), "rate")
    want, states = linear_recurrence(**arrays)
    bound, limit = linear_recurrence_budget(**arrays)
    for changes in ({"max_binding": 8192}, {"max_groups": 2}):
        with caps(dev, **changes):
            y, last = run_plain(dev, arrays)
        assert_close(y, want, bound)
        assert_close(last, states, limit)


@gpu
def test_small_integers_are_exact(dev: pk.Device) -> None:
    rng = np.random.default_rng(4)
    arrays = given(rng, (1, 6, 2, 40, 5), "pair")
    whole = {n: rng.integers(-1, 2, a.shape).astype("f4") for n, a in arrays.items()}
    y, last = run_plain(dev, whole)
    want, states = linear_recurrence(**whole)
    assert np.abs(states).max() < 1 << 20
    assert (y == want).all()
    assert (last == states).all()


@gpu
def test_what_the_kernel_refuses(dev: pk.Device) -> None:
    arrays = given(np.random.default_rng(5), (1, 2, 1, 3, 4), "pair")
    with pytest.raises(pk.ShapeError, match=r"\[linear_recurrence\] k must have shape"):
        run_plain(dev, {**arrays, "k": arrays["k"][..., :2]})
    rate = np.zeros((1, 3), "f4")
    with pytest.raises(pk.ArgumentError, match="rate must be None if pair is given"):
        run_plain(dev, {**arrays, "rate": rate})
    deep = given(np.random.default_rng(5), (1, 1, 1, 1025, 1), "")
    with pytest.raises(pk.LimitError, match="at most 1024 deep"):
        run_plain(dev, deep)


# -- functions ----------------------------------------------------------------------------------


def step(s: Array, f: Array, k: Array, v: Array) -> Array:
    """f S + k v^T."""
    found: Array = f[..., None] * s + k[..., None] * v[..., None, :]
    return found


def known(s: Array, k: Array) -> Array:
    """S^T k."""
    return np.einsum("bhkv,bhk->bhv", s, k)


def over_time(state: Array, length: int, each: Any) -> tuple[Array, Array]:
    """Rows and last state of `each`: (state, step of time) -> (row, state)."""
    rows = []
    for t in range(length):
        row, state = each(state, t)
        rows.append(row)
    return np.stack(rows, 1), state


def gla(q: Array, k: Array, v: Array, g: Array, state: Array) -> tuple[Array, Array]:
    g = np.broadcast_to(g if g.ndim == 4 else g[..., None], q.shape)

    def each(s: Array, t: int) -> tuple[Array, Array]:
        s = step(s, g[:, t], k[:, t], v[:, t])
        return known(s, q[:, t]) / q.shape[-1] ** 0.5, s

    return over_time(state, q.shape[1], each)


def delta(q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array) -> tuple[Array, Array]:
    g = np.broadcast_to(g if g.ndim == 4 else g[..., None], q.shape)

    def each(s: Array, t: int) -> tuple[Array, Array]:
        s = np.exp(g[:, t])[..., None] * s
        learnt = beta[:, t, :, None] * (v[:, t] - known(s, k[:, t]))
        s = s + k[:, t][..., None] * learnt[..., None, :]
        return known(s, q[:, t]) / q.shape[-1] ** 0.5, s

    return over_time(state, q.shape[1], each)


def wkv6(r: Array, k: Array, v: Array, w: Array, u: Array, state: Array) -> tuple[Array, Array]:
    def each(s: Array, t: int) -> tuple[Array, Array]:
        read = s + (u * k[:, t])[..., None] * v[:, t][..., None, :]
        return known(read, r[:, t]), step(s, w[:, t], k[:, t], v[:, t])

    return over_time(state, r.shape[1], each)


def wkv7(
    r: Array, w: Array, k: Array, v: Array, a: Array, b: Array, state: Array
) -> tuple[Array, Array]:
    def each(s: Array, t: int) -> tuple[Array, Array]:
        more = b[:, t][..., None] * known(s, a[:, t])[..., None, :]
        s = step(s, w[:, t], k[:, t], v[:, t]) + more
        return known(s, r[:, t]), s

    return over_time(state, r.shape[1], each)


def ssm(
    x: Array, dt: Array, a: Array, b: Array, c: Array, state: Array, d: Array
) -> tuple[Array, Array]:
    """Mamba 2's form; b and c have a group of heads each, dt passes through a softplus."""
    dt, heads = np.log1p(np.exp(dt)), x.shape[2]
    a = np.broadcast_to(a if a.ndim == 2 else a[:, None], (heads, b.shape[-1]))
    b, c = (np.repeat(t, heads // t.shape[2], 2) for t in (b, c))

    def each(s: Array, t: int) -> tuple[Array, Array]:
        s = step(s, np.exp(dt[:, t, :, None] * a), b[:, t], dt[:, t, :, None] * x[:, t])
        return known(s, c[:, t]) + d[:, None] * x[:, t], s

    return over_time(state, x.shape[1], each)


def ssm1(x: Array, dt: Array, a: Array, b: Array, c: Array, state: Array) -> tuple[Array, Array]:
    """Mamba 1's form."""
    y, s = ssm(x[..., None], np.log(np.expm1(dt)), a, b[:, :, None], c[:, :, None],
               state[..., None], np.zeros(x.shape[2]))  # fmt: skip
    return y[..., 0], s[..., 0]


def cases(rng: np.random.Generator, length: int = 3) -> dict[str, Any]:
    """For each function the call, the definition, and arguments in the order of both."""
    b, h, k, v = 2, 4, 5, 3
    keys, values, one = (b, length, h, k), (b, length, h, v), (b, length, h)

    def normal(*shape: int) -> Array:
        return rng.normal(size=shape).astype("f4") / 2

    def factor(*shape: int) -> Array:
        return rng.uniform(0.3, 1, shape).astype("f4")

    state = normal(b, h, k, v)
    rates = -rng.uniform(0.1, 2, (h, k)).astype("f4")
    of = normal(b, length, 2, k), normal(b, length, 2, k)

    def mamba(x: Any, dt: Any, a: Any, b: Any, c: Any, s: Any, d: Any) -> Any:
        return pk.ssm_scan(x, dt, a, b, c, s, d=d, softplus=True)

    plain = normal(*keys), normal(*keys), normal(*values)
    logs = -factor(*one)
    return {
        "gla": (pk.gated_linear_attn, gla, (*plain, factor(*keys), state)),
        "gla of heads": (pk.gated_linear_attn, gla, (*plain, factor(*one), state)),
        "delta": (pk.gated_delta_net, delta, (*plain, logs, factor(*one), state)),
        "delta of rows": (pk.gated_delta_net, delta, (*plain, -factor(*keys), factor(*one), state)),
        "rwkv6": (pk.rwkv6, wkv6, (*plain, factor(*keys), normal(h, k), state)),
        "rwkv7": (pk.rwkv7, wkv7, (plain[0], factor(*keys), *plain[1:], normal(*keys),
                                   normal(*keys), state)),
        "ssm": (mamba, ssm, (normal(*values), normal(*one), rates, *of, state, normal(h))),
        "ssm of heads": (mamba, ssm, (normal(*values), normal(*one), rates[:, 0], *of, state,
                                      normal(h))),
        "ssm 1": (pk.ssm_scan, ssm1, (normal(*one), factor(*one), rates, of[0][:, :, 0],
                                      of[1][:, :, 0], state[..., 0])),
    }  # fmt: skip


NAMES = list(cases(np.random.default_rng(0)))


@gpu
@pytest.mark.parametrize("name", NAMES)
def test_functions_are_their_definitions(dev: pk.Device, name: str) -> None:
    call, definition, arrays = cases(np.random.default_rng(6), 9)[name]
    want = definition(*[a.astype("f8") for a in arrays])
    for got, w in zip(call(*[dev.tensor(a) for a in arrays]), want, strict=True):
        assert got.dtype == "float32"
        np.testing.assert_allclose(got.numpy(), w, rtol=2e-5, atol=2e-5)
    halves = [a.astype("f2") for a in arrays]
    want = definition(*[a.astype("f8") for a in halves])
    y, last = call(*[dev.tensor(a) for a in halves])
    assert (y.dtype, last.dtype) == ("float16", "float32")
    np.testing.assert_allclose(y.numpy(), want[0], rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(last.numpy(), want[1], rtol=2e-5, atol=2e-5)


@gpu
@pytest.mark.parametrize("name", NAMES)
def test_a_state_goes_on(dev: pk.Device, name: str) -> None:
    """Two calls of parts of the time are one call."""
    call, _, arrays = cases(np.random.default_rng(7), 6)[name]
    place = {"gla": 4, "gla of heads": 4, "rwkv7": 6}.get(name, 5)
    whole = call(*arrays)
    assert isinstance(whole[0], np.ndarray)
    rows, state = [], arrays[place]
    for part in (slice(0, 2), slice(2, 6)):
        given_ = [state if i == place else a[:, part] if a.ndim > 2 and a.shape[1] == 6 else a
                  for i, a in enumerate(arrays)]  # fmt: skip
        y, state = call(*given_)
        rows.append(y)
    assert (np.concatenate(rows, 1) == whole[0]).all()
    assert (state == whole[1]).all()


@pytest.mark.once
@gpu
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pieces", [False, True])
def test_gradients(
    dev: pk.Device, name: str, pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against differences of the definitions, in float64; of time as a whole and in pieces."""
    if pieces:
        monkeypatch.setattr("pykernels.gradients.recurrent._BYTES", 2 * 4 * 2 * 4 * 5 * 3)
    rng = np.random.default_rng(8)
    call, definition, arrays = cases(rng, 5)[name]
    wide = [a.astype("f8") for a in arrays]
    dys = [rng.normal(size=y.shape) for y in definition(*wide)]
    tensors = [dev.tensor(a) for a in arrays]
    with pk.Tape() as tape:
        y, last = call(*tensors)
        loss = pk.sum(y * dev.tensor(dys[0].astype("f4")))
        loss = loss + pk.sum(last * dev.tensor(dys[1].astype("f4")))
    for i, found in enumerate(tape.gradient(loss, tensors)):
        way = rng.normal(size=arrays[i].shape)
        ends = []
        for side in (1e-5, -1e-5):
            moved = [a + side * way if j == i else a for j, a in enumerate(wide)]
            ends.append(sum((y * dy).sum() for y, dy in zip(definition(*moved), dys, strict=True)))
        want, terms = (ends[0] - ends[1]) / 2e-5, found.numpy() * way
        assert abs(terms.sum() - want) < 2e-5 * (np.abs(terms).sum() + 1), i


@pytest.mark.once
@gpu
@pytest.mark.parametrize("name", ["delta", "rwkv6", "ssm"])
def test_second_gradients(dev: pk.Device, name: str) -> None:
    """d/da of sum(u dL/da) along a direction, against differences of the first gradients."""
    rng = np.random.default_rng(9)
    call, _, arrays = cases(rng, 3)[name]
    ways = [rng.normal(size=a.shape).astype("f4") for a in arrays]

    def first(moved: list[Array]) -> list[Array]:
        tensors = [dev.tensor(a.astype("f4")) for a in moved]
        with pk.Tape() as tape:
            loss = pk.sum(pk.square(call(*tensors)[0]))
        return [g.numpy() for g in tape.gradient(loss, tensors)]

    tensors = [dev.tensor(a) for a in arrays]
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            loss = pk.sum(pk.square(call(*tensors)[0]))
        grads = inner.gradient(loss, tensors)
        total = pk.sum(grads[0] * dev.tensor(ways[0]))
        for g, u in zip(grads[1:], ways[1:], strict=True):
            total = total + pk.sum(g * dev.tensor(u))
    found = outer.gradient(total, tensors)
    h = 2.0**-7
    up, down = (first([a + s * u for a, u in zip(arrays, ways, strict=True)]) for s in (h, -h))
    for got, a, b in zip(found, up, down, strict=True):
        want = (a - b) / (2 * h)
        np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=2e-2 * (1 + np.abs(want).max()))


@gpu
def test_what_functions_refuse(dev: pk.Device) -> None:
    t, one = dev.zeros((1, 2, 3, 4)), dev.zeros((1, 2, 3))
    with pytest.raises(pk.ShapeError, match=r"\[gated_linear_attn\] q must have the axes"):
        pk.gated_linear_attn(one, t, t, t)
    with pytest.raises(pk.ShapeError, match=r"\[gated_delta_net\] beta must have shape"):
        pk.gated_delta_net(t, t, t, one, t)
    with pytest.raises(pk.ShapeError, match=r"\[rwkv6\] v must have shape \(1, 2, 3, V\)"):
        pk.rwkv6(t, t, one, t, t[0, 0])
    with pytest.raises(pk.DTypeError, match=r"\[rwkv7\] b must be float32, float16 or bfloat16"):
        pk.rwkv7(t, t, t, t, t, t.astype("int32"))
    with pytest.raises(pk.ShapeError, match=r"\[ssm_scan\] b must be .* G a divisor of 3"):
        pk.ssm_scan(t, one, one[0, 0], t[:, :, :2], t[:, :, :2])
    with pytest.raises(pk.ShapeError, match=r"\[rwkv7\] state must have shape \(1, 3, 4, 4\)"):
        pk.rwkv7(t, t, t, t, t, t, state=t)


@gpu
def test_no_time_and_no_state(dev: pk.Device) -> None:
    t = dev.rand((1, 0, 3, 4), seed=0)
    state = dev.rand((1, 3, 4, 4), seed=1)
    y, last = pk.rwkv7(t, t, t, t, t, t, state)
    assert y.shape == t.shape
    assert (last.numpy() == state.numpy()).all()
    y, last = pk.rwkv7(*[dev.ones((1, 2, 1, 2))] * 6)
    assert (last.numpy() == 4).all()  # 1, and then 1 + (1 + 1) + 1
