"""Gradients of sums and means of expressions, against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from tests.gradients.numeric import Example

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(0)
X, Y, W = (RNG.normal(0, 1, n).astype(np.float32) for n in ((2, 3, 4), (3, 1), (4,)))
EXAMPLES = {
    "mean": Example(
        lambda x, y: pk.reduction("x * exp(y) / 3", "mean", axis=1, x=x, y=y),
        lambda x, y: (x * np.exp(y) / 3).mean(1), [X, Y],
    ),
    "sum_of_repeated": Example(  # the gradient of y names nothing that has the shape of x
        lambda x, y, w: pk.reduction("x + y - sigmoid(w)", "sum", x=x, y=y, w=w),
        lambda x, y, w: (x + y - 1 / (1 + np.exp(-w))).sum(), [X, Y, W],
    ),
    "kept_axes": Example(
        lambda x: pk.reduction("square(tanh(x))", "sum", axis=(0, 2), keepdims=True, x=x),
        lambda x: (np.tanh(x) ** 2).sum((0, 2), keepdims=True), [X],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_reductions_of_expressions_have_gradients(dev: pk.Device, name: str) -> None:
    EXAMPLES[name].check(dev)


LEVEL = np.array([[0.3, -1.2, 2.0, 0.7], [1.1, 0.4, -0.6, 1.9], [0.2, 2.2, -1.5, -0.9]], "f4")
VALUES = {
    "max": lambda v: v.max(1), "min": lambda v: v.min(1), "prod": lambda v: v.prod(1),
    "var": lambda v: v.var(1), "std": lambda v: v.std(1),
    "norm": lambda v: np.sqrt((v * v).sum(1)), "logsumexp": lambda v: np.log(np.exp(v).sum(1)),
}  # fmt: skip


@pytest.mark.parametrize("how", VALUES)
def test_each_reduction_has_a_gradient(how: str, dev: pk.Device) -> None:
    Example(
        lambda x, y: pk.reduction("x * exp(y) + 1", how, axis=1, x=x, y=y),
        lambda x, y: VALUES[how](x * np.exp(y) + 1), [LEVEL, Y * 0.3],
    ).check(dev)  # fmt: skip


def test_gradients_are_those_of_the_functions(dev: pk.Device) -> None:
    x = dev.tensor(np.array([[1, 3, 3], [0, 2, 5]], "f2"))
    for how in VALUES:
        with pk.Tape() as tape:
            one = pk.reduction("abs(x)", how, axis=-1, x=x)  # with ties, a zero and halves
            other = getattr(pk, how)(pk.abs(x), axis=-1)
        got, want = (tape.gradient(y, [x], seed=1.0)[0].numpy() for y in (one, other))
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-3, err_msg=how)


def test_reductions_to_places_have_none(dev: pk.Device) -> None:
    x = dev.rand((3, 4), seed=0)
    with pk.Tape() as tape:
        y = pk.reduction("abs(x)", "argmax", x=x)
        loss = pk.sum(y * x)
    np.testing.assert_array_equal(tape.gradient(loss, [x])[0].numpy(), np.full((3, 4), y.item()))
