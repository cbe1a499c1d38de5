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
    """Words of two halves: the view, whether k is its row, and the steps that make it."""

    view: View
    k_rows: bool
    steps: list[Step]


def halves(caps: Caps, scratch: Scratch, v: View, k_rows: bool = False) -> Operand:
    """An operand as gemm_mma reads it, with k as its row if `k_rows`. It is copied if units of
    eight halves cannot be read."""
    k_last = v.vectorizable(UNIT) and not k_rows
    if v.dtype.itemsize == 2 and (k_last or transposed(v).vectorizable(UNIT)):
        return Operand(words(v if k_last else transposed(v)), not k_last, [])
    flip = k_rows or (contiguous_rows(transposed(v)) and not contiguous_rows(v))
    copy, steps = padded(caps, scratch, transposed(v) if flip else v, UNIT, "float16")
    return Operand(words(copy), flip, steps)
