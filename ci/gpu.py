"""Runs the tests on a GPU in pieces, and saves the result of each: see ci/gpu.sh.

A piece is a test file on a column: an engine, or dawn-matrix, which is Dawn with the GPU's matrix
units. A piece that passed runs again only if the file or the texts of its family change. Benchmarks
of matrix units are pieces as well.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pykernels as pk
from pykernels.wgsl.texts import read_manifest

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ("dawn-matrix", "wgpu", "dawn")
AT_ONCE = 72  # most test files that one process runs
# Tests that are left out, because they need no GPU, or need another machine.
APART = ("tests/first_hour", "tests/docs", "tests/browser", "tests/typing", "tests/codegen")
BENCH = "bench mul_mat"


@dataclass
class Outcome:
    """The result of one piece: the hash of its test file and of the texts that it tested, and the
    number of cases by outcome."""

    of: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    output: str = ""  # the output of failed tests, or of a bench


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default="1/1", help="I/N: every N-th piece from the I-th on")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin nothing after so many")
    parser.add_argument("--columns", default=",".join(COLUMNS))
    parser.add_argument("--only", default="", help="pieces with this text")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 8))
    given = parser.parse_args()
    started = time.monotonic()
    index, _, count = given.part.partition("/")
    columns = given.columns.split(",")
    report = Report(ROOT / "bench" / "results" / adapter())
    todo = [p for p in report.order(list(pieces(columns))) if given.only in f"{p[0]} {p[1]}"]
    todo = todo[int(index) - 1 :: int(count)]
    print(f"{len(todo)} pieces to run, {report.green(columns)} green already", flush=True)
    while todo and time.monotonic() - started < 60 * given.minutes:
        column = todo[0][0]
        group = [p for p in todo if p[0] == column][:AT_ONCE]
        if group[0][1].startswith("bench"):
            group = group[:1]
        else:
            group = [p for p in group if not p[1].startswith("bench")]
        todo = [p for p in todo if p not in group]
        left = 60 * given.minutes - (time.monotonic() - started)
        report.keep(column, run(column, [name for _, name in group], given.workers, left + 60))
    failed = report.failures(columns)
    print(f"{len(todo)} pieces left, {len(failed)} failed", *failed, sep="\n  ")
    return 1 if failed else 2 if todo else 0


def adapter() -> str:
    """The name that ci/bench.sh gives to the folder of this machine's GPU."""
    name = pk.list_adapters("wgpu")[0]["name"]
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()


def pieces(columns: list[str]) -> Iterator[tuple[str, str]]:
    files = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("test_*.py"))
    for column in columns:
        for file in files:
            if not file.startswith(APART) and "gpu" in (ROOT / file).read_text(encoding="utf-8"):
                yield column, file
        if column == "dawn-matrix":
            yield column, BENCH


class Report:
    """The outcomes of the pieces on one adapter."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gpu.json"
        known: dict[str, Any] = json.loads(self.path.read_text()) if self.path.is_file() else {}
        self.pieces = {k: Outcome(**v) for k, v in known.get("pieces", {}).items()}
        self.texts = hashes()
        self.before: dict[str, str] = known.get("texts", {})

    def of(self, name: str) -> str:
        """A hash of a piece's test file and of the texts of its family (without a family, of all
        texts)."""
        family = name.split("/")[2] if name.startswith("tests/kernels/") else ""
        texts = [f"{k}{v}" for k, v in self.texts.items()]
        own = [t for t in texts if t.startswith(f"{family}/")]
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else name.encode()
        return hashlib.sha256(content + "".join(own or texts).encode()).hexdigest()[:16]

    def order(self, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The pieces that did not pass: first the pieces with matrix units, then the pieces of
        changed families."""
        changed = {k.split("/")[0] for k, v in self.texts.items() if self.before.get(k) != v}

        def rank(piece: tuple[str, str]) -> tuple[int, int]:
            column, name = piece
            path = ROOT / name
            matrix = not path.is_file() or "emulat" in path.read_text(encoding="utf-8")
            family = name.split("/")[2] if name.startswith("tests/kernels/") else ""
            return int(not (matrix and column == "dawn-matrix")), int(family not in changed)

        return sorted((p for p in found if not self.is_green(*p)), key=rank)

    def is_green(self, column: str, name: str) -> bool:
        known = self.pieces.get(f"{column} {name}")
        return known is not None and known.failed == 0 and known.of == self.of(name)

    def green(self, columns: list[str]) -> int:
        return sum(self.is_green(*p) for p in pieces(columns))

    def failures(self, columns: list[str]) -> list[str]:
        return [k for k, v in self.pieces.items() if v.failed and k.split()[0] in columns]

    def keep(self, column: str, found: dict[str, Outcome]) -> None:
        for name, outcome in found.items():
            outcome.of = self.of(name)
            self.pieces[f"{column} {name}"] = outcome
            word = "FAILED" if outcome.failed else "passed"
            print(
                f"{word} {column} {name}: {outcome.passed} in {outcome.seconds:.0f} s", flush=True
            )
        data = {
            "adapter": self.path.parent.name,
            "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
            "versions": versions(),
            "texts": self.texts,
            "pieces": {k: asdict(v) for k, v in sorted(self.pieces.items())},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(data, indent=1) + "\n")


def hashes() -> dict[str, str]:
    """The hash of the texts of each body, by "family/body"."""
    families = {p.stem: p.parent.name for p in (ROOT / "kernels").glob("*/*.wgsl")}
    found: dict[str, Any] = {}
    for v in read_manifest()["variants"].values():
        body = f"{families[v['body']]}/{v['body']}"
        found.setdefault(body, hashlib.sha256()).update(v["sha256"].encode())
    return {k: v.hexdigest()[:16] for k, v in sorted(found.items())}


def versions() -> dict[str, str]:
    found = {
        f"{a['engine']} {a['name']}": f"{a['engine_version']}, {a['driver']}"
        for a in pk.list_adapters()[:3]
    }
    return {"python": platform.python_version(), **found}


def run(column: str, names: list[str], workers: int, seconds: float) -> dict[str, Outcome]:
    env = os.environ | {"PYKERNELS_TEST_COLUMN": column, "PYKERNELS_TEST_FULL": "1"}
    if names[0] == BENCH:
        return {BENCH: bench(seconds)}
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "junit.xml"
        more = ["-n", str(workers)] if workers > 1 and importlib.util.find_spec("xdist") else []
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", f"--junitxml={xml}", *more]
        begun = time.monotonic()
        try:
            subprocess.run(
                [*command, *names], cwd=ROOT, env=env, timeout=seconds, capture_output=True
            )
        except subprocess.TimeoutExpired:
            return {}
        if not xml.is_file():
            return {names[0]: Outcome("", failed=1, output="pytest ended without a report")}
        found = {name: Outcome("") for name in names}
        for case in ET.parse(xml).iter("testcase"):
            name = case.get("classname", "").replace(".", "/")
            outcome = next((o for n, o in found.items() if name.startswith(n[:-3])), None)
            if outcome is None:
                continue
            outcome.seconds = round(outcome.seconds + float(case.get("time", 0)), 2)
            wrong = [e for e in case if e.tag in ("failure", "error")]
            if wrong:
                outcome.failed += 1
                told = wrong[0].get("message") or ""
                told = told if len(told) <= 1000 else f"{told[:400]}\n...\n{told[-600:]}"
                outcome.output += f"{case.get('name')}: {told}\n"
            elif any(e.tag == "skipped" for e in case):
                outcome.skipped += 1
            else:
                outcome.passed += 1
        print(f"{column}: {len(names)} files in {time.monotonic() - begun:.0f} s", flush=True)
        return found


def bench(seconds: float) -> Outcome:
    """Measure products on matrix units; each is checked before it is timed."""
    command = [sys.executable, "-P", "-c", "from pykernels.cli import main; main()", "bench"]
    command += ["mul_mat", "--engine", "dawn-matrix", "--only", "f16-", "--peers", "torch"]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, timeout=seconds, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome("", failed=1, output=f"longer than {seconds:.0f} s")
    failed = int(done.returncode != 0)
    text = done.stdout + (done.stderr if failed else "")
    took = round(time.monotonic() - begun, 1)
    return Outcome("", int(not failed), failed, 0, took, text[-4000:])


if __name__ == "__main__":
    raise SystemExit(main())
