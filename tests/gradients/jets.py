"""Numbers with two nilpotent parts, in numpy's float64: exact derivatives up to the second order.

A jet is x + a e + b f + c e f with e e = f f = 0: a function of it has f'(x) a, f'(x) b and
f'(x) c + f''(x) a b as its parts. It stands for numpy's arrays in the programs of test_programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.harness import Array


class Jet:
    """`parts` is (4, *shape): x, a, b, c."""

    def __init__(self, parts: Array) -> None:
        self.parts = parts

    @classmethod
    def of(cls, x: Array, a: Array, b: Array) -> Jet:
        return cls(np.stack([x, a, b, np.zeros(x.shape)]).astype(np.float64))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.parts.shape[1:]

    @property
    def T(self) -> Jet:
        return Jet(self.parts.swapaxes(1, 2))

    def copy(self) -> Jet:
        return Jet(self.parts.copy())

    def reshape(self, *shape: Any) -> Jet:
        shape = shape[0] if isinstance(shape[0], tuple) else shape
        return Jet(self.parts.reshape(4, *shape))

    def __getitem__(self, index: Any) -> Jet:
        return Jet(self.parts[self._at(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.parts[self._at(index)] = _jet(value).parts

    @staticmethod
    def _at(index: Any) -> tuple[Any, ...]:
        return (slice(None), *(index if isinstance(index, tuple) else (index,)))

    def __add__(self, other: Any) -> Jet:
        other = _jet(other)
        return Jet(self.parts + other.parts)

    def __neg__(self) -> Jet:
        return Jet(-self.parts)

    def __sub__(self, other: Any) -> Jet:
        return self + -_jet(other)

    def __mul__(self, other: Any) -> Jet:
        return _product(np.multiply, self, _jet(other))

    def __truediv__(self, other: Jet) -> Jet:
        x = other.parts[0]
        return self * _applied(other, 1 / x, -1 / x**2, 2 / x**3)

    __radd__, __rmul__ = __add__, __mul__


def _jet(value: Any) -> Jet:
    """Numbers have no nilpotent parts, and one axis, which repeats."""
    return value if isinstance(value, Jet) else Jet(np.array([value, 0.0, 0.0, 0.0])[:, None, None])


def _product(times: Callable[[Array, Array], Array], s: Jet, t: Jet) -> Jet:
    (x, a, b, c), (y, d, e, f) = s.parts, t.parts
    return Jet(np.stack([times(x, y), times(x, d) + times(a, y), times(x, e) + times(b, y),
                         times(x, f) + times(c, y) + times(a, e) + times(b, d)]))  # fmt: skip


def _applied(t: Jet, value: Array, first: Array, second: Array) -> Jet:
    _, a, b, c = t.parts
    return Jet(np.stack([value, first * a, first * b, first * c + second * a * b]))


class Jets:
    """What the programs call, of jets."""

    @staticmethod
    def tanh(t: Jet) -> Jet:
        y = np.tanh(t.parts[0])
        return _applied(t, y, 1 - y**2, -2 * y * (1 - y**2))

    @staticmethod
    def sin(t: Jet) -> Jet:
        x = t.parts[0]
        return _applied(t, np.sin(x), np.cos(x), -np.sin(x))

    @staticmethod
    def exp(t: Jet) -> Jet:
        y = np.exp(t.parts[0])
        return _applied(t, y, y, y)

    @staticmethod
    def square(t: Jet) -> Jet:
        return t * t

    @staticmethod
    def add(s: Jet, t: Jet) -> Jet:
        return s + t

    @staticmethod
    def sub(s: Jet, t: Jet) -> Jet:
        return s - t

    @staticmethod
    def mul(s: Jet, t: Jet) -> Jet:
        return s * t

    @staticmethod
    def matmul(s: Jet, t: Jet) -> Jet:
        return _product(np.matmul, s, t)

    @staticmethod
    def concatenate(found: Sequence[Jet]) -> Jet:
        return Jet(np.concatenate([t.parts for t in found], 1))

    @staticmethod
    def broadcast_to(t: Jet, shape: tuple[int, ...]) -> Jet:
        return Jet(np.broadcast_to(t.parts, (4, *shape)))

    @staticmethod
    def softmax(t: Jet) -> Jet:
        e = Jets.exp(t)
        return e / Jet(e.parts.sum(-1, keepdims=True))

    @staticmethod
    def cumsum(t: Jet) -> Jet:
        return Jet(np.cumsum(t.parts, 1))

    @staticmethod
    def mean(t: Jet) -> Jet:
        return t - Jet(t.parts.mean(2, keepdims=True))

    @staticmethod
    def expression(s: Jet, t: Jet) -> Jet:
        return s / (1 + t * t) + Jets.exp(-(s * s))
