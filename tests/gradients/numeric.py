"""Gradients of references in float64, and what those of the device may be off by.

The Jacobian J of a function y of all inputs x, its elements in a row, comes from central
differences. What comes back through dy is dx = J^T dy. A rule in f32 is some units of rounding,
K of them, away from what exact arithmetic would give for inputs that are as many roundings away:
|error of dx[i]| <= K u (sum_o |dy[o]| |J[o, i]| + sum_k |x[k]| sum_o |dy[o]| |d J[o, i] / d x[k]|).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pykernels as pk
from tests.harness import Array, Case, assert_close, random_form

Function = Callable[..., Any]
FIRST, SECOND = 2.0**-17, 2.0**-12  # steps of differences, of |x| or 1


@dataclass(frozen=True)
class Example:
    """One call: `device` takes tensors and `reference` arrays of float64, in the order of `inputs`;
    gradients are those of the first ones, as `wrt` says. `others` follow them, as they are."""

    device: Function
    reference: Function
    inputs: Sequence[Array]
    others: Sequence[Array] = ()
    wrt: int | None = None
    units: float = 4

    def check(self, dev: pk.Device, seed: int = 0) -> None:
        """The device's gradients, in arenas and in odd layouts, against the float64 ones."""
        case = Case(dev, seed)
        rng = case.rng
        tensors = [case.input(a, random_form(rng, a.ndim, repeats=False)) for a in self.inputs]
        rest = [case.input(a) for a in self.others]
        count = len(self.inputs) if self.wrt is None else self.wrt
        outs = [case.output(a.shape, a.dtype.name) for a in self.inputs[:count]]
        want_y = np.asarray(self._exact(*self.inputs))
        first = case.input(rng.normal(0, 1, want_y.shape).astype(np.float32))
        case.build()

        def run() -> None:
            given = [o.tensor for o in (*tensors, *rest)]
            with pk.Tape() as tape:
                y = self.device(*given)
            found = tape.gradient(y, given[:count], first.tensor.reshape(y.shape))
            for out, grad in zip(outs, found, strict=True):
                assert grad.shape == out.shape
                assert grad.dtype == out.dtype
                assert grad.contiguous
                out.tensor[...] = grad

        results = case.run(run)
        dy = first.array.astype(np.float64).reshape(-1)
        for got, (want, bound) in zip(results, self.wanted(dy, count), strict=True):
            assert_close(got, want, bound, f"gradient of input {got.shape}")

    def check_second(self, dev: pk.Device, seed: int = 0) -> None:
        """The gradient of sum(u dx), dx being the gradients through dy, by all inputs and by dy:
        H u and J u, against mixed differences of the reference in float64."""
        rng = np.random.default_rng(seed)
        count = len(self.inputs) if self.wrt is None else self.wrt
        given = [dev.tensor(a) for a in (*self.inputs, *self.others)]
        ways = [rng.normal(0, 1, a.shape).astype(np.float32) for a in self.inputs[:count]]
        with pk.Tape() as outer:
            with pk.Tape() as inner:
                y = self.device(*given)
            dy = rng.normal(0, 1, y.shape).astype(np.float32)
            seeds = dev.tensor(dy)
            first = inner.gradient(y, given[:count], seeds, unused="zeros")
            pairs = zip(first, ways, strict=True)
            loss = pk.sum(pk.stack([pk.sum(g.astype("float32") * u) for g, u in pairs]))
        found = outer.gradient(loss, [*given[:count], seeds], unused="zeros")
        half = any(a.dtype == np.float16 for a in self.inputs)
        for got, want in zip(found, self._second(ways, dy), strict=True):
            # Roundings of terms that are at most some times as large as the largest result.
            bound = (2.0**-9 if half else 2.0**-16) * (1 + np.abs(want).max(initial=0))
            assert_close(got.numpy(), want.reshape(got.shape), bound, f"of {got.shape}")

    def _second(self, ways: Sequence[Array], dy: Array) -> list[Array]:
        """H u of each input, and J u."""
        step, base = 2.0**-11, [a.astype(np.float64) for a in self.inputs]

        def at(far: float, k: int = 0, i: int = 0, move: float = 0.0) -> Array:
            moved = [a + far * u for a, u in zip(base, ways, strict=False)] + base[len(ways) :]
            moved[k] = moved[k].copy()
            if move:
                moved[k].reshape(-1)[i] += move
            return np.asarray(self.reference(*moved, *self.others), np.float64).reshape(dy.shape)

        found = []
        for k in range(len(ways)):
            each = np.zeros(base[k].size)
            for i in range(each.size):
                corners = [s * t * at(s * step, k, i, t * step) for s in (1, -1) for t in (1, -1)]
                each[i] = (dy * sum(corners)).sum() / (2 * step) ** 2
            found.append(each.reshape(base[k].shape))
        return [*found, (at(step) - at(-step)) / (2 * step)]

    def _exact(self, *arrays: Array) -> Array:
        wide = [a.astype(np.float64) for a in arrays]
        return np.asarray(self.reference(*wide, *self.others), np.float64)

    def jacobian(self, x: Array, step: float) -> Array:
        """(outputs, inputs), at all inputs in a row."""
        columns = []
        for i in range(x.size):
            h = step * max(abs(x[i]), 1.0)
            up, down = x.copy(), x.copy()
            up[i] += h
            down[i] -= h
            columns.append((self._flat(up) - self._flat(down)) / (up[i] - down[i]))
        return np.stack(columns, -1)

    def bends(self, x: Array, dy: Array) -> Array:
        """(inputs, inputs): sum_o dy[o] |d^2 y[o] / d x[i] d x[k]|, which the order of i and k does
        not change. For a bound, differences to one side do: one more element for each pair."""
        steps = np.diag(SECOND * np.maximum(np.abs(x), 1.0))
        here, moved = self._flat(x), [self._flat(x + h) for h in steps]
        found = np.zeros((x.size, x.size))
        for i in range(x.size):
            for k in range(i + 1):
                both = self._flat(x + steps[i] + steps[k])
                change = (both - moved[i] - moved[k] + here) / (steps[i, i] * steps[k, k])
                found[i, k] = found[k, i] = dy @ np.abs(change)
        return found

    def _flat(self, x: Array) -> Array:
        parts, at = [], 0
        for a in self.inputs:
            parts.append(x[at : at + a.size].reshape(a.shape))
            at += a.size
        return np.asarray(self.reference(*parts, *self.others), np.float64).reshape(-1)

    def wanted(self, dy: Array, count: int) -> list[tuple[Array, Array]]:
        """For each input its gradient, and the bound."""
        x = np.concatenate([a.astype(np.float64).reshape(-1) for a in self.inputs])
        jacobian = self.jacobian(x, FIRST)
        gradient, size = jacobian.T @ dy, np.abs(jacobian).T @ np.abs(dy)
        size += self.bends(x, np.abs(dy)) @ np.abs(x)
        # What differences in float64 are off by.
        noise = 2.0**-30 * float(np.abs(dy) @ (1 + np.abs(self._flat(x))))
        found, at = [], 0
        for a in self.inputs[:count]:
            unit = 2.0**-11 if a.dtype == np.float16 else 2.0**-23
            part = slice(at, at + a.size)
            bound = self.units * unit * size[part] + noise
            found.append((gradient[part].reshape(a.shape), bound.reshape(a.shape)))
            at += a.size
        return found


def apart(
    rng: np.random.Generator, shape: Sequence[int], low: float = -2, high: float = 2
) -> Array:
    """Distinct numbers, none near another or near 0: away from where functions break."""
    size = int(np.prod(shape))
    grid = np.linspace(low, high, 2 * size + 1)[1::2] + (high - low) / (8 * size)
    return rng.permutation(grid).astype(np.float32).reshape(shape)
