"""lstm and lstm_cell: values, gradients, layouts, sizes of 0, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]
T, N, INPUTS, H = 5, 3, 6, 8
NAMES = ("x", "w_ih", "w_hh", "b_ih", "b_hh", "h", "c")


def arguments(dtype: str = "f4") -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes = ((T, N, INPUTS), (4 * H, INPUTS), (4 * H, H), (4 * H,), (4 * H,), (N, H), (N, H))
    return {n: rng.standard_normal(s).astype(dtype) for n, s in zip(NAMES, shapes, strict=True)}


def reference(given: dict[str, Array], reverse: bool = False) -> tuple[Array, Array, Array]:
    """All h, and h and c after the last step, in float64."""
    x, w_ih, w_hh, b_ih, b_hh, h, c = (given[n].astype(np.float64) for n in NAMES)
    result = np.zeros((*x.shape[:2], w_hh.shape[1]))
    order = range(len(x))
    for t in reversed(order) if reverse else order:
        i, f, g, o = np.split(x[t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, 1)
        i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = result[t] = o * np.tanh(c)
    return result, h, c


def call(given: dict[str, Any], **options: Any) -> tuple[Any, Any, Any]:
    *first, h, c = (given[n] for n in NAMES)
    result, (h, c) = pk.lstm(*first, hx=(h, c), **options)
    return result, h, c


# Rounding of sums of six and eight products, through sigmoids and tanhs of slope 1 at most, five
# times; of float16 that of the result, as states stay float32.
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 2e-6), ("float16", 1e-3)])
@pytest.mark.parametrize("reverse", [False, True])
def test_lstm_is_its_formula(dev: pk.Device, dtype: str, bound: float, reverse: bool) -> None:
    given = arguments(dtype)
    found = call({n: dev.tensor(a) for n, a in given.items()}, reverse=reverse)
    for got, want in zip(found, reference(given, reverse), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=bound, atol=bound)


def test_lstm_of_views_and_arrays(dev: pk.Device) -> None:
    given = arguments()
    turned = {n: dev.tensor(np.ascontiguousarray(a.T)).T for n, a in given.items()}
    mixed = {n: a if n in ("w_hh", "h") else turned[n] for n, a in given.items()}
    arrays = call(given)
    for found in (call(turned), call(mixed), arrays):
        for got, want in zip(found, reference(given), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, rtol=2e-6, atol=2e-6)
    assert all(isinstance(a, np.ndarray) for a in arrays)


def test_lstm_cell_is_a_step(dev: pk.Device) -> None:
    given = arguments()
    one = given | {"x": given["x"][:1]}
    t = {n: dev.tensor(a) for n, a in one.items()}
    weights = [t[n] for n in ("w_ih", "w_hh", "b_ih", "b_hh")]
    found = pk.lstm_cell(t["x"][0], (t["h"], t["c"]), *weights)
    for got, want in zip(found, reference(one)[1:], strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-6, atol=2e-6)


def test_lstm_without_states_biases_or_steps(dev: pk.Device) -> None:
    given = arguments()
    zeros = given | {n: 0 * given[n] for n in ("b_ih", "b_hh", "h", "c")}
    result, (h, c) = pk.lstm(*(dev.tensor(given[n]) for n in NAMES[:3]))
    for got, want in zip((result, h, c), reference(zeros), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=2e-6, atol=2e-6)
    result, h, c = call({n: dev.tensor(a) for n, a in given.items()} | {"x": dev.empty((0, N, 6))})
    assert result.shape == (0, N, H)
    assert (h.numpy() == given["h"]).all()
    assert (c.numpy() == given["c"]).all()
    result, (h, _) = pk.lstm(dev.empty((T, 0, 6)), *(dev.tensor(given[n]) for n in NAMES[1:3]))
    assert (result.shape, h.shape) == ((T, 0, H), (0, H))


def test_gradients_go_through_time(dev: pk.Device) -> None:
    """Of all arguments, against central differences of the formula along a random direction."""
    given = arguments()
    rng = np.random.default_rng(1)
    seed = rng.standard_normal((T, N, H)).astype("f4")
    tensors = {n: dev.tensor(a) for n, a in given.items()}
    with pk.Tape() as tape:
        result, _, c = call(tensors)
        loss = pk.sum(result * dev.tensor(seed)) + pk.sum(c)
    found = tape.gradient(loss, list(tensors.values()))
    for name, gradient in zip(NAMES, found, strict=True):
        step = rng.standard_normal(given[name].shape)
        values = []
        for sign in (1, -1):
            moved = given[name].astype(np.float64) + sign * 1e-5 * step
            result, _, c = reference(given | {name: moved})
            values.append((result * seed).sum() + c.sum())
        want = (values[0] - values[1]) / 2e-5
        assert (gradient.numpy() * step).sum() == pytest.approx(want, rel=1e-4, abs=1e-4), name


def test_lstm_in_a_captured_program(dev: pk.Device) -> None:
    tensors = {n: dev.tensor(a) for n, a in arguments().items()}
    with dev.capture() as program:
        result, _, _ = call(tensors)
    tensors["x"].write(2 * arguments()["x"])
    program()
    want, _, _ = reference(arguments() | {"x": 2 * arguments()["x"]})
    np.testing.assert_allclose(result.numpy(), want, rtol=2e-6, atol=2e-6)


def test_lstm_rejects(dev: pk.Device) -> None:
    t = {n: dev.tensor(a) for n, a in arguments().items()}
    x, w_ih, w_hh = t["x"], t["w_ih"], t["w_hh"]
    with pytest.raises(pk.ShapeError, match=r"\[lstm\] x must have the axes .* has shape \(3, 6\)"):
        pk.lstm(x[0], w_ih, w_hh)
    with pytest.raises(pk.ShapeError, match=r"\[lstm\] w_ih must have shape \(32, 6\) but has"):
        pk.lstm(x, w_ih.T, w_hh)
    with pytest.raises(
        pk.ShapeError, match=r"\[lstm\] c must have shape \(3, 8\) but has \(8, 3\)"
    ):
        pk.lstm(x, w_ih, w_hh, hx=(t["h"], t["c"].T))
    with pytest.raises(pk.DTypeError, match=r"\[lstm\] x must be float32, .* but is int32"):
        pk.lstm(dev.zeros((2, 3, 6), "int32"), w_ih, w_hh)
    with pytest.raises(pk.ArgumentError, match=r"\[lstm\] hx must be a tuple of h and c but is"):
        pk.lstm(x, w_ih, w_hh, hx=t["h"])  # type: ignore[call-overload]
    with pytest.raises(pk.ShapeError, match=r"\[lstm_cell\] x must have the axes \(N, inputs\)"):
        pk.lstm_cell(x, (t["h"], t["c"]), w_ih, w_hh)
