"""linear_recurrence: one dispatch, in which a group of lanes holds a column of a state."""

from __future__ import annotations

from typing import NamedTuple

from pykernels._generated.bodies import linear_recurrence as body
from pykernels.errors import ArgumentError, LimitError, ShapeError
from pykernels.plans.parts import fits_binding, narrow, parts
from pykernels.steps import Caps, Scratch, Step, cdiv, forced
from pykernels.tensors.layout import View

__all__ = ["RecurrenceChoice", "choose", "plan"]

_ROWS = 16  # most rows of a state that an invocation holds
_OF_TIME = ("q", "k", "v", "decay", "dst", "pair")
_BATCH = {name: 0 for name in (*_OF_TIME, "state", "states")}
_HEADS = {**{name: 2 for name in _OF_TIME}, "state": 1, "states": 2, "rate": 0}
_COLUMNS = {"v": 3, "state": 3, "dst": 3, "states": 4}
_DEEPEST = _ROWS * max([config.LANES for config in body.CONFIGS.values()])


class RecurrenceChoice(NamedTuple):
    """The name of a configuration."""

    group: str


def choose(caps: Caps, depth: int) -> RecurrenceChoice:
    """The smallest number of lanes that can hold a column."""
    given = forced(caps, RecurrenceChoice)
    if given is not None:
        return given
    held = {name: config.LANES * _ROWS for name, config in body.CONFIGS.items()}
    return RecurrenceChoice(min((n, name) for name, n in held.items() if n >= depth)[1])


def plan(
    caps: Caps, scratch: Scratch, q: View, k: View, v: View, decay: View, state: View,
    pair: View | None, rate: View | None, dst: View, states: View, every: int = 0,
    before: bool = False,
) -> list[Step]:  # fmt: skip
    """One dispatch, more if a tensor is larger than one binding; none without elements."""
    _check(q, k, v, decay, state, pair, rate, dst, states, every)
    if dst.size == 0 or states.size == 0:
        return []
    views = {"q": q, "k": k, "v": v, "decay": decay, "state": state, "dst": dst, "states": states}
    views |= {name: t for name, t in (("pair", pair), ("rate", rate)) if t is not None}
    return _steps(caps, scratch, views, every, before)


def _steps(
    caps: Caps, scratch: Scratch, views: dict[str, View], every: int, before: bool
) -> list[Step]:
    """The steps for a range of time steps, which is halved if a tensor is too large for a
    binding."""
    length = views["dst"].shape[1]
    if every == 0 and length > 1 and not _fit(caps, views):
        return _halves(caps, scratch, views, before)
    axes = [{n: a for n, a in axis.items() if n in views} for axis in (_BATCH, _HEADS, _COLUMNS)]
    found = [part.views for part in parts(caps, views, axes)]
    group = choose(caps, views["q"].shape[3]).group
    return [
        body.step(
            caps, w["q"], w["k"], w["v"], w["decay"], w["state"], w.get("pair"), w.get("rate"),
            w["dst"], w["states"], GROUP=group, span=every or length, early=int(before),
        )
        for w in found
    ]  # fmt: skip


def _fit(caps: Caps, views: dict[str, View]) -> bool:
    """True if a binding can hold all time steps of each tensor, for one batch, head and column."""
    for name, view in views.items():
        if name in _OF_TIME:
            one = narrow(narrow(view, 0, 0, 1), 2, 0, 1)
            if not fits_binding(caps, narrow(one, 3, 0, 1) if name in _COLUMNS else one):
                return False
    return True


def _halves(caps: Caps, scratch: Scratch, views: dict[str, View], before: bool) -> list[Step]:
    """The steps for both halves of a range of time steps; a temporary has the state between
    them."""
    length = views["dst"].shape[1]
    middle = scratch.empty(views["states"].shape, "float32")
    b, _, *others = middle.shape
    between = middle.with_layout((b, *others), (middle.strides[0], *middle.strides[2:]))
    ends = {"states": middle}, {"state": between}
    found = []
    for first, size, end in zip(
        (0, length // 2), (length // 2, -(-length // 2)), ends, strict=True
    ):
        half = {n: narrow(t, 1, first, size) if n in _OF_TIME else t for n, t in views.items()}
        found += _steps(caps, scratch, half | end, 0, before)
    return found


def _check(
    q: View, k: View, v: View, decay: View, state: View, pair: View | None, rate: View | None,
    dst: View, states: View, every: int,
) -> None:  # fmt: skip
    op = "linear_recurrence"
    if q.ndim != 4 or v.ndim != 4:
        raise ShapeError(
            f"[{op}] q must be (B, T, H, K) and v (B, T, H, V) but they have shapes {q.shape} and "
            f"{v.shape}"
        )
    if every < 0:
        raise ArgumentError(f"[{op}] every must be 0 or more but is {every}")
    b, t, h, depth = q.shape
    width = v.shape[3]
    count = min(1, t) if every == 0 else cdiv(t, every)
    wanted = {
        "k": (k, q.shape), "v": (v, (b, t, h, width)), "decay": (decay, q.shape),
        "state": (state, (b, h, depth, width)), "pair": (pair, (b, t, h, 2, depth)),
        "rate": (rate, (h, depth)), "dst": (dst, (b, t, h, width)),
        "states": (states, (b, count, h, depth, width)),
    }  # fmt: skip
    for name, (view, shape) in wanted.items():
        if view is not None and view.shape != shape:
            raise ShapeError(f"[{op}] {name} must have shape {shape} but has {view.shape}")
    if pair is not None and rate is not None:
        raise ArgumentError(f"[{op}] rate must be None if pair is given")
    if depth > _DEEPEST:
        raise LimitError(f"[{op}] q must be at most {_DEEPEST} deep but has shape {q.shape}")
