"""conv2d, the gradients of its image, weights and bias, and conv_transpose2d."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from pykernels.bench.case import Case, Operand, Part
from pykernels.bench.onnx import Node, onnx_peer
from pykernels.bench.peers import Skipped, naive_peer, scalar, torch_peer
from pykernels.bench.program import GROUP_ID
from pykernels.bench.shapes import RAGGED, Shape, pick
from pykernels.dtypes import DTypeName

# batch x channels x height x width, filters x height x width, stride, padding, groups
CONVOLUTIONS = [
    Shape("resnet-50-conv1", (16, 3, 224, 224, 64, 7, 7, 2, 3, 1), "ResNet-50: the first layer"),
    Shape("resnet-50-conv2", (16, 64, 56, 56, 64, 3, 3, 1, 1, 1), "ResNet-50: conv2_x"),
    Shape("resnet-50-conv3", (8, 128, 28, 28, 128, 3, 3, 1, 1, 1), "ResNet-50: conv3"),
    Shape("resnet-50-conv4", (16, 256, 14, 14, 256, 3, 3, 1, 1, 1), "ResNet-50: conv4_x"),
    Shape("resnet-50-1x1", (16, 256, 56, 56, 64, 1, 1, 1, 0, 1), "ResNet-50: conv2_x, pointwise"),
    Shape("resnet-50-half", (16, 256, 28, 28, 256, 3, 3, 2, 1, 1), "ResNet-50: into conv4_x"),
    Shape("mobilenet-v2-dw", (16, 144, 56, 56, 144, 3, 3, 1, 1, 144), "MobileNetV2: depthwise"),
    Shape("resnext-50", (16, 128, 56, 56, 128, 3, 3, 1, 1, 32), "ResNeXt-50: conv2_x"),
    Shape("unet-64", (8, 64, 256, 256, 64, 3, 3, 1, 1, 1), "a U-Net's outer layer"),
    Shape("sd-320", (1, 320, 64, 64, 320, 3, 3, 1, 1, 1), "Stable Diffusion: U-Net, 64 x 64"),
    Shape("sd-512", (1, 512, 64, 64, 512, 3, 3, 1, 1, 1), "Stable Diffusion: VAE, 64 x 64"),
    Shape("to-rgb", (8, 64, 128, 128, 3, 3, 3, 1, 1, 1), "the last layer of an image decoder"),
    Shape("ragged-image", (3, 13, 29, 31, 17, 3, 5, 2, 1, 1), RAGGED),
]
# Kernels that lead from a tensor with the shape of the layer's output to a tensor with the shape of
# its input.
BACK = ("conv2d_backward_input", "conv_transpose2d")
# Shapes for which the gradient of the bias, and the gradient of the weights in f16, are measured,
# too.
SOME = ("resnet-50-conv2", "unet-64", "ragged-image")
# Shapes for matrix units in f16; both gradients and channels last are measured, too.
MATRIX = ("resnet-50-conv2", "resnet-50-conv4", "sd-320")
CHANNELS_LAST = ("resnet-50-conv1", "resnet-50-conv2", "unet-64", "mobilenet-v2-dw")
# Shapes for Winograd's transforms, with precision="fast".
TRANSFORMED = ("resnet-50-conv2", "resnet-50-conv3", "resnet-50-conv4")
# number of input and of output channels that are checked in gradients of weights and bias
CHANNELS = 8
_CONV2, _UNET = "16x64x56x56x64x3x3", "8x64x256x256x64x3x3"
MAIN = {
    "conv2d": (
        f"f32-{_CONV2}", f"f16-{_CONV2}", f"f32-{_UNET}", "f32-1x512x64x64x512x3x3",
        "f32-8x128x28x28x128x3x3-fast", "f32-16x256x56x56x64x1x1",
        "f32-16x144x56x56x144x3x3-groups_144",
    ),
    "conv2d_backward_bias": ("f32-8x64x256x256",),
    "conv2d_backward_input": (f"f32-{_CONV2}", f"f32-{_UNET}"),
    "conv2d_backward_weight": (f"f32-{_CONV2}", f"f32-{_UNET}"),
    "conv_transpose2d": (f"f32-{_CONV2}",),
}  # fmt: skip
LAYER = (16, 64, 56, 56, 64, 3, 3)


def layer(kernel: str, shape: tuple[int, ...], dtype: str, out: str) -> Case:
    """A case of the shape (n, c, h, w, o, kh, kw), followed by stride, padding and groups if they
    are given."""
    n, c, h, w, o, kh, kw, *rest = shape
    stride, padding, groups = (*rest, *(1, 0, 1)[len(rest) :])
    image, made = (
        (n, c, h, w),
        (n, o, *((m + 2 * padding - k) // stride + 1 for m, k in ((h, kh), (w, kw)))),
    )
    weight = Operand((o, c // groups, kh, kw), cast(DTypeName, dtype))
    x, y = (Operand(size, weight.dtype) for size in (image, made))
    tensors = {
        "conv2d": {"x": x, "w": weight, "dst": y},
        "conv2d_backward_input": {"dy": y, "w": weight, "dst": x},
        "conv2d_backward_weight": {"dy": y, "x": x, "dst": weight},
        "conv_transpose2d": {"x": y, "w": weight, "dst": x},
    }[kernel]
    tensors["dst"] = replace(tensors["dst"], dtype=cast(DTypeName, out))
    args: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups}
    over = tuple((a + 2 * padding - k) % stride for a, k in ((h, kh), (w, kw)))
    if kernel == "conv_transpose2d" and any(over):
        args["output_padding"] = over
    return Case(
        kernel, tensors, args, shape[:7], note=f"groups {groups}" if groups > 1 else "",
        part=part(kernel, groups),
    )  # fmt: skip


def conv2d(shape: tuple[int, ...] = LAYER, dtype: str = "float32", out: str = "float32") -> Case:
    """See `layer`."""
    return layer("conv2d", shape, dtype, out)


def conv2d_backward_input(
    shape: tuple[int, ...] = LAYER, dtype: str = "float32", out: str = "float32"
) -> Case:
    """See `layer`."""
    return layer("conv2d_backward_input", shape, dtype, out)


def conv2d_backward_weight(
    shape: tuple[int, ...] = LAYER, dtype: str = "float32", out: str = "float32"
) -> Case:
    """See `layer`."""
    return layer("conv2d_backward_weight", shape, dtype, out)


def conv_transpose2d(
    shape: tuple[int, ...] = LAYER, dtype: str = "float32", out: str = "float32"
) -> Case:
    """The transposed convolution of a `layer`, from its output to its input."""
    return layer("conv_transpose2d", shape, dtype, out)


def conv2d_backward_bias(
    shape: tuple[int, ...] = (16, 64, 56, 56), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case of the shape (n, o, h, w), which is the shape of dy."""
    dy = Operand(shape, cast(DTypeName, dtype))
    dst = Operand(shape[1:2], cast(DTypeName, out))
    return Case("conv2d_backward_bias", {"dy": dy, "dst": dst}, {}, shape, part=some_biases)


def channels_last(case: Case) -> Case:
    """conv2d with images (N, H, W, C)."""
    tensors = {
        n: o if n == "w" else replace(o, shape=(o.shape[0], *o.shape[2:], o.shape[1]))
        for n, o in case.tensors.items()
    }
    note = f"{case.note} NHWC".strip()
    return replace(
        case, tensors=tensors, args={**case.args, "layout": "NHWC"}, note=note, part=last_image
    )


def fast(case: Case) -> Case:
    """conv2d with precision="fast"."""
    note = f"{case.note} fast".strip()
    return replace(case, args={**case.args, "precision": "fast"}, note=note)


def last_image(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the last image."""
    image = next(iter(t))
    return {image: t[image][-1:], "w": t["w"], "dst": t["dst"][-1:]}


def few_channels(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: some output channels of the last image."""
    return {"x": t["x"][-1:], "w": t["w"][:16], "dst": t["dst"][-1:, :16]}


def some_weights(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the weights between some input channels and some output channels."""
    some = slice(CHANNELS)
    return {"dy": t["dy"][:, some], "x": t["x"][:, some], "dst": t["dst"][some, some]}


def some_biases(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: some channels."""
    return {"dy": t["dy"][:, :CHANNELS], "dst": t["dst"][:CHANNELS]}


def part(kernel: str, groups: int) -> Part | None:
    """The part of a layer that is checked. The gradient of a weight needs all images, and a group
    needs all of its channels."""
    if kernel == "conv2d_backward_weight":
        return some_weights if groups == 1 else None
    return few_channels if kernel == "conv2d" and groups == 1 else last_image


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(CONVOLUTIONS, edge):
        for case in layers(s):
            yield case.labelled(name=s.name, origin=s.origin)


def layers(s: Shape) -> Iterator[Case]:
    """The cases of all kernels for one layer."""
    for dtype in ("float32", "float16"):
        yield layer("conv2d", s.dims, dtype, dtype)
    if s.name in TRANSFORMED:
        yield fast(layer("conv2d", s.dims, "float32", "float32"))
    if s.name in CHANNELS_LAST:
        yield channels_last(layer("conv2d", s.dims, "float32", "float32"))
    if s.dims[-1] == 1 and s.dims[5] > 1:
        for kernel in BACK:
            yield layer(kernel, s.dims, "float32", "float32")
    yield layer("conv2d_backward_weight", s.dims, "float32", "float32")
    if s.name in (*SOME, *MATRIX):
        yield layer("conv2d_backward_weight", s.dims, "float16", "float16")
    if s.name in MATRIX:
        yield channels_last(layer("conv2d", s.dims, "float16", "float16"))
        yield layer("conv2d_backward_input", s.dims, "float16", "float16")
    if s.name in SOME:
        n, o, size = s.dims[0], s.dims[4], layer("conv2d", s.dims, "float32", "float32").output
        for dtype in ("float32", "float16"):
            yield conv2d_backward_bias((n, o, *size.shape[2:]), dtype, dtype)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    f = torch.nn.functional
    args = {k: v for k, v in case.args.items() if k not in ("layout", "precision")}
    if "layout" in case.args:  # in torch, channels last is only a matter of strides
        if "taps" not in t:
            t["taps"] = t["w"].to(memory_format=torch.channels_last)
        f.conv2d(t["x"].permute(0, 3, 1, 2), t["taps"], **args)
    elif case.kernel == "conv2d":
        f.conv2d(t["x"], t["w"], **args)
    elif case.kernel == "conv_transpose2d":
        f.conv_transpose2d(t["x"], t["w"], **case.args)
    elif case.kernel == "conv2d_backward_weight":
        torch.nn.grad.conv2d_weight(t["x"], t["dst"].shape, t["dy"], **case.args)
    elif case.kernel == "conv2d_backward_bias":
        torch.sum(t["dy"], (0, 2, 3), out=t["dst"])
    else:
        torch.nn.grad.conv2d_input(t["dst"].shape, t["w"], t["dy"], **case.args)


@onnx_peer
def ort(case: Case) -> Node:
    """The layer as a node. The output must have the shape of the input, so that nodes can form a
    chain; other layers are skipped."""
    op = {"conv2d": "Conv", "conv_transpose2d": "ConvTranspose"}.get(case.kernel)
    if op is None:
        raise Skipped("ONNX has no gradients")
    if "layout" in case.args:
        raise Skipped("ONNX has channels first")
    given, w = {"stride": 1, "padding": 0, "groups": 1} | dict(case.args), case.tensors["w"]
    return Node(
        op, "x", ("x", "w"), scale=(3 / math.prod(w.shape[1:])) ** 0.5,
        attributes={
            "strides": [given["stride"]] * 2, "pads": [given["padding"]] * 4,
            "group": given["groups"],
        },
    )  # fmt: skip


@naive_peer
def naive(case: Case) -> tuple[str, int]:
    """A simple kernel: one invocation for each element of the output goes through the taps."""
    if case.kernel != "conv2d" or "layout" in case.args:
        raise Skipped("this peer is written for conv2d with channels first only")
    x, w, dst = case.tensors.values()
    (n, c, h, width), (o, cg, kh, kw), (_, _, oh, ow) = x.shape, w.shape, dst.shape
    given = {"stride": 1, "padding": 0, "groups": 1} | dict(case.args)
    stride, padding, groups = (given[k] for k in ("stride", "padding", "groups"))
    count = n * o * oh * ow
    text = f"""
@group(0) @binding(0) var<storage, read> x: array<{scalar(x)}>;
@group(0) @binding(1) var<storage, read> w: array<{scalar(w)}>;
@group(0) @binding(2) var<storage, read_write> dst: array<{scalar(dst)}>;
{GROUP_ID}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let at = group_id(wg) * 256u + li;
  if (at >= {count}u) {{ return; }}
  let col = at % {ow}u;
  let row = at / {ow}u % {oh}u;
  let channel = at / {oh * ow}u % {o}u;
  let image = at / {o * oh * ow}u;
  let first = channel / {o // groups}u * {cg}u;
  var sum = 0.0f;
  for (var k = 0u; k < {cg}u; k++) {{
    for (var i = 0u; i < {kh}u; i++) {{
      for (var j = 0u; j < {kw}u; j++) {{
        let r = row * {stride}u + i - {padding}u;
        let s = col * {stride}u + j - {padding}u;
        if ((r < {h}u) & (s < {width}u)) {{
          let pixel = ((image * {c}u + first + k) * {h}u + r) * {width}u + s;
          sum = fma(f32(x[pixel]), f32(w[((channel * {cg}u + k) * {kh}u + i) * {kw}u + j]), sum);
        }}
      }}
    }}
  }}
  dst[at] = {scalar(dst)}(sum);
}}
"""
    return text, -(-count // 256)


PEERS = {"torch": torch, "ort": ort, "naive": naive}
