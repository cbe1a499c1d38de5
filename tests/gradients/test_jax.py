"""Values and derivatives up to the second order are JAX's, of rows up to the third, stored in
float64 (jax/make_functions.py)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.gradients.jax.functions import Call, calls
from tests.harness import Array, assert_close

pytestmark = pytest.mark.gpu

FOUND = dict(np.load(Path(__file__).with_name("jax") / "functions.npz"))
CASES: dict[str, list[tuple[int, Call]]] = defaultdict(list)
for place, case in enumerate(calls(pk, None)):
    CASES[case.name].append((place, case))


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_jaxs(dev: pk.Device, name: str) -> None:
    for number, call in CASES[name]:
        inputs = [dev.tensor(a) for a in call.inputs]
        others = [dev.tensor(a) for a in call.others]
        rng = np.random.default_rng(number)
        tapes = [pk.Tape() for _ in range(call.order)]
        for tape in tapes:
            tape.__enter__()
        y: Any = call.ours(*inputs, *others)
        near(y, FOUND[f"{number} 0"], f"{name} {number}")
        seed: Any = dev.tensor(rng.normal(0, 1, y.shape).astype(np.float32))
        for order in range(1, call.order + 1):
            tape = tapes[-order]
            tape.__exit__(None, None, None)
            grads = tape.gradient(y, inputs, seed, unused="zeros")
            for i, g in enumerate(grads):
                near(g, FOUND[f"{number} {order} {i}"], f"{name} {number}, {order} by input {i}")
            ways = [rng.normal(0, 1, a.shape).astype(np.float32) for a in call.inputs]
            y = pk.sum(pk.stack([pk.sum(g * u) for g, u in zip(grads, ways, strict=True)]))
            seed = None


def near(got: pk.Tensor, want: Array, told: str) -> None:
    """Roundings of terms that are at most some times as large as the largest result."""
    bound = 2.0**-16 * (1 + np.abs(want).max(initial=0)) + 0 * want
    assert_close(got.numpy(), want.reshape(got.shape), bound, told)


def test_all_values_are_used() -> None:
    """One of each result, and one of each derivative by each input."""
    every = [call for cases in CASES.values() for _, call in cases]
    assert len(FOUND) == sum(1 + c.order * len(c.inputs) for c in every)
