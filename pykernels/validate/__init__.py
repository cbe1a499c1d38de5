"""Validation of WGSL texts: naga, Tint and our own lints behind one protocol.

    from pykernels.validate import Lints, Source, find_naga, find_tint, validate

    sources = [Source("mine", open("mine.wgsl").read())]
    found = [v for v in (find_naga(), find_tint(), Lints()) if v is not None]
    for finding in validate(sources, found):
        print(finding)

naga and Tint speak two dialects (a text that calls subgroup built-ins needs ``enable subgroups;``
for Tint and must not have it for naga): each validator checks the text that it is given.
The package imports neither wgpu nor numpy nor anything generated, so the build can use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._lints import CODES, FLOW, Lints
from ._naga import Naga, TranslationError, find_naga
from ._tint import Tint, find_tint
from ._types import TARGETS, Finding, Limits, Source, Target, Validator

__all__ = [
    "CODES",
    "FLOW",
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
    "arrange",
    "find_naga",
    "find_tint",
    "validate",
]


def validate(sources: Sequence[Source], validators: Sequence[Validator]) -> list[Finding]:
    """What the validators say about the sources, in the order of the sources, then by line."""
    return arrange(sources, [f for validator in validators for f in validator.check(sources)])


# Lints that stand in for a compiler: where it speaks itself, they are silent.
_STANDS_IN = {"PK007": "tint", "PK010": "naga", "PK011": "tint"}


def arrange(sources: Sequence[Source], findings: Sequence[Finding]) -> list[Finding]:
    """Findings in the order of the sources, then by line; none said twice."""
    order = {source.name: index for index, source in reversed(list(enumerate(sources)))}
    said = {(f.source, f.line, f.validator) for f in findings if f.severity == "error"}
    kept = [
        f for f in findings if (f.source, f.line, _STANDS_IN.get(f.code, "")) not in said
    ]  # fmt: skip
    return sorted(kept, key=lambda f: (order[f.source], f.line))
