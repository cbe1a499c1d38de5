"""Writes rows to caches of keys and values in blocks, and copies such caches."""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.kernels import cpy as _cpy
from pykernels._generated.kernels import quantize as _quantize
from pykernels._generated.kernels import rope_append_quant as _append
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plans.quant.rope_append_quant import kept
from pykernels.plans.quant.types import type_of
from pykernels.runtime.launch import run
from pykernels.steps import Kernel
from pykernels.tensors.quantised import QTensor

__all__ = ["append_blocks", "copy_blocks", "renamed", "set_block_rows"]


def renamed(kernel: Kernel, op: str, **names: str) -> Kernel:
    """The kernel under the name `op`, with renamed arguments; errors then show these names."""
    args = tuple([replace(a, name=names.get(a.name, a.name)) for a in kernel.args])
    return replace(kernel, name=op, args=args)


_SET_ROWS = renamed(_append.KERNEL, "set_rows", x="src", positions="index")
_COPYTO = renamed(_quantize.KERNEL, "copyto", x="src")


def append_blocks(
    x: Tensor, positions: Tensor, table: Tensor, cache: QTensor, queries: Tensor, style: str
) -> None:
    """rope_append for x (..., heads, tokens, width) and a cache in blocks."""
    kept("rope_append", cache.type)
    heads = x.shape[-3] - queries.shape[-3]
    want = (*x.shape[:-3], heads, *cache.shape[-2:-1], x.shape[-1])
    if cache.shape != want or heads < 2 or heads % 2:
        raise ShapeError(
            f"[rope_append] cache must be {(*want[:-3], 'heads of keys and values', 'room')} and "
            f"{x.shape[-1]} numbers for x of shape {x.shape}, with as many heads of keys as of "
            f"values, but has {cache.shape}"
        )
    tensors = (x, positions, table, cache.scales, cache.low, queries)
    run(_append.KERNEL, tensors, (), (style, cache.type, cache.shape[-2], True))


def set_block_rows(src: Array, index: Array, dst: QTensor, check: bool) -> None:
    """set_rows for a cache in blocks."""
    kept("set_rows", dst.type)
    call = Call(_SET_ROWS, src, index, None, dst.scales)
    rows, places = call.tensor("src", src), call.tensor("index", index)
    if rows.ndim < 2 or (*rows.shape[:-2], *dst.shape[-2:-1], rows.shape[-1]) != dst.shape:
        raise ShapeError(
            "[set_rows] src and dst must have two or more axes, all but the rows the same, but "
            f"have shapes {rows.shape} and {dst.shape}"
        )
    if rows.dtype not in FLOATS:
        told = "float32, float16 or bfloat16"
        raise DTypeError(f"[set_rows] src must be {told} but is {rows.dtype}")
    try:
        places = places.broadcast_to(rows.shape[:-1])
    except ValueError:
        raise ShapeError(
            f"[set_rows] index must repeat to {rows.shape[:-1]} but has shape {places.shape}"
        ) from None
    # The kernel gives all heads of a batch the same positions. Here each matrix has its own
    # positions, so each counts as a batch of one head.
    one = rows.reshape((*rows.shape[:-2], 1, *rows.shape[-2:]))
    none = dst.device.empty((*one.shape[:-3], 0, *one.shape[-2:]), rows.dtype)
    tensors = (one, places, None, dst.scales, dst.low, none)
    run(_append.KERNEL, tensors, (), ("normal", dst.type, dst.shape[-2], check))


def copy_blocks(dst: Tensor | QTensor, src: Array | QTensor) -> None:
    """copyto, if dst or src is a QTensor."""
    if isinstance(src, QTensor) and dst.shape != src.shape:
        raise ShapeError(f"[copyto] src must have shape {dst.shape} but has {src.shape}")
    if not isinstance(dst, QTensor):
        assert isinstance(src, QTensor)
        if dst.dtype in FLOATS:
            src.dequantize_to(dst)
        else:
            run(_cpy.KERNEL, (src.dequantize(), dst))
        return
    type_of("copyto", dst.type)
    if isinstance(src, QTensor):
        if src.type == dst.type:
            for a, b in ((src.low, dst.low), (src.scales, dst.scales), (src.high, dst.high)):
                if a is not None and b is not None:
                    run(_cpy.KERNEL, (a, b))
            return
        src = src.dequantize()
    if not dst.kind.made:
        raise ArgumentError(
            f"[copyto] {dst.type} is read from files and not made of numbers: dst must be of "
            f"another type"
        )
    numbers = Call(_COPYTO, src, dst.scales).tensor("src", src)
    if numbers.dtype not in FLOATS:
        told = "float32, float16 or bfloat16"
        raise DTypeError(f"[copyto] src must be {told} but is {numbers.dtype}")
    try:
        numbers = numbers.broadcast_to(dst.shape)
    except ValueError:
        raise ShapeError(
            f"[copyto] src must broadcast to {dst.shape} but has shape {numbers.shape}"
        ) from None
    run(_quantize.KERNEL, (numbers, dst.scales, dst.high, dst.low), (), (dst.type,))
