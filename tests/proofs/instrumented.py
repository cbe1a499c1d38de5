"""Calls with instrumented texts: what WGSL forbids is an error of the call.

    python -m tests.proofs.instrumented [KERNEL ...] [--all] [--barriers]

Runs the cases of `pykernels/export/cases` on PYKERNELS_TEST_COLUMN (of all kernels or of those
that are named; the first of each, one for each body that these leave out, and those of
`forced_calls`; --all: every one) and prints what it found; --barriers runs them without one barrier
after the other.
`PYKERNELS_TEST_INSTRUMENTED=1` does the same to every launch of a test run. See `instrument` for
what is checked. Not checked: loads and stores of matrix units, and races between workgroups.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import click
import numpy as np

import pykernels as pk
from pykernels.errors import BufferStateError
from pykernels.export._cases import arrays, cases, fills
from pykernels.export._layouts import Request, parse
from pykernels.forcing import force
from pykernels.raw import checking
from pykernels.raw.telling import NAME
from pykernels.runtime.launch import launch
from pykernels.steps import Body, Kernel
from pykernels.validate._instrument import Site, bind_memory
from pykernels.wgsl.texts import Text, made, of_body
from tests.conftest import DRIVERS
from tests.proofs.forced_calls import FACTS, FORCED, Forced
from tests.proofs.instrument import HEADER_WORDS, KINDS, Instrument

__all__ = [
    "FACTS",
    "OTHERS",
    "Report",
    "Reports",
    "call",
    "instrumented",
    "requests",
    "without_barrier",
]

WORDS = 1 << 20  # of the buffer: elements of workgroup memory of as many workgroups as fit
MOST_RACES = 100
_BARRIER = re.compile(r"workgroupBarrier\(\);")
MOST_SITES = checking.MOST_SITES


class Report(NamedTuple):
    """The first thing that a launch did wrong, and how often it did something wrong."""

    kernel: str
    body: str
    key: str
    kind: str
    line: str
    what: str
    values: tuple[int, int]
    invocation: tuple[int, int, int]
    count: int

    def __str__(self) -> str:
        value, limit = self.values
        said = {
            "index": f"the index {value - ((value >> 31) << 32)} of {limit} elements",
            "shift": f"a shift by {value}",
            "conversion": f"the number {np.uint32(value).view(np.float32)!r} does not fit",
            "race": f"element {value}: invocation {limit} used it since the last barrier",
        }[self.kind]
        return (
            f"{self.kernel}: {self.body} {self.key}: {self.kind}: {self.what}: {said}; invocation "
            f"{self.invocation}, {self.count} in all: {self.line!r}"
        )


class Reports:
    """What launches did wrong, and what was looked at."""

    def __init__(self, edit: Callable[[str], str] | None, most_races: int) -> None:
        self.found: list[Report] = []
        self.launches = self.unchecked = 0
        self.checks: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.bodies: set[str] = set()
        self.without_races: set[str] = set()
        self.most_races = most_races
        self.edit = edit
        self.texts: list[tuple[str, str, list[str], Sequence[Site]]] = []

    def text(self, body: str, key: str, text: Text, members: int) -> Text:
        """A text with its checks."""
        plain = self.edit(text.wgsl) if self.edit else text.wgsl
        made_ = Instrument(plain, len(self.texts) * MOST_SITES)
        made_.rewrite()
        if made_.checks["race"] > self.most_races:
            made_ = Instrument(plain, len(self.texts) * MOST_SITES, races=False)
            made_.rewrite()
            self.without_races.add(body)
        wgsl = made_.declare(0, bind_memory(made_.edits, members))
        if len(made_.sites) > MOST_SITES:
            raise ValueError(f"{body} {key} has {len(made_.sites)} sites")
        self.texts.append((body, key, plain.split("\n"), made_.sites))
        self.checks += made_.checks
        self.skipped += made_.skipped
        self.bodies.add(body)
        return text._replace(wgsl=wgsl)

    def report(self, kernel: str, words: list[int]) -> Report:
        count, number, value, limit, x, y, z, kind = words
        body, key, lines, sites = self.texts[number // MOST_SITES]
        site = sites[number % MOST_SITES]
        line = lines[site.line - 1].strip()
        return Report(
            kernel, body, key, KINDS[kind], line, f"{site.name}: {site.label}", (value, limit),
            (x, y, z), count,
        )  # fmt: skip


@contextmanager
def instrumented(
    dev: pk.Device, edit: Callable[[str], str] | None = None, *, raises: bool = True,
    most_races: int = MOST_RACES,
) -> Iterator[Reports]:  # fmt: skip
    """Every launch on the device, outside of captures, runs instrumented texts; a report is an
    AssertionError (`raises=False`: it is only kept). `edit` changes the texts first. Texts with
    more than `most_races` accesses to workgroup memory are checked for all but races: a software
    driver takes minutes to compile them."""
    reports = Reports(edit, most_races)
    context: Any = dev._context
    memory = dev.zeros(HEADER_WORDS + WORDS, "uint32")
    number = id(reports)  # texts of one block are not those of another
    kernels: dict[Kernel, Kernel] = {}
    bodies: dict[tuple[Body, int], checking._Checked] = {}

    class Checked(checking._Checked):
        def __init__(self, body: Body, members: int) -> None:
            super().__init__(replace(body, name=f"{body.name} {number}"), members)
            self._plain = body.name

        def get(self, key: str) -> Text | None:
            text = (made(self._plain) or of_body(self._plain)).get(key)
            return text and reports.text(self._plain, key, text, self._members)

    def body_of(body: Body, members: int) -> checking._Checked:
        return bodies.setdefault((body, members), Checked(body, members))

    def watched(
        context: Any, key: tuple[Any, ...], tensors: Sequence[Any], scalars: tuple[float, ...]
    ) -> bool:
        kernel: Kernel = key[0]
        if kernel.family == "raw" or kernel.args[0].name == NAME:
            return False
        if context is not dev._context:
            return False
        try:
            context.refuse("debug", "inside a capture or a recorded pass")
        except BufferStateError:
            reports.unchecked += 1
            return False
        if memory.nbytes + context.caps.alignment > context.caps.max_binding:
            reports.unchecked += 1  # a test that makes bindings small
            return False
        if kernel not in kernels:
            kernels[kernel] = checking._checked_kernel.__wrapped__(kernel)
        launch(
            (kernels[kernel], key[1], memory._location, *key[2:]), (memory, *tensors), scalars, True
        )
        reports.launches += 1
        words = memory[:HEADER_WORDS].numpy().tolist()
        if words[0]:
            with _quiet(context):
                memory[:HEADER_WORDS] = np.zeros(HEADER_WORDS, np.uint32)
            reports.found.append(reports.report(kernel.name, words))
            assert not raises, str(reports.found[-1])
        return True

    before = checking._checked_body, checking.checked_launch
    checking._checked_body, checking.checked_launch = body_of, watched
    state = context.checks_indices, context.guarded
    context.checks_indices = context.guarded = True
    try:
        yield reports
    finally:
        context.checks_indices, context.guarded = state
        checking._checked_body, checking.checked_launch = before


@contextmanager
def _quiet(context: Any) -> Iterator[None]:
    """Launches of this block are not checked."""
    context.checks_indices = False
    try:
        yield
    finally:
        context.checks_indices = True


# -- the cases of the exports ---------------------------------------------------------------------

# Calls beside the cases of the exports: a second round of a loop, bodies that no case runs.
MORE = {
    # a workgroup whose last invocations have one vector of two
    "exp": ["x=f32[1200] dst=f32[1200]"],
    "leaky_relu": ["x=f32[1200] dst=f32[1200]"],
    "cumsum": ["x=f32[2,6000]"],
    "conv2d": ["x=f32[1,8,20,20] w=f32[8,1,3,3] dst=f32[1,8,20,20] padding=1 groups=8"],
    "lu_factor": ["a=f32[66,66] dst=f32[66,66] pivots=i32[66]"],  # in panels
    "softmax": ["x=f32[2,3000]"],
    "resize": ["x=f32[1,9,8] dst=f32[1,4,5] antialias=True"],
    "top_k": ["x=f32[2,33000] dst=f32[2,1030] index=i32[2,1030]"],
}
# The cases, by number, of bodies that the first cases of all kernels leave out.
OTHERS: dict[str, tuple[int, ...]] = {
    "argsort": (1,), "batch_norm_backward": (1,), "cholesky": (2,), "conv2d": (6, 7, 8),
    "cpy": (2, 10, 12), "cumprod": (1,), "cumsum": (3, 4), "fft": (1,), "flash_attn": (1,),
    "flash_attn_backward": (1,), "last_index": (2,), "log_softmax": (1,), "lu_factor": (3,),
    "mul_mat_i8": (1,), "mul_mat_id": (1, 2, 3, 4), "mul_mat_quant": (1,), "resize": (3,),
    "rms_norm_linear": (2, 3), "scatter_add": (1,), "top_k": (3,),
}  # fmt: skip


def requests(kernel: str) -> list[Request]:
    """The small calls of a kernel, without those of operations that a row names only."""
    found = cases(kernel, FACTS[kernel])
    more = [parse(kernel, text, FACTS[kernel]) for text in MORE.get(kernel, ())]
    return [*(found.test if found else ()), *more]


def call(dev: pk.Device, request: Request) -> dict[str, pk.Tensor]:
    """Make the call of a case; its tensors by name."""
    facts = FACTS[request.kernel]
    found = cases(request.kernel, facts)
    assert found is not None
    made_ = arrays(request, fills(request, facts, found.values))
    tensors: dict[str, pk.Tensor] = {}
    for name, lay in request.layouts.items():
        if name in request.shares:
            tensors[name] = tensors[request.shares[name]]
            continue
        memory = np.zeros(max(lay.hi - lay.lo, 4) + 3 & ~3, np.uint8)
        view = np.ndarray(lay.shape, made_[name].dtype, memory.data, -lay.lo, lay.strides)
        view[...] = made_[name]
        buffer = dev.wgpu_device.create_buffer_with_data(data=memory, usage=0x80 | 0x04 | 0x08)
        tensors[name] = pk.Tensor.from_buffer(
            buffer, lay.shape, lay.dtype.name, offset=-lay.lo, strides=lay.strides, device=dev
        )
    getattr(pk.kernels, request.kernel)(**tensors, **request.given)
    return tensors


def without_barrier(text: str, number: int) -> str:
    """The text without one of its barriers."""
    start, end = [m.span() for m in _BARRIER.finditer(text)][number]
    return text[:start] + text[end:]


def dropped(dev: pk.Device, request: Request) -> Iterator[tuple[str, bool]]:
    """For each barrier of the texts of a call: its place, and whether a race is told without it."""
    seen: list[str] = []

    def look(text: str) -> str:
        seen.append(text)
        return text

    with instrumented(dev, look, raises=False) as reports:
        call(dev, request)
    names = [(body, key) for body, key, _, _ in reports.texts]
    for (body, key), text in zip(names, seen, strict=True):
        for number, m in enumerate(_BARRIER.finditer(text)):
            shorter = without_barrier(text, number)
            edit = {text: shorter}
            with instrumented(dev, lambda t, e=edit: e.get(t, t), raises=False) as reports:
                call(dev, request)
            line = text.count("\n", 0, m.start()) + 1
            place = f"{body} {key} line {line}, barrier {number + 1}"
            yield place, any(r.kind == "race" for r in reports.found)


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(list(FACTS)))
@click.option("--all", "everything", is_flag=True, help="every case of each kernel")
@click.option("--barriers", is_flag=True, help="drop each barrier in turn: a race must be told")
def main(names: tuple[str, ...], everything: bool, barriers: bool) -> None:
    engine, _, driver = os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu").partition("-")
    tuning = "nvidia-h200" if driver == "lavapipe" else None
    with (
        pk.Device(DRIVERS.get(driver), engine=engine) as dev,
        force(dev, tuning=tuning),
    ):
        chosen = list(_chosen(names or tuple(FACTS), everything))
        sys.exit(_drop(dev, chosen) if barriers else _check(dev, chosen))


def _chosen(names: tuple[str, ...], everything: bool) -> Iterator[tuple[Request, Forced]]:
    for kernel in names:
        for number, request in enumerate(requests(kernel)):
            if everything or number in (0, *OTHERS.get(kernel, ())):
                yield request, Forced("")
        for forced in FORCED.get(kernel, ()):
            yield forced.parsed(kernel), forced


def _drop(dev: pk.Device, chosen: list[tuple[Request, Forced]]) -> int:
    told: dict[str, bool] = {}
    for request, forced in chosen:
        try:
            with forced.on(dev):
                for place, found in dropped(dev, request):
                    if told.setdefault(place, found) != found:
                        told[place] = True
                    click.echo(f"{'told' if found else 'SILENT'} {place}: {request.text}")
        except pk.PyKernelsError as e:
            click.echo(f"refused: {type(e).__name__}: {e}"[:140])
    click.echo(f"{sum(told.values())} of {len(told)} dropped barriers were told")
    return 0


def _check(dev: pk.Device, chosen: list[tuple[Request, Forced]]) -> int:
    calls, refused = 0, Counter[str]()
    with instrumented(dev, raises=False) as reports:
        for request, forced in chosen:
            before = len(reports.found)
            try:
                with forced.on(dev):
                    call(dev, request)
                calls += 1
            except pk.PyKernelsError as e:
                refused[f"{type(e).__name__}: {e}"[:120]] += 1
            for report in reports.found[before:]:
                click.echo(f"{request.text}\n    {report}")
    for text, n in refused.items():
        click.echo(f"refused {n}: {text}")
    checks = ", ".join(f"{n:,} of {kind}" for kind, n in sorted(reports.checks.items()))
    click.echo(
        f"{calls:,} calls, {reports.launches:,} launches, {len(reports.texts):,} texts of "
        f"{len(reports.bodies)} bodies: {', '.join(sorted(reports.bodies))}; checks: {checks}; "
        f"without a check: {dict(reports.skipped)}, {reports.unchecked} launches; without races: "
        f"{', '.join(sorted(reports.without_races)) or 'none'}; {len(reports.found)} reports"
    )
    return len(reports.found) > 0


if __name__ == "__main__":
    main()
