"""The sum or the mean of the losses that a first step has written to a column, with their
weights."""

from __future__ import annotations

from pykernels._generated.bodies import loss_total as body
from pykernels.errors import ArgumentError, ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.parts import narrow
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

__all__ = ["check_outputs", "delivered", "total"]

# The terms that a workgroup adds: at most 64 for each lane, one after the other, so that its sum is
# precise.
TERMS = 64 * body.CONFIGS["terms"].threads


def check_outputs(
    op: str,
    lead: tuple[int, ...],
    stats: View | None,
    total_: View | None,
    dst: View,
    reduction: str,
) -> None:
    """Check the shapes of results for rows of shape `lead`, and the name of the reduction."""
    if not isinstance(reduction, str) or reduction not in ("none", "mean", "sum"):
        raise ArgumentError(
            f"[{op}] reduction must be 'none', 'mean' or 'sum' but is {reduction!r}"
        )
    shape = lead if reduction == "none" else ()
    if dst.shape != shape:
        raise ShapeError(
            f"[{op}] dst must have shape {shape} for reduction {reduction!r} but has {dst.shape}"
        )
    if stats is not None and stats.shape != (*lead, 2):
        raise ShapeError(f"[{op}] stats must have shape {(*lead, 2)} but has {stats.shape}")
    if total_ is not None and (total_.shape != () or reduction == "none"):
        raise ShapeError(
            f"[{op}] total must have shape (), for reduction 'mean' or 'sum', but has "
            f"{total_.shape} for {reduction!r}"
        )


def total(
    caps: Caps,
    scratch: Scratch,
    losses: View,
    sums: View | None,
    dst: View,
    *,
    mean: bool,
) -> list[Step]:
    """Reduce losses (count, 2) in scratch to dst (), f32; several dispatches for many losses.

    The second column has the weight of each loss in the mean; the sum of the weights goes to
    `sums`.
    """
    steps = []
    while losses.shape[0] > TERMS:
        count = losses.shape[0]
        room = scratch.empty((cdiv(count, TERMS), 2), "float32")
        most = max((caps.max_binding - 2 * caps.alignment) // (8 * TERMS), 1)
        for first in range(0, room.shape[0], most):  # as many pieces at a time as one binding holds
            pieces = min(most, room.shape[0] - first)
            some = narrow(losses, 0, first * TERMS, min(pieces * TERMS, count - first * TERMS))
            sums_of = narrow(room, 0, first, pieces)
            steps.append(body.step(caps, some, None, sums_of, depth=TERMS, is_partial=1, is_mean=0))
        losses = room
    last = body.step(caps, losses, sums, dst, depth=TERMS, is_partial=0, is_mean=int(mean))
    return [*steps, last]


def delivered(caps: Caps, scratch: Scratch, dst: View) -> tuple[View, list[Step]]:
    """The tensor for f32 results, and the copy that converts them to the dtype of dst."""
    if dst.dtype.name == "float32":
        return dst, []
    wide = scratch.empty(dst.shape, "float32")
    return wide, cpy.plan(caps, scratch, wide, dst)
