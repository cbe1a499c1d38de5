"""The rules of convolutions and their gradients: signals are images of one row."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pykernels.call.arrays import Call
from pykernels.call.operation import Made
from pykernels.device import Tensor
from pykernels.errors import ArgumentError
from pykernels.plans.conv.geometry import check_group, geometry, pair, transposed_size

from .images import Images, single

__all__ = ["bias_gradient", "forward", "input_gradient", "transpose", "weight_gradient"]


Sides: TypeAlias = int | tuple[int, int]
Edges: TypeAlias = Sides | tuple[int, int, int, int] | Literal["same", "valid"]


def _windows(op: str, axes: int, stride: Sides, padding: Edges, dilation: Sides) -> dict[str, Any]:
    """The options for the kernel; a signal counts as an image of one row."""
    if axes == 2:
        return {"stride": stride, "padding": padding, "dilation": dilation}
    edges = single(op, "padding", padding)
    return {
        "stride": (1, single(op, "stride", stride)),
        "padding": edges if isinstance(edges, str) else (0, edges),
        "dilation": (1, single(op, "dilation", dilation)),
    }


def forward(
    call: Call, x: Tensor, w: Tensor, residual: Tensor | None, stride: Sides, padding: Edges,
    dilation: Sides, layout: str, axes: int,
) -> Made:  # fmt: skip
    """The rule of conv2d and conv1d."""
    images = Images(call, axes, layout)
    tx, tw = images.of("x", x), images.weights("w", w)
    options = _windows(call.op, axes, stride, padding, dilation)
    g = geometry(call.op, (tw.shape[2], tw.shape[3]), **options)
    size = g.output(call.op, images.size(tx))
    result = images.result(images.of_size(tw.shape[0], size, tx), x, w)
    more = images.spread("residual", residual, result)
    views = {"x": tx, "w": tw, "residual": more, "dst": images.full(result)}
    return Made({"dst": result}, views, options)


def transpose(
    call: Call, x: Tensor, w: Tensor, stride: Sides, padding: Edges, output_padding: Sides,
    dilation: Sides, groups: int, layout: str, axes: int,
) -> Made:  # fmt: skip
    """The rule of conv_transpose2d and conv_transpose1d."""
    if isinstance(padding, str):
        raise ArgumentError(f"[{call.op}] padding must be integers but is {padding!r}")
    images = Images(call, axes, layout)
    tx, tw = images.of("x", x), images.weights("w", w)
    options = _windows(call.op, axes, stride, padding, dilation)
    if axes == 1:
        output_padding = (0, single(call.op, "output_padding", output_padding))
    g = geometry(call.op, (tw.shape[2], tw.shape[3]), **options)
    more = pair(call.op, "output_padding", output_padding, 0)
    size = transposed_size(call.op, images.size(tx), g, more)
    channels = tw.shape[1] * check_group(call.op, groups, {})
    result = images.result(images.of_size(channels, size, tx), x, w)
    options["output_padding"] = output_padding
    return Made({"dst": result}, {"x": tx, "w": tw, "dst": images.full(result)}, options)


def input_gradient(
    call: Call, dy: Tensor, w: Tensor, input_size: tuple[int, ...], stride: Sides, padding: Edges,
    dilation: Sides, layout: str, axes: int,
) -> Made:  # fmt: skip
    """The rule of the gradient of a convolution's images."""
    images = Images(call, axes, layout)
    ty, tw = images.of("dy", dy), images.weights("w", w)
    options = _windows(call.op, axes, stride, padding, dilation)
    result = images.result(images.checked_size("input_size", input_size, True), dy, w)
    return Made({"dst": result}, {"dy": ty, "w": tw, "dst": images.full(result)}, options)


def weight_gradient(
    call: Call, dy: Tensor, x: Tensor, weight_size: tuple[int, ...], stride: Sides, padding: Edges,
    dilation: Sides, layout: str, axes: int,
) -> Made:  # fmt: skip
    """The rule of the gradient of a convolution's weights."""
    images = Images(call, axes, layout)
    ty, tx = images.of("dy", dy), images.of("x", x)
    options = _windows(call.op, axes, stride, padding, dilation)
    result = images.result(images.checked_size("weight_size", weight_size, False), dy, x)
    dst = images.weights("out", result)
    return Made({"dst": result}, {"dy": ty, "x": tx, "dst": dst}, options)


def bias_gradient(call: Call, dy: Tensor, layout: str, axes: int) -> Made:
    """The rule of the gradient of a convolution's bias."""
    images = Images(call, axes, layout)
    ty = images.of("dy", dy)
    channels = ty.shape[3 if layout == "NHWC" else 1]
    return Made({"dst": images.result((channels,), dy)}, {"dy": ty})
