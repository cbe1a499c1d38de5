"""Comparisons of `pykernels bench`: two files, a run with a file, or two versions."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ._manifest import kernel
from ._results import ready

if TYPE_CHECKING:
    from pykernels.bench.compare import Comparison
    from pykernels.bench.report import Report

__all__ = ["compare_files", "compare_reports", "compare_versions", "given"]

# Options that are passed on to each process of --against.
PASSED_ON = {
    "shapes", "dtypes", "only", "edge", "cache", "device", "engine", "unchecked", "warmup",
    "rounds", "no_timestamps", "module",
}  # fmt: skip
WRITTEN = {"as_json", "as_markdown"}
OF_VERSIONS = {
    "names",
    "families",
    "against",
    "processes",
    "seed",
    "seconds",
    "threshold",
    *WRITTEN,
    *PASSED_ON,
}
OF_FILES = {"names", "families", "compare", "only", "threshold", "baseline", *WRITTEN}


def compare_files(
    old: Path, new: Path, names: Sequence[str], options: dict[str, Any]
) -> int:  # fmt: skip
    """`--compare A.json B.json`, which measures nothing."""
    from pykernels.bench.report import Report

    _only(OF_FILES, "--compare of two files")
    _written(options)
    for name in names:
        kernel(name)
    found = compare_reports(Report.load(old), Report.load(new), names, options)
    _keep(found, options)
    return found.exit_code


def compare_reports(
    before: Report, after: Report, names: Collection[str], options: dict[str, Any]
) -> Comparison:  # fmt: skip
    """Compare two reports and print the changes."""
    from pykernels.bench.compare import compare
    from pykernels.bench.report import Report

    def wanted(kernel: str, what: str) -> bool:
        return (not names or kernel in names) and options["only"] in what

    baseline = [Report.load(path) for path in options["baseline"]]
    found = compare(
        before, after, threshold=options["threshold"] / 100, baseline=baseline, wanted=wanted
    )  # fmt: skip
    _say(found)
    return found


def compare_versions(names: Sequence[str], options: dict[str, Any]) -> int:
    """`--against PYTHON`, which measures both versions in separate processes."""
    from pykernels.bench.against import against

    _only(OF_VERSIONS, "--against")
    _written(options)
    passed_on = given({k: v for k, v in options.items() if k in PASSED_ON})
    found = against(
        options["against"], names, passed_on, processes=options["processes"],
        threshold=options["threshold"] / 100, seed=options["seed"],
        say=lambda line: click.echo(line, err=True),
        seconds=None if options["seconds"] == float("inf") else options["seconds"],
    )  # fmt: skip
    _say(found)
    _keep(found, options)
    return found.exit_code


def given(options: dict[str, Any]) -> list[str]:
    """The given options as arguments of a command line."""
    found = []
    for option in _of_command_line():
        values = options.get(option.name or "", ())
        if isinstance(option, click.Argument):
            continue
        for value in values if isinstance(values, tuple) else (values,):
            found += [option.opts[-1]] if value is True else [option.opts[-1], str(value)]
    return found


def _of_command_line() -> list[click.Parameter]:
    context = click.get_current_context()
    return [
        p for p in context.command.params
        if context.get_parameter_source(p.name or "") is ParameterSource.COMMANDLINE
    ]  # fmt: skip


def _only(allowed: set[str], what: str) -> None:
    """Raise an error for an option that would be ignored."""
    ignored = [p.opts[-1] for p in _of_command_line() if p.name not in allowed]
    if ignored:
        raise click.UsageError(f"{what} cannot be combined with {', '.join(ignored)}")


def _written(options: dict[str, Any]) -> None:
    """Check the output files before anything runs."""
    ready(options[name] for name in sorted(WRITTEN) if options[name])


def _say(found: Comparison) -> None:
    for line in found.lines():
        click.echo(line)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in found.annotations():
            click.echo(line)


def _keep(found: Comparison, options: dict[str, Any]) -> None:
    """Write a comparison to the files of --json and --markdown."""
    texts = {
        "as_json": json.dumps(found.record(), indent=1), "as_markdown": "\n".join(found.markdown()),
    }  # fmt: skip
    for option, text in texts.items():
        if options[option]:
            options[option].write_text(text + "\n", encoding="utf-8")
            click.echo(f"wrote {options[option]}", err=True)
