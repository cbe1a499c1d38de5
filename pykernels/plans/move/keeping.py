"""The bits of an element that say whether it is zero."""

from __future__ import annotations

from pykernels.tensors.layout import View

__all__ = ["keep"]

ALL = (1 << 32) - 1


def keep(src: View) -> tuple[int, int]:
    """A mask, in two words, of the bits that say whether an element is zero: all bits but the signs
    of floats."""
    if src.dtype.kind == "f":
        return (1 << (8 * src.dtype.itemsize - 1)) - 1, 0
    if src.dtype.kind == "c":
        return ALL >> 1, ALL >> 1
    return ALL, ALL
