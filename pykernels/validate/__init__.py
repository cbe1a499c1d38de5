"""Validation of WGSL texts: naga, Tint and our own lints behind one protocol.

    from pykernels.validate import Lints, Source, find_naga, find_tint, validate

    sources = [Source("mine", open("mine.wgsl").read())]
    found = [v for v in (find_naga(), find_tint(), Lints()) if v is not None]
    for finding in validate(sources, found):
        print(finding)

naga and Tint accept two dialects. Each validator checks the part of a text that it supports. A
construct that one compiler lacks and the other accepts gives a note or a warning, not an error. The
package imports neither wgpu nor numpy nor generated modules, so the build can use it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from ._agree import agree
from ._features import lacking
from ._lints import CODES, FLOW, OPINIONS, Lints
from ._naga import Naga, TranslationError, find_naga
from ._tint import Tint, find_tint
from ._types import LACKS, TARGETS, Finding, Limits, Source, Target, Validator, knows

__all__ = [
    "CODES",
    "FLOW",
    "LACKS",
    "OPINIONS",
    "TARGETS",
    "Finding",
    "Limits",
    "Lints",
    "Naga",
    "Source",
    "Target",
    "Tint",
    "TranslationError",
    "Validator",
    "agree",
    "arrange",
    "find_naga",
    "find_tint",
    "knows",
    "validate",
]


def validate(
    sources: Sequence[Source],
    validators: Sequence[Validator],
    *,
    features: Collection[str] | None = None,
) -> list[Finding]:
    """Validate the sources. Returns findings in the order of the sources, then by line.

    `features` are the features of the device (``shader-f16``, ``bgra8unorm-storage``): a text that
    needs another feature gets an error. With None, each text may use the features that it enables.
    """
    found = [f for validator in validators for f in validator.check(sources)]
    said = agree(sources, found, {v.name: v.version for v in validators})
    return arrange(sources, [*lacking(sources, features), *said])


# Lints that replace a compiler's message; they are dropped if the compiler reports the same fault.
_STANDS_IN = {"PK007": "tint", "PK010": "naga", "PK011": "tint"}
# Lints for limits that Tint's pipelines check as well; the lints report a more exact position.
_OF_LIMITS = {"PK003", "PK004", "PK005", "PK012", "PK013"}
_SHOWN = re.compile(r"^ *(\d+)(?: │|:\d)", re.MULTILINE)


def arrange(sources: Sequence[Source], findings: Sequence[Finding]) -> list[Finding]:
    """Findings in the order of the sources, then by line, without duplicates."""
    order = {source.name: index for index, source in reversed(list(enumerate(sources)))}
    said = {
        (f.source, f.line, f.validator)
        for f in findings
        if f.severity == "error" or f.code == LACKS
    }
    kept = [f for f in findings if (f.source, f.line, _STANDS_IN.get(f.code, "")) not in said]
    return sorted(_once(kept), key=lambda f: (order[f.source], f.line))


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without duplicates: limits that a lint also reports are dropped from Tint's, and
    an error that naga and Tint both report is listed once."""
    errors: dict[tuple[str, str], list[Finding]] = {}
    for f in findings:
        if f.severity == "error" and not f.code.startswith("translate"):
            errors.setdefault((f.source, f.validator), []).append(f)
    said: dict[Finding, Finding | None] = {}
    for (source, validator), found in errors.items():
        if validator == "tint":
            limits = [f for f in errors.get((source, "lint"), ()) if f.code in _OF_LIMITS]
            for f in found:
                if any(_same_limit(limit, f) for limit in limits):
                    said[f] = None
                elif twins := [
                    n
                    for n in errors.get((source, "naga"), ())
                    if n not in said and _same_fault(n, f)
                ]:
                    # Tint's position is kept, because Tint points at the operand, and naga at the
                    # whole statement.
                    said[f] = replace(f, validator="naga, tint")
                    said.update(dict.fromkeys(twins))
    return [kept for f in findings if (kept := said.get(f, f)) is not None]


def _same_fault(naga: Finding, tint: Finding) -> bool:
    """True if both compilers stop at the same place, or if naga's error has no place."""
    lines = [{f.line, *map(int, _SHOWN.findall(f.detail))} for f in (naga, tint)]
    return "┌─" not in naga.detail or any(abs(a - b) <= 1 for a in lines[0] for b in lines[1])


def _same_limit(lint: Finding, tint: Finding) -> bool:
    """True if Tint's error about a pipeline names the number that the lint has counted."""
    return "maximum" in tint.message and lint.message.split()[0] in re.findall(r"\d+", tint.message)
