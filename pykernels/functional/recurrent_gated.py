"""Gated recurrent units and plain recurrent layers, with torch's names, layouts and gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from pykernels._generated.operations.matmul import linear, matmul
from pykernels.call.again import again
from pykernels.call.apply import evaluate
from pykernels.call.arrays import Array
from pykernels.call.scalars import choice, flag
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole

from ._recurrent_base import Activation, act, activations_of, check, leave, sequence, tensors

__all__ = ["gru", "gru_cell", "rnn", "rnn_cell"]

Nonlinearity = Literal["tanh", "relu"]
_USUAL: tuple[Activation, ...] = ("sigmoid", "tanh")
# One step: (state in float32 or x's dtype, the inputs' part of the gates, out) -> the new state.
# The step also writes it to `out`.
_Step = Callable[[Tensor, Tensor, Tensor], Tensor]


@again
@whole
def gru(
    x: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None,
    hx: Array | None = None, *, reverse: bool = False, reset_after: bool = True,
    activations: Sequence[Activation] = _USUAL,
) -> tuple[Array, Array]:  # fmt: skip
    """One layer of gated recurrent units over a sequence, as a layer of torch.nn.GRU.

    With a = x[t] w_ih^T + b_ih and b = h w_hh^T + b_hh, whose thirds belong to r, z and n:
    r = sigmoid(a + b) and z = sigmoid(a + b), each of its own thirds, n = tanh(a + r b), and h,
    which is result[t], becomes (1 - z) n + z h. All arithmetic is f32, and h between steps is f32.
    There is one product for the inputs of all steps, and two launches for each step; without
    `reset_after` there are five for each step.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (T, N, inputs).
        w_ih: float32, float16 or bfloat16, (3 H, inputs).
        w_hh: float32, float16 or bfloat16, (3 H, H).
        b_ih: float32, float16 or bfloat16, (3 H,).
        b_hh: float32, float16 or bfloat16, (3 H,).
        hx: h before the first step, float32, float16 or bfloat16, (N, H); None is zeros.
        reverse: Go from the last step to the first; result[t] still belongs to x[t].
        reset_after: False multiplies h by the reset gate before the product, as Cho and others do
            (ONNX linear_before_reset = 0): n = tanh(a + (r h) w_hh^T + b_hh).
        activations: The functions of the gates r and z, and of n: each 'elu', 'hardsigmoid',
            'leaky_relu', 'linear', 'relu', 'sigmoid', 'softplus', 'softsign' or 'tanh'.

    Returns:
        All h, (T, N, H), and h after the last step, (N, H), of the dtype of x: numpy arrays if all
        arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.

    Source: Cho and others 2014, with the reset gate applied after the product, as in cuDNN.
    """
    op = "gru"
    back, kinds = flag(op, "reverse", reverse), activations_of(op, activations, 2)
    form = _gated if flag(op, "reset_after", reset_after) else _reset_first
    host, given = tensors(op, x=x, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh, h=hx)
    return _layer(op, 3, host, given, back, form(given[2], given[4], kinds))


@again
@whole
def gru_cell(
    x: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None,
    b_hh: Array | None = None,
) -> Array:  # fmt: skip
    """One step of `gru`, as torch.gru_cell.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, inputs).
        hx: h before the step, float32, float16 or bfloat16, (N, H).
        w_ih: float32, float16 or bfloat16, (3 H, inputs).
        w_hh: float32, float16 or bfloat16, (3 H, H).
        b_ih: float32, float16 or bfloat16, (3 H,).
        b_hh: float32, float16 or bfloat16, (3 H,).

    Returns:
        h after the step, (N, H), of the dtype of x: a numpy array if all arguments are, else a
        Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
    """
    op = "gru_cell"
    host, given = tensors(op, x=x, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh, h=hx)
    return _cell(op, 3, host, given, _gated(given[2], given[4]))


@again
@whole
def rnn(
    x: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None, b_hh: Array | None = None,
    hx: Array | None = None, *, nonlinearity: Activation = "tanh", reverse: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """One plain recurrent layer over a sequence, as a layer of torch.nn.RNN.

    h, which is result[t], becomes tanh(x[t] w_ih^T + b_ih + h w_hh^T + b_hh). All arithmetic is
    f32, and h between steps is f32. There is one product for the inputs of all steps, and two
    launches for each step.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (T, N, inputs).
        w_ih: float32, float16 or bfloat16, (H, inputs).
        w_hh: float32, float16 or bfloat16, (H, H).
        b_ih: float32, float16 or bfloat16, (H,).
        b_hh: float32, float16 or bfloat16, (H,).
        hx: h before the first step, float32, float16 or bfloat16, (N, H); None is zeros.
        nonlinearity: 'tanh', or in its place 'elu', 'hardsigmoid', 'leaky_relu', 'linear', 'relu',
            'sigmoid', 'softplus' or 'softsign'.
        reverse: Go from the last step to the first; result[t] still belongs to x[t].

    Returns:
        All h, (T, N, H), and h after the last step, (N, H), of the dtype of x: numpy arrays if all
        arguments are, else Tensors.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.

    Source: Elman 1990.
    """
    op = "rnn"
    choice(op, "nonlinearity", nonlinearity, get_args(Activation))
    back = flag(op, "reverse", reverse)
    host, given = tensors(op, x=x, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh, h=hx)
    return _layer(op, 1, host, given, back, _plain(op, given[2], given[4], nonlinearity))


@again
@whole
def rnn_cell(
    x: Array, hx: Array, w_ih: Array, w_hh: Array, b_ih: Array | None = None,
    b_hh: Array | None = None, *, nonlinearity: Nonlinearity = "tanh",
) -> Array:  # fmt: skip
    """One step of `rnn`, as torch.rnn_tanh_cell and rnn_relu_cell.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, inputs).
        hx: h before the step, float32, float16 or bfloat16, (N, H).
        w_ih: float32, float16 or bfloat16, (H, inputs).
        w_hh: float32, float16 or bfloat16, (H, H).
        b_ih: float32, float16 or bfloat16, (H,).
        b_hh: float32, float16 or bfloat16, (H,).
        nonlinearity: 'tanh' or 'relu'.

    Returns:
        h after the step, (N, H), of the dtype of x: a numpy array if all arguments are, else a
        Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError: the arguments do not fit each other.
    """
    op = "rnn_cell"
    choice(op, "nonlinearity", nonlinearity, ("tanh", "relu"))
    host, given = tensors(op, x=x, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh, h=hx)
    return _cell(op, 1, host, given, _plain(op, given[2], given[4], nonlinearity))


def _layer(
    op: str, gates: int, host: bool, given: list[Any], back: bool, step: _Step
) -> tuple[Any, Any]:
    t, a, b, u, v, h = given
    length, count, size = sequence(op, t)
    width = check(op, gates, (count, size), a, b, b_ih=u, b_hh=v, h=h)
    device = t.device
    h = device.zeros((count, width), t.dtype) if h is None else h
    result = device.empty((length, count, width), t.dtype)
    from_x = device.empty((length, count, gates * width))
    linear(t, a, u, out=from_x)
    for i in reversed(range(length)) if back else range(length):
        h = step(h, from_x[i], result[i])
    # a copy, because a view would keep the memory of all steps
    return leave(host, result), leave(host, h.astype(t.dtype))


def _cell(op: str, gates: int, host: bool, given: list[Any], step: _Step) -> Array:
    t, a, b, u, v, h = given
    if h is None:
        raise ArgumentError(f"[{op}] hx must be an array or a Tensor but is None")
    if t.ndim != 2:
        raise ShapeError(f"[{op}] x must have the axes (N, inputs) but has shape {t.shape}")
    width = check(op, gates, (t.shape[0], t.shape[1]), a, b, b_ih=u, b_hh=v, h=h)
    from_x = t.device.empty((t.shape[0], gates * width))
    linear(t, a, u, out=from_x)
    result = t.device.empty((t.shape[0], width), t.dtype)
    step(h, from_x, result)
    found: Array = leave(host, result)
    return found


def _gated(w_hh: Tensor, bias: Tensor | None, kinds: Sequence[str] = _USUAL) -> _Step:
    gate, last = kinds

    def step(h: Tensor, from_x: Tensor, result: Tensor) -> Tensor:
        from_h = matmul(h, w_hh.T, bias=bias, out=h.device.empty(from_x.shape))
        parts = (len(from_x), 3, h.shape[-1])
        a, b, c = from_x.reshape(parts).transpose(1, 0, 2)
        r, z, n = from_h.reshape(parts).transpose(1, 0, 2)
        named: dict[str, Any] = {"a": a, "b": b, "c": c, "r": r, "z": z, "n": n, "h": h}
        fresh = act(last, f"c + {act(gate, 'a + r')} * n")
        text = f"{fresh} + {act(gate, 'b + z')} * (float32(h) - {fresh})"
        return _written("gru", text, named, result)

    return step


def _reset_first(w_hh: Tensor, bias: Tensor | None, kinds: Sequence[str]) -> _Step:
    gate, last = kinds
    width = w_hh.shape[-1]
    gates, rest = w_hh[: 2 * width].T, w_hh[2 * width :].T
    of_gates, of_rest = (None, None) if bias is None else (bias[: 2 * width], bias[2 * width :])

    def step(h: Tensor, from_x: Tensor, result: Tensor) -> Tensor:
        a, b, c = from_x.reshape(len(from_x), 3, width).transpose(1, 0, 2)
        from_h = matmul(h, gates, bias=of_gates, out=h.device.empty((len(from_x), 2 * width)))
        r, z = from_h.reshape(len(from_x), 2, width).transpose(1, 0, 2)
        reset: dict[str, Any] = {"a": a, "r": r, "h": h}
        left = evaluate("gru", f"{act(gate, 'a + r')} * float32(h)", reset, None)
        n = matmul(left, rest, bias=of_rest, out=h.device.empty(left.shape))
        named: dict[str, Any] = {"b": b, "c": c, "z": z, "n": n, "h": h}
        fresh = act(last, "c + n")
        text = f"{fresh} + {act(gate, 'b + z')} * (float32(h) - {fresh})"
        return _written("gru", text, named, result)

    return step


def _plain(op: str, w_hh: Tensor, bias: Tensor | None, kind: str) -> _Step:
    def step(h: Tensor, from_x: Tensor, result: Tensor) -> Tensor:
        y = matmul(h, w_hh.T, bias=bias, residual=from_x, out=h.device.empty(from_x.shape))
        return _written(op, act(kind, "y"), {"y": y}, result)

    return step


def _written(op: str, text: str, named: dict[str, Any], result: Tensor) -> Tensor:
    """The value of an expression in float32, which is also written to the result."""
    if result.dtype == "float32":
        evaluate(op, text, named, result)
        return result
    h: Tensor = evaluate(op, text, named, None)
    run(h._context.copy, (h, result))
    return h
