"""The gradients of flash_attn."""

from __future__ import annotations

from pykernels._generated.kernels.flash_attn_backward import KERNEL
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.errors import ArgumentError
from pykernels.kernels import flash_attn_backward as _flash_attn_backward
from pykernels.runtime.whole import whole

from .attention import Causal, Window

__all__ = ["flash_attn_backward"]


@again
@whole
def flash_attn_backward(
    q: Array,
    k: Array,
    v: Array,
    o: Array,
    lse: Array,
    do: Array,
    *,
    mask: Array | None = None,
    sinks: Array | None = None,
    scale: float | None = None,
    causal: Causal = False,
    window: Window = None,
    max_bias: float = 0.0,
    softcap: float = 0.0,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> tuple[Array, Array, Array]:
    """The gradients (dq, dk, dv) of sum(do * flash_attn(q, k, v, ...)), summed in f32.

    Give the arguments of the forward call again, with its result `o` and its log-sum-exp `lse`.
    dk and dv are sums over the query heads of their KV head. A query that sees no key has a
    gradient of 0, and adds 0 to dk and dv. mask and sinks have no gradients here.

    Args:
        q: Tensor or numpy array, float32, float16 or bfloat16, (B, H, S, D).
        k: float32, float16 or bfloat16, (B, Hkv, T, D); H is a multiple of Hkv.
        v: float32, float16 or bfloat16, (B, Hkv, T, Dv).
        o: float32, float16 or bfloat16, (B, H, S, Dv): the result of the forward call.
        lse: float32, (B, H, S): the forward call's log-sum-exp.
        do: float32, float16 or bfloat16, (B, H, S, Dv): the gradient with respect to o.
        mask: float32, float16 or bfloat16, added to the scores, or bool, True where a key may be
            seen; broadcast to (B, H, S, T).
        sinks: float32, (H,): as in the forward call; lse includes their effect.
        scale: Factor of q.k; None is 1 / sqrt(D).
        causal: With True, query i sees the keys 0 to i + T - S; with 'top-left', the keys 0 to i.
        window: (left, right): query i sees the keys i + T - S - left to i + T - S + right.
        max_bias: For ALiBi, whose slopes multiply the mask; 0 is no ALiBi.
        softcap: Scores become softcap * tanh(score / softcap); 0 is no cap.
        out: The Tensors to write to, float32, float16 or bfloat16; None makes them, each with the
            shape and dtype of its argument.

    Returns:
        numpy arrays if all arguments are numpy arrays, else Tensors.

    Raises:
        DTypeError, ShapeError, ArgumentError, LimitError and the errors of `pykernels.kernels`.
    """
    if out is not None and (not isinstance(out, tuple) or len(out) != 3):
        raise ArgumentError(
            "[flash_attn_backward] out must be a tuple of three Tensors but is "
            f"{type(out).__name__}"
        )
    first = None if out is None else out[0]
    call = Call(KERNEL, q, k, v, o, lse, do, mask, sinks, out=first)
    q, k, v = call.tensor("q", q), call.tensor("k", k), call.tensor("v", v)
    dq, dk, dv = out or (call.out(t.shape, t.dtype) for t in (q, k, v))
    _flash_attn_backward(
        q,
        k,
        v,
        call.tensor("o", o),
        call.tensor("lse", lse),
        call.tensor("do", do),
        dq,
        dk,
        dv,
        mask=call.tensor("mask", mask),
        sinks=call.tensor("sinks", sinks),
        scale=scale,
        causal=causal,
        window=window,
        max_bias=max_bias,
        softcap=softcap,
    )
    return call.leave(dq), call.leave(dk), call.leave(dv)
