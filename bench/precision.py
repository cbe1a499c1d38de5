"""The errors of float16 products, convolutions and attention, on matrix units and beside torch's.

    python -m bench.precision [--engine ENGINE] [--size N] [--only matmul|conv2d|attention]

Errors are shares of the sum of the absolute values of all products of an element (of attention: of
the weighted values), in units of 2^-24: the root mean square and the largest over results of
float16, for operands that are normal, of one sign, and of a wide range, by several depths: K of a
product, taps times channels of a 3 x 3 convolution, keys of attention. `precision` None, "high" and
"fast", and torch's on the GPU, with its default settings, where torch sees one. The ratios are ours
over torch's.
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
HEADS, WIDTH = 4, 64  # of attention


class Problem(NamedTuple):
    """Operands, the exact result, and what its errors are shares of."""

    depth: int
    operands: Arrays
    exact: Array
    size: Array


def numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    """Numbers of a kind, about 1."""
    if kind == "one sign":
        return rng.random(shape)
    found = rng.standard_normal(shape)
    return found * 2.0 ** rng.uniform(-8, 4, shape) if kind == "wide" else found


def products(kind: str, n: int) -> Iterator[Problem]:
    """(n, K) @ (K, n); results stay within the range of halves."""
    for depth in DEPTHS:
        rng = np.random.default_rng(depth)
        a, b = (
            (numbers(rng, kind, s) / depth**0.25).astype(np.float16)
            for s in ((n, depth), (depth, n))
        )
        wide = a.astype(np.float64), b.astype(np.float64)
        yield Problem(depth, (a, b), wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1]))


def convolutions(kind: str, n: int) -> Iterator[Problem]:
    """3 x 3 windows of images of n / 32 by 32 pixels, with 64 output channels."""
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
    """n / HEADS queries of each of HEADS heads, with values of one kind."""
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
    """The call of a family."""

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
    """torch's call on the GPU, if there is one."""
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
    """Root mean square and largest, in units of 2^-24 of the size."""
    error = np.abs(got - problem.exact) / problem.size * 2.0**24
    return float(np.sqrt((error**2).mean())), float(error.max())


def lines(dev: pk.Device, family: str, n: int) -> Iterator[str]:
    """A line for each kind and depth."""
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
            yield line


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
    for family in [args.only] if args.only else FAMILIES:
        for line in lines(dev, family, args.size):
            print(line, flush=True)


if __name__ == "__main__":
    main()
