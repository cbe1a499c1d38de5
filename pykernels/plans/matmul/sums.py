"""The destination of a product's sums: dst, or scratch for splits of K, which are summed
afterwards."""

from __future__ import annotations

from pykernels._generated.bodies import splitk_reduce
from pykernels.plans.cost import Split
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .product import Product, contiguous_rows, transposed
from .select import reduce_bits

__all__ = ["spread", "summed", "target"]


def target(
    caps: Caps, scratch: Scratch, p: Product, k: Split, direct: bool = False, flips: bool = False
) -> tuple[View, bool, list[Step]]:
    """The destination of the sums: dst, or f32 scratch with the step that finishes them.

    `direct`: the body has texts for every layout of dst. `flips`: the body has texts for a dst
    whose columns are contiguous.
    """
    kinds = (p.a.dtype, p.b.dtype)
    direct |= p.dst.dtype.name == "float32" or kinds == (p.dst.dtype, p.dst.dtype)
    if k.splits == 1 and direct:
        return p.dst, False, []
    flipped = flips and contiguous_rows(transposed(p.dst))
    if flipped:
        p = p.swapped()  # scratch has the memory order of dst, so the sum reads and writes vectors
    partials = scratch.empty((k.splits, *p.dst.shape), "float32")
    return (
        transposed(partials) if flipped else partials,
        True,
        [summed(caps, partials, p, k.splits)],
    )


def summed(caps: Caps, partials: View, p: Product, splits: int) -> Step:
    return splitk_reduce.step(
        caps, partials, p.bias, p.residual, p.dst, splits=splits,
        lane_bits=reduce_bits(caps.tuning, splits, p.dst.size), activation=p.activation,
    )  # fmt: skip


def spread(v: View, out: View) -> View:
    """The view with an axis of splits, as `out` has; the view repeats along this axis."""
    if out.ndim == v.ndim:
        return v
    return v.with_layout((out.shape[0], *v.shape), (0, *v.strides))
