"""Operations that read and write elements by their indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pykernels as pk

from ..graph import Node
from .table import kept, op, refuse, text


def _counted(node: Node, index: Any, x: Any, axis: int) -> Any:
    """Indices counted from 0; negative ones in `index` count from the end."""
    size = x.shape[axis]
    if isinstance(index, np.ndarray):
        return kept(node, "index", x.device, np.where(index < 0, index + size, index).astype("i4"))
    return pk.elementwise("i + n if i < 0 else i", i=index, n=size)


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
    kind, axis = text(node, "reduction", "none"), node.attributes.get("axis", 0)
    index = _counted(node, index, x, axis)
    if kind in _CHOICES:
        return _chosen(node, kind, x, axis % x.ndim, index, updates)
    if kind not in ("none", "add"):
        raise refuse(node, f"reduction {kind}")
    function: Any = pk.scatter if kind == "none" else pk.scatter_add
    return function(x, axis, index, updates)


# For each kind: the reduction over all updates, for one place; the value that it reads instead of
# an update of another place; and the result from x and the reduced updates u.
_CHOICES = {
    "max": ("max", "x", "maximum(x, u)"), "min": ("min", "x", "minimum(x, u)"),
    "mul": ("prod", "1.0", "x * u"),
}  # fmt: skip
_MOST = 1 << 26  # pairs of places and updates


def _chosen(node: Node, kind: str, x: Any, axis: int, index: Any, updates: Any) -> Any:
    """Scatter by maxima, minima or products: each place looks at all updates along the axis."""
    count, places = index.shape[axis], x.shape[axis]
    if index.size * places > _MOST:
        raise refuse(node, f"reduction {kind} of {index.size} updates for {places} places each")
    region = tuple(slice(0, n) if a != axis else slice(None) for a, n in enumerate(index.shape))
    part = pk.moveaxis(x[region], axis, -1)
    i, u = (pk.moveaxis(t, axis, -1).reshape((*part.shape[:-1], 1, count))
            for t in (index, updates))  # fmt: skip
    rows = kept(node, "rows", x.device, np.arange(places, dtype=np.int32)[:, None])
    reduction, other, text_ = _CHOICES[kind]
    wide = part.reshape((*part.shape, 1))
    operands = {"u": u, "i": i, "r": rows} | ({"x": wide} if "x" in other else {})
    found = pk.reduction(f"u if i == r else {other}", reduction, axis=-1, **operands)
    found = pk.moveaxis(pk.elementwise(text_, x=part, u=found), -1, axis)
    if found.shape == x.shape:
        return found
    y = x.copy()
    y[region] = found
    return y


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
    if kind not in ("none", "add", *_CHOICES):
        raise refuse(node, f"reduction {kind}")
    depth = index.shape[-1]
    sizes = x.shape[:depth]
    places = _on_device(node, x, _places(node, index, sizes))
    rows, width = math.prod(sizes), math.prod(x.shape[depth:])
    wide = pk.broadcast_to(places.reshape(-1, 1), (places.size, width))
    if kind in _CHOICES:
        flat = x.reshape(rows, width), updates.reshape(places.size, width)
        return _chosen(node, kind, flat[0], 0, wide, flat[1]).reshape(x.shape)
    function: Any = pk.scatter if kind == "none" else pk.scatter_add
    y = function(x.reshape(rows, width), 0, wide, updates.reshape(places.size, width))
    return y.reshape(x.shape)


@op("TensorScatter")
def tensor_scatter(node: Node, past: Any, updates: Any, first: Any = None) -> Any:
    """A cache after new rows are written to it; `first` is the first new place in each batch."""
    axis = node.attributes.get("axis", -2) % past.ndim
    size, length = past.shape[axis], updates.shape[axis]
    row = np.arange(size, dtype=np.int32).reshape(
        [-1 if a == axis else 1 for a in range(past.ndim)]
    )
    steps = kept(node, "steps", past.device, row)
    if first is None:
        first = kept(node, "first", past.device, np.zeros(past.shape[0], np.int32))
    first = first.reshape([-1 if a == 0 else 1 for a in range(past.ndim)])
    place = "(t - f + n) % n" if text(node, "mode", "linear") == "circular" else "t - f"
    at = pk.elementwise(f"n + {place} if {place} >= 0 and {place} < m else t", t=steps, f=first,
                        n=size, m=length)  # fmt: skip
    both = pk.concatenate([past, updates], axis)
    return pk.gather(both, axis, pk.broadcast_to(at, past.shape))


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
