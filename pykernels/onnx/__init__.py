"""Networks from ONNX files on a device: see docs/guide/models.md.

Needs the package onnx: `pip install onnx`. Importing this module does not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykernels.lazy import load as _load_module

from .errors import ModelError

if TYPE_CHECKING:
    from .backend import Backend
    from .model import Model, load, load_plan
    from .session import InferenceSession
    from .shapes import Value

__all__ = ["Backend", "InferenceSession", "Model", "ModelError", "Value", "load", "load_plan"]

_HOMES = {
    "Backend": "backend", "InferenceSession": "session", "Model": "model", "Value": "shapes",
    "load": "model", "load_plan": "model",
}  # fmt: skip


if not TYPE_CHECKING:  # hidden from type checkers, which would accept every name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            module = _load_module(f"{__name__}.{_HOMES[name]}")
        except ModuleNotFoundError as e:
            if e.name != "onnx":
                raise
            raise ImportError("onnx is missing: pip install onnx") from e
        value = globals()[name] = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
