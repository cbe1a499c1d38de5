"""GPU time per launch, from timestamp queries."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .context import Context
from .memory import Block
from .recorder import MAX_LAUNCHES

__all__ = ["Profile", "Record", "profiled"]

QUERIES = 2 * MAX_LAUNCHES
HOST, GPU = 1, 2  # the tracks of a trace


@dataclass
class Record:
    """One dispatch: its variant, the bytes it binds, host time (s) and GPU time (s).

    Or one batch, from the first of its dispatches to the last, with what lies between them.
    """

    label: str
    nbytes: int
    host: float
    start: float = 0.0
    gpu: float = 0.0
    dispatches: int = 1

    @property
    def kernel(self) -> str:
        return self.label.partition(" ")[0]


class Profile:
    """What ran inside `with dev.profile() as p:`; complete after the block.

    `records` are the dispatches in order, each in a compute pass of its own. Where the device has
    no timestamp queries, `gpu` stays 0 and `clock` says "wall": only the time of the whole block,
    `wall` (s, until the GPU was done), is known then. Launches of other threads are counted too,
    those inside `dev.record` are not.

    With `batches`, a record is a batch of launches in one compute pass, timed as a whole.
    """

    def __init__(self, context: Context, batches: bool) -> None:
        self.records: list[Record] = []
        self.clock = "timestamps" if "timestamp-query" in context.features else "wall"
        self.batches = batches
        self.wall = 0.0
        self._context = context
        self._period = context.engine.timestamp_period(context.raw) * 1e-9
        self._begun = time.perf_counter()
        self._batch: list[Record] = []  # recorded, not yet submitted
        self._done: list[tuple[Any, list[Record]]] = []
        self._query: Any = None

    def begin(self, label: str, nbytes: int, host: float) -> dict[str, Any] | None:
        """The timestamp writes of the next dispatch."""
        i = 2 * len(self._batch)
        record = Record(label, nbytes, host - self._begun)
        if self.clock == "timestamps" and self._query is None:
            self._query = self._context.raw.create_query_set(type="timestamp", count=QUERIES)
        self._batch.append(record)
        if self.clock == "wall":
            return None
        return {
            "query_set": self._query,
            "beginning_of_pass_write_index": i,
            "end_of_pass_write_index": i + 1,
        }

    def resolve(self, encoder: Any, dispatches: int, nbytes: int) -> None:
        """Copy this batch's timestamps into a buffer."""
        if self.batches and self._batch:
            self._batch[0].dispatches, self._batch[0].nbytes = dispatches, nbytes
        if self._query is not None:
            buffer = self._context.raw.create_buffer(size=8 * QUERIES, usage=0x200 | 0x4)
            encoder.resolve_query_set(self._query, 0, 2 * len(self._batch), buffer, 0)
            self._done.append((buffer, self._batch))

    def submitted(self) -> None:
        """This batch ran."""
        self.records += self._batch
        self._batch = []
        self._query = None

    def discard(self) -> None:
        """Forget what was begun and not submitted."""
        if self._done and self._done[-1][1] is self._batch:
            self._done.pop()
        self._batch = []
        self._query = None

    def collect(self) -> None:
        """Read all timestamps."""
        try:
            self._context.sync()
        finally:
            self._read()

    def _read(self) -> None:
        self.wall = time.perf_counter() - self._begun
        first: int | None = None
        for buffer, records in self._done:
            raw = self._context.transfers.read(Block(buffer), 0, 16 * len(records))
            times = np.frombuffer(raw, np.uint64).tolist()
            for i, record in enumerate(records):
                begin, end = times[2 * i : 2 * i + 2]
                first = begin if first is None else first
                record.start = (begin - first) * self._period
                record.gpu = max(end - begin, 0) * self._period
        self._done.clear()

    def table(self) -> str:
        """Calls, GPU time and throughput per kernel, the costliest first."""
        totals: dict[str, list[float]] = {}
        for r in self.records:
            t = totals.setdefault(r.kernel, [0, 0.0, 0])
            t[0] += r.dispatches
            t[1] += r.gpu
            t[2] += r.nbytes
        lines = [f"{'kernel':<24}{'calls':>7}{'GPU ms':>12}{'us/call':>12}{'GB/s':>9}"]
        for name, (calls, gpu, nbytes) in sorted(totals.items(), key=lambda kv: -kv[1][1]):
            rate = f"{nbytes / gpu / 1e9:.1f}" if gpu else "-"
            lines.append(
                f"{name:<24}{calls:>7.0f}{gpu * 1e3:>12.3f}{gpu / calls * 1e6:>12.2f}{rate:>9}"
            )
        note = "" if self.clock == "timestamps" else " (no timestamp queries: wall time only)"
        lines.append(f"wall {self.wall * 1e3:.3f} ms{note}")
        return "\n".join(lines)

    def save_chrome_trace(self, path: str | Path) -> None:
        """Write the dispatches as a Chrome trace (chrome://tracing, Perfetto)."""
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}}
            for tid, name in ((HOST, "host"), (GPU, "GPU"))
        ]
        for r in self.records:
            args = {"variant": r.label, "bytes": r.nbytes}
            event = {"name": r.kernel, "ph": "X", "pid": 1, "args": args}
            events.append(event | {"tid": HOST, "ts": r.host * 1e6, "dur": 1})
            if self.clock == "timestamps":
                events.append(event | {"tid": GPU, "ts": r.start * 1e6, "dur": r.gpu * 1e6})
        if self.clock == "wall":
            whole = {"name": "wall time", "ph": "X", "pid": 1, "tid": GPU, "args": {}}
            events.append(whole | {"ts": 0, "dur": self.wall * 1e6})
        Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")


@contextmanager
def profiled(context: Context, batches: bool) -> Iterator[Profile]:
    """Time what is launched inside."""
    context.flush()
    with context.lock:
        outer = context.recorder.timer
        profile = Profile(context, batches)
        context.recorder.timer = profile
    try:
        yield profile
    finally:
        with context.lock:
            try:
                context.flush()
            finally:
                context.recorder.timer = outer
            profile.collect()
