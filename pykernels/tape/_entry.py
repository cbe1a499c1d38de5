"""What a tape keeps of a call."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection
from typing import Any

from pykernels.device import Tensor
from pykernels.layout import Layout
from pykernels.plan import Kernel
from pykernels.runtime.handle import Handle
from pykernels.runtime.observe import Record, Window, outputs, record_of

__all__ = ["Entry", "Place", "Rule", "Written", "place_of", "reads", "rule_of"]

Rule = Callable[[Any], None]
Named = Callable[[Kernel, dict[str, Any]], Collection[str]]


class Place:
    """A window on an allocation; `tensor` keeps that alive where it will be read. `flows`: may it
    have a gradient?"""

    __slots__ = ("flows", "layout", "offset", "record", "tensor")

    def __init__(self, record: Record, lay: Layout, offset: int, tensor: Tensor | None) -> None:
        self.record, self.layout, self.offset, self.tensor = record, lay, offset, tensor
        self.flows = lay.dtype.kind == "f" and lay.size > 0

    @property
    def window(self) -> tuple[int, int]:
        """First byte, and one past the last one."""
        return self.offset + self.layout.lo, self.offset + self.layout.hi


def place_of(t: Handle, keep: bool = True) -> Place:
    """Where a tensor lies."""
    tensor = t if keep and isinstance(t, Tensor) else None
    return Place(record_of(t._storage), t._layout, t._offset, tensor)


class Entry:
    """A recorded call. `done` says that it was not interrupted."""

    __slots__ = ("done", "kernel", "options", "places", "rule", "scalars", "serial")

    def __init__(
        self, kernel: Kernel, options: tuple[Any, ...], tensors: tuple[Handle | None, ...],
        scalars: tuple[float, ...], serial: int,
    ) -> None:  # fmt: skip
        self.kernel, self.options, self.scalars, self.serial = kernel, options, scalars, serial
        self.rule = rule_of(kernel)
        kept = _kept(kernel, options)
        self.places = tuple(
            [None if t is None else place_of(t, k) for t, k in zip(tensors, kept, strict=True)]
        )
        self.done = False

    @property
    def outputs(self) -> list[Place]:
        """What it writes."""
        found = (self.places[i] for i in outputs(self.kernel))
        return [p for p in found if p is not None]


class Written:
    """Memory that was written without a kernel: by the host, in a pause, or by a program."""

    __slots__ = ("program", "reads", "writes")

    def __init__(self, reads: list[Window], writes: list[Window], program: bool) -> None:
        self.reads = [(record_of(s), lo, hi) for s, lo, hi in reads]
        self.writes = [(record_of(s), lo, hi) for s, lo, hi in writes]
        self.program = program


def reads(*names: str, of: Named | None = None) -> Callable[[Rule], Rule]:
    """Of a rule: the tensors of a call that it asks `saved` for, by name. Others are not kept.

    `of` gives them for a kernel and its options by name, where these matter. A rule without this
    may read all of them.
    """

    def marked(rule: Rule) -> Rule:
        rule.reads = names if of is None else of  # type: ignore[attr-defined]
        return rule

    return marked


@functools.lru_cache(maxsize=4096)
def rule_of(kernel: Kernel) -> Rule | None:
    """The rule of a kernel: the function of its name, or `default`, in `gradients/FAMILY.py`."""
    name = f"pykernels.gradients.{kernel.family}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name != name:
            raise
        return None
    for wanted in (kernel.name, "default"):
        rule: Rule | None = module.__dict__.get(wanted)
        if rule is not None and rule.__module__ == name:
            return rule
    return None


def _kept(kernel: Kernel, options: tuple[Any, ...]) -> tuple[bool, ...]:
    """Which tensors of a call its rule may read."""
    try:
        return _kept_by(kernel, options)
    except TypeError:  # options that cannot be hashed: the launch will say so
        return (False,) * len(kernel.args)


@functools.lru_cache(maxsize=4096)
def _kept_by(kernel: Kernel, options: tuple[Any, ...]) -> tuple[bool, ...]:
    rule = rule_of(kernel)
    if rule is None:
        return (False,) * len(kernel.args)
    names: Any = getattr(rule, "reads", [arg.name for arg in kernel.args])
    found: Collection[str] = names
    if callable(names):
        named: Any = names
        found = named(kernel, dict(zip(kernel.options, options, strict=False)))
    return tuple([arg.name in found for arg in kernel.args])
