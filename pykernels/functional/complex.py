"""Complex numbers: parts, magnitudes and angles, and the arithmetic of elements.

A complex64 tensor has the memory of a float32 tensor with one more axis, of size 2: real part,
imaginary part. The functions here compute on such views, by calls of the functions for floats.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pykernels._generated import functional as floats
from pykernels._generated.kernels import complex as _complex
from pykernels._generated.kernels import cpy as _cpy
from pykernels.call.apply import evaluate
from pykernels.call.arrays import Array, Call, array_of, is_complex, refusal
from pykernels.device import Tensor, default_device
from pykernels.dtypes import DTYPES, DTypeName
from pykernels.errors import DTypeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import expanded, layout

__all__ = [
    "angle", "complex", "conj", "conjugate", "imag", "real", "view_as_complex", "view_as_real",
]  # fmt: skip

_CONJ = replace(_cpy.KERNEL, name="conj")
_F32 = DTYPES["float32"]
_C64 = DTYPES["complex64"]
complex_type = builtins.complex
# hypot without overflow and without loss of small numbers. Both numbers are scaled by a power of
# two before the division, because GPUs flush the reciprocals of large numbers to 0.
_LARGER, _SMALLER = "maximum(abs(re), abs(im))", "minimum(abs(re), abs(im))"
_SCALE = f"({2.0**-96} if {_LARGER} > 1e19 else {2.0**96} if {_LARGER} < 1e-19 else 1.0)"
_MAGNITUDE = (
    "inf if isinf(re) or isinf(im) else "
    f"{_LARGER} if {_SMALLER} == 0 else "
    f"{_LARGER} * sqrt(1 + (({_SMALLER} * {_SCALE}) / ({_LARGER} * {_SCALE})) ** 2)"
)


# -- parts ----------------------------------------------------------------------------------------


def real(x: Array) -> Array:
    """The real parts: a view of a complex64 tensor, x itself for other dtypes (numpy)."""
    if isinstance(x, Tensor) and is_complex(x):
        return _part(x, 0)
    return np.real(x) if isinstance(x, np.ndarray) else array_of("real", "x", x)


@whole
def imag(x: Array) -> Array:
    """The imaginary parts: a view of a complex64 tensor, zeros for other dtypes (numpy)."""
    if isinstance(x, Tensor):
        return _part(x, 1) if is_complex(x) else x.device.zeros(x.shape, x.dtype)
    return np.imag(array_of("imag", "x", x))


@whole
def conj(x: Array, *, out: Tensor | None = None) -> Array:
    """The complex conjugate; a copy of x for other dtypes.

    Args:
        x: Tensor or numpy array.
        out: The Tensor to write to, which may be x; None makes one.
    """
    if isinstance(x, np.ndarray) and x.dtype == np.complex128:
        x = x.astype(np.complex64)
    call = Call(_CONJ, x, out=out)
    given = call.tensor("src", x)
    result = call.out(given.shape, given.dtype)
    if not is_complex(given):
        run(_CONJ, (given, result))
    else:
        same = result._location == given._location
        if not same and result._block is given._block:
            given = given.copy()
        if not same:
            run(_CONJ, (_part(given, 0), _part(result, 0)))
        floats.neg(_part(given, 1), out=_part(result, 1))
    return call.leave(result)


conjugate = conj  # numpy's other name


@whole
def angle(x: Array, *, out: Tensor | None = None) -> Array:
    """The angle from the positive real axis, in radians from -pi to pi; 0 or pi for real numbers.

    Args:
        x: Tensor or numpy array, complex64, float32 or float16.
        out: The Tensor to write to, float32; None makes one.
    """
    t, host = _tensor("angle", x, out)
    if is_complex(t):
        found = floats.atan2(_part(t, 1), _part(t, 0), out=out)
    else:
        text = "pi if x < 0 else x if isnan(x) else 0.0"
        found = evaluate("angle", text, {"x": t}, out)
    return found.numpy() if host and isinstance(found, Tensor) else found


@whole
def complex(real: Array, imag: Array | None = None, *, out: Tensor | None = None) -> Array:
    """Complex numbers from real and imaginary parts (torch).

    Args:
        real: Tensor or numpy array, float32.
        imag: Tensor or numpy array, float32; real and imag repeat by numpy's rule. None is 0.
        out: The Tensor to write to, complex64; None makes one.

    Raises:
        DTypeError, ShapeError: as `pykernels.kernels.complex`.
    """
    call = Call(_complex.KERNEL, real, imag, out=out)
    parts = call.tensor("real", real), call.tensor("imag", imag)
    shape = parts[0].shape
    if parts[1] is not None:
        shape = call.expanded(real=shape, imag=parts[1].shape)
    result = call.out(shape, "complex64")
    run(_complex.KERNEL, (*parts, result))
    return call.leave(result)


def view_as_real(x: Tensor) -> Tensor:
    """A float32 view with one more axis, of size 2: real and imaginary parts (torch).

    Raises:
        DTypeError: x is not a complex64 tensor.
    """
    if not (isinstance(x, Tensor) and is_complex(x)):
        told = x.dtype if isinstance(x, Tensor) else type_name(x)
        raise DTypeError(f"[view_as_real] x must be a complex64 Tensor but is {told}")
    return _pairs(x)


def view_as_complex(x: Tensor) -> Tensor:
    """A complex64 view without the last axis, which holds the real and the imaginary part (torch).

    Raises:
        DTypeError: x is not a float32 tensor.
        ShapeError: the last axis does not have size 2, its two parts are not neighbours in memory,
            or a stride or the offset is not a multiple of 8 bytes.
    """
    if not isinstance(x, Tensor) or x.dtype != "float32":
        told = x.dtype if isinstance(x, Tensor) else type_name(x)
        raise DTypeError(f"[view_as_complex] x must be a float32 Tensor but is {told}")
    steps = [s for n, s in zip(x.shape[:-1], x.strides[:-1], strict=True) if n > 1]
    if x.shape[-1:] != (2,) or x.strides[-1] != 4 or any(s % 8 for s in (*steps, x.offset)):
        raise ShapeError(
            "[view_as_complex] the last axis of x must be two neighbours, and offset and other "
            f"strides multiples of 8, but x has shape {x.shape}, strides {x.strides}, offset "
            f"{x.offset}"
        )
    strides = tuple([s // 8 * 8 for s in x.strides[:-1]])  # rounds strides of axes of size 1
    return x._with(layout(x.shape[:-1], strides, _C64))


def _part(x: Tensor, which: int) -> Tensor:
    lay = x._layout
    return x._at(layout(lay.shape, lay.strides, _F32), 4 * which)


def _pairs(x: Tensor) -> Tensor:
    lay = x._layout
    return x._with(layout((*lay.shape, 2), (*lay.strides, 4), _F32))


# -- arithmetic -----------------------------------------------------------------------------------


@whole
def operated(op: str, args: tuple[Any, ...], out: Tensor | None) -> Any:
    """An elementwise operation, if an operand or `out` is complex."""
    function = _OPERATIONS.get(op)
    if function is None:
        raise refusal(op, "an operand")
    if out is not None and not isinstance(out, Tensor):
        raise DTypeError(f"[{op}] out must be a pykernels.Tensor but is {type_name(out)}")
    given = next((a for a in (*args, out) if isinstance(a, Tensor)), None)
    device = default_device() if given is None else given.device
    operands = [_operand(op, device, a, given is not None) for a in args]
    shapes = [a.shape for a in operands if isinstance(a, Tensor)]
    try:
        shape = expanded(*shapes)
    except ValueError:
        told = " and ".join(map(str, shapes))
        raise ShapeError(f"[{op}] shapes must broadcast together but are {told}") from None
    dtype: DTypeName = "float32" if op == "abs" else "complex64"
    if out is None:
        result = device.empty(shape, dtype)
    elif out.shape != shape:
        raise ShapeError(f"[{op}] out must have shape {shape} but has {out.shape}")
    elif out.dtype != dtype:
        raise DTypeError(f"[{op}] out must be {dtype} but is {out.dtype}")
    else:
        result = out
    # An operand in the buffer of the result is copied first: real and imaginary part may be two
    # launches, and the second launch must not read what the first wrote.
    operands = [
        a.copy() if isinstance(a, Tensor) and a._block is result._block else a for a in operands
    ]
    function(*operands, result)
    return result.numpy() if given is None else result


def _operand(op: str, device: Any, value: Any, beside_tensors: bool) -> Any:
    """An operand as a tensor of complex64 or float32, or as a Python number."""
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, (float, complex_type)):
        if value.dtype == np.float64 and beside_tensors:
            value = value.astype(np.float32)
        if value.dtype == np.complex128 and beside_tensors:
            value = value.astype(np.complex64)
        value = device.tensor(value, None if value.dtype.kind != "O" else "complex64")
    if isinstance(value, Tensor):
        return value if value.dtype in ("complex64", "float32") else value.astype("float32")
    if isinstance(value, (bool, int, float, complex_type)):
        return value
    raise DTypeError(
        f"[{op}] operands must be pykernels.Tensors, numpy arrays or numbers but one is "
        f"{type_name(value)}"
    )


def _both(x: Any) -> tuple[Any, Any]:
    """Real and imaginary part of a tensor or a number."""
    if isinstance(x, Tensor):
        return (_part(x, 0), _part(x, 1)) if is_complex(x) else (x, 0.0)
    return x.real, x.imag


def _sum(function: Callable[..., Any], a: Any, b: Any, result: Tensor) -> None:
    if is_complex(a) and is_complex(b) and isinstance(a, Tensor) and isinstance(b, Tensor):
        function(*[_pairs(x.broadcast_to(result.shape)) for x in (a, b)], out=_pairs(result))
        return
    for x, y, into in zip(_both(a), _both(b), _both(result), strict=True):
        if isinstance(x, Tensor) or isinstance(y, Tensor):
            function(x, y, out=into)
        else:
            floats.add(
                into.device.zeros(into.shape), x + y if function is floats.add else x - y, out=into
            )


def _add(a: Any, b: Any, result: Tensor) -> None:
    _sum(floats.add, a, b, result)


def _sub(a: Any, b: Any, result: Tensor) -> None:
    _sum(floats.sub, a, b, result)


def _mul(a: Any, b: Any, result: Tensor) -> None:
    if not is_complex(a) or (not isinstance(a, Tensor) and is_complex(b)):
        a, b = b, a
    if not isinstance(a, Tensor):  # one operand is a complex number, the other has real numbers
        for x, into in zip(_both(a), _both(result), strict=True):
            floats.mul(b, x, out=into)
        return
    if not is_complex(b):
        floats.mul(_pairs(a.broadcast_to(result.shape)), _beside(b, result), out=_pairs(result))
        return
    (a_re, a_im), (b_re, b_im) = _both(a), _both(b)
    operands = {"a": a_re, "b": a_im, "c": b_re, "d": b_im}
    evaluate("mul", "a * c - b * d", operands, _part(result, 0))
    evaluate("mul", "a * d + b * c", operands, _part(result, 1))


def _beside(x: Any, result: Tensor) -> Any:
    """Real numbers with a last axis of size 1, which repeats over pairs."""
    return x.broadcast_to(result.shape).unsqueeze(-1) if isinstance(x, Tensor) else x


def _div(a: Any, b: Any, result: Tensor) -> None:
    if is_complex(b) or not isinstance(a, Tensor):
        raise DTypeError("[div] b must be real if a is complex64, but is complex")
    floats.div(_pairs(a.broadcast_to(result.shape)), _beside(b, result), out=_pairs(result))


def _neg(x: Tensor, result: Tensor) -> None:
    floats.neg(_pairs(x), out=_pairs(result))


def _abs(x: Tensor, result: Tensor) -> None:
    evaluate("abs", _MAGNITUDE, {"re": _part(x, 0), "im": _part(x, 1)}, result)


_OPERATIONS: dict[str, Callable[..., None]] = {
    "abs": _abs, "add": _add, "div": _div, "mul": _mul, "neg": _neg, "sub": _sub,
}  # fmt: skip


def _tensor(op: str, x: Array, out: Tensor | None) -> tuple[Tensor, bool]:
    """An argument as a tensor, and True if the result goes to the host."""
    array_of(op, "x", x)
    if isinstance(x, Tensor):
        return x, False
    device = default_device() if out is None else out.device
    if x.dtype.kind == "c":
        x = x.astype(np.complex64)
    return device.tensor(x), out is None
