"""Rules of `optimizer_step` in float64, which also compute the largest error of f32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Near", "advance", "numbers", "take"]

Array = np.ndarray[Any, Any]
U = 2.0**-24  # half a unit in the last place of f32, as a relative error
TINY = 2.0**-126  # results below this may become 0
# Errors in units of U; see `optim`.
QUOTIENT, INVERSE_ROOT, ROOT, EXPM1 = 5, 4, 9, 7


@dataclass(frozen=True)
class Near:
    """A number, or an array, and the largest error of its value in f32."""

    value: Any
    off: Any = 0.0

    def _made(self, value: Any, off: Any, units: float = 1.0) -> Near:
        return Near(value, off + units * U * np.abs(value) + TINY)

    def __add__(self, other: Near) -> Near:
        return self._made(self.value + other.value, self.off + other.off)

    def __sub__(self, other: Near) -> Near:
        return self._made(self.value - other.value, self.off + other.off)

    def __mul__(self, other: Near) -> Near:
        a, b = np.abs(self.value), np.abs(other.value)
        off = a * other.off + b * self.off + self.off * other.off
        return self._made(self.value * other.value, off)

    def __truediv__(self, other: Near) -> Near:
        below = np.abs(other.value)
        least = np.maximum(below - other.off, np.minimum(below, TINY))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = self.value / other.value
            off = (self.off + np.abs(value) * other.off) / least
        return self._made(value, off, QUOTIENT)

    def root(self) -> Near:
        """The square root; negative numbers count as 0."""
        value = np.sqrt(np.maximum(self.value, 0.0))
        above = np.sqrt(np.maximum(self.value + self.off, 0.0)) - value
        below = value - np.sqrt(np.maximum(self.value - self.off, 0.0))
        return self._made(value, np.maximum(above, below) + math.sqrt(TINY), ROOT)

    def larger(self, other: Near) -> Near:
        return Near(np.maximum(self.value, other.value), np.maximum(self.off, other.off))

    def sign(self) -> Near:
        return Near(np.sign(self.value), np.where(np.abs(self.value) <= self.off, 2.0, 0.0))


def take(
    rule: str, g: Near, w: Near, states: Sequence[Near], s: Sequence[Near], rate: Near | None = None
) -> tuple[Near, ...]:
    """The parameter and the states after a step of the rule with these settings."""
    lr, weight_decay, keep1, share1, keep2, share2 = (s[i] for i in (6, 8, 0, 1, 3, 4))
    eps = s[7]
    lr = lr if rate is None else rate
    if rule == "ema":
        return (_blend(w, g, keep1, share1),)
    if rule == "lion":
        [m] = states
        step = lr * _blend(m, g, keep1, share1).sign()
        return w - (lr * weight_decay * w + step), _blend(m, g, keep2, share2)
    decoupled = bool(s[10].value) and rule in ("amsgrad", "nadam")
    shrink = lr * weight_decay if decoupled else Near(0.0)
    if not decoupled and np.any(weight_decay.value != 0):
        g = g + weight_decay * w
    if rule == "adagrad":
        total = states[0] + g * g
        return w - lr * s[11] * (g / (total.root() + eps)), total
    if rule.startswith("rmsprop"):
        return _rmsprop(rule, g, w, states, s, lr)
    m = _blend(states[0], g, keep1, share1)
    v = keep2 * states[1] + share2 * (g * g)
    if rule == "amsgrad":
        most = states[2].larger(v)
        step = lr * s[11] * (m / (most.root() * s[12] + eps))
        return w - (shrink * w + step), m, v, most
    step = lr * ((s[11] * g + s[13] * m) / (v.root() * s[12] + eps))
    return w - (shrink * w + step), m, v


def _rmsprop(
    rule: str, g: Near, w: Near, states: Sequence[Near], s: Sequence[Near], lr: Near
) -> tuple[Near, ...]:
    square = s[0] * states[0] + s[1] * (g * g)
    after, spread = [square], square
    if "centered" in rule:
        mean = _blend(states[1], g, s[0], s[1])
        after.append(mean)
        spread = square - mean * mean
    step = g / (spread.root() + s[7])
    if "momentum" in rule:
        step = s[9] * states[-1] + step
        after.append(step)
    return w - lr * step, *after


def _blend(old: Near, new: Near, keep: Near, share: Near) -> Near:
    """The average after it has moved towards a value."""
    return old + share * (new - old) if share.value < 0.5 else keep * old + share * new


def advance(rule: str, t: int, s: Sequence[Near]) -> list[Near]:
    """The settings with the numbers that depend on the step, computed for step t (from 1 on)."""
    after = list(s)
    if rule == "adagrad":
        after[11] = Near(1.0) / (Near(1.0) + Near(float(t - 1)) * s[9])
        return after
    keep1, share1, log1, log2 = s[0], s[1], s[2], s[5]
    after[12] = _corrected(log2, t, lambda x: 1 / np.sqrt(x), (EXPM1 + 3) / 2 + INVERSE_ROOT)
    if rule == "amsgrad":
        after[11] = _corrected(log1, t, lambda x: 1 / x, EXPM1 + QUOTIENT + 3)
        return after
    slope = math.log(0.96) * float(s[9].value)
    fade, later = (0.5 * keep1.value * math.exp(n * slope) for n in (t, t + 1))
    near = [Near(f, 12 * U * abs(keep1.value)) for f in (fade, later)]
    product = s[14] * (keep1 - near[0])
    following = keep1 - near[1]
    after[11] = (share1 + near[0]) / (Near(1.0) - product)
    after[13] = following / (Near(1.0) - product * following)
    after[14] = product
    return after


def _corrected(log: Near, t: int, of: Any, units: float) -> Near:
    """of(1 - e^(t log)), which corrects a bias; `units` is the error of the function `of` in U."""
    value = of(-math.expm1(t * float(log.value)))
    # the argument log is already rounded
    off = abs(of(-math.expm1(t * float(log.value) * (1 + U))) - value)
    return Near(value, 2 * off + units * U * abs(value))


def numbers(settings: Any) -> list[Near]:
    """The settings as numbers without an error: these are the values that the device has."""
    return [Near(float(x)) for x in settings]
