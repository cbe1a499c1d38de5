"""pykernels new"""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["command"]


@click.command("new")
@click.argument("name")
@click.option("--kind", type=click.Choice(["row", "pass", "tile"]), default="pass",
              show_default=True, help="row: a workgroup for each row; pass: an invocation for each "
              "element; tile: a workgroup for each tile, and a plan.")  # fmt: skip
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default="shaders",
              show_default=True, metavar="FOLDER", help="The folder of sources.")  # fmt: skip
def command(name: str, kind: str, into: Path) -> None:
    """Write the files of a new kernel NAME that already runs: source, reference, test, and a plan.

    The files are an example of the chosen kind; change them as you need.
    """
    from pykernels.own.new import write_kernel

    for path in write_kernel(into, name, kind):
        click.echo(path.as_posix())
    click.echo(
        f"python -m pytest {into.as_posix()}/tests/test_{name}.py   # compares it with numpy\n"
        f"pykernels build {into.as_posix()} --into PACKAGE/_kernels   # makes a package"
    )
