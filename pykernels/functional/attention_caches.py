"""Attention that reads caches of keys and values in blocks."""

from __future__ import annotations

from typing import Any

from pykernels._generated.kernels import flash_attn_quant as _attend
from pykernels.call.arrays import Call
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.quant.rope_append_quant import kept
from pykernels.runtime.launch import run
from pykernels.tensors.host import type_name
from pykernels.tensors.quantised import QTensor

from ._caches import renamed

__all__: list[str] = []

_FLASH_ATTN = renamed(_attend.KERNEL, "flash_attn")


def attend_blocks(
    q: Any, k: Any, v: Any, extras: dict[str, Any], options: tuple[Any, ...], return_lse: bool,
    out: Tensor | None,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """flash_attn for keys and values in blocks. `extras` are mask, sinks and lengths; `options` are
    scale, causal, window, max_bias and softcap."""
    for name, t in (("k", k), ("v", v)):
        if not isinstance(t, QTensor) or t.type != k.type:
            raise DTypeError(
                f"[flash_attn] k and v must both be QTensors of one type but {name} is "
                f"{t.type if isinstance(t, QTensor) else type_name(t)}"
            )
    kept("flash_attn", k.type)
    if k.ndim != 4 or v.ndim != 4 or k.shape[:-1] != v.shape[:-1]:
        raise ShapeError(
            "[flash_attn] k and v must be (batch, heads, length, depth) and agree in all but the "
            f"depth, but have shapes {k.shape} and {v.shape}"
        )
    call = Call(_FLASH_ATTN, q, k.low, None, None, None, *extras.values(), out=out)
    queries = call.tensor("q", q)
    if queries.ndim != 4 or queries.shape[-1] != k.shape[-1] or len(queries) != len(k):
        raise ShapeError(
            f"[flash_attn] q must be (batch, heads, length, depth) for k of shape {k.shape} but "
            f"has shape {queries.shape}"
        )
    dtype = out.dtype if out is not None and out.dtype in FLOATS else queries.dtype
    result = call.out((*queries.shape[:3], v.shape[3]), dtype)
    lse = call.empty(queries.shape[:3], "float32") if return_lse else None
    others = [call.tensor(name, value) for name, value in extras.items()]
    tensors = (queries, k.low, k.scales, v.low, v.scales, *others, lse, result)
    run(_attend.KERNEL, tensors, (), (k.type, k.shape[2], *options))
    return result if lse is None else (result, lse)
