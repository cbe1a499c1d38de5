"""Operations of ONNX that move elements: entries as in nodes.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import helper

import pykernels as pk

from .graph import Array, Node, stored
from .nodes import kept, numbers, op, refuse, text


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
        if step < 0:  # ends behind the front, for which a slice of Python's has no number
            start, end = max(start, -n), None if end < -n else end
        index[a] = slice(start, end, step)
    return x[tuple(index)]


def _counted(node: Node, index: Any, x: Any, axis: int) -> Any:
    """Indices from 0 up, where negative ones count from the end."""
    size = x.shape[axis]
    if isinstance(index, np.ndarray):
        return kept(node, "index", x.device, np.where(index < 0, index + size, index).astype("i4"))
    return pk.where(index < 0, index + size, index)


@op("Gather", either=(1,))
def gather(node: Node, x: Any, index: Any) -> Any:
    axis = node.attributes.get("axis", 0) % x.ndim
    if isinstance(index, np.ndarray) and index.size == 1:  # a view
        at = int(index.item()) % x.shape[axis]
        y = x[(*(slice(None),) * axis, slice(at, at + 1))]
        return y.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    index = _counted(node, index, x, axis)
    y = pk.index_select(x, axis, index.reshape(-1))
    return y.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@op("GatherElements", either=(1,))
def gather_elements(node: Node, x: Any, index: Any) -> Any:
    axis = node.attributes.get("axis", 0)
    return pk.gather(x, axis, _counted(node, index, x, axis))


@op("ScatterElements", either=(1,))
def scatter_elements(node: Node, x: Any, index: Any, updates: Any) -> Any:
    kind = text(node, "reduction", "none")
    if kind not in ("none", "add"):
        raise refuse(node, f"reduction {kind}")
    function = pk.scatter if kind == "none" else pk.scatter_add
    axis = node.attributes.get("axis", 0)
    return function(x, axis, _counted(node, index, x, axis), updates)


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
    if min(map(min, pairs)) < 0:  # those take away
        ends = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, x.shape, strict=True)]
        x, pairs = x[tuple(ends)], [(max(a, 0), max(b, 0)) for a, b in pairs]
    modes = {"edge": "replicate", "wrap": "circular"}
    mode: Any = text(node, "mode", "constant")
    return pk.pad(x, pairs, modes.get(mode, mode), constant_values=number)


@op("Tile", host=(1,))
def tile(node: Node, x: Any, repeats: Array) -> Any:
    return pk.tile(x, [int(n) for n in repeats])


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
    # An index of no place has none.
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


@op("Resize", "Upsample", host=(1, 2, 3))
def resize(
    node: Node, x: Any, roi: Array | None = None, scales: Array | None = None,
    sizes: Array | None = None,
) -> Any:  # fmt: skip
    if node.op == "Upsample" or node.version < 11:
        roi, scales = None, roi if roi is not None else np.array(node.attributes["scales"])
    old = x.shape
    axes = [a % x.ndim for a in node.attributes.get("axes", range(x.ndim))]
    new = list(old)
    for i, a in enumerate(axes):
        if sizes is not None and sizes.size:
            new[a] = int(sizes[i])
        else:
            new[a] = math.floor(old[a] * float(scales[i]))  # type: ignore[index]
    if tuple(new[:-2]) != old[:-2]:
        raise refuse(node, "other axes than the last two")
    plain = node.attributes.get("keep_aspect_ratio_policy", b"stretch") == b"stretch"
    smooth = bool(node.attributes.get("antialias", 0))
    if not plain or smooth != bool(node.attributes.get("exclude_outside", 0)):
        raise refuse(
            node, "keep_aspect_ratio_policy, or antialias and exclude_outside without each other"
        )
    mode: Any = text(node, "mode", "nearest")
    coordinates: Any = text(node, "coordinate_transformation_mode", "half_pixel")
    if node.op == "Upsample" or node.version < 11:
        coordinates = "asymmetric"
    nearest: Any = text(node, "nearest_mode", "round_prefer_floor")
    if node.version < 11:
        nearest = "floor"
    exact = (sizes is not None and sizes.size) or all(
        float(old[a] * float(s)).is_integer()
        for a, s in zip(axes, scales, strict=True)  # type: ignore[arg-type]
    )
    if not exact and coordinates != "align_corners":
        raise refuse(node, "scales that are no ratio of sizes")
    ours = -0.5 if smooth else -0.75
    if mode == "cubic" and abs(node.attributes.get("cubic_coeff_a", -0.75) - ours) > 1e-6:
        raise refuse(node, f"another cubic_coeff_a than {ours}")
    return pk.resize(
        x, new[-2:], mode, coordinates=coordinates, nearest=nearest,
        antialias=smooth and mode != "nearest", layout="chw",
    )  # fmt: skip


@op("Cast", "CastLike")
def cast(node: Node, x: Any, like: Any = None) -> Any:
    if like is not None:
        return x.astype(like.dtype)
    return x.astype(stored(helper.tensor_dtype_to_np_dtype(node.attributes["to"])))
