"""Copies of the checkout that build in a second or two: a few families, nothing generated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["FAMILIES", "ROOT", "run_python", "small_checkout"]

ROOT = Path(__file__).parents[1]
# What tensors need, and what that is made of.
FAMILIES = ("fill", "copy", "random", "rows", "scan", "sort", "move", "quant", "rope", "fft")
LEAVE = shutil.ignore_patterns("_generated", "__pycache__")


def small_checkout(folder: Path, families: Sequence[str] = FAMILIES) -> Path:
    """The package, codegen, these families, and what all tests share."""
    for name in ("codegen", "pykernels"):
        shutil.copytree(ROOT / name, folder / name, ignore=LEAVE)
    for name in ("lib", *families):
        shutil.copytree(ROOT / "kernels" / name, folder / "kernels" / name)
    for name in {p.name for p in (ROOT / "kernels").iterdir()} - {"lib", *families}:
        for room in ("bench/cases", "functional", "gradients", "reference"):
            for file in (f"{name}.py", f"{name}_*.py"):
                for path in (folder / "pykernels" / room).glob(file):
                    path.unlink()
        for room in ("export/cases", "plans"):
            shutil.rmtree(folder / "pykernels" / room / name, ignore_errors=True)
    (folder / "tests").mkdir()
    shared = [p for p in (ROOT / "tests").iterdir() if p.suffix in (".py", ".toml")]
    for path in [ROOT / "pyproject.toml", *shared]:
        shutil.copy(path, folder / path.relative_to(ROOT))
    return folder


def run_python(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder, with the package of that folder; warnings are errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **env},
        capture_output=True,
        text=True,
    )
