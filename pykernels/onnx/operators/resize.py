"""Resize and Upsample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pykernels import functional as F

from ..graph import Array, Node
from .table import op, refuse, text


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
    return F.resize(
        x, new[-2:], mode, coordinates=coordinates, nearest=nearest,
        antialias=smooth and mode != "nearest", layout="chw",
    )  # fmt: skip
