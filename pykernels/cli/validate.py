"""pykernels validate"""

from __future__ import annotations

import fnmatch
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import click

from . import Missing

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from pykernels.validate import Finding, Source, Target
    from pykernels.validate._files import Skipped
    from pykernels.validate._pool import Checker

__all__ = ["command"]

_VALIDATORS = ("naga", "tint", "lint")
_SEVERITIES = ("note", "warning", "error")
_TARGETS = ("spv", "msl", "hlsl", "glsl")
_HOW = {
    "naga": "cargo install naga-cli --version 29.0.4, or let PYKERNELS_NAGA name the binary",
    "tint": "pip install 'wgpudawn~=0.32.0'",
}


def _names(option: str, given: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    """The names in a list that is separated by commas, each once."""
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
@click.option("--override", "overrides", metavar="[FILES:]NAME=VALUE", multiple=True,
              help="A value for an override, of FILES by pattern. May be repeated.")  # fmt: skip
@click.option("--features", metavar="LIST",
              help="The features of the device: shader-f16,bgra8unorm-storage, or none. Default: "
              "what each text enables.")  # fmt: skip
@click.option("--prepend", "preludes", metavar="[FILES:]FILE", multiple=True,
              help="A file in front of each, or of FILES by pattern. May be repeated.")  # fmt: skip
@click.option("--exclude", metavar="GLOB", multiple=True,
              help="Leave out files and folders by pattern. May be repeated.")  # fmt: skip
@click.option("--baseline", metavar="FILE",
              help="Leave out the findings in FILE, which --json wrote.")  # fmt: skip
@click.option("--ignore", metavar="CODES", default="", help="Leave out lints: PK009,PK012")
@click.option("--level", type=click.Choice(_SEVERITIES), default="note",
              help="The least severity that is reported.")  # fmt: skip
@click.option("--strict", is_flag=True,
              help="Exit with 1 for warnings and skipped files, too.")  # fmt: skip
@click.option("--allow-skip", metavar="GLOB", multiple=True,
              help="With --strict: these files may be skipped. May be repeated.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["text", "json", "github", "sarif"]),
              default="text")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--jobs", type=click.IntRange(1), help="Processes. Default: one for each core.")
@click.option("--no-cache", is_flag=True, help="Forget what earlier runs found.")
def command(
    paths: tuple[str, ...],
    tools: tuple[str, ...],
    targets: tuple[str, ...],
    limits: str | None,
    overrides: tuple[str, ...],
    features: str | None,
    preludes: tuple[str, ...],
    exclude: tuple[str, ...],
    baseline: str | None,
    ignore: str,
    level: str,
    strict: bool,
    allow_skip: tuple[str, ...],
    form: str,
    as_json: bool,
    jobs: int | None,
    no_cache: bool,
) -> None:
    """Validate WGSL with naga, Tint and lints; without arguments, the installed kernels.

    A folder means all *.wgsl files in it, and - means standard input. A comment `// pykernels:
    ignore PK008` silences a lint on its line, or on the line below it.

    \b
    Exit codes:
      0  no errors; there may be warnings and notes
      1  errors; with --strict also warnings and skipped files
      2  wrong use, or a tool is missing
    """
    from pykernels.validate import OPINIONS
    from pykernels.validate._baseline import read_baseline, unknown
    from pykernels.validate._cache import default_folder
    from pykernels.validate._features import read_features
    from pykernels.validate._files import MOST_BYTES, collection, gather, read_limits
    from pykernels.validate._prelude import placed, prepend
    from pykernels.validate._report import FORMATS, Report

    wanted = cast("list[Target]", _names("--to", targets, _TARGETS))
    # Our own rules apply only to our own texts.
    silent = tuple(sorted({*_codes(ignore), *(OPINIONS if paths else ())}))
    checkers = _checkers(_names("--with", tools, _VALIDATORS), wanted, silent)
    declared = read_limits(limits) if limits else None
    device = None if features is None else read_features(features)
    known = read_baseline(baseline) if baseline else None
    left_out: list[str] = []
    if paths:
        stdin = sys.stdin.buffer.read(MOST_BYTES + 1) if "-" in paths else b""
        sources, skipped, unfit = gather(paths, declared, stdin, exclude, left_out)
    else:
        sources, skipped, unfit = collection(declared), [], []
    if not sources and not skipped and not unfit:
        what = "there is no .wgsl file there" if paths else "nothing was built"
        raise Missing(f"{what}: nothing to validate")
    texts = {s.name: s.text for s in sources}
    sources, ahead = prepend(sources, preludes)
    sources = _with_overrides(sources, overrides)
    cache = None if no_cache else default_folder()
    found, pieces = _found(sources, checkers, device, cache, jobs or 0)
    findings = placed([*unfit, *found], ahead)
    fresh = findings if known is None else unknown(findings, texts, known)
    kept = [f for f in fresh if _SEVERITIES.index(f.severity) >= _SEVERITIES.index(level)]
    report = Report(
        kept, [*skipped, *pieces], len(sources) + len(unfit) - len(pieces),
        {c.name: c.version for c in checkers}, texts, len(findings) - len(fresh), left_out,
    )  # fmt: skip
    click.echo(FORMATS["json" if as_json else form](report))
    kinds = {f.severity for f in kept}
    forbidden = [s for s in report.skipped if not _is_any(s.file, allow_skip)]
    if "error" in kinds or (strict and ("warning" in kinds or forbidden)):
        raise SystemExit(1)


def _found(
    sources: list[Source],
    checkers: list[Checker],
    features: Collection[str] | None,
    cache: Path | None,
    jobs: int,
) -> tuple[list[Finding], list[Skipped]]:
    """The findings, and the texts that are not complete modules."""
    from pykernels.validate import agree, arrange
    from pykernels.validate._features import lacking
    from pykernels.validate._files import fragments, templates
    from pykernels.validate._pool import check

    used = {c.name: c.version for c in checkers}
    findings = agree(sources, check(sources, checkers, cache=cache, jobs=jobs), used)
    findings = arrange(sources, [*lacking(sources, features), *findings])
    findings, unrendered = templates(sources, findings, used.keys() & {"naga", "tint"})
    findings, pieces = fragments(sources, findings)
    return findings, [*unrendered, *pieces]


def _is_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _with_overrides(sources: list[Source], given: tuple[str, ...]) -> list[Source]:
    """The sources with values for overrides; an error for an override that no source has."""
    from pykernels.validate._usage import measure, number

    chosen: list[list[tuple[str, str]]] = [[] for _ in sources]
    for text in given:
        where, _, value = text.rpartition("=")
        pattern, _, name = where.rpartition(":")
        try:
            number(value)
        except ValueError:
            message = f"--override: {text!r} must be [FILES:]NAME=VALUE, with a number or a truth"
            raise click.UsageError(message) from None
        found = False
        for source, values in zip(sources, chosen, strict=True):
            if fnmatch.fnmatch(source.name, pattern or "*") and any(
                name in (o.name, o.key) for o in measure(source.text).overrides
            ):
                values.append((name, value))
                found = True
        if not found:
            of = f" of {pattern}" if pattern else ""
            raise click.UsageError(f"--override: no text{of} has an override {name!r}")
    return [replace(s, overrides=tuple(v)) for s, v in zip(sources, chosen, strict=True)]


def _codes(ignore: str) -> tuple[str, ...]:
    from pykernels.validate import CODES

    codes = tuple(sorted({c.strip().upper() for c in ignore.split(",") if c.strip()}))
    for c in codes:
        if c not in CODES:
            raise click.UsageError(f"--ignore: there is no lint {c}; there are {', '.join(CODES)}")
    return codes


def _checkers(named: list[str], targets: list[Target], ignore: tuple[str, ...]) -> list[Checker]:
    """The validators to use; a validator that was named, or that --to needs, must be installed."""
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
