"""Attention: flash_attn_backward, and the gradients of masks and sinks."""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels._generated.operations.matmul import matmul
from pykernels.errors import TapeError
from pykernels.functional.attention_plain import alibi_slopes, plain_form
from pykernels.functional.elementwise import elementwise
from pykernels.runtime.observe import recording
from pykernels.tape import Taped, reads

from ._plain import backward_of, plainly, wide

_NAMES = ("q", "k", "v", "mask")


def _reads(kernel: Any, options: dict[str, Any]) -> set[str]:
    """The rule of flash_attn reads all arguments, because without lse it computes the result
    again."""
    return {arg.name for arg in kernel.args}


@reads(of=_reads)
def flash_attn(call: Taped) -> None:
    names = dict(zip(_NAMES, (call.kernel.args[i].name for i in range(4)), strict=True))
    op = call.kernel.name
    if call.dy("lse") is not None:
        raise TapeError(f"[tape] {op} has no gradient rule for its lse")
    if call.shape("lengths") is not None:
        raise TapeError(f"[tape] {op} has no gradient rule if lengths are given")
    q, k, v, mask = (call.saved(names[n]) for n in _NAMES)
    sinks, o, lse, do = call.saved("sinks"), call.saved("dst"), call.saved("lse"), call.dy()
    options: Any = {n: call.option(n) for n in call.kernel.options}
    if lse is None:
        lse = q.device.empty(q.shape[:3])
        again = q.device.empty(o.shape, o.dtype)
        kernels.flash_attn(q, k, v, again, mask=mask, sinks=sinks, lse=lse, **options)
    del options["precision"]  # only the forward kernel has this option
    if any(call.wants(names[n]) for n in _NAMES[:3]):
        out: Any = call.room(*[names[n] for n in _NAMES[:3]])
        if out == (None, None, None):
            out = None
        else:
            pairs = zip(out, (q, k, v), strict=True)
            out = tuple([q.device.empty(t.shape, t.dtype) if x is None else x for x, t in pairs])
        found = F.flash_attn_backward(
            q, k, v, o, lse, do, mask=mask, sinks=sinks, out=out, **options
        )
        for name, grad in zip(_NAMES[:3], found, strict=True):
            call.give(names[name], grad)
    kept = {"mask": names["mask"], "sinks": "sinks"}
    rest = {n: arg for n, arg in kept.items() if call.wants(arg)}
    if rest and recording():  # the plain form has gradients of second order
        given = {"q": q, "k": k, "v": v, "mask": mask, "sinks": sinks}
        given = {n: wide(t) for n, t in given.items() if t is not None}
        compute = backward_of(plain_form(q.shape, k.shape, options), {n: n for n in rest})
        for n, grad in compute(do, **given).items():
            call.give(rest[n], grad)
        return
    if "mask" in rest:
        call.give(names["mask"], _scores(q, k, v, o, lse, do, mask, options))
    if "sinks" in rest:  # a larger weight of the sink makes the weights of all keys smaller
        each = F.sum(elementwise("float32(o) * float32(do)", o=o, do=do), axis=-1)
        text = "where(lse == -inf, 0, -exp(sinks - lse) * each)"
        rows = elementwise(text, lse=lse, sinks=sinks[:, None], each=each)
        call.give("sinks", F.sum(rows, axis=(0, 2)))


scaled_dot_product_attention = flash_attn


def flash_attn_quant(call: Taped) -> None:
    """Raise: keys and values in blocks have no gradients."""
    raise TapeError(
        f"[tape] {call.kernel.name} has no gradient rule: keys and values must be floats"
    )


def _scores(
    q: Any, k: Any, v: Any, o: Any, lse: Any, do: Any, mask: Any, options: dict[str, Any]
) -> Any:
    """The gradients of the mask, (B, H, S, T): p * (do v^T - sum(do * o)), times the slope of each
    head. All tensors of this computation have the shape (B, H, S, T)."""
    b, heads, s, depth = q.shape
    kv_heads, t = k.shape[1:3]
    scale, cap = options["scale"], options["softcap"]

    def product(left: Any, right: Any, factor: float = 1.0) -> Any:
        # queries that share a KV head become rows of one matrix
        rows = left.reshape(b, kv_heads, -1, left.shape[-1])
        found: Any = matmul(rows, right.swapaxes(-1, -2), scale=factor)
        return found.reshape(b, heads, s, t).astype("float32")

    logits = product(q, k, depth**-0.5 if scale is None else scale)
    logits = elementwise("cap * tanh(x / cap)", x=logits, cap=cap) if cap else logits
    delta = F.sum(elementwise("float32(o) * float32(do)", o=o, do=do), axis=-1, keepdims=True)
    given = {"logits": logits, "mask": mask, "lse": lse[..., None], "back": product(do, v)}
    text = "where(mask == -inf, 0, exp(logits + mask - lse) * (back - delta))"
    if options["max_bias"]:
        text = "where(mask == -inf, 0, slope * exp(logits + slope * mask - lse) * (back - delta))"
        given["slope"] = alibi_slopes(q.device, heads, options["max_bias"])
    found: Any = elementwise(text, **given, delta=delta)
    left, right = options["window"] or (None, None)
    causal = options["causal"]
    if causal:
        found = F.tril(found, 0 if causal == "top-left" else t - s)
    found = found if right is None else F.tril(found, t - s + right)
    return found if left is None else F.triu(found, t - s - left)


@reads("q", "k", "v", "do", "mask", "sinks")
def flash_attn_backward(call: Taped) -> None:
    """The gradients of the plain form, with the S x T matrix. `o` and `lse` follow from q, k and v,
    so they are computed again."""
    outputs = {d: d[1:] for d in ("dq", "dk", "dv") if call.dy(d) is not None}
    options = {n: call.option(n) for n in call.kernel.options}
    plain = plain_form(call.shape("q") or (), call.shape("k") or (), options)
    backward = backward_of(plain, outputs)
    plainly(
        call, lambda do, **given: backward(dy=do, **given), "q", "k", "v", "do", "mask", "sinks"
    )  # fmt: skip
