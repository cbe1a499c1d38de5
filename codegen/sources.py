"""The hash of everything that a build reads; needs nothing but the standard library."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "GENERATED", "functions_by_hand", "kernel_files", "plan_names", "recorded_hash", "source_hash",
]  # fmt: skip

GENERATED = Path("pykernels") / "_generated"


def kernel_files(root: Path) -> list[Path]:
    """The kernel sources: `kernels/FAMILY/NAME.wgsl`; `kernels/lib` is shared text."""
    found = (root / "kernels").glob("*/*.wgsl")
    return sorted(p for p in found if p.parent.name != "lib")


def plan_names(root: Path) -> frozenset[str]:
    """The kernels whose plans are written by hand: `pykernels/plans/FAMILY/NAME.py`."""
    files = (root / "pykernels" / "plans").glob("*/[a-z]*.py")
    return frozenset(p.stem for p in files if (root / "kernels" / p.parent.name).is_dir())


def functions_by_hand(root: Path) -> frozenset[str]:
    """The functions of layer two that are written by hand: what `pykernels/functional` defines."""
    found: set[str] = set()
    for path in sorted((root / "pykernels" / "functional").glob("[a-z]*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found |= {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    return frozenset(n for n in found if not n.startswith("_"))


def _paths(root: Path) -> Iterator[Path]:
    yield from sorted((root / "kernels").rglob("*.wgsl"))
    yield from sorted((root / "kernels").glob("*/ops.toml"))
    yield from sorted((root / "codegen").glob("*.py"))
    yield from (root / "pykernels" / name for name in ("_version.py", "faults.py", "layout.py"))
    yield from sorted((root / "pykernels" / "wgsl").glob("*.py"))


def source_hash(root: Path) -> str:
    """sha256 over everything that a build reads; of plans and functions the names only."""
    digest = hashlib.sha256()
    for path in _paths(root):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    # Which functions and plans are written by hand decides what is generated around them.
    for names in (plan_names(root), functions_by_hand(root)):
        digest.update("\0".join(sorted(names)).encode() + b"\1")
    return digest.hexdigest()


def recorded_hash(root: Path) -> str:
    """The hash that the generated manifest carries, "" where there is none."""
    try:
        manifest = json.loads((root / GENERATED / "manifest.json").read_text(encoding="utf-8"))
        return str(manifest["sources"])
    except (OSError, ValueError, KeyError):
        return ""
