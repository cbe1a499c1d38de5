"""Sweeps over the boundaries of a scenario, in a process that may end or hang at any of them.

python -m tests.runtime.interrupt_sweep [SCENARIO ...]     what fails, on PYKERNELS_TEST_COLUMN
"""

from __future__ import annotations

import functools
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.runtime import interrupt_blocks as interrupt_blocks
from tests.runtime._helpers import ROOT
from tests.runtime.interrupt_scenarios import SCENARIOS, Skip
from tests.runtime.interrupts import Bench, Frames, Injector, attempt

__all__ = ["Sweep", "server", "sweep"]

TIMEOUT = 20.0  # s for one boundary


def pick(places: Sequence[str], limit: int | None, seed: str) -> list[int]:
    """All places, or `limit` of them by the seed: no two alike, three quarters in the runtime."""
    order = list(range(len(places)))
    if limit is None:
        return order
    random.Random(zlib.crc32(seed.encode())).shuffle(order)
    first: dict[str, int] = {}
    for k in order:
        first.setdefault(places[k], k)
    found = sorted(first.values(), key=lambda k: not places[k].startswith("runtime/"))
    runtime = sum(places[k].startswith("runtime/") for k in found)
    plenty = min(runtime, max(3 * limit // 4, limit - len(found) + runtime))
    return sorted(found[:plenty] + found[runtime : runtime + limit - plenty])


def serve() -> None:
    """Each line of stdin asks for a sweep; lines for each boundary, one at its end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    channel = os.dup(1)
    os.dup2(2, 1)

    def say(what: object) -> None:
        os.write(channel, json.dumps(what).encode() + b"\n")

    bench: Bench | None = None
    for line in sys.stdin:
        name, frames, limit, start = json.loads(line)
        bench = bench or Bench()
        injector = Injector(frames)
        scenario = None  # the tape of the last one goes before the next one looks for tapes
        try:
            scenario = SCENARIOS[name](bench.dev)
        except Skip as e:
            say({"end": str(e)})
            continue
        for _ in range(3):  # the third one begins in the state that any later one begins in
            bench.begin(scenario, 0)
            places = injector.count(scenario.run)
            bench.check(scenario, 0, whole=True)
        column = os.environ.get("PYKERNELS_TEST_COLUMN", "")
        chosen = pick(places, limit, f"{column} {name} {frames}")
        say({"places": len(places), "chosen": len(chosen)})
        for k in chosen:
            if k < start:
                continue
            say({"begin": k, "place": places[k]})
            answer = attempt(bench, scenario, injector, k)
            say(answer)
            if answer["wrong"]:
                os._exit(0)  # what it left behind must not count against the next
        say({"end": ""})


@dataclass
class Sweep:
    """What a sweep over the boundaries of a scenario found."""

    places: int = 0
    chosen: int = 0
    outs: Counter[str] = field(default_factory=Counter)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    skip: str = ""

    def __str__(self) -> str:
        lines = [f"{len(self.wrong)} of {self.chosen} boundaries (all: {self.places})"]
        for w in self.wrong:
            what = " ".join(w["wrong"].split())
            lines.append(f"  {w['k']}: {w['place']} -> {w['out']}: {what[:300]}")
        return "\n".join(lines)


class Server:
    """The process that runs sweeps: another one after each boundary where something is wrong."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def _ask(self, request: object) -> Iterator[dict[str, Any]]:
        """The answers; the last is {"end": ..}, or has what is wrong, and then the process goes."""
        if self._process is None:
            self._errors = tempfile.TemporaryFile()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.runtime.interrupt_sweep", "--serve"],
                cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, bufsize=0,  # for select
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        while True:
            if not select.select([process.stdout], [], [], TIMEOUT)[0]:
                yield {"lost": f"no answer in {TIMEOUT} s"} | self._end()
                return
            line = process.stdout.readline()
            if not line:
                yield {"lost": "the process ended"} | self._end()
                return
            answer = json.loads(line)
            yield answer
            if answer.get("wrong"):
                self._end()
            if answer.get("wrong") or "end" in answer:
                return

    def _end(self) -> dict[str, Any]:
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        process.communicate()
        with self._errors as file:
            file.seek(0)
            return {"trace": file.read().decode(errors="replace")[-4000:]}

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def sweep(self, name: str, frames: Frames, limit: int | None) -> Sweep:
        found = Sweep()
        start, place = -1, ""
        while True:
            begun = start
            for answer in self._ask((name, frames, limit, start + 1)):
                if "places" in answer:
                    found.places, found.chosen = answer["places"], answer["chosen"]
                elif "begin" in answer:
                    start, place = answer["begin"], answer["place"]
                elif "lost" in answer:
                    assert start > begun, f"{answer['lost']} before a boundary: {answer['trace']}"
                    lost = {"k": start, "out": "", "wrong": answer["lost"]}
                    found.wrong.append(answer | lost | {"place": place})
                elif "k" in answer:
                    found.outs[answer["out"].partition(" ")[0]] += 1
                    if answer["wrong"]:
                        found.wrong.append(answer | {"place": place})
                else:
                    found.skip = answer["end"]
                    return found


@functools.cache
def server() -> Server:
    return Server()


def sweep(name: str, frames: Frames, limit: int | None) -> Sweep:
    """Interrupt a scenario at all boundaries, or at `limit` of them."""
    return server().sweep(name, frames, limit)


def main() -> None:
    for frames in ("own", "engine"):
        for name in sys.argv[2:] or SCENARIOS:
            found = sweep(name, frames, int(sys.argv[1]) or None)  # type: ignore[arg-type]
            print(f"{frames} {name}: {found.skip or found} {dict(found.outs)}", flush=True)
    server().close()


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
