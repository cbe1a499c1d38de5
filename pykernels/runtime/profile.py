"""GPU time per launch, from timestamp queries."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pykernels.contract import TIMESTAMPS
from pykernels.errors import ArgumentError

from .blocks import Block
from .bound import MAX_LAUNCHES
from .buffers import COPY_SRC
from .context import Context
from .protocols import Note, Timer
from .recorder import Recorder

__all__ = ["Profile", "Record", "profiled"]

# Two timestamps for each launch of a batch. A batch has fewer than 2 * MAX_LAUNCHES launches: its
# last call may go beyond MAX_LAUNCHES.
QUERIES = 4 * MAX_LAUNCHES
QUERY_RESOLVE = 0x200  # usage flag of a buffer
HOST, GPU = 1, 2  # numbers of the tracks of a trace


@dataclass
class Record:
    """One dispatch: its variant, the bytes it binds, host time (s) and GPU time (s).

    With `batches` it is one batch, from its first dispatch to its last, including the gaps.
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


class _Batch:
    """The records of one batch, and the buffer for their timestamps."""

    def __init__(self, context: Context, begun: float, timestamps: bool) -> None:
        self.records: list[Record] = []
        self.buffer: Any = None
        self._context, self._begun = context, begun
        self._query: Any = None
        if timestamps:
            raw = context.raw
            try:
                self._query = raw.create_query_set(type="timestamp", count=QUERIES)
                self.buffer = raw.create_buffer(size=8 * QUERIES, usage=QUERY_RESOLVE | COPY_SRC)
            except context.engine.error_class as e:
                raise context.engine.error(e, "profile") from None

    def begin(self, notes: Sequence[Note]) -> Any:
        """The descriptor of a pass with these dispatches: one record for all, or one for each."""
        label, _, host = notes[0]
        if len(notes) > 1:
            label = "batch"
        ffi = self._context.engine.ffi
        at = 2 * len(self.records)
        nbytes = sum(n for _, n, _ in notes)
        self.records.append(Record(label, nbytes, host - self._begun, dispatches=len(notes)))
        if self._query is None:
            return ffi.NULL
        self._writes = ffi.new("WGPUPassTimestampWrites *")
        self._writes.querySet = self._query._internal
        self._writes.beginningOfPassWriteIndex = at
        self._writes.endOfPassWriteIndex = at + 1
        descriptor = ffi.new("WGPUComputePassDescriptor *")
        descriptor.timestampWrites = self._writes
        return descriptor

    def resolve(self, raw_encoder: Any) -> None:
        """Copy the timestamps into the buffer."""
        if self._query is not None:
            self._context.engine.lib.wgpuCommandEncoderResolveQuerySet(
                raw_encoder, self._query._internal, 0, 2 * len(self.records),
                self.buffer._internal, 0,
            )  # fmt: skip


class Profile:
    """The dispatches inside `with dev.profile() as p:`; complete after the block.

    `records` are the dispatches in order, each in a compute pass of its own. If the device has no
    timestamp queries, `gpu` stays 0 and `clock` is "wall": only `wall` is known, the time of the
    whole block (s, until the GPU was done). Launches of other threads are counted too; launches
    inside `dev.record` are not.

    With `batches`, a record is a batch of launches in one compute pass, timed as a whole.
    """

    def __init__(self, context: Context, batches: bool) -> None:
        self.records: list[Record] = []
        self.clock = "timestamps" if TIMESTAMPS.name in context.features else "wall"
        self.batches = batches
        self.wall = 0.0
        self.done: list[_Batch] = []
        # the profile that becomes the timer again when this profile ends
        self.outer: Timer | None = None
        self._context = context
        self._period = context.engine.timestamp_period(context.raw) * 1e-9
        self._begun = time.perf_counter()

    def batch(self) -> _Batch:
        """The records of a batch that will be encoded."""
        return _Batch(self._context, self._begun, self.clock == "timestamps")

    def collect(self) -> None:
        """Read all timestamps."""
        try:
            self._context.sync()
        finally:
            self._read()

    def _read(self) -> None:
        self.wall = time.perf_counter() - self._begun
        first: int | None = None
        for batch in self.done:
            self.records += batch.records
            if batch.buffer is None:
                continue
            nbytes = 16 * len(batch.records)
            raw = self._context.transfers.read(Block(batch.buffer), 0, nbytes)
            times = np.frombuffer(raw, np.uint64).tolist()
            for i, record in enumerate(batch.records):
                begin, end = times[2 * i : 2 * i + 2]
                first = begin if first is None else first
                record.start = (begin - first) * self._period
                record.gpu = max(end - begin, 0) * self._period
        self.done = []

    def __str__(self) -> str:
        return self.table()

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
    """Time the launches inside the block."""
    if not isinstance(batches, (bool, np.bool_)):
        raise ArgumentError(f"[profile] batches must be True or False but is {batches!r:.60}")
    batches = bool(batches)
    context.refuse_in_capture("profile")
    context.check()
    recorder, profile, held = context.recorder, Profile(context, batches), False
    try:
        with context.lock:  # launches that other threads record meanwhile have no notes
            recorder.flush()
            profile.outer = recorder.timer
            recorder.timer = profile
            recorder.pace.held += batches
            held = batches
        yield profile
    finally:
        try:
            context.flush()
        finally:
            # No call in between, since an interrupt would leave the profile active.
            recorder.pace.held -= held
            if recorder.timer is profile:
                recorder.timer = profile.outer
            else:
                _remove(recorder, profile)
        profile.collect()


def _remove(recorder: Recorder, profile: Profile) -> None:
    """End a profile that is not the innermost. Profiles of several threads end in any order."""
    inner: Any = recorder.timer
    while inner is not None:
        if inner.outer is profile:
            inner.outer = profile.outer
            return
        inner = inner.outer
