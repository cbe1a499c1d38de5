"""batch_norm: one pass with the given statistics of each channel."""

from __future__ import annotations

from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .channels import check, normalised
from .statistics import Norm, Statistics, check_affine, dense, repeat

__all__ = ["plan"]

OP = "batch_norm"


def plan(
    caps: Caps, scratch: Scratch, x: View, mean: View, variance: View, weight: View | None,
    bias: View | None, dst: View, eps: float,
) -> list[Step]:  # fmt: skip
    """The steps: one dispatch for each part."""
    check(OP, x)
    check_affine(OP, x.shape[1], mean=mean, variance=variance, weight=weight, bias=bias)
    if x.size == 0:
        return []
    steps: list[Step] = []
    near = [dense(caps, scratch, v, "float32", steps) or v for v in (mean, variance)]
    pivot, squares = [repeat(v, x.shape, (1,)) for v in near]
    known = Statistics(pivot, None, squares, 1)
    norm = Norm(OP, True, eps)
    return [*steps, *normalised(caps, scratch, norm, x, known, weight, bias, dst, 0)]
