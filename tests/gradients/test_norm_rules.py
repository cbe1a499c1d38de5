"""The rules of norms: against central differences of their references, and torch's values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import norm
from tests.gradients.numeric import Example
from tests.gradients.torch.norms import calls
from tests.harness import Array, assert_close

pytestmark = pytest.mark.gpu

Rng = np.random.Generator
EXAMPLES: dict[str, Callable[[Rng], Example]] = {}


def normal(rng: Rng, *shape: int, dtype: str = "float32") -> Array:
    return rng.normal(0, 1, shape).astype(dtype)


def example(make: Callable[[Rng], Example]) -> Callable[[Rng], Example]:
    """Its name is the case's."""
    EXAMPLES[make.__name__] = make
    return make


@example
def layer_norm(rng: Rng) -> Example:
    return Example(
        lambda x, w, b: pk.layer_norm(x, (2, 3), w, b),
        lambda x, w, b: norm.layer_norm(x.reshape(2, 6), w.ravel(), b.ravel()).reshape(2, 2, 3),
        [normal(rng, 2, 2, 3), normal(rng, 2, 3), normal(rng, 2, 3)], units=16,
    )  # fmt: skip


@example
def rms_norm(rng: Rng) -> Example:
    return Example(
        lambda x, w: pk.rms_norm(x, 5, w, eps=1e-6), norm.rms_norm,
        [normal(rng, 3, 5), normal(rng, 5)], units=16,
    )  # fmt: skip


@example
def l2_norm_of_axis_0(rng: Rng) -> Example:
    return Example(
        lambda x: pk.l2_norm(x, axis=0), lambda a: norm.l2_norm(a.T).T, [normal(rng, 4, 3)],
        units=16,
    )  # fmt: skip


@example
def add_layer_norm(rng: Rng) -> Example:
    def device(x: Any, r: Any, w: Any) -> Any:
        y, s = pk.add_layer_norm(x, r, 4, w)
        return y + s * 0.5

    def wanted(x: Array, r: Array, w: Array) -> Array:
        return norm.layer_norm(x + r, w) + (x + r) * 0.5

    inputs = [normal(rng, 3, 4), normal(rng, 3, 4), normal(rng, 4)]
    return Example(device, wanted, inputs, units=24)


@example
def add_rms_norm_of_which_the_sum_alone_is_used(rng: Rng) -> Example:
    return Example(
        lambda x, r: pk.add_rms_norm(x, r, 4)[1] * 2, lambda x, r: (x + r) * 2,
        [normal(rng, 3, 4), normal(rng, 3, 4)],
    )  # fmt: skip


@example
def group_norm(rng: Rng) -> Example:
    return Example(
        lambda x, w, b: pk.group_norm(x, 2, w, b),
        lambda x, w, b: norm.group_norm(x, w, b, groups=2),
        [normal(rng, 2, 4, 2), normal(rng, 4), normal(rng, 4)], units=24,
    )  # fmt: skip


@example
def instance_norm(rng: Rng) -> Example:
    return Example(
        lambda x, w: pk.instance_norm(x, weight=w), lambda x, w: norm.group_norm(x, w, groups=2),
        [normal(rng, 2, 2, 4), normal(rng, 2)], units=24,
    )  # fmt: skip


@example
def batch_norm_of_a_batch(rng: Rng) -> Example:
    return Example(
        lambda x, w, b: pk.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: norm.batch_norm_training(x, w, b)[0],
        [normal(rng, 3, 2, 3), normal(rng, 2), normal(rng, 2)], units=24,
    )  # fmt: skip


@example
def batch_norm_of_vectors(rng: Rng) -> Example:
    return Example(
        lambda x, w: pk.batch_norm(x, None, None, w, training=True),
        lambda x, w: norm.batch_norm_training(x, w)[0], [normal(rng, 5, 4), normal(rng, 4)],
        units=24,
    )  # fmt: skip


@example
def batch_norm_with_known_statistics(rng: Rng) -> Example:
    return Example(
        lambda x, m, v, w, b: pk.batch_norm(x, m, v, w, b),
        lambda x, m, v, w, b: norm.batch_norm(x, m, v, w, b),
        [normal(rng, 2, 3, 2), normal(rng, 3), np.abs(normal(rng, 3)) + 0.5, normal(rng, 3),
         normal(rng, 3)], units=16,
    )  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_rule_is_the_gradient_of_its_reference(dev: pk.Device, name: str) -> None:
    for seed in range(2):
        EXAMPLES[name](np.random.default_rng(seed)).check(dev, seed)


# -- torch ----------------------------------------------------------------------------------------

FOUND = dict(np.load(Path(__file__).with_name("torch") / "norms.npz"))
CASES: dict[str, list[tuple[int, Any]]] = defaultdict(list)
for number, case in enumerate(calls(pk, None)):
    CASES[case[0]].append((number, case))


@pytest.mark.parametrize("name", CASES)
def test_norms_and_their_gradients_are_torchs(dev: pk.Device, name: str) -> None:
    assert len(CASES[name]) >= 3
    for i, (_, ours, _, arrays) in CASES[name]:
        inputs = [dev.tensor(a) for a in arrays]
        with pk.Tape() as tape:
            y = ours(*inputs)
        dy = np.random.default_rng(i).normal(0, 1, y.shape).astype(np.float32)
        wanted = [FOUND[f"{i} {name}"], *[FOUND[f"{i} {name} {j}"] for j in range(len(inputs))]]
        for got, want in zip([y, *tape.gradient(y, inputs, dy)], wanted, strict=True):
            # Roundings of sums whose terms are about as large as the largest of what they give.
            exact = want.astype(np.float64)
            bound = 2.0**-19 * (np.abs(exact) + np.abs(exact).max() + np.abs(dy).max())
            assert_close(got.numpy(), exact, bound, f"{name} {i}")
