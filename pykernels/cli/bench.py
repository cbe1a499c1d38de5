"""pykernels bench"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import runpy
import shlex
import shutil
import signal
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from pykernels.bench.intervals import PROCESSES, THRESHOLD

from . import Missing, _sweep
from ._comparing import compare_files, compare_reports, compare_versions, given
from ._manifest import kernel, manifest
from ._results import files, write

if TYPE_CHECKING:
    from pykernels.bench.case import Case, Loadable
    from pykernels.bench.report import Cache, Report
    from pykernels.bench.run import Peer, Runner
    from pykernels.device import Device
    from pykernels.runtime.engine import EngineName

__all__ = ["command", "problem_of", "sizes"]

T = TypeVar("T")

EPILOG = """A shape is the problem's (rows x cols; for mul_mat n x m x k). Without --shape and
--dtype, the named shapes are measured. Ctrl-C and SIGTERM end a run with what there is, and exit
codes 130 and 143. Exit code 1: an output was wrong. Of --compare, the first that holds: 130 or 143,
2 wrong usage, 3 a case
is wrong, failed, missing, cold or interrupted, 1 one is slower, 4 the runs cannot tell."""
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("bench", epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="[KERNEL]...")
@click.option("--shape", "shapes", multiple=True, metavar="4096x4096", help="May be repeated.")
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    metavar="DTYPE",
    help="float16, or float16:float32 (output).",
)
@click.option(
    "--module", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.py",
    help="Measure the cases of its pykernels.bench.Suite, in place of kernels.",
)  # fmt: skip
@click.option(
    "--family", "families", multiple=True, metavar="NAME",
    help="All kernels of a family (matmul, ...), as its bare name where no kernel has it.",
)  # fmt: skip
@click.option(
    "--sweep", metavar="FAMILY",
    help="Functions at the sizes of a committed grid, by the caller's clock: a family or all.",
)  # fmt: skip
@click.option(
    "--limit-bytes", type=click.IntRange(1), metavar="N",
    help="Of --sweep: calls whose tensors have at most N bytes. Default: 1 MiB on a software "
    "driver, else no limit.",
)  # fmt: skip
@click.option("--only", default="", metavar="TEXT", help="Cases whose name contains it.")
@click.option(
    "--edge",
    type=click.IntRange(0),
    help="Cut the sizes to this. Default: 256 on a software driver, else no.",
)
@click.option("--list", "listing", is_flag=True, help="List the cases, measure nothing.")
@click.option("--peers", default="", help="all, or some of numpy,torch,ort,naive,engine.")
@click.option(
    "--config", "configs", multiple=True, metavar="'gemm_tile splits=2'",
    help="A body as `pykernels explain` names it, and fields of the choice: a row of its own. "
    "May be repeated.",
)  # fmt: skip
@click.option(
    "--alternate",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    help="Time a case and its peers N times in turn.",
)
@click.option("--parts", is_flag=True, help="The time of each dispatch of a call, too.")
@click.option("--cache", type=click.Choice(["cold", "hot", "both"]), default="cold")
@click.option("--device", help="An adapter's number, or a part of its name (see doctor).")
@click.option(
    "--engine", type=click.Choice(["wgpu", "dawn", "dawn-matrix", "both"]), default="wgpu"
)
@click.option(
    "--no-timestamps", is_flag=True, help="Time by the host's clock, as without timestamp queries."
)
@click.option("--unchecked", is_flag=True, help="Compile shaders without runtime checks.")
@click.option(
    "--warmup", type=click.FloatRange(0), metavar="SECONDS", help="Of each case. Default: 0.3."
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    help="Readings of each case; a third in each pass. Default: 30.",
)
@click.option(
    "--passes",
    type=click.IntRange(1),
    metavar="N",
    help="How often each case is loaded and timed. Default: 5, 1 on a software driver.",
)
@click.option(
    "--time",
    "seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    default=float("inf"),
    help="Stop after them. Main cases go first; peers run beside them only. With --against: "
    "measure on what is too noisy as long as that.",
)
@click.option("--json", "as_json", type=FILE, metavar="F", help="Write all readings.")
@click.option("--markdown", "as_markdown", type=FILE, metavar="F", help="Write the table.")
@click.option("--csv", "as_csv", type=FILE, metavar="F", help="Write the table with all digits.")
@click.option("--plot", "as_plot", type=FILE, metavar="F", help="Write a figure (svg, png, pdf).")
@click.option("--save", type=click.Path(path_type=Path), metavar="DIR", help="Write all three.")
@click.option(
    "--from", "sources", type=FILE, multiple=True, metavar="F.json",
    help="Measure nothing: table, figure and files of what was saved; several become one.",
)  # fmt: skip
@click.option("--compare", type=FILE, metavar="A.json", help="With a run, or with B.json.")
@click.option(
    "--threshold", type=click.FloatRange(0), metavar="PERCENT", default=100 * THRESHOLD,
    show_default=True, help="From how much on --compare calls a case slower.",
)  # fmt: skip
@click.option(
    "--baseline", type=FILE, multiple=True, metavar="F.json",
    help="Other runs of A's code on this machine, two or more: how far runs differ.",
)  # fmt: skip
@click.option(
    "--against", metavar="PYTHON",
    help="Compare with the version of this interpreter or venv, in fresh processes of both.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(2), metavar="N", default=PROCESSES, show_default=True,
    help="Of --against: processes of each version.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of --against: the order.")
def command(
    names: tuple[str, ...], compare: Path | None, sources: tuple[Path, ...], **options: Any
) -> None:
    """Measure KERNELs (all): GPU time after a warm-up, with checked outputs, beside the ceilings of
    the device.

    `pykernels bench --compare A.json B.json [KERNEL]...` prints which cases got slower from A to B,
    and writes them to --markdown and --json. With A.json alone, and neither --shape nor --dtype, it
    first measures the cases of A again, with A's settings unless the command gives others.
    """
    try:
        with _signals():
            code = _bench(names, compare, sources, options)
    except KeyboardInterrupt as e:
        code = _code(e)
    if code:
        raise SystemExit(code)


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM; results so far are kept, as after Ctrl-C."""


def _code(e: KeyboardInterrupt) -> int:
    return 143 if isinstance(e, Terminated) else 130


@contextmanager
def _signals() -> Iterator[None]:
    """While the block runs, SIGTERM ends the run in the same way as Ctrl-C."""

    def end(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _bench(
    names: tuple[str, ...], compare: Path | None, sources: tuple[Path, ...],
    options: dict[str, Any],
) -> int:  # fmt: skip
    """The command's work, and its exit code."""
    from pykernels.bench.cases import FUNCTIONS
    from pykernels.bench.report import Report
    from pykernels.bench.table import table

    if compare is not None and not options["against"] and names and names[0].endswith(".json"):
        chosen = tuple(_kernels(names[1:], options["families"]))
        return compare_files(compare, Path(names[0]), chosen, options)
    _sweep.check(names, options)
    if not options["module"]:  # with --module, names choose suites
        names = tuple(_kernels(names, options["families"]))
        for name in names:
            if name not in FUNCTIONS:
                kernel(name)
    for shape in options["shapes"]:
        sizes(shape)
    if options["against"]:
        return compare_versions(names, options)
    if options["baseline"] and compare is None:
        raise click.UsageError("--baseline needs --compare")
    before = Report.load(compare) if compare else None
    if options["listing"]:
        listed: list[Loadable] = [*_own(names, options)]
        listed = listed or [*_some(_cases(names, options, options["edge"] or 0))]
        for case in listed:
            origin = f"  ({case.name}: {case.origin})" if case.origin else ""
            click.echo(f"{case.kernel} {case.id}{origin}")
        return 0
    found, stopped = files(options), 0
    if sources:
        report = _merged(sources)
    else:
        if before is not None:
            _repeat(before, options)
        report, stopped = _run(names, options, before, found.get("json"))
    if report.swept:
        from pykernels.bench.sweep import lines

        shown = lines(report)
    else:
        shown = table(report, _columns())
    for text in shown:
        click.echo(text)
    write(report, found)
    code = 1 if report.failed else 0
    if before is not None:
        code = compare_reports(before, report, names, options).exit_code
    return stopped or code


def _kernels(names: Iterable[str], families: Iterable[str]) -> Iterator[str]:
    """The kernels of these names; a name may be a family."""
    known: dict[str, list[str]] = {}
    for name, facts in manifest()["kernels"].items():
        known.setdefault(facts["family"], []).append(name)
    for family in families:
        if family not in known:
            raise Missing(f"there is no family {family!r}; there are {', '.join(sorted(known))}")
    for name in names:
        bare = name in known and name not in manifest()["kernels"]
        yield from known[name] if bare else [name]
    for family in families:
        yield from known[family]


def _repeat(before: Report, options: dict[str, Any]) -> None:
    """Use the settings of an earlier run, unless the command gives others."""
    context = click.get_current_context()
    for name, value in before.settings.items():
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            options[name] = value


def _columns() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _own(names: Collection[str], options: dict[str, Any]) -> list[Loadable]:
    """The cases of --sweep, or of --module: of the named suites, or of all suites."""
    if options["sweep"]:
        return _some([*_sweep.cases(options)])
    path: Path | None = options["module"]
    if path is None:
        return []
    from pykernels.bench.own import suites

    # Modules beside the file. Behind the installed ones, which --against compares.
    sys.path.append(str(path.resolve().parent))
    found = suites(runpy.run_path(str(path)))
    if not found:
        raise Missing(f"{path} has no pykernels.bench.Suite with cases")
    chosen = [c for c in found if not names or c.kernel in names]
    return _some([c for c in chosen if options["only"] in f"{c.kernel} {c.id}"])


def _some(cases: list[T]) -> list[T]:
    if not cases:
        raise Missing("no case is left: --list shows them")
    return cases


def _cases(names: Iterable[str], options: dict[str, Any], edge: int) -> list[Case]:
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
    """The cases that can be checked here; prints the reason for the others."""
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
    """The cases to measure: those of an earlier run, unless others are asked for."""
    if before is None or options["shapes"] or options["dtypes"]:
        return _measurable(_cases(names, options, edge))
    from pykernels.bench.compare import again

    found = (c for c in again(before) if not names or c.kernel in names)
    return _measurable(c for c in found if options["only"] in f"{c.kernel} {c.id} {c.name}")


def _run(
    names: tuple[str, ...], options: dict[str, Any], before: Report | None, keep: Path | None
) -> tuple[Report, int]:
    """The report, and the exit code: of the signal that ended the run, else 0."""
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
    cases: list[Loadable] = _own(names, options) or [*_some(_chosen(names, options, edge, before))]
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
        stopped = _code(e)
        runner.report.meta["note"] = "interrupted"
    runner.report.results.sort(key=in_order)
    return runner.report, stopped


def _in_turn(cases: Iterable[Loadable]) -> list[Loadable]:
    """The first case of each kernel, then the second of each, so that a limited run has cases of
    all kernels."""
    queues: dict[str, list[Loadable]] = {}
    for case in cases:
        queues.setdefault(case.kernel, []).append(case)
    return [case for turn in zip_longest(*queues.values()) for case in turn if case is not None]


def _merged(sources: Iterable[Path]) -> Report:
    from pykernels.bench.merge import merge
    from pykernels.bench.report import Report

    return merge([Report.load(path) for path in sources])


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
