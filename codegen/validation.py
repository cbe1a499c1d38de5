"""Validates rendered texts with naga, Tint and the lints; findings name the lines of templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from pykernels.validate import (
    FLOW,
    LACKS,
    Finding,
    Lints,
    Source,
    Validator,
    arrange,
    find_naga,
    find_tint,
    knows,
)
from pykernels.validate._apart import TIMEOUT
from pykernels.validate._cache import Cache

from .errors import BuildError
from .progress import Part, told
from .variants import Variant, instrumented

__all__ = ["validated", "versions_here"]

AT_ONCE = 32  # number of texts that are validated before the clock is read again


def validated(
    variants: Sequence[Variant],
    require: bool,
    report: Callable[[str], None],
    memory: Path | None = None,
) -> dict[str, str]:
    """The versions of the validators that found no error; BuildError for the first error.

    `memory` is a folder of verdicts: a text with a verdict there is not validated again.
    """
    variants = [*variants, *(instrumented(v.debug) for v in variants if v.debug is not None)]
    validators = _found()
    missing = sorted({"naga", "tint"} - {v.name for v in validators})
    if missing and require:
        raise BuildError("codegen", 0, f"validator not found: {', '.join(missing)}")
    if len(missing) == 2:
        report("pykernels: WARNING: neither naga nor Tint was found, NOTHING WAS VALIDATED")
    # Our own texts must work with both compilers, so a construct that one compiler lacks is an
    # error here.
    findings = [
        f
        for f in _findings(variants, validators, report, memory)
        if f.severity == "error" or f.code == LACKS
    ]
    if findings:
        first = findings[0]
        for f in findings[:20]:
            report(str(f))
        raise BuildError(
            first.source, first.line, f"{first.message} [{first.validator}]"
            + (f"; and {len(findings) - 1} more" if len(findings) > 1 else ""),
        )  # fmt: skip
    checked = ", ".join(f"{v.name} {v.version}" for v in validators)
    report(f"pykernels: validated with {checked}" + (f"; not found: {missing}" if missing else ""))
    return {v.name: v.version for v in validators}


def versions_here() -> dict[str, str]:
    """The validators that are installed, with their versions."""
    return {v.name: v.version for v in _found()}


def _found() -> list[Validator]:
    # Lints for control flow take as long as Tint, so only ci/validate.sh runs them.
    found: list[Validator] = [Lints(ignore=FLOW)]
    for finder in (find_naga, find_tint):
        validator = finder()
        if validator is not None:
            found.append(validator)
    return found


def _findings(
    variants: Sequence[Variant],
    validators: Sequence[Validator],
    report: Callable[[str], None],
    memory: Path | None,
) -> list[Finding]:
    """The findings of the validators, with file and line of the template in the message."""
    by_name = {v.name: v for v in variants}
    # Equal texts are checked once: the first variant's name stands for all of them.
    texts: dict[str, Variant] = {}
    for v in variants:
        texts.setdefault(v.text, v)
    sources = [Source(v.name, text, v.limits, v.features) for text, v in texts.items()]
    checked = _checked(sources, validators, report)
    if memory is not None:
        options = [f"{v.name} {v.version}" for v in validators]
        checked = _remembered(sources, Cache(memory, "codegen", options), validators, report)
    out = []
    for f in (f for _, found in checked for f in found):
        file, line = by_name[f.source].where(f.line)
        message = f"{f.message} (in {f.source}, line {f.line} of the rendered text)"
        out.append(replace(f, source=file, line=line, message=message))
    return out


_Checked: TypeAlias = Iterator[tuple[Source, list[Finding]]]


def _remembered(
    sources: Sequence[Source],
    cache: Cache,
    validators: Sequence[Validator],
    report: Callable[[str], None],
) -> _Checked:
    """The same as `_checked`, but texts that all of these validators have seen are not validated
    again."""
    known = [(s, cache.get(s)) for s in sources]
    new = [s for s, found in known if found is None]
    if len(new) < len(sources):
        report(
            f"pykernels: {len(sources) - len(new)} of {len(sources)} texts were validated before"
        )
    yield from ((s, found) for s, found in known if found is not None)
    for source, found in _checked(new, validators, report):
        if all(f.code != TIMEOUT for f in found):
            cache.put(source, found)
        yield source, found
    cache.save()


def _checked(
    sources: Sequence[Source], validators: Sequence[Validator], report: Callable[[str], None]
) -> _Checked:
    """Each text with the findings of all validators, in the order of the texts."""
    together = [v for v in validators if v.name == "naga"]  # naga gets many texts in one process
    # these run in this process and share the measurements of a text
    alone = [v for v in validators if v.name != "naga"]
    chunks = [sources[i : i + AT_ONCE] for i in range(0, len(sources), AT_ONCE)]
    parts = [Part(len(chunk), sum(len(s.text) for s in chunk)) for chunk in chunks]
    for index in told(parts, "texts validated", report):
        chunk = chunks[index]
        known = {v.name: [s for s in chunk if knows(v.name, s)] for v in validators}
        said = [f for v in together for f in v.check(known[v.name])]
        # All texts with matrix units are checked in one separate process; the docstring of `Tint`
        # says why.
        apart = [s for s in chunk if not knows("naga", s)]
        for group in (*([s] for s in chunk if s not in apart), apart):
            said += [f for v in alone for f in v.check([s for s in group if s in known[v.name]])]
        by_name: dict[str, list[Finding]] = {s.name: [] for s in chunk}
        for f in arrange(chunk, said):
            by_name[f.source].append(f)
        yield from ((s, by_name[s.name]) for s in chunk)
