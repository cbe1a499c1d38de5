"""Copies in rows of whole vectors, for bodies that load only these."""

from __future__ import annotations

from pykernels.dtypes import DTypeName
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from . import cpy

__all__ = ["padded"]


def padded(
    caps: Caps, scratch: Scratch, v: View, multiple: int, name: DTypeName | None = None
) -> tuple[View, list[Step]]:
    """A copy of v, with dtype `name` if it is given, and the steps that make the copy.

    Rows are the last axis. Their length is padded to a multiple of `multiple`; the padding is
    uninitialised. An axis along which the view repeats is copied once, and the copy repeats along
    it, too.
    """
    lead = (1 if step == 0 else n for n, step in zip(v.shape[:-1], v.strides, strict=False))
    once = v.with_layout((*lead, v.shape[-1]), v.strides)
    rows = scratch.empty(
        (*once.shape[:-1], cdiv(v.shape[-1], multiple) * multiple), name or v.dtype.name
    )
    steps = cpy.plan(caps, scratch, once, rows.with_layout(once.shape, rows.strides))
    return rows.broadcast_to((*v.shape[:-1], rows.shape[-1])), steps
