"""What all steps ask of their arguments."""

from __future__ import annotations

from pykernels.errors import DTypeError, ShapeError
from pykernels.layout import View

__all__ = ["check_gradient", "check_one"]


def check_gradient(op: str, grad: View, param: View) -> None:
    """A float16 gradient is one of a float16 param."""
    if grad.dtype.name == "float16" and param.dtype.name != "float16":
        raise DTypeError(f"[{op}] grad must be float32 for a param of {param.dtype.name} but is "
                         f"{grad.dtype.name}")  # fmt: skip


def check_one(op: str, name: str, view: View | None) -> None:
    """A number on the device has one element."""
    if view is not None and view.size != 1:
        raise ShapeError(f"[{op}] {name} must have one element but has shape {view.shape}")
