"""Recurrent layers, with torch's names, layouts and order of gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykernels._generated.operations.matmul import linear, matmul
from pykernels.call.again import again
from pykernels.call.apply import evaluate
from pykernels.call.arrays import Array
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name

from ._recurrent_base import Activation, act, activations_of, check, leave, sequence, tensors

__all__ = ["lstm", "lstm_cell"]

_USUAL: tuple[Activation, ...] = ("sigmoid", "tanh", "tanh")


@again
@whole
def lstm(
    x: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
    hx: tuple[Array, Array] | None = None,
    *,
    reverse: bool = False,
    peepholes: Array | None = None,
    activations: Sequence[Activation] = _USUAL,
) -> tuple[Array, tuple[Array, Array]]:
    """One layer of a long short-term memory over a sequence, as a layer of torch.nn.LSTM.

    With gates = x[t] w_ih^T + b_ih + h w_hh^T + b_hh, whose quarters are i, f, g and o:
    c becomes sigmoid(f) c + sigmoid(i) tanh(g), and h, which is result[t], becomes
    sigmoid(o) tanh(c). With peepholes, c times the weights is added to the gates before the
    sigmoid: the old c for i and f, the new c for o. All arithmetic is f32, and h and c between
    steps are f32. There is one product for the inputs of all steps, and three launches for each
    step.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (T, N, inputs).
        w_ih: float32, float16 or bfloat16, (4 H, inputs).
        w_hh: float32, float16 or bfloat16, (4 H, H).
        b_ih: float32, float16 or bfloat16, (4 H,).
        b_hh: float32, float16 or bfloat16, (4 H,).
        hx: h and c before the first step, float32, float16 or bfloat16, each (N, H); None is zeros.
        reverse: Go from the last step to the first; result[t] still belongs to x[t].
        peepholes: The weights of c in the gates i, f and o, float32 or float16, (3 H,).
        activations: The functions of the gates i, f and o, of g, and of the new c: each 'elu',
            'hardsigmoid', 'leaky_relu', 'linear', 'relu', 'sigmoid', 'softplus', 'softsign' or
            'tanh'.

    Returns:
        All h, (T, N, H), and h and c after the last step, each (N, H), of the dtype of x: numpy
        arrays if all arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.

    Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers and others 2000 and the
    peepholes of Gers and Schmidhuber 2000.
    """
    op = "lstm"
    back, kinds = flag(op, "reverse", reverse), activations_of(op, activations, 3)
    host, (t, a, b, u, v, h, c, p) = _given(op, x, w_ih, w_hh, b_ih, b_hh, hx, peepholes)
    length, count, size = sequence(op, t)
    width = check(op, 4, (count, size), a, b, b_ih=u, b_hh=v, h=h, c=c)
    if p is not None and p.shape != (3 * width,):
        raise ShapeError(f"[{op}] peepholes must have shape {(3 * width,)} but has {p.shape}")
    seen = None if p is None else p.reshape(3, width)
    device = t.device
    h = device.zeros((count, width), t.dtype) if h is None else h
    c = device.zeros((count, width)) if c is None else c.astype("float32")
    result = device.empty((length, count, width), t.dtype)
    from_x = device.empty((length, count, 4 * width))
    linear(t, a, u, out=from_x)
    for step in reversed(range(length)) if back else range(length):
        h, c = _step(h, c, from_x[step], b, v, result[step], kinds, seen)
    # copies, because views would keep the memory of all steps
    state = h.astype(t.dtype), c.astype(t.dtype)
    return leave(host, result), (leave(host, state[0]), leave(host, state[1]))


@again
@whole
def lstm_cell(
    x: Array,
    hx: tuple[Array, Array],
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
) -> tuple[Array, Array]:
    """One step of `lstm`, as torch.lstm_cell.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, inputs).
        hx: h and c before the step, float32, float16 or bfloat16, each (N, H).
        w_ih: float32, float16 or bfloat16, (4 H, inputs).
        w_hh: float32, float16 or bfloat16, (4 H, H).
        b_ih: float32, float16 or bfloat16, (4 H,).
        b_hh: float32, float16 or bfloat16, (4 H,).

    Returns:
        h and c after the step, each (N, H), of the dtype of x: numpy arrays if all arguments are,
        else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
    """
    op = "lstm_cell"
    host, (t, a, b, u, v, h, c, _) = _given(op, x, w_ih, w_hh, b_ih, b_hh, hx)
    if h is None or c is None:
        raise ArgumentError(f"[{op}] hx must be a tuple of h and c but is None")
    if t.ndim != 2:
        raise ShapeError(f"[{op}] x must have the axes (N, inputs) but has shape {t.shape}")
    width = check(op, 4, (t.shape[0], t.shape[1]), a, b, b_ih=u, b_hh=v, h=h, c=c)
    from_x = t.device.empty((t.shape[0], 4 * width))
    linear(t, a, u, out=from_x)
    result = t.device.empty((t.shape[0], width), t.dtype)
    _, c = _step(h, c.astype("float32"), from_x, b, v, result)
    return leave(host, result), leave(host, c.astype(t.dtype))


def _step(
    h: Tensor, c: Tensor, from_x: Tensor, w_hh: Tensor, bias: Tensor | None, result: Tensor,
    kinds: Sequence[str] = _USUAL, seen: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """h and c after a step, both float32; h is also written to `result`."""
    gates = matmul(h, w_hh.T, bias=bias, residual=from_x, out=h.device.empty(from_x.shape))
    i, f, g, o = gates.reshape(len(gates), 4, h.shape[-1]).transpose(1, 0, 2)
    gate, fresh, last = kinds
    named: dict[str, Any] = {"i": i, "f": f, "g": g, "c": c}
    entry, leaving, out = "i", "f", "o"
    more: dict[str, Any] = {}
    if seen is not None:
        entry, leaving, out = "i + p * c", "f + q * c", "o + p * c"
        named |= {"p": seen[0], "q": seen[1]}
        more = {"p": seen[2]}
    text = f"{act(gate, leaving)} * c + {act(gate, entry)} * {act(fresh, 'g')}"
    c = evaluate("lstm", text, named, None)
    named, text = {"o": o, "c": c, **more}, f"{act(gate, out)} * {act(last, 'c')}"
    if result.dtype == "float32":
        evaluate("lstm", text, named, result)
        return result, c
    h = evaluate("lstm", text, named, None)
    run(h._context.copy, (h, result))
    return h, c


def _pair(op: str, hx: object) -> tuple[Any, Any]:
    if hx is None:
        return None, None
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise ArgumentError(f"[{op}] hx must be a tuple of h and c but is {type_name(hx)}")
    return hx[0], hx[1]


def _given(
    op: str, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, hx: object, peepholes: Any = None
) -> Any:
    h, c = _pair(op, hx)
    return tensors(
        op, x=x, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh, h=h, c=c, peepholes=peepholes
    )
