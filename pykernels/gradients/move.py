"""Movements of elements: the gradient of an element moves back to the element's source."""

from __future__ import annotations

from typing import Any

import numpy as np

from pykernels import functional as F
from pykernels.tape import Taped, reads
from pykernels.tensors.selecting import last_index

_MODES: dict[str, Any] = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@reads("index")
def gather(call: Taped) -> None:
    dy, axis = call.dy(), call.option("axis")
    zeros = dy.device.zeros(call.shape("src") or (), dy.dtype)
    call.give("src", F.scatter_add(zeros, axis, call.saved("index"), dy, check=False))


take_along_axis = gather


@reads("index")
def scatter(call: Taped) -> None:
    """Elements that later elements overwrote have a gradient of 0."""
    dy, axis, index = call.dy(), call.option("axis"), call.saved("index")
    if call.wants("src"):
        kept = index if call.option("distinct") else last_index(index, axis, dy.shape[axis])
        _give_picked(call, dy, axis, kept)
    if call.wants("dst"):
        call.give("dst", F.scatter(dy, axis, index, 0, check=False, distinct=True))


@reads("index")
def scatter_add(call: Taped) -> None:
    dy = call.dy()
    if call.wants("src"):
        _give_picked(call, dy, call.option("axis"), call.saved("index"))
    call.give("dst", dy)


def _give_picked(call: Taped, dy: Any, axis: int, index: Any) -> None:
    """Give src the elements of dy that the index picks; an index out of range gives 0."""
    found = dy.device.zeros(index.shape, dy.dtype)
    call.give("src", F.gather(dy, axis, index, check=False, out=found))


@reads()
def tri(call: Taped) -> None:
    keep = F.triu if call.option("upper") else F.tril
    call.give("src", keep(call.dy(), call.option("diagonal")))


@reads()
def pad(call: Taped) -> None:
    """The gradient of the border is added to its source elements, axis by axis, in runs of
    neighbours."""
    dy, shape, mode = call.dy(), call.shape("src") or (), call.option("mode")
    front = call.option("before") or (0,) * len(shape)
    for axis, (n, before) in enumerate(zip(shape, front, strict=True)):
        t = dy.transpose(axis, *(a for a in range(dy.ndim) if a != axis))
        after = t.shape[0] - n - before
        inner = t[before : before + n]
        if mode != "constant" and before + after:
            inner = inner.copy()
            widths = [(before, after)]
            places = np.pad(np.arange(n), widths, mode=_MODES[mode])
            for lo, hi in ((0, before), (before + n, before + n + after)):
                _add_runs(inner, t, places, lo, hi)
        order = (*range(1, axis + 1), 0, *range(axis + 1, dy.ndim))
        dy = inner.transpose(order)
    call.give("src", dy)


def _add_runs(inner: Any, t: Any, places: Any, lo: int, hi: int) -> None:
    """inner[places[i]] += t[i] for lo <= i < hi."""
    while lo < hi:
        step = int(places[lo + 1] - places[lo]) if lo + 1 < hi else 1
        end = lo + 1
        while end < hi and places[end] - places[end - 1] == step:
            end += 1
        first, last = int(places[lo]), int(places[end - 1])
        if step == 0:
            inner[first : first + 1] += F.sum(t[lo:end], axis=0, keepdims=True)
        else:
            run = t[lo:end] if step > 0 else t[lo:end][::-1]
            inner[min(first, last) : max(first, last) + 1] += run
        lo = end
