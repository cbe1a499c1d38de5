"""Devices as a few numbers, and a model of the times of choices on them. The model is used to find
generic tables and to test the search.

Each multiprocessor has an equal share of the device's operations per second and of its bandwidth. A
tile of BM x BN reaches the fraction I / (I + REUSE) of the operations per second, with I = BM BN /
(BM + BN); loads take the rest of the time. A wave takes as long as its fullest multiprocessor, and
a multiprocessor with few invocations is slow. The partial results of splits are written, and one
more dispatch reads them. The numbers that describe devices are public and rounded.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pykernels.bench.case import kernel_of
from pykernels.dtypes import DTYPES
from pykernels.plans.attention import select as attention
from pykernels.plans.conv import select as conv
from pykernels.plans.conv import select_weight
from pykernels.plans.matmul import select as matmul
from pykernels.plans.matmul.select import COLUMNS, TILES, lane_bits
from pykernels.steps import Caps, cdiv
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named

from .choices import Question, choices, question
from .problems import Problem, problems

__all__ = ["LAPTOPS", "LARGE", "Modelled", "ModelledTimes", "Together", "caps_of", "questions"]

# the constant of the formula above, fitted to the rates of an H200's tiles from 32x32 to 128x128
REUSE = 20.0
HELD = 3  # workgroups of 128 invocations that fit on a multiprocessor at a time
START = 64  # the cost of starting a workgroup, expressed as an addition to K


@dataclass(frozen=True)
class Modelled:
    """A device: its multiprocessors, bytes per second, f32 operations per second, seconds of one
    more dispatch, and the number of invocations that keep a multiprocessor busy."""

    name: str
    units: int
    copy: float
    rate: float
    dispatch: float = 3e-6
    busy: int = 256


LAPTOPS = (
    Modelled("Intel UHD, 24 units", 4, 5e10, 4.6e11, 8e-6, 112),
    Modelled("Iris Xe, 96 units", 6, 6e10, 1.9e12, 8e-6, 128),
    Modelled("Apple M1", 8, 6.8e10, 2.6e12, 5e-6, 384),
    Modelled("Arc 140V", 8, 1.36e11, 4.0e12, 6e-6, 256),
    Modelled("Apple M4", 10, 1.2e11, 4.2e12, 4e-6, 384),
    Modelled("GeForce GTX 1060", 10, 1.9e11, 4.4e12, 4e-6, 256),
    Modelled("Radeon 780M", 12, 9e10, 4.1e12, 5e-6, 128),
    Modelled("Apple M3 Pro", 18, 1.5e11, 6.4e12, 4e-6, 384),
    Modelled("GeForce RTX 3050 Laptop", 16, 1.9e11, 5.5e12, 4e-6, 256),
    Modelled("GeForce RTX 4060 Laptop", 24, 2.6e11, 1.1e13, 3e-6, 256),
    Modelled("GeForce RTX 3060 Laptop", 30, 3.4e11, 1.0e13, 3e-6, 256),
    Modelled("Apple M1 Max", 32, 4e11, 1.04e13, 4e-6, 384),
    Modelled("Radeon RX 7600M", 28, 2.6e11, 1.0e13, 4e-6, 128),
)
LARGE = (
    Modelled("Arc A770", 32, 5.6e11, 1.8e13, 5e-6, 256),
    Modelled("GeForce RTX 4070", 46, 5.0e11, 2.6e13, 3e-6, 256),
    Modelled("GeForce RTX 2080 Ti", 68, 6.2e11, 1.3e13, 3e-6, 256),
    Modelled("Apple M2 Ultra", 76, 8e11, 2.7e13, 4e-6, 384),
    Modelled("GeForce RTX 3080", 68, 7.6e11, 2.7e13, 3e-6, 256),
    Modelled("Radeon RX 7900 XTX", 96, 9.6e11, 3.0e13, 4e-6, 128),
    Modelled("A100", 108, 1.5e12, 1.9e13, 2e-6, 256),
    Modelled("GeForce RTX 4090", 128, 1.0e12, 7.5e13, 2e-6, 256),
    Modelled("H200", 132, 3.5e12, 6.1e13, 2e-6, 256),
)


def caps_of(d: Modelled) -> Caps:
    """The caps of a modelled device: all bodies of f32."""
    return Caps(False, True, 256, 1024, 32768, 1 << 30, 65535, named("generic-large"))


def _wave(d: Modelled, groups: int, threads: int, resident: int) -> float:
    """The time of `groups` equal workgroups, relative to the time of one workgroup at the full
    speed of a multiprocessor."""

    def of(each: int) -> float:
        return each * max(1.0, math.sqrt(d.busy / (each * threads))) if each else 0.0

    full, rest = divmod(groups, resident * d.units)
    return full * of(resident) + of(cdiv(rest, d.units))


def _tile(
    d: Modelled, sides: tuple[int, int, int], groups: int, depth: float, share: float = 1.0
) -> float:
    """Seconds of `groups` tiles with these `sides` (rows, columns, invocations), at the share
    `share` of the rate of a product."""
    rows, cols, threads = sides
    reuse = rows * cols / (rows + cols)
    rate = d.rate / d.units * share * reuse / (reuse + REUSE)
    resident = max(HELD * 128 // threads, 1)
    return _wave(d, groups, threads, resident) * 2 * rows * cols * (depth + START) / rate


def _sums(d: Modelled, nbytes: float, splits: int) -> float:
    return 0.0 if splits == 1 else d.dispatch + nbytes * (2 * splits + 1) / d.copy


def _stream(d: Modelled, groups: int, nbytes: float, operations: float) -> float:
    """Seconds of a single read of memory; few workgroups do not reach the rate of a copy."""
    share: float = min(1.0, (groups / (4 * d.units)) ** 0.75)
    return max(nbytes / (d.copy * share), operations / (0.4 * d.rate))


def _matmul(d: Modelled, s: Any, c: Any) -> Any:
    sums = 4.0 * s.batches * s.rows * s.cols
    if c.body == "gemv":
        own, few = named("nvidia-h200").matmul.gemv, min(s.rows, s.cols)
        many = max(s.rows, s.cols)
        each = COLUMNS >> lane_bits(own, s)
        groups = s.batches * cdiv(many, each) * c.splits
        work = 2.0 * s.batches * few * many * s.depth
        read = 4.0 * s.batches * (many + few) * s.depth
        return d.dispatch + _stream(d, groups, read, work) + _sums(d, sums, c.splits)
    tile = TILES[c.body]
    tiles = s.batches * cdiv(s.rows, tile.BM) * cdiv(s.cols, tile.BN)
    sides = (tile.BM, tile.BN, tile.threads)
    read = 4.0 * s.batches * (s.rows + s.cols) * s.depth + sums
    if c.tail.rows:
        across = cdiv(s.cols, tile.BN)
        whole = tiles - c.tail.rows * across
        seconds = _tile(d, sides, whole, s.depth)
        seconds += _tile(d, sides, c.tail.rows * across * c.tail.splits, s.depth / c.tail.splits)
        rows = c.tail.rows * tile.BM
        return d.dispatch + seconds + _sums(d, 4.0 * rows * s.cols, c.tail.splits)
    splits = cdiv(s.depth, c.each) if c.each else c.splits
    seconds = _tile(d, sides, tiles * splits, s.depth / splits)
    return d.dispatch + max(seconds, read / d.copy) + _sums(d, sums, splits)


def _conv(d: Modelled, s: Any, c: Any) -> Any:
    sums = 4.0 * s.groups * s.rows * s.pixels
    work = 2.0 * s.groups * s.rows * s.pixels * s.depth
    if c.body in ("conv_few_outputs", "conv_direct"):
        return d.dispatch + work * (1.0 if s.rows <= 4 else s.rows / 4) / (0.15 * d.rate)
    if c.body in conv.STEM_TILES:
        stem = conv.STEM_TILES[c.body]
        sides = (stem.BM, stem.PIXEL_ROWS * stem.PIXEL_COLS, stem.threads)
        return d.dispatch + _tile(d, sides, conv._tiles(s, c.body), s.depth)
    three = c.body in conv.TILES_3X3
    tile: Any = conv.TILES_3X3[c.body] if three else conv.TILES[c.body]
    form = "taps" if three else s.forms[list(conv.TILES).index(c.body)]
    share = 1.0 if three else {"taps": 0.9, "vec": 0.85, "any": 0.7}[form]
    sides = (tile.BM, tile.BN, tile.threads)
    seconds = _tile(d, sides, conv._tiles(s, c.body) * c.splits, s.depth / c.splits, share)
    return d.dispatch + seconds + _sums(d, sums, c.splits)


def _weight(d: Modelled, s: Any, c: Any) -> Any:
    sums = 4.0 * s.groups * s.rows * s.cols
    work = 2.0 * s.groups * s.rows * s.cols * s.pixels
    if c.body == select_weight.DIRECT:
        return d.dispatch + work / (0.07 * d.rate)
    tile = select_weight.TILES[c.body]
    sides = (tile.BM, tile.BN, tile.threads)
    groups = select_weight._tiles(s, c.body) * c.splits
    return d.dispatch + _tile(d, sides, groups, s.pixels / c.splits, 0.8) + _sums(d, sums, c.splits)


def _attention(d: Modelled, s: Any, c: Any) -> Any:
    result = 4.0 * s.batch * s.heads * s.queries * (s.value_depth + 2)
    rows = s.group * s.queries
    if c.body == attention.DECODE:
        groups = s.batch * s.kv_heads * cdiv(rows, attention.HELD) * c.splits
        read = 4.0 * s.batch * s.kv_heads * s.keys * (s.depth + s.value_depth)
        read *= cdiv(rows, attention.HELD)  # once for every HELD rows of queries
        work = 2.0 * s.batch * s.heads * s.queries * s.keys * (s.depth + s.value_depth)
        combined = d.dispatch + 2 * result * c.splits / d.copy
        return d.dispatch + _stream(d, groups, read, work) + combined
    if c.body == attention.PRODUCTS:
        own, heads = matmul.TILES[matmul.GEMM], s.batch * s.heads
        sides = (own.BM, own.BN, own.threads)
        blocks = heads * cdiv(s.queries, own.BM)
        seconds = _tile(d, sides, blocks * cdiv(s.keys, own.BN), s.depth, 0.9)
        seconds += _tile(d, sides, blocks * cdiv(s.value_depth, own.BN), s.keys, 0.9)
        return 3 * d.dispatch + seconds + 16.0 * heads * s.queries * s.keys / d.copy
    tile_rows, tile_keys = attention.tile_sizes(c.body, s)
    sides = (tile_rows, tile_keys, 64 if c.body == attention.SMALL else 128)
    # Scores and sums are two products, computed for one tile of keys after the other.
    depth = (s.depth + attention.padded(s)) * s.keys / tile_keys
    groups = attention._groups(c.body, s)
    if c.tail.splits > 1:
        blocks, splits = c.tail.blocks, c.tail.splits
        seconds = _tile(d, sides, groups - blocks, depth, 0.9)
        seconds += _tile(d, sides, blocks * splits, depth / splits, 0.9)
        return d.dispatch + seconds + _sums(d, result * blocks / groups, splits)
    seconds = _tile(d, sides, groups * c.splits, depth / c.splits, 0.9)
    return d.dispatch + seconds + _sums(d, result, c.splits)


_MODELS = {matmul: _matmul, conv: _conv, select_weight: _weight, attention: _attention}


def views(p: Problem) -> list[View | None]:
    """The views of a problem for a plan, without memory."""
    found: list[View | None] = []
    for i, argument in enumerate(kernel_of(p.kernel).args):
        o = p.case.tensors.get(argument.name)
        if o is None:
            found.append(None)
            continue
        dtype = DTYPES[o.dtype]
        found.append(View(i, dtype, o.shape, contiguous_strides(o.shape, dtype.itemsize), 0))
    return found


def questions(caps: Caps) -> list[Question]:
    """The questions that plans ask for the f32 problems, without the questions for which the model
    has no times."""
    asked = (question(caps, p, views(p)) for p in problems())
    return [q for q in asked if q is not None and q.module in _MODELS]


class ModelledTimes:
    """The times of choices for some questions on a modelled device."""

    def __init__(self, d: Modelled, questions: Sequence[Question]) -> None:
        self.device, self.questions, self.caps = d, questions, caps_of(d)
        self._best = [min(self.seconds(i, c) for c in choices(self.caps, q))
                      for i, q in enumerate(questions)]  # fmt: skip

    def seconds(self, i: int, choice: Any) -> float:
        q = self.questions[i]
        return float(_MODELS[q.module](self.device, q.shape[0], choice))

    def known(self, i: int, choice: Any) -> float | None:
        return self.seconds(i, choice)

    def best(self, i: int) -> float:
        return self._best[i]


class Together:
    """Several devices as one: the time of a choice is the geometric mean, over the devices, of its
    time relative to the best choice."""

    def __init__(self, each: Sequence[ModelledTimes]) -> None:
        self.each = each
        self._known: dict[tuple[int, Any], float] = {}

    def seconds(self, i: int, choice: Any) -> float:
        found = self._known.get((i, choice))
        if found is None:
            ratios = (max(math.log(t.seconds(i, choice) / t.best(i)), 0.0) for t in self.each)
            found = self._known[i, choice] = math.exp(statistics.mean(ratios))
        return found

    def known(self, i: int, choice: Any) -> float | None:
        return self.seconds(i, choice)

    def best(self, i: int) -> float:
        return 1.0
