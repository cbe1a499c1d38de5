"""The command line: each command has a module with a click command named `command`.

No module here imports numpy, wgpu or a kernel before its command runs, so that `--help` is fast.
Exit codes: 0 for success, 1 if a check failed, 2 for wrong use or if something is missing.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import click

from pykernels._version import __version__
from pykernels.errors import PyKernelsError

__all__ = ["Missing", "main"]


class Missing(click.ClickException):
    """Ends a command with a message in one line and exit code 2."""

    exit_code = 2


class Commands(click.Group):
    """Finds its commands among the modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = (m.name for m in pkgutil.iter_modules(__path__))
        return sorted(n for n in names if not n.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f".{cmd_name}", __name__).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PyKernelsError as e:
            raise Missing(" ".join(str(e).split())) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pykernels")
def main() -> None:
    """GPU compute kernels in WGSL for Python."""
