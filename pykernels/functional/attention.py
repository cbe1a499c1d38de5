"""flash_attn, and torch's scaled_dot_product_attention on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias

from pykernels._generated.kernels.flash_attn import KERNEL
from pykernels.call.arrays import Array, Call, Known
from pykernels.call.autocast import live, recast, restored
from pykernels.call.scalars import flag, real
from pykernels.device import Tensor
from pykernels.dtypes import DTYPES, FLOATS
from pykernels.errors import ArgumentError, ShapeError
from pykernels.kernels import flash_attn as _flash_attn
from pykernels.plans.attention.arguments import band, dims, number, scale_of
from pykernels.runtime.launch import launch
from pykernels.runtime.observe import recording
from pykernels.tensors.layout import contiguous_layout, expanded
from pykernels.tensors.quantised import QTensor

from .attention_caches import attend_blocks
from .attention_plain import with_dropout
from .random import probability

__all__ = ["flash_attn", "scaled_dot_product_attention"]

Causal: TypeAlias = bool | Literal["top-left", "bottom-right"]
Window: TypeAlias = tuple[int | None, int | None] | None

SDPA = "scaled_dot_product_attention"
_NAMES = {"q": "query", "k": "key", "v": "value", "mask": "attn_mask"}
_SDPA = replace(
    KERNEL, name=SDPA, args=tuple(replace(a, name=_NAMES.get(a.name, a.name)) for a in KERNEL.args)
)
_flash_known: Known = {}
_sdpa_known: Known = {}


def flash_attn(
    q: Array,
    k: Array,
    v: Array,
    *,
    mask: Array | None = None,
    sinks: Array | None = None,
    lengths: Array | None = None,
    scale: float | None = None,
    causal: Causal = False,
    window: Window = None,
    max_bias: float = 0.0,
    softcap: float = 0.0,
    precision: Literal["fast", "high"] | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    state: Tensor | None = None,
    return_lse: bool = False,
    out: Tensor | None = None,
) -> Array | tuple[Array, Array]:
    """Attention: softmax(cap(scale * q k^T) + slope * mask) v, computed in f32.

    If matrix units multiply float16, weights are rounded to float16 before they are multiplied with
    v; lse uses unrounded weights. Memory grows with S and T, but not with S * T. Query i has the
    position p = i + T - S among the keys. A key does not count if an option hides it or its logit
    is -inf. If no key counts for a query, its result is 0 and its lse is -inf.

    Args:
        q: Tensor or numpy array, float32, float16 or bfloat16, (B, H, S, D). D up to 576.
        k: float32, float16 or bfloat16, (B, Hkv, T, D); H is a multiple of Hkv, and each KV head
            serves H / Hkv neighbouring query heads. k and v may also be QTensors of q8_0 or q4_0,
            such as the heads of a cache; then there are no gradients and no dropout. The numbers in
            their blocks are rounded to float16 if matrix units multiply float16.
        v: float32, float16 or bfloat16, (B, Hkv, T, Dv). Dv up to 512.
        mask: float32, float16 or bfloat16, added to the logits; or bool, True where a key may be
            seen. Broadcasts to (B, H, S, T).
        sinks: float32, (H,): one more logit per head, without a value.
        lengths: int32, (B,): the number of keys that count in each batch, as if k, v and the mask
            ended there; p is then i + lengths[b] - S. A length is clamped to 0 .. T. For a length
            of 0 the result is 0 and the lse is -inf. Later keys may have any values. The device
            reads the lengths, so one call serves every position of a growing cache. The gradients
            do not support lengths.
        scale: The factor of q k^T; None is 1 / sqrt(D).
        causal: With True or 'bottom-right', query i sees the keys up to p; with 'top-left', the
            keys up to i.
        window: (left, right): query i sees the keys from p - left to p + right; None is no limit.
        max_bias: For ALiBi, which multiplies the mask by a slope for each head; 0 is no ALiBi.
        softcap: cap(s) is softcap * tanh(s / softcap); 0 is no cap.
        precision: On matrix units, which truncate when they add, 'fast' does not restart long sums
            of float16 values; this may add an error of 0.16 T 2^-23 sum(weight |v|). 'high' and
            None keep the error bound of float32 values. Without matrix units, `precision` changes
            nothing.
        dropout_p: The probability with which a weight becomes 0; the others are divided by
            1 - dropout_p. The gradient uses the same dropped weights. Dropout needs memory for
            S * T weights, and excludes lengths and return_lse.
        seed: The seed of dropout, as in `dropout`.
        state: The random state of dropout, as in `dropout`.
        return_lse: Return (result, lse) with lse (B, H, S), float32: the logarithm of the sum of
            exp(logit), including the sink.
        out: The Tensor to write to; None makes one with q's dtype.

    Returns:
        Numpy arrays if all arguments are numpy arrays, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError, LimitError and the errors of `pykernels.kernels`.
    """
    return_lse = flag("flash_attn", "return_lse", return_lse)
    if isinstance(k, QTensor) or isinstance(v, QTensor):
        if _share("flash_attn", dropout_p):
            raise ArgumentError("[flash_attn] dropout_p excludes keys and values in blocks")
        if precision not in (None, "fast", "high"):
            raise ArgumentError(
                f"[flash_attn] precision must be None, 'fast' or 'high' but is {precision!r}"
            )
        extras = {"mask": mask, "sinks": sinks, "lengths": lengths}
        options = (scale, causal, window, max_bias, softcap)
        return attend_blocks(q, k, v, extras, options, return_lse, out)
    keeps_lse = return_lse or recording()  # a tape records the call, and the gradient needs lse
    drop = _share("flash_attn", dropout_p)
    if live and out is None:
        q, k, v = recast("flash_attn", q, k, v)
    if (
        out is None
        and not drop
        and isinstance(q, Tensor)
        and isinstance(k, Tensor)
        and isinstance(v, Tensor)
        and (mask is None or isinstance(mask, Tensor))
        and (sinks is None or isinstance(sinks, Tensor))
        and (lengths is None or isinstance(lengths, Tensor))
    ):
        known = _flash_known.get((
            q._layout, k._layout, v._layout, None if mask is None else mask._layout,
            None if sinks is None else sinks._layout,
            None if lengths is None else lengths._layout, keeps_lse,
        ))  # fmt: skip
        if known is not None:
            result, lse = q._fresh(known[0]), q._fresh(known[1]) if keeps_lse else None
            _flash_attn(
                q, k, v, result, mask=mask, sinks=sinks, lengths=lengths, lse=lse, scale=scale,
                causal=causal, window=window, max_bias=max_bias, softcap=softcap,
                precision=precision,
            )  # fmt: skip
            return (result, lse) if return_lse and lse is not None else result
    call = Call(KERNEL, q, k, v, mask, sinks, lengths, out=out)
    tq, tk, tv = call.tensor("q", q), call.tensor("k", k), call.tensor("v", v)
    if tq.ndim != 4 or tv.ndim != 4:
        name, t = ("q", tq) if tq.ndim != 4 else ("v", tv)
        raise ShapeError(
            f"[flash_attn] {name} must have four axes (batch, heads, length, depth) but has shape "
            f"{t.shape}"
        )
    dtype = out.dtype if out is not None and out.dtype in FLOATS else tq.dtype
    result = call.out((*tq.shape[:3], tv.shape[3]), dtype)
    if drop:
        if lengths is not None or return_lse:
            raise ArgumentError("[flash_attn] dropout_p excludes lengths and return_lse")
        given: list[Any] = [tq, tk, tv, call.tensor("mask", mask), call.tensor("sinks", sinks)]
        sizes = dims("flash_attn", *given)
        band("flash_attn", sizes, causal, window)
        taken = {
            "scale": scale_of("flash_attn", sizes, scale), "causal": causal, "window": window,
            "max_bias": number("flash_attn", "max_bias", max_bias),
            "softcap": number("flash_attn", "softcap", softcap),
        }  # fmt: skip
        with restored(None):
            with_dropout(given, taken, p=drop, seed=seed, state=state, out=result)
        return call.leave(result)
    lse = call.empty(tq.shape[:3], "float32") if keeps_lse else None
    _flash_attn(
        tq, tk, tv, result, mask=call.tensor("mask", mask), sinks=call.tensor("sinks", sinks),
        lengths=call.tensor("lengths", lengths), lse=lse, scale=scale, causal=causal,
        window=window, max_bias=max_bias, softcap=softcap, precision=precision,
    )  # fmt: skip
    call.remember(_flash_known, result, lse, flags=(keeps_lse,))
    if return_lse and lse is not None:
        return call.leave(result), call.leave(lse)
    return call.leave(result)


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    seed: int | None = None,
    state: Tensor | None = None,
    out: Tensor | None = None,
) -> Array:
    """softmax(scale * query key^T + attn_mask) value, with torch's arguments and rules.

    Args:
        query: Tensor or numpy array, float32, float16 or bfloat16, (..., H, L, E) or (L, E).
        key: float32, float16 or bfloat16, (..., Hkv, S, E); leading axes broadcast.
        value: float32, float16 or bfloat16, (..., Hkv, S, Ev).
        attn_mask: Added to the scores (float32, float16 or bfloat16), or bool, True where a key
            takes part; broadcasts to (..., H, L, S). Not together with is_causal.
        dropout_p: The probability with which a weight becomes 0; the other weights are divided by 1
            - dropout_p. The gradient uses the same dropped weights. Dropout needs memory for L * S
            weights.
        is_causal: True: query i sees the keys 0 .. i, even if L and S differ.
        scale: Factor of the scores; None is 1 / sqrt(E).
        enable_gqa: Hkv may divide H: each KV head serves H / Hkv neighbouring query heads.
        seed: The seed of dropout, as in `dropout`.
        state: The random state of dropout, as in `dropout`.
        out: The Tensor to write to; None makes one with the query's dtype.

    Returns:
        (..., H, L, Ev): a numpy array if all arguments are numpy arrays, else a Tensor. If no key
        takes part for a query, its result is 0.

    Raises:
        ShapeError, DTypeError, ArgumentError, LimitError and the errors of `pykernels.kernels`.
    """
    is_causal = flag(SDPA, "is_causal", is_causal)
    flags = is_causal, flag(SDPA, "enable_gqa", enable_gqa)
    drop = _share(SDPA, dropout_p)
    if is_causal and attn_mask is not None:
        raise ArgumentError(f"[{SDPA}] attn_mask must be None when is_causal is True")
    if scale is not None:
        scale = number(SDPA, "scale", real(SDPA, "scale", scale), least=None)
    if live and out is None:
        query, key, value = recast(SDPA, query, key, value)
    if (
        out is None
        and not drop
        and isinstance(query, Tensor)
        and isinstance(key, Tensor)
        and isinstance(value, Tensor)
        and (attn_mask is None or isinstance(attn_mask, Tensor))
    ):
        extra = None if attn_mask is None else attn_mask._layout
        known = _sdpa_known.get((query._layout, key._layout, value._layout, extra, *flags))
        if known is not None:
            lay, q_lay, k_lay, v_lay, dst, added = known
            result = query._fresh(lay)
            _attend(
                query._with(q_lay), key._with(k_lay), value._with(v_lay),
                None if attn_mask is None else attn_mask._with(added), result._with(dst), scale,
                is_causal,
            )  # fmt: skip
            return result
    call = Call(_SDPA, query, key, value, attn_mask, out=out)
    tensors = [call.tensor(n, a) for n, a in (("query", query), ("key", key), ("value", value))]
    q, k, v = tensors
    for name, t in (("query", q), ("key", k), ("value", v)):
        if t.ndim < 2:
            raise ShapeError(f"[{SDPA}] {name} must have two or more axes but has shape {t.shape}")
    mask = call.tensor("attn_mask", attn_mask)
    lead = _lead(q, k, v, enable_gqa)
    _fit("key", k, (*k.shape[:-1], q.shape[-1]))
    _fit("value", v, (*v.shape[:-2], k.shape[-2], v.shape[-1]))
    dtype = out.dtype if out is not None and out.dtype in FLOATS else q.dtype
    result = call.out((*lead, q.shape[-2], v.shape[-1]), dtype)
    heads = lead[-1:] or (1,)
    grouped = enable_gqa and min(q.ndim, k.ndim, v.ndim) > 2
    kv_heads = (k.shape[-3],) if grouped else heads
    if mask is not None:
        want = (*lead, q.shape[-2], k.shape[-2])
        try:
            mask = mask.broadcast_to(want)
        except ValueError:
            raise ShapeError(
                f"[{SDPA}] attn_mask must broadcast to {want} but has shape {mask.shape}"
            ) from None
    full = [
        t.broadcast_to((*lead[:-1], *h, *t.shape[-2:]))
        for t, h in ((q, heads), (k, kv_heads), (v, kv_heads))
    ]
    if drop:
        four = [t.reshape((-1, *t.shape[-3:])) for t in full]
        if mask is not None:
            mask = mask.reshape((-1, *heads, *mask.shape[-2:]))
        taken = {"scale": scale, "causal": "top-left" if is_causal else False, "window": None,
                 "max_bias": 0.0, "softcap": 0.0}  # fmt: skip
        dst = call.empty((*four[0].shape[:3], v.shape[-1]), "float32")
        with restored(None):
            with_dropout([*four, mask, None], taken, p=drop, seed=seed, state=state, out=dst)
        result[...] = dst.reshape(result.shape)
        return call.leave(result)
    views = _each(full, mask, result[None] if not lead else result, scale, is_causal)
    if len(lead) <= 2:  # the tensors fit one call of the kernel
        call.remember(_sdpa_known, result, *views, flags=flags)
    return call.leave(result)


def _share(op: str, p: object) -> float:
    """Check the probability of dropout, and return it; the usual 0 skips the check."""
    if type(p) is float and p == 0.0:
        return 0.0
    return probability(op, p, "dropout_p")  # type: ignore[arg-type]


def _lead(q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool) -> tuple[int, ...]:
    """The leading axes of the result; with `enable_gqa` the last of them has the query's heads."""
    shapes = [t.shape[:-2] for t in (q, k, v)]
    if enable_gqa and all(len(s) > 0 for s in shapes):
        heads, kv = q.shape[-3], {k.shape[-3], v.shape[-3]}
        if len(kv) != 1 or min(kv) == 0 or heads % min(kv):
            raise ShapeError(
                f"[{SDPA}] the heads of key and value must be equal and divide the query's, "
                f"{heads}, but are {k.shape[-3]} and {v.shape[-3]}"
            )
        shapes = [(*s[:-1], heads) for s in shapes]
    try:
        return expanded(*shapes)
    except ValueError:
        hint = "" if enable_gqa else " (enable_gqa=True lets KV heads be shared)"
        raise ShapeError(
            f"[{SDPA}] the leading axes must broadcast{hint} but the shapes are {q.shape}, "
            f"{k.shape} and {v.shape}"
        ) from None


def _fit(name: str, t: Tensor, shape: tuple[int, ...]) -> None:
    if t.shape != shape:
        raise ShapeError(f"[{SDPA}] {name} must have shape {shape} but has shape {t.shape}")


def _each(
    tensors: list[Tensor], mask: Tensor | None, result: Tensor, scale: float | None, causal: bool
) -> tuple[Tensor | None, ...]:
    """Make one call for every index of the axes before the batch. Heads without a batch axis count
    as one batch. Returns the tensors of the last call."""
    if result.ndim > 4:
        views: tuple[Tensor | None, ...] = ()
        for i in range(result.shape[0]):
            views = _each([t[i] for t in tensors], mask if mask is None else mask[i], result[i],
                          scale, causal)  # fmt: skip
        return views
    q, k, v, dst = (t[None] if t.ndim == 3 else t for t in (*tensors, result))
    if mask is not None and mask.ndim < 4:
        mask = mask[(None,) * (4 - mask.ndim)]
    _attend(q, k, v, mask, dst, scale, causal)
    return q, k, v, dst, mask


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dst: Tensor, scale: float | None,
    causal: bool,
) -> None:  # fmt: skip
    """flash_attn, with errors that name scaled_dot_product_attention and its arguments."""
    options = (scale, "top-left" if causal else False, None, 0.0, 0.0, None)
    lse = None
    if recording():  # a tape records the call, and the gradient needs lse
        lse = q._fresh(contiguous_layout(q.shape[:3], DTYPES["float32"]))
    tensors = (q, k, v, mask, None, None, lse, dst)
    places = [None if t is None else t._location for t in tensors]
    launch((_SDPA, options, *places), tensors, ())
