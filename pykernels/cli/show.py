"""pykernels show"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pykernels.wgsl.texts import wgsl

from . import Missing
from ._manifest import kernel, manifest

if TYPE_CHECKING:
    from pykernels.validate import Target

__all__ = ["command"]

TARGETS = ("wgsl", "spv", "msl", "hlsl", "glsl")
_MODES = ("read", "rw", "merged")


@click.command("show")
@click.argument("name", metavar="KERNEL")
@click.option("--dtype", metavar="DTYPE", help="The output's dtype, for example f16.")
@click.option(
    "--axis", "axes", metavar="NAME=VALUE", multiple=True,
    help="A compile-time choice, for example VEC=4 or mode=rw. May be repeated.",
)  # fmt: skip
@click.option("--body", metavar="BODY", help="One of the bodies of a kernel that has several.")
@click.option("--to", type=click.Choice(TARGETS), default="wgsl", help="Translate through naga.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--variants", is_flag=True, help="List the variants that match instead.")
def command(
    name: str,
    dtype: str | None,
    axes: tuple[str, ...],
    body: str | None,
    to: Literal["wgsl"] | Target,
    output: Path | None,
    variants: bool,
) -> None:
    """Print the shader of one variant of KERNEL: the first variant that matches the options."""
    built = manifest()
    facts = kernel(name)
    if dtype is not None:
        from pykernels.dtypes import dtype_of

        dtype = dtype_of(dtype, "--dtype").name
    bodies = facts["bodies"]
    if body is not None:
        if body not in bodies:
            raise Missing(f"{name} has no body {body!r}; it has {', '.join(bodies)}")
        bodies = [body]
    wanted = dict(_pair(a) for a in axes) | facts["fixed_axes"]
    found = [v for b in bodies for v in _matching(built, b, dtype, wanted)]
    if not found:
        axes_of = "; ".join(_axes(built, b) for b in bodies)
        raise Missing(f"no variant of {name} matches; its axes are {axes_of}")
    if variants:
        click.echo("\n".join(found))
        return
    text = wgsl(found[0])
    if to == "wgsl":
        data = f"// {found[0]}\n{text}".encode()
    else:
        data = _translated(found[0], text, to)
    if output is not None:
        output.write_bytes(data)
    elif to == "spv" and _is_terminal():
        raise click.UsageError("SPIR-V is binary: give -o FILE, or redirect the output")
    else:
        click.echo(data, nl=False)
    if len(found) > 1:
        click.echo(
            f"{found[0]}; {len(found) - 1} more variants match: choose with --axis and --dtype, "
            "or list them with --variants",
            err=True,
        )


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--axis must be NAME=VALUE but is {text!r}")
    return name, value


def _matching(
    built: dict[str, Any], body: str, dtype: str | None, wanted: dict[str, str]
) -> list[str]:
    """The matching variants of a body, sorted by mode, then by the value of each axis."""
    info = built["bodies"][body]
    if dtype is not None:
        if not info["dtype_axes"]:
            return []
        wanted = wanted | {info["dtype_axes"][0]: built["dtypes"][dtype]}
    axes: dict[str, list[Any]] = info["axes"]

    def rank(name: str) -> list[int]:
        v = built["variants"][name]
        return [_MODES.index(v["mode"]), *(axes[a].index(v["axes"][a]) for a in axes)]

    def matches(v: dict[str, Any]) -> bool:
        own = {k: str(value).lower() for k, value in v["axes"].items()} | {"mode": v["mode"]}
        return v["body"] == body and all(own.get(k) == w.lower() for k, w in wanted.items())

    return sorted((n for n, v in built["variants"].items() if matches(v)), key=rank)


def _axes(built: dict[str, Any], body: str) -> str:
    axes = built["bodies"][body]["axes"].items()
    named = " ".join(f"{k}={','.join(str(v) for v in values)}" for k, values in axes)
    return f"{body}: {named} mode={','.join(_MODES)}"


def _translated(name: str, text: str, to: Target) -> bytes:
    from pykernels.validate import Source, find_naga

    naga = find_naga()
    if naga is None:
        raise Missing(
            f"--to {to} needs naga-cli: cargo install naga-cli --version 29.0.4, "
            "or let PYKERNELS_NAGA name the binary"
        )
    return naga.translate(Source(name, text), to)
