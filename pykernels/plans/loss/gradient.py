"""The gradient of cross_entropy and nll_loss with respect to their input."""

from __future__ import annotations

from pykernels._generated.bodies import cross_entropy_grad as body
from pykernels.errors import DTypeError, ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View

from .classes import Numbers, column, parts_of_rows, take

__all__ = ["gradient"]


def gradient(
    op: str,
    caps: Caps,
    scratch: Scratch,
    x: View | None,
    target: View,
    stats: View | None,
    dy: View,
    total: View | None,
    weight: View | None,
    dst: View,
    numbers: Numbers,
) -> list[Step]:
    """One step for each part of the rows of dst; x is None for nll_loss, which does not read it."""
    lead = dst.shape[:-1]
    if dy.shape not in ((), lead):
        raise ShapeError(f"[{op}] dy must have shape () or {lead} but has {dy.shape}")
    if total is not None and (total.shape != () or dy.shape != ()):
        raise ShapeError(
            f"[{op}] total and dy must have shape () if total is given but have {total.shape} and "
            f"{dy.shape}"
        )
    if dy.dtype != dst.dtype:
        raise DTypeError(
            f"[{op}] dy must have the dtype of dst, {dst.dtype.name}, but is {dy.dtype.name}"
        )
    if dst.size == 0:
        return []
    probs = target.dtype.kind == "f"
    views = {
        "target": target if probs else column(target),
        "dy": column(dy.broadcast_to(lead)),
        "dst": dst,
    }
    if x is not None and stats is not None:
        views |= {"x": x, "stats": stats}
    if dst.ndim == 1:  # one row
        views = {name: v.as_rank(2) for name, v in views.items()}
    before, parts, after = parts_of_rows(caps, scratch, views, None)
    own = [_step(caps, part.views, total, weight, numbers) for part in parts]
    return [*before, *own, *after]


def _step(
    caps: Caps,
    views: dict[str, View],
    total: View | None,
    weight: View | None,
    numbers: Numbers,
) -> Step:
    x, target, dst = views.get("x"), views["target"], views["dst"]
    probs = target if target.dtype.kind == "f" else None
    batch = body.CONFIGS["batch1" if x is None else "batch4"].N
    taken = take(dst, [v for v in (x, probs) if v is not None], batch)
    vectors = dst.shape[-1] // taken.vec
    name = "batch4" if x is not None and vectors > taken.lanes else "batch1"
    each = taken.lanes * body.CONFIGS[name].N
    return body.step(
        caps, x, None if probs else target, probs, views.get("stats"), views["dy"], total, weight,
        dst, TARGETS="nll" if x is None else "probs" if probs else "class", VEC=taken.vec,
        BATCH=name, lanes_apart=int(taken.apart), lane_bits=taken.lane_bits,
        pieces=cdiv(vectors, each), **numbers._asdict(),
    )  # fmt: skip
