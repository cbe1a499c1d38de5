"""Shared code of recurrent layers: arguments as tensors, and checks of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np

from pykernels.device import Tensor, default_device
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.tensors.host import type_name

__all__ = ["Activation", "act", "activations_of", "check", "leave", "sequence", "tensors"]

# The functions that gates and states may have: operations of the elementwise table, with their
# usual constants.
Activation: TypeAlias = Literal[
    "elu", "hardsigmoid", "leaky_relu", "linear", "relu", "sigmoid", "softplus", "softsign", "tanh"
]
_ACTIVATIONS = (
    "elu", "hardsigmoid", "leaky_relu", "linear", "relu", "sigmoid", "softplus", "softsign", "tanh"
)  # fmt: skip

_NEEDED = ("x", "w_ih", "w_hh")


def tensors(op: str, needed: Sequence[str] = _NEEDED, /, **arrays: Any) -> tuple[bool, list[Any]]:
    """Returns True if all arguments are numpy arrays, and a list of all arguments as tensors on one
    device. Arguments in `needed` must not be None."""
    given = next((a for a in arrays.values() if isinstance(a, Tensor)), None)
    for name, array in arrays.items():
        if array is None and name not in needed:
            continue
        if not isinstance(array, (Tensor, np.ndarray)):
            _refuse(op, name, type_name(array))
        dtype = str(array.dtype)
        if dtype not in FLOATS and not (dtype == "float64" and given is not None):
            _refuse(op, name, dtype)
    device = default_device() if given is None else given.device
    found = [a if a is None or isinstance(a, Tensor) else device.tensor(a) for a in arrays.values()]
    return given is None, found


def activations_of(op: str, given: Sequence[str], count: int) -> tuple[str, ...]:
    """Check the names of a layer's activations, and return them."""
    listed = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count
    if not listed or any(name not in _ACTIVATIONS for name in given):
        raise ArgumentError(
            f"[{op}] activations must be {count} of {', '.join(_ACTIVATIONS)} but is {given!r:.80}"
        )
    return tuple(given)


def act(name: str, text: str) -> str:
    """The text of an activation, applied to an expression."""
    return f"({text})" if name == "linear" else f"{name}({text})"


def _refuse(op: str, name: str, told: str) -> NoReturn:
    raise DTypeError(f"[{op}] {name} must be float32, float16 or bfloat16 but is {told}")


def sequence(op: str, x: Tensor) -> tuple[int, int, int]:
    """The numbers of steps, batches and inputs of x."""
    if x.ndim != 3:
        raise ShapeError(f"[{op}] x must have the axes (T, N, inputs) but has shape {x.shape}")
    return x.shape[0], x.shape[1], x.shape[2]


def check(op: str, gates: int, inputs: tuple[int, int], w_ih: Tensor, w_hh: Tensor, **more: Any
          ) -> int:  # fmt: skip
    """Check that all arguments fit inputs (N, inputs), and return H. `more` has the biases, whose
    names begin with b, and the states."""
    count, size = inputs
    width = w_hh.shape[-1] if w_hh.ndim else 0
    wanted: dict[str, Any] = {
        "w_ih": (w_ih, (gates * width, size)),
        "w_hh": (w_hh, (gates * width, width)),
    }
    for name, given in more.items():
        wanted[name] = given, (gates * width,) if name[0] == "b" else (count, width)
    for name, (given, shape) in wanted.items():
        if given is not None and given.shape != shape:
            raise ShapeError(f"[{op}] {name} must have shape {shape} but has {given.shape}")
    return width


def leave(host: bool, t: Tensor) -> Any:
    """The result as a numpy array if the caller's arguments were numpy arrays (`host`)."""
    return t.numpy() if host else t
