"""memset: one body over bytes, split if a range is larger than one binding."""

from __future__ import annotations

import operator

from pykernels._generated.bodies import memset as memset_body
from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.runs import chunks
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from . import fill

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, dst: View, offset: int = 0, size: int | None = None
) -> list[Step]:
    """The steps that fill the bytes of a contiguous view, or all elements of a strided view."""
    try:
        offset, size = operator.index(offset), None if size is None else operator.index(size)
    except TypeError:
        raise ArgumentError(
            f"[memset] offset and size must be integers but are {offset!r}, {size!r}"
        ) from None
    end = dst.nbytes if size is None else offset + size
    if not 0 <= offset <= end <= dst.nbytes:
        raise ShapeError(f"[memset] bytes {offset} to {end} leave the view of {dst.nbytes} bytes")
    if dst.contiguous:
        parts = chunks(caps, [dst], offset, end - offset)
        return [memset_body.step(caps, part) for (part,) in parts]
    if (offset, end) != (0, dst.nbytes):
        raise ShapeError("[memset] a range of bytes needs a contiguous view")
    return fill.plan(caps, scratch, dst)
