"""Checks gradient rules by central differences along random directions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pykernels.call.scalars import integer
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, TapeError
from pykernels.tensors.host import NDArray

from ._transforms import vjp
from ._tree import leaves, rebuilt

__all__ = ["check_gradients"]

# h, relative to the larger of |x| and 1: for this h the errors of the quotient and of rounding are
# about equal
STEP = 2.0**-7
DIRECTIONS = 4  # number of directions for each leaf
ROUNDING = 2.0**-21  # assumed error of a few float32 operations, relative to the terms of a sum


def check_gradients(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Compare the gradients of a function with central differences, to test your own rules.

    The gradient of sum(dy * f(x)) along a random direction u, for a random dy, must equal the
    difference quotient (f(x + h u) - f(x - h u)) / 2h. The quotients for two sizes of h show how
    exact the quotient is, so the largest accepted error is three times their difference, plus the
    rounding of float32. So an error of one percent in a rule is found if f is smooth and its
    values are about as large as its slopes.

    Args:
        f: A function of Tensors, or of trees of Tensors, that returns a Tensor or a tree of
            Tensors. It must return the same values at each call.
        args: Its arguments, with leaves of float32.
        seed: The seed of the random numbers, an integer of 64 bits.

    Raises:
        TapeError: a gradient is wrong. The text names the leaf, the gradient and the expected
            value.
        ArgumentError, DTypeError: as `vjp`; also if an argument is not float32.
    """
    named = leaves(list(args), "args", "check_gradients")
    for name, t in named:
        if not isinstance(t, Tensor) or t.dtype != "float32":
            raise DTypeError(f"[check_gradients] {name} must be a float32 Tensor")
    if not named:
        raise ArgumentError("[check_gradients] args must contain a Tensor")
    rng = np.random.default_rng(integer("check_gradients", "seed", seed) % (1 << 64))
    y, back = vjp(f, *args)
    results = leaves(y, "f's result", "check_gradients")
    dys = [rng.normal(0, 1, t.shape).astype(np.float32) for _, t in results]
    seeds = [t.device.tensor(dy, t.dtype) for (_, t), dy in zip(results, dys, strict=True)]
    found = leaves(back(rebuilt(y, iter(seeds))), "gradients", "check_gradients")
    value = functools.partial(_value, f, args, dys)
    for i, ((name, t), (_, grad)) in enumerate(zip(named, found, strict=True)):
        x, slope = t.numpy().astype(np.float64), grad.numpy().astype(np.float64)
        step = STEP * max(1.0, float(np.abs(x).max(initial=0.0)))
        for _ in range(DIRECTIONS if t.size else 0):
            u = rng.normal(0, 1, t.shape) / max(1.0, t.size**0.5)
            (wide, size), (near, _) = (_difference(value, i, x, u, h) for h in (2 * step, step))
            got = float((slope * u).sum())
            noise = ROUNDING * (size / step + float(np.abs(slope * u).sum()))
            bound = 3 * abs(wide - near) + noise
            if not abs(got - near) <= bound:
                raise TapeError(
                    f"[check_gradients] the gradient of {name} along a random direction is "
                    f"{got:.6g}, but finite differences give {near:.6g} within {bound:.2g}"
                )


def _value(
    f: Callable[..., Any], args: Sequence[Any], dys: Sequence[NDArray], i: int, x: NDArray
) -> tuple[float, float]:
    """sum(dy * f) in float64, with leaf i replaced by x; and the sum of the terms' magnitudes."""
    given = [t for _, t in leaves(list(args), "args", "check_gradients")]
    given[i] = given[i].device.tensor(x.astype(np.float32))
    moved = f(*rebuilt(list(args), iter(given)))
    results = leaves(moved, "f's result", "check_gradients")
    terms = [dy * t.numpy().astype(np.float64) for dy, (_, t) in zip(dys, results, strict=True)]
    return sum(float(a.sum()) for a in terms), sum(float(np.abs(a).sum()) for a in terms)


def _difference(
    value: Callable[..., tuple[float, float]], i: int, x: NDArray, u: NDArray, h: float
) -> tuple[float, float]:
    """The difference quotient of two values over a distance of 2h, corrected for the rounding of
    both points to float32; and the size of the terms."""
    up, down = (x + h * u).astype(np.float32), (x - h * u).astype(np.float32)
    high, size = value(i, up)
    low, _ = value(i, down)
    moved = up.astype(np.float64) - down.astype(np.float64)
    along = float((moved * u).sum() / max(float((u * u).sum()), 1e-300))
    return (high - low) / (along or 1.0), size
