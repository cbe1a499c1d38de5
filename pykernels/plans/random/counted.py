"""Draws that advance their state: one more step follows the kernel's own steps."""

from __future__ import annotations

import functools
from dataclasses import replace

from pykernels._generated.bodies import random_advance
from pykernels.steps import Caps, Kernel, Scratch, Step
from pykernels.tensors.layout import View

__all__ = ["counted"]


@functools.cache
def counted(kernel: Kernel) -> Kernel:
    """A kernel whose calls also advance their state, by the number of blocks in their last scalar.

    So no call of another thread draws the same numbers. The state must not share memory with dst.
    """
    at = next(i for i, arg in enumerate(kernel.args) if arg.name == "state")

    def plan(caps: Caps, scratch: Scratch, *views: View | None) -> list[Step]:
        own, state = kernel.plan(caps, scratch, *views), views[at]
        assert state is not None
        return [*own, random_advance.step(caps, state)] if own else []

    args = list(kernel.args)
    args[at] = replace(args[at], role="out", optional=False, in_place=True)
    return replace(kernel, args=tuple(args), scalars=(*kernel.scalars, "blocks"), plan=plan)
