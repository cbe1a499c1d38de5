"""`pykernels new` as a function: it writes the files of a new kernel that already runs."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from pykernels.errors import ArgumentError

from ._codegen import part

__all__ = ["write_kernel"]

_REFERENCE = '"""The kernels of this folder in numpy."""\n\nimport numpy as np\n'


def write_kernel(folder: Path, name: str, kind: str) -> list[Path]:
    """Write the files of a kernel of this kind, and return them; ArgumentError if one of them
    exists.

    Args:
        folder: The folder of sources; it is created if it does not exist.
        name: The name of the kernel, its function and its files.
        kind: "row" (a workgroup for each row), "pass" (an invocation for each element) or "tile" (a
            workgroup for each tile, and a plan).
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ArgumentError(f"[new] a kernel has a name like soft_clip, not {name!r}")
    templates = Path(part("folder").__file__).parent / "templates"
    kinds = sorted(p.name for p in templates.iterdir())
    if kind not in kinds:
        raise ArgumentError(f"[new] kind must be {', '.join(kinds)} but is {kind!r}")
    places = {
        "kernel.wgsl": folder / f"{name}.wgsl",
        "plan.txt": folder / "plans" / f"{name}.py",
        "test.txt": folder / "tests" / f"test_{name}.py",
    }
    files = {
        path: (templates / kind / part_).read_text(encoding="utf-8").replace("NAME", name)
        for part_, path in places.items()
        if (templates / kind / part_).is_file()
    }
    reference = folder / "reference.py"
    text = reference.read_text(encoding="utf-8") if reference.is_file() else _REFERENCE
    for path in files:
        if path.exists():
            raise ArgumentError(f"[new] {path.as_posix()} is there already")
    if re.search(rf"^def {name}\(", text, re.MULTILINE):
        raise ArgumentError(f"[new] {reference.as_posix()} has {name} already")
    meaning = (templates / kind / "reference.txt").read_text(encoding="utf-8")
    files[reference] = text.rstrip("\n") + "\n\n\n" + meaning.replace("NAME", name)
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
    return list(files)
