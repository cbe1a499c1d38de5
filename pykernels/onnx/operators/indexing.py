"""Operations that read and write elements by their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykernels import functional as F

from ..graph import Node
from .table import kept, op, refuse, text


def _counted(node: Node, index: Any, x: Any, axis: int) -> Any:
    """Indices from 0 up, where negative ones count from the end."""
    size = x.shape[axis]
    if isinstance(index, np.ndarray):
        return kept(node, "index", x.device, np.where(index < 0, index + size, index).astype("i4"))
    return F.where(index < 0, index + size, index)


@op("Gather", either=(1,))
def gather(node: Node, x: Any, index: Any) -> Any:
    axis = node.attributes.get("axis", 0) % x.ndim
    if isinstance(index, np.ndarray) and index.size == 1:  # a view
        at = int(index.item()) % x.shape[axis]
        y = x[(*(slice(None),) * axis, slice(at, at + 1))]
        return y.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    index = _counted(node, index, x, axis)
    y = F.index_select(x, axis, index.reshape(-1))
    return y.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@op("GatherElements", either=(1,))
def gather_elements(node: Node, x: Any, index: Any) -> Any:
    axis = node.attributes.get("axis", 0)
    return F.gather(x, axis, _counted(node, index, x, axis))


@op("ScatterElements", either=(1,))
def scatter_elements(node: Node, x: Any, index: Any, updates: Any) -> Any:
    kind = text(node, "reduction", "none")
    if kind not in ("none", "add"):
        raise refuse(node, f"reduction {kind}")
    function = F.scatter if kind == "none" else F.scatter_add
    axis = node.attributes.get("axis", 0)
    return function(x, axis, _counted(node, index, x, axis), updates)
