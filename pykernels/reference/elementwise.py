"""The operations of kernels/elementwise/ops.toml, by name; NAME_budget is the budget of an
operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykernels._generated.ops.elementwise import OPS

__all__ = ["OPS"]


def __getattr__(name: str) -> Callable[..., Any]:
    if name in OPS:
        return OPS[name].reference
    kernel = name.removesuffix("_budget")
    if kernel != name and kernel in OPS:
        return OPS[kernel].budget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
