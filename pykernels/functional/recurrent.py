"""Recurrent layers, with torch's names, layouts and order of gates."""

from __future__ import annotations

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

from ._recurrent_base import check, leave, sequence, tensors

__all__ = ["lstm", "lstm_cell"]


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
) -> tuple[Array, tuple[Array, Array]]:
    """One layer of a long short-term memory over a sequence, as a layer of torch.nn.LSTM.

    With gates = x[t] w_ih^T + b_ih + h w_hh^T + b_hh, whose quarters are i, f, g and o:
    c becomes sigmoid(f) c + sigmoid(i) tanh(g), and h, which is result[t], becomes
    sigmoid(o) tanh(c). All arithmetic is f32, and h and c between steps are f32. There is one
    product for the inputs of all steps, and three launches for each step.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (T, N, inputs).
        w_ih: float32, float16 or bfloat16, (4 H, inputs).
        w_hh: float32, float16 or bfloat16, (4 H, H).
        b_ih: float32, float16 or bfloat16, (4 H,).
        b_hh: float32, float16 or bfloat16, (4 H,).
        hx: h and c before the first step, float32, float16 or bfloat16, each (N, H); None is zeros.
        reverse: Go from the last step to the first; result[t] still belongs to x[t].

    Returns:
        All h, (T, N, H), and h and c after the last step, each (N, H), of the dtype of x: numpy
        arrays if all arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.

    Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers and others 2000.
    """
    op = "lstm"
    back = flag(op, "reverse", reverse)
    host, (t, a, b, u, v, h, c) = _given(op, x, w_ih, w_hh, b_ih, b_hh, hx)
    length, count, size = sequence(op, t)
    width = check(op, 4, (count, size), a, b, b_ih=u, b_hh=v, h=h, c=c)
    device = t.device
    h = device.zeros((count, width), t.dtype) if h is None else h
    c = device.zeros((count, width)) if c is None else c.astype("float32")
    result = device.empty((length, count, width), t.dtype)
    from_x = device.empty((length, count, 4 * width))
    linear(t, a, u, out=from_x)
    for step in reversed(range(length)) if back else range(length):
        h, c = _step(h, c, from_x[step], b, v, result[step])
    state = h.astype(t.dtype), c.astype(t.dtype)  # copies, not views of all steps
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
    host, (t, a, b, u, v, h, c) = _given(op, x, w_ih, w_hh, b_ih, b_hh, hx)
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
    h: Tensor, c: Tensor, from_x: Tensor, w_hh: Tensor, bias: Tensor | None, result: Tensor
) -> tuple[Tensor, Tensor]:
    """h and c after a step, both float32; h is also written to `result`."""
    gates = matmul(h, w_hh.T, bias=bias, residual=from_x, out=h.device.empty(from_x.shape))
    i, f, g, o = gates.reshape(len(gates), 4, h.shape[-1]).transpose(1, 0, 2)
    named: dict[str, Any] = {"i": i, "f": f, "g": g, "c": c}
    c = evaluate("lstm", "sigmoid(f) * c + sigmoid(i) * tanh(g)", named, None)
    if result.dtype == "float32":
        evaluate("lstm", "sigmoid(o) * tanh(c)", {"o": o, "c": c}, result)
        return result, c
    h = evaluate("lstm", "sigmoid(o) * tanh(c)", {"o": o, "c": c}, None)
    run(h._context.copy, (h, result))
    return h, c


def _pair(op: str, hx: object) -> tuple[Any, Any]:
    if hx is None:
        return None, None
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise ArgumentError(f"[{op}] hx must be a tuple of h and c but is {type_name(hx)}")
    return hx[0], hx[1]


def _given(op: str, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, hx: object) -> Any:
    h, c = _pair(op, hx)
    return tensors(op, x=x, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh, h=h, c=c)
