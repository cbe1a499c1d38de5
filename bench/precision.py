"""Compares the errors of float16 products, convolutions and attention on matrix units with torch's
errors.

    python -m bench.precision [--engine ENGINE] [--size N] [--only matmul|conv2d|attention]

Errors are shares of the sum of the absolute values of all products of an element (for attention: of
the weighted values), in units of 2^-24. The script prints their root mean square and their maximum,
for results of float16. Operands are normal, of one sign, or of a wide range, at several depths: K
of a product, taps times channels of a 3 x 3 convolution, keys of attention. Columns are `precision`
None, "high" and "fast", and torch with its default settings, if torch has a GPU. The ratios are our
errors divided by torch's. The last lines print for each family whether sums in one piece ("fast")
may be the default for results of float16: they may be, if no ratio of either error is above 1.1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import pykernels as pk
from pykernels.reference import attention as attention_reference
from pykernels.reference.conv import conv2d as conv_reference

Array = np.ndarray[Any, Any]
Arrays: TypeAlias = tuple[Array, ...]
KINDS = ("normal", "one sign", "wide")
DEPTHS = (64, 512, 1024, 4096, 16384)
HEADS, WIDTH = 4, 64  # number of heads of attention, and their width
MOST = 1.1  # largest ratio to torch's errors at which sums in one piece may be the default
# By family: the file and the expression that decide whether sums are in one piece by default.
DEFAULTS = {
    "matmul": "pykernels/plans/matmul/mul_mat.py: whole_sums (it is the default)",
    "conv2d": "pykernels/plans/conv/conv2d.py: in_one_piece (it is the default)",
    "attention": "pykernels/plans/attention/flash_attn.py: in_one_piece=precision != 'high'",
}
# our errors divided by torch's: the root mean square errors, and the largest errors
Ratios: TypeAlias = list[tuple[float, float]]


class Problem(NamedTuple):
    """Operands, the exact result, and the sum of absolute values that errors are divided by."""

    depth: int
    operands: Arrays
    exact: Array
    size: Array


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Random numbers of a kind, mostly of magnitude 1."""
    if kind == "one sign":
        return rng.random(shape)
    found = rng.standard_normal(shape)
    return found * 2.0 ** rng.uniform(-8, 4, shape) if kind == "wide" else found


def products(kind: str, n: int) -> Iterator[Problem]:
    """For each K in DEPTHS, the product (n, K) @ (K, n), whose results stay in the range of
    float16."""
    for depth in DEPTHS:
        rng = np.random.default_rng(depth)
        a, b = (
            (numbers(rng, kind, s) / depth**0.25).astype(np.float16)
            for s in ((n, depth), (depth, n))
        )
        wide = a.astype(np.float64), b.astype(np.float64)
        yield Problem(depth, (a, b), wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1]))


def convolutions(kind: str, n: int) -> Iterator[Problem]:
    """For each depth in DEPTHS, a convolution with 3 x 3 windows of an image of n / 32 by 32
    pixels, with 64 output channels."""
    image = (max(n // 32, 4), 32)
    for depth in DEPTHS:
        rng, channels = np.random.default_rng(depth), max(depth // 9 // 8 * 8, 8)
        x, w = (
            (numbers(rng, kind, s) / (9 * channels) ** 0.25).astype(np.float16)
            for s in ((1, channels, *image), (64, channels, 3, 3))
        )
        size = conv_reference(np.abs(x), np.abs(w), padding=1)
        yield Problem(9 * channels, (x, w), conv_reference(x, w, padding=1), size)


def attentions(kind: str, n: int) -> Iterator[Problem]:
    """For each number of keys in DEPTHS, an attention problem with HEADS heads and n / HEADS
    queries for each head."""
    for keys in DEPTHS:
        rng = np.random.default_rng(keys)
        q, k = (
            rng.standard_normal((1, HEADS, s, WIDTH)).astype(np.float16)
            for s in (max(n // HEADS, 8), keys)
        )
        v = numbers(rng, kind, k.shape).astype(np.float16)
        exact = attention_reference.flash_attn(q, k, v)
        yield Problem(keys, (q, k, v), exact, attention_reference.flash_attn(q, k, np.abs(v)))


FAMILIES: dict[str, Callable[[str, int], Iterator[Problem]]] = {
    "matmul": products, "conv2d": convolutions, "attention": attentions,
}  # fmt: skip


def ours(dev: pk.Device, family: str, precision: Any) -> Callable[[Arrays], Array]:
    """A function that makes pykernels' call of a family."""

    def call(operands: Arrays) -> Array:
        given: list[Any] = [dev.tensor(x) for x in operands]
        found: Any
        if family == "matmul":
            found = pk.matmul(*given, precision=precision)
        elif family == "conv2d":
            found = pk.conv2d(given[0], given[1], padding=1, precision=precision)
        else:
            found = pk.flash_attn(*given, precision=precision)
        result: Array = found.numpy()
        return result

    return call


def theirs(family: str) -> Callable[[Arrays], Array] | None:
    """A function that makes torch's call on the GPU; None if torch has no GPU."""
    try:
        import torch
    except ModuleNotFoundError:
        return None
    if not torch.cuda.is_available():
        return None
    F = torch.nn.functional
    calls: dict[str, Callable[..., Any]] = {
        "matmul": torch.matmul, "conv2d": lambda x, w: F.conv2d(x, w, padding=1),
        "attention": F.scaled_dot_product_attention,
    }  # fmt: skip

    def call(operands: Arrays) -> Array:
        found: Array = calls[family](*(torch.from_numpy(x).cuda() for x in operands)).cpu().numpy()
        return found

    return call


def errors(problem: Problem, got: Array) -> tuple[float, float]:
    """The root mean square and the largest error, in units of 2^-24 of the problem's `size`."""
    error = np.abs(got - problem.exact) / problem.size * 2.0**24
    return float(np.sqrt((error**2).mean())), float(error.max())


def lines(dev: pk.Device, family: str, n: int, ratios: Ratios) -> Iterator[str]:
    """A line for each kind and depth. The ratios of "fast" are appended to `ratios`."""
    columns = {str(p): ours(dev, family, p) for p in (None, "high", "fast")}
    other = theirs(family)
    if other:
        columns["torch"] = other
    for kind in KINDS:
        for problem in FAMILIES[family](kind, n):
            found = {
                name: errors(problem, call(problem.operands)) for name, call in columns.items()
            }
            line = f"{family:10}{kind:9}{problem.depth:6}"
            for name, (rms, largest) in found.items():
                line += f"  {name} {rms:.4g} {largest:.4g}"
                if other and name != "torch":
                    a, b = found["torch"]
                    line += f" ({rms / a:.3f} {largest / b:.3f})"
                    if name == "fast":
                        ratios.append((rms / a, largest / b))
            yield line


def verdict(family: str, ratios: Ratios) -> str:
    """The largest ratios of a family, and whether one piece may be its default."""
    if not ratios:
        return f"{family:10}not decided: torch has no GPU here"
    rms, largest = (max(r) for r in zip(*ratios, strict=True))
    # The test is `<=`, not `not >`, because a ratio of NaN must not make one piece the default.
    word = "may be" if all(a <= MOST and b <= MOST for a, b in ratios) else "may not be"
    return f"{family:10}{rms:6.3f}{largest:9.3f}  one piece {word} the default"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", default="dawn-matrix")
    parser.add_argument("--adapter", help="a part of the adapter's name")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--only", choices=[*FAMILIES], help="one of the families")
    args = parser.parse_args()
    matrix = args.engine == "dawn-matrix"
    dev = pk.Device(
        args.adapter, engine="dawn" if matrix else args.engine, matrix_units=matrix
    )  # fmt: skip
    print(f"{dev.info['name']}, {args.engine}; results of float16, errors in 2^-24 of all products")
    verdicts = []
    for family in [args.only] if args.only else FAMILIES:
        ratios: Ratios = []
        for line in lines(dev, family, args.size, ratios):
            print(line, flush=True)
        verdicts.append(f"{verdict(family, ratios)}; {DEFAULTS[family]}")
    print(f"\nOne piece over torch: root mean square, largest error (of each at most {MOST})")
    print(*verdicts, sep="\n")


if __name__ == "__main__":
    main()
