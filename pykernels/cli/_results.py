"""The files that `pykernels bench` writes. They are checked before anything runs, and written at
the end."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Missing

if TYPE_CHECKING:
    from pykernels.bench.report import Report

__all__ = ["can_plot", "files", "ready", "write"]

SUFFIXES = {"json": ".json", "markdown": ".md", "csv": ".csv", "plot": ".svg"}
FIGURES = (".svg", ".png", ".pdf")


def can_plot() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def files(options: dict[str, Any]) -> dict[str, Path]:
    """The files for readings, tables and figure; an error if one cannot be written."""
    found = {k: options[f"as_{k}"] for k in SUFFIXES if options[f"as_{k}"]}
    plot = found.get("plot")
    if plot and plot.suffix not in FIGURES:
        raise Missing(f"--plot {plot}: a figure ends with {', '.join(FIGURES)}")
    if plot and not can_plot():
        raise Missing("a figure needs matplotlib: pip install matplotlib")
    folder: Path | None = options["save"]
    if folder is not None:
        names = {k: folder / f"results{s}" for k, s in SUFFIXES.items() if k != "csv"}
        found = names | found
    ready(found.values())
    return found


def ready(paths: Iterable[Path]) -> None:
    """Make the folders; an error (2) if a file cannot be written."""
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise Missing(f"{path}: there is no folder {path.parent}: {e.strerror}") from None
        if path.is_dir():
            raise Missing(f"{path}: that is a folder")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise Missing(f"{path}: may not be written")


def write(report: Report, found: dict[str, Path]) -> None:
    """Write all files. Without matplotlib, print how to get the figure later."""
    from pykernels.bench.plots import plot
    from pykernels.bench.table import as_csv, markdown

    sweep = importlib.import_module("pykernels.bench.sweep") if report.swept else None
    text = sweep.as_markdown if sweep else markdown
    told = list(found.values())
    for kind, path in found.items():
        if kind == "json":
            report.save(path)
        elif kind == "markdown":
            path.write_text("\n".join(text(report)) + "\n", encoding="utf-8")
        elif kind == "csv":
            path.write_text(as_csv(report), encoding="utf-8")
        elif sweep and not sweep.beside(report):
            told.remove(path)
            click.echo("no figure of a sweep without a peer: --peers torch or numpy", err=True)
        elif can_plot():
            (sweep.heatmap if sweep else plot)(report, path)
        else:
            told.remove(path)
            click.echo(
                f"no figure without matplotlib; later: pykernels bench --from {found['json']} "
                f"--save {path.parent}", err=True,
            )  # fmt: skip
    for path in told:
        click.echo(f"wrote {path}", err=True)
