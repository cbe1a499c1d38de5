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


def test_other_reductions_of_expressions_have_none(dev: pk.Device) -> None:
    x = dev.rand((3, 4))
    with pk.Tape() as tape:
        y = pk.reduction("abs(x)", "max", x=x)
    with pytest.raises(pk.TapeError, match=r"\[tape\] reduction has no gradient rule for max"):
        tape.gradient(y, [x])
