"""The shapes for which a GEMV of few rows is faster than a tile: `python bench/gemv_border.py
[--dtype float16]`.

For products of 1 to 8 rows, with several numbers of columns and k, it prints the microseconds of
`gemv` and of the smallest tile, and the choice of the device's table. A line ends in `<--` if the
other body takes less than 0.9 of the chosen body's time, which means that the table's `matmul.gemv`
chooses wrongly.
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import product

import pykernels as pk
from pykernels import kernels
from pykernels.dtypes import DTypeName
from pykernels.forcing import force
from pykernels.plans.matmul.select import GemmChoice, GemmShape, choose, gemv_splits

ROWS = (1, 2, 4, 8)
COLS = (8, 64, 512, 4096)
DEPTH = (8, 64, 512, 4096)
TILE = "mul_mat/32"


def seconds(
    dev: pk.Device, large: pk.Tensor, few: pk.Tensor, dst: pk.Tensor, choice: GemmChoice
) -> float:
    """The seconds of one call in a batch of many calls, the smallest of five readings."""
    with force(dev, choice):
        kernels.mul_mat(large, few, dst)
        dev.sync()
        calls, best = 8, math.inf
        for _ in range(5):
            start = time.perf_counter()
            with dev.batch():
                for _ in range(calls):
                    kernels.mul_mat(large, few, dst)
            dev.sync()
            best = min(best, (time.perf_counter() - start) / calls)
            calls = min(max(int(2e-2 / best), 4), 500)
        return best


def compare(dev: pk.Device, dtype: DTypeName, rows: int, cols: int, depth: int, along: bool) -> str:
    """A line of the table; `along` means that k runs along the memory of the larger operand."""
    few, dst = dev.rand((rows, depth), dtype, seed=1), dev.empty((rows, cols), dtype)
    large = dev.rand((cols, depth) if along else (depth, cols), dtype, seed=2)
    caps = dev._context.caps
    shape = GemmShape(1, rows, cols, depth, along_k=along)
    gemv = GemmChoice("gemv", gemv_splits(caps.tuning.matmul.gemv, shape))
    args = (large if along else large.T), few, dst
    one, other = (seconds(dev, *args, c) for c in (gemv, GemmChoice(TILE)))
    taken = choose(caps, shape).body
    wrong = one > other / 0.9 if taken == "gemv" else one < 0.9 * other
    return (
        f"{rows:4} {cols:5} {depth:5} {'along' if along else 'apart':>5} {1e6 * one:10.1f} "
        f"{1e6 * other:10.1f} {one / other:9.2f}  {taken}{' <--' if wrong else ''}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    dev = pk.Device()
    print(f"{dev.info['name']}, {dev.engine}, {args.dtype}")
    print("rows  cols     k     k    gemv us    tile us gemv/tile  taken")
    for given in product(ROWS, COLS, DEPTH, (True, False)):
        print(compare(dev, args.dtype, *given), flush=True)


if __name__ == "__main__":
    main()
