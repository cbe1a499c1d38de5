"""The checks of arguments that all steps share."""

from __future__ import annotations

from pykernels.errors import ShapeError
from pykernels.tensors.layout import View

__all__ = ["SETTINGS", "check_one", "check_settings"]

SETTINGS = 15  # numbers in the settings of `optimizer_step` and `optimizer_count`


def check_one(op: str, name: str, view: View | None) -> None:
    """ShapeError if a number on the device does not have one element."""
    if view is not None and view.size != 1:
        raise ShapeError(f"[{op}] {name} must have one element but has shape {view.shape}")


def check_settings(op: str, view: View | None, count: int) -> None:
    """ShapeError if settings on the device are not `count` numbers."""
    if view is not None and view.shape != (count,):
        raise ShapeError(f"[{op}] settings must have shape ({count},) but has shape {view.shape}")
