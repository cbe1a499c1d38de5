"""The state of a random generator."""

from __future__ import annotations

from pykernels.errors import ShapeError
from pykernels.tensors.layout import View

__all__ = ["STATE", "check_state"]

STATE = 6  # words: two of the key, four of the counter


def check_state(op: str, state: View | None) -> None:
    """A generator's state has six words."""
    if state is not None and state.shape != (STATE,):
        raise ShapeError(f"[{op}] state must have shape ({STATE},) but has shape {state.shape}")
