"""The build: it makes validated texts and typed Python modules from kernel sources.

    load (spec.py) -> render (render.py, pykernels.wgsl.head) -> validate -> emit (emit.py)
    -> write (build.py)

The runtime never imports this package. Importing it needs only the standard library; `generate`
needs Jinja2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from .errors import BuildError
from .sources import recorded_hash, source_hash

__all__ = ["BuildError", "generate", "is_fresh"]


def is_fresh(root: Path) -> bool:
    """True if the generated files were made from the present sources."""
    return recorded_hash(root) == source_hash(root)


def generate(
    root: Path,
    *,
    validate: Literal["auto", "require", "skip"] = "auto",
    full: bool = False,
    report: Callable[[str], None] = print,
) -> None:
    """Render, validate and write everything; see `codegen.build.generate`."""
    from .build import generate as run

    run(root, validate=validate, full=full, report=report)
