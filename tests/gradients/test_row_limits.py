"""The gradient of each row of `ops.toml` where its text might overflow or cancel: at zeros, small,
huge and infinite values, and at ties. What shaders compute is compared with differences of the
row's reference in float64, over steps that grow with the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated.ops.elementwise import OPS
from pykernels.wgsl.elementwise import Op
from tests.harness import Array

pytestmark = pytest.mark.gpu

SIZES = (1e-30, 1e-8, 1e-3, 0.3, 2.0, 9.0, 20.5, 80.0, 110.0, 1e3, 2e7, 1e10, 1e20, 1e30, 3e38)
POINTS = np.array([*(-s for s in SIZES[::-1]), *SIZES], "f4").astype("f8")
PARTNERS = (-2.5, 0.75, 3.0, 60.0)
LARGEST = float(np.finfo("f4").max)
# Rows that go up in steps have the derivative of a piece, which no difference over a step shows.
STEPS = {"floor_divide", "remainder", "fmod", "floor", "ceil", "round", "trunc"}
ROWS = [n for n, op in OPS.items() if op.gradients and not op.conditions and n not in STEPS]
# Numbers of a row, in place of its defaults.
PARAMS: dict[str, dict[str, float]] = {
    "softplus": {"beta": 2.0, "threshold": 3.0}, "leaky_relu": {"negative_slope": 0.3},
    "elu": {"alpha": 2.0}, "celu": {"alpha": 2.0}, "hardtanh": {"min_val": -0.5, "max_val": 3.0},
}  # fmt: skip


def numbers(op: Op) -> dict[str, float]:
    return {n: float(PARAMS.get(op.name, {}).get(n, v)) for n, v in op.params.items()}


def slope(op: Op, args: list[Array], place: int) -> Array:
    """The derivative by one input in float64; NaN where differences do not say what it is."""
    found = []
    for share in (1e-4, 0.5e-4, 0.25e-4):
        step = np.abs(args[place]) * share
        ends = []
        for s in (step, -step):
            moved = list(args)
            moved[place] = args[place] + s
            ends.append(np.asarray(op.reference(*moved, *numbers(op).values()), np.float64))
        noise = 4e-16 * np.maximum(*np.abs(ends)) / step
        found.append(((ends[0] - ends[1]) / (2 * step), noise))
    (a, _), (b, _), (c, noise) = found
    agree = (np.abs(a - b) <= 1e-4 * np.abs(b) + noise) & (
        np.abs(b - c) <= 1e-4 * np.abs(c) + noise
    )
    return np.where(agree & (noise < 1e-3 * np.maximum(np.abs(c), 1e-3)), c, np.nan)


def limit(op: Op, args: list[Array], place: int) -> Array:
    """The derivative as an input becomes infinite, NaN where it has no limit that is seen."""
    sign = np.sign(args[place])
    near, far = (
        slope(op, [*args[:place], sign * x, *args[place + 1 :]], place) for x in (1e70, 1e75)
    )
    same = np.abs(near - far) <= 1e-3 * np.abs(near)
    zero = (np.abs(near) < 1e-40) & (np.abs(far) < 1e-40)
    large = (np.abs(near) > LARGEST) & (np.abs(far) > LARGEST)
    return np.where(
        zero, 0, np.where(large, sign * np.inf * np.sign(far), np.where(same, far, np.nan))
    )


def partners(op: Op) -> list[float]:
    """Of the other input; the logarithm of a negative base is none."""
    return [p for p in PARTNERS if p > 0 or op.name != "pow"]


def cases(op: Op) -> list[list[Array]]:
    """Values of the inputs: each of them at all points, the others at some numbers."""
    if len(op.inputs) == 1:
        return [[POINTS]]
    grid = []
    for place in range(2):
        at, other = (v.ravel() for v in np.meshgrid(POINTS, partners(op)))
        grid.append([at, other] if place == 0 else [other, at])
    return grid


def gradients(dev: pk.Device, name: str, args: list[Array]) -> list[Array]:
    """What the tape gives for each input, of a dy of ones."""
    tensors = [dev.tensor(a.astype("f4")) for a in args]
    with pk.Tape() as tape:
        y = getattr(pk, name)(*tensors, **numbers(OPS[name]))
    found = tape.gradient(y, tensors, dev.ones(y.shape))
    return [g.broadcast_to(a.shape).numpy() for g, a in zip(found, args, strict=True)]


def compared(name: str, got: Array, want: Array, args: list[Array], which: str) -> None:
    """Where `want` is known: as large, and within what sums of f32 lose beside 1."""
    known = ~np.isnan(want)
    with np.errstate(all="ignore"):
        close = np.abs(got - want) <= 2e-3 * np.abs(want) + 2e-5
        large = (np.abs(want) > 0.99 * LARGEST) & (np.abs(got) > 0.99 * LARGEST)
        right = close | (large & (np.sign(got) == np.sign(want)))
    wrong = np.flatnonzero(known & ~right)
    told = [(*(float(a[i]) for a in args), float(got[i]), float(want[i])) for i in wrong[:4]]
    assert not wrong.size, f"{name} by {which}: inputs, got, want: {told}"


@pytest.mark.parametrize("name", ROWS)
def test_gradients_of_small_and_huge_values(dev: pk.Device, name: str) -> None:
    op = OPS[name]
    with np.errstate(all="ignore"):
        for args in cases(op):
            found = gradients(dev, name, args)
            for place, which in enumerate(op.inputs):
                compared(name, found[place], slope(op, args, place), args, which)
        for place, which in enumerate(op.inputs if name != "nan_to_num" else ()):
            ends = np.repeat([-np.inf, np.inf], len(partners(op)))
            args = [ends if i == place else np.tile(partners(op), 2) for i in range(len(op.inputs))]
            found = gradients(dev, name, args)
            compared(name, found[place], limit(op, args, place), args, which)


# Inputs, and the derivative by each of them, where it has two sides: torch's choice.
TIES: dict[str, list[tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "abs": [((0.0,), (0.0,)), ((-0.0,), (0.0,))],
    "sign": [((0.0,), (0.0,))],
    "relu": [((0.0,), (0.0,)), ((-0.0,), (0.0,))],
    "minimum": [((2.0, 2.0), (0.5, 0.5)), ((np.inf, np.inf), (0.5, 0.5))],
    "maximum": [((2.0, 2.0), (0.5, 0.5)), ((0.0, -0.0), (0.5, 0.5))],
    "hardtanh": [((-1.0,), (0.0,)), ((1.0,), (0.0,))],
    "hardsigmoid": [((-3.0,), (0.0,)), ((3.0,), (0.0,))],
    "hardswish": [((-3.0,), (0.0,)), ((3.0,), (1.0,))],
    "leaky_relu": [((0.0,), (0.01,))],
    "prelu": [((0.0, 0.25), (0.25, 0.0))],
    "elu": [((0.0,), (1.0,))],
    "celu": [((0.0,), (1.0,))],
    "selu": [((0.0,), (1.7580993408473766,))],
    "reglu": [((2.0, 0.0), (0.0, 0.0))],
    "softplus": [((20.0,), (1.0,)), ((0.0,), (0.5,))],
    "softsign": [((0.0,), (1.0,))],
    "silu": [((0.0,), (0.5,))],
    "gelu": [((0.0,), (0.5,)), ((-0.0,), (0.5,))],
    "gelu_tanh": [((0.0,), (0.5,))],
    "gelu_quick": [((0.0,), (0.5,))],
    "mish": [((0.0,), (0.6,))],
    "swiglu": [((2.0, 0.0), (0.0, 1.0)), ((0.0, 3e38), (3e38, 0.0))],
    "geglu": [((2.0, 0.0), (0.0, 1.0)), ((0.0, 3e38), (3e38, 0.0))],
    "nan_to_num": [((np.nan,), (0.0,)), ((np.inf,), (0.0,)), ((-np.inf,), (0.0,))],
    "pow": [((0.0, 0.0), (0.0, 0.0)), ((0.0, 1.0), (1.0, 0.0)), ((2.0, 0.0), (0.0, np.log(2)))],
    "atan2": [((0.0, 0.0), (0.0, 0.0)), ((0.0, 2.0), (0.5, 0.0))],
    "sqrt": [((0.0,), (np.inf,))],
    "rsqrt": [((np.inf,), (0.0,))],
    "tanh": [((0.0,), (1.0,))],
    "erf": [((0.0,), (1.1283791670955126,))],
}


@pytest.mark.parametrize("name", TIES)
def test_gradients_at_ties_and_zeros(dev: pk.Device, name: str) -> None:
    for inputs, wanted in TIES[name]:
        tensors = [dev.tensor(np.array([v], "f4")) for v in inputs]
        with pk.Tape() as tape:
            y = getattr(pk, name)(*tensors)
        found = [g.broadcast_to((1,)).numpy()[0] for g in tape.gradient(y, tensors, dev.ones((1,)))]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=f"{name} {inputs}")


def test_gradients_of_clamp_at_ties(dev: pk.Device) -> None:
    """Tensors that are equal share; on a limit that is a number nothing comes back, as in torch."""
    x = np.array([-2, -1, 0, 1, 2, 5, -5, 3], "f4")
    low, high = np.array([-1] * 5 + [3, 3, 3], "f4"), np.array([1] * 5 + [-3, -3, 3], "f4")
    third = np.float32(1 / 3)
    wanted: list[list[Any]] = [
        [0, 0.5, 1, 0.5, 0, 0, 0, third],
        [1, 0.5, 0, 0, 0, 0, 0, third],
        [0, 0, 0, 0.5, 1, 1, 1, third],
    ]
    tensors = [dev.tensor(a) for a in (x, low, high)]
    with pk.Tape() as tape:
        y = pk.clamp(*tensors)
    for found, want in zip(tape.gradient(y, tensors, dev.ones(x.shape)), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)
    numbers: list[tuple[Any, Any]] = [
        ((-1.0, 1.0), [0, 0, 1, 0, 0]), ((None, 1.0), [1, 1, 1, 0, 0]),
        ((tensors[1][:5], 1.0), [0, 0.5, 1, 0, 0]), ((-1.0, tensors[2][:5]), [0, 0, 1, 0.5, 0]),
        ((tensors[1][:5], None), [0, 0.5, 1, 1, 1]),
    ]  # fmt: skip
    for limits, want in numbers:
        head = dev.tensor(x[:5])
        with pk.Tape() as tape:
            y = pk.clip(head, *limits)
        (found,) = tape.gradient(y, [head], dev.ones((5,)))
        np.testing.assert_array_equal(found.numpy(), want)
