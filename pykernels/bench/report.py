"""What came out of a run: a `Result` per case, cache state and engine, and their `Report`."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pykernels._version import __version__
from pykernels.device import Device
from pykernels.errors import PyKernelsError

from .case import Counts
from .ceilings import Ceilings
from .check import Verdict
from .clock import Timing

__all__ = ["Cache", "Report", "Result", "engine_label", "meta"]

Cache = Literal["cold", "hot"]
FORMAT = 1


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
    parts: tuple[tuple[str, float], ...] = ()  # each dispatch of a call: its text and its seconds

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

    def call_ratio(self, peer: str) -> float | None:
        """The same by the host's clock, where both have a time."""
        found = self.peers.get(peer)
        if not isinstance(found, Timing) or not found.per_call or not self.timing.per_call:
            return None
        return found.per_call / self.timing.per_call

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
        })  # fmt: skip


@dataclass
class Report:
    """A run: where, when and with what; ceilings by engine; results."""

    meta: dict[str, Any]
    ceilings: dict[str, Ceilings]
    results: list[Result]
    failed: dict[str, str] = field(default_factory=dict)  # case: why

    def record(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "meta": self.meta,
            "ceilings": {k: v.record() for k, v in self.ceilings.items()},
            "failed": self.failed,
            "results": [r.record() for r in self.results],
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Report:
        found = {k: Ceilings(**v) for k, v in record["ceilings"].items()}
        results = [Result.of(r) for r in record["results"]]
        return cls(record["meta"], found, results, record["failed"])

    def save(self, path: Path) -> None:
        """As JSON, a line for each result; readings to four digits."""
        data = self.record()
        rows = ",\n".join(json.dumps(_short(r)) for r in data.pop("results"))
        head = json.dumps(data, indent=1).removesuffix("\n}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{head},\n "results": [\n{rows}\n]\n}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Report:
        """Raises PyKernelsError for a file that is no report."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise PyKernelsError(f"[bench] {path} has format {data['format']}, not {FORMAT}")
            return cls.of(data)
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise PyKernelsError(f"[bench] {path} is no report of pykernels bench: {e}") from None


def _short(value: Any) -> Any:
    """Numbers with as many digits as mean something."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, (list, tuple)) else value


def engine_label(dev: Device) -> str:
    """The engine, and whether the device was opened for its matrix units."""
    return f"{dev.engine}-matrix" if dev.matrix_shapes else dev.engine


def meta(devices: Iterable[Device], command: str) -> dict[str, Any]:
    """Date, adapter, driver, versions and the command."""
    found = list(devices)
    info = found[0].info
    versions = {"pykernels": __version__, "python": platform.python_version()}
    for name in ("numpy", "torch", "onnxruntime-webgpu", "onnxruntime"):
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
        "engines": {engine_label(d): d.info["engine_version"] for d in found},
        "checks": all(d._context.checks for d in found),
        "versions": versions,
        "system": f"{platform.system()} {platform.machine()}",
        "command": command,
    }
