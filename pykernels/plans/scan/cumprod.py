"""cumprod: running products."""

from __future__ import annotations

from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step

from .running import checked

__all__ = ["plan"]


def plan(caps: Caps, scratch: Scratch, x: View, dst: View) -> list[Step]:
    """One dispatch, or three for long rows."""
    return checked("cumprod", caps, scratch, x, dst, 1)
