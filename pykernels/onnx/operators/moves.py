"""Operations of ONNX that move elements: entries as in table.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.device import Device
from pykernels.dtypes import DTYPES
from pykernels.tensors.layout import contiguous_layout

from ..graph import SMALL_FLOATS, Array, Node, stored, stored_name
from .small_floats import as_small
from .table import kept, numbers, op, refuse, text


@op("Reshape", host=(1,))
def reshape(node: Node, x: Any, shape: Array | None = None) -> Any:
    sizes = numbers(node, "shape", shape)
    if not node.attributes.get("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(sizes)


@op("Flatten")
def flatten(node: Node, x: Any) -> Any:
    axis = node.attributes.get("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@op("Transpose")
def transpose(node: Node, x: Any) -> Any:
    return x.transpose(*node.attributes.get("perm", range(x.ndim)[::-1]))


@op("Squeeze", host=(1,))
def squeeze(node: Node, x: Any, axes: Array | None = None) -> Any:
    found = numbers(node, "axes", axes)
    return x.squeeze() if found is None else x.squeeze(tuple(found))


@op("Unsqueeze", host=(1,))
def unsqueeze(node: Node, x: Any, axes: Array | None = None) -> Any:
    return pk.expand_dims(x, tuple(numbers(node, "axes", axes)))


@op("Expand", host=(1,))
def expand(node: Node, x: Any, shape: Array) -> Any:
    return x.broadcast_to(np.broadcast_shapes(x.shape, tuple(int(n) for n in shape)))


@op("Concat")
def concat(node: Node, *x: Any) -> Any:
    return pk.concatenate(x, node.attributes["axis"])


@op("Split", host=(1,))
def split(node: Node, x: Any, sizes: Array | None = None) -> Any:
    axis, found = node.attributes.get("axis", 0), numbers(node, "split", sizes)
    if found is None:  # parts of one size, the last one may be smaller
        size = -(-x.shape[axis] // len(node.outputs))
        found = [size] * (len(node.outputs) - 1)
        found.append(x.shape[axis] - sum(found))
    return pk.split(x, np.cumsum(found)[:-1].tolist(), axis)


@op("Slice", host=(1, 2, 3, 4))
def slice_(
    node: Node, x: Any, starts: Array | None = None, ends: Array | None = None,
    axes: Array | None = None, steps: Array | None = None,
) -> Any:  # fmt: skip
    first, last = numbers(node, "starts", starts), numbers(node, "ends", ends)
    over = numbers(node, "axes", axes, range(len(first)))
    by = numbers(node, "steps", steps, [1] * len(first))
    index = [slice(None)] * x.ndim
    for a, start, end, step in zip(over, first, last, by, strict=True):
        n = x.shape[a]
        if step < 0:  # the end before the first element, which a slice in Python cannot express
            start, end = max(start, -n), None if end < -n else end
        index[a] = slice(start, end, step)
    return x[tuple(index)]


@op("Pad", host=(1, 2, 3))
def pad(
    node: Node, x: Any, widths: Array | None = None, value: Array | None = None,
    axes: Array | None = None,
) -> Any:  # fmt: skip
    given = numbers(node, "pads", widths)
    over = [a % x.ndim for a in numbers(node, "axes", axes, range(x.ndim))]
    number = node.attributes.get("value", 0.0) if value is None or not value.size else value.item()
    pairs = [(0, 0)] * x.ndim
    for i, a in enumerate(over):
        pairs[a] = given[i], given[i + len(over)]
    if min(map(min, pairs)) < 0:  # negative padding removes elements
        ends = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape, strict=True)]
        x, pairs = x[tuple(ends)], [(max(a, 0), max(b, 0)) for a, b in pairs]
    modes = {"edge": "replicate", "wrap": "circular"}
    mode: Any = text(node, "mode", "constant")
    ours: Any = modes.get(mode, mode)
    return pk.pad(x, pairs, ours, constant_values=number)


@op("Tile", host=(1,))
def tile(node: Node, x: Any, repeats: Array) -> Any:
    # one axis at a time, because each repeated axis counts twice for the axes that pk.tile can have
    for axis, count in enumerate(repeats.tolist()):
        if count != 1:
            x = pk.tile(x, [count if a == axis else 1 for a in range(x.ndim)])
    return x


@op("Trilu", host=(1,))
def trilu(node: Node, x: Any, k: Array | None = None) -> Any:
    function = pk.triu if node.attributes.get("upper", 1) else pk.tril
    return function(x, 0 if k is None else int(k.item()))


@op("OneHot", host=(1, 2))
def one_hot(node: Node, index: Any, depth: Array, values: Array) -> Any:
    axis = node.attributes.get("axis", -1)
    count = int(depth.reshape(-1)[0])
    index = pk.where(index < 0, index + count, index)
    off, on = values.tolist()
    # The positions are a tensor, so that an index without axes works, too.
    places = kept(node, "places", index.device, np.arange(count, dtype=stored(index.dtype)))
    y = pk.where(index[..., None] == places, on, off).astype(stored(values.dtype))
    return y if axis == -1 else pk.moveaxis(y, -1, axis)


@op("DepthToSpace")
def depth_to_space(node: Node, x: Any) -> Any:
    n, c, h, w = x.shape
    size = node.attributes["blocksize"]
    if text(node, "mode", "DCR") == "CRD":
        return pk.pixel_shuffle(x, size)
    y = x.reshape(n, size, size, c // size**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // size**2, h * size, w * size)


@op("SpaceToDepth")
def space_to_depth(node: Node, x: Any) -> Any:
    n, c, h, w = x.shape
    size = node.attributes["blocksize"]
    if text(node, "mode", "DCR") == "CRD":
        return pk.pixel_unshuffle(x, size)
    y = x.reshape(n, c, h // size, size, w // size, size).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * size**2, h // size, w // size)


@op("Cast", "CastLike")
def cast(node: Node, x: Any, like: Any = None) -> Any:
    kind = node.dtypes[0]
    if kind in SMALL_FLOATS:
        return as_small(node, x, kind)
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(kind)
    if bits is None or x.dtype == "bool":
        return x.astype(stored_name(kind))
    low = pk.elementwise("x & m", x=x.astype("int32"), m=(1 << bits) - 1)
    if kind.startswith("i"):
        low = pk.elementwise("(x ^ s) - s", x=low, s=1 << (bits - 1))
    return low.astype(stored_name(kind))


@op("BitCast")
def bit_cast(node: Node, x: Any) -> Any:
    kind = node.dtypes[0]
    if stored_name(kind) != kind:
        raise refuse(node, f"the bits of {kind}, which the device stores in other bits")
    y = x.copy()
    return y._with(contiguous_layout(y.shape, DTYPES[kind]))


@op("PRelu")
def prelu(_: Node, x: Any, slope: Any) -> Any:
    """The form before version 7, with one slope for all or one for each channel (axis 1)."""
    if slope.ndim == 1 and slope.size > 1:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return pk.elementwise("where(x < 0.0, x * s, x)", x=x, s=slope)


@op("EyeLike")
def eye_like(node: Node, x: Any) -> Any:
    rows, cols = x.shape
    eye = np.eye(rows, cols, node.attributes.get("k", 0), dtype=stored_name(node.dtypes[0]))
    return kept(node, "eye", x.device, eye).copy()


@op("RandomUniformLike", "RandomNormalLike")
def random_like(node: Node, x: Any) -> Any:
    return _random(node, x.device, x.shape)


def _random(node: Node, device: Device, shape: tuple[int, ...]) -> Any:
    given = node.attributes
    seed = given.get("seed")
    options: dict[str, Any] = {"state": device.random_state}
    if seed is not None:  # an integer, even if the file gives a fraction
        options = {"seed": int(np.float32(seed).view(np.uint32))}
    if node.op.startswith("RandomUniform"):
        low, high = given.get("low", 0.0), given.get("high", 1.0)
        y = pk.rand(shape, **options, device=device)
        return pk.elementwise("a + y * (b - a)", y=y, a=low, b=high)
    mean, scale = given.get("mean", 0.0), given.get("scale", 1.0)
    y = pk.randn(shape, **options, device=device)
    return pk.elementwise("m + y * s", y=y, m=mean, s=scale)


@op("Dropout", host=(1, 2))
def dropout(node: Node, x: Any, ratio: Array | None = None, mode: Array | None = None) -> Any:
    """Dropout in training mode; otherwise the reader removes the node."""
    p = node.attributes.get("ratio", 0.5) if ratio is None else float(ratio.item())
    drawn = pk.rand(x.shape, state=x.device.random_state, device=x.device)
    mask = pk.elementwise("r >= p", r=drawn, p=p)
    scale = 1 / (1 - p) if p < 1 else 0.0
    return pk.elementwise("x * s if m else 0.0", x=x, s=scale, m=mask), mask
