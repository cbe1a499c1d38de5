"""A user's folder of kernel sources: its files and their hash.

It needs only the standard library, so that a generated package loads without Jinja2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pykernels._version import __version__

__all__ = ["FIRST", "MARK", "hash_of", "hash_of_build", "library", "read", "sources_of"]

FIRST = "// /// kernel"  # the first line of a kernel source
MARK = "manifest.json"  # a file that every generated package has
_OTHERS = ("lib/**/*.wgsl", "blocks.toml", "plans/*.py", "reference.py", "tuning/*.toml")


def sources_of(folder: Path) -> list[Path]:
    """The files of a folder that a package is made from."""
    kernels = [p for p in folder.glob("*.wgsl") if _is_kernel(p)]
    others = [p for pattern in _OTHERS for p in folder.glob(pattern) if p.name != "__init__.py"]
    return sorted([*kernels, *others])


def _is_kernel(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().strip() == FIRST


def read(path: Path) -> str:
    """The text of a file, which may have any kind of line ends."""
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")


def hash_of(folder: Path, found: Sequence[Path]) -> str:
    """sha256 over the sources and the version of the reader."""
    digest = hashlib.sha256(__version__.encode() + b"\0")
    for path in found:
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()


def hash_of_build() -> str:
    """sha256 over the code that makes packages: the files of this folder, and the libraries."""
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("*.py"), *library().rglob("*.*")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def library() -> Path:
    """The folder `kernels/lib`. In an installed package it lies in this folder, in a checkout
    beside this folder."""
    here = Path(__file__).resolve().parent
    return here / "lib" if (here / "lib").is_dir() else here.parent / "kernels" / "lib"
