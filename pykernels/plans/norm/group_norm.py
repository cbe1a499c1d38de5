"""group_norm: one pass if registers hold a group, else statistics first."""

from __future__ import annotations

from pykernels.errors import ArgumentError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .channels import check, group_rows, in_groups, normalised
from .statistics import Norm, check_affine, statistics

__all__ = ["plan"]

OP = "group_norm"


def plan(
    caps: Caps, scratch: Scratch, x: View, weight: View | None, bias: View | None, dst: View,
    groups: int, eps: float,
) -> list[Step]:  # fmt: skip
    """The dispatches of one call."""
    check(OP, x)
    check_affine(OP, x.shape[1], weight=weight, bias=bias)
    if groups < 1 or x.shape[1] % groups != 0:
        raise ArgumentError(f"[{OP}] groups must divide {x.shape[1]} channels but is {groups}")
    if x.size == 0:
        return []
    norm = Norm(OP, True, eps)
    x, dst = in_groups(x, groups), in_groups(dst, groups)
    found = group_rows(caps, scratch, norm, x, weight, bias, dst)
    if found is not None:
        return found
    steps, known = statistics(caps, scratch, norm, x, tuple(range(2, x.ndim)))
    return steps + normalised(caps, scratch, norm, x, known, weight, bias, dst, groups)
