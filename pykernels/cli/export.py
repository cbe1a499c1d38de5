"""pykernels export"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import Missing
from ._manifest import kernel, read_json

if TYPE_CHECKING:
    from pykernels.export._layouts import Request

__all__ = ["command"]


@click.command("export")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER")
@click.argument("names", nargs=-1, metavar="[KERNEL]...")
@click.option("--to", "host", type=click.Choice(["web", "rust"]), default="web",
              show_default=True, help="A module for web pages, or a crate for Rust.")  # fmt: skip
@click.option("--dialect", type=click.Choice(["tint", "naga"]), default="tint",
              help="Who compiles the WGSL: tint (Chrome) or naga (Firefox, wgpu).")  # fmt: skip
@click.option("--dtype", "dtypes", multiple=True, metavar="DTYPE",
              help="Only variants of these dtypes. May be repeated.")  # fmt: skip
@click.option("--shape", "shapes", multiple=True, metavar="'KERNEL x=f32[8,1000] ...'",
              help="Launch this layout alone, by a recorded plan. May be repeated.")  # fmt: skip
@click.option("--all-variants", is_flag=True,
              help="With --shape: any other layout, too.")  # fmt: skip
@click.option("--tuning", default="generic-small", show_default=True, metavar="NAME|FILE",
              help="The table of the device that plans are made for.")  # fmt: skip
@click.option(
    "--page",
    is_flag=True,
    help="Add index.html, which runs, times and checks kernels on the visitor's GPU.",
)
@click.option("--bundle", is_flag=True,
              help="Put manifest and texts into the module, for bundlers.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite files that are not from an export.")
def command(
    folder: Path,
    names: tuple[str, ...],
    host: str,
    dialect: Any,
    dtypes: tuple[str, ...],
    shapes: tuple[str, ...],
    all_variants: bool,
    tuning: str,
    page: bool,
    bundle: bool,
    force: bool,
) -> None:
    """Write KERNELs (default: all) as WGSL, a JSON manifest and an ES module for web pages, or as
    a crate for Rust.

    Without --shape, a kernel launches any layout, with all its variants. With --shape, the export
    is small: the kernel launches only the given layouts, with only the variants that they use.
    """
    if host == "rust":
        _only_for_the_web()
    from pykernels.dtypes import dtype_of
    from pykernels.export._write import collect, write

    known = read_json("javascript.json")["kernels"]
    chosen = sorted(set(names)) or sorted(known)
    for name in chosen:
        kernel(name)
    short = [dtype_of(d, "--dtype").short for d in dtypes]
    for d in dtypes:
        taken = {n for k in chosen for t in known[k]["tensors"] for n in t["dtypes"]}
        if dtype_of(d, "--dtype").name not in taken:
            raise click.UsageError(
                f"--dtype {d}: {', '.join(chosen)} must be of {', '.join(sorted(taken))}"
            )
    if host == "rust":
        _write_crate(folder, chosen, short, tuning, force)
        return
    requests = [_request(text, chosen, known) for text in shapes]
    extra: dict[str, str] = {}
    shown: list[Request] = []
    if page:
        from pykernels.export._page import page_files

        extra, shown = page_files(_watched("page", chosen), known)
    done = collect(
        chosen, dialect, short, requests, everything=all_variants, tuning=tuning, shown=shown,
        extra=extra, joined=bundle, watch=_watched,
    )  # fmt: skip
    write(folder, done.files, force=force)
    plans = sum(len(k["plans"]) for k in done.manifest["kernels"].values())
    size = sum(len(text.encode()) for text in done.files.values())
    click.echo(
        f"{len(chosen)} kernels, {len(done.variants)} variants, {plans} recorded plans "
        f"({size / 1e6:.1f} MB) in {folder}"
    )
    if done.idle:
        click.echo(
            f"no layout was recorded for {', '.join(done.idle)}: their functions launch nothing "
            "before --shape names one",
            err=True,
        )


def _only_for_the_web() -> None:
    """Refuse options that a crate does not have."""
    context = click.get_current_context()
    options = {"dialect": "--dialect", "shapes": "--shape", "all_variants": "--all-variants",
               "page": "--page", "bundle": "--bundle"}  # fmt: skip
    for name, option in options.items():
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{option} is for web pages; --to rust does without")


def _write_crate(
    folder: Path, chosen: list[str], short: list[str], tuning: str, force: bool
) -> None:
    from pykernels.export._rust import collect_crate
    from pykernels.export._write import write

    done = collect_crate(chosen, short, tuning=tuning, watch=_watched)
    write(folder, done.files, force=force)
    size = sum(len(text.encode()) for text in done.files.values())
    kernels = "1 kernel" if len(chosen) == 1 else f"{len(chosen)} kernels"
    click.echo(
        f"a crate of {kernels}, {len(done.variants)} variants ({size / 1e6:.1f} MB) in {folder}"
    )


def _watched(label: str, items: Sequence[str]) -> Iterable[str]:
    """Yield the items; on a terminal, a progress bar shows n of m and the remaining time."""
    if not sys.stderr.isatty():
        return items
    return _bar(label, items)


def _bar(label: str, items: Sequence[str]) -> Iterator[str]:
    with click.progressbar(items, label=label, show_pos=True, file=sys.stderr) as bar:
        yield from bar


def _request(text: str, chosen: list[str], known: dict[str, Any]) -> Request:
    from pykernels.export._layouts import parse

    name, _, rest = text.strip().partition(" ")
    if name not in chosen:
        raise Missing(f"--shape {text!r}: {name!r} is not among {', '.join(chosen)}")
    return parse(name, rest, known[name])
