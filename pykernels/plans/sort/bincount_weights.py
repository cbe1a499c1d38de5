"""bincount_weights: a sort by as many bits as the bins need, then sums over elements of the same
bin."""

from __future__ import annotations

from pykernels._generated.bodies import bincount_sums as body
from pykernels.dtypes import DTYPES
from pykernels.errors import LimitError, ShapeError
from pykernels.plans.limits import MAX_ROUNDS
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

from .sorted_index import sorted_index

__all__ = ["plan"]

SHARE = body.CONFIGS["each4"]


def plan(caps: Caps, scratch: Scratch, x: View, weights: View, dst: View) -> list[Step]:
    """The dispatches of a sort and one more."""
    if x.ndim != 1 or dst.ndim != 1:
        raise ShapeError(
            f"[bincount_weights] x and dst must have one axis but have shapes {x.shape} and "
            f"{dst.shape}"
        )
    length = x.size
    if length > MAX_ROUNDS * SHARE.UNROLL * SHARE.threads:
        raise LimitError(
            f"[bincount_weights] x must have at most {MAX_ROUNDS * SHARE.UNROLL * SHARE.threads} "
            f"elements but has {length}"
        )
    if dst.size == 0 and length == 0:
        return []
    if dst.size == 0:
        raise ShapeError("[bincount_weights] dst must have bins for x but has none")
    # A bin gets one invocation for each four elements that bins have on average, and in any case
    # enough invocations for a bin that has all elements.
    each = max(cdiv(length, SHARE.UNROLL * dst.size), cdiv(length, SHARE.UNROLL * MAX_ROUNDS), 1)
    bits = min((each - 1).bit_length(), SHARE.threads.bit_length() - 1)
    watch = Watch("x", dst.size, x.shape, x.shape)
    if length == 0:  # these views are bound, but the body does not read them
        none = scratch.empty((1,), "uint32")
        weights = scratch.empty((1,), "float32")
        return [body.step(caps, none, none, weights, dst, length=0, lane_bits=bits)]
    steps, keys, order = sorted_index(caps, scratch, x, 0, dst.size, watch)
    items = order.with_layout(order.shape, order.strides, DTYPES["uint32"])
    return [*steps, body.step(caps, keys, items, weights, dst, length=length, lane_bits=bits)]
