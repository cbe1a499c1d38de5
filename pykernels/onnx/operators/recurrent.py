"""Recurrent networks."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk
from pykernels.device import Tensor

from ..graph import Node
from .layers import layers
from .table import kept, op, text


@op("LSTM", either=(1, 2, 3))
def lstm(
    node: Node, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None,
    h: Any = None, c: Any = None, peepholes: Any = None,
) -> Any:  # fmt: skip
    given, width = node.attributes, r.shape[-1]
    special = any(given.get(name) for name in ("activations", "clip", "input_forget"))
    if special or lengths is not None or peepholes is not None:
        return layers(node, x, w, r, b, lengths, h, c, peepholes)
    first = bool(given.get("layout", 0))  # the batch comes first
    if first:
        x = pk.swapaxes(x, 0, 1)
        h, c = (None if s is None else pk.swapaxes(s, 0, 1) for s in (h, c))

    def ours(name: str, array: Any, side: int) -> Tensor:
        """ONNX's order of gates is input, output, forget, cell."""
        if not isinstance(array, np.ndarray):
            i, o, f, g = pk.split(array[side], 4)
            return pk.concatenate([i, f, g, o])
        i, o, f, g = np.split(array[side], 4)
        return kept(node, f"{name}{side}", x.device, np.concatenate([i, f, g, o]))

    order = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    sides = []
    for side, back in enumerate(order[text(node, "direction", "forward")]):
        arguments: list[Any] = [ours("w", w, side), ours("r", r, side)]
        if b is not None:
            arguments += [ours("b", b[:, : 4 * width], side), ours("u", b[:, 4 * width :], side)]
        state = None
        if h is not None or c is not None:
            zeros = kept(node, "zeros", x.device, np.zeros((x.shape[1], width), x.dtype))
            state = zeros if h is None else h[side], zeros if c is None else c[side]
        layer: Any = pk.lstm
        y, last = layer(x, *arguments, hx=state, reverse=back)
        sides.append((y, *last))
    ys, hs, cs = zip(*sides, strict=True)
    if first:
        return pk.moveaxis(pk.stack(ys, 1), 2, 0), pk.stack(hs, 1), pk.stack(cs, 1)
    return pk.stack(ys, 1), pk.stack(hs), pk.stack(cs)


@op("GRU", "RNN", either=(1, 2, 3))
def gru(
    node: Node, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
) -> Any:  # fmt: skip
    return layers(node, x, w, r, b, lengths, h)
