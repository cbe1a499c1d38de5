"""Operations that read and write elements by their indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pykernels as pk

from ..graph import Node
from .table import kept, op, refuse, text


def _counted(node: Node, index: Any, x: Any, axis: int) -> Any:
    """Indices counted from 0, of indices that count from the end if they are negative."""
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


@op("ScatterElements", "Scatter", either=(1,))
def scatter_elements(node: Node, x: Any, index: Any, updates: Any) -> Any:
    kind = text(node, "reduction", "none")
    if kind not in ("none", "add"):
        raise refuse(node, f"reduction {kind}")
    function: Any = pk.scatter if kind == "none" else pk.scatter_add
    axis = node.attributes.get("axis", 0)
    return function(x, axis, _counted(node, index, x, axis), updates)


def _places(node: Node, index: Any, sizes: tuple[int, ...]) -> Any:
    """Rows of indices as positions in C order."""
    steps = [math.prod(sizes[a + 1 :]) for a in range(len(sizes))]
    if isinstance(index, np.ndarray):
        at = np.where(index < 0, index + np.array(sizes), index)
        if at.size and ((at < 0) | (at >= np.array(sizes))).any():
            raise refuse(node, "indices out of range")
        return (at * np.array(steps)).sum(-1).astype(np.int32)
    found = None
    for a, (n, step) in enumerate(zip(sizes, steps, strict=True)):
        # An index out of range stays out of range.
        part = pk.elementwise(
            "(i + n if i < 0 else i) * s if -n <= i and i < n else -m",
            i=index[..., a], n=n, s=step, m=math.prod(sizes),
        )  # fmt: skip
        found = part if found is None else found + part
    return found


def _on_device(node: Node, x: Any, places: Any) -> Any:
    return kept(node, "places", x.device, places) if isinstance(places, np.ndarray) else places


@op("GatherND", either=(1,))
def gather_nd(node: Node, x: Any, index: Any) -> Any:
    batch = node.attributes.get("batch_dims", 0)
    depth = index.shape[-1]
    sizes, rest = x.shape[batch : batch + depth], x.shape[batch + depth :]
    shape = (*index.shape[:-1], *rest)
    places = _places(node, index, sizes)
    groups, rows = math.prod(x.shape[:batch]), math.prod(sizes)
    base = np.arange(groups, dtype=np.int32)[:, None] * rows
    if isinstance(places, np.ndarray):
        flat = kept(node, "places", x.device, (places.reshape(groups, -1) + base).reshape(-1))
    else:
        flat = (places.reshape(groups, -1) + kept(node, "base", x.device, base)).reshape(-1)
    return pk.index_select(x.reshape(groups * rows, -1), 0, flat).reshape(shape)


@op("ScatterND", either=(1,))
def scatter_nd(node: Node, x: Any, index: Any, updates: Any) -> Any:
    kind = text(node, "reduction", "none")
    if kind not in ("none", "add"):
        raise refuse(node, f"reduction {kind}")
    depth = index.shape[-1]
    sizes = x.shape[:depth]
    places = _on_device(node, x, _places(node, index, sizes))
    rows, width = math.prod(sizes), math.prod(x.shape[depth:])
    wide = pk.broadcast_to(places.reshape(-1, 1), (places.size, width))
    function: Any = pk.scatter if kind == "none" else pk.scatter_add
    y = function(x.reshape(rows, width), 0, wide, updates.reshape(places.size, width))
    return y.reshape(x.shape)


@op("ReverseSequence")
def reverse_sequence(node: Node, x: Any, lengths: Any) -> Any:
    batch, time = node.attributes.get("batch_axis", 1), node.attributes.get("time_axis", 0)
    steps = np.arange(x.shape[time], dtype=np.int32)
    steps = steps.reshape([-1 if a == time else 1 for a in range(x.ndim)])
    count = lengths.reshape([-1 if a == batch else 1 for a in range(x.ndim)])
    at = pk.elementwise(
        "n - 1 - t if t < n else t", t=kept(node, "steps", x.device, steps), n=count
    )
    return pk.gather(x, time, pk.broadcast_to(at, x.shape))
