"""Code that the plans of gather and scatter share: an index picks the places of one side along an
axis."""

from __future__ import annotations

from dataclasses import dataclass

from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.parts import fits_binding, in_levels, narrow, parts
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import Nd, View, contiguous_strides
from pykernels.wgsl.watch import Watch

from .last_index import table_of

__all__ = ["Share", "check", "shares"]


@dataclass(frozen=True, slots=True)
class Share:
    """The views of one step (the picked side has been through `_picked`), and the step's report of
    faults.

    If a binding cannot hold the picked side's axis, a temporary replaces the side: `copy` is the
    temporary, and `apart` is the view that it replaces.
    """

    src: View
    index: View
    dst: View
    watch: Watch | None
    apart: View | None = None
    copy: View | None = None


def check(op: str, src: View, index: View, dst: View, axis: int, name: str) -> int:
    """Check the views; returns the axis counted from 0. `name` is the view that the index picks
    from, src or dst."""
    side, other = (src, dst) if name == "src" else (dst, src)
    if not -side.ndim <= axis < side.ndim:
        raise ShapeError(f"[{op}] axis {axis} does not exist in shape {side.shape}")
    at = axis % side.ndim
    rest = "dst" if name == "src" else "src"
    if other.shape != index.shape:
        raise ShapeError(
            f"[{op}] {rest} must have the shape of index, {index.shape}, but has {other.shape}"
        )
    if side.ndim != index.ndim or not all(
        a == at or index.shape[a] <= side.shape[a] for a in range(side.ndim)
    ):
        raise ShapeError(
            f"[{op}] index must have as many axes as {name} and, but for axis {axis}, no larger "
            f"sizes than {side.shape} but has shape {index.shape}"
        )
    if src.dtype != dst.dtype:
        raise DTypeError(
            f"[{op}] dst must have the dtype of src, {src.dtype.name}, but is {dst.dtype.name}"
        )
    return at


def shares(
    caps: Caps, scratch: Scratch, src: View, index: View, dst: View, at: int, name: str,
    watch: Watch | None, table: bool = False,
) -> list[Share]:  # fmt: skip
    """The steps: a single step if each view fits one binding and few axes are left. Otherwise axes
    are cut, but never the picked axis of the picked side `name`. `table`: each part needs a hash
    table of its indices."""
    rest = "dst" if name == "src" else "src"
    views = {"src": src, "index": index, "dst": dst}
    side = views[name]
    views[name] = side.with_layout(
        (*index.shape[:at], side.shape[at], *index.shape[at + 1 :]), side.strides
    )
    far = views[name] if _is_far(caps, views[name], at) else None
    if far is not None:
        views[name] = _compact(far, 0, at)
    axes = [
        {"index": a, rest: a} if a == at else {"src": a, "index": a, "dst": a}
        for a in range(index.ndim)
    ]
    if table and not fits_binding(caps, table_of(index)):
        views["table"] = table_of(index)
        axes = [{**axis, "table": axis["index"]} for axis in axes]
    found = [part for each in parts(caps, views, axes) for part in in_levels(each, axes, Nd.LEVELS)]
    out = []
    slot = 0
    if far is not None:
        slot = scratch.reserve(max(part.views[name].nbytes for part in found))
    for number, part in enumerate(found):
        own = watch
        if watch is not None and len(found) > 1:
            own = watch.part(number, part.first, part.views["index"].shape, index.shape)
        s, i, d = part.views["src"], part.views["index"], part.views["dst"]
        apart: View | None = None
        copy: View | None = None
        if far is not None:
            inside = far
            for axis in range(far.ndim):
                if axis != at:
                    inside = narrow(inside, axis, part.first[axis], i.shape[axis])
            apart, copy = inside, _compact(inside, slot, at)
        if name == "src":
            out.append(Share(_picked(copy or s, i, at), i, d, own, apart, copy))
        else:
            out.append(Share(s, i, _picked(copy or d, i, at), own, apart, copy))
    return out


def _is_far(caps: Caps, side: View, at: int) -> bool:
    """True if a side spans more than a binding along the picked axis, but its elements along this
    axis would fit if they were contiguous."""
    if fits_binding(caps, side):
        return False
    line = side
    for axis in range(side.ndim):
        if axis != at:
            line = narrow(line, axis, 0, 1)
    return not fits_binding(caps, line) and fits_binding(caps, _compact(line, 0, at))


def _compact(side: View, slot: int, at: int) -> View:
    """A view of the same shape without gaps, with the picked axis as the innermost in memory."""
    order = [*[a for a in range(side.ndim) if a != at], at]
    steps = contiguous_strides([side.shape[a] for a in order], side.dtype.itemsize)
    strides = tuple(steps[order.index(a)] for a in range(side.ndim))
    return View(slot, side.dtype, side.shape, strides, 0)


def _picked(side: View, index: View, at: int) -> View:
    """The picked side with the axis `at` moved to the end, after the axes of the index."""
    shape = (*index.shape[:at], 1, *index.shape[at + 1 :], side.shape[at])
    strides = (*side.strides[:at], 0, *side.strides[at + 1 :], side.strides[at])
    return side.with_layout(shape, strides)
