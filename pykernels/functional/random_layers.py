"""Dropout, and random initial weights of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from pykernels._generated.kernels.mul import KERNEL
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import flag, real
from pykernels.device import Device, Tensor
from pykernels.dtypes import FLOATS, DTypeLike, DTypeName, dtype_of
from pykernels.errors import ArgumentError, DTypeError, ShapeError, either
from pykernels.kernels import cpy, mul
from pykernels.runtime.whole import whole
from pykernels.tensors.host import shape_of

from .elementwise import elementwise
from .random import drawn, probability, rand, randn

__all__ = ["dropout", "kaiming_normal", "kaiming_uniform", "xavier_normal", "xavier_uniform"]

_X = replace(KERNEL.args[0], name="x", dtypes=("float32", "float16"))
_DROPOUT = replace(KERNEL, name="dropout", args=(_X,))
Mode: TypeAlias = Literal["fan_in", "fan_out"]
Shape: TypeAlias = int | Sequence[int]
# Factors that keep the variance after an activation, as torch.nn.init.calculate_gain.
CONVOLUTIONS = [f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)]
GAINS = dict.fromkeys(["linear", "sigmoid", *CONVOLUTIONS], 1.0)
GAINS |= {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


@whole
def dropout(
    x: Array, p: float = 0.5, training: bool = True, *, seed: int | None = None,
    state: Tensor | None = None, out: Tensor | None = None,
) -> Array:  # fmt: skip
    """x times `dropout_mask` with the same seed or state: 0 with probability p, else x / (1 - p).

    The gradient is dy times the same mask, which a tape keeps. Without a seed, each call and each
    replay of a capture has a new mask, because the state advances. With a seed, each call has the
    same mask.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16.
        p: the probability of 0, in [0, 1].
        training: False returns x unchanged.
        seed, state: as in `rand`.
        out: The Tensor of x's shape and dtype to write to, which may be x itself.

    Returns:
        A numpy array if x is one and there is no state, else a Tensor; x itself if nothing is
        dropped and no `out` is given.

    Raises:
        DTypeError, ArgumentError, ShapeError: as `rand`, for p outside [0, 1], and for an `out`
            that does not fit.
    """
    p = probability("dropout", p)
    call = Call(_DROPOUT, x, state, out=out)
    given = call.tensor("x", x)
    if not flag("dropout", "training", training) or p == 0.0:
        if out is None:
            return x
        result = call.out(given.shape, given.dtype)
        cpy(given, result)
        return call.leave(result)
    result = call.out(given.shape, given.dtype)
    keep = 1.0 - p
    mask = drawn(
        "dropout", given.shape, keep, 1.0 / keep if keep else 0.0, given.dtype, seed, state,
        given.device,
    )  # fmt: skip
    mul(given, mask, result)
    return call.leave(result)


@whole
def kaiming_uniform(
    shape: Shape, a: float = 0.0, mode: Mode = "fan_in", nonlinearity: str = "leaky_relu", *,
    dtype: DTypeLike = "float32", seed: int | None = None, state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:  # fmt: skip
    """Initial weights of a layer (He): uniform random numbers in [-b, b) with b = gain sqrt(3 /
    fan).

    A number is (2 u - 1) b, computed in float32 and rounded once, where u is a number of `rand`. So
    the weights are the same on every device.

    Args:
        shape: (outputs, inputs, *kernel) of the weight, two axes or more.
        a: the slope of leaky_relu below 0.
        mode: "fan_in" (inputs times kernel size) keeps the variance of values, "fan_out" (outputs
            times kernel size) keeps the variance of gradients.
        nonlinearity: the next function, which sets the gain: linear, sigmoid, tanh (gain 5 / 3),
            relu (sqrt 2), leaky_relu (sqrt(2 / (1 + a^2))), selu (3 / 4), or a convolution such as
            conv1d (1).
        dtype, seed, state, device: as in `rand`.

    Raises:
        ShapeError: the shape has fewer than two axes.
        ArgumentError: the mode or the nonlinearity is unknown; and as `rand`.
        DTypeError: as `rand`.
    """
    op = "kaiming_uniform"
    spread = _gain(op, nonlinearity, a) / math.sqrt(_fan(op, shape, mode))
    return _uniform(op, shape, math.sqrt(3.0) * spread, dtype, seed, state, device)


@whole
def kaiming_normal(
    shape: Shape, a: float = 0.0, mode: Mode = "fan_in", nonlinearity: str = "leaky_relu", *,
    dtype: DTypeLike = "float32", seed: int | None = None, state: Tensor | None = None,
    device: Device | None = None,
) -> Tensor:  # fmt: skip
    """Initial weights of a layer (He): `randn` times gain / sqrt(fan), which is the standard
    deviation.

    Args:
        shape, a, mode, nonlinearity, dtype, seed, state, device: as in `kaiming_uniform`.

    Raises:
        ShapeError, ArgumentError, DTypeError: as `kaiming_uniform`.
    """
    op = "kaiming_normal"
    spread = _gain(op, nonlinearity, a) / math.sqrt(_fan(op, shape, mode))
    return _normal(op, shape, spread, dtype, seed, state, device)


@whole
def xavier_uniform(
    shape: Shape, gain: float = 1.0, *, dtype: DTypeLike = "float32", seed: int | None = None,
    state: Tensor | None = None, device: Device | None = None,
) -> Tensor:  # fmt: skip
    """Initial weights of a layer (Glorot): uniform random numbers in [-b, b) with b = gain sqrt(6 /
    (fan_in + fan_out)).

    Args:
        shape: (outputs, inputs, *kernel) of the weight, two axes or more.
        gain: a factor for the next function: see `kaiming_uniform`.
        dtype, seed, state, device: as in `rand`.

    Raises:
        ShapeError, ArgumentError, DTypeError: as `kaiming_uniform`.
    """
    op = "xavier_uniform"
    spread = _both(op, shape, gain)
    return _uniform(op, shape, math.sqrt(3.0) * spread, dtype, seed, state, device)


@whole
def xavier_normal(
    shape: Shape, gain: float = 1.0, *, dtype: DTypeLike = "float32", seed: int | None = None,
    state: Tensor | None = None, device: Device | None = None,
) -> Tensor:  # fmt: skip
    """Initial weights of a layer (Glorot): normal random numbers of standard deviation gain sqrt(2
    / (fan_in + fan_out)).

    Args:
        shape, gain, dtype, seed, state, device: as in `xavier_uniform`.

    Raises:
        ShapeError, ArgumentError, DTypeError: as `kaiming_uniform`.
    """
    op = "xavier_normal"
    return _normal(op, shape, _both(op, shape, gain), dtype, seed, state, device)


def _uniform(
    op: str, shape: Shape, bound: float, dtype: DTypeLike, seed: int | None, state: Tensor | None,
    device: Device | None,
) -> Tensor:  # fmt: skip
    wanted = _float(op, dtype)
    u = rand(shape, seed=seed, state=state, device=device)
    elementwise("(2 * u - 1) * bound", u=u, bound=bound, out=u)
    return u.astype(wanted)


def _normal(
    op: str, shape: Shape, spread: float, dtype: DTypeLike, seed: int | None, state: Tensor | None,
    device: Device | None,
) -> Tensor:  # fmt: skip
    wanted = _float(op, dtype)
    z = randn(shape, seed=seed, state=state, device=device)
    elementwise("z * spread", z=z, spread=spread, out=z)
    return z.astype(wanted)


def _float(op: str, dtype: DTypeLike) -> DTypeName:
    name = dtype_of(dtype, f"[{op}] dtype").name
    if name not in FLOATS:
        raise DTypeError(f"[{op}] dtype must be {either(FLOATS)} but is {name}")
    return name


def _fans(op: str, shape: Shape) -> tuple[int, int]:
    """fan_in and fan_out: the inputs and the outputs of the layer, each times the kernel's size."""
    sizes = shape_of(shape)
    if len(sizes) < 2:
        raise ShapeError(f"[{op}] shape must be (outputs, inputs, ...) but is {sizes}")
    # At least 1, as a divisor; an empty weight has no numbers, so any divisor is right.
    return tuple(max(n * math.prod(sizes[2:]), 1) for n in (sizes[1], sizes[0]))  # type: ignore[return-value]


def _fan(op: str, shape: Shape, mode: str) -> int:
    fans = dict(zip(("fan_in", "fan_out"), _fans(op, shape), strict=True))
    if not isinstance(mode, str) or mode not in fans:
        raise ArgumentError(f"[{op}] mode must be 'fan_in' or 'fan_out' but is {mode!r}")
    return fans[mode]


def _both(op: str, shape: Shape, gain: float) -> float:
    return real(op, "gain", gain) * math.sqrt(2.0 / sum(_fans(op, shape)))


def _gain(op: str, nonlinearity: str, a: float) -> float:
    slope = real(op, "a", a)
    if isinstance(nonlinearity, str) and nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + slope**2))
    if not isinstance(nonlinearity, str) or nonlinearity not in GAINS:
        raise ArgumentError(
            f"[{op}] nonlinearity must be one of {', '.join([*GAINS, 'leaky_relu'])} but is "
            f"{nonlinearity!r}"
        )
    return GAINS[nonlinearity]
