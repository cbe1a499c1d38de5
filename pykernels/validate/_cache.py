"""Verdicts of earlier runs, stored by a hash of everything that they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ._types import Finding, Source

__all__ = ["Cache", "default_folder"]

# The version of the entries: raise it if a validator's verdicts change, but not its version.
_FORM = "4"
# The most verdicts that are kept for each validator; the oldest are dropped first.
_MOST = 100_000


def default_folder() -> Path:
    """The folder that PYKERNELS_CACHE names, else the user's cache folder."""
    if named := os.environ.get("PYKERNELS_CACHE"):
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home(), "pykernels", "cache")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "pykernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "pykernels")


class Cache:
    """The verdicts of one validator, with its version and options, in one file."""

    def __init__(self, folder: Path, name: str, options: Sequence[str]) -> None:
        digest = hashlib.sha256("\0".join([_FORM, *options]).encode()).hexdigest()[:16]
        self._path = folder / "validate" / f"{name}-{digest}.json"
        self._verdicts = self._read()
        self._new: dict[str, list[dict[str, Any]]] = {}

    @staticmethod
    def key(source: Source) -> str:
        """A hash of everything that a verdict depends on, without the name of the source."""
        parts = [repr(source.limits), repr(source.overrides), *source.features, source.text]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def get(self, source: Source) -> list[Finding] | None:
        """The findings of an earlier run, None if there was no earlier run."""
        found = self._verdicts.get(self.key(source))
        if found is None:
            return None
        try:
            return [Finding(source.name, **fields) for fields in found]
        except TypeError:  # another version has written the file
            return None

    def put(self, source: Source, findings: Sequence[Finding]) -> None:
        fields = [asdict(f) for f in findings]
        for f in fields:
            del f["source"]
        self._new[self.key(source)] = fields

    def save(self) -> None:
        """Add the new verdicts to the file. If that fails, a later run only takes longer."""
        if not self._new:
            return
        merged = {**self._read(), **self._new}
        kept = dict(list(merged.items())[-_MOST:])
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self._path.parent, delete=False, encoding="utf-8"
            ) as file:
                json.dump(kept, file)
            os.replace(file.name, self._path)
        except OSError:
            pass

    def _read(self) -> Mapping[str, list[dict[str, Any]]]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
