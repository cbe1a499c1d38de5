"""lstm with peepholes, gru with the reset first, and all activations of recurrent layers."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

import pykernels as pk
from pykernels.functional._recurrent_base import Activation

pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]
T, N, INPUTS, H = 4, 3, 6, 8
FUNCTIONS: dict[str, Any] = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanh": np.tanh,
}


def arguments(gates: int, dtype: str = "f4") -> list[Array]:
    rng = np.random.default_rng(0)
    shapes = ((T, N, INPUTS), (gates * H, INPUTS), (gates * H, H), (gates * H,), (gates * H,))
    return [(rng.normal(size=s) * 0.4).astype(dtype) for s in shapes]


def state(dtype: str = "f4") -> Array:
    found: Array = np.random.default_rng(1).normal(size=(N, H)).astype(dtype)
    return found


def lstm(given: list[Array], h: Array, c: Array, p: Array, kinds: tuple[str, ...]) -> Any:
    x, w_ih, w_hh, b_ih, b_hh = (a.astype("f8") for a in given)
    gate, fresh, last = (FUNCTIONS[k] for k in kinds)
    pi, pf, po = np.split(p.astype("f8"), 3)
    rows = []
    for t in range(T):
        i, f, g, o = np.split(x[t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, 1)
        c = gate(f + pf * c) * c + gate(i + pi * c) * fresh(g)
        h = gate(o + po * c) * last(c)
        rows.append(h)
    return np.stack(rows), c


def gru(given: list[Array], h: Array, kinds: tuple[str, ...], after: bool) -> Any:
    x, w_ih, w_hh, b_ih, b_hh = (a.astype("f8") for a in given)
    gate, last = (FUNCTIONS[k] for k in kinds)
    rows = []
    for t in range(T):
        (ar, az, an) = np.split(x[t] @ w_ih.T + b_ih, 3, 1)
        (br, bz, bn) = np.split(h @ w_hh.T + b_hh, 3, 1)
        r, z = gate(ar + br), gate(az + bz)
        inner = r * bn if after else (r * h) @ w_hh[2 * H :].T + b_hh[2 * H :]
        h = (1 - z) * last(an + inner) + z * h
        rows.append(h)
    return np.stack(rows)


def test_every_activation_has_a_function() -> None:
    assert set(get_args(Activation)) == set(FUNCTIONS)


# Rounding of sums of some products, through functions of slope 1 at most, four times.
@pytest.mark.parametrize(("dtype", "bound"), [("f4", 4e-6), ("f2", 4e-3)])
@pytest.mark.parametrize("kinds", [("sigmoid", "tanh", "tanh"), ("hardsigmoid", "softsign", "elu"),
                                   ("hardsigmoid", "softplus", "leaky_relu"),
                                   ("sigmoid", "linear", "linear")])  # fmt: skip
def test_lstm_with_peepholes(dev: pk.Device, kinds: Any, dtype: str, bound: float) -> None:
    given, h, c = arguments(4, dtype), state(dtype), state(dtype)[::-1]
    p = np.random.default_rng(2).normal(size=3 * H).astype(dtype)
    want, cell = lstm(given, h, c, p, kinds)
    tensors = [dev.tensor(a) for a in given]
    got, (_, last) = pk.lstm(
        *tensors, hx=(dev.tensor(h), dev.tensor(c)), peepholes=dev.tensor(p), activations=kinds
    )
    scale = max(1, np.abs(want).max(), np.abs(cell).max())
    np.testing.assert_allclose(got.numpy(), want, rtol=bound, atol=bound * scale)
    np.testing.assert_allclose(last.numpy(), cell, rtol=bound, atol=bound * scale)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("dtype", "bound"), [("f4", 4e-6), ("f2", 4e-3)])
@pytest.mark.parametrize("kinds", [("sigmoid", "tanh"), ("hardsigmoid", "softsign"),
                                   ("sigmoid", "linear")])  # fmt: skip
def test_gru(dev: pk.Device, kinds: Any, after: bool, dtype: str, bound: float) -> None:
    given, h = arguments(3, dtype), state(dtype)
    want = gru(given, h.astype("f8"), kinds, after)
    got, last = pk.gru(*given, h, reset_after=after, activations=kinds)
    np.testing.assert_allclose(got, want, rtol=bound, atol=2 * bound)
    assert (last == got[-1]).all()


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_rnn(dev: pk.Device, kind: Any) -> None:
    x, w_ih, w_hh, b_ih, b_hh = arguments(1)
    h = state().astype("f8")
    got, _ = pk.rnn(*(dev.tensor(a) for a in (x, w_ih, w_hh, b_ih, b_hh)),
                    hx=dev.tensor(state()), nonlinearity=kind)  # fmt: skip
    for t in range(T):
        h = FUNCTIONS[kind](x[t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh)
        np.testing.assert_allclose(got[t].numpy(), h, rtol=1e-5, atol=1e-5 * np.abs(h).max())


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_gradients(dev: pk.Device, name: str) -> None:
    """By differences in float64, along a random direction of each argument."""
    rng = np.random.default_rng(3)
    arrays = [*arguments(4 if name == "lstm" else 3), state()]
    if name == "lstm":
        arrays.append(rng.normal(size=3 * H).astype("f4"))

        def device(*t: Any) -> Any:
            return pk.lstm(*t[:5], hx=(t[5], t[5]), peepholes=t[6],
                           activations=("sigmoid", "softsign", "tanh"))[0]  # fmt: skip

        def exact(*a: Array) -> Array:
            found: Array = lstm([*a[:5]], a[5], a[5], a[6], ("sigmoid", "softsign", "tanh"))[0]
            return found
    else:

        def device(*t: Any) -> Any:
            return pk.gru(*t, reset_after=False, activations=("sigmoid", "softsign"))[0]

        def exact(*a: Array) -> Array:
            found: Array = gru([*a[:5]], a[5], ("sigmoid", "softsign"), False)
            return found

    wide = [a.astype("f8") for a in arrays]
    dy = rng.normal(size=(T, N, H))
    tensors = [dev.tensor(a) for a in arrays]
    with pk.Tape() as tape:
        y = device(*tensors)
    for i, found in enumerate(tape.gradient(y, tensors, dev.tensor(dy.astype("f4")))):
        way = rng.normal(size=arrays[i].shape)
        ends = [
            (exact(*[a + s * way if j == i else a for j, a in enumerate(wide)]) * dy).sum()
            for s in (1e-5, -1e-5)
        ]
        terms = found.numpy() * way
        assert abs(terms.sum() - (ends[0] - ends[1]) / 2e-5) < 1e-5 * (np.abs(terms).sum() + 1)


def test_what_is_refused(dev: pk.Device) -> None:
    given = arguments(4)
    with pytest.raises(pk.ShapeError, match=r"\[lstm\] peepholes must have shape \(24,\)"):
        pk.lstm(*given, peepholes=given[4])
    for wrong in (("tanh",), "tanh", ("sigmoid", "tanh", "cos")):
        with pytest.raises(pk.ArgumentError, match=r"\[lstm\] activations must be 3 of elu"):
            pk.lstm(*given, activations=wrong)  # type: ignore[arg-type]
    with pytest.raises(pk.ArgumentError, match="reset_after must be True or False"):
        pk.gru(*arguments(3), reset_after=0)  # type: ignore[arg-type]
