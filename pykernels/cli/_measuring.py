"""The cases of `pykernels bench`, and the run that measures them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import runpy
import shlex
import signal
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from . import Missing, _sweep
from ._comparing import given
from ._manifest import manifest

if TYPE_CHECKING:
    from pykernels.bench.case import Case, Loadable
    from pykernels.bench.report import Cache, Report
    from pykernels.bench.run import Peer, Runner
    from pykernels.device import Device
    from pykernels.runtime.engine import EngineName

__all__ = [
    "cases_of",
    "code_of",
    "own_cases",
    "problem_of",
    "run_cases",
    "signals",
    "sizes",
    "some_of",
]

T = TypeVar("T")


class Terminated(KeyboardInterrupt):
    """SIGTERM ended the run; its results so far are kept, as after Ctrl-C."""


def code_of(e: KeyboardInterrupt) -> int:
    return 143 if isinstance(e, Terminated) else 130


@contextmanager
def signals() -> Iterator[None]:
    """While the block runs, SIGTERM ends the run in the same way as Ctrl-C."""

    def end(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def own_cases(names: Collection[str], options: dict[str, Any]) -> list[Loadable]:
    """The cases of --sweep, or the cases of --module from the named suites or from all suites."""
    if options["sweep"]:
        return some_of([*_sweep.cases(options)])
    path: Path | None = options["module"]
    if path is None:
        return []
    from pykernels.bench.own import suites

    # The file may import modules beside it. Its folder comes last on the path, because a process
    # of --against must import the installed packages.
    sys.path.append(str(path.resolve().parent))
    found = suites(runpy.run_path(str(path)))
    if not found:
        raise Missing(f"{path} has no pykernels.bench.Suite with cases")
    chosen = [c for c in found if not names or c.kernel in names]
    return some_of([c for c in chosen if options["only"] in f"{c.kernel} {c.id}"])


def some_of(cases: list[T]) -> list[T]:
    if not cases:
        raise Missing("no case is left: --list shows them")
    return cases


def cases_of(names: Iterable[str], options: dict[str, Any], edge: int) -> list[Case]:
    from pykernels.bench.cases import FUNCTIONS, cases, default_shape
    from pykernels.bench.shapes import cut

    wanted = list(names) or sorted([*manifest()["kernels"], *FUNCTIONS])
    if not options["shapes"] and not options["dtypes"]:
        found = [case for case in cases(edge) if case.kernel in wanted]
    else:
        found = []
        for name in wanted:
            own = [tuple(cut(n, edge) for n in default_shape(name))]
            for shape in [sizes(s) for s in options["shapes"]] or own:
                found += [problem_of(name, shape, d) for d in options["dtypes"] or ("float32",)]
    return [c for c in found if options["only"] in f"{c.kernel} {c.id} {c.name}"]


def problem_of(name: str, shape: tuple[int, ...], dtype: str) -> Case:
    from pykernels.bench.cases import problem

    try:
        return problem(name, shape, dtype)
    except (ValueError, TypeError) as e:
        raise Missing(f"{name} takes no problem of shape {shape} and {dtype}: {e}") from None


def sizes(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+([x,]\d+)*", text):
        raise click.UsageError(f"--shape must be like 4096x4096 but is {text!r}")
    sizes = tuple(map(int, re.split("[x,]", text)))
    if 0 in sizes:
        raise click.UsageError(f"--shape must have no 0, as nothing would run, but is {text!r}")
    return sizes


def _devices(options: dict[str, Any]) -> Iterator[Device]:
    import pykernels as pk
    from pykernels.bench.clock import without_timestamps

    where = options["device"]
    adapter = int(where) if where is not None and where.isdigit() else where
    engine = options["engine"]
    for name in ("wgpu", "dawn") if engine == "both" else (engine,):
        dev = pk.Device(
            adapter,
            engine="wgpu" if name == "wgpu" else "dawn",
            checks=not options["unchecked"],
            matrix_units=name == "dawn-matrix",
        )
        yield without_timestamps(dev) if options["no_timestamps"] else dev


def _measurable(cases: Iterable[Case]) -> list[Case]:
    """The cases that can be checked here; for all other cases, the reason is printed."""
    found = list(cases)
    if importlib.util.find_spec("ml_dtypes") is not None:
        return found
    fit = [c for c in found if all(o.dtype != "bfloat16" for o in c.tensors.values())]
    if len(fit) < len(found):
        click.echo(
            f"{len(found) - len(fit)} cases of bfloat16 are left out, without ml_dtypes: "
            "pip install ml_dtypes", err=True,
        )  # fmt: skip
    return fit


def _chosen(
    names: tuple[str, ...], options: dict[str, Any], edge: int, before: Report | None
) -> list[Case]:
    """The cases to measure: the cases of an earlier run, unless the command asks for others."""
    if before is None or options["shapes"] or options["dtypes"]:
        return _measurable(cases_of(names, options, edge))
    from pykernels.bench.compare import again

    found = (c for c in again(before) if not names or c.kernel in names)
    return _measurable(c for c in found if options["only"] in f"{c.kernel} {c.id} {c.name}")


def run_cases(
    names: tuple[str, ...], options: dict[str, Any], before: Report | None, keep: Path | None
) -> tuple[Report, int]:
    """The report, and the exit code: the code of the signal that ended the run, else 0."""
    from pykernels.bench.against import CEILINGS
    from pykernels.bench.cases import is_main
    from pykernels.bench.clock import Effort
    from pykernels.bench.merge import in_order
    from pykernels.bench.run import Runner

    devices = list(_devices(options))
    slow = devices[0].info["type"] == "CPU"
    edge = options["edge"]
    if options["sweep"]:
        edge = 0
        _sweep.set_defaults(options, slow)
    if edge is None:
        edge = 256 if slow else 0
        if slow and not options["shapes"] and before is None:
            click.echo("a software driver: sizes are cut to 256 (--edge 0 for all)", err=True)
    cases: list[Loadable] = own_cases(names, options) or [
        *some_of(_chosen(names, options, edge, before))
    ]
    effort = Effort.of(devices[0])
    if options["warmup"] is not None:
        effort = replace(effort, warm=options["warmup"])
    if options["rounds"] is not None:
        effort = replace(effort, rounds=options["rounds"])
    caches: tuple[Cache, ...] = (
        ("cold", "hot") if options["cache"] == "both" else (options["cache"],)
    )
    line = shlex.join(["pykernels", "bench", *names, *given(click.get_current_context().params)])
    passes = options["passes"] or (1 if slow else 5)
    runner = Runner(
        devices, effort=effort, caches=caches, passes=passes, seconds=options["seconds"],
        alternate=options["alternate"], parts=options["parts"], command=line, keep=keep,
    )  # fmt: skip
    runner.report.settings = {
        "edge": edge, "warmup": effort.warm, "rounds": effort.rounds, "passes": passes,
        **{name: options[name] for name in ("cache", "engine", "unchecked", "no_timestamps")},
        **{name: options[name] for name in ("sweep", "limit_bytes") if options[name]},
    }  # fmt: skip
    chosen = list(filter(None, options["peers"].split(",")))
    measured = {case.kernel for case in cases}
    peers = _peers(chosen, measured, runner, swept=bool(options["sweep"]))
    plain = [*cases]
    for config in options["configs"]:
        cases += _forced(plain, config)
    stopped = 0
    try:
        if not slow or os.environ.get(CEILINGS) != "0":
            runner.ceilings()
        if options["seconds"] != float("inf"):
            all_main = bool(edge or options["module"] or options["sweep"])
            # Several cases may have the same reduced size; the first of them represents the kernel.
            runner.run(_in_turn(cases), peers, (lambda case: True) if all_main else is_main)
        else:
            runner.run(cases, peers)
    except KeyboardInterrupt as e:
        stopped = code_of(e)
        runner.report.meta["note"] = "interrupted"
    runner.report.results.sort(key=in_order)
    return runner.report, stopped


def _in_turn(cases: Iterable[Loadable]) -> list[Loadable]:
    """The first case of each kernel, then the second case of each, and so on, so that a limited run
    has cases of all kernels."""
    queues: dict[str, list[Loadable]] = {}
    for case in cases:
        queues.setdefault(case.kernel, []).append(case)
    return [case for turn in zip_longest(*queues.values()) for case in turn if case is not None]


def _forced(cases: Iterable[Any], config: str) -> list[Loadable]:
    """The cases whose plans have this choice among their candidates, with the choice forced."""
    from pykernels.errors import ArgumentError
    from pykernels.forcing import parse

    found: list[Loadable] = []
    why = "no kernel was chosen"
    for case in cases:
        try:
            note = " ".join(filter(None, [case.note, config]))
            found.append(replace(case, note=note, forced=parse(case.kernel, config)))
        except ArgumentError as e:
            why = str(e)
    if not found:
        raise click.UsageError(f"--config: {why}")
    return found


def _peers(
    chosen: list[str], kernels: Collection[str], runner: Runner, swept: bool = False
) -> dict[str, dict[str, Peer]]:
    """The chosen peers of each kernel, or of each function of a sweep."""
    import pykernels as pk
    from pykernels.bench import cases
    from pykernels.bench.run import EnginePeer

    sweep = importlib.import_module("pykernels.bench.sweep") if swept else None
    known = (sweep or cases).peers() if chosen else {}
    first = runner.devices[0]
    if {"engine", "all"} & set(chosen) and len(runner.devices) == 1:
        name: EngineName = "dawn" if first.engine == "wgpu" else "wgpu"
        try:
            device = pk.Device(first.info["name"], engine=name)
            other = sweep.OtherEngine(device) if sweep else EnginePeer(device, runner.rotate)
            for k in kernels:
                known.setdefault(k, {})[name] = other
        except pk.NoAdapterError as e:
            click.echo(f"{name} skipped: {e}", err=True)
    names = {n for own in known.values() for n in own}
    for peer in dict.fromkeys(chosen):
        without = [k for k in sorted(kernels) if peer not in known.get(k, {})]
        if peer in ("all", "engine") or not without:
            continue
        there = {n for k in kernels for n in known.get(k, {})} if peer in names else names
        told = f"no peer {peer} of {', '.join(without)}; there are {', '.join(sorted(there))}"
        if len(without) == len({*kernels}):
            raise Missing(told)
        click.echo(told, err=True)

    def wanted(name: str) -> bool:
        return (
            "all" in chosen or name in chosen or ("engine" in chosen and name in ("wgpu", "dawn"))
        )

    return {k: {n: p for n, p in own.items() if wanted(n)} for k, own in known.items()}
