"""Estimates the cost of a choice: the time of workgroups that run in waves, and the time of sums
over splits of K.

Estimates are in seconds, or in workgroups and waves. All numbers of a device come from its table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from pykernels.steps import cdiv

from .limits import MAX_ROUNDS

__all__ = [
    "Split",
    "busiest",
    "copy_seconds",
    "product_seconds",
    "split_k",
    "splitk_seconds",
    "tile_of",
    "waves",
]


def waves(groups: int, units: int, partial: Sequence[float]) -> float:
    """The time of `groups` equal workgroups, in units of one full wave.

    A multiprocessor holds `len(partial) - 1` workgroups at a time. `partial[n]` is the time of a
    wave with n workgroups on each multiprocessor: 0.0 for none, 1.0 for all.
    """
    resident = len(partial) - 1
    whole, rest = divmod(groups, resident * units)
    return whole + partial[cdiv(rest, units)]


def busiest(groups: int, units: int, even_from: int) -> float:
    """The number of workgroups on the busiest multiprocessor. If each multiprocessor has
    `even_from` or more workgroups, the load counts as even, because a multiprocessor that finishes
    early takes more workgroups."""
    each = groups / units
    return each if each >= even_from else math.ceil(each)


def product_seconds(
    rows: int, cols: int, depth: int, each: float, units: int, rate: float
) -> float:
    """The seconds that each multiprocessor needs for `each` tiles of rows x cols x depth
    multiply-adds, on a device that does `rate` operations a second when it is full."""
    return each * 2 * rows * cols * depth * units / rate


def splitk_seconds(
    nbytes: int, splits: int, dispatch: float, copy: float, result: int = 0
) -> float:
    """Seconds to write and read splits of `nbytes` each, and to write `result` bytes; `copy` is in
    bytes a second."""
    return dispatch + (2 * nbytes * splits + result) / copy


def copy_seconds(nbytes: int, dispatch: float, copy: float) -> float:
    """Seconds of one more dispatch that reads and writes `nbytes`."""
    return dispatch + 2 * nbytes / copy


class Split(NamedTuple):
    """K is cut into `splits` splits of `depth`; the last split may be shorter."""

    splits: int
    depth: int


def split_k(depth: int, splits: int, unit: int, each: int = 0) -> Split:
    """Cut K into splits of length `each`, or into equal splits that are multiples of `unit`. No
    split is empty, and none is too long for one loop that processes `unit` in each round."""
    splits = max(splits, cdiv(depth, unit * MAX_ROUNDS))
    if each == 0:
        each = cdiv(cdiv(depth, splits), unit) * unit
    each = min(each, unit * MAX_ROUNDS)
    return Split(cdiv(depth, each), each)


def tile_of(body: str) -> str:
    """The tile of a choice's body: the name after the slash."""
    return body.split("/")[1]
