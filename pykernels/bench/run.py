"""Runs cases on a device and keeps what came out: one `Result` per case, cache state and engine."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from pykernels._version import __version__
from pykernels.device import Device
from pykernels.errors import PyKernelsError

from .case import Case, CheckFailed, Counts, Loaded, load
from .ceilings import Ceilings, ceilings
from .check import Verdict
from .clock import Effort, GpuSample, Sample, Timing, Tracker, measure, take

__all__ = ["Cache", "EnginePeer", "Peer", "Report", "Result", "Runner", "Skipped"]

Cache = Literal["cold", "hot"]
FORMAT = 1
PEERS = 0.62  # of a limited time is over when no more peers begin
ROTATE = 256 << 20  # bytes that calls go round: more than any cache that a GPU has


class Skipped(Exception):
    """Why a peer does not run."""


class Peer(Protocol):
    """Something else that computes the same: made ready for a loaded case, timed like it.

    Raises Skipped, with the reason, where it cannot.
    """

    def __call__(self, loaded: Loaded) -> tuple[Sample, str]: ...


@dataclass
class Result:
    """What is known of one case on one device."""

    kernel: str
    id: str
    engine: str
    cache: Cache
    dtype: str
    shape: tuple[int, ...]
    name: str
    origin: str
    counts: Counts
    check: Verdict
    rotated: int
    writes_only: bool
    timing: Timing
    limit: float = 0.0  # seconds by the ceilings
    peers: dict[str, Timing | str] = field(default_factory=dict)  # or why it was skipped

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.engine, self.kernel, self.id, self.cache

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.counts.nbytes / self.timing.seconds

    @property
    def speed(self) -> float:
        """Operations per second."""
        return self.counts.operations / self.timing.seconds

    @property
    def share(self) -> float:
        """Of what the ceilings allow."""
        return self.limit / self.timing.seconds

    def ratio(self, peer: str) -> float | None:
        """How often this is faster than a peer."""
        found = self.peers.get(peer)
        return found.seconds / self.timing.seconds if isinstance(found, Timing) else None

    def record(self) -> dict[str, Any]:
        plain = {k: v for k, v in vars(self).items() if k not in ("counts", "timing", "peers")}
        peers = {
            k: {"skipped": v} if isinstance(v, str) else v.record() for k, v in self.peers.items()
        }
        return plain | {
            "counts": dict(vars(self.counts)),
            "check": dict(vars(self.check)),
            "timing": self.timing.record(),
            "peers": peers,
            "GB/s": self.rate / 1e9,
            "TFLOP/s": self.speed / 1e12,
            "share": self.share,
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Result:
        known = {k: v for k, v in record.items() if k not in ("GB/s", "TFLOP/s", "share")}
        peers = {
            k: v["skipped"] if "skipped" in v else Timing.of(v) for k, v in known["peers"].items()
        }
        return cls(**known | {
            "shape": tuple(known["shape"]), "counts": Counts(**known["counts"]),
            "timing": Timing.of(known["timing"]), "check": Verdict(**known["check"]),
            "peers": peers,
        })  # fmt: skip


@dataclass
class Report:
    """A run: where, when and with what; ceilings by engine; results."""

    meta: dict[str, Any]
    ceilings: dict[str, Ceilings]
    results: list[Result]
    failed: dict[str, str] = field(default_factory=dict)  # case: why

    def save(self, path: Path) -> None:
        """As JSON, a line for each result; readings to four digits."""
        data = {
            "format": FORMAT,
            "meta": self.meta,
            "ceilings": {k: v.record() for k, v in self.ceilings.items()},
            "failed": self.failed,
        }
        head = json.dumps(data, indent=1).removesuffix("\n}")
        rows = ",\n".join(json.dumps(_short(r.record())) for r in self.results)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{head},\n "results": [\n{rows}\n]\n}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Report:
        """Raises PyKernelsError for a file that is no report."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise PyKernelsError(f"[bench] {path} has format {data['format']}, not {FORMAT}")
            found = {k: Ceilings(**v) for k, v in data["ceilings"].items()}
            results = [Result.of(r) for r in data["results"]]
            return cls(data["meta"], found, results, data["failed"])
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise PyKernelsError(f"[bench] {path} is no report of pykernels bench: {e}") from None


def _short(value: Any) -> Any:
    """Numbers with as many digits as mean something."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, (list, tuple)) else value


def meta(devices: Iterable[Device], command: str) -> dict[str, Any]:
    """Date, adapter, driver, versions and the command."""
    found = list(devices)
    info = found[0].info
    versions = {"pykernels": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "onnxruntime-webgpu"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "adapter": info["name"],
        "type": info["type"],
        "backend": info["backend"],
        "driver": info["driver"],
        "engines": {d.engine: d.info["engine_version"] for d in found},
        "checks": all(d._context.checks for d in found),
        "versions": versions,
        "system": f"{platform.system()} {platform.machine()}",
        "command": command,
    }


class EnginePeer:
    """The same case on the other engine's device."""

    def __init__(self, dev: Device, rotate: int) -> None:
        self.dev, self.rotate = dev, rotate

    def __call__(self, loaded: Loaded) -> tuple[Sample, str]:
        rotate = self.rotate if len(loaded.sets) > 1 else 0
        other = load(self.dev, loaded.case, rotate=rotate)
        other.check()
        sample = GpuSample(self.dev, other)
        return sample, sample.clock


class Runner:
    """Runs cases on the devices of one adapter, one after the other.

    passes: how often each case is loaded and timed; each pass goes through all cases and puts
        their tensors elsewhere in memory.
    seconds: of the whole run; when they are over, what is left is left out, and the report says so.
    keep: a file that has the report so far, should somebody's driver or library end the process.
    """

    def __init__(
        self,
        devices: list[Device],
        *,
        effort: Effort | None = None,
        caches: tuple[Cache, ...] = ("cold",),
        rotate: int | None = None,
        passes: int = 1,
        seconds: float = math.inf,
        command: str = "",
        keep: Path | None = None,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    ) -> None:
        self.devices, self.caches, self.passes = devices, caches, passes
        self._began, self._say, self._seconds = time.perf_counter(), say, seconds
        self.effort = effort or Effort.of(devices[0])
        slow = devices[0].info["type"] == "CPU"
        self.rotate = rotate if rotate is not None else (1 << 20) if slow else ROTATE
        self.report = Report(meta(devices, command), {}, [])
        self.trackers: dict[str, Tracker] = {}
        self.left_out = 0  # cases
        self._keep = keep

    def say(self, line: str) -> None:
        """Report progress."""
        self._say(f"{self._spent():7.1f} s  {line}")

    def _spent(self) -> float:
        return time.perf_counter() - self._began

    def late(self, share: float = 1.0) -> bool:
        """Is this share of the time over?"""
        return self._spent() > share * self._seconds

    def ceilings(self, nbytes: int = 1 << 30) -> None:
        """Measure what each device itself reaches. Always warmed up, whatever the cases get."""
        for dev in self.devices:
            self.say(f"ceilings of {dev!r}")
            found, tracker = ceilings(dev, Effort.of(dev).once(), nbytes)
            self.report.ceilings[dev.engine] = found
            if dev.info["type"] != "CPU":  # no clock to watch
                self.trackers[dev.engine] = tracker

    def run(
        self,
        cases: Iterable[Case],
        peers: Mapping[str, Mapping[str, Peer]] | None = None,
        beside: Callable[[Case], bool] = lambda case: True,
    ) -> Report:
        """Run all cases; one whose output is wrong has no result but stands in `failed`.

        peers: by kernel, then by name; they run beside the first device, and the cases that
        `beside` chooses. These cases come first: a pass, their peers (until a share PEERS of a
        limited time), the other passes. Then all other cases in the same way, without peers.
        """
        chosen = list(cases)
        for group in ([c for c in chosen if beside(c)], [c for c in chosen if not beside(c)]):
            found = [(d, c, self._first(d, c)) for c in group for d in self.devices]
            found = [one for one in found if one[2]]
            self._save()
            for dev, case, results in found:
                given = (peers or {}).get(case.kernel, {})
                if given and dev is self.devices[0] and beside(case):
                    self._guarded(dev, case, partial(self._beside, dev, case, results, given))
                    self._save()
            for n in range(1, self.passes if found else 0):
                if not self.late():
                    self.say(f"pass {n + 1} of {self.passes}")
                for dev, case, results in found:
                    if not self.late():
                        self._guarded(dev, case, partial(self._again, dev, case, results, n))
                self._save()
        if self.left_out:
            self.report.meta["note"] = f"{self.left_out} cases are left out: the time was over"
        return self.report

    def _save(self) -> None:
        if self._keep:
            self.report.save(self._keep)

    def _first(self, dev: Device, case: Case) -> list[Result]:
        """The first pass of a case."""
        if self.late():
            self.left_out += 1
            return []
        results = self._guarded(dev, case, partial(self.case, dev, case, {}))
        self.report.results += results
        return results

    def _guarded(
        self, dev: Device, case: Case, work: Callable[[], Iterable[Result]]
    ) -> list[Result]:
        """The results of some work on a case; none, and a line in `failed`, if it fails."""
        what = f"{case.kernel} {case.id}"
        try:
            results = list(work())
        except PyKernelsError as e:
            kind = "WRONG" if isinstance(e, CheckFailed) else "FAILED"
            self.report.failed[f"{what} {dev.engine}"] = str(e)
            self.say(f"{what} {dev.engine}: {kind}, {e}")
            return []
        for result in results:
            self.say(f"{what} {dev.engine} {result.cache}: {_said(result)}")
        return results

    def case(
        self, dev: Device, case: Case, peers: Mapping[str, Peer], take: Any = take
    ) -> Iterable[Result]:
        """Check, count and time one case, for each state of the caches; its peers beside it."""
        loaded = load(dev, case, rotate=self.rotate if "cold" in self.caches else 0)
        checked = loaded.check()
        counts = loaded.count()
        for cache in self.caches:
            timing = self._time(loaded, cache, counts.dispatches, take=take)
            writes_only = len(case.tensors) == 1
            known = self.report.ceilings.get(dev.engine)
            limit = known.limit(counts.nbytes, counts.operations, writes_only) if known else 0.0
            found = self._peers(loaded, peers)
            yield Result(
                case.kernel, case.id, dev.engine, cache, case.dtype,
                case.shape or case.output.shape, case.name, case.origin, counts, checked,
                loaded.rotated, writes_only, timing, limit, found,
            )  # fmt: skip

    def _time(self, loaded: Loaded, cache: Cache, dispatches: int, **options: Any) -> Timing:
        if cache == "hot":
            del loaded.sets[1:]
        loaded._turn = 0
        sample = GpuSample(loaded.dev, loaded)
        effort = self.effort.once() if self.passes > 1 else self.effort
        tracker = self.trackers.get(loaded.dev.engine)
        timing = measure(sample, effort, tracker=tracker, **options)
        if sample.dispatches != timing.calls * dispatches:
            raise PyKernelsError(
                f"[bench] {loaded.case.kernel} made {sample.dispatches} dispatches in "
                f"{timing.calls} calls of {dispatches}"
            )
        return timing

    def _again(self, dev: Device, case: Case, results: list[Result], turn: int) -> Iterable[Result]:
        """One more pass of a case, its tensors elsewhere."""
        dev.trim()
        rotate = self.rotate if "cold" in self.caches else 0
        loaded = load(dev, case, rotate=rotate, apart=turn * self.rotate // 64)
        for r in results:
            r.timing = self._time(loaded, r.cache, r.counts.dispatches, before=r.timing)
        return ()

    def _beside(
        self, dev: Device, case: Case, results: list[Result], peers: Mapping[str, Peer]
    ) -> Iterable[Result]:
        """The peers of a case that has been timed."""
        if self.late(PEERS):
            for r in results:
                r.peers = dict.fromkeys(peers, "the time was over")
            return ()
        dev.trim()
        loaded = load(dev, case, rotate=self.rotate if "cold" in self.caches else 0)
        for r in results:
            if r.cache == "hot":
                del loaded.sets[1:]
            r.peers = self._peers(loaded, peers)
        return results

    def _peers(self, loaded: Loaded, peers: Mapping[str, Peer]) -> dict[str, Timing | str]:
        """The times of the peers of a case, or why they have none."""
        found: dict[str, Timing | str] = {}
        tracker = self.trackers.get(loaded.dev.engine)
        for name, peer in peers.items():
            if self.late(PEERS):
                found[name] = "the time was over"
                continue
            try:
                other, clock = peer(loaded)
                effort = self.effort.brief() if clock == "wall" else self.effort.beside()
                found[name] = measure(other, effort, clock=clock, tracker=tracker)
            except Skipped as e:
                found[name] = str(e)
            except PyKernelsError:
                raise
            except Exception as e:  # somebody else's library: the run goes on without it
                found[name] = f"it failed: {type(e).__name__}: {' '.join(str(e).split())[:200]}"
        return found


def _said(r: Result) -> str:
    t = r.timing
    flags = "" if not t.cold else f"  COLD: {t.cold}"
    flags += "" if t.steady else "  unsteady"
    return f"{t.seconds * 1e6:.1f} us, {r.rate / 1e9:.0f} GB/s{flags}"
