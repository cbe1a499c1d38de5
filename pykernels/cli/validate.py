"""pykernels validate"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import click

from . import Missing

if TYPE_CHECKING:
    from pykernels.validate import Target
    from pykernels.validate._pool import Checker

__all__ = ["command"]

_VALIDATORS = ("naga", "tint", "lint")
_TARGETS = ("spv", "msl", "hlsl", "glsl")
_HOW = {
    "naga": "cargo install naga-cli --version 29.0.4, or let PYKERNELS_NAGA name the binary",
    "tint": "pip install 'pykernels[validate]'",
}


def _names(option: str, given: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """Names with commas between them, each once."""
    names = dict.fromkeys(n.strip() for text in given for n in text.split(",") if n.strip())
    for n in names:
        if n not in known:
            raise click.UsageError(f"{option}: {n!r} is not one of {', '.join(known)}")
    return list(names)


@click.command("validate")
@click.argument("paths", nargs=-1, metavar="[FILE or FOLDER or -]...")
@click.option("--with", "tools", metavar=",".join(_VALIDATORS), multiple=True,
              help="Use these validators. Default: every one that is found.")  # fmt: skip
@click.option("--to", "targets", metavar=",".join(_TARGETS), multiple=True,
              help="Prove the translation by naga, too.")  # fmt: skip
@click.option(
    "--limits",
    metavar="webgpu|FILE",
    help="Check against WebGPU's guaranteed limits, or those of a JSON or TOML file.",
)
@click.option("--ignore", metavar="CODES", default="", help="Leave out lints: PK009,PK012")
@click.option("--level", type=click.Choice(["warning", "error"]), default="warning",
              help="The least severity that is reported.")  # fmt: skip
@click.option("--strict", is_flag=True,
              help="Exit with 1 for warnings and skipped files, too.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json", "github"]), default="text")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--jobs", type=click.IntRange(1), help="Processes. Default: one for each core.")
@click.option("--no-cache", is_flag=True, help="Forget what earlier runs found.")
def command(
    paths: tuple[str, ...],
    tools: tuple[str, ...],
    targets: tuple[str, ...],
    limits: str | None,
    ignore: str,
    level: str,
    strict: bool,
    form: str,
    as_json: bool,
    jobs: int | None,
    no_cache: bool,
) -> None:
    """Validate WGSL with naga, Tint and lints; without arguments, the installed kernels.

    A folder stands for the *.wgsl files in it, - for standard input. A comment `// pykernels:
    ignore PK008` silences a lint on its line, or on the line below it.

    \b
    Exit codes:
      0  no errors; there may be warnings
      1  errors; with --strict also warnings and skipped files
      2  wrong use, or a tool is missing
    """
    from pykernels.validate import OPINIONS, arrange
    from pykernels.validate._cache import default_folder
    from pykernels.validate._files import MOST_BYTES, collection, fragments, gather, read_limits
    from pykernels.validate._pool import check
    from pykernels.validate._report import FORMATS, Report

    wanted = cast("list[Target]", _names("--to", targets, _TARGETS))
    # House rules are for the house.
    silent = tuple(sorted({*_codes(ignore), *(OPINIONS if paths else ())}))
    checkers = _checkers(_names("--with", tools, _VALIDATORS), wanted, silent)
    declared = read_limits(limits) if limits else None
    if paths:
        stdin = sys.stdin.buffer.read(MOST_BYTES + 1) if "-" in paths else b""
        sources, skipped, unfit = gather(paths, declared, stdin)
    else:
        sources, skipped, unfit = collection(declared), [], []
    if not sources and not skipped and not unfit:
        what = "there is no .wgsl file there" if paths else "nothing was built"
        raise Missing(f"{what}: nothing to validate")
    findings = check(
        sources, checkers, cache=None if no_cache else default_folder(), jobs=jobs or 0
    )
    findings, pieces = fragments(sources, arrange(sources, findings))
    findings = [*unfit, *findings]
    kept = [f for f in findings if level == "warning" or f.severity == "error"]
    used = {c.name: c.version for c in checkers}
    report = Report(kept, [*skipped, *pieces], len(sources) + len(unfit) - len(pieces), used)
    click.echo(FORMATS["json" if as_json else form](report))
    if any(f.severity == "error" for f in kept) or (strict and (kept or report.skipped)):
        raise SystemExit(1)


def _codes(ignore: str) -> tuple[str, ...]:
    from pykernels.validate import CODES

    codes = tuple(sorted({c.strip().upper() for c in ignore.split(",") if c.strip()}))
    for c in codes:
        if c not in CODES:
            raise click.UsageError(f"--ignore: there is no lint {c}; there are {', '.join(CODES)}")
    return codes


def _checkers(named: list[str], targets: list[Target], ignore: tuple[str, ...]) -> list[Checker]:
    """The validators to use; those that were named, or that --to needs, must be there."""
    from pykernels.validate import Lints, find_naga, find_tint
    from pykernels.validate._pool import Checker

    needed = {*named, *(["naga"] if targets else [])}
    found: list[Checker] = []
    for name, finder in (("naga", find_naga), ("tint", find_tint)):
        if named and name not in needed:
            continue
        tool = finder()
        if tool is not None:
            of_naga = tuple(targets) if name == "naga" else ()
            found.append(Checker(name, tool.version, of_naga))
        elif name in needed:
            raise Missing(f"{name} is not here: {_HOW[name]}")
    if not found and not named:
        raise Missing(
            f"neither naga nor Tint is here: {_HOW['naga']}; {_HOW['tint']}; "
            "or --with lint for the lints alone"
        )
    if not named or "lint" in needed:
        found.append(Checker("lint", Lints.version, (), ignore))
    return found
