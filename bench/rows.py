"""Shared code of benches of whole networks: rows whose columns are timed in turn, the printed
table, the saved file."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pykernels as pk
from pykernels.bench.report import engine_label, meta

ROOT = Path(__file__).resolve().parents[1]

Loop = Callable[[int], float]
SECONDS, BRIEF = 0.3, 0.02  # most seconds of a loop, and of a loop for small networks


@dataclass
class Row:
    """Milliseconds of a call for each column and round; the error and its bound."""

    name: str
    dispatches: int = 0
    error: float = 0.0
    allowed: float = 0.0
    times: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # notes on peers

    def ms(self, column: str) -> float:
        """The median of a column, 0 without measurements."""
        return statistics.median(self.times.get(column) or [0.0])

    def measure(self, loops: dict[str, Loop], rounds: int, small: bool, most: int = 1 << 16) -> Row:
        """Measure all columns in turn, with at most `most` calls in a loop."""
        seconds = BRIEF if small else SECONDS
        counts = {
            name: max(1, min(int(seconds * 2 / loop(2)), most)) for name, loop in loops.items()
        }
        for _ in range(rounds):
            for name, loop in loops.items():
                self.times.setdefault(name, []).append(1e3 * loop(counts[name]) / counts[name])
        return self


class Table(NamedTuple):
    """The rows that a command prints and saves."""

    command: str
    columns: tuple[str, ...]
    peer: str  # the column with which captured calls are compared
    width: int = 30  # width of names

    def head(self) -> str:
        columns = "".join(f"{c:>11}" for c in self.columns)
        return f"{'':{self.width}} dispatches{columns}   x {self.peer}"

    def line(self, row: Row) -> str:
        times = "".join(f"{row.ms(c):11.3f}" if row.ms(c) else f"{'':11}" for c in self.columns)
        ratio = row.ms(self.peer) / row.ms("captured")
        end = f"{ratio:{len(self.peer) + 5}.2f}" if ratio else ""
        return f"{row.name:{self.width}}{row.dispatches:11}{times}{end}"

    def save(self, file: Path, dev: pk.Device, rows: list[Row]) -> None:
        """Save the rows. Other rows of the file are kept."""
        known: dict[str, Any] = {}
        if file.exists():
            known = json.loads(file.read_text(encoding="utf-8"))["rows"]
        told = meta([dev], self.command)
        for row in rows:
            # Other commands also write rows, in environments with other versions of peers.
            known[row.name] = asdict(row) | {"date": told["date"], "versions": told["versions"]}
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"meta": told, "rows": known}, indent=1)
        file.write_text(text + "\n", encoding="utf-8")


def timed(call: Callable[[], object]) -> Loop:
    """A function of n: the host's seconds for n calls, until their results are on the host."""

    def loop(n: int) -> float:
        started = time.perf_counter()
        for _ in range(n):
            call()
        return time.perf_counter() - started

    return loop


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The options that all commands have."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--adapter", help="part of the name of the adapter")
    parser.add_argument("--engine", choices=["wgpu", "dawn", "dawn-matrix"], default="wgpu")
    parser.add_argument("--small", action="store_true", help="networks for a software driver")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--save", type=Path)
    return parser


def run(
    args: argparse.Namespace,
    table: Table,
    begin: Callable[[pk.Device, bool], tuple[str, Iterable[Row]]],
) -> None:
    """Print and save the rows. `begin` gets the device, and True for small networks; it returns
    notes about the peers, and the rows."""
    engine, _, matrix = args.engine.partition("-")
    with pk.Device(engine=engine, adapter=args.adapter, matrix_units=bool(matrix)) as dev:
        small = args.small or dev.info["type"] == "CPU"
        peers, measured = begin(dev, small)
        print(f"{dev.info['name']}, {engine_label(dev)}; {peers}; ms a call")
        if small and not args.small:
            print("no GPU: small networks")
        print(table.head())
        rows = []
        for row in measured:
            rows.append(row)
            print(*(table.line(row), *row.notes), sep="\n  ", flush=True)
        name = re.sub("[^a-z0-9]+", "-", dev.info["name"].lower()).strip("-")
        name += "" if args.engine == "wgpu" else f"-{args.engine}"
        file = args.save or ROOT / "bench" / "results" / "networks" / f"{name}.json"
        if args.save or not small:
            table.save(file, dev, rows)
