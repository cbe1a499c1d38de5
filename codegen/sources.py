"""The hash of everything that a build reads; needs nothing but the standard library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

__all__ = ["GENERATED", "recorded_hash", "source_hash"]

GENERATED = Path("pykernels") / "_generated"


def _paths(root: Path) -> Iterator[Path]:
    yield from sorted((root / "kernels").rglob("*.wgsl"))
    yield from sorted((root / "codegen").glob("*.py"))
    yield from (root / "pykernels" / name for name in ("_version.py", "faults.py", "layout.py"))
    # Which functions and plans are written by hand decides what is generated around them.
    for folder in ("plans", "functional"):
        yield from sorted((root / "pykernels" / folder).glob("[a-z]*.py"))


def source_hash(root: Path) -> str:
    """sha256 over names and contents (names only for plans and functional)."""
    digest = hashlib.sha256()
    for path in _paths(root):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        if path.parent.name not in ("plans", "functional"):
            digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()


def recorded_hash(root: Path) -> str:
    """The hash that the generated manifest carries, "" where there is none."""
    try:
        manifest = json.loads((root / GENERATED / "manifest.json").read_text(encoding="utf-8"))
        return str(manifest["sources"])
    except (OSError, ValueError, KeyError):
        return ""
