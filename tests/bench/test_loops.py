"""The second time of a call: a loop of calls and one sync, by the host's clock. No GPU."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pykernels.bench import clock, peers
from pykernels.bench.case import Counts
from pykernels.bench.check import Verdict
from pykernels.bench.clock import LOOPS, Effort, HostSample, Timing, loops
from pykernels.bench.report import Report, Result
from pykernels.bench.table import markdown, table

EFFORT = Effort(rounds=30, reading=1e-4)  # loops of 10 ms


def timing(seconds: float, *found: float, clock: str = "timestamps") -> Timing:
    return Timing((seconds,) * 6, 1, clock, 0.3, loops=found)


def result(name: str, ours: Timing, **peers: Timing | str) -> Result:
    counts = Counts(1 << 20, 1 << 20, 1, 1 << 20, "softmax")
    return Result(
        "softmax", name, "wgpu", "cold", "f32", (4, 4), "", "", counts, Verdict(0.0, 0.0, 0, 9),
        1 << 20, False, ours, peers=dict(peers),
    )  # fmt: skip


def report(*results: Result) -> Report:
    meta = {
        "date": "today", "adapter": "A GPU", "backend": "Vulkan", "driver": "1", "engines": {},
        "checks": True, "versions": {}, "command": "pykernels bench",
    }  # fmt: skip
    return Report(meta, {}, list(results))


@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 3e-2])
def test_loops_are_long_enough_for_their_sync_not_to_count(seconds: float) -> None:
    sync, asked = 5e-5, []

    def loop(n: int) -> float:
        asked.append(n)
        return n * seconds + sync

    found = loops(loop, EFFORT)
    assert len(found) == LOOPS and len(set(asked[-LOOPS:])) == 1
    assert seconds <= found[0] <= seconds * 1.02
    assert asked[-1] * seconds < max(3 * EFFORT.loop * EFFORT.reading, 2 * seconds)


def test_a_loop_of_nothing_ends() -> None:
    asked = []

    def loop(n: int) -> float:
        asked.append(n)
        return 0.0

    assert loops(loop, EFFORT) == (0.0,) * LOOPS
    assert max(asked) == clock.LONGEST_CHAIN
    assert len(loops(loop, Effort(rounds=2, reading=0.0))) == 2


def test_a_loop_has_one_sync_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    now = SimpleNamespace(perf_counter=lambda: events.append("clock") or 0.0)
    monkeypatch.setattr(clock, "time", now)
    monkeypatch.setattr(peers, "time", now)

    def call() -> None:
        events.append("call")

    def sync() -> None:
        events.append("sync")

    dev: Any = SimpleNamespace(sync=sync)
    torch = SimpleNamespace(cuda=SimpleNamespace(synchronize=sync))
    for sample in (HostSample(dev, call), peers.cuda_loop(torch, call)):
        events.clear()
        sample(3)
        assert events == ["sync", "clock", "call", "call", "call", "sync", "clock"]


def test_the_median_of_the_loops_counts() -> None:
    assert timing(1e-6, 3e-6, 9e-6, 2e-6).per_call == 3e-6
    assert timing(1e-6).per_call == 0.0  # nobody measured it
    assert timing(1e-6, clock="wall").per_call == 1e-6  # its time is by that clock
    joined = timing(1e-6, 3e-6).joined(timing(1e-6, 5e-6))
    assert joined.loops == (3e-6, 5e-6)


def test_loops_survive_their_file_and_older_files_have_none() -> None:
    before = result("a", timing(1e-6, 3e-6), torch=timing(2e-6, 9e-6), ort="not here")
    record = json.loads(json.dumps(before.record()))
    assert record["timing"]["per_call"] == 3e-6
    assert Result.of(record) == before
    for found in (record["timing"], record["peers"]["torch"]):
        del found["loops"], found["per_call"]
    assert Result.of(record).timing.per_call == 0.0


def test_tables_have_both_times() -> None:
    ours = timing(1e-6, 4e-6)
    both = report(
        result("a", ours, torch=timing(2e-6, 10e-6), ort=timing(8e-6, clock="wall")),
        result("b", ours, torch="not here"),
    )
    head, _, *rows = (line for line in markdown(both) if line.startswith("|"))
    names = [cell.strip() for cell in head.split("|")[1:-1]]
    a, b = ([cell.strip() for cell in row.split("|")[1:-1]] for row in rows)
    found = dict(zip(names, a, strict=True))
    assert (found["gpu us"], found["call us"]) == ("1", "4")
    assert (found["x torch"], found["call x torch"]) == ("2.00*", "2.50*")
    assert found["x ort"] == "2.00*"  # a single pass; by the host's clock, as ort has no other
    assert "call x ort" not in found
    assert dict(zip(names, b, strict=True))["call x torch"] == ""
    assert any("call us" in line and "call x torch" in line for line in table(both))
    plain = "\n".join(markdown(report(result("a", timing(1e-6), torch=timing(2e-6)))))
    assert "x torch" in plain and "call x" not in plain
