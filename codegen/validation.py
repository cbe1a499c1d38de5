"""What naga, Tint and the lints say of rendered texts, at the lines of their templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pykernels.validate import FLOW, Finding, Lints, Source, Validator, find_naga, find_tint
from pykernels.validate import validate as run_validators

from .errors import BuildError
from .progress import Part, told
from .variants import Variant

__all__ = ["validated"]

AT_ONCE = 32  # texts between two looks at the clock


def validated(
    variants: Sequence[Variant], require: bool, report: Callable[[str], None]
) -> dict[str, str]:
    """The versions of the validators that found no error; BuildError for the first error."""
    validators = _found()
    missing = sorted({"naga", "tint"} - {v.name for v in validators})
    if missing and require:
        raise BuildError("codegen", 0, f"validator not found: {', '.join(missing)}")
    if len(missing) == 2:
        report("pykernels: WARNING: neither naga nor Tint was found, NOTHING WAS VALIDATED")
    findings = [f for f in _findings(variants, validators, report) if f.severity == "error"]
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


def _found() -> list[Validator]:
    # Lints on control flow take as long as Tint does; ci/validate.sh runs them.
    found: list[Validator] = [Lints(ignore=FLOW)]
    for finder in (find_naga, find_tint):
        validator = finder()
        if validator is not None:
            found.append(validator)
    return found


def _findings(
    variants: Sequence[Variant], validators: Sequence[Validator], report: Callable[[str], None]
) -> list[Finding]:
    """What the validators say, with file and line of the template in the message."""
    by_name = {v.name: v for v in variants}
    # Equal texts are checked once: the first variant's name stands for all of them.
    texts: dict[str, Variant] = {}
    for v in variants:
        texts.setdefault(v.text, v)
    sources = [Source(v.name, text, v.limits, v.features) for text, v in texts.items()]
    out = []
    for f in _checked(sources, validators, report):
        file, line = by_name[f.source].where(f.line)
        message = f"{f.message} (in {f.source}, line {f.line} of the rendered text)"
        out.append(replace(f, source=file, line=line, message=message))
    return out


def _checked(
    sources: Sequence[Source], validators: Sequence[Validator], report: Callable[[str], None]
) -> Iterator[Finding]:
    """What each validator says, some texts at a time, in the order of the texts."""
    chunks = [sources[i : i + AT_ONCE] for i in range(0, len(sources), AT_ONCE)]
    parts = [Part(len(chunk), sum(len(s.text) for s in chunk)) for chunk in chunks]
    for index in told(parts, "texts validated", report):
        for validator in validators:
            yield from run_validators(chunks[index], [validator])
