"""Workgroups beyond those of a call do nothing, in every body.

A grid of many workgroups is folded into rows, and its last row has some too many. Only calls with
32,768 workgroups and more have such a grid, so here each grid gets three more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime import lower
from tests.proofs.instrumented import FACTS, call, requests

ALONE = {"nonzero_offsets"}  # always one workgroup
# Rows of a body have the same guard: one of each kind stands for all.
KERNELS = [n for n, f in FACTS.items() if not f["row"] and n not in ALONE] + ["add", "exp", "where"]
Fold = Callable[[str, int, int], tuple[int, int]]


def outputs(dev: pk.Device, kernel: str) -> list[bytes]:
    found = []
    for request in requests(kernel)[:1]:
        tensors = call(dev, request)
        found += [tensors[name].numpy().tobytes() for name in sorted(tensors)]
    return found


def more(fold: Fold) -> Fold:
    """The fold with three workgroups more, which it counts."""

    def folded(op: str, groups: int, limit: int) -> tuple[int, int]:
        x, y = fold(op, groups, limit)
        return (x + 3, y) if y == 1 else (x, y)

    return folded


@pytest.mark.gpu
@pytest.mark.sample
@pytest.mark.parametrize("kernel", KERNELS)
def test_workgroups_beyond_the_call_do_nothing(
    dev: pk.Device, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = dev._context
    try:
        want = outputs(dev, kernel)
    except pk.LimitError as e:
        pytest.skip(str(e))
    context.forget_calls()
    monkeypatch.setattr(lower, "fold", more(lower.fold))
    try:
        got = outputs(dev, kernel)
    finally:
        context.forget_calls()
    assert got == want


@pytest.mark.gpu
def test_one_that_writes_is_found(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid of the test reaches the device: three groups too few leave elements unwritten."""
    x = dev.tensor(np.ones(5000, np.float32))

    def fewer(op: str, groups: int, limit: int) -> tuple[int, int]:
        return max(groups - 3, 1), 1

    dev._context.forget_calls()
    monkeypatch.setattr(lower, "fold", fewer)
    try:
        dst = dev.zeros(5000)
        pk.kernels.add(x, x, dst)
        assert not (dst.numpy() == 2).all()
    finally:
        dev._context.forget_calls()
