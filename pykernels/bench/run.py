"""Runs cases on devices: checks, counts and times each case, and times its peers next to it."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pykernels.device import Device
from pykernels.errors import PyKernelsError

from .case import CheckFailed, Loadable, Loaded, last_cache, load
from .ceilings import ceilings
from .clock import (
    Calls,
    Effort,
    GpuSample,
    HostSample,
    Sample,
    Timing,
    Tracker,
    loops,
    measure,
    take,
)
from .report import Cache, Report, Result, engine_label, meta

__all__ = ["EnginePeer", "Peer", "Runner", "Skipped"]

T = TypeVar("T")
PEERS = 0.62  # after this share of a limited time, no more peers start
ROTATE = 256 << 20  # bytes of all sets together on a GPU, more than any cache holds


class Skipped(Exception):
    """A peer does not run; the text is the reason."""


class Peer(Protocol):
    """Another library or engine that computes the same result. It is prepared for a case that is
    loaded, and timed like the case.

    Raises Skipped with the reason if it cannot run.
    """

    def __call__(self, loaded: Loaded) -> Calls: ...


class EnginePeer:
    """The same case on the other engine's device."""

    def __init__(self, dev: Device, rotate: int) -> None:
        self.dev, self.rotate = dev, rotate

    def __call__(self, loaded: Loaded) -> Calls:
        rotate = self.rotate if len(loaded.sets) > 1 else 0
        other = load(self.dev, loaded.case, rotate=rotate)
        other.check()
        sample = GpuSample(self.dev, other)
        return Calls(sample, sample.clock, HostSample(self.dev, other))


class Runner:
    """Runs cases on the devices of one adapter, one after the other.

    passes: how often each case is loaded and timed. Each pass goes through all cases and puts their
        tensors at other places in memory.
    seconds: the limit of the whole run; when it is reached, the remaining work is left out, and the
        report says so.
    alternate: how often a case and its peers are timed in turn; with 1, the peers are timed once.
    parts: True also times each dispatch of a call.
    keep: a file for the report so far, in case a driver or a library ends the process.
    """

    def __init__(
        self,
        devices: list[Device],
        *,
        effort: Effort | None = None,
        caches: tuple[Cache, ...] = ("cold",),
        rotate: int | None = None,
        passes: int = 1,
        alternate: int = 1,
        parts: bool = False,
        seconds: float = math.inf,
        command: str = "",
        keep: Path | None = None,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    ) -> None:
        self.devices, self.caches, self.passes = devices, caches, passes
        self._began, self._say, self._seconds = time.perf_counter(), say, seconds
        self.effort = effort or Effort.of(devices[0])
        slow = devices[0].info["type"] == "CPU"
        enough = 2 * last_cache(devices[0]) if slow else ROTATE
        self.rotate = enough if rotate is None else rotate
        found = meta(devices, command) | {"passes": passes, "rounds": self.effort.rounds}
        self.report = Report(found, {}, [])
        self.trackers: dict[str, Tracker] = {}
        self.left_out = 0  # number of cases that were left out
        self._keep, self.alternate, self.parts = keep, alternate, parts
        self._ends: list[float] = []  # the times at which the passes of cases ended
        self._to_time = 0

    def say(self, line: str) -> None:
        """Report progress."""
        self._say(f"{self._spent():7.1f} s  {line}")

    def _spent(self) -> float:
        return time.perf_counter() - self._began

    def late(self, share: float = 1.0) -> bool:
        """True if this share of the time is over."""
        return self._spent() > share * self._seconds

    def _far(self) -> str:
        """The progress of the run and roughly the remaining time."""
        done = len(self._ends) - 1
        # neighbouring cases are mostly of one family, and take similar times
        last = self._ends[-11:]
        each = (last[-1] - last[0]) / max(len(last) - 1, 1)
        left = min(each * (self._to_time - done), max(self._seconds - self._spent(), 0))
        return f"{done} of {self._to_time}, about {left:.0f} s left"

    def ceilings(self, nbytes: int = 1 << 30) -> None:
        """Measure the ceilings of each device. The device is warmed up fully for them, even if the
        cases get a shorter effort."""
        for dev in self.devices:
            self.say(f"ceilings of {dev!r}")
            found, tracker = ceilings(dev, Effort.of(dev).once(), nbytes, self.caches)
            self.report.ceilings[engine_label(dev)] = found
            if dev.info["type"] != "CPU":  # a software driver has no clock to watch
                self.trackers[engine_label(dev)] = tracker

    def run(
        self,
        cases: Iterable[Loadable],
        peers: Mapping[str, Mapping[str, Peer]] | None = None,
        beside: Callable[[Any], bool] = lambda case: True,
    ) -> Report:
        """Run all cases; a case with a wrong output has no result and is listed in `failed`.

        peers: by kernel, then by name; they run next to the first device, for the cases that
        `beside` chooses. These cases come first: one pass, then their peers (up to the share PEERS
        of a limited time), then the other passes. All other cases follow in the same way, without
        peers.
        """
        chosen = list(cases)
        self._to_time = len(chosen) * len(self.devices) * self.passes
        self._ends = [self._spent()]
        for group in ([c for c in chosen if beside(c)], [c for c in chosen if not beside(c)]):
            found = [(d, c, self._first(d, c)) for c in group for d in self.devices]
            found = [one for one in found if one[2]]
            for dev, case, results in found:
                given = (peers or {}).get(case.kernel, {})
                if given and dev is self.devices[0] and beside(case):
                    work = partial(self._beside, dev, case, results, given)
                    self._guarded(dev, case, work, counts=False)
                    self._save()
            for n in range(1, self.passes if found else 0):
                if not self.late():
                    self.say(f"{self._far()}: pass {n + 1} of {self.passes}")
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

    def _first(self, dev: Device, case: Loadable) -> list[Result]:
        """The first pass of a case."""
        if self.late():
            self.left_out += 1
            return []
        results = self._guarded(dev, case, partial(self.case, dev, case, {}))
        self.report.results += results
        self._save()
        return results

    def _guarded(
        self, dev: Device, case: Loadable, work: Callable[[], Iterable[Result]], counts: bool = True
    ) -> list[Result]:
        """The results of `work` on a case; if it fails, no results, and a line in `failed`."""
        what = f"{case.kernel} {case.id}"
        try:
            results = list(work())
        except PyKernelsError as e:
            kind = "WRONG" if isinstance(e, CheckFailed) else "FAILED"
            self.report.failed[f"{what} {engine_label(dev)}"] = str(e)
            results, said = [], [f"{what} {engine_label(dev)}: {kind}, {e}"]
        else:
            said = [f"{what} {engine_label(dev)} {r.cache}: {_said(r)}" for r in results]
        if counts:
            self._ends.append(self._spent())
        for line in said:
            self.say(f"{self._far()}: {line}")
        return results

    def case(
        self, dev: Device, case: Loadable, peers: Mapping[str, Peer], take: Any = take
    ) -> Iterable[Result]:
        """Check, count and time one case for each state of the caches, and time its peers."""
        loaded = case.load(dev, self.rotate if "cold" in self.caches else 0, 0)
        checked = loaded.check()
        counts = loaded.count()
        for cache in self.caches:
            timing = self._time(loaded, cache, counts.dispatches, take=take)
            timing = self._looped(timing, loaded.timed().loop, self.effort)
            known = self.report.ceilings.get(engine_label(dev))
            result = Result(
                case.kernel, case.id, engine_label(dev), cache, loaded.dtype, loaded.shape,
                case.name, case.origin, counts, checked, loaded.rotated, loaded.writes_only, timing,
                parts=loaded.parts() if self.parts and timing.gpu else (), bodies=loaded.bodies(),
                sets=len(loaded.sets), state=loaded.state,
            )  # fmt: skip
            result.limit = result.limit_by(known) if known else 0.0
            self._peers(loaded, result, peers)
            yield result

    def _time(self, loaded: Loaded, cache: Cache, dispatches: int, **options: Any) -> Timing:
        if cache == "hot":
            del loaded.sets[1:]
        loaded._turn = 0
        calls = loaded.timed()
        effort = self.effort.once() if self.passes > 1 else self.effort
        tracker = self.trackers.get(engine_label(loaded.dev))
        timing = measure(calls.sample, effort, clock=calls.clock, tracker=tracker, **options)
        made = getattr(calls.sample, "dispatches", timing.calls * dispatches)
        if made != timing.calls * dispatches:
            raise PyKernelsError(
                f"[bench] {loaded.case.kernel} made {made} dispatches in {timing.calls} calls, "
                f"not {dispatches} in each"
            )
        return timing

    def _again(
        self, dev: Device, case: Loadable, results: list[Result], turn: int
    ) -> Iterable[Result]:
        """One more pass of a case, with its tensors at other places in memory."""
        dev.trim()
        rotate = self.rotate if "cold" in self.caches else 0
        loaded = case.load(dev, rotate, turn * self.rotate // 64)
        for r in results:
            r.timing = self._time(loaded, r.cache, r.counts.dispatches, before=r.timing)
        return ()

    def _beside(
        self, dev: Device, case: Loadable, results: list[Result], peers: Mapping[str, Peer]
    ) -> Iterable[Result]:
        """The peers of a case that has been timed."""
        if self.late(PEERS):
            for r in results:
                r.peers = dict.fromkeys(peers, "the time was over")
            return ()
        dev.trim()
        loaded = case.load(dev, self.rotate if "cold" in self.caches else 0, 0)
        for r in results:
            if r.cache == "hot":
                del loaded.sets[1:]
            self._peers(loaded, r, peers)
        return results

    def _peers(self, loaded: Loaded, r: Result, peers: Mapping[str, Peer]) -> None:
        """Time the peers of a case, or note why they have no time. Peers run one after the other;
        if `alternate` is above 1, all peers and the case itself run in turn."""
        together = [{k: v} for k, v in peers.items()]
        if peers and self.alternate > 1:
            together = [dict(peers)]
        for some in together:
            ready = {name: self._ready(loaded, peer) for name, peer in some.items()}
            for _ in range(self.alternate):
                if self.alternate > 1:
                    again = self._time(loaded, r.cache, r.counts.dispatches, before=r.timing)
                    r.timing = self._looped(again, loaded.timed().loop, self.effort)
                for name, calls in ready.items():
                    before = r.peers.get(name)
                    if isinstance(calls, str):
                        r.peers[name] = calls
                    elif not isinstance(before, str):
                        r.peers[name] = self._peer(loaded, calls, before)

    def _ready(self, loaded: Loaded, peer: Peer) -> Calls | str:
        """The peer, ready to be timed; or the reason why it does not run."""
        return "the time was over" if self.late(PEERS) else _attempt(lambda: peer(loaded))

    def _peer(self, loaded: Loaded, calls: Calls, before: Timing | None) -> Timing | str:
        """One more timing of a peer, or the reason why there is none."""
        effort = self.effort.brief() if calls.clock == "wall" else self.effort.beside()
        tracker = self.trackers.get(engine_label(loaded.dev))

        def timed() -> Timing:
            found = measure(calls.sample, effort, clock=calls.clock, tracker=tracker, before=before)
            return self._looped(found, calls.loop, effort)

        return _attempt(timed)

    @staticmethod
    def _looped(timing: Timing, loop: Sample | None, effort: Effort) -> Timing:
        """The timing, together with loops by the host's clock if these measure another time."""
        return replace(timing, loops=timing.loops + loops(loop, effort)) if loop else timing


def _attempt(work: Callable[[], T]) -> T | str:
    """Run code of another library. If that code fails, the run continues and reports the reason."""
    try:
        return work()
    except Skipped as e:
        return str(e)
    except PyKernelsError:
        raise
    except Exception as e:
        return f"it failed: {type(e).__name__}: {' '.join(str(e).split())[:200]}"


def _said(r: Result) -> str:
    t = r.timing
    flags = "" if not t.cold else f"  COLD: {t.cold}"
    flags += "" if t.steady else "  unsteady"
    flags += "" if t.trusted else "  untrusted: more GPU time than wall time"
    return f"{r.seconds * 1e6:.1f} us ({r.clock}), {r.rate / 1e9:.0f} GB/s{flags}"
