"""pykernels build"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

__all__ = ["command"]


@click.command("build")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), required=True,
              metavar="PACKAGE", help="The folder of the package: mypkg/_kernels.")  # fmt: skip
@click.option("--check", is_flag=True,
              help="Write nothing; exit with 1 if the files are out of date.")  # fmt: skip
@click.option("--watch", "watching", is_flag=True, help="Build again whenever a file is saved.")
@click.option("--require", is_flag=True, help="Fail where naga or Tint is missing.")
@click.option("--no-validate", is_flag=True, help="Render and write only.")
def command(
    folder: Path, into: Path, check: bool, watching: bool, require: bool, no_validate: bool
) -> None:
    """Make a typed package of the kernel sources in FOLDER.

    Each NAME.wgsl with a spec block becomes a function NAME of the package, which needs only
    pykernels. naga and Tint validate the texts, if they are installed.

    \b
    Exit codes:
      0  the package matches the sources
      1  a source does not build; with --check, files are out of date
      2  wrong use, or something is missing
    """
    from pykernels.own import SourceError, build_package

    if require and no_validate:
        raise click.UsageError("--require and --no-validate exclude each other")
    if watching and check:
        raise click.UsageError("--watch and --check exclude each other")
    how: Literal["auto", "require", "skip"] = "auto"
    how = "require" if require else "skip" if no_validate else how
    if watching:
        _watch(folder, into, how)
        return
    try:
        built = build_package(folder, into, validate=how, check=check, report=click.echo)
    except SourceError as e:
        click.echo(f"error: {e}", err=True)
        raise SystemExit(1) from None
    if built.difference:
        click.echo(built.difference)
        click.echo(
            f"error: {into.as_posix()} is out of date: run pykernels build {folder.as_posix()} "
            f"--into {into.as_posix()}",
            err=True,
        )
        raise SystemExit(1)
    wrote = "up to date" if check else f"{len(built.written)} files written"
    click.echo(f"{into.as_posix()}: {len(built.kernels)} kernels, {built.texts} texts, {wrote}")


def _watch(folder: Path, into: Path, how: Literal["auto", "require", "skip"]) -> None:
    """Build again after each change, until Ctrl-C."""
    from pykernels.own import SourceError
    from pykernels.own.watch import watch

    try:
        for found in watch(folder, into, validate=how, report=lambda line: None):
            if isinstance(found, SourceError):
                click.echo(f"error: {found}", err=True)
            else:
                click.echo(f"{len(found.kernels)} kernels, {len(found.written)} files written")
    except KeyboardInterrupt:
        click.echo("")
