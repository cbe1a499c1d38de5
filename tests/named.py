"""Which tests are about a kernel, a body or a function: what `bash ci/test.sh NAME` runs.

python -m tests.named NAME     pytest's arguments, a line each
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pykernels as pk
from codegen.keys import meant
from pykernels.wgsl.texts import read_manifest
from tests.budget import kernel_of
from tests.checkout import ROOT

__all__ = ["arguments", "names"]


def names() -> dict[str, str]:
    """Kernels, bodies and functions, each with the folder of its tests: "" where it may be any."""
    manifest = read_manifest()
    families = {name: k["family"] for name, k in manifest["kernels"].items()}
    bodies = {b: k["family"] for k in manifest["kernels"].values() for b in k["bodies"]}
    functions = {name: "" for name in pk.__all__ if callable(getattr(pk, name))}
    return {**functions, **dict.fromkeys(manifest["bodies"], ""), **bodies, **families}


def arguments(name: str, known: Mapping[str, str], root: Path = ROOT) -> list[str]:
    """The files of tests/kernels that are named after it; else those of its family that mention
    it, and of their cases those with the name; else all of its family; ValueError for no test."""
    if name not in known:
        raise ValueError(f"there is no kernel, body or function {name!r}{meant(name, [*known])}")
    folder = root / "tests" / "kernels" / known[name]
    files = {path.relative_to(root).as_posix(): path for path in sorted(folder.rglob("test_*.py"))}
    own = [file for file in files if kernel_of(f"{file}::", known) == name]
    if own:
        return own
    word = re.compile(rf"\b{re.escape(name)}\b")
    found = [file for file, path in files.items() if word.search(path.read_text(encoding="utf-8"))]
    if not found and not known[name]:
        raise ValueError(f"no file in tests/kernels mentions {name}")
    return [*found, "-k", name] if found else [*files]


def main() -> int:
    try:
        print(*arguments(sys.argv[1], names()), sep="\n")
    except ValueError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
