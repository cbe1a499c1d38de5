"""Operands of products on matrix units: units of eight halves, copied where there are none."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pykernels.dtypes import DTYPES
from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step, cdiv
from pykernels.plans.copy import cpy

from .product import contiguous_rows, transposed, unique
from .select_mma import UNIT

__all__ = ["Operand", "halves"]


class Operand(NamedTuple):
    """Words of two halves: the view, whether k is its row, and the steps that make it."""

    view: View
    k_rows: bool
    steps: list[Step]


def halves(caps: Caps, scratch: Scratch, v: View, k_rows: bool = False) -> Operand:
    """An operand as gemm_mma reads it, with k as its row if it must be; copied where units of
    eight halves cannot be read."""
    steps: list[Step] = []
    k_last = v.vectorizable(UNIT) and not k_rows
    if v.dtype.itemsize != 2 or not (k_last or transposed(v).vectorizable(UNIT)):
        once = unique(v)
        flip = k_rows or (contiguous_rows(transposed(once)) and not contiguous_rows(once))
        source = transposed(once) if flip else once
        padded = (*source.shape[:-1], cdiv(source.shape[-1], UNIT) * UNIT)
        copy = scratch.empty(padded, "float16")
        steps = cpy.plan(caps, scratch, source, copy.with_layout(source.shape, copy.strides))
        lead = zip(v.shape[:-2], source.shape, copy.strides, strict=False)
        strides = (0 if n != m else step for n, m, step in lead)
        shape = (*v.shape[:-2], *padded[-2:])
        v = copy.with_layout(shape, (*strides, *copy.strides[-2:]))
        return Operand(_words(v), flip, steps)
    return Operand(_words(v if k_last else transposed(v)), not k_last, steps)


def _words(v: View) -> View:
    """Halves in pairs."""
    return replace(
        v, dtype=DTYPES["uint32"], shape=(*v.shape[:-1], v.shape[-1] // 2),
        strides=(*v.strides[:-1], 4),
    )  # fmt: skip
