"""Transforms along one axis and several, their frequencies and shifts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np

from pykernels._generated.kernels import fft as _fft
from pykernels._generated.kernels import fill as _fill
from pykernels.call.arrays import Array, Call, array_of
from pykernels.call.scalars import bits_of, choice, integer, real
from pykernels.device import Device, Tensor, default_device, device_of
from pykernels.errors import ArgumentError, ShapeError
from pykernels.functional import roll
from pykernels.rules.fft_table import table_on
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel
from pykernels.tensors.axes import axis_of

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Norm: TypeAlias = Literal["backward", "ortho", "forward"]
Ints: TypeAlias = Sequence[int]
_NORMS = ("backward", "ortho", "forward")
_NARROW = ("float16", "bfloat16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32")


# -- one axis -------------------------------------------------------------------------------------


def fft(
    x: Array, n: int | None = None, axis: int = -1, norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The discrete Fourier transform along an axis: X[k] = sum_j x[j] exp(-2 pi i j k / n).

    Args:
        x: Tensor or numpy array, complex64 or float32; other real dtypes are converted.
        n: The length: x is cut, or zeros follow it. None means the size of the axis.
        axis: The axis.
        norm: "backward" (the same as None) divides inverse transforms by n, "forward" divides
            forward transforms, "ortho" divides both by the root of n.
        out: The Tensor to write to, complex64; None makes one.

    Returns:
        complex64, with n elements along the axis: a Tensor for a Tensor, else a numpy array.

    Raises:
        ArgumentError: n is below 1, or norm is unknown.
        ShapeError: the axis does not exist, or `out` has another shape.
        DTypeError: the dtype of x is not a dtype of numbers, or `out` is not complex64.
        LimitError: the length is above 2^30.
    """
    return _along("fft", x, n, axis, norm, out)


def ifft(
    x: Array, n: int | None = None, axis: int = -1, norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The inverse of `fft` along an axis; arguments are the same as in `fft`."""
    return _along("ifft", x, n, axis, norm, out)


def rfft(
    x: Array, n: int | None = None, axis: int = -1, norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The first n // 2 + 1 elements of the transform of real numbers; the others follow from these.

    Arguments are the same as in `fft`, but x must be real.
    """
    return _along("rfft", x, n, axis, norm, out)


def irfft(
    x: Array, n: int | None = None, axis: int = -1, norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The inverse of `rfft`: n real numbers, by default 2 (m - 1) for m elements.

    The imaginary parts of element 0 and, for an even n, of element n / 2 are ignored. Arguments are
    the same as in `fft`, except that `out` is float32.
    """
    return _along("irfft", x, n, axis, norm, out)


@whole
def _along(
    op: str, x: Array, n: int | None, axis: int, norm: Norm | None, out: Tensor | None
) -> Array:
    given = _number(op, x)
    call = Call(_named(op), given, out=out)
    t = call.tensor("x", given)
    at = axis_of(op, integer(op, "axis", axis), t.ndim)
    length = _length(op, t, n, at, op == "irfft")
    dtype: Any = "float32" if op == "irfft" else "complex64"
    count = length // 2 + 1 if op == "rfft" else length
    result = call.out((*t.shape[:at], count, *t.shape[at + 1 :]), dtype)
    _launched(op, t, result, length, at, norm)
    return call.leave(result)


def _launched(op: str, t: Tensor, result: Tensor, length: int, at: int, norm: Norm | None) -> None:
    inverse = op.startswith("i")
    scale = _scale(op, norm, length, inverse)
    if result.size == 0:
        return
    if t.shape[at] == 0:
        run(_fill.KERNEL, (result,), bits_of(op, 0, result.dtype))
        return
    given = table_on(t.device, length)
    views = t.moveaxis(at, -1), given, result.moveaxis(at, -1)
    run(_fft.KERNEL, views, (), (length, inverse, scale))


def _named(op: str) -> Kernel:
    """The kernel under the name of a function, which then appears in errors."""
    found = _KERNELS.get(op)
    if found is None:
        x, *others = _fft.KERNEL.args
        if op.startswith("rfft"):
            x = replace(x, dtypes=("float32",))
        found = _KERNELS[op] = replace(_fft.KERNEL, name=op, args=(x, *others))
    return found


_KERNELS: dict[str, Kernel] = {}


def _number(op: str, x: Array) -> Array:
    """x as float32 or complex64, if it has another number dtype."""
    array_of(op, "x", x)
    name = str(x.dtype)
    if name in _NARROW or (isinstance(x, np.ndarray) and name in ("int64", "uint64", "float64")):
        x, name = x.astype("float32"), "float32"
    if name == "complex128" or (op.startswith("ir") and name == "float32"):
        return x.astype("complex64")
    return x


def _length(op: str, t: Tensor, n: int | None, at: int, of_half: bool) -> int:
    """The length of a transform; `of_half` is True for a transform of half a spectrum."""
    if n is None:
        n = 2 * (t.shape[at] - 1) if of_half else t.shape[at]
    length = integer(op, "n", n)
    if length < 1:
        raise ArgumentError(f"[{op}] the length must be at least 1 but is {length}")
    return length


def _scale(op: str, norm: Norm | None, length: int, inverse: bool) -> float:
    kind = "backward" if norm is None else choice(op, "norm", norm, _NORMS)
    if kind == "ortho":
        return 1.0 / math.sqrt(length)
    return 1.0 / length if (kind == "backward") == inverse else 1.0


# -- several axes ---------------------------------------------------------------------------------


def fftn(
    x: Array, s: Ints | None = None, axes: Ints | None = None, norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The transform along several axes.

    Args:
        x: As in `fft`.
        s: The lengths, one for each axis; None, or -1 for an axis, means the size of x.
        axes: The axes; None means all axes, or, if s is given, the last len(s) axes.
        norm: As in `fft`, for each axis.
        out: The Tensor to write to; None makes one.
    """
    return _over("fftn", x, s, axes, norm, out)


def ifftn(
    x: Array, s: Ints | None = None, axes: Ints | None = None, norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The inverse of `fftn`; arguments are the same as in `fftn`."""
    return _over("ifftn", x, s, axes, norm, out)


def rfftn(
    x: Array, s: Ints | None = None, axes: Ints | None = None, norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """`rfft` along the last of the axes, then `fft` along the others; arguments are the same as in
    `fftn`."""
    return _over("rfftn", x, s, axes, norm, out)


def irfftn(
    x: Array, s: Ints | None = None, axes: Ints | None = None, norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The inverse of `rfftn`; arguments are as in `fftn`, and s gives the lengths of the result."""
    return _over("irfftn", x, s, axes, norm, out)


def fft2(
    x: Array, s: Ints | None = None, axes: Ints = (-2, -1), norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """`fftn` along two axes."""
    return _over("fft2", x, s, axes, norm, out)


def ifft2(
    x: Array, s: Ints | None = None, axes: Ints = (-2, -1), norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """`ifftn` along two axes."""
    return _over("ifft2", x, s, axes, norm, out)


def rfft2(
    x: Array, s: Ints | None = None, axes: Ints = (-2, -1), norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """`rfftn` along two axes."""
    return _over("rfft2", x, s, axes, norm, out)


def irfft2(
    x: Array, s: Ints | None = None, axes: Ints = (-2, -1), norm: Norm | None = None, *,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """`irfftn` along two axes."""
    return _over("irfft2", x, s, axes, norm, out)


@whole
def _over(
    op: str, x: Array, s: Ints | None, axes: Ints | None, norm: Norm | None, out: Tensor | None
) -> Array:
    given = _number(op, x)
    call = Call(_named(op), given, out=out)
    t = call.tensor("x", given)
    ats, lengths = _axes(op, t, s, axes)
    of_reals = op.startswith("r")
    inverse, to_reals = op.startswith("i"), op.startswith("ir")
    steps = [*zip(ats, lengths, strict=True)]
    steps = steps if to_reals else steps[::-1]
    shapes, shape = [], list(t.shape)
    for at, length in steps:
        last = at == ats[-1]
        shape[at] = length // 2 + 1 if of_reals and last else length
        shapes.append(tuple(shape))
    dtype: Any = "float32" if to_reals else "complex64"
    if not steps:
        result = call.out(t.shape, dtype)
        run(result._context.copy, (t, result))
        return call.leave(result)
    result = call.out(shapes[-1], dtype)
    for i, (at, length) in enumerate(steps):
        into = result if i == len(steps) - 1 else call.empty(shapes[i], "complex64")
        one = "rfft" if of_reals and i == 0 else "irfft" if into.dtype == "float32" else "fft"
        one = "ifft" if inverse and one == "fft" else one
        _launched(one, t, into, length, at, norm)
        t = into
    return call.leave(result)


def _axes(op: str, t: Tensor, s: Ints | None, axes: Ints | None) -> tuple[list[int], list[int]]:
    """The axes, and the length along each."""
    given = None if s is None else [integer(op, "s", n) for n in s]
    if axes is None:
        ats = list(range(t.ndim))
        if given is not None:
            if len(given) > t.ndim:
                raise ShapeError(f"[{op}] s has {len(given)} lengths but x the shape {t.shape}")
            ats = ats[t.ndim - len(given) :]
    else:
        ats = [axis_of(op, integer(op, "axes", a), t.ndim) for a in axes]
    if given is None:
        given = [-1] * len(ats)
    if len(given) != len(ats):
        raise ShapeError(f"[{op}] s and axes must have the same length but are {s} and {axes}")
    if len(set(ats)) != len(ats):
        raise ShapeError(f"[{op}] axes must be different but are {axes}")
    lengths = []
    for i, (at, n) in enumerate(zip(ats, given, strict=True)):
        of_half = op.startswith("ir") and i == len(ats) - 1
        lengths.append(_length(op, t, None if n == -1 else n, at, of_half))
    return ats, lengths


# -- frequencies ----------------------------------------------------------------------------------


def fftfreq(n: int, d: float = 1.0, *, device: Device | None = None) -> Tensor:
    """The frequencies of the elements of a transform, in cycles per unit of d: 0, 1, ..., then the
    negative frequencies from -(n // 2) to -1, all divided by n * d.

    Args:
        n: The length.
        d: The distance between neighbouring samples.
        device: The Device; None is the default device.
    """
    length, step = _spaced("fftfreq", n, d)
    return _device(device).tensor(np.fft.fftfreq(length, step).astype(np.float32))


def rfftfreq(n: int, d: float = 1.0, *, device: Device | None = None) -> Tensor:
    """The frequencies of the elements of `rfft`; arguments as in `fftfreq`."""
    length, step = _spaced("rfftfreq", n, d)
    return _device(device).tensor(np.fft.rfftfreq(length, step).astype(np.float32))


def _spaced(op: str, n: int, d: float) -> tuple[int, float]:
    length, step = integer(op, "n", n), real(op, "d", d)
    if length < 1 or step == 0:
        raise ArgumentError(f"[{op}] n must be at least 1 and d not 0 but they are {n!r} and {d!r}")
    return length, step


def _device(device: Device | None) -> Device:
    return default_device() if device is None else device_of(device)


def fftshift(x: Array, axes: int | Ints | None = None) -> Array:
    """The elements rearranged so that frequency 0 is in the middle of the axes; None means all
    axes."""
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Array, axes: int | Ints | None = None) -> Array:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes, -1)


def _shifted(op: str, x: Array, axes: int | Ints | None, sign: int) -> Array:
    array_of(op, "x", x)
    if axes is None:
        ats = list(range(x.ndim))
    elif isinstance(axes, Sequence):
        ats = [axis_of(op, integer(op, "axes", a), x.ndim) for a in axes]
    else:
        ats = [axis_of(op, integer(op, "axes", axes), x.ndim)]
    shifts = [x.shape[a] // 2 if sign > 0 else -(x.shape[a] // 2) for a in ats]
    return roll(x, shifts, ats) if ats else x
