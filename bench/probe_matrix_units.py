"""Measures how a matrix unit adds float16 products: kept bits, rounding, and the terms that are
added together.

    python -m bench.probe_matrix_units

Each row of a product with K = 32 holds one experiment: the first 16 products make the sum so far,
and the last 16 are one step of the unit. All numbers are powers of two, so that every product is
exact. The results for a device belong in docs/design/matrix-units.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.matmul.select import GemmChoice

__all__ = ["answers", "main"]

Terms = dict[int, float]  # the product at each position in the step
Sums = Callable[[list[tuple[float, Terms]]], list[float]]


def summing(dev: pk.Device) -> Sums:
    """A function that returns the results of experiments. An experiment is (the sum so far, the
    products of one step)."""

    def sums(rows: list[tuple[float, Terms]]) -> list[float]:
        left, right = np.zeros((len(rows), 32), np.float16), np.zeros((len(rows), 32), np.float16)
        for i, (start, terms) in enumerate(rows):
            for k, value in ((0, start), *((16 + k, v) for k, v in terms.items())):
                sign, half = np.sign(value), np.exp2(np.floor(np.log2(abs(value) or 1.0) / 2))
                left[i, k] = sign * half
                right[i, k] = abs(value) / half
        dst = dev.empty((len(rows), len(rows)))
        with force(dev, GemmChoice("gemm_mma/32x32")):
            pk.kernels.mul_mat(dev.tensor(right), dev.tensor(left), dst, precision="fast")
        return [float(x) for x in np.diagonal(dst.numpy())]

    return sums


def kept_below(sums: Sums) -> int:
    """The number of bits that a sum keeps below the last place of its largest term."""
    depth = list(range(20, 40))
    found = sums([(1.0, {0: -(2.0**-e)}) for e in depth])
    return max(e for e, x in zip(depth, found, strict=True) if x != 1.0) - 23


def joint(sums: Sums) -> int:
    """The number of terms, each half a unit in the last place, that must be added in one step to
    change the sum; 0 if even 16 terms do not change it."""
    found = sums([(1.0, dict.fromkeys(range(n), 2.0**-24)) for n in range(1, 17)])
    return next((n for n, x in enumerate(found, 1) if x > 1.0), 0)


def rounding(sums: Sums) -> str:
    """How a sum is rounded to 24 bits."""
    three = {0: 2.0**-23, 1: 2.0**-24}
    up, down = sums([(1.0, three), (-1.0, {k: -v for k, v in three.items()})])
    if up == 1 + 2.0**-22:
        return "to nearest"
    return "towards zero" if down == -up else "towards minus infinity"


def together(sums: Sums) -> list[list[int]]:
    """Groups of positions in a step; the products of a group are added to each other first.

    Two large products cancel; a small product is lost if it is added together with them.
    """
    large, small = 2.0**20, 2.0**-12
    rows = [(i, j) for i in range(16) for j in range(16) if i != j]
    lost = {}
    for start in range(0, len(rows), 32):
        part = rows[start : start + 32]
        # i is the small product; the products at j and at the next position (not i) cancel.
        found = sums([(0.0, {i: small, j: large, _after(j, i): -large}) for i, j in part])
        lost |= {pair: x == 0.0 for pair, x in zip(part, found, strict=True)}
    groups: list[list[int]] = []
    for i in range(16):
        mine = next((g for g in groups if lost[i, g[0]] and lost[g[0], i]), None)
        if mine is None:
            groups.append([i])
        else:
            mine.append(i)
    return groups


def _after(j: int, i: int) -> int:
    """The neighbour of j in its pair of positions; if that is i, a position in the next pair."""
    near = j ^ 1
    return near if near != i else j ^ 2


def length(sums: Sums, dev: pk.Device) -> dict[int, float]:
    """For each K, the largest error of sums of positive numbers, in units of 2^-23 of the sum."""
    found = {}
    rng = np.random.default_rng(0)
    for k in (256, 1024, 4096, 16384):
        a, b = (rng.uniform(0.5, 1, (32, k)).astype(np.float16) for _ in range(2))
        want = b.astype(np.float64) @ a.astype(np.float64).T
        dst = dev.empty((32, 32))
        with force(dev, GemmChoice("gemm_mma/32x32")):
            pk.kernels.mul_mat(dev.tensor(a), dev.tensor(b), dst)
        found[k] = round(float((np.abs(dst.numpy() - want) / want).max() * 2**23), 2)
    return found


def answers(dev: pk.Device) -> dict[str, object]:
    sums = summing(dev)
    return {
        "device": dev.info["name"],
        "shapes": list(dev.matrix_shapes),
        "bits kept below the last place": kept_below(sums),
        "terms of half a last place that move the sum": joint(sums),
        "rounding": rounding(sums),
        "added together": together(sums),
        "error of sums of one sign, units of 2^-23, by K": length(sums, dev),
    }


def main() -> None:
    with pk.Device(engine="dawn", matrix_units=True) as dev:
        print(json.dumps(answers(dev), indent=1))


if __name__ == "__main__":
    main()
