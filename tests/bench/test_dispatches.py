"""Dispatches of each public function at the small shape of bench/functions.py, one if the file does
not say more, and of index and order operations at four sizes, which read nothing unless their
docstrings say so.

A change here is a change of cost: `python -m tests.bench.test_dispatches` on lavapipe prints the
file anew, with the tuning table that all drivers use here.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench import functions
from pykernels import functional
from pykernels.forcing import force

pytestmark = pytest.mark.gpu

FILE = Path(__file__).with_name("dispatches.toml")
TUNING = "generic-large"
SIZES = (100, 10_000, 100_000, 1_000_000)
Calls = dict[str, Callable[[], Any]]


def counted(dev: pk.Device, call: Callable[[], Any]) -> int:
    with dev.profile() as p:
        call()
    return len(p.records)


def captured(dev: pk.Device, call: Callable[[], Any]) -> int:
    """The same without running them."""
    with dev.capture() as program:
        call()
    return len(program)


def indices(dev: pk.Device, n: int) -> Calls:
    """Index and order operations on n elements."""
    rng = np.random.default_rng(0)
    x, few = dev.tensor(rng.random(n, np.float32)), n // 10
    into = dev.tensor(rng.integers(0, few, n, np.int32))
    places = dev.tensor(rng.permutation(n).astype(np.int32))
    sums, counts = dev.zeros((few,)), dev.zeros((few,), "int32")
    return {
        "argsort": lambda: pk.argsort(x),
        "bincount": lambda: pk.bincount(into, length=few),
        "gather": lambda: pk.gather(x, 0, places),
        "nonzero_of_size": lambda: pk.nonzero(x, size=n),
        "scatter": lambda: pk.scatter(x, 0, places, x),
        "scatter_add": lambda: pk.scatter_add(sums, 0, into, x),
        "scatter_add_integers": lambda: pk.scatter_add(counts, 0, into, places),
        "sort": lambda: pk.sort(x),
        "top_k": lambda: pk.top_k(x, 5),
        "unique_of_size": lambda: pk.unique(into, size=few),
    }


def but_one(counts: dict[str, int]) -> dict[str, int]:
    """The functions that do not take one dispatch, which the file need not name."""
    return {name: count for name, count in counts.items() if count != 1}


def listed(dev: pk.Device) -> Iterator[tuple[str, dict[str, int]]]:
    """The tables of the file."""
    with force(dev, tuning=TUNING):
        calls = functions.functions(dev)
        yield "functions", but_one({name: counted(dev, calls[name]) for name in sorted(calls)})
        for n in SIZES:
            yield f"of_{n}", {name: captured(dev, call) for name, call in indices(dev, n).items()}


def test_dispatches_are_those_of_the_file(dev: pk.Device) -> None:
    want = tomllib.loads(FILE.read_text(encoding="utf-8"))
    want["functions"] = but_one(want["functions"])
    for name, found in listed(dev):
        assert found == want[name], name


@pytest.mark.parametrize("n", SIZES[:2])
def test_nothing_is_read(dev: pk.Device, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Results whose size the caller gives, or that have the size of an argument (a capture refuses
    reads, so larger sizes are looked at above)."""
    calls = indices(dev, n)
    read: list[object] = []
    transfers = dev._context.transfers
    start = transfers._read

    def noted(*args: Any) -> Any:
        read.append(args)
        return start(*args)

    monkeypatch.setattr(transfers, "_read", noted)
    for call in calls.values():
        call()
    assert read == []


def test_what_reads_says_so(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all public functions, with tensors as arguments."""
    calls = functions.functions(dev)
    x = dev.tensor(np.array([3, 1, 2, 3], np.int32))
    calls["bincount"] = lambda: pk.bincount(x)  # without a length
    calls["histogram"] = lambda: pk.histogram(x.astype("float32"), 4)  # without a range
    transfers = dev._context.transfers
    start = transfers._read
    asked, found = "", set[str]()

    def noted(*args: Any) -> Any:
        found.add(asked)
        return start(*args)

    monkeypatch.setattr(transfers, "_read", noted)
    for asked, call in calls.items():  # noqa: B007
        call()
    assert found == {
        "allclose", "bincount", "histogram", "masked_select", "nms", "nonzero", "unique",
    }  # fmt: skip
    for name in found:
        told = inspect.getdoc(getattr(functional, name)) or ""
        assert "reads" in told, name


def main() -> None:
    with pk.Device() as dev:
        for name, found in listed(dev):
            print(f"[{name}]")
            print(*[f"{key} = {count}" for key, count in found.items()], sep="\n")


if __name__ == "__main__":
    main()
