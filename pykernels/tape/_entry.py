"""The entries of a tape."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Sequence
from types import FrameType
from typing import Any

from pykernels.device import Tensor
from pykernels.dtypes import DTYPES
from pykernels.lazy import load
from pykernels.runtime.handle import Handle
from pykernels.runtime.observe import Record, StorageWindow, outputs, record_of
from pykernels.steps import Kernel
from pykernels.tensors.layout import Layout, Window, layout

__all__ = [
    "GRADIENT", "PROGRAM", "Bytes", "Entry", "Place", "Rule", "Written", "bytes_of",
    "line_of_caller", "of_pairs", "place_of", "positions", "reads", "rule_of",
]  # fmt: skip

Rule = Callable[[Any], None]
Named = Callable[[Kernel, dict[str, Any]], Collection[str]]


class Place:
    """A window of an allocation: the bytes from `lo` to before `hi`. `tensor` keeps it alive if a
    rule will read it. `flows`: True if it may have a gradient. `pairs`: True for a complex tensor,
    whose place and gradient have float32 pairs of real and imaginary parts."""

    __slots__ = ("flows", "hi", "layout", "lo", "offset", "pairs", "record", "tensor")

    def __init__(self, record: Record, lay: Layout, offset: int, tensor: Tensor | None) -> None:
        self.pairs = lay.dtype.kind == "c"
        if self.pairs:
            lay = in_pairs(lay)
        self.record, self.layout, self.offset, self.tensor = record, lay, offset, tensor
        self.lo, self.hi = offset + lay.lo, offset + lay.hi
        self.flows = lay.dtype.kind == "f" and lay.size > 0

    @property
    def window(self) -> Window:
        """The bytes of the place in its allocation."""
        return Window(self.lo, self.hi)

    @property
    def bytes(self) -> Bytes:
        """The allocation, and the bytes of the place in it."""
        return self.record, self.lo, self.hi

    def overlaps(self, other: Place) -> bool:
        """True if both places share bytes."""
        return self.record is other.record and self.lo < other.hi and other.lo < self.hi


def in_pairs(lay: Layout) -> Layout:
    """The layout of complex numbers as pairs of real and imaginary parts."""
    return layout((*lay.shape, 2), (*lay.strides, 4), DTYPES["float32"])


def place_of(t: Handle, keep: bool = True) -> Place:
    """The place of a tensor."""
    tensor = t if keep and isinstance(t, Tensor) else None
    return Place(record_of(t._storage), t._layout, t._offset, tensor)


class Entry:
    """A recorded call. `done`: False if it was interrupted; `line`: the line of the caller."""

    __slots__ = ("done", "kernel", "line", "options", "places", "rule", "scalars", "serial")

    def __init__(
        self, kernel: Kernel, options: tuple[Any, ...], tensors: tuple[Handle | None, ...],
        scalars: tuple[float, ...], serial: int, records: Sequence[Record | None],
    ) -> None:  # fmt: skip
        self.kernel, self.options, self.scalars, self.serial = kernel, options, scalars, serial
        self.rule, kept = _ruled(kernel, options)
        self.places = tuple(
            [
                None
                if r is None
                else Place(r, t._layout, t._offset, t if k and isinstance(t, Tensor) else None)  # type: ignore[union-attr]
                for t, k, r in zip(tensors, kept, records, strict=True)
            ]
        )
        self.done = False
        self.line = line_of_caller(5)  # skips the frames of the tape, the hook and the launch

    @classmethod
    def of(cls, kernel: Kernel, rule: Rule, places: tuple[Place, ...], serial: int) -> Entry:
        """An entry for a call that launches no kernel and has its own rule."""
        entry = cls.__new__(cls)
        entry.kernel, entry.options, entry.scalars, entry.serial = kernel, (), (), serial
        entry.rule, entry.places, entry.done = rule, places, True
        entry.line = line_of_caller()
        return entry

    def release(self) -> None:
        """Drop all tensors that the entry keeps."""
        self.rule = None
        for place in self.places:
            if place is not None:
                place.tensor = None

    @property
    def at(self) -> str:
        """File and line of the call, for the text of an error."""
        return f" (the call at {self.line[0]}:{self.line[1]})" if self.line else ""

    @property
    def inputs(self) -> list[Place]:
        """The arguments that the call reads; an output that is updated in place is also read."""
        found = (self.places[i] for i in _inputs(self.kernel))
        return [p for p in found if p is not None]

    @property
    def in_place(self) -> bool:
        """True if the call writes elements that it also reads."""
        written = self.outputs
        return any([p.overlaps(q) for q in self.inputs for p in written])

    @property
    def outputs(self) -> list[Place]:
        """The arguments that the call writes."""
        found = (self.places[i] for i in outputs(self.kernel))
        return [p for p in found if p is not None]


Bytes = tuple[Record, int, int]  # an allocation, its first byte and the byte after the last

PROGRAM = "a replayed program has no gradient rule"
GRADIENT = (
    "the loss depends on a source through a result of gradient(), which this tape did not record: "
    "it must be entered before the tape whose gradient() that is, as `with pk.Tape() as outer, "
    "pk.Tape() as inner`; pk.stop_gradient(g) takes the result as a constant"
)


class Written:
    """Memory that something other than a recorded call with a rule wrote: the host, a call in a
    pause, a program, or `gradient`.

    `refusal` says why no gradient can pass this memory: PROGRAM or GRADIENT. If it is empty, the
    written values do not depend on any source.
    """

    __slots__ = ("reads", "refusal", "writes")

    def __init__(self, reads: list[Bytes], writes: list[Bytes], refusal: str = "") -> None:
        self.reads, self.writes, self.refusal = reads, writes, refusal


def bytes_of(window: StorageWindow) -> Bytes:
    """The bytes of a window."""
    return record_of(window[0]), window[1], window[2]


def line_of_caller(depth: int = 2) -> tuple[str, int] | None:
    """The file and line from which the package was called; the last `depth` frames belong to the
    package."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not (name.startswith("pykernels.") or name == "pykernels"):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def reads(*names: str, of: Named | None = None) -> Callable[[Rule], Rule]:
    """Decorate a rule with the names of the tensors that it reads with `saved`; the tape keeps no
    other tensors.

    If the names depend on the kernel and its options, the function `of` computes them. A rule
    without this decorator may read all tensors.
    """

    def marked(rule: Rule) -> Rule:
        rule.reads = names if of is None else of  # type: ignore[attr-defined]
        return rule

    return marked


def of_pairs(rule: Rule) -> Rule:
    """Decorate a rule that works on complex tensors: shapes and gradients have pairs."""
    rule.pairs = True  # type: ignore[attr-defined]
    return rule


@functools.lru_cache(maxsize=4096)
def _inputs(kernel: Kernel) -> tuple[int, ...]:
    """The positions of the arguments that a kernel reads."""
    args = enumerate(kernel.args)
    return tuple([i for i, arg in args if arg.role == "in" or arg.in_place])


@functools.lru_cache(maxsize=4096)
def positions(kernel: Kernel) -> dict[str, int]:
    """The position of each argument."""
    return {arg.name: i for i, arg in enumerate(kernel.args)}


@functools.lru_cache(maxsize=4096)
def rule_of(kernel: Kernel) -> Rule | None:
    """The rule of a kernel: the function of its name, or `default`, in `gradients/FAMILY.py`."""
    name = f"pykernels.gradients.{kernel.family}"
    try:
        module = load(name)
    except ModuleNotFoundError as e:
        if e.name != name:
            raise
        return None
    for wanted in (kernel.name, "default"):
        rule: Rule | None = module.__dict__.get(wanted)
        if rule is not None and rule.__module__ == name:
            return rule
    return None


def _ruled(kernel: Kernel, options: tuple[Any, ...]) -> tuple[Rule | None, tuple[bool, ...]]:
    """The rule of a call, and the tensors that it may read."""
    try:
        return _ruled_by(kernel, options)
    except TypeError:  # the options cannot be hashed; the launch will raise the error
        return rule_of(kernel), (False,) * len(kernel.args)


@functools.lru_cache(maxsize=4096)
def _ruled_by(kernel: Kernel, options: tuple[Any, ...]) -> tuple[Rule | None, tuple[bool, ...]]:
    rule = rule_of(kernel)
    if rule is None:
        return None, (False,) * len(kernel.args)
    names: Any = getattr(rule, "reads", [arg.name for arg in kernel.args])
    found: Collection[str] = names
    if callable(names):
        named: Any = names
        found = named(kernel, dict(zip(kernel.options, options, strict=False)))
    return rule, tuple([arg.name in found for arg in kernel.args])
