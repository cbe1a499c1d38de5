"""Every number of a dtype, or one of many in equal strides, through the operations of one input.

    python -m tests.proofs.exhaustive [PART ...] [--stride 4099] [--processes 1] [--only NAME ...]

float32   each unary operation on float32, inside the domain of its row: within the row's bound
casts     float32 to every other dtype: the bits of the reference
halves    each unary operation on every float16 of its domain
pairs     each operation of two inputs on all pairs of 512 float16

`--stride 1` takes all 2^32 numbers: three minutes of one core for each operation. `--processes N`
deals the blocks of float32 to N processes, each with its own device. `--only` names an operation or
the dtype of a cast. Inputs and results below 2^-126 are left out, as devices may take them for
zero. The largest error of each operation is printed in units in the last place of float32, of
float16 for halves and pairs.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import click
import numpy as np

import pykernels as pk
from bench.accuracy import NORMAL, SMALLEST, errors, halves
from pykernels.dtypes import DTYPES
from pykernels.reference.copy import cpy
from pykernels.reference.elementwise import OPS
from pykernels.wgsl.elementwise import Op
from tests.conftest import DRIVERS
from tests.harness import Array, bits

__all__ = ["PARTS", "Found", "blocks", "casts", "check", "floats", "half_pairs", "half_unary"]

BLOCK = 1 << 20
ALL = 1 << 32
HALF_PAIRS = 512


@dataclass
class Found:
    """What one operation did: how many numbers, the largest error, and an input that has it."""

    name: str
    bound: float
    numbers: int = 0
    worst: float = 0.0
    at: tuple[float, ...] = ()

    def add(self, error: Array, *inputs: Array) -> None:
        self.numbers += error.size
        if error.size and not error.max() <= self.worst:
            where = int(error.argmax())
            self.worst = float(error[where])
            self.at = tuple(float(x[where]) for x in inputs)

    def merge(self, other: Found) -> None:
        """Take in what another process found for the same operation."""
        self.numbers += other.numbers
        if other.worst > self.worst:
            self.worst, self.at = other.worst, other.at

    @property
    def right(self) -> bool:
        return self.worst <= self.bound

    def __str__(self) -> str:
        at = ", ".join(f"{x!r}" for x in self.at)
        mark = "" if self.right else "  WRONG"
        return (
            f"{self.name:24} {self.numbers:14,} {self.worst:9.3f} of {self.bound:g} at {at}{mark}"
        )


def blocks(stride: int, shard: tuple[int, int] = (1, 1)) -> Iterator[Array]:
    """float32 by the bits 0, stride, 2 stride and so on, in blocks."""
    starts = range(0, ALL, stride * BLOCK)
    for start in starts[shard[0] - 1 :: shard[1]]:
        end = min(start + stride * BLOCK, ALL)
        yield np.arange(start, end, stride, dtype=np.uint64).astype(np.uint32).view(np.float32)


def rows(inputs: int) -> list[Op]:
    """The operations of so many floats, with a float as their result."""
    return [
        op for op in OPS.values()
        if op.public and "float32" in op.dtypes and op.output == "same" and not op.conditions
        and len(op.inputs) == inputs
    ]  # fmt: skip


def _inside(op: Op, axis: int, x: Array) -> Array:
    low, high = op.domain[axis]
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    large = (np.abs(wide) >= SMALLEST[len(op.inputs)]) | (wide == 0)
    return (wide >= low) & (wide <= high) & large


def _run(dev: pk.Device, op: Op, *inputs: Array) -> Array:
    dst = dev.empty(inputs[0].shape, inputs[0].dtype.name)
    getattr(pk.kernels, op.name)(*(dev.tensor(x) for x in inputs), dst)
    return dst.numpy()


def floats(dev: pk.Device, op: Op, numbers: Callable[[], Iterator[Array]]) -> Found:
    """A unary operation on float32."""
    found = Found(op.name, op.ulp)
    for x in numbers():
        x = x[_inside(op, 0, x)]
        if x.size:
            found.add(errors(_run(dev, op, x), op.reference(x)), x)
    return found


def _half_error(op: Op, got: Array, want: Array) -> Array:
    """The error in units of float16 that the row's bound on float32 does not explain: a result that
    was rounded twice is up to one unit away."""
    with np.errstate(all="ignore"):
        inner = op.ulp * np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
        most = 65520.0  # what rounds to infinity
        exact = np.where(np.abs(want) >= most, np.copysign(np.inf, want), want)
        unit = np.maximum(np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64), 2.0**-24)
        off = np.abs(got.astype(np.float64) - exact) - np.nan_to_num(inner, posinf=0.0) - NORMAL
        error = np.where(got == exact, 0.0, off / np.where(np.isfinite(unit), unit, 32.0))
    # A result beside the end of the range may be infinite or the largest number.
    edge = (np.abs(want) >= 65504.0) & (np.abs(want) <= 65536.0) & (np.abs(got) >= 65472.0)
    return np.where(edge | (np.isnan(got) & np.isnan(want)), 0.0, np.nan_to_num(error, nan=np.inf))


def half_unary(dev: pk.Device, op: Op) -> Found:
    """A unary operation on every float16 of its domain."""
    x = halves()
    x = x[_inside(op, 0, x)]
    found = Found(op.name, 1.0)
    found.add(_half_error(op, _run(dev, op, x), op.reference(x)), x)
    return found


def half_pairs(dev: pk.Device, op: Op) -> Found:
    """An operation of two inputs on the pairs of float16 from its domain."""
    rng = np.random.default_rng(0)
    sides = []
    for axis in range(2):
        x = halves()
        sides.append(rng.choice(x[_inside(op, axis, x)], HALF_PAIRS))
    a, b = (np.ascontiguousarray(s).ravel() for s in np.meshgrid(*sides))
    found = Found(op.name, 1.0)
    found.add(_half_error(op, _run(dev, op, a, b), op.reference(a, b)), a, b)
    return found


def casts(dev: pk.Device, dtype: str, numbers: Callable[[], Iterator[Array]]) -> Found:
    """float32 to a dtype: an error is a number whose bits differ from the reference's."""
    found = Found(f"float32 to {dtype}", 0.0)
    for x in numbers():
        with np.errstate(invalid="ignore"):
            small = (np.abs(x) < NORMAL) & (x != 0)
        x = x[~small]
        dst = dev.empty(x.shape, dtype)
        pk.kernels.cpy(dev.tensor(x), dst)
        got, want = dst.numpy(), np.asarray(cpy(x, dtype)).reshape(x.shape)
        differ = bits(got) != bits(want)
        if DTYPES[dtype].kind == "f":
            differ &= ~(np.isnan(got) & np.isnan(want))
        found.add(differ.astype(np.float64), x)
    return found


def check(
    dev: pk.Device, part: str, numbers: Callable[[], Iterator[Array]], only: Sequence[str] = ()
) -> Iterator[Found]:
    """The operations of a part, one after the other; those named by `only`, if it names any."""

    def chosen(names: Iterable[str]) -> Iterator[str]:
        return (name for name in names if not only or name in only)

    ops = {op.name: op for op in rows(2 if part == "pairs" else 1)}
    if part == "casts":
        dtypes = (d for d in DTYPES if d not in ("float32", "int64", "complex64"))
        yield from (casts(dev, d, numbers) for d in chosen(dtypes))
    elif part == "float32":
        yield from (floats(dev, ops[name], numbers) for name in chosen(ops))
    else:
        run = half_unary if part == "halves" else half_pairs
        yield from (run(dev, ops[name]) for name in chosen(ops) if "float16" in ops[name].dtypes)


PARTS = ("float32", "casts", "halves", "pairs")
DEALT = ("float32", "casts")  # the parts whose numbers several processes share


def _share(part: str, stride: int, only: Sequence[str], shard: tuple[int, int]) -> list[Found]:
    """What one process finds in its blocks of a part, on a device of its own."""
    engine, _, driver = os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu").partition("-")
    with pk.Device(DRIVERS.get(driver), engine=engine) as dev:
        return list(check(dev, part, lambda: blocks(stride, shard), only))


@click.command(help=__doc__)
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--stride", default=4099)
@click.option("--processes", default=1)
@click.option("--only", multiple=True)
def main(parts: tuple[str, ...], stride: int, processes: int, only: tuple[str, ...]) -> None:
    wrong = total = 0
    # A process that is forked would share its parent's device.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for name in parts or PARTS:
            number = processes if name in DEALT else 1
            shards = [(index + 1, number) for index in range(number)]
            shares = list(pool.map(partial(_share, name, stride, only), shards))
            for found, *others in zip(*shares, strict=True):
                for other in others:
                    found.merge(other)
                click.echo(f"{name:8} {found}")
                wrong += not found.right
                total += found.numbers
    click.echo(f"{total:,} numbers, {wrong} operations wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
