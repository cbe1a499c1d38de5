"""The results of a run: a `Result` for each case, cache state and engine, and their `Report`."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pykernels._version import __version__
from pykernels.device import Device
from pykernels.errors import PyKernelsError
from pykernels.runtime.engine import MODULES, EngineName

from .case import Counts
from .ceilings import Ceilings
from .check import Verdict
from .clock import Clock, Timing, clock_of, seconds_of
from .intervals import Interval, welch

__all__ = ["Cache", "Report", "Result", "engine_label", "meta"]

Cache = Literal["cold", "hot"]
FORMAT = 2  # files of format 1 can be read, too, but they lack the states of caches


@dataclass
class Result:
    """The results of one case on one device."""

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
    limit: float = 0.0  # the least seconds that the ceilings allow for a call
    # the times of peers, or the reason why a peer has no time
    peers: dict[str, Timing | str] = field(default_factory=dict)
    # for each dispatch of a call, its text and its seconds
    parts: tuple[tuple[str, float], ...] = ()
    bodies: tuple[str, ...] = ()  # the names of the texts of a call's dispatches
    sets: int = 0  # number of sets of tensors that calls use in turn; 0 if unknown
    state: str = "cold"  # the state of the caches: cold, warm or hot

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.engine, self.kernel, self.id, self.cache

    @property
    def clock(self) -> Clock:
        """The decisive clock: the GPU's clock if its time is known and trusted, else the host's."""
        return clock_of([self.timing])

    @property
    def seconds(self) -> float:
        """The time of a call by the decisive clock, `clock`."""
        return seconds_of(self.timing, self.clock)

    @property
    def noise(self) -> float:
        """The expected difference between `seconds` and a repetition, relative to `seconds`."""
        return self.timing.noise if self.clock == "gpu" else self.timing.call_noise

    @property
    def rate(self) -> float:
        """Bytes per second."""
        return self.counts.nbytes / self.seconds

    @property
    def speed(self) -> float:
        """Operations per second."""
        return self.counts.operations / self.seconds

    @property
    def share(self) -> float:
        """Fraction of the roofline reached."""
        return self.limit / self.seconds

    def limit_by(self, c: Ceilings) -> float:
        """The least seconds of a call under these ceilings."""
        n = self.counts
        return c.limit(n.nbytes, n.operations, self.writes_only, self.state, self.rotated)

    def clock_beside(self, peer: str) -> Clock:
        """The clock that this result and a peer have in common."""
        found = self.peers.get(peer)
        return clock_of([self.timing, found]) if isinstance(found, Timing) else ""

    def ratio(self, peer: str, clock: Clock | None = None) -> float | None:
        """The time of a peer divided by this time, measured by a clock that both have, or by
        `clock`."""
        clock = self.clock_beside(peer) if clock is None else clock
        found = self.peers.get(peer)
        if not clock or not isinstance(found, Timing):
            return None
        ours, other = seconds_of(self.timing, clock), seconds_of(found, clock)
        return other / ours if ours and other else None

    def interval(self, peer: str, clock: Clock | None = None) -> Interval | None:
        """The 95 % interval of `ratio`, over passes. None if one side has a single pass, because
        its noise does not include the effect of places in memory."""
        clock = self.clock_beside(peer) if clock is None else clock
        found = self.peers.get(peer)
        if not isinstance(found, Timing) or self.ratio(peer, clock) is None:
            return None
        if min(self.timing.places, found.places) < 2:
            return None
        return welch(self.timing.units(clock), found.units(clock), 0.05)

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
            "peers": peers, "parts": tuple(tuple(p) for p in known.get("parts", ())),
            "bodies": tuple(known.get("bodies", ())),
        })  # fmt: skip


@dataclass
class Report:
    """A run: facts about machine, date and versions; ceilings by engine; results."""

    meta: dict[str, Any]
    ceilings: dict[str, Ceilings]
    results: list[Result]
    failed: dict[str, str] = field(default_factory=dict)  # for each failed case, the reason
    _lines: dict[Any, tuple[object, str]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def settings(self) -> dict[str, Any]:
        """The options of the run of `pykernels bench`, by name; older files lack some options."""
        known: dict[str, Any] = self.meta.get("settings", {})
        if known:
            return known
        found = {k: self.meta[k] for k in ("passes", "rounds") if k in self.meta}
        engines = list(self.meta["engines"])
        engine = "both" if len(engines) > 1 else engines[0] if engines else "wgpu"
        return found | {"unchecked": not self.meta["checks"], "engine": engine}

    @settings.setter
    def settings(self, value: dict[str, Any]) -> None:
        self.meta["settings"] = value

    @property
    def swept(self) -> bool:
        """True if this is the report of a sweep."""
        return bool(self.meta.get("settings", {}).get("sweep"))

    def record(self) -> dict[str, Any]:
        return self._head() | {"results": [r.record() for r in self.results]}

    def _head(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "meta": self.meta,
            "ceilings": {k: v.record() for k, v in self.ceilings.items()},
            "failed": self.failed,
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Report:
        found = {k: Ceilings.of(v) for k, v in record["ceilings"].items()}
        results = [Result.of(r) for r in record["results"]]
        return cls(record["meta"], found, results, record["failed"])

    def save(self, path: Path) -> None:
        """Save as JSON, with a line for each result; readings have four digits. An existing file is
        replaced at once, so the file is complete at any time."""
        head = json.dumps(self._head(), indent=1).removesuffix("\n}")
        rows = ",\n".join(map(self._line, self.results))
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.part")
        beside.write_text(f'{head},\n "results": [\n{rows}\n]\n}}\n', encoding="utf-8")
        beside.replace(path)

    def _line(self, r: Result) -> str:
        """The line of a result in the file. The report is saved after each case, so a line is kept
        and computed again only if its result changes."""
        state = (r.timing, r.limit, *r.peers.items())
        known = self._lines.get(r.key)
        if known is None or known[0] != state:
            known = self._lines[r.key] = (state, json.dumps(_short(r.record())))
        return known[1]

    @classmethod
    def load(cls, path: Path) -> Report:
        """Load a report. Raises PyKernelsError for a file that is not a report."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] not in (1, FORMAT):
                raise PyKernelsError(
                    f"[bench] {path} has format {data['format']}, not 1 to {FORMAT}"
                )
            return cls.of(data)
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise PyKernelsError(f"[bench] {path} is no report of pykernels bench: {e}") from None


def _short(value: Any) -> Any:
    """The value, with its floats rounded to four significant digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, (list, tuple)) else value


def engine_label(dev: Device) -> str:
    """The name of the engine, with a mark if the device was opened for its matrix units."""
    return f"{dev.engine}-matrix" if dev.matrix_shapes else dev.engine


def meta(devices: Iterable[Device], command: str) -> dict[str, Any]:
    """Date, adapter, driver, versions, the machine, the command, and an id of the run."""
    found = list(devices)
    info = found[0].info
    versions = {"pykernels": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "onnxruntime-webgpu", "onnxruntime"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    for dev in found:
        versions |= native_version(dev.engine)
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "adapter": info["name"],
        "type": info["type"],
        "backend": info["backend"],
        "driver": info["driver"],
        "engines": {engine_label(d): d.info["engine_version"] for d in found},
        "checks": all(d._context.checks for d in found),
        "versions": versions,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _processor(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
        "tuning": found[0]._context.caps.tuning.name,
        "commit": _commit(Path(__file__).parents[2]),
        "run": uuid.uuid4().hex,
        "command": command,
    }


def native_version(engine: EngineName) -> dict[str, str]:
    """The version of the library behind an engine."""
    backend = importlib.import_module(MODULES[engine][1].removesuffix("._api"))
    name = {"wgpu": "wgpu-native", "dawn": "Dawn"}[engine]
    return {name: ".".join(map(str, backend.lib_version_info))}


def _commit(root: Path) -> str:
    """The commit of a checkout; "" for an installed package."""
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _processor() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
