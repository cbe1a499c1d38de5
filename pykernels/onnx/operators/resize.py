"""Resize and Upsample: `pk.resize` if it supports the form, else a product or a gather for each
axis."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import pykernels as pk

from ..graph import Array, Node
from .table import kept, op, refuse, text

# The forms that pk.resize supports.
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


class _Axis(NamedTuple):
    """The parameters of one axis; `first` and `last` are the ends of the region, from 0 to 1."""

    axis: int
    old: int
    new: int
    scale: float
    first: float = 0.0
    last: float = 1.0


class _Options(NamedTuple):
    mode: str
    coordinates: str
    nearest: str
    smooth: bool
    outside: bool  # weights outside of the image are left out
    cubic: float
    beyond: float  # the value outside of a region


def _axes(node: Node, x: Any, roi: Array | None, scales: Array | None, sizes: Array | None
          ) -> list[_Axis]:  # fmt: skip
    given = [a % x.ndim for a in node.attributes.get("axes", range(x.ndim))]
    policy = text(node, "keep_aspect_ratio_policy", "stretch")
    found = []
    if sizes is not None and sizes.size:
        ratios = [int(m) / x.shape[a] for m, a in zip(sizes, given, strict=True)]
        wanted = [int(m) for m in sizes]
        if policy != "stretch":
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [ratio] * len(given)
            wanted = [math.floor(ratio * x.shape[a] + 0.5) for a in given]
    elif scales is not None and scales.size:
        ratios = [float(s) for s in scales]
        wanted = [math.floor(x.shape[a] * s) for a, s in zip(given, ratios, strict=True)]
    else:
        raise refuse(node, "neither scales nor sizes")
    for i, (a, m, s) in enumerate(zip(given, wanted, ratios, strict=True)):
        ends = (0.0, 1.0)
        if roi is not None and roi.size:
            ends = (float(roi[i]), float(roi[len(given) + i]))
        found.append(_Axis(a, x.shape[a], m, s, *ends))
    return found


def _options(node: Node) -> _Options:
    given, old = node.attributes, node.op == "Upsample" or node.version < 11
    return _Options(
        text(node, "mode", "nearest"),
        "asymmetric" if old else text(node, "coordinate_transformation_mode", "half_pixel"),
        "floor" if old else text(node, "nearest_mode", "round_prefer_floor"),
        bool(given.get("antialias", 0)), bool(given.get("exclude_outside", 0)),
        float(given.get("cubic_coeff_a", -0.75)), float(given.get("extrapolation_value", 0.0)),
    )  # fmt: skip


@op("Resize", "Upsample", host=(1, 2, 3))
def resize(
    node: Node, x: Any, roi: Array | None = None, scales: Array | None = None,
    sizes: Array | None = None,
) -> Any:  # fmt: skip
    if node.op == "Upsample" or node.version < 11:
        roi, scales = None, roi if roi is not None else np.array(node.attributes["scales"])
    rows, how = _axes(node, x, roi, scales, sizes), _options(node)
    if _has_form(x, rows, how):
        new = {r.axis: r.new for r in rows}
        size = [new[a] if a in new else x.shape[a] for a in (x.ndim - 2, x.ndim - 1)]
        mode: Any = how.mode
        coordinates: Any = how.coordinates
        nearest: Any = how.nearest
        return pk.resize(
            x, size, mode, coordinates=coordinates, nearest=nearest,
            antialias=how.smooth and mode != "nearest", layout="chw",
        )  # fmt: skip
    return _by_axis(node, x, rows, how)


def _has_form(x: Any, rows: list[_Axis], how: _Options) -> bool:
    """True if `pk.resize` supports this form."""
    if x.ndim < 3 or x.dtype not in ("float32", "float16"):
        return False
    changed = [r for r in rows if r.new != r.old or r.scale != 1.0]
    if any(r.axis < x.ndim - 2 for r in changed) or how.coordinates not in _COORDINATES:
        return False
    exact = all(float(r.old * r.scale).is_integer() for r in rows)
    if (not exact and how.coordinates != "align_corners") or how.smooth != how.outside:
        return False
    coefficient = -0.5 if how.smooth else -0.75
    return how.mode != "cubic" or abs(how.cubic - coefficient) <= 1e-6


def _by_axis(node: Node, x: Any, rows: list[_Axis], how: _Options) -> Any:
    """One axis after the other: all forms of ONNX's resize are products along the axes."""
    region = how.coordinates == "tf_crop_and_resize"
    inside: Array = np.ones([1] * x.ndim, bool)
    for row in rows:
        if row.new == row.old and row.scale == 1.0 and not region:
            continue
        at = _places(row, how)
        if region:
            shape = [-1 if a == row.axis else 1 for a in range(x.ndim)]
            inside = inside & ((at >= 0) & (at <= row.old - 1)).reshape(shape)
        if how.mode == "nearest":
            index = _nearest(at, how.nearest).clip(0, row.old - 1).astype(np.int32)
            x = pk.index_select(x, row.axis, kept(node, f"index{row.axis}", x.device, index))
            continue
        matrix = _weights(at, row, how).astype(np.float32)
        x = x if x.dtype == "float32" else x.astype("float32")
        y = pk.matmul(pk.moveaxis(x, row.axis, -1), kept(node, f"m{row.axis}", x.device, matrix.T))
        x = pk.moveaxis(y, -1, row.axis)
    if region and not inside.all():
        x = pk.where(kept(node, "inside", x.device, inside), x, how.beyond)
    return x


def _places(row: _Axis, how: _Options) -> Array:
    """The position of each element of the result in the old axis."""
    i = np.arange(row.new, dtype=np.float64)
    kind, n, m, s = how.coordinates, row.old, row.new, row.scale
    if kind == "half_pixel":
        return (i + 0.5) / s - 0.5
    if kind == "half_pixel_symmetric":
        return n / 2 * (1 - m / (s * n)) + (i + 0.5) / s - 0.5
    if kind == "pytorch_half_pixel":
        return (i + 0.5) / s - 0.5 if m > 1 else 0 * i
    if kind == "align_corners":
        return i * (n - 1) / (m - 1) if m > 1 else 0 * i
    if kind == "tf_crop_and_resize":
        if m > 1:
            return row.first * (n - 1) + i * (row.last - row.first) * (n - 1) / (m - 1)
        return 0 * i + 0.5 * (row.first + row.last) * (n - 1)
    return i / s  # asymmetric


def _nearest(at: Array, mode: str) -> Array:
    if mode == "round_prefer_floor":
        return np.ceil(at - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(at + 0.5)
    return np.floor(at) if mode == "floor" else np.ceil(at)


def _weights(at: Array, row: _Axis, how: _Options) -> Array:
    """The matrix (new, old) of an axis."""
    reach = 1 if how.mode == "linear" else 2
    squeezed = min(row.scale, 1.0) if how.smooth else 1.0
    first = math.floor(-reach / squeezed) + 1
    steps = np.arange(first, 2 - first if reach == 2 else 1 - first + 1)
    base = np.floor(at).astype(np.int64)
    places = base[:, None] + steps
    away = np.abs(places - at[:, None]) * squeezed
    found = np.clip(1 - away, 0, 1) if how.mode == "linear" else _cubic(away, how.cubic)
    if how.outside:
        found = np.where((places < 0) | (places >= row.old), 0, found)
    if how.outside or how.smooth:
        found = found / found.sum(1, keepdims=True)
    matrix = np.zeros((row.new, row.old))
    np.add.at(matrix, (np.arange(row.new)[:, None], places.clip(0, row.old - 1)), found)
    return matrix


def _cubic(away: Array, a: float) -> Array:
    """The weights of cubic interpolation (Keys 1981) with the coefficient a."""
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return np.where(away <= 1, near, np.where(away < 2, far, 0.0))
