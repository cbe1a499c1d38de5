"""Workgroups beyond those of a call do nothing, in every body; one invocation of a launch says that
it ran.

A grid of many workgroups is folded into rows, and its last row has some too many. Only calls with
32,768 workgroups and more have such a grid, so here each grid gets three more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime import lower
from pykernels.runtime.faults import Snapshot
from pykernels.wgsl.texts import read_manifest
from tests.proofs.instrumented import FACTS, OTHERS, call, requests

ROOT = Path(__file__).resolve().parents[2]
ALONE = {"nonzero_offsets"}  # always one workgroup
# Rows of a body have the same guard: one of each kind stands for all.
KERNELS = [n for n, f in FACTS.items() if not f["row"] and n not in ALONE] + ["add", "exp", "where"]
# Those with launches that look for wrong indices; a page of their findings may be read once all of
# its launches have begun.
MANIFEST = read_manifest()
FAULTS = {n.split()[0] for n, v in MANIFEST["variants"].items() if "faults" in v["bindings"]}
CHECKING = [n for n in KERNELS if FAULTS & set(MANIFEST["kernels"][n]["bodies"])]
CASES = [
    *(pytest.param(n, 0, id=n) for n in KERNELS),
    *(pytest.param(n, case, id=f"{n}-{case}") for n, cases in OTHERS.items() for case in cases),
]
GUARD = re.compile(r"\bif \([^{}]* (?:>=|==|>) [^{}]*\) \{ return; \}")
CONDITIONS = {
    "arange", "bernoulli", "bincount", "bincount_clear", "cpy", "csr_matmul", "fill_where",
    "gather", "nonzero_scan", "rand", "randint", "randn", "rope", "rope_append", "scan_rows",
    "scatter", "scatter_integers", "scatter_keys",
}  # fmt: skip
IN_LIBRARY = {"gemv_id": "matmul/lib/chosen.wgsl"}  # the first part of names of bodies
Fold = Callable[[str, int, int], tuple[int, int]]


def outputs(dev: pk.Device, kernel: str, case: int) -> list[bytes]:
    tensors = call(dev, requests(kernel)[case])
    return [tensors[name].numpy().tobytes() for name in sorted(tensors)]


def more(fold: Fold) -> Fold:
    """The fold with three workgroups more, which it counts."""

    def folded(op: str, groups: int, limit: int) -> tuple[int, int]:
        x, y = fold(op, groups, limit)
        return (x + 3, y) if y == 1 else (x, y)

    return folded


@pytest.mark.gpu
@pytest.mark.sample
@pytest.mark.parametrize(("kernel", "case"), CASES)
def test_workgroups_beyond_the_call_do_nothing(
    dev: pk.Device, kernel: str, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = dev._context
    try:
        want = outputs(dev, kernel, case)
    except pk.LimitError as e:
        pytest.skip(str(e))
    context.forget_calls()
    monkeypatch.setattr(lower, "fold", more(lower.fold))
    try:
        got = outputs(dev, kernel, case)
    finally:
        context.forget_calls()
    assert got == want


def test_every_body_has_a_guard() -> None:
    """Each entry point leaves where its number is beyond the call, or all that it does is inside of
    a condition. Drivers hide what a missing guard does: they drop stores out of range."""
    files = [p for p in (ROOT / "kernels").rglob("*.wgsl") if "lib" not in p.parts]
    bodies = {p.stem: text for p in files if "fn main(" in (text := p.read_text(encoding="utf-8"))}
    for name, library in IN_LIBRARY.items():
        for body in [b for b in bodies if b.startswith(name)]:
            bodies[body] += (ROOT / "kernels" / library).read_text(encoding="utf-8")
    assert {name for name, text in bodies.items() if not GUARD.search(text)} == CONDITIONS


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


Counts = list[tuple[int, int]]


@pytest.fixture
def counts(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> Counts:
    """For each synchronisation, the checked launches and how many of them the device began."""
    read, seen = Snapshot.news, []

    def news(self: Snapshot, data: Any) -> Any:
        found = read(self, data)
        seen.append((self.launches, found[2]))
        return found

    dev.sync()
    faults = dev._context.faults
    monkeypatch.setattr(faults, "current", None)
    monkeypatch.setattr(faults, "_spare", [])
    monkeypatch.setattr(Snapshot, "news", news)
    return seen


@pytest.mark.gpu
@pytest.mark.sample
@pytest.mark.parametrize("kernel", CHECKING)
def test_a_launch_that_checks_counts_itself_once(
    dev: pk.Device, kernel: str, counts: Counts
) -> None:
    found = requests(kernel)
    for number in (0, *OTHERS.get(kernel, ())):
        call(dev, found[number])
    dev.sync()
    [(launches, begun)] = counts
    assert launches == begun > 0


@pytest.mark.gpu
def test_workgroups_of_one_launch_count_it_once(dev: pk.Device, counts: Counts) -> None:
    pk.kernels.narrow(dev.zeros(700, "int64"), dev.empty((700,), "int32"))
    dev.sync()
    assert counts == [(1, 1)]
