"""conv2d, its gradients by image, weights and bias, and conv_transpose2d."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

from bench import form, shapes
from bench.others import GROUP_ID, Node, Skipped, naive_peer, onnx_peer, scalar, torch_peer
from pykernels.bench.case import Case, Operand, Part
from pykernels.dtypes import DTypeName

# Kernels whose output has the shape of the layer's input, from one that has that of its output.
BACK = ("conv2d_backward_input", "conv_transpose2d")
# Shapes of which the gradient by the bias, and that by the weights in f16, are measured too.
SOME = ("resnet-50-conv2", "unet-64", "ragged-image")
CHANNELS = 8  # of the gradients by weights and bias are checked, of each side


def layer(kernel: str, s: shapes.Shape, dtype: str) -> Case:
    n, c, h, w, o, kh, kw, stride, padding, groups = s.dims
    image, out = (
        (n, c, h, w),
        (n, o, *((m + 2 * padding - k) // stride + 1 for m, k in ((h, kh), (w, kw)))),
    )
    weight = Operand((o, c // groups, kh, kw), cast(DTypeName, dtype))
    x, y = (Operand(shape, weight.dtype) for shape in (image, out))
    tensors = {
        "conv2d": {"x": x, "w": weight, "dst": y},
        "conv2d_backward_input": {"dy": y, "w": weight, "dst": x},
        "conv2d_backward_weight": {"dy": y, "x": x, "dst": weight},
        "conv2d_backward_bias": {"dy": y, "dst": Operand((o,), weight.dtype)},
        "conv_transpose2d": {"x": y, "w": weight, "dst": x},
    }[kernel]
    args: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups}
    over = tuple((a + 2 * padding - k) % stride for a, k in ((h, kh), (w, kw)))
    if kernel == "conv_transpose2d" and any(over):
        args["output_padding"] = over
    if kernel == "conv2d_backward_bias":
        return Case(kernel, tensors, {}, y.shape, name=s.name, origin=s.origin, part=some_biases)
    return Case(
        kernel, tensors, args, s.dims[:7], name=s.name, origin=s.origin,
        note=f"groups {groups}" if groups > 1 else "",
        part=part(kernel, groups),
    )  # fmt: skip


def last_image(t: dict[str, Any]) -> dict[str, Any]:
    """The last image."""
    image = next(iter(t))
    return {image: t[image][-1:], "w": t["w"], "dst": t["dst"][-1:]}


def few_channels(t: dict[str, Any]) -> dict[str, Any]:
    """Some output channels of the last image."""
    return {"x": t["x"][-1:], "w": t["w"][:16], "dst": t["dst"][-1:, :16]}


def some_weights(t: dict[str, Any]) -> dict[str, Any]:
    """The weights between some channels of the input and of the output."""
    some = slice(CHANNELS)
    return {"dy": t["dy"][:, some], "x": t["x"][:, some], "dst": t["dst"][some, some]}


def some_biases(t: dict[str, Any]) -> dict[str, Any]:
    """Some channels."""
    return {"dy": t["dy"][:, :CHANNELS], "dst": t["dst"][:CHANNELS]}


def part(kernel: str, groups: int) -> Part | None:
    """What of a layer is checked. Each weight needs all images, each group all its channels."""
    if kernel == "conv2d_backward_weight":
        return some_weights if groups == 1 else None
    return few_channels if kernel == "conv2d" and groups == 1 else last_image


def cases(edge: int = 0) -> Iterator[Case]:
    for s in shapes.pick(shapes.CONVOLUTIONS, edge):
        for dtype in ("float32", "float16"):
            yield layer("conv2d", s, dtype)
        if s.dims[-1] == 1 and s.dims[5] > 1:
            for kernel in BACK:
                yield layer(kernel, s, "float32")
        yield layer("conv2d_backward_weight", s, "float32")
        if s.name in SOME:
            yield layer("conv2d_backward_weight", s, "float16")
            for dtype in ("float32", "float16"):
                yield layer("conv2d_backward_bias", s, dtype)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    f = torch.nn.functional
    if case.kernel == "conv2d":
        f.conv2d(t["x"], t["w"], **case.args)
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
    """Layers whose output can be the next one's input."""
    op = {"conv2d": "Conv", "conv_transpose2d": "ConvTranspose"}.get(case.kernel)
    if op is None:
        raise Skipped("ONNX has no gradients")
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
    """One invocation per element of the output, tap after tap."""
    if case.kernel != "conv2d":
        raise Skipped("written for conv2d")
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
bench_conv2d = form.benches(cases, PEERS)
