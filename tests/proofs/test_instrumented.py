"""Texts that check themselves: cases of some kernels are silent, what is planted is told with its
line. `python -m tests.proofs.instrumented` runs all kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import pykernels as pk
from pykernels.export import _record
from pykernels.export._record import CAPS, record
from pykernels.forcing import with_forced
from pykernels.runtime import lower
from pykernels.tuning import named
from pykernels.validate import Source, find_naga, find_tint, validate
from pykernels.wgsl.texts import of_body, read_manifest
from tests.conftest import FULL
from tests.emulation import UNITS
from tests.kernels.test_surplus_groups import ALONE, more
from tests.proofs.forced_calls import FORCED
from tests.proofs.instrument import Instrument
from tests.proofs.instrumented import (
    FACTS,
    OTHERS,
    Report,
    call,
    instrumented,
    requests,
    without_barrier,
)
from tests.runtime._helpers import open_device

# Kernels of several families whose texts compile in little time.
KERNELS = ("cross_entropy", "get_rows", "quantize", "softmax", "sum")
# Rows of a body have the same indices: some stand for all.
ALL = [n for n, f in FACTS.items() if not f["row"]] + ["add", "exp", "leaky_relu", "where"]


@pytest.fixture
def fresh() -> Iterator[pk.Device]:
    """A device without compiled texts."""
    with open_device() as dev:
        yield dev


def test_instrumented_texts_are_valid() -> None:
    validators = [v for v in (find_naga(), find_tint()) if v is not None]
    if not validators:
        pytest.skip("needs naga or Tint")
    sources = []
    for body in list(read_manifest()["bodies"])[:: 1 if FULL else 12]:
        found = next(iter(of_body(body).items()), None)
        if found is None:
            continue  # a plan chooses among other bodies
        key, text = found
        made = Instrument(text.wgsl)
        made.rewrite()
        wgsl = made.declare(1, 0)
        assert len(wgsl.split("\n")) == len(text.wgsl.split("\n")), body
        assert not made.skipped, (body, made.skipped)
        sources.append(Source(f"{body} {key}", wgsl, features=text.features))
    errors = [f for f in validate(sources, validators) if f.severity == "error"]
    assert not errors, errors


def test_each_body_has_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first cases and OTHERS run all bodies that any case runs, FORCED the bodies that are
    left."""
    chosen: set[str] = set()
    every: set[str] = set()
    for kernel in ALL:
        for number, request in enumerate(requests(kernel)):
            steps = record(request, FACTS[kernel], named("nvidia-h200"))["steps"]
            bodies = {step["body"] for step in steps}
            every |= bodies
            if number in (0, *OTHERS.get(kernel, ())):
                chosen |= bodies
    assert every == chosen
    for kernel, calls in FORCED.items():
        for made in calls:
            caps = with_forced(CAPS, *made.given())
            if made.emulates:
                caps = replace(caps, matrix=UNITS, built_only=False)
            monkeypatch.setattr(_record, "CAPS", caps)
            steps = record(made.parsed(kernel), FACTS[kernel], named("nvidia-h200"))["steps"]
            bodies = {step["body"] for step in steps}
            assert bodies - chosen, made  # each call is for a body
            chosen |= bodies
    assert set(read_manifest()["bodies"]) - chosen == {"flash_attn_backward"}  # it has no text


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ALL if FULL else KERNELS)
def test_a_kernel_is_silent(dev: pk.Device, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the grid has three workgroups too many."""
    if kernel not in ALONE:
        monkeypatch.setattr(lower, "fold", more(lower.fold))
    with instrumented(dev) as reports:
        for request in requests(kernel)[: None if FULL else 1]:
            try:
                call(dev, request)
            except pk.LimitError:
                continue
    assert reports.launches and reports.checks["index"] and not reports.skipped


def row_sums(dev: pk.Device) -> None:
    x = dev.tensor(np.arange(3 * 70, dtype=np.float32).reshape(3, 70))
    assert (pk.sum(x, axis=1).numpy() == x.numpy().sum(1)).all()


def quants(dev: pk.Device) -> None:
    call(dev, next(r for r in requests("quantize") if r.given["quant"] == "q5_1"))


PLANTED: dict[str, tuple[Callable[[pk.Device], None], Callable[[str], str], str, str]] = {
    "an index into workgroup memory": (
        row_sums, lambda t: t.replace("shared_states[li + apart]", "shared_states[li + 256u]"),
        "index", "shared_states[li + 256u]",
    ),
    "an index into storage": (
        row_sums, lambda t: re.sub(r"(?<!fn )x_load\(", "x_load(4096u + ", t),
        "index", "x_load(4096u +",
    ),
    "an index below zero": (
        row_sums, lambda t: t.replace("[dst_at(at, 0u)]", "[i32(dst_at(at, 0u)) - 9]"),
        "index", "i32(dst_at(at, 0u)) - 9",
    ),
    "the first barrier": (row_sums, lambda t: without_barrier(t, 0), "race", "shared_states"),
    "the last barrier": (row_sums, lambda t: without_barrier(t, -1), "race", "shared_states"),
    "a shift": (
        row_sums, lambda t: t.replace("1u << p.lane_bits", "1u << (p.lane_bits + 32u)"),
        "shift", "p.lane_bits + 32u",
    ),
    "a conversion": (
        quants, lambda t: t.replace("u32(clamp((numbers", "u32(-99.0f + clamp((numbers"),
        "conversion", "-99.0f + clamp",
    ),
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_is_told(fresh: pk.Device, what: str) -> None:
    make, edit, kind, label = PLANTED[what]
    changed = []

    def edited(text: str) -> str:
        try:
            found = edit(text)
        except IndexError:
            return text
        changed.append(found != text)
        return found

    with instrumented(fresh, edited, raises=False) as reports:
        try:
            make(fresh)
        except AssertionError:
            pass  # the numbers are wrong, too
    assert any(changed)
    told: list[Report] = [r for r in reports.found if r.kind == kind]
    assert told and any(label in f"{r.what} {r.line}" for r in told), reports.found
    assert told[0].kernel in ("sum", "quantize") and told[0].kind in str(told[0])
