"""Calls on tensors of one shape, in parts that bindings hold."""

from __future__ import annotations

from collections.abc import Mapping

from pykernels.layout import Nd, View
from pykernels.plan import Caps
from pykernels.plans.parts import in_levels, parts

__all__ = ["cut"]


def cut(caps: Caps, views: Mapping[str, View]) -> list[dict[str, View]]:
    """The views of each part; none for tensors without elements."""
    first = next(iter(views.values()))
    if first.size == 0:
        return []
    axes = [{name: axis for name in views} for axis in range(first.ndim)]
    whole = parts(caps, views, axes)
    return [part.views for one in whole for part in in_levels(one, axes, Nd.LEVELS)]
