"""The options of `pykernels bench --sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from . import Missing

if TYPE_CHECKING:
    from pykernels.bench.sweep import SweepCase

__all__ = ["cases", "check", "set_defaults"]

SOFTWARE = 1 << 20  # on a software driver, calls with more bytes are left out
OTHERS = {
    "module": "--module", "families": "--family", "shapes": "--shape", "dtypes": "--dtype",
    "configs": "--config", "against": "--against",
}  # fmt: skip


def check(names: tuple[str, ...], options: dict[str, Any]) -> None:
    """Refuse options that choose cases, because a sweep has its own cases."""
    if not options["sweep"]:
        if options["limit_bytes"]:
            raise click.UsageError("--limit-bytes needs --sweep")
        return
    from pykernels.bench.sweep import FAMILIES

    if options["sweep"] not in (*FAMILIES, "all"):
        known = ", ".join(FAMILIES)
        raise Missing(f"there is no sweep {options['sweep']!r}; there are {known}, all")
    ignored = [*names, *(text for name, text in OTHERS.items() if options[name])]
    if ignored:
        raise click.UsageError(f"--sweep cannot be combined with {', '.join(ignored)}")


def set_defaults(options: dict[str, Any], slow: bool) -> None:
    """Set the defaults of a sweep: all calls of a case use the same tensors, there is one pass, and
    a software driver gets no large tensors."""
    context = click.get_current_context()
    if context.get_parameter_source("cache") is not ParameterSource.COMMANDLINE:
        options["cache"] = "hot"
    options["passes"] = options["passes"] or 1
    if slow and options["limit_bytes"] is None:
        options["limit_bytes"] = SOFTWARE
        click.echo("a software driver: tensors of up to 1 MiB (--limit-bytes for more)", err=True)


def cases(options: dict[str, Any]) -> list[SweepCase]:
    from pykernels.bench.sweep import chosen

    return chosen(options["sweep"], options["only"], options["limit_bytes"])
