"""The errors of elementwise operations on a device, and the inputs with the largest errors.

python -m bench.accuracy NAME [--driver NAME] [--engine wgpu|dawn] [--only OP ...]

For each operation on floats it measures errors in units in the last place: in float32 on a sample
of the domain (random bits, uniform random numbers, numbers near 0, all float16 numbers, the ends),
and in float16 on every number. An operation with two inputs gets random pairs of these numbers. An
error of at most half a unit means correct rounding. Inputs and results below 2^-126 are left out,
because devices may replace them by zero. Writes bench/results/accuracy/NAME.json, from which
ci/docs.py makes docs/reference/accuracy.md; exit code 1 if an operation exceeds the bound of its
row.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import pykernels as pk
from pykernels.reference.elementwise import OPS
from pykernels.wgsl.elementwise import Op

__all__ = ["RESULTS", "errors", "measure", "sample"]

Array: TypeAlias = np.ndarray[Any, Any]
RESULTS = Path(__file__).with_name("results") / "accuracy"
SIZE = 1 << 20
NORMAL = 2.0**-126
# By the number of inputs, the smallest magnitude of an input. For two inputs it is larger, so that
# their product is not below NORMAL either.
SMALLEST = {1: NORMAL, 2: 2.0**-60}


def halves() -> Array:
    """All finite numbers of float16."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    return every[np.isfinite(every)]


def sample(op: Op, dtype: str, rng: np.random.Generator) -> list[Array]:
    """Inputs inside the domain of an operation."""
    found = []
    for low, high in op.domain:
        x = halves()
        if dtype == "float32":
            bits = rng.integers(0, 1 << 32, SIZE // 2, dtype=np.uint32).view(np.float32)
            even = rng.uniform(low, high, SIZE // 4).astype(np.float32)
            near = rng.normal(0, 3, SIZE // 4).astype(np.float32)
            ends = np.float32([low, high])
            x = np.concatenate([x.astype(np.float32), bits, even, near, ends])
        with np.errstate(invalid="ignore"):  # some inputs are NaNs of all kinds
            wide = x.astype(np.float64)
        large = (np.abs(wide) >= SMALLEST[len(op.domain)]) | (wide == 0)
        found.append(x[(wide >= low) & (wide <= high) & large])
    if len(found) == 1:
        return found
    return [rng.choice(x, SIZE) for x in found]


def errors(got: Array, want: Array) -> Array:
    """The distance from the exact result, in units in the last place of got's dtype; infinity
    counts as the number after the largest finite number."""
    end = 2.0 ** int(np.finfo(got.dtype).maxexp)
    least = NORMAL if got.dtype == np.float32 else 0.0
    with np.errstate(invalid="ignore"):
        exact = np.clip(want, -end, end)
        unit = np.spacing(np.minimum(np.abs(exact), 0.75 * end).astype(got.dtype)).astype(float)
        off = np.abs(np.clip(got.astype(np.float64), -end, end) - exact)
        found = np.where((off <= least) | (np.isnan(got) & np.isnan(want)), 0.0, off / unit)
    return np.where(np.isnan(found), np.inf, found)


def measure(dev: pk.Device, op: Op, dtype: str) -> tuple[float, list[float]]:
    """The largest error of an operation, and the inputs that cause it."""
    inputs = sample(op, dtype, np.random.default_rng(0))
    tensors = [dev.tensor(x) for x in inputs]
    dst = dev.empty(inputs[0].shape, dtype)  # type: ignore[arg-type]
    getattr(pk.kernels, op.name)(*tensors, dst)
    found = errors(dst.numpy(), op.reference(*inputs))
    worst = int(found.argmax())
    return float(found[worst]), [float(x[worst]) for x in inputs]


def measured(op: Op) -> bool:
    """True for an operation from floats to floats."""
    return op.public and "float32" in op.dtypes and op.output == "same" and not op.conditions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("name", help="of the file of results, as wgpu-lavapipe")
    parser.add_argument("--driver", help="part of the adapter's name; without it the first one")
    parser.add_argument("--engine", choices=["wgpu", "dawn"], default="wgpu")
    parser.add_argument("--only", nargs="*", default=[], help="operations; nothing is written")
    given = parser.parse_args()
    rows, beyond = {}, []
    with pk.Device(given.driver, engine=given.engine) as dev:
        for op in OPS.values():
            if not measured(op) or (given.only and op.name not in given.only):
                continue
            row = {d: measure(dev, op, d) for d in op.dtypes if d in ("float32", "float16")}
            error, at = row["float32"]
            print(f"{op.name:14} {error:8.3f} of {op.ulp:g} at {at}", flush=True)
            if error > op.ulp:
                beyond.append(op.name)
            rows[op.name] = row
        about = {"device": dev.info["name"], "engine": given.engine}
    if not given.only:
        RESULTS.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in rows.items())
        head = json.dumps(about)[1:-1]
        text = f'{{{head}, "rows": {{\n{lines}\n}}}}\n'
        (RESULTS / f"{given.name}.json").write_text(text, encoding="utf-8")
    if beyond:
        print(f"beyond the bound of their rows: {', '.join(beyond)}", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
