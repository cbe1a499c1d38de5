"""What was built: the generated manifest and texts, read without importing a kernel."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any

from . import Missing

__all__ = ["kernel", "manifest", "read"]


def read(name: str) -> Any:
    """A JSON file of pykernels/_generated."""
    path = importlib.resources.files("pykernels") / "_generated" / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Missing(
            f"pykernels/_generated/{name} is missing: run python -m codegen, or install pykernels"
        ) from None


def manifest() -> dict[str, Any]:
    """Kernels, bodies and variants."""
    found: dict[str, Any] = read("manifest.json")
    return found


def kernel(name: str) -> dict[str, Any]:
    """What the manifest says of one kernel."""
    kernels = manifest()["kernels"]
    if name not in kernels:
        raise Missing(f"there is no kernel {name!r}; there are {', '.join(sorted(kernels))}")
    found: dict[str, Any] = kernels[name]
    return found
