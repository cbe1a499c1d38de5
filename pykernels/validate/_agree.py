"""Softens errors on constructs that one compiler lacks and the other compiler supports.

naga and Tint know different parts of WGSL. If one of them stops at an unknown construct and the
other accepts the text, the text is right and the first compiler lacks the construct.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ._lints import SWIZZLE
from ._types import LACKS, Finding, Severity, Source, knows

__all__ = ["agree"]

_COMPILERS = ("naga", "tint")
# Patterns of a compiler's messages, each with the construct that it names; `{}` stands for a name.
_DIRECTIVES = {
    "naga": (
        (r"`(\w+)` enable-extension|enable-extension `(\w+)`", "`enable {}`"),
        (r"`(\w+)` language extension|language extension `(\w+)`", "`requires {}`"),
    ),
    "tint": (
        (r"extension '(\w+)' is not allowed in the current environment", "`enable {}`"),
        (r"feature '(\w+)' is not supported", "`requires {}`"),
    ),
}
_WORDS = {
    "naga": (
        (r"no definition in scope for identifier: `(\w+)`", "`{}`"),
        (r"unknown [\w ]+: (`\w+`)", "{}"),
        (r"is a pointer of space \w+ .*can't be passed", "such pointers as parameters"),
    ),
    "tint": (
        (r"unresolved [\w ]+ '(\w+)'", "`{}`"),
        (r"use of '(\w+)' requires the '\w+' ?language feature", "`{}`"),
    ),
}
_ENABLED = re.compile(r"\benable\s[^;]*$")
_WORD = re.compile(r"\w+")


def agree(
    sources: Sequence[Source], findings: Sequence[Finding], versions: Mapping[str, str]
) -> list[Finding]:
    """The findings, but without errors for a construct that one compiler lacks, if the other
    compiler accepts the text.

    `versions` names the validators that ran. An unknown directive becomes a note, and an unknown
    construct a warning, because the text may have to run with both compilers.
    """
    if not versions.keys() >= set(_COMPILERS):
        return list(findings)
    by_name = {s.name: s for s in sources}
    errors: dict[tuple[str, str], list[Finding]] = {}
    for f in findings:
        if f.severity == "error" and f.validator in _COMPILERS:
            errors.setdefault((f.source, f.validator), []).append(f)
    said: dict[Finding, Finding | None] = {}
    for (name, compiler), found in errors.items():
        other = "tint" if compiler == "naga" else "naga"
        source = by_name[name]
        if any(f.code for f in found) or not knows(other, source):
            continue
        told = _lacking(compiler, found, source, errors.get((name, other), []))
        if told is None:
            continue
        severity, what = told
        who = f"{compiler} {_short(versions[compiler])}"
        message = f"{who} has no {what}: {other} alone checked this text"
        said.update(dict.fromkeys(found))
        said[found[0]] = replace(found[0], severity=severity, message=message, code=LACKS)
    return [kept for f in findings if (kept := said.get(f, f)) is not None]


def _lacking(
    compiler: str, found: Sequence[Finding], source: Source, others: Sequence[Finding]
) -> tuple[Severity, str] | None:
    """The construct that a compiler lacks, with a severity; None if the errors are about anything
    else."""
    first = found[0]
    if directive := _directive(compiler, first, source):
        strange = any((f.line, f.column) == (first.line, first.column) for f in others)
        return None if strange else ("note", directive)
    if others:
        return None
    names = [_named(_WORDS[compiler], f.message) or _swizzle(f, source) for f in found]
    return ("warning", names[0]) if names[0] and all(names) else None


def _directive(compiler: str, f: Finding, source: Source) -> str | None:
    if named := _named(_DIRECTIVES[compiler], f.message):
        return named
    line = _line(source, f)
    if compiler == "tint" and f.message.startswith("expected extension"):
        name = _WORD.match(line, f.column - 1)
        return f"`enable {name[0]}`" if name and _ENABLED.search(line[: f.column - 1]) else None
    return None


def _named(table: Sequence[tuple[str, str]], message: str) -> str | None:
    for pattern, what in table:
        if m := re.search(pattern, message):
            return what.format(next(filter(None, m.groups()), ""))
    return None


def _swizzle(f: Finding, source: Source) -> str | None:
    if f.message != "invalid left-hand side of assignment":
        return None
    return "assignments to swizzles" if SWIZZLE.search(_line(source, f)) else None


def _line(source: Source, f: Finding) -> str:
    lines = source.text.split("\n")
    return lines[f.line - 1] if f.line <= len(lines) else ""


def _short(version: str) -> str:
    """The part of a version that messages show: naga's major version, or the first two numbers of
    wgpudawn's."""
    parts = version.split(".")
    return ".".join(parts[:2] if parts[0] == "0" else parts[:1])
