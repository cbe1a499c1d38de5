"""Recurrent networks."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk
from pykernels.device import Tensor

from ..graph import Node
from .layers import layers
from .table import kept, op, text


@op("LSTM", either=(1, 2, 3, 7))
def lstm(
    node: Node, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None,
    h: Any = None, c: Any = None, peepholes: Any = None,
) -> Any:  # fmt: skip
    given, width = node.attributes, r.shape[-1]
    special = any(given.get(name) for name in ("activations", "clip", "input_forget"))
    if special or lengths is not None:
        return layers(node, x, w, r, b, lengths, h, c, peepholes)
    first = bool(given.get("layout", 0))  # the batch comes first
    if first:
        x = pk.swapaxes(x, 0, 1)
        h, c = (None if s is None else pk.swapaxes(s, 0, 1) for s in (h, c))

    sides = []
    for side, back in enumerate(_directions(node)):
        arguments = _parts(node, x, side, 4, [0, 2, 3, 1], w, r, b)  # input, output, forget, cell
        state = None
        if h is not None or c is not None:
            zeros = kept(node, "zeros", x.device, np.zeros((x.shape[1], width), x.dtype))
            state = zeros if h is None else h[side], zeros if c is None else c[side]
        own = None if peepholes is None else _thirds(node, x, side, peepholes)
        layer: Any = pk.lstm
        y, last = layer(x, *arguments, hx=state, reverse=back, peepholes=own)
        sides.append((y, *last))
    ys, hs, cs = zip(*sides, strict=True)
    if first:
        return pk.moveaxis(pk.stack(ys, 1), 2, 0), pk.stack(hs, 1), pk.stack(cs, 1)
    return pk.stack(ys, 1), pk.stack(hs), pk.stack(cs)


def _thirds(node: Node, x: Any, side: int, peepholes: Any) -> Tensor:
    """The peephole weights of one direction, for the gates input, forget and output, in this
    order."""
    if isinstance(peepholes, np.ndarray):
        entry, out, leave = np.split(peepholes[side], 3)
        return kept(node, f"p{side}", x.device, np.concatenate([entry, leave, out]))
    parts = pk.split(peepholes[side], 3)
    found: Any = pk.concatenate([parts[0], parts[2], parts[1]])
    return found  # type: ignore[no-any-return]


def _directions(node: Node) -> list[bool]:
    """For each direction, True if it goes from the last step to the first."""
    order = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    return order[text(node, "direction", "forward")]


def _parts(
    node: Node, x: Any, side: int, gates: int, order: list[int], w: Any, r: Any, b: Any
) -> list[Tensor]:
    """Weights and biases of one direction, with gates in the order that pykernels' layers take."""
    width = gates * r.shape[-1]

    def ours(name: str, array: Any) -> Tensor:
        if not isinstance(array, np.ndarray):
            rows = pk.split(array[side], gates)
            found: Any = pk.concatenate([rows[i] for i in order])
            return found  # type: ignore[no-any-return]
        parts = np.split(array[side], gates)
        found = np.concatenate([parts[i] for i in order])
        return kept(node, f"{name}{side}", x.device, found)

    found = [ours("w", w), ours("r", r)]
    return found if b is None else [*found, ours("b", b[:, :width]), ours("u", b[:, width:])]


@op("GRU", "RNN", either=(1, 2, 3))
def gru(
    node: Node, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
) -> Any:  # fmt: skip
    given, is_gru = node.attributes, node.op == "GRU"
    kinds = [n.decode().lower() for n in given.get("activations", [])]
    plain = not is_gru and kinds and set(kinds) in ({"tanh"}, {"relu"})
    special = given.get("clip") or (kinds and not plain) or lengths is not None
    if special:
        return layers(node, x, w, r, b, lengths, h)
    first = bool(given.get("layout", 0))
    if first:
        x, h = pk.swapaxes(x, 0, 1), None if h is None else pk.swapaxes(h, 0, 1)
    gates, order = (3, [1, 0, 2]) if is_gru else (1, [0])  # update, reset, new
    layer: Any = pk.gru if is_gru else pk.rnn
    options: dict[str, Any] = {"nonlinearity": kinds[0]} if plain else {}
    if is_gru:
        options = {"reset_after": bool(given.get("linear_before_reset", 0))}
    sides = []
    for side, back in enumerate(_directions(node)):
        arguments = _parts(node, x, side, gates, order, w, r, b)
        state = None if h is None else h[side]
        sides.append(layer(x, *arguments, hx=state, reverse=back, **options))
    ys, hs = zip(*sides, strict=True)
    if first:
        return pk.moveaxis(pk.stack(ys, 1), 2, 0), pk.stack(hs, 1)
    return pk.stack(ys, 1), pk.stack(hs)
