"""Copies of several tensors into one, in as few launches as the device's buffers allow."""

from __future__ import annotations

from collections.abc import Sequence

from pykernels.device import Tensor
from pykernels.plans.copy.together import MOST, copies
from pykernels.runtime.launch import run

from .copy import copyto

__all__ = ["BUFFERS", "copy_together"]

BUFFERS = "max-storage-buffers-per-shader-stage"


def copy_together(dst: Tensor, pieces: Sequence[tuple[int, Tensor]]) -> None:
    """Copy tensors to the flat `dst`. `pieces` are pairs of the first element in `dst` and a
    tensor, in ascending order.

    Contiguous float32 tensors share launches. No two destinations may overlap, and no tensor may
    lie in the buffer of `dst`.
    """
    context = dst._context
    largest, most = context.caps.max_binding, min(context.limits[BUFFERS] - 1, MOST)
    lines: dict[bool, list[tuple[int, Tensor]]] = {}
    for start, t in pieces:
        lay = t._layout
        if lay.contiguous and t.dtype == "float32" and 0 < lay.nbytes <= largest:
            whole = t._offset % 16 == 0 and lay.size % 4 == 0
            fours = whole and (dst._offset + 4 * start) % 16 == 0
            lines.setdefault(fours, []).append((start, t))
        else:
            _one(dst, start, t)
    for line in lines.values():
        some: list[tuple[int, Tensor]] = []
        for start, t in line:
            if some and (len(some) == most or 4 * (start + t.size - some[0][0]) > largest - 256):
                _launch(dst, some)
                some = []
            some.append((start, t))
        _launch(dst, some)


def _one(dst: Tensor, start: int, t: Tensor) -> None:
    copyto(dst[start : start + t.size].reshape(t.shape), t)


def _launch(dst: Tensor, some: Sequence[tuple[int, Tensor]]) -> None:
    if len(some) == 1:
        _one(dst, *some[0])
        return
    first = some[0][0]
    last, t = some[-1]
    window = dst._view((last + t.size - first,), (4,), dst._offset + 4 * first)
    starts = tuple([start - first for start, _ in some])
    run(copies(len(some)).kernel, (*[t for _, t in some], window), (), (starts,))
