"""What the plans of gather and scatter share: one side whose place along an axis an index gives."""

from __future__ import annotations

from dataclasses import dataclass

from pykernels.errors import DTypeError, ShapeError
from pykernels.faults import Watch
from pykernels.layout import Nd, View
from pykernels.plan import Caps
from pykernels.plans.parts import fits_binding, in_levels, parts

from .last_index import table_of

__all__ = ["Share", "check", "shares"]


@dataclass(frozen=True, slots=True)
class Share:
    """The views of one step, the picked side by `_picked`, and what it reports."""

    src: View
    index: View
    dst: View
    watch: Watch | None


def check(op: str, src: View, index: View, dst: View, axis: int, name: str) -> int:
    """The axis from the front; `name` says which of src and dst the index picks from."""
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
    caps: Caps, src: View, index: View, dst: View, at: int, name: str, watch: Watch | None,
    table: bool = False,
) -> list[Share]:  # fmt: skip
    """The steps: one, if each view fits one binding and few axes are left; else any axis is cut,
    but the picked one of the picked side, which is `name`. `table`: each part needs one of its
    indices."""
    rest = "dst" if name == "src" else "src"
    views = {"src": src, "index": index, "dst": dst}
    side = views[name]
    views[name] = side.with_layout(
        (*index.shape[:at], side.shape[at], *index.shape[at + 1 :]), side.strides
    )
    axes = [
        {"index": a, rest: a} if a == at else {"src": a, "index": a, "dst": a}
        for a in range(index.ndim)
    ]
    if table and not fits_binding(caps, table_of(index)):
        views["table"] = table_of(index)
        axes = [{**axis, "table": axis["index"]} for axis in axes]
    found = [part for each in parts(caps, views, axes) for part in in_levels(each, axes, Nd.LEVELS)]
    out = []
    for number, part in enumerate(found):
        own = watch
        if watch is not None and len(found) > 1:
            own = watch.part(number, part.first, part.views["index"].shape, index.shape)
        s, i, d = part.views["src"], part.views["index"], part.views["dst"]
        if name == "src":
            out.append(Share(_picked(s, i, at), i, d, own))
        else:
            out.append(Share(s, i, _picked(d, i, at), own))
    return out


def _picked(side: View, index: View, at: int) -> View:
    """The side with the axis `at` as its last one, behind those of index, where it has size 1."""
    shape = (*index.shape[:at], 1, *index.shape[at + 1 :], side.shape[at])
    strides = (*side.strides[:at], 0, *side.strides[at + 1 :], side.strides[at])
    return side.with_layout(shape, strides)
