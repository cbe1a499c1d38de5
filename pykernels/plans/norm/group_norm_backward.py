"""group_norm_backward: statistics, sums of each channel, and dst."""

from __future__ import annotations

from pykernels.errors import ArgumentError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .channels import check, given, in_groups, sums_of_images
from .statistics import Norm, check_affine, statistics
from .sums import zeros

__all__ = ["plan"]

OP = "group_norm_backward"


def plan(
    caps: Caps, scratch: Scratch, dy: View, x: View, weight: View | None, dweight: View | None,
    dbias: View | None, dst: View, groups: int, eps: float,
) -> list[Step]:  # fmt: skip
    """The dispatches of one call."""
    check(OP, x)
    check_affine(OP, x.shape[1], weight=weight, dweight=dweight, dbias=dbias)
    if groups < 1 or x.shape[1] % groups != 0:
        raise ArgumentError(f"[{OP}] groups must divide {x.shape[1]} channels but is {groups}")
    if x.size == 0:
        return zeros(caps, scratch, dweight, dbias)
    norm = Norm(OP, True, eps)
    steps: list[Step] = []
    x, dy, dst = [in_groups(v, groups) for v in given(caps, scratch, [x, dy, dst], steps)]
    own, known = statistics(caps, scratch, norm, x, tuple(range(2, x.ndim)))
    return [
        *steps,
        *own,
        *sums_of_images(
            caps, scratch, norm, dy, x, known, weight, dweight, dbias, dst, (0, 1), groups
        ),
    ]
