"""rand: each invocation writes four neighbours, as a vector if dst has vectors."""

from __future__ import annotations

from pykernels._generated.bodies import rand as body
from pykernels.plans.fours import pieces
from pykernels.plans.runs import KINDS
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .state import check_state

__all__ = ["plan"]

BITS = {"float32": 24, "float16": 11, "bfloat16": 8}  # bits that the dtype holds exactly


def plan(caps: Caps, scratch: Scratch, state: View | None, dst: View) -> list[Step]:
    """One dispatch, more if dst is larger than a binding; none for an empty dst."""
    check_state("rand", state)
    size, kind, bits = dst.dtype.itemsize, KINDS[dst.dtype.name], BITS[dst.dtype.name]
    return [
        body.step(
            caps, state, view, S=size, V=v, first=first, kind=kind, shift=32 - bits, unit=2.0**-bits
        )
        for view, v, first in pieces(caps, dst)
    ]  # fmt: skip
