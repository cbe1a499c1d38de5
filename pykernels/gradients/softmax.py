"""Softmax of l = scale * x + slope * mask, and its logarithm; sums run over a row.

softmax: dl = y * (dy - sum(dy * y)); log_softmax: dl = dy - exp(y) * sum(dy) where y is finite. The
sink's weight is 1 minus the sum of the row. This weight is not part of the result, so it has no dy.
"""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels.functional.attention_plain import alibi_slopes
from pykernels.functional.elementwise import elementwise
from pykernels.tape import Taped, reads

from ._plain import plainly


@reads("dst")
def softmax(call: Taped) -> None:
    y, dy, scale = call.saved("dst"), call.dy(), call.scalar("scale")
    if y.ndim == 0:  # the softmax of a row of one element is constant
        y, dy = y[None], dy[None]
    if call.scalar("log"):
        if call.shape("mask") is not None:
            dy = elementwise("where(y == -inf, 0, dy)", y=y, dy=dy)
        total = F.sum(dy, axis=-1, keepdims=True)
        logits: Any = elementwise("dy - exp(y) * total", y=y, dy=dy, total=total)
        weights = F.exp(y) if call.wants("sinks") else y
    else:
        total = F.sum(y * dy, axis=-1, keepdims=True) if call.wants("sinks") else dy
        logits = F.softmax_backward(y, dy)
        weights = y
    call.give("x", (logits if scale == 1 else logits * scale).reshape(call.shape("x") or ()))
    if call.wants("mask"):
        call.give("mask", _times_slopes(call, logits))
    if call.wants("sinks"):
        missing = 1 - F.sum(weights, axis=-1, keepdims=True)
        rows = -missing * total
        per_head = (a for a in range(rows.ndim) if a != rows.ndim - 3)
        call.give("sinks", F.sum(rows, axis=tuple(per_head)).reshape(call.shape("sinks") or ()))


log_softmax = softmax


def _times_slopes(call: Taped, logits: Any) -> Any:
    """The gradient of the mask, which is multiplied by the slopes of heads and added to logits."""
    bias = call.scalar("max_bias")
    if not bias:
        return logits
    heads = logits.shape[-3] if logits.ndim > 2 else 1
    slopes = alibi_slopes(logits.device, heads, bias)
    return logits * (slopes if logits.ndim > 2 else slopes.reshape(()))


@reads("y", "dy")
def softmax_backward(call: Taped) -> None:
    scale = call.scalar("scale")

    def compute(y: Any, dy: Any) -> dict[str, Any]:
        along = F.sum(dy * y, axis=-1, keepdims=True)
        return {"dst": elementwise("s * y * (dy - along)", y=y, dy=dy, along=along, s=scale)}

    plainly(call, compute, "y", "dy")
