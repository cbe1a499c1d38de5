"""The choices that plans make for a problem, as data: the question that a plan asks, and the
candidates."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from pykernels import kernels
from pykernels.bench.case import kernel_of
from pykernels.bench.explain import Row
from pykernels.plans.conv import select_weight
from pykernels.plans.matmul import select_quant
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View
from pykernels.tuning import Tuning, named

from .problems import Problem

__all__ = ["Question", "choices", "chosen", "question", "text_of"]

SPLITS = (1, 2, 3, 4, 8, 16)
LEAST_SPLIT = 32  # smallest number of elements that a split adds up
EVERY = "nvidia-h200"  # this table names all bodies


class Question(NamedTuple):
    """A question that a plan asks: the kind of choice, and the shape on which it depends."""

    kind: type
    shape: tuple[Any, ...]

    @property
    def module(self) -> Any:
        return sys.modules[self.kind.__module__]


def text_of(choice: Any) -> str:
    """The choice as text for `pykernels bench --config`."""
    return Row(choice, False).name


def question(caps: Caps, p: Problem, views: list[View | None]) -> Question | None:
    """The first question of a problem's plan; None if the plan chooses nothing."""
    asked: list[tuple[type, tuple[Any, ...]]] = []
    kernel = kernel_of(p.kernel)
    known = inspect.signature(getattr(kernels, p.kernel)).parameters
    options = [p.case.args.get(o, known[o].default) for o in kernel.options]
    kernel.plan(replace(caps, asked=asked), Scratch(), *views, *options)
    found = next(((kind, shape) for kind, shape in asked if shape), None)
    return Question(*found) if found else None


def chosen(caps: Caps, t: Tuning, q: Question) -> Any:
    """The choice that the plan makes with this table."""
    return q.module.choose(replace(caps, tuning=t, forced=(), asked=None), *q.shape)


def choices(caps: Caps, q: Question) -> list[Any]:
    """All bodies that the device can run, each with several numbers of splits."""
    every = replace(caps, tuning=named(EVERY), forced=(), asked=None)
    found: dict[Any, None] = {}
    for c in _bodies(every, q):
        found[c] = None
        plain = c._replace(splits=1)
        bare = all(getattr(plain, f) == d for f, d in plain._field_defaults.items())
        if bare and _splits(c, q) > 1:
            for n in SPLITS:
                if n <= _splits(c, q):
                    found[c._replace(splits=n)] = None
    return [*found]


def _bodies(caps: Caps, q: Question) -> Iterator[Any]:
    module = q.module
    # excluded candidates are skipped, because the plan has no model of them
    if module is select_weight:
        taps = [t for t in select_weight.TILES if select_weight._may(caps, q.shape[0], t)]
        yield from (q.kind(body) for body in (*taps, select_weight.DIRECT))
        known = module.choose(caps, *q.shape)
        if known.body.startswith("conv_weight_mma"):
            yield known
        return
    for c in module.candidates(caps, *q.shape):
        if not c.why and not _hopeless(c.choice, q):
            yield c.choice
    yield module.choose(caps, *q.shape)


def _hopeless(choice: Any, q: Question) -> bool:
    """True if the choice may take a hundred times as long as others; then it is not tried, so that
    dispatches stay short."""
    shape = q.shape[0]
    if choice.body == "conv_direct":
        return bool(shape.rows > 16)
    if choice.body == "decode":
        return bool(shape.group * shape.queries > 64)
    return False


def _splits(choice: Any, q: Question) -> int:
    """The largest number of splits that is tried."""
    shape = q.shape[0]
    if choice.body.startswith(("conv_few", "conv_direct", "conv_stem", "conv_weight_direct")):
        return 1
    if q.module is select_quant and "/" not in choice.body:  # not a tile
        return 1
    depth = getattr(shape, "depth", 1)
    if choice.body == "decode" or choice.body.startswith("attention"):
        depth = shape.keys
    elif hasattr(shape, "taps"):
        depth = shape.pixels
    return max(int(depth) // LEAST_SPLIT, 1)
