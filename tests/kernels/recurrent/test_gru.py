"""gru, rnn and their cells: values, gradients, layouts, sizes of 0, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]
T, N, INPUTS, H = 5, 3, 6, 8
NAMES = ("x", "w_ih", "w_hh", "b_ih", "b_hh", "hx")
KINDS = ("gru", "tanh", "relu")


def arguments(kind: str, dtype: str = "f4") -> dict[str, Array]:
    rng, gates = np.random.default_rng(0), 3 if kind == "gru" else 1
    shapes = (
        (T, N, INPUTS),
        (gates * H, INPUTS),
        (gates * H, H),
        (gates * H,),
        (gates * H,),
        (N, H),
    )
    scale = 1 if kind == "gru" else 0.5  # relu grows with each step
    return {
        n: (scale * rng.standard_normal(s)).astype(dtype)
        for n, s in zip(NAMES, shapes, strict=True)
    }


def reference(kind: str, given: dict[str, Array], reverse: bool = False) -> tuple[Array, Array]:
    """All h, and h after the last step, in float64."""
    x, w_ih, w_hh, b_ih, b_hh, h = (given[n].astype(np.float64) for n in NAMES)
    result = np.zeros((*x.shape[:2], w_hh.shape[1]))
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        a, b = x[t] @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        if kind == "gru":
            (ar, az, an), (br, bz, bn) = np.split(a, 3, 1), np.split(b, 3, 1)
            r, z = 1 / (1 + np.exp(-ar - br)), 1 / (1 + np.exp(-az - bz))
            h = (1 - z) * np.tanh(an + r * bn) + z * h
        else:
            h = np.tanh(a + b) if kind == "tanh" else np.maximum(a + b, 0)
        result[t] = h
    return result, h


def call(kind: str, given: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    if kind == "gru":
        return pk.gru(*given.values(), **options)
    return pk.rnn(*given.values(), nonlinearity=kind, **options)  # type: ignore[arg-type]


# Rounding of sums of six and eight products, five times; of float16 that of the result.
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 4e-6), ("float16", 2e-3)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_is_its_formula(
    dev: pk.Device, kind: str, dtype: str, bound: float, reverse: bool
) -> None:
    given = arguments(kind, dtype)
    found = call(kind, {n: dev.tensor(a) for n, a in given.items()}, reverse=reverse)
    for got, want in zip(found, reference(kind, given, reverse), strict=True):
        assert got.dtype == dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=bound, atol=bound)


@pytest.mark.parametrize("kind", KINDS)
def test_views_arrays_cells_and_sizes_of_0(dev: pk.Device, kind: str) -> None:
    given, close = arguments(kind), {"rtol": 4e-6, "atol": 4e-6}
    turned = {n: dev.tensor(np.ascontiguousarray(a.T)).T for n, a in given.items()}
    mixed = {n: a if n in ("w_hh", "hx") else turned[n] for n, a in given.items()}
    arrays = call(kind, given)
    for found in (call(kind, turned), call(kind, mixed), arrays):
        for got, want in zip(found, reference(kind, given), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, **close)
    assert all(isinstance(a, np.ndarray) for a in arrays)
    cell: Any = pk.gru_cell if kind == "gru" else pk.rnn_cell
    options = {} if kind == "gru" else {"nonlinearity": kind}
    h = cell(given["x"][0], given["hx"], *(given[n] for n in NAMES[1:5]), **options)
    np.testing.assert_allclose(h, reference(kind, given)[0][0], **close)
    result, last = call(kind, turned | {"x": dev.empty((0, N, INPUTS))})
    assert result.shape == (0, N, H) and (last.numpy() == given["hx"]).all()
    zeros = given | {n: 0 * given[n] for n in ("b_ih", "b_hh", "hx")}
    result, _ = call(kind, {n: turned[n] for n in NAMES[:3]})
    np.testing.assert_allclose(result.numpy(), reference(kind, zeros)[0], **close)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_go_through_time(dev: pk.Device, kind: str) -> None:
    """Of all arguments, against central differences of the formula along a random direction."""
    given = arguments(kind)
    rng = np.random.default_rng(1)
    seed = rng.standard_normal((T, N, H)).astype("f4")
    tensors = {n: dev.tensor(a) for n, a in given.items()}
    with pk.Tape() as tape:
        result, last = call(kind, tensors)
        loss = pk.sum(result * dev.tensor(seed)) + pk.sum(last)
    found = tape.gradient(loss, list(tensors.values()))
    for name, gradient in zip(NAMES, found, strict=True):
        step = rng.standard_normal(given[name].shape)
        values = []
        for sign in (1, -1):
            moved = given[name].astype(np.float64) + sign * 1e-6 * step
            result, last = reference(kind, given | {name: moved})
            values.append((result * seed).sum() + last.sum())
        want = (values[0] - values[1]) / 2e-6
        assert (gradient.numpy() * step).sum() == pytest.approx(want, rel=1e-4, abs=1e-4), name


def test_gru_and_rnn_reject(dev: pk.Device) -> None:
    t = {n: dev.tensor(a) for n, a in arguments("gru").items()}
    x, w_ih, w_hh = t["x"], t["w_ih"], t["w_hh"]
    with pytest.raises(pk.ShapeError, match=r"\[gru\] x must have the axes .* has shape \(3, 6\)"):
        pk.gru(x[0], w_ih, w_hh)
    with pytest.raises(pk.ShapeError, match=r"\[rnn\] w_ih must have shape \(8, 6\) but has"):
        pk.rnn(x, w_ih, w_hh)
    with pytest.raises(pk.ShapeError, match=r"\[gru\] b_hh must have shape \(24,\) but has \(3,"):
        pk.gru(x, w_ih, w_hh, None, t["hx"])
    with pytest.raises(pk.DTypeError, match=r"\[gru\] x must be float32, .* but is int32"):
        pk.gru(dev.zeros((2, 3, 6), "int32"), w_ih, w_hh)
    with pytest.raises(pk.ArgumentError, match=r"\[rnn\] nonlinearity must be"):
        pk.rnn(x, w_ih, w_hh, nonlinearity="cos")  # type: ignore[arg-type]
    with pytest.raises(pk.ArgumentError, match=r"\[gru_cell\] hx must be an array or a Tensor"):
        pk.gru_cell(x[0], None, w_ih, w_hh)  # type: ignore[arg-type]
