"""Quantised operations: products of bytes are exact in int32, factors are applied in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pykernels as pk
from pykernels import kernels

from ..graph import SMALL_FLOATS, Node, stored_name
from .small_floats import as_small
from .table import kept, op, refuse
from .windows import doubled, edges, pads, spaced

# The smallest and largest value of each dtype.
LIMITS = {
    "int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535),
    "int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3),
}  # fmt: skip


def _spread(node: Node, x: Any, factors: Any) -> Any:
    """Factors or zero points with the axes of x: one for the tensor, one for each position along an
    axis, or one for each block of positions."""
    if factors is None or factors.size == 1:
        return None if factors is None else factors.reshape([1] * x.ndim)
    axis = node.attributes.get("axis", 1) % x.ndim
    block = node.attributes.get("block_size", 0)
    if block:
        whole = pk.repeat(factors, block, axis)
        index = [slice(None)] * x.ndim
        index[axis] = slice(0, x.shape[axis])
        return whole[tuple(index)]
    return factors.reshape([-1 if a == axis else 1 for a in range(x.ndim)])


def _limits(node: Node, place: int = 0) -> tuple[int, int]:
    kind = node.dtypes[place]
    if kind not in LIMITS:
        raise refuse(node, f"dtype {kind}")
    return LIMITS[kind]


def rounded(node: Node, text: str, zero: Any, **operands: Any) -> Any:
    """An expression, rounded to nearest even, plus the zero point, clamped to the dtype of the
    result."""
    low, high = _limits(node)
    operands |= {"lo": low, "hi": high}
    if zero is not None:
        operands["z"], text = zero, f"(round({text}) + float32(z))"
    else:
        text = f"round({text})"
    y = pk.elementwise(f"minimum(maximum({text}, lo), hi)", **operands)
    return y.astype(stored_name(node.dtypes[0]))


@op("QuantizeLinear")
def quantize(node: Node, x: Any, scale: Any, zero: Any = None) -> Any:
    scale, zero = _spread(node, x, scale), _spread(node, x, zero)
    if node.dtypes[0] in SMALL_FLOATS:
        y = pk.elementwise("float32(x) / float32(s)", x=x, s=scale)
        y = y if zero is None else pk.elementwise("y + z", y=y, z=zero)
        return as_small(node, y, node.dtypes[0])
    return rounded(node, "float32(x) / float32(s)", zero, x=x, s=scale)


@op("DequantizeLinear")
def dequantize(node: Node, x: Any, scale: Any, zero: Any = None) -> Any:
    if x.dtype not in ("int8", "uint8", "int16", "uint16", "int32", "float32"):
        raise refuse(node, f"dtype {x.dtype}")
    scale, zero = _spread(node, x, scale), _spread(node, x, zero)
    if x.dtype == "float32":  # stands for a float of few bits
        x = x if zero is None else pk.elementwise("x - z", x=x, z=zero)
        return pk.elementwise("x * float32(s)", x=x, s=scale)
    if zero is None:
        return pk.elementwise("float32(x) * float32(s)", x=x, s=scale)
    return pk.elementwise("float32(int32(x) - int32(z)) * float32(s)", x=x, z=zero, s=scale)


@op("DynamicQuantizeLinear")
def dynamic_quantize(node: Node, x: Any) -> Any:
    low = pk.elementwise("minimum(x, 0.0)", x=pk.min(x))
    high = pk.elementwise("maximum(x, 0.0)", x=pk.max(x))
    scale = pk.elementwise("(b - a) / 255.0", a=low, b=high)
    # An input of zeros has the scale 0, by which nothing is divided.
    text = "minimum(maximum(round(-a / s if s > 0 else 0.0), 0.0), 255.0)"
    zero = pk.elementwise(text, a=low, s=scale).astype("uint8")
    text = "minimum(maximum(round(x / s if s > 0 else 0.0) + float32(z), 0.0), 255.0)"
    return pk.elementwise(text, x=x, s=scale, z=zero).astype("uint8"), scale, zero


# -- products of bytes ----------------------------------------------------------------------------


def _signed(x: Any, zero: Any) -> tuple[Any, Any]:
    """Bytes as int8, and their zero point in int32."""
    if x.dtype == "int8":
        return x, None if zero is None else pk.elementwise("int32(z)", z=zero)
    y = pk.elementwise("int32(x) - 128", x=x).astype("int8")
    if zero is None:
        return y, pk.elementwise("0 * int32(z) - 128", z=x.reshape(-1)[:1])
    return y, pk.elementwise("int32(z) - 128", z=zero)


def _sums(x: Any, axis: int) -> Any:
    return pk.reduction("int32(x)", "sum", axis=axis, keepdims=True, x=x)


def integer_product(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    """(a - a_zero) @ (b - b_zero) in int32, by numpy's rules for leading axes. A zero point is one
    number, or one for each row of a or each column of b."""
    left, right = a.ndim == 1, b.ndim == 1
    a, b = a[None] if left else a, b[:, None] if right else b
    (a, za), (b, zb) = _signed(a, a_zero), _signed(b, b_zero)
    if za is not None and za.size > 1 and za.ndim == 1:
        za = za[:, None]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, inner, cols = a.shape[-2], a.shape[-1], b.shape[-1]
    wide = a.broadcast_to((*batch, rows, inner))
    y = a.device.empty((*batch, rows, cols), "int32")
    kernels.mul_mat_i8(pk.swapaxes(b, -1, -2), wide, y)
    if zb is not None:
        y = pk.elementwise("y - s * z", y=y, s=_sums(a, -1), z=zb)
    if za is not None:
        y = pk.elementwise("y - s * z", y=y, s=_sums(b, -2), z=za)
    if za is not None and zb is not None:
        y = pk.elementwise("y + k * s * z", y=y, k=inner, s=za, z=zb)
    y = y[..., 0, :] if left else y
    return y[..., 0] if right else y


@op("MatMulInteger")
def matmul_integer(node: Node, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return integer_product(a, b, a_zero, b_zero)


@op("QLinearMatMul")
def qlinear_matmul(
    node: Node, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any,
    y_scale: Any, y_zero: Any,
) -> Any:  # fmt: skip
    y = integer_product(a, b, a_zero, b_zero)
    if a_scale.ndim == 1 and a_scale.size > 1:
        a_scale = a_scale[:, None]
    text = "float32(y) * (float32(a) * float32(b) / float32(c))"
    return rounded(node, text, y_zero, y=y, a=a_scale, b=b_scale, c=y_scale)


def _columns(node: Node, x: Any, zero: Any, kernel: tuple[int, int]) -> Any:
    """The windows of images of bytes, (N, C KH KW, places), and the sizes of the result; the
    border has the value of the zero point."""
    rank = 2 + len(node.attributes.get("strides", kernel))
    steps, gaps = (doubled(v, rank, 1) for v in spaced(node, 2))
    top, bottom, left, right = edges(pads(node, x.shape[2:], kernel), 4)
    if top or bottom or left or right:
        widths = ((0, 0), (0, 0), (top, bottom), (left, right))
        inside = np.pad(np.ones((1, 1, *x.shape[2:]), np.bool_), widths)
        x = pk.pad(x, widths)
        if zero is not None:
            at = kept(node, "inside", x.device, inside)
            x = pk.where(at, x, zero.astype("int8").reshape(1, 1, 1, 1))
    sizes = [
        (n - (k - 1) * gap - 1) // step + 1
        for n, k, step, gap in zip(x.shape[2:], kernel, steps, gaps, strict=True)
    ]
    return pk.unfold(x, kernel, dilation=gaps, stride=steps), sizes


def integer_conv(node: Node, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    """A convolution of bytes, summed in int32, as a product with the windows as columns."""
    rank = x.ndim
    if rank != 4:
        raise refuse(node, f"{rank - 2} axes of space")
    (x, zx), (w, zw) = _signed(x, x_zero), _signed(w, w_zero)
    groups, kernel = node.attributes.get("group", 1), (w.shape[2], w.shape[3])
    columns, sizes = _columns(node, x, zx, kernel)
    n, outputs, inner = x.shape[0], w.shape[0], math.prod(w.shape[1:])
    columns = columns.reshape(n, groups, inner, -1)
    w = w.reshape(1, groups, outputs // groups, inner)
    if zw is not None and zw.size > 1:  # a zero point for each output
        zw = zw.reshape(1, groups, outputs // groups, 1)
    # (N, groups, places, outputs): rows of the product are places.
    y = x.device.empty((n, groups, columns.shape[-1], outputs // groups), "int32")
    kernels.mul_mat_i8(w, pk.swapaxes(columns, -1, -2), y)
    y = pk.swapaxes(y, -1, -2)
    if zw is not None:
        y = pk.elementwise("y - s * z", y=y, s=_sums(columns, 2), z=zw)
    if zx is not None:
        zx = zx.reshape(1, 1, 1, 1)
        y = pk.elementwise("y - s * z", y=y, s=_sums(w, 3), z=zx)
    if zx is not None and zw is not None:
        y = pk.elementwise("y + k * s * z", y=y, k=inner, s=zx, z=zw)
    return y.reshape(n, outputs, *sizes)


@op("ConvInteger")
def conv_integer(node: Node, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    return integer_conv(node, x, w, x_zero, w_zero)


@op("QLinearConv")
def qlinear_conv(
    node: Node, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any,
    y_scale: Any, y_zero: Any, bias: Any = None,
) -> Any:  # fmt: skip
    y = integer_conv(node, x, w, x_zero, w_zero)
    channels = (1, -1, *[1] * (y.ndim - 2))
    if w_scale.size > 1:
        w_scale = w_scale.reshape(channels)
    if bias is not None:
        y = pk.elementwise("y + b", y=y, b=bias.reshape(channels))
    text = "float32(y) * (float32(a) * float32(b) / float32(c))"
    return rounded(node, text, y_zero, y=y, a=x_scale, b=w_scale, c=y_scale)
