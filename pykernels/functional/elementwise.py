"""Elementwise functions of several operations, and expressions of the caller's own."""

from __future__ import annotations

from typing import Any, Literal

from pykernels.call.again import again
from pykernels.call.apply import Operations, evaluate, operate
from pykernels.call.arrays import Array, array_of
from pykernels.call.operation import either
from pykernels.call.scalars import flag, integer, real
from pykernels.device import Tensor
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.launch import launch
from pykernels.runtime.whole import whole

__all__ = [
    "allclose", "clamp", "clip", "elementwise", "geglu", "gelu", "glu", "isclose",
    "masked_fill", "nan_to_num", "reglu", "swiglu",
]  # fmt: skip

_LARGEST = {
    "float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 3.3895313892515355e38,
}  # fmt: skip


def elementwise(expression: str, *, out: Tensor | None = None, **operands: Array | float) -> Array:
    """The value of an expression, element by element, in one pass over memory.

        pk.elementwise("silu(gate) * up", gate=g, up=u)

    The language is Python's: names, numbers, `+ - * / // % **`, `& | ^ ~ << >>`, comparisons (also
    chained), `and or not`, `a if condition else b`, the constants `pi inf nan`, the elementwise
    functions of this module by name, and the conversions `float32 int32 uint32 bool`. Operands are
    float32, float16, int32, uint32 or bool; others are converted first. Operands repeat by numpy's
    rule, and dtypes are promoted as in all other functions. Floats are computed in float32 (a
    float16 result is rounded once, at the end), and integers of up to 16 bits in 32 bits.

    An expression is compiled for each new combination of text, dtypes and layouts. A call with
    other numbers, in the text or as operands, needs no new compilation. The text is never used as
    shader text.

    Args:
        expression: The text.
        out: The Tensor to write to, which may be an operand; None makes one.
        operands: Tensors, numpy arrays or numbers, each by its name in the text; at most seven
            Tensors and arrays.

    Returns:
        A Tensor if an argument is a Tensor, else a numpy array.

    Raises:
        ArgumentError: the text is not an expression; the message shows the place of the error.
        LimitError: more tensors or numbers than one launch can have.
        DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    return evaluate("elementwise", expression, operands, out)  # type: ignore[no-any-return]


@again
def clamp(
    x: Array, min: Array | float | None = None, max: Array | float | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The elements of x, limited to at least `min` and at most `max`; NaN stays NaN.

    Where min is above max, the result is max. Dtypes are promoted. Gradients are torch's: where x
    equals a bound, x and the bound share the gradient if the bound is a tensor; if it is a number,
    the gradient is 0.

    Args:
        x: Tensor or numpy array.
        min: Number, Tensor or numpy array that repeats by numpy's rule; None is no limit. max: As
        `min`.
        out: The Tensor to write to, which may be x; None makes one.
    """
    operands: dict[str, Any] = {"x": x}
    text = "x"
    if min is not None:
        text, operands["low"] = f"maximum({text}, low)", min
    if max is not None:
        text, operands["high"] = f"minimum({text}, high)", max
    return evaluate("clamp", text, operands, out)  # type: ignore[no-any-return]


@again
def clip(
    x: Array, min: Array | float | None = None, max: Array | float | None = None, *,
    a_min: Array | float | None = None, a_max: Array | float | None = None,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """`clamp`; the bounds may also have numpy's names `a_min` and `a_max`.

    Raises:
        ArgumentError: a bound is given by both names.
    """
    for name, one, other in (("min", min, a_min), ("max", max, a_max)):
        if one is not None and other is not None:
            raise ArgumentError(
                f"[clip] {name} and a_{name} are two names of one argument: give one of them"
            )
    return clamp(x, a_min if min is None else min, a_max if max is None else max, out=out)


_gelu_known: dict[str, Operations] = {"none": {}, "tanh": {}}


def gelu(
    x: Array, approximate: Literal["none", "tanh"] = "none", *, out: Tensor | None = None
) -> Array:
    """x times the cumulative normal distribution function at x; -0 for x = -inf.

    Args:
        x: Tensor or numpy array, computed as float32, float16 or bfloat16.
        approximate: "none", or "tanh" to compute `gelu_tanh`.
        out: The Tensor to write to, which may be x; None makes one.

    Returns:
        A Tensor if an argument is a Tensor, else a numpy array. The dtype is x's promoted dtype.

    Raises:
        ArgumentError: another approximation.
        DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    try:
        known = _gelu_known[approximate]
    except (KeyError, TypeError):  # not hashable, such as a list
        told = f"{approximate!r:.40}"
        raise ArgumentError(f"[gelu] approximate must be 'none' or 'tanh' but is {told}") from None
    if out is None and isinstance(x, Tensor):
        ran = known.get((x._layout, None))
        if ran is not None:
            result = x._fresh(ran.layout)
            launch((ran.kernel, (), x._location, result._location), (x, result), ())
            return result
    name = "gelu" if approximate == "none" else "gelu_tanh"
    return operate(name, known, (x,), (), out)  # type: ignore[no-any-return]


def masked_fill(x: Array, mask: Array, value: float, *, out: Tensor | None = None) -> Array:
    """x with a number where the mask is True; mask and x repeat by numpy's rule.

    Args:
        x: Tensor or numpy array.
        mask: Tensor or numpy array, bool.
        value: A number.
        out: The Tensor to write to, which may be x; None makes one.
    """
    operands: dict[str, Any] = {"mask": mask, "value": value, "x": x}
    return evaluate("masked_fill", "where(mask, value, x)", operands, out)  # type: ignore[no-any-return]


_nan_to_num_known: Operations = {}


@again
def nan_to_num(
    x: Array, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """x with finite numbers in place of NaN and the infinities; other elements are unchanged.

    Args:
        x: Tensor or numpy array, computed as float32, float16 or bfloat16.
        nan: A number.
        posinf: A number; None is the largest number of the dtype of x, as in numpy.
        neginf: A number; None is the smallest number of the dtype of x.
        out: The Tensor to write to, which may be x; None makes one.
    """
    most = _LARGEST.get(str(getattr(x, "dtype", "")), _LARGEST["float32"])
    numbers = (
        real("nan_to_num", "nan", nan),
        most if posinf is None else real("nan_to_num", "posinf", posinf),
        -most if neginf is None else real("nan_to_num", "neginf", neginf),
    )
    return operate("nan_to_num", _nan_to_num_known, (x,), numbers, out)  # type: ignore[no-any-return]


@again
def isclose(
    a: Array | float, b: Array | float, rtol: float = 1e-5, atol: float = 1e-8,
    equal_nan: bool = False, *, out: Tensor | None = None,
) -> Array:  # fmt: skip
    """True where |a - b| <= atol + rtol |b|, in float32, or if both are the same infinity.

    Args:
        a: Tensor, numpy array or number.
        b: As `a`; operands repeat by numpy's rule.
        rtol: Tolerance relative to b.
        atol: Absolute tolerance.
        equal_nan: True makes NaN close to NaN.
        out: The Tensor to write to, bool; None makes one.
    """
    text = "a == b or isfinite(a - b) and abs(a - b) <= atol + rtol * abs(b) and isfinite(b)"
    if flag("isclose", "equal_nan", equal_nan):
        text += " or isnan(a) and isnan(b)"
    operands: dict[str, Any] = {"a": a, "b": b, "rtol": rtol, "atol": atol}
    return evaluate("isclose", text, operands, out)  # type: ignore[no-any-return]


@whole
def allclose(
    a: Array | float, b: Array | float, rtol: float = 1e-5, atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:  # fmt: skip
    """True if all elements are close; arguments as in `isclose`. The host reads the answer, so the
    call waits for the device, and captures refuse it."""
    from pykernels.functional import all as every

    return bool(every(isclose(a, b, rtol, atol, equal_nan)))


def swiglu(
    x: Array, gate: Array | None = None, *, axis: int = -1, swapped: bool = False,
    dim: int | None = None,
    out: Tensor | None = None) -> Array:  # fmt: skip
    """x times silu of the gate, computed in one pass.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16; without `gate`, one half of x is the
            gate.
        gate: Tensor or numpy array that repeats with x by numpy's rule; None: a half of x.
        axis: The axis along which x is halved.
        dim: Another name for axis.
        swapped: True: the second half of x is the gate, not the first.
        out: The Tensor to write to; None makes one.

    Raises:
        ShapeError: the axis has an odd size.
        DTypeError, ShapeError and the errors of `pykernels.kernels.swiglu`.

    Source: Shazeer 2020.
    """
    if dim is not None:
        axis = either("swiglu", "axis", axis, -1, "dim", dim)
    return _gated("swiglu", x, gate, axis, swapped, out)  # type: ignore[no-any-return]


def geglu(
    x: Array, gate: Array | None = None, *, axis: int = -1, swapped: bool = False,
    dim: int | None = None,
    out: Tensor | None = None) -> Array:  # fmt: skip
    """x times gelu of the gate, in one pass.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16; without `gate`, one half of x is the
            gate.
        gate: Tensor or numpy array that repeats with x by numpy's rule; None: a half of x.
        axis: The axis along which x is halved.
        dim: Another name for axis.
        swapped: True: the second half of x is the gate, not the first.
        out: The Tensor to write to; None makes one.

    Raises:
        ShapeError: the axis has an odd size.
        DTypeError, ShapeError and the errors of `pykernels.kernels.geglu`.

    Source: Shazeer 2020.
    """
    if dim is not None:
        axis = either("geglu", "axis", axis, -1, "dim", dim)
    return _gated("geglu", x, gate, axis, swapped, out)  # type: ignore[no-any-return]


def reglu(
    x: Array, gate: Array | None = None, *, axis: int = -1, swapped: bool = False,
    dim: int | None = None,
    out: Tensor | None = None) -> Array:  # fmt: skip
    """x times relu of the gate, in one pass.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16; without `gate`, one half of x is the
            gate.
        gate: Tensor or numpy array that repeats with x by numpy's rule; None: a half of x.
        axis: The axis along which x is halved.
        dim: Another name for axis.
        swapped: True: the second half of x is the gate, not the first.
        out: The Tensor to write to; None makes one.

    Raises:
        ShapeError: the axis has an odd size.
        DTypeError, ShapeError and the errors of `pykernels.kernels.reglu`.

    Source: Shazeer 2020.
    """
    if dim is not None:
        axis = either("reglu", "axis", axis, -1, "dim", dim)
    return _gated("reglu", x, gate, axis, swapped, out)  # type: ignore[no-any-return]


@again
def glu(x: Array, axis: int = -1, *, dim: int | None = None, out: Tensor | None = None) -> Array:
    """The first half of x times the logistic function of the second, in one pass, as torch's glu.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16.
        axis: The axis along which x is halved.
        dim: Another name for axis.
        out: The Tensor to write to; None makes one.

    Raises:
        ShapeError: the axis has an odd size.
        DTypeError, ShapeError and the errors of `pykernels.kernels`.

    Source: Dauphin et al. 2016.
    """
    if dim is not None:
        axis = either("glu", "axis", axis, -1, "dim", dim)
    a, gate = _halves("glu", x, axis, True)
    if str(a.dtype) not in FLOATS:
        raise DTypeError(f"[glu] x must be float32, float16 or bfloat16 but is {a.dtype}")
    return evaluate("glu", "a * sigmoid(gate)", {"a": a, "gate": gate}, out)  # type: ignore[no-any-return]


_gated_known: dict[str, Operations] = {"swiglu": {}, "geglu": {}, "reglu": {}}


def _gated(
    op: str, x: Array, gate: Array | None, axis: int, swapped: bool, out: Tensor | None
) -> Any:
    """Call the kernel with x and the gate, or with the halves of x."""
    halves = (x, gate) if gate is not None else _halves(op, x, axis, swapped)
    return operate(op, _gated_known[op], halves, (), out)


def _halves(op: str, x: Array, axis: int, swapped: bool) -> tuple[Array, Array]:
    """The gated tensor, and the gate."""
    at = integer(op, "axis", axis)
    array_of(op, "x", x)
    if not -x.ndim <= at < x.ndim or x.shape[at] % 2:
        raise ShapeError(f"[{op}] axis {at} must have an even size but the shape is {x.shape}")
    half = x.shape[at] // 2
    before = (slice(None),) * (at % x.ndim)
    first, second = x[(*before, slice(half))], x[(*before, slice(half, None))]
    return (first, second) if flag(op, "swapped", swapped) else (second, first)
