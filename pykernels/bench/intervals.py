"""Intervals for the ratio of two times, by Student's distribution and by Welch's method.

Times are compared by their logarithms, so that the interval of a ratio is symmetric: twice as fast
and half as fast are equally far from equal.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "FALSE_ALARMS", "FLOOR", "PASSES", "PROCESSES", "SINGLE", "THRESHOLD",
    "Interval", "Scatter", "student", "variance", "welch",
]  # fmt: skip

# The share of comparisons of the same code in which some case is called slower or faster, for any
# number of cases.
FALSE_ALARMS = 0.01
THRESHOLD = 0.1  # the slowdown, as a share, from which a case fails a comparison
# number of processes of each version: enough to show a slowdown of THRESHOLD in any of 100 cases,
# if times spread by 3 %
PROCESSES = 9


# The share by which two runs of the same text differ beyond their noise (docs/records/bench.md).
# FLOOR is for runs of at least PASSES passes. SINGLE is for fewer passes, because their noise does
# not include the effect of places in memory.
FLOOR, PASSES = 0.01, 3
SINGLE = 0.03


@dataclass(frozen=True)
class Interval:
    """A ratio of times, new over old, and the interval in which it lies."""

    ratio: float
    low: float
    high: float

    @classmethod
    def around(cls, log_ratio: float, half: float) -> Interval:
        """The interval from exp(log_ratio - half) to exp(log_ratio + half)."""
        if math.isinf(half):
            return cls(math.exp(log_ratio), 0.0, math.inf)
        return cls(*[math.exp(log_ratio + d) for d in (0.0, -half, half)])


@dataclass(frozen=True)
class Scatter:
    """The standard deviation, from run to run, of the logarithm of a time; and its degrees of
    freedom."""

    deviation: float
    freedom: int

    @classmethod
    def of(cls, runs: Iterable[Sequence[float]]) -> Scatter:
        """The scatter over all cases; each case has the times of several runs of the same code."""
        logs = [[math.log(t) for t in times] for times in runs if len(times) > 1]
        freedom = sum(len(each) - 1 for each in logs)
        squares = sum(variance(each) * (len(each) - 1) for each in logs)
        return cls(math.sqrt(squares / freedom) if freedom else math.inf, freedom)


def welch(
    old: Sequence[float], new: Sequence[float], level: float, *, floor: float = 0.0
) -> Interval:
    """The interval of the ratio of two means of times, by Welch's method on their logarithms.

    Args:
        old, new: independent times of both versions, for example one for each process or pass.
        level: the share of intervals that do not hold the ratio, for example 0.01.
        floor: the share by which the times of two runs differ beyond the scatter of these times.
    """
    a, b = [[math.log(t) for t in times] for times in (old, new)]
    difference = statistics.fmean(b) - statistics.fmean(a)
    if min(len(a), len(b)) < 2:
        return Interval.around(difference, math.inf)
    parts = [(variance(x) / len(x), len(x) - 1) for x in (a, b)]
    square = sum(s for s, _ in parts)
    half = math.log1p(floor)
    if square > 0:
        freedom = square**2 / sum(s**2 / df for s, df in parts if s > 0)
        # Degrees of freedom are rounded down to one decimal. This never makes intervals narrower,
        # and the cache then has most quantiles.
        half += student(1 - level / 2, math.floor(10 * freedom) / 10) * math.sqrt(square)
    return Interval.around(difference, half)


def variance(values: Sequence[float]) -> float:
    """The variance of two or more values. The function of the module `statistics` computes with
    exact fractions, which takes 100 times as long."""
    mean = statistics.fmean(values)
    return math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)


@functools.lru_cache(maxsize=4096)
def student(p: float, freedom: float) -> float:
    """The quantile of Student's distribution: P(T <= student(p, freedom)) = p, for p of 0.5 or
    more."""
    low, high = 0.0, 1.0
    while _below(high, freedom) < p:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if _below(middle, freedom) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _below(t: float, freedom: float) -> float:
    """P(T <= t) for t of 0 or more."""
    return 1 - _beta(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, computed by its continued fraction from the end
    (Abramowitz and Stegun 26.5.8)."""
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    fraction = 1.0
    for m in range(30 + int(2 * math.sqrt(a + b)), 0, -1):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m - 1) * (a + b + m - 1) * x / ((a + 2 * m - 2) * (a + 2 * m - 1))
        fraction = 1 + odd / (1 + even / fraction)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / (a * fraction)
