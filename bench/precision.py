"""The errors of float16 products, on matrix units and beside torch's.

    python -m bench.precision [--engine ENGINE] [--size N]

An error is divided by sum|a||b| of its element, and printed in units of 2^-24: the root mean square
and the largest error over N x N float16 results, for several depths and for operands that are
normal, of one sign, and of a wide range. It measures `pk.matmul` with `precision` None, "high" and
"fast", and, if torch has a GPU, torch's product with default settings. The ratios are ours over
torch's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk

Array = np.ndarray[Any, Any]
DEPTHS = (64, 512, 1024, 4096, 16384)


def operands(kind: str, n: int, depth: int) -> tuple[Array, Array]:
    """a[n, depth] and b[depth, n]; products stay within the range of halves."""
    rng = np.random.default_rng(depth)
    pair: list[Array] = []
    for shape in ((n, depth), (depth, n)):
        x = rng.standard_normal(shape)
        if kind == "one sign":
            x = rng.random(shape)
        elif kind == "wide":
            x *= 2.0 ** rng.uniform(-8, 4, shape)
        pair.append((x / depth**0.25).astype(np.float16))
    return pair[0], pair[1]


def torch_product() -> Callable[[Array, Array], Array] | None:
    try:
        import torch
    except ModuleNotFoundError:
        return None
    if not torch.cuda.is_available():
        return None

    def product(a: Array, b: Array) -> Array:
        found: Array = (torch.from_numpy(a).cuda() @ torch.from_numpy(b).cuda()).cpu().numpy()
        return found

    return product


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="dawn-matrix")
    parser.add_argument("--size", type=int, default=512)
    args = parser.parse_args()
    matrix = args.engine == "dawn-matrix"
    dev = pk.Device(engine="dawn" if matrix else args.engine, matrix_units=matrix)

    def ours(precision: Any) -> Callable[[Array, Array], Array]:
        return lambda a, b: pk.matmul(dev.tensor(a), dev.tensor(b), precision=precision).numpy()

    columns = {"None": ours(None), "high": ours("high"), "fast": ours("fast")}
    theirs = torch_product()
    if theirs:
        columns["torch"] = theirs
    print(f"{dev.info['name']}, {args.engine}; results of float16, errors in 2^-24 of sum|a||b|")
    for kind in ("normal", "one sign", "wide"):
        for depth in DEPTHS:
            a, b = operands(kind, args.size, depth)
            exact = a.astype(np.float64) @ b.astype(np.float64)
            size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
            found: dict[str, tuple[float, float]] = {}
            for name, product in columns.items():
                error = np.abs(product(a, b) - exact) / size * 2.0**24
                found[name] = (float(np.sqrt((error**2).mean())), float(error.max()))
            line = f"{kind:9}{depth:6}"
            for name, (rms, largest) in found.items():
                line += f"  {name} {rms:.4g} {largest:.4g}"
                if theirs and name != "torch":
                    other = found["torch"]
                    line += f" ({rms / other[0]:.3f} {largest / other[1]:.3f})"
            print(line, flush=True)


if __name__ == "__main__":
    main()
