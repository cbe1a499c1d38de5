"""pykernels bench"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Missing
from ._manifest import kernel, manifest

if TYPE_CHECKING:
    from pykernels.bench.case import Case
    from pykernels.bench.report import Cache, Report
    from pykernels.bench.run import Peer, Runner
    from pykernels.device import Device
    from pykernels.runtime.engine import EngineName

__all__ = ["command"]

EPILOG = """A shape is the problem's (rows x cols; for mul_mat n x m x k). Without --shape and
--dtype, the named shapes are measured. Ctrl-C ends a run with what there is. Exit code 1: an output
was wrong, or --compare found something slower."""
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
@click.option("--only", default="", metavar="TEXT", help="Cases whose name contains it.")
@click.option(
    "--edge", type=int, help="Cut the sizes to this. Default: 256 on a software driver, else no."
)
@click.option("--list", "listing", is_flag=True, help="List the cases, measure nothing.")
@click.option("--peers", default="", help="all, or some of numpy,torch,ort,naive,engine.")
@click.option(
    "--config", "configs", multiple=True, metavar="'body=gemm_tile splits=2'",
    help="A choice of the plan to time beside its own. May be repeated.",
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
@click.option("--unchecked", is_flag=True, help="Compile shaders without runtime checks.")
@click.option("--warmup", type=float, metavar="SECONDS", help="Of each case. Default: 0.3.")
@click.option(
    "--rounds", type=int, help="Readings of each case; a third in each pass. Default: 30."
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
    type=float,
    metavar="SECONDS",
    default=float("inf"),
    help="Stop after them. Main cases go first; peers run beside them only.",
)
@click.option("--json", "as_json", type=FILE, metavar="F", help="Write all readings.")
@click.option("--markdown", "as_markdown", type=FILE, metavar="F", help="Write the table.")
@click.option("--plot", "as_plot", type=FILE, metavar="F", help="Write a figure (svg, png, pdf).")
@click.option("--save", type=click.Path(path_type=Path), metavar="DIR", help="Write all three.")
@click.option(
    "--from", "sources", type=FILE, multiple=True, metavar="F.json",
    help="Measure nothing: table, figure and files of what was saved; several become one.",
)  # fmt: skip
@click.option("--compare", type=FILE, metavar="A.json", help="With a run, or with B.json.")
def command(
    names: tuple[str, ...], compare: Path | None, sources: tuple[Path, ...], **options: Any
) -> None:
    """Measure KERNELs (all): GPU time after a warm-up, checked, against what the device reaches.

    `pykernels bench --compare A.json B.json` says what got slower from A to B; with A.json alone,
    and neither --shape nor --dtype, what A has is measured again first.
    """
    from pykernels.bench.cases import FUNCTIONS
    from pykernels.bench.report import Report
    from pykernels.bench.table import table

    if compare is not None and len(names) == 1 and names[0].endswith(".json"):
        _compare(Report.load(compare), Report.load(Path(names[0])))
        return
    before = Report.load(compare) if compare else None
    for name in names:
        if name not in FUNCTIONS:
            kernel(name)
    if options["listing"]:
        for case in _cases(names, options, options["edge"] or 0):
            origin = f"  ({case.name}: {case.origin})" if case.origin else ""
            click.echo(f"{case.kernel} {case.id}{origin}")
        return
    if options["as_plot"] and not _can_plot():
        raise Missing("a figure needs matplotlib: pip install 'pykernels[bench]'")
    report = _merged(sources) if sources else _run(names, options, before)
    for text in table(report, shutil.get_terminal_size((100, 24)).columns):
        click.echo(text)
    _write(report, options)
    if before is not None:
        _compare(before, report)
    if report.failed:
        raise SystemExit(1)


def _can_plot() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


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
            for shape in [_shape(s) for s in options["shapes"]] or own:
                found += [_problem(name, shape, d) for d in options["dtypes"] or ("float32",)]
    return [c for c in found if options["only"] in f"{c.kernel} {c.id} {c.name}"]


def _problem(name: str, shape: tuple[int, ...], dtype: str) -> Case:
    from pykernels.bench.cases import problem

    try:
        return problem(name, shape, dtype)
    except (ValueError, TypeError) as e:
        raise Missing(f"{name} takes no problem of shape {shape} and {dtype}: {e}") from None


def _shape(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+([x,]\d+)*", text):
        raise click.UsageError(f"--shape must be like 4096x4096 but is {text!r}")
    return tuple(map(int, re.split("[x,]", text)))


def _devices(options: dict[str, Any]) -> Iterator[Device]:
    import pykernels as pk

    where = options["device"]
    adapter = int(where) if where is not None and where.isdigit() else where
    engine = options["engine"]
    for name in ("wgpu", "dawn") if engine == "both" else (engine,):
        yield pk.Device(
            adapter,
            engine="wgpu" if name == "wgpu" else "dawn",
            checks=not options["unchecked"],
            matrix_units=name == "dawn-matrix",
        )


def _measurable(cases: Iterable[Case]) -> list[Case]:
    """The cases that can be checked here; says of the others why not."""
    found = list(cases)
    if importlib.util.find_spec("ml_dtypes") is not None:
        return found
    fit = [c for c in found if all(o.dtype != "bfloat16" for o in c.tensors.values())]
    if len(fit) < len(found):
        click.echo(
            f"{len(found) - len(fit)} cases of bfloat16 are left out, without ml_dtypes: "
            "pip install 'pykernels[bench]'", err=True,
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


def _run(names: tuple[str, ...], options: dict[str, Any], before: Report | None) -> Report:
    from pykernels.bench.cases import is_main
    from pykernels.bench.clock import Effort
    from pykernels.bench.merge import in_order
    from pykernels.bench.run import Runner

    devices = list(_devices(options))
    slow = devices[0].info["type"] == "CPU"
    edge = options["edge"]
    if edge is None:
        edge = 256 if slow else 0
        if slow and not options["shapes"] and before is None:
            click.echo("a software driver: sizes are cut to 256 (--edge 0 for all)", err=True)
    cases = _chosen(names, options, edge, before)
    if not cases:
        raise Missing("no case is left: --list shows them")
    effort = Effort.of(devices[0])
    if options["warmup"] is not None:
        effort = replace(effort, warm=options["warmup"])
    if options["rounds"] is not None:
        effort = replace(effort, rounds=options["rounds"])
    caches: tuple[Cache, ...] = (
        ("cold", "hot") if options["cache"] == "both" else (options["cache"],)
    )
    line = "pykernels bench " + shlex.join(sys.argv[2:])
    passes = options["passes"] or (1 if slow else 5)
    runner = Runner(
        devices, effort=effort, caches=caches, passes=passes, seconds=options["seconds"],
        alternate=options["alternate"], parts=options["parts"], command=line.strip(),
        keep=_files(options)["json"],
    )  # fmt: skip
    chosen = list(filter(None, options["peers"].split(",")))
    measured = {case.kernel for case in cases}
    peers = _peers(chosen, measured, runner)
    for config in options["configs"]:
        for k, peer in _forced(measured, config).items():
            peers.setdefault(k, {})[config] = peer
    runner.ceilings()
    try:
        if options["seconds"] != float("inf"):
            # Cut to one size, a case stands for its kernel, whichever other has that size uncut.
            runner.run(_in_turn(cases), peers, (lambda case: True) if edge else is_main)
        else:
            runner.run(cases, peers)
    except KeyboardInterrupt:
        runner.report.meta["note"] = "interrupted"
    runner.report.results.sort(key=in_order)
    return runner.report


def _in_turn(cases: Iterable[Case]) -> list[Case]:
    """The first of each kernel, the second of each, and so on: what is left out is some of each."""
    queues: dict[str, list[Case]] = {}
    for case in cases:
        queues.setdefault(case.kernel, []).append(case)
    return [case for turn in zip_longest(*queues.values()) for case in turn if case is not None]


def _merged(sources: Iterable[Path]) -> Report:
    from pykernels.bench.merge import merge
    from pykernels.bench.report import Report

    return merge([Report.load(path) for path in sources])


def _forced(kernels: Iterable[str], config: str) -> dict[str, Peer]:
    """The kernels whose plans know this choice, with it."""
    from pykernels.bench.run import ForcedPeer
    from pykernels.errors import ArgumentError
    from pykernels.forcing import parse

    found: dict[str, Peer] = {}
    why = "no kernel was chosen"
    for name in kernels:
        try:
            found[name] = ForcedPeer(parse(name, config))
        except ArgumentError as e:
            why = str(e)
    if not found:
        raise click.UsageError(f"--config: {why}")
    return found


def _peers(chosen: list[str], kernels: Iterable[str], runner: Runner) -> dict[str, dict[str, Peer]]:
    """The chosen peers of each kernel."""
    import pykernels as pk
    from pykernels.bench.cases import peers
    from pykernels.bench.run import EnginePeer

    known = peers() if chosen else {}
    first = runner.devices[0]
    if {"engine", "all"} & set(chosen) and len(runner.devices) == 1:
        name: EngineName = "dawn" if first.engine == "wgpu" else "wgpu"
        try:
            other = EnginePeer(pk.Device(first.info["name"], engine=name), runner.rotate)
            for k in kernels:
                known.setdefault(k, {})[name] = other
        except pk.NoAdapterError as e:
            click.echo(f"{name} skipped: {e}", err=True)
    names = {n for own in known.values() for n in own}
    unknown = set(chosen) - names - {"all", "engine"}
    if unknown:
        raise Missing(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")

    def wanted(name: str) -> bool:
        return (
            "all" in chosen or name in chosen or ("engine" in chosen and name in ("wgpu", "dawn"))
        )

    return {k: {n: p for n, p in own.items() if wanted(n)} for k, own in known.items()}


def _files(options: dict[str, Any]) -> dict[str, Path | None]:
    """Where the readings, the table and the figure go."""
    files: dict[str, Path | None] = {
        "json": options["as_json"], "markdown": options["as_markdown"], "plot": options["as_plot"],
    }  # fmt: skip
    folder: Path | None = options["save"]
    if folder is None:
        return files
    names = {"json": "results.json", "markdown": "results.md", "plot": "results.svg"}
    return {k: files[k] or folder / name for k, name in names.items()}


def _write(report: Report, options: dict[str, Any]) -> None:
    from pykernels.bench.plots import plot
    from pykernels.bench.table import markdown

    files, folder = _files(options), options["save"]
    if files["json"]:
        report.save(files["json"])
    if files["markdown"]:
        files["markdown"].parent.mkdir(parents=True, exist_ok=True)
        files["markdown"].write_text("\n".join(markdown(report)) + "\n", encoding="utf-8")
    if files["plot"] and not _can_plot():
        click.echo(
            f"no figure without matplotlib; later: pykernels bench --from {files['json']} "
            f"--save {folder}", err=True,
        )  # fmt: skip
        files["plot"] = None
    if files["plot"]:
        plot(report, files["plot"])
    for path in filter(None, files.values()):
        click.echo(f"wrote {path}", err=True)


def _compare(before: Report, after: Report) -> None:
    from pykernels.bench.compare import compare, describe

    changes = compare(before, after)
    for line in describe(before, after, changes):
        click.echo(line)
    if any(c.kind == "slower" for c in changes):
        raise SystemExit(1)
