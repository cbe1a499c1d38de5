"""Explains why a plan chooses a body: lists the candidates with predicted and measured times."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pykernels.device import Device
from pykernels.errors import DTypeError, PyKernelsError
from pykernels.forcing import force
from pykernels.steps import Candidate
from pykernels.tensors.host import type_name

from .case import Loaded
from .check import Verdict
from .clock import Effort, GpuSample, measure
from .table import digits

__all__ = ["Explanation", "Row", "explain", "explain_case"]

Asked = list[tuple[type, tuple[Any, ...]]]


@dataclass(frozen=True)
class Row:
    """A candidate: its choice, predicted and measured seconds (None if unknown), the reason why it
    is excluded or failed, and the largest error of checked outputs."""

    choice: Any
    chosen: bool
    predicted: float | None = None
    measured: float | None = None
    why: str = ""
    error: float | None = None

    @property
    def name(self) -> str:
        """The choice as text for `pykernels bench --config`."""
        fields = self.choice._asdict()
        body = str(fields.pop("body", ""))
        defaults = type(self.choice)._field_defaults
        told = [f"{k}={_text(v)}" for k, v in fields.items() if v != defaults.get(k)]
        return " ".join(filter(None, [body, *told]))


@dataclass(frozen=True)
class Explanation:
    """The candidates of each choice that a call's plans make, and the shader texts that ran."""

    choices: list[list[Row]]
    bodies: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"runs {' + '.join(self.bodies) or 'nothing'}"]
        for rows in self.choices:
            table: list[tuple[str, ...]] = [
                ("", "candidate", "predicted us", "measured us", "error", "")
            ]
            for r in rows:
                times = ["" if t is None else digits(t * 1e6) for t in (r.predicted, r.measured)]
                error = "" if r.error is None else f"{r.error:.0e}"
                table.append(("*" if r.chosen else "", r.name, *times, error, r.why))
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            for cells in table:
                mark, name, *numbers, why = cells
                aligned = [n.rjust(w) for n, w in zip(numbers, widths[2:-1], strict=True)]
                row = [mark.ljust(widths[0]), name.ljust(widths[1]), *aligned, why]
                lines.append("  ".join(row).rstrip())
        if not self.choices:
            lines.append("its plan has nothing to choose on this device")
        return "\n".join(lines)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()


def explain(
    dev: Device, call: Callable[[], object], check: Callable[[], Verdict] | None = None
) -> Explanation:
    """Measure each candidate that the plans of a call may choose.

    Args:
        call: a function that makes the call on `dev`; it runs many times.
        check: a function that calls once and compares the output; the error is listed beside each
            time.
    """
    if not callable(call):
        raise DTypeError(f"[explain] call must be a function but is {type_name(call)}")
    asked: Asked = []
    with _asking(dev, asked), dev.profile() as p:
        call()
    # A plan of several dispatches may ask the same question twice.
    different = {repr(one): one for one in asked}.values()
    choices = [[*_rows(dev, kind, shape, call, check)] for kind, shape in different if shape]
    return Explanation(choices, tuple(r.label.partition(" mode=")[0] for r in p.records))


@contextmanager
def _asking(dev: Device, asked: Asked) -> Iterator[None]:
    """Inside the block, plans of the device report their candidates."""
    context = dev._context

    def told(where: Asked | None) -> None:
        with context.lock:
            context.caps = replace(context.caps, asked=where)
            context.calls.clear()

    told(asked)
    try:
        yield
    finally:
        told(None)


def _rows(
    dev: Device, kind: type, shape: tuple[Any, ...], call: Callable[[], object],
    check: Callable[[], Verdict] | None,
) -> Iterator[Row]:  # fmt: skip
    """The candidates of one choice, beginning with the chosen candidate."""
    module, caps = sys.modules[kind.__module__], dev._context.caps
    chosen = module.choose(caps, *shape)
    known: list[Candidate] = getattr(module, "candidates", lambda *given: [])(caps, *shape)
    others = [c for c in known if c.choice != chosen]
    own = next((c for c in known if c.choice == chosen), Candidate(chosen))
    for c in (own, *others):
        row = Row(c.choice, c is own, c.seconds, why=c.why)
        yield row if c.why and c is not own else _measured(dev, row, call, check)


def _measured(
    dev: Device, row: Row, call: Callable[[], object], check: Callable[[], Verdict] | None
) -> Row:
    """The candidate with its time, or with the reason why it has none."""
    try:
        with force(dev, row.choice):
            error = check().error if check else None
            sample = GpuSample(dev, call)
            seconds = measure(sample, Effort.of(dev).beside().once()).seconds
    except PyKernelsError as e:
        return replace(row, why=" ".join(str(e).split()))
    return replace(row, measured=seconds, error=error)


def explain_case(loaded: Loaded) -> Explanation:
    """The choices of a case, whose outputs are checked."""
    return explain(loaded.dev, loaded, loaded.check)
