"""Calls on tensors of one shape, in parts that bindings hold."""

from __future__ import annotations

from collections.abc import Mapping

from pykernels.plans.parts import in_levels, parts
from pykernels.steps import Caps
from pykernels.tensors.layout import Ints, Nd, View

__all__ = ["cut"]


def cut(caps: Caps, shape: Ints, views: Mapping[str, View]) -> list[dict[str, View]]:
    """The views of each part, all of one shape; no parts if the shape has no elements."""
    if 0 in shape:
        return []
    axes = [{name: axis for name in views} for axis in range(len(shape))]
    whole = parts(caps, views, axes)
    return [part.views for one in whole for part in in_levels(one, axes, Nd.LEVELS)]
