"""Kernels of the build and of packages with one more output: a buffer to which their texts write
the first index out of range, or the records of their calls of `debug`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from pykernels.contract import PARAMS_BYTES
from pykernels.steps import Arg, Body, Bound, Caps, Kernel, Scratch, Step
from pykernels.tensors.layout import View
from pykernels.validate._instrument import MEMORY

__all__ = ["NAME", "BodyOf", "telling"]

NAME = MEMORY.removesuffix("_mem")
# Gets a step, the number of members of its Params before the values, and True if Params have room
# for one more member. Returns the body that writes to the buffer; None if the step
# runs unchanged.
BodyOf: TypeAlias = Callable[[Step, int, bool], Body | None]


def telling(kernel: Kernel, body_of: BodyOf) -> Kernel:
    """The kernel with the buffer as its first argument."""

    def plan(caps: Caps, scratch: Scratch, memory: View, *rest: Any) -> list[Step]:
        return [_step(s, memory, body_of) for s in kernel.plan(caps, scratch, *rest)]

    arg = Arg(NAME, "out", ("uint32",), in_place=True)
    return replace(
        kernel, args=(arg, *kernel.args), plan=plan, nbytes=_without_first(kernel.nbytes),
        operations=_without_first(kernel.operations),
    )  # fmt: skip


def _without_first(count: Callable[..., int]) -> Callable[..., int]:
    return lambda memory, *rest, **named: count(*rest, **named)


def _step(step: Step, memory: View, body_of: BodyOf) -> Step:
    members = 1 + len(step.words) + sum(1 + len(b.strides) for b in step.bound)
    scalars = len(step.body.args) + step.body.faults
    # The offset of the buffer is one more member.
    room = 4 * (members + len(step.values) + scalars + 1) <= PARAMS_BYTES
    body = body_of(step, members, room)
    if body is None:
        return step
    return replace(step, body=body, bound=(*step.bound, Bound(NAME, "out", memory, 4, 4)))
