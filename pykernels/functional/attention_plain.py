"""Attention as products and a softmax, with the S x T matrix. This form supports dropout and
gradients of any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pykernels._generated.functional import softmax
from pykernels._generated.operations.matmul import matmul
from pykernels._generated.operations.move import tril, triu
from pykernels.device import Device, Tensor
from pykernels.runtime.whole import whole

from .elementwise import elementwise
from .random_layers import dropout

__all__: list[str] = []


def plain_form(
    shape: Any, keys: Any, options: dict[str, Any],
    dropped: Callable[[Tensor], Tensor] = lambda weights: weights,
) -> Callable[..., Tensor]:  # fmt: skip
    """A function that computes attention for float32 q and k of these shapes. `dropped` is applied
    to the weights, (B, H, S, T)."""
    b, heads, s, depth = shape
    kv_heads, t = keys[1:3]
    scale, cap = options["scale"], options["softcap"]
    factor = depth**-0.5 if scale is None else scale

    def forward(q: Any, k: Any, v: Any, mask: Any = None, sinks: Any = None) -> Any:
        # queries that share a KV head become rows of one matrix
        rows = q.reshape(b, kv_heads, -1, depth)
        logits: Any = matmul(rows, k.swapaxes(-1, -2), scale=factor).reshape(b, heads, s, t)
        logits = elementwise("cap * tanh(x / cap)", x=logits, cap=cap) if cap else logits
        hidden = _hidden(q.device, options, s, t)
        hidden = hidden if mask is None else mask + hidden
        hidden = hidden.broadcast_to((b, heads, s, t))
        p: Any = softmax(logits, mask=hidden, sinks=sinks, max_bias=options["max_bias"])
        p = dropped(p)
        return matmul(p.reshape(b, kv_heads, -1, t), v).reshape(b, heads, s, -1)

    return forward


@whole
def with_dropout(
    given: Sequence[Any], options: dict[str, Any], *, p: float, seed: int | None,
    state: Tensor | None, out: Tensor,
) -> None:  # fmt: skip
    """Attention of q, k, v, a mask and sinks, with weights that are dropped with probability p. A
    tape keeps the dropped weights."""
    q, k, v = (t if t.dtype == "float32" else t.astype("float32") for t in given[:3])
    mask, sinks = given[3:]
    if mask is not None:
        seen = mask.dtype == "bool"
        mask = elementwise("where(m, 0.0, -inf)" if seen else "float32(m)", m=mask)

    def dropped(weights: Any) -> Any:
        return dropout(weights, p, seed=seed, state=state)

    out[...] = plain_form(q.shape, k.shape, options, dropped)(q, k, v, mask, sinks)


def alibi_slopes(device: Device, heads: int, max_bias: float) -> Tensor:
    """The factor of the mask for each head, float32 (heads, 1, 1) (Press et al. 2021)."""
    whole = 1 << (heads.bit_length() - 1)
    base = 2.0 ** (-max_bias / whole)
    half = 2.0 ** (-max_bias / 2 / whole)
    found = [base ** (h + 1) if h < whole else half ** (2 * (h - whole) + 1) for h in range(heads)]
    return device.tensor(np.array(found, np.float32)).reshape((heads, 1, 1))


def _hidden(device: Any, options: dict[str, Any], s: int, t: int) -> Any:
    """The addend of the logits, (S, T): 0, or -inf for a key that a query may not see."""
    seen: Any = device.ones((s, t))
    left, right = options["window"] or (None, None)
    if options["causal"]:
        seen = tril(seen, 0 if options["causal"] == "top-left" else t - s)
    if right is not None:
        seen = tril(seen, t - s + right)
    if left is not None:
        seen = triu(seen, t - s - left)
    return elementwise("where(seen > 0, 0.0, -inf)", seen=seen)
