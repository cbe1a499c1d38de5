"""Recurrent layers step by step: all forms that ONNX has of RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk

from ..graph import Node
from .expressions import number
from .table import kept, refuse, text

__all__ = ["layers"]

# Activations: the expression of {0}, alpha {1} and beta {2}; the default alpha; the default beta.
_FUNCTIONS = {
    "sigmoid": ("sigmoid({0})", 0.0, 0.0), "tanh": ("tanh({0})", 0.0, 0.0),
    "relu": ("relu({0})", 0.0, 0.0), "softsign": ("softsign({0})", 0.0, 0.0),
    "softplus": ("softplus({0})", 0.0, 0.0), "affine": ("({1} * ({0}) + {2})", 1.0, 0.0),
    "elu": ("elu({0}, {1})", 1.0, 0.0), "leakyrelu": ("leaky_relu({0}, {1})", 0.01, 0.0),
    "thresholdedrelu": ("where(({0}) > {1}, {0}, 0.0)", 1.0, 0.0),
    "scaledtanh": ("({1} * tanh({2} * ({0})))", 1.0, 1.0),
    "hardsigmoid": ("minimum(maximum({1} * ({0}) + {2}, 0.0), 1.0)", 0.2, 0.5),
}  # fmt: skip
_USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


class _Side:
    """One direction of a layer: its activations and weights."""

    def __init__(self, node: Node, side: int, sides: int, parts: dict[str, Any]) -> None:
        count = len(_USUAL[node.op])
        given = node.attributes.get("activations")
        names = [n.decode() for n in given] if given else _USUAL[node.op] * sides
        self.node, self.parts = node, parts
        self.functions = []
        alphas, betas = (
            list(node.attributes.get(f"activation_{k}", [])) for k in ("alpha", "beta")
        )
        for i, name in enumerate(names):
            if name.lower() not in _FUNCTIONS:
                raise refuse(node, f"activation {name}")
            form, alpha, beta = _FUNCTIONS[name.lower()]
            if "{1}" in form and alphas:
                alpha = alphas.pop(0)
            if "{2}" in form and betas:
                beta = betas.pop(0)
            if i // count == side:
                self.functions.append((form, number(float(alpha)), number(float(beta))))
        self.clip = node.attributes.get("clip", 0.0)

    def act(self, place: int, text: str) -> str:
        """The text of activation number `place` of an expression, which is clipped first."""
        if self.clip:
            text = f"minimum(maximum({text}, {number(-self.clip)}), {number(self.clip)})"
        form, alpha, beta = self.functions[place]
        return form.format(text, alpha, beta)

    def product(self, h: Any, name: str) -> Any:
        return pk.matmul(h, self.parts[name].T)


def layers(
    node: Node, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None,
    c: Any = None, peepholes: Any = None,
) -> Any:  # fmt: skip
    """A layer in one direction or both; the outputs are as in ONNX."""
    first = bool(node.attributes.get("layout", 0))  # the batch comes first
    if first:
        x = pk.swapaxes(x, 0, 1)
        h, c = (None if s is None else pk.swapaxes(s, 0, 1) for s in (h, c))
    order = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    directions = order[text(node, "direction", "forward")]
    zeros = kept(node, "zeros", x.device, np.zeros((x.shape[1], r.shape[-1]), x.dtype))
    found = []
    for side, back in enumerate(directions):
        parts = {"w": w, "r": r, "b": b, "p": peepholes}
        mine = {
            name: kept(node, f"{name}{side}", x.device, array[side])
            if isinstance(array, np.ndarray) else array[side]
            for name, array in parts.items() if array is not None
        }  # fmt: skip
        layer = _Side(node, side, len(directions), mine)
        state = [zeros if s is None else s[side] for s in (h, c)]
        found.append(_run(layer, x, state, back, lengths))
    rows, hs, cs = zip(*found, strict=True)
    ends = [pk.stack(hs), pk.stack(cs)] if node.op == "LSTM" else [pk.stack(hs)]
    y = pk.stack(rows, 1)
    if first:
        return pk.moveaxis(y, 2, 0), *(pk.swapaxes(e, 0, 1) for e in ends)
    return y, *ends


def _run(side: _Side, x: Any, state: list[Any], back: bool, lengths: Any) -> tuple[Any, Any, Any]:
    """Run all steps. Returns h of every step, and the last h and c."""
    steps, batch = x.shape[:2]
    gates, width = _GATES[side.node.op], side.parts["r"].shape[-1]
    inner = pk.matmul(x.reshape(steps * batch, -1), side.parts["w"].T)
    bias = side.parts.get("b")
    side.parts["rb"] = None
    if bias is not None:
        own, other = bias[: gates * width], bias[gates * width :]
        if side.node.op == "GRU":  # the reset gate may multiply the bias of the third gate
            inner, side.parts["rb"] = inner + own, other
        else:
            inner = pk.elementwise("x + a + b", x=inner, a=own, b=other)
    inner = inner.reshape(steps, batch, gates * width)
    h, c = state
    rows: list[Any] = [None] * steps
    for t in reversed(range(steps)) if back else range(steps):
        new, cell = _STEPS[side.node.op](side, inner[t], h, c)
        if lengths is None:
            h, c, rows[t] = new, cell, new
            continue
        choice = f"a if {t} < n else b"
        n = lengths.reshape(-1, 1)
        h = pk.elementwise(choice, a=new, b=h, n=n)
        c = c if cell is c else pk.elementwise(choice, a=cell, b=c, n=n)
        rows[t] = pk.elementwise(choice, a=new, b=0.0, n=n)
    return pk.stack(rows), h, c


def _rnn(side: _Side, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    return pk.elementwise(side.act(0, "x + h"), x=x, h=side.product(h, "r")), c


def _gru(side: _Side, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    width = h.shape[-1]
    xz, xr, xh = (x[:, i * width : (i + 1) * width] for i in range(3))
    weights, bias = side.parts["r"], side.parts["rb"]
    gates = pk.matmul(h, weights[: 2 * width].T)
    if bias is not None:
        gates = gates + bias[: 2 * width]
    last, more = weights[2 * width :], None if bias is None else bias[2 * width :]
    reset = pk.elementwise(side.act(0, "x + h"), x=xr, h=gates[:, width:])
    if side.node.attributes.get("linear_before_reset", 0):
        inner = pk.matmul(h, last.T, bias=more)
        text, operands = "x + r * i", {"r": reset, "i": inner}
    else:
        text, operands = "x + i", {"i": pk.matmul(reset * h, last.T, bias=more)}
    fresh = pk.elementwise(side.act(1, text), x=xh, **operands)
    z = side.act(0, "x + z")
    update = pk.elementwise(z, x=xz, z=gates[:, :width])
    return pk.elementwise("(1 - z) * n + z * h", z=update, n=fresh, h=h), c


def _lstm(side: _Side, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    width = h.shape[-1]
    gates = x + side.product(h, "r")
    i, o, f, g = (gates[:, k * width : (k + 1) * width] for k in range(4))
    p = side.parts.get("p")
    texts, operands = ["x", "x", "x"], list[dict[str, Any]]([{}, {}, {}])
    if p is not None:
        texts = ["x + p * c"] * 3
        operands = [{"p": p[k * width : (k + 1) * width]} for k in range(3)]
    entry = pk.elementwise(side.act(0, texts[0]), x=i, **_with(operands[0], c))
    if side.node.attributes.get("input_forget", 0):
        leave = pk.elementwise("1 - i", i=entry)
    else:
        leave = pk.elementwise(side.act(0, texts[2]), x=f, **_with(operands[2], c))
    cell = pk.elementwise(f"f * c + i * {side.act(1, 'g')}", f=leave, c=c, i=entry, g=g)
    out = pk.elementwise(side.act(0, texts[1]), x=o, **_with(operands[1], cell))
    form, alpha, beta = side.functions[2]  # the cell is not clipped
    return pk.elementwise(f"o * {form.format('c', alpha, beta)}", o=out, c=cell), cell


def _with(operands: dict[str, Any], cell: Any) -> dict[str, Any]:
    return {**operands, "c": cell} if operands else {}


_STEPS: dict[str, Any] = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}
