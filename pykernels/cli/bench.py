"""pykernels bench"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pykernels.bench.intervals import PROCESSES, THRESHOLD

from . import Missing, _sweep
from ._comparing import compare_files, compare_reports, compare_versions
from ._manifest import kernel, manifest
from ._measuring import (
    cases_of,
    code_of,
    own_cases,
    problem_of,
    run_cases,
    signals,
    sizes,
    some_of,
)
from ._results import files, write

if TYPE_CHECKING:
    from pykernels.bench.case import Loadable
    from pykernels.bench.report import Report

__all__ = ["command", "problem_of", "sizes"]

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
    "--module",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.py",
    help="Measure the cases of its pykernels.bench.Suite, in place of kernels.",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="NAME",
    help="All kernels of a family (matmul, ...), as its bare name where no kernel has it.",
)
@click.option(
    "--sweep",
    metavar="FAMILY",
    help="Functions at the sizes of a committed grid, by the caller's clock: a family or all.",
)
@click.option(
    "--limit-bytes",
    type=click.IntRange(1),
    metavar="N",
    help="Of --sweep: calls whose tensors have at most N bytes. Default: 1 MiB on a software "
    "driver, else no limit.",
)
@click.option("--only", default="", metavar="TEXT", help="Cases whose name contains it.")
@click.option(
    "--edge",
    type=click.IntRange(0),
    help="Cut the sizes to this. Default: 256 on a software driver, else no.",
)
@click.option("--list", "listing", is_flag=True, help="List the cases, measure nothing.")
@click.option("--peers", default="", help="all, or some of numpy,torch,ort,naive,engine.")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="'gemm_tile splits=2'",
    help="A body as `pykernels explain` names it, and fields of the choice: a row of its own. "
    "May be repeated.",
)
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
    "--from",
    "sources",
    type=FILE,
    multiple=True,
    metavar="F.json",
    help="Measure nothing: table, figure and files of what was saved; several become one.",
)
@click.option("--compare", type=FILE, metavar="A.json", help="With a run, or with B.json.")
@click.option(
    "--threshold",
    type=click.FloatRange(0),
    metavar="PERCENT",
    default=100 * THRESHOLD,
    show_default=True,
    help="From how much on --compare calls a case slower.",
)
@click.option(
    "--baseline",
    type=FILE,
    multiple=True,
    metavar="F.json",
    help="Other runs of A's code on this machine, two or more: how far runs differ.",
)
@click.option(
    "--against",
    metavar="PYTHON",
    help="Compare with the version of this interpreter or venv, in fresh processes of both.",
)
@click.option(
    "--processes",
    type=click.IntRange(2),
    metavar="N",
    default=PROCESSES,
    show_default=True,
    help="Of --against: processes of each version.",
)
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
        with signals():
            code = _bench(names, compare, sources, options)
    except KeyboardInterrupt as e:
        code = code_of(e)
    if code:
        raise SystemExit(code)


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
    if not options["module"]:  # with --module, the names choose suites
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
        listed: list[Loadable] = [*own_cases(names, options)]
        listed = listed or [*some_of(cases_of(names, options, options["edge"] or 0))]
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
        report, stopped = run_cases(names, options, before, found.get("json"))
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
    """Use the settings of an earlier run, unless the command gives other settings."""
    context = click.get_current_context()
    for name, value in before.settings.items():
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            options[name] = value


def _columns() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _merged(sources: Iterable[Path]) -> Report:
    from pykernels.bench.merge import merge
    from pykernels.bench.report import Report

    return merge([Report.load(path) for path in sources])
