"""Operands of products on matrix units: 16-byte units of eight halves. Operands that are
not in such units are copied."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.plans.copy.padded import padded
from pykernels.plans.mma import UNIT, words
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .product import contiguous_rows, transposed

__all__ = ["Operand", "halves"]


class Operand(NamedTuple):
    """An operand as words of two halves: the view, True if k is the axis of its rows, and the steps
    that make the view."""

    view: View
    k_rows: bool
    steps: list[Step]


def halves(caps: Caps, scratch: Scratch, v: View, k_rows: bool = False) -> Operand:
    """An operand in the form that gemm_mma reads; if `k_rows`, k is the axis of its rows. The
    operand is copied if it has no units of eight halves."""
    k_last = v.vectorizable(UNIT) and not k_rows
    if v.dtype.itemsize == 2 and (k_last or transposed(v).vectorizable(UNIT)):
        return Operand(words(v if k_last else transposed(v)), not k_last, [])
    flip = k_rows or (contiguous_rows(transposed(v)) and not contiguous_rows(v))
    copy, steps = padded(caps, scratch, transposed(v) if flip else v, UNIT, "float16")
    return Operand(words(copy), flip, steps)
