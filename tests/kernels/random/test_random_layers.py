"""dropout and the first weights of layers: bit for bit those of the reference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import random as reference
from tests.harness import assert_same_bits

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dropout(dev: pk.Device, dtype: str) -> None:
    x = np.random.default_rng(0).normal(0, 1, (7, 33)).astype(dtype)
    for p in (0.1, 0.5, 1.0):
        want = reference.dropout(x, p, seed=5)
        assert_same_bits(pk.dropout(dev.tensor(x), p, seed=5).numpy(), want)
        share = np.count_nonzero(want) / x.size
        assert abs(share - (1 - p)) < 0.12
    t = dev.tensor(x)
    assert pk.dropout(t, 0.5, training=False) is t
    assert pk.dropout(t, 0.0) is t
    assert pk.dropout(x, 0.3, training=False) is x
    out = dev.empty(x.shape, dtype)
    assert pk.dropout(t, 0.5, training=False, out=out) is out
    assert_same_bits(out.numpy(), x)
    array = pk.dropout(x, 0.1, seed=5)
    assert isinstance(array, np.ndarray)
    assert_same_bits(array, reference.dropout(x, 0.1, seed=5))
    assert_same_bits(pk.dropout(t.T, 0.1, seed=5).numpy(), reference.dropout(x.T, 0.1, seed=5))
    assert pk.dropout(t, 0.1, seed=5, out=t) is t
    assert_same_bits(t.numpy(), array)


def test_dropout_with_a_state_draws_another_mask_in_each_replay(dev: pk.Device) -> None:
    state, x = pk.random_state(9, device=dev), dev.ones((5, 7))
    with dev.capture() as program:
        y = pk.dropout(x, 0.25, state=state)
    wanted = pk.random_state(9, device=dev)
    for _ in range(3):
        program()
        assert_same_bits(y.numpy(), pk.dropout_mask((5, 7), 0.25, state=wanted).numpy())


INITIAL: list[tuple[str, dict[str, Any], float]] = [  # with the gain that it has
    ("kaiming_uniform", {}, math.sqrt(2)),
    ("kaiming_uniform", {"a": math.sqrt(5), "mode": "fan_out"}, math.sqrt(1 / 3)),
    ("kaiming_normal", {"nonlinearity": "relu"}, math.sqrt(2)),
    ("kaiming_normal", {"nonlinearity": "tanh", "mode": "fan_out"}, 5 / 3),
    ("kaiming_normal", {"nonlinearity": "conv2d"}, 1.0),
    ("xavier_uniform", {}, 1.0),
    ("xavier_uniform", {"gain": 2.5}, 2.5),
    ("xavier_normal", {"gain": 0.5}, 0.5),
]


@pytest.mark.parametrize(("name", "given", "gain"), INITIAL)
def test_first_weights(dev: pk.Device, name: str, given: dict[str, Any], gain: float) -> None:
    made = getattr(pk, name)
    drawn = reference.uniform if name.endswith("uniform") else reference.normal
    for shape in ((40, 30), (6, 5, 3, 3), (1, 1)):
        bound = reference.bound_of(name, shape, gain, given.get("mode", "fan_in"))
        want = drawn(shape, bound, seed=3)
        assert_same_bits(made(shape, **given, seed=3, device=dev).numpy(), want)
    half = made((40, 30), **given, dtype="float16", seed=3, device=dev).numpy()
    bound = reference.bound_of(name, (40, 30), gain, given.get("mode", "fan_in"))
    assert_same_bits(half, drawn((40, 30), bound, seed=3).astype(np.float16))
    state = pk.random_state(3, device=dev)
    assert_same_bits(made((4, 3), **given, state=state).numpy(),
                     made((4, 3), **given, seed=3, device=dev).numpy())  # fmt: skip
    assert state.numpy()[2] == 3
    assert made((0, 5), **given, device=dev).shape == (0, 5)


def test_layers_reject(dev: pk.Device) -> None:
    x = dev.zeros((2, 3))
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.dropout(x, 1.5), pk.ArgumentError, r"\[dropout\] p must be in \[0, 1\]"),
        (lambda: pk.dropout(x, training=1), pk.ArgumentError, "training must be True"),  # type: ignore[call-overload]
        (lambda: pk.dropout(dev.zeros(3, "uint8")), pk.DTypeError, "x must be float32, float16"),
        (lambda: pk.dropout(x, seed=1, state=pk.random_state(device=dev)), pk.ArgumentError,
         r"\[dropout\] seed must be None if a state"),
        (lambda: pk.dropout(x, out=x[:1]), pk.ShapeError, r"\[dropout\] out must have shape"),
        (lambda: pk.kaiming_uniform(5), pk.ShapeError, r"\[kaiming_uniform\] shape must be"),
        (lambda: pk.kaiming_normal((2, 3), mode="fan"), pk.ArgumentError, "mode must be 'fan_in'"),  # type: ignore[arg-type]
        (lambda: pk.kaiming_normal((2, 3), nonlinearity="x"), pk.ArgumentError, "must be one of"),
        (lambda: pk.xavier_normal((2, 3), gain="x"), pk.ArgumentError, "gain must be a real"),  # type: ignore[arg-type]
        (lambda: pk.xavier_normal((2, 3), dtype="int32"), pk.DTypeError, "dtype must be float32"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
