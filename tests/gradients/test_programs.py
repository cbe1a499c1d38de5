"""Random programs of operations, views and writes, against the same in numpy's float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.gradients.jets import Jet, Jets
from tests.gradients.numeric import Example
from tests.harness import Array, assert_close

pytestmark = pytest.mark.gpu

Step = Callable[[Any, list[Any]], Any]
SIZES = (2, 3)


def _view(rng: np.random.Generator) -> Step:
    """Of the shape (2, 3) or (3, 2), and what lies in it."""
    kind, i = int(rng.integers(6)), int(rng.integers(1 << 30))

    def step(m: Any, known: list[Any]) -> Any:
        x = known[i % len(known)]
        views = (x.T, x[::-1], x[:, ::-1], x.reshape(3, 2), x.reshape(x.shape[::-1]),
                 m.broadcast_to(x[:1], x.shape))  # fmt: skip
        return views[kind]

    return step


def _unary(rng: np.random.Generator) -> Step:
    name, i = (
        str(rng.choice(["tanh", "sin", "softmax", "cumsum", "square", "mean"])),
        rng.integers(1 << 30),
    )

    def step(m: Any, known: list[Any]) -> Any:
        return getattr(m, name)(known[int(i) % len(known)])

    return step


def _binary(rng: np.random.Generator) -> Step:
    name = str(rng.choice(["add", "mul", "sub", "matmul", "expression"]))
    i, j = rng.integers(1 << 30, size=2)

    def step(m: Any, known: list[Any]) -> Any:
        a, b = known[int(i) % len(known)], known[int(j) % len(known)]
        if name == "matmul":
            return m.matmul(m.matmul(a, b if a.shape[1] == b.shape[0] else b.T), a)
        return getattr(m, name)(a, b if a.shape == b.shape else b.T)

    return step


def _written(rng: np.random.Generator) -> Step:
    """A copy that others are written into."""
    kind, (i, j) = int(rng.integers(5)), rng.integers(1 << 30, size=2)

    def step(m: Any, known: list[Any]) -> Any:
        x, y = known[int(i) % len(known)].copy(), known[int(j) % len(known)]
        y = y if y.shape == x.shape else y.T
        if kind == 0:
            x[0] = y[1]
        elif kind == 1:
            x[:, ::2] += y[:, ::2]
        elif kind == 2:
            x[1:] = 0.5
            x *= 2
        elif kind == 3:
            x -= y.T.reshape(x.shape)
            x[:1] = x[1:2] + y[:1]
        else:
            return m.concatenate([x[:1], y[::-1]])[: x.shape[0]]
        return x

    return step


class Numpy:
    """What the steps call, in numpy."""

    tanh, sin, square, add, sub, mul = np.tanh, np.sin, np.square, np.add, np.subtract, np.multiply
    matmul, concatenate, broadcast_to = np.matmul, np.concatenate, np.broadcast_to

    @staticmethod
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    @staticmethod
    def cumsum(x: Any) -> Any:
        return np.cumsum(x, 0)

    @staticmethod
    def mean(x: Any) -> Any:
        return x - x.mean(1, keepdims=True)

    @staticmethod
    def expression(a: Any, b: Any) -> Any:
        return a / (1 + b * b) + np.exp(-a * a)


class Device:
    """The same in pykernels."""

    tanh, sin, square, softmax = pk.tanh, pk.sin, pk.square, pk.softmax
    add, sub, mul, matmul, concatenate = pk.add, pk.sub, pk.mul, pk.matmul, pk.concatenate

    @staticmethod
    def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
        return x.broadcast_to(shape)

    @staticmethod
    def cumsum(x: Any) -> Any:
        return pk.cumsum(x, axis=0)

    @staticmethod
    def mean(x: Any) -> Any:
        return x - pk.mean(x, axis=1, keepdims=True)

    @staticmethod
    def expression(a: Any, b: Any) -> Any:
        return pk.elementwise("a / (1 + b * b) + exp(-a * a)", a=a, b=b)


def program(seed: int) -> Callable[[Any], Callable[..., Any]]:
    rng = np.random.default_rng(seed)
    makers = (_view, _view, _unary, _binary, _binary, _written)
    steps = [makers[rng.integers(len(makers))](rng) for _ in range(9)]

    def of(m: Any) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            known = [m.tanh(inputs[0]), inputs[1]]
            for step in steps:
                known.append(step(m, known))
            total = known[0]
            for x in known[1:]:
                total = total + (x if x.shape == total.shape else x.T)
            return total

        return run

    return of


EACH = 6


@pytest.mark.sample
@pytest.mark.parametrize("first", range(0, 8 * EACH, EACH))
def test_programs_have_the_gradients_of_numpy(dev: pk.Device, first: int) -> None:
    for seed in range(first, first + EACH):
        rng = np.random.default_rng(seed)
        inputs = [rng.normal(0, 0.7, SIZES).astype(np.float32) for _ in range(2)]
        of = program(seed)
        Example(of(Device), of(Numpy), inputs, units=16).check(dev, seed)


def second(of: Callable[[Any], Callable[..., Any]], inputs: list[Array], dy: Array) -> list[Array]:
    """The derivatives of the sum of squares of g, the gradient through dy: 2 H g, and 2 J g."""
    zeros, count = [np.zeros(a.shape) for a in inputs], sum(a.size for a in inputs)
    units = [list(_parts(row, inputs)) for row in np.eye(count)]

    def run(a: list[Array], b: list[Array]) -> Array:
        jets = [Jet.of(*each) for each in zip(inputs, a, b, strict=True)]
        found: Array = of(Jets)(*jets).parts
        return found

    slope = np.array([(run(u, zeros)[1] * dy).sum() for u in units])
    along = list(_parts(slope, inputs))
    curved = np.array([2 * (run(along, u)[3] * dy).sum() for u in units])
    return [*_parts(curved, inputs), 2 * run(along, zeros)[1]]


def _parts(row: Array, like: list[Array]) -> Iterator[Array]:
    """The elements of a row in the shapes of arrays."""
    ends = np.cumsum([a.size for a in like])
    for part, a in zip(np.split(row, ends[:-1]), like, strict=True):
        yield part.reshape(a.shape)


@pytest.mark.parametrize("first", range(0, 4 * EACH, EACH))
def test_two_tapes_have_the_second_derivatives_of_numpy(dev: pk.Device, first: int) -> None:
    for seed in range(first, first + EACH):
        rng = np.random.default_rng(seed)
        inputs = [rng.normal(0, 0.7, SIZES).astype(np.float32) for _ in range(2)]
        of, given = program(seed), [dev.tensor(a) for a in inputs]
        with pk.Tape() as outer:
            with pk.Tape() as inner:
                y = of(Device)(*given)
            dy = rng.normal(0, 1, y.shape).astype(np.float32)
            seeds = dev.tensor(dy)
            slopes = inner.gradient(y, given, seeds, unused="zeros")
            loss = pk.sum(pk.stack([pk.sum(pk.square(g)) for g in slopes]))
        found = outer.gradient(loss, [*given, seeds], unused="zeros")
        for got, want in zip(found, second(of, inputs, dy), strict=True):
            bound = 2.0**-16 * (1 + np.abs(want).max()) + 0 * want
            assert_close(got.numpy(), want, bound, f"program {seed}")


def test_jets_are_numpys_numbers() -> None:
    """Values of the programs by both, and derivatives beside differences."""
    for seed in range(8 * EACH):
        rng = np.random.default_rng(seed)
        inputs = [rng.normal(0, 0.7, SIZES) for _ in range(2)]
        a, b = ([rng.normal(0, 1, SIZES) for _ in range(2)] for _ in range(2))
        of, h = program(seed), 2.0**-12
        found = of(Jets)(*(Jet.of(*each) for each in zip(inputs, a, b, strict=True))).parts

        def at(s: float, t: float, of: Any = of, three: Any = (inputs, a, b)) -> Array:
            moved: Array = of(Numpy)(*(x + s * u + t * v for x, u, v in zip(*three, strict=True)))
            return moved

        mixed = at(h, h) - at(h, -h) - at(-h, h) + at(-h, -h)
        wanted = at(0, 0), (at(h, 0) - at(-h, 0)) / (2 * h), mixed / (2 * h) ** 2
        for got, want in zip(found[[0, 1, 3]], wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
