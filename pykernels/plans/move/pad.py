"""pad: copies the inside, and copies or fills each piece of the border, as views."""

from __future__ import annotations

from dataclasses import replace

from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plans.copy import cpy
from pykernels.plans.fill import fill
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Ints, View

__all__ = ["MODES", "plan"]

MODES = ("constant", "reflect", "replicate", "circular")


def plan(
    caps: Caps, scratch: Scratch, src: View, dst: View, before: Ints | None = None,
    mode: str = "constant",
) -> list[Step]:  # fmt: skip
    """A copy of the inside, then the border."""
    front = (0,) * src.ndim if before is None else before
    _check(src, dst, front, mode)
    steps: list[Step] = []
    if mode == "constant":
        inside = dst
        for axis in range(src.ndim):
            first, n = front[axis], src.shape[axis]
            behind = dst.shape[axis] - first - n
            steps += fill.plan(caps, scratch, _part(inside, axis, 0, first, 1))
            steps += fill.plan(caps, scratch, _part(inside, axis, first + n, behind, 1))
            inside = _part(inside, axis, first, n, 1)
        return steps + cpy.plan(caps, scratch, src, inside)
    pieces = [(src, dst)]
    for axis in range(src.ndim):
        found: list[tuple[View, View]] = []
        for s, d in pieces:
            n, first = src.shape[axis], front[axis]
            behind = dst.shape[axis] - first - n
            found.append((s, _part(d, axis, first, n, 1)))
            for at, count, start, step in _border(mode, n, first, behind):
                if count > 0:
                    found.append((_part(s, axis, start, count, step), _part(d, axis, at, count, 1)))
        pieces = found
    for s, d in pieces:
        steps += cpy.plan(caps, scratch, s, d)
    return steps


def _check(src: View, dst: View, front: Ints, mode: str) -> None:
    if mode not in MODES:
        raise ArgumentError(f"[pad] mode must be one of {', '.join(MODES)} but is {mode!r}")
    if src.ndim != dst.ndim or len(front) != src.ndim:
        raise ShapeError(
            f"[pad] src, dst and before must have as many axes but are {src.shape}, {dst.shape} "
            f"and {front}"
        )
    if src.dtype != dst.dtype:
        raise DTypeError(
            f"[pad] dst must have the dtype of src, {src.dtype.name}, but is {dst.dtype.name}"
        )
    for axis in range(src.ndim):
        n, first = src.shape[axis], front[axis]
        behind = dst.shape[axis] - first - n
        if first < 0 or behind < 0:
            raise ShapeError(
                f"[pad] src of shape {src.shape} behind {front} elements must fit into dst of "
                f"shape {dst.shape}"
            )
        most = max(first, behind)
        need = {"constant": 0, "reflect": most + 1, "replicate": 1, "circular": most}[mode]
        if most > 0 and n < need:
            raise ShapeError(
                f"[pad] mode {mode} needs {need} elements along axis {axis} for a border of {most} "
                f"but src has shape {src.shape}"
            )


def _border(mode: str, n: int, first: int, behind: int) -> list[tuple[int, int, int, int]]:
    """For each side along an axis: the place in dst, the number of elements, the element of src
    that comes first, and the step in src to the next one."""
    if mode == "replicate":
        return [(0, first, 0, 0), (first + n, behind, n - 1, 0)]
    if mode == "reflect":
        return [(0, first, first, -1), (first + n, behind, n - 2, -1)]
    return [(0, first, n - first, 1), (first + n, behind, 0, 1)]


def _part(view: View, axis: int, start: int, count: int, step: int) -> View:
    """`count` elements along an axis from `start`, `step` apart."""
    stride = view.strides[axis]
    return replace(
        view, shape=(*view.shape[:axis], count, *view.shape[axis + 1 :]),
        strides=(*view.strides[:axis], stride * step, *view.strides[axis + 1 :]),
        offset=view.offset + (start * stride if count > 0 else 0),
    )  # fmt: skip
