"""Tensors of evenly spaced numbers, and the unit matrix."""

from __future__ import annotations

import math

from pykernels import kernels
from pykernels.call.again import again_without_tensors
from pykernels.call.scalars import flag, integer, real
from pykernels.device import Device, Tensor, device_of
from pykernels.dtypes import DTypeLike, DTypeName, dtype_of
from pykernels.errors import ArgumentError, DTypeError
from pykernels.tensors.host import shape_of

__all__ = ["arange", "eye", "linspace"]


@again_without_tensors
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    *,
    device: Device | None = None,
) -> Tensor:
    """Numbers from start (0 if only one bound is given) in steps of `step`, excluding stop.

    Integers are exact. Floats are start + i * step in float32, each operation rounded, and then
    rounded to the dtype; i is exact up to 2^24.

    Args:
        start, stop, step: real numbers; there are ceil((stop - start) / step) results.
        dtype: None is int32 if all three are integers, else float32. int64 is computed as int32.
        device: None is the default device.

    Raises:
        ArgumentError: step is 0, a number is not finite, an integer does not fit the dtype, or the
            dtype is an integer dtype and a number is a fraction.
        DTypeError: for bool.
    """
    first, end = (0, start) if stop is None else (start, stop)
    whole = all(hasattr(v, "__index__") for v in (first, end, step))
    name = dtype_of(("int32" if whole else "float32") if dtype is None else dtype).name
    if name == "bool":
        raise DTypeError("[arange] dtype must be a dtype of numbers but is bool")
    convert = integer if whole else real
    first, end, step = (
        convert("arange", n, v) for n, v in (("start", first), ("stop", end), ("step", step))
    )
    if step == 0 or not (whole or all(map(math.isfinite, (first, end, step)))):
        raise ArgumentError(
            f"[arange] start, stop and step must be finite, and step not 0, but are {first}, {end} "
            f"and {step}"
        )
    count = -((first - end) // step) if whole else math.ceil((end - first) / step)
    count = max(int(count), 0)
    kind = dtype_of(name).kind
    if kind == "f":
        first, step = real("arange", "start", first), real("arange", "step", step)
        return _steps(count, first, step, "float32", name, device)
    if not whole:
        raise ArgumentError(f"[arange] {name} needs integers but got {first}, {end} and {step}")
    _check_range(name, (int(first), int(first + (count - 1) * step)) if count else ())
    if name == "uint32":
        step %= 1 << 32
    return _steps(count, first, step, "uint32" if name == "uint32" else "int32", name, device)


@again_without_tensors
def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike = "float32",
    *,
    device: Device | None = None,
) -> Tensor:
    """`num` numbers from start to stop at equal distances: start + i * step in float32.

    step is (stop - start) / (num - 1), or (stop - start) / num without the endpoint, rounded to
    float32. With the endpoint, the last number is exactly stop.

    Args:
        start, stop: real numbers.
        num: the number of results, 0 or more.
        endpoint: True makes stop the last number.
        dtype: float32, float16 or bfloat16.
        device: None is the default device.

    Raises:
        DTypeError: another dtype.
        ArgumentError: num is negative, or a bound is not finite.
    """
    first, end = real("linspace", "start", start), real("linspace", "stop", stop)
    num, last = integer("linspace", "num", num), flag("linspace", "endpoint", endpoint)
    name = dtype_of(dtype, "[linspace] dtype").name
    if dtype_of(name).kind != "f":
        raise DTypeError(f"[linspace] dtype must be a float dtype but is {name}")
    if not 0 <= num < 1 << 63:
        raise ArgumentError("[linspace] num must be from 0 to 2^63 - 1")
    if not math.isfinite(end - first):
        raise ArgumentError(f"[linspace] the bounds must be finite but are {first} and {end}")
    parts = num - 1 if last else num
    t = _steps(num, first, (end - first) / max(parts, 1), "float32", name, device)
    if last and num > 1:
        kernels.fill(t[-1:], end)
    return t


@again_without_tensors
def eye(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: DTypeLike = "float32",
    *,
    device: Device | None = None,
) -> Tensor:
    """Ones on a diagonal, zeros elsewhere.

    Args:
        n: rows.
        m: columns; None is n.
        k: the number of the diagonal: 0 is the main diagonal, and positive numbers are above it.
        dtype: any.
        device: None is the default device.
    """
    rows, cols = shape_of((n, n if m is None else m))
    k = integer("eye", "k", k)
    t = device_of(device).zeros((rows, cols), dtype)
    part = t[:, k:] if k >= 0 else t[-k:]
    size = min(part.shape)
    if size:
        kernels.fill(part._view((size,), (sum(t.strides),), part.offset), 1)
    return t


def _steps(
    count: int, start: float, step: float, computed: DTypeName, name: DTypeName,
    device: Device | None,
) -> Tensor:  # fmt: skip
    """start + i * step in one dtype, converted to another."""
    t = device_of(device).empty(count, computed)
    kernels.arange(t, start, step)
    return t if computed == name else t.astype(name)


def _check_range(name: DTypeName, ends: tuple[int, ...]) -> None:
    """Check that integers fit the dtype, and also int32, in which all dtypes except uint32 are
    computed."""
    bits = min(8 * dtype_of(name).itemsize, 32)
    low, high = (0, 1 << bits) if name.startswith("u") else (-(1 << bits - 1), 1 << bits - 1)
    if not all(low <= v < high for v in ends):
        raise ArgumentError(f"[arange] numbers must be in [{low}, {high - 1}] for {name} but go "
                            f"from {ends[0]} to {ends[1]}")  # fmt: skip
