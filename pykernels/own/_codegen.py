"""Imports the modules of `codegen` under the name `pykernels._codegen`, even in a checkout."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from pykernels.errors import PyKernelsError

__all__ = ["part"]

_NAME = "pykernels._codegen"


def part(name: str) -> Any:
    """A module of codegen; PyKernelsError if a package that it needs is not installed."""
    try:
        if _NAME not in sys.modules and importlib.util.find_spec(_NAME) is None:
            _checkout()
        return importlib.import_module(f"{_NAME}.{name}")
    except ModuleNotFoundError as e:
        if e.name is None or e.name.startswith("pykernels"):
            raise
        raise PyKernelsError(f"[build] {e.name} is not here: pip install {e.name}") from None


def _checkout() -> None:
    """Load `codegen` from a checkout, where it lies beside the package."""
    folder = Path(__file__).resolve().parents[2] / "codegen"
    spec = importlib.util.spec_from_file_location(
        _NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not folder.is_dir():
        raise PyKernelsError("[build] this installation of pykernels has no _codegen")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)
