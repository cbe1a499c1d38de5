"""What all steps ask of their arguments."""

from __future__ import annotations

from pykernels.errors import ShapeError
from pykernels.layout import View

__all__ = ["check_one"]


def check_one(op: str, name: str, view: View | None) -> None:
    """A number on the device has one element."""
    if view is not None and view.size != 1:
        raise ShapeError(f"[{op}] {name} must have one element but has shape {view.shape}")
