"""Measures a device, makes its table, and compares the table's choices with the best choices."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from pykernels.device import Device
from pykernels.errors import PyKernelsError
from pykernels.forcing import force
from pykernels.plans.matmul import select_mma
from pykernels.plans.matmul.select import GemmChoice
from pykernels.steps import Caps
from pykernels.tuning import TABLES, Adapter, Tuning, as_data, named, of_data, shipped

from . import direct, facts
from .calibrate import calibrated
from .choices import text_of
from .fit import Where, fit
from .meter import EXPECTED, Kept, Meter
from .problems import Limits, Problem, others, problems
from .scale import scaled
from .times import Measured

__all__ = ["Choice", "Outcome", "Verdicts", "adapter_of", "check", "measure"]

SLOWEST = "mul_mat/32"
CHECKED = 3e8  # problems with at most this many operations are compared with numpy's result
SHORT = 0.01  # most seconds that the slowest tile may take for a problem
SMALL = Limits(4e7, 1 << 24)  # limits of problems on a software driver
MOST = 150.0  # seconds of timing choices, after which the remaining problems are left out
ROUNDS = 3  # rounds of fitting and of measuring the fitted table's choices

Told = Callable[[str, float], None]


class Choice(NamedTuple):
    """A table's choice for a problem, its time divided by the best time, and the best choice."""

    problem: Problem
    choice: str
    ratio: float
    best: str


class Verdicts(NamedTuple):
    """The choices of a table for some problems."""

    choices: list[Choice]

    @property
    def mean(self) -> float:
        """The geometric mean of the times of the choices, relative to the best choices."""
        if not self.choices:
            return 1.0
        return math.exp(statistics.mean(math.log(c.ratio) for c in self.choices))

    @property
    def worst(self) -> list[Choice]:
        return sorted(self.choices, key=lambda c: -c.ratio)


class Outcome(NamedTuple):
    """A table, the shipped table that it is based on, and its choices. `before` are the choices of
    the shipped table."""

    tuning: Tuning
    base: str
    own: Verdicts
    before: Verdicts
    longest: float  # number of seconds of the longest dispatch
    changes: list[direct.Change]  # the changed keys that do not choose among bodies


def adapter_of(dev: Device) -> Adapter:
    info, matrix = dev.info, dev._context.caps.matrix is not None
    return Adapter(info["name"], info["driver"], info["engine"] + "-matrix" * matrix)


def measure(dev: Device, kept: Kept, *, small: bool, told: Told) -> Outcome:
    """Make the table of a device. `told` gets the next task and the finished share of all
    work."""
    told("warming up", 0.0)
    meter = _meter(dev, kept)
    base = _shipped(dev)
    told("the device", 0.02)
    limits = limits_of(meter, small)
    start = _with_facts(meter, base, told)
    caps = replace(dev._context.caps, tuning=start, forced=(), asked=None)
    times = Measured(meter, caps)
    some = [p for p in problems(small, caps.matrix is not None)]
    some = [p for p in some if limits.allow(p)]
    started = time.perf_counter()
    for i, p in enumerate(_mixed(some)):
        if time.perf_counter() - started > MOST:
            break
        told(p.name, 0.15 + 0.6 * i / len(some))
        with suppress(PyKernelsError):  # a problem that does not fit into memory is left out
            times.add(p)
    found = start
    for i in range(ROUNDS):
        told("finding the table", 0.75 + 0.06 * i)
        here = Where(caps, times.questions, times)
        rated = calibrated(caps, start, times.questions, times.known)
        shipped_tables = [calibrated(caps, replace(named(t), device=start.device),
                                     times.questions, times.known) for t in TABLES]  # fmt: skip
        found = fit([here], start, [rated, *map(named, TABLES), *shipped_tables]).tuning
        told("its choices", 0.78 + 0.06 * i)
        if not _new(times, found):
            break
    mine, before = _verdicts(times, found), _verdicts(times, base)
    # The result is never worse than the shipped table that the device would otherwise use.
    if before.mean < mine.mean:
        found, mine = of_data(start.name, as_data(base)), before
    found, changes = direct.measured(
        meter, found, limits, small=small, told=lambda what, share: told(what, 0.93 + 0.04 * share)
    )
    told("checking", 0.97)
    _check_results(meter, times, found)
    direct.checked(meter, found, limits, small=small, most=CHECKED)
    told("done", 1.0)
    return Outcome(found, base.name, mine, before, meter.longest, changes)


def _mixed(some: Sequence[Problem]) -> list[Problem]:
    """The problems, taken from each kernel in turn."""
    kernels: dict[tuple[str, str], list[Problem]] = {}
    for p in some:
        kernels.setdefault((p.kernel, p.dtype), []).append(p)
    return [p for row in zip_longest(*kernels.values()) for p in row if p is not None]


def check(dev: Device, count: int, *, small: bool, told: Told, seed: int = 0) -> Verdicts:
    """Compare the choices of the device's table with the best choices, for `count` problems that
    were not measured before."""
    told("warming up", 0.0)
    meter = _meter(dev, Kept(None, {}))
    t = dev._context.caps.tuning
    times = Measured(meter, dev._context.caps)
    some = [*others(count, limits_of(meter, small), seed=seed, small=small)]
    for i, p in enumerate(some):
        told(p.name, i / len(some))
        with suppress(PyKernelsError):
            times.add(p)
    _new(times, t)
    told("done", 1.0)
    return _verdicts(times, t)


def limits_of(meter: Meter, small: bool) -> Limits:
    """The work that the device can do in a dispatch of SHORT seconds. For a software driver, which
    does little work in a second, it is the work of EXPECTED seconds, but at most SMALL. Also
    sets the meter's rate."""
    rate, side = 0.0, 32
    while side <= 2048:
        seconds = meter.seconds(Problem("mul_mat", (side, side, side)), GemmChoice(SLOWEST))
        if seconds is None:
            break
        rate = meter.rate = max(rate, 2 * side**3 / seconds)
        if seconds > 0.2 * SHORT:
            break
        side *= 2
    copied = facts.copy_rate(meter) or 1e9
    if small:
        return Limits(*map(min, SMALL, (rate * EXPECTED, copied * EXPECTED)))
    most = meter.dev.limits["max-storage-buffer-binding-size"]
    return Limits(rate * SHORT, min(copied * SHORT, most))


def _meter(dev: Device, kept: Kept) -> Meter:
    return Meter(dev, kept, None if dev.info["type"] == "CPU" else facts.probe(dev))


def _shipped(dev: Device) -> Tuning:
    limit = dev.limits["max-compute-workgroup-storage-size"]
    return shipped(dev.info["name"], dev.info["type"], limit).tuning


def _with_facts(meter: Meter, base: Tuning, told: Told) -> Tuning:
    """The table with the measured facts of the device. A CPU keeps the number of multiprocessors of
    its table, because the splits of some sums depend on it."""
    units = facts.units(meter)
    data = copy.deepcopy(as_data(scaled(base, units) if units else base))
    told("copies and dispatches", 0.05)
    copied, dispatch = facts.copy_rate(meter), facts.dispatch_cost(meter)
    if copied:
        data["device"]["copy"] = float(f"{copied:.3g}")
    if dispatch and not meter.slow:
        for family in ("matmul", "conv", "attention"):
            data[family]["dispatch"] = float(f"{dispatch:.2g}")
    for i, (body, table) in enumerate(_tables(meter.dev._context.caps, data) if units else ()):
        told(f"tiles of {body}", 0.06 + 0.08 * i / 7)
        with suppress(PyKernelsError):
            wave = facts.tile_wave(meter, body, units or 1)
            if wave is not None:
                table["rate"], table["partial_wave"] = wave.rate, [*wave.partial_wave]
                if "start_k" in table:
                    table["start_k"] = wave.start_k
    return of_data("measured", data)


def _tables(caps: Caps, data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Bodies with a rate and partial waves, and their places in a table."""
    yield "gemm_tile", data["matmul"]["gemm_tile"]
    for tile, table in data["conv"]["implicit_gemm_3x3"].items():
        yield f"implicit_gemm_3x3/{tile}", table
    for tile in select_mma.TILES:
        if select_mma.may(caps, tile):
            yield f"gemm_mma/{tile}", data["matmul"]["gemm_mma"][tile]


def _check_results(meter: Meter, times: Measured, t: Tuning) -> None:
    """Compare the results of the table's choices with the reference; raises CheckFailed."""
    for p, choice, ratio in times.ask(t):
        if p.operations <= CHECKED and ratio < math.inf:
            with force(meter.dev, choice):
                meter.loaded(p).check()


def _new(times: Measured, t: Tuning) -> bool:
    """Measure the choices of a table that were not measured yet; True if there were any."""
    before = times.count
    for _ in times.ask(t):
        pass
    return times.count > before


def _verdicts(times: Measured, t: Tuning) -> Verdicts:
    return Verdicts([
        Choice(p, text_of(choice), ratio, text_of(times.best_choice(i)))
        for i, (p, choice, ratio) in enumerate(times.ask(t))
    ])  # fmt: skip
