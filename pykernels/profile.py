"""GPU time per launch, from timestamp queries."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .engine import Engine

if TYPE_CHECKING:
    from .device import Device

__all__ = ["Profile", "Record"]

QUERIES = 512  # two per dispatch, a batch has at most 256


@dataclass
class Record:
    """One dispatch: its variant, the bytes it binds, host time (s) and GPU time (s)."""

    label: str
    nbytes: int
    host: float
    start: float = 0.0
    gpu: float = 0.0

    @property
    def kernel(self) -> str:
        return self.label.partition(" ")[0]


class Profile:
    """What ran inside `with dev.profile() as p:`; complete after the block.

    `records` are the dispatches in order, each in a compute pass of its own. Where the device has
    no timestamp queries, `gpu` stays 0 and `clock` says "wall": only the time of the whole block,
    `wall` (s, until the GPU was done), is known then.
    """

    def __init__(self, engine: Engine, raw: Any, timestamps: bool, device: Device) -> None:
        self.records: list[Record] = []
        self.clock = "timestamps" if timestamps else "wall"
        self.wall = 0.0
        self._raw = raw
        self._device = device
        self._begun = time.perf_counter()
        self._index = 0
        self._done: list[tuple[Any, int]] = []
        self._query: Any = None

    def begin(self, label: str, nbytes: int, host: float) -> dict[str, Any] | None:
        """The timestamp writes of the next dispatch."""
        self.records.append(Record(label, nbytes, host - self._begun))
        if self.clock == "wall":
            return None
        if self._query is None:
            self._query = self._raw.create_query_set(type="timestamp", count=QUERIES)
        i = self._index
        self._index += 2
        return {
            "query_set": self._query,
            "beginning_of_pass_write_index": i,
            "end_of_pass_write_index": i + 1,
        }

    def resolve(self, encoder: Any) -> None:
        """Copy this batch's timestamps into a buffer."""
        if self._index:
            buffer = self._raw.create_buffer(size=8 * QUERIES, usage=0x200 | 0x4)
            encoder.resolve_query_set(self._query, 0, self._index, buffer, 0)
            self._done.append((buffer, self._index))
            self._index = 0
            self._query = None

    def collect(self) -> None:
        """Read all timestamps."""
        import numpy as np

        from .memory import Block

        self._device.sync()
        self.wall = time.perf_counter() - self._begun
        records = iter(self.records)
        first: int | None = None
        for buffer, count in self._done:
            raw = self._device._read(Block(buffer, buffer.size, False), 0, 8 * count)
            times = np.frombuffer(raw, np.uint64)
            for i in range(0, count, 2):
                record = next(records)
                first = int(times[i]) if first is None else first
                record.start = (int(times[i]) - first) * 1e-9
                record.gpu = max(int(times[i + 1]) - int(times[i]), 0) * 1e-9
        self._done.clear()

    def table(self) -> str:
        """Calls, GPU time and throughput per kernel, the costliest first."""
        totals: dict[str, list[float]] = {}
        for r in self.records:
            t = totals.setdefault(r.kernel, [0, 0.0, 0])
            t[0] += 1
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
        events = []
        for r in self.records:
            common = {"name": r.kernel, "ph": "X", "pid": 1, "args": {"variant": r.label}}
            events.append(common | {"tid": "host", "ts": r.host * 1e6, "dur": 1})
            if self.clock == "timestamps":
                events.append(common | {"tid": "gpu", "ts": r.start * 1e6, "dur": r.gpu * 1e6})
        if self.clock == "wall":
            events.append(
                {"name": "wall time", "ph": "X", "pid": 1, "tid": "host", "ts": 0,
                 "dur": self.wall * 1e6, "args": {}}
            )  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
