"""Gradients are those of torch, stored as data (torch/make_operations.py)."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated.ops.elementwise import OPS
from tests.gradients.torch.operations import Call, calls
from tests.harness import assert_close

pytestmark = pytest.mark.gpu

FOUND = dict(np.load(Path(__file__).with_name("torch") / "operations.npz"))
CASES: dict[str, list[tuple[int, Call]]] = defaultdict(list)
for number, case in enumerate(calls(pk, None)):
    CASES[case.name].append((number, case))


ROWS = [name for name in CASES if name in OPS]


def check(dev: pk.Device, name: str) -> None:
    for i, call in CASES[name]:
        inputs = [dev.tensor(a) for a in call.inputs]
        with pk.Tape() as tape:
            y = call.ours(*inputs, *[dev.tensor(a) for a in call.others])
        dy = np.random.default_rng(i).normal(0, 1, y.shape).astype(np.float32)
        for j, got in enumerate(tape.gradient(y, inputs, dy)):
            want = FOUND[f"{i} {name} {j}"].astype(np.float64)
            # Roundings of a sum whose terms are about as large as the largest gradient.
            bound = 2.0**-19 * (np.abs(want) + np.abs(want).max(initial=0) + np.abs(dy).max())
            assert_close(got.numpy(), want, bound, f"{name}, input {j}")


@pytest.mark.sample
@pytest.mark.parametrize("name", ROWS)
def test_gradients_of_rows_are_torchs(dev: pk.Device, name: str) -> None:
    check(dev, name)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ROWS])
def test_gradients_are_torchs(dev: pk.Device, name: str) -> None:
    check(dev, name)


def test_there_are_three_of_each() -> None:
    assert min(Counter(c.name for cases in CASES.values() for _, c in cases).values()) >= 3
    assert len(FOUND) == sum(len(c.inputs) for cases in CASES.values() for _, c in cases)
