"""Findings as text, as JSON, as annotations for GitHub and as SARIF."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import get_args
from urllib.parse import quote

from .._version import __version__
from ._baseline import excerpt
from ._files import Skipped
from ._types import Finding, Severity, printable

__all__ = ["FORMATS", "Report"]


# GitHub's words for severities.
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


@dataclass(frozen=True)
class Report:
    """The findings of a run, the number of its texts, and its validators."""

    findings: Sequence[Finding]
    skipped: Sequence[Skipped]
    checked: int  # the number of texts, including those that could not be checked
    validators: dict[str, str]  # the version of each validator, by its name
    texts: Mapping[str, str] = field(default_factory=dict)  # the texts, by the names of sources
    known: int = 0  # the number of findings that are left out, because the baseline has them
    left_out: Sequence[str] = ()  # folders whose files were not checked

    def summary(self) -> str:
        kinds = Counter(f.severity for f in self.findings)
        counts = {k: f"{kinds[k]} {k}{'s' * (kinds[k] != 1)}" for k in get_args(Severity)}
        where = len({f.source for f in self.findings})
        if not kinds["note"]:
            del counts["note"]
        if kinds["error"] or not self.checked:
            lines = f"{', '.join(counts.values())} in {where} of {self.checked} shaders"
        else:
            lines = f"All {self.checked} shaders valid" if self.checked > 1 else "1 shader valid"
            if self.findings:
                lines += f", {', '.join(counts[k] for k in counts if kinds[k])} in {where}"
        tools = ", ".join(f"{n} {v}" for n, v in self.validators.items())
        lines += f" ({tools})"
        if self.skipped:
            lines += f"; {len(self.skipped)} skipped, not checked"
        if self.left_out:
            count = len(self.left_out)
            lines += f"; {count} folder{'s' * (count != 1)} left out"
        if self.known:
            lines += f"; {self.known} known"
        return lines


def as_text(report: Report) -> str:
    lines = [line for f in report.findings for line in (str(f), *_shown(report, f))]
    lines += [f"{s.file}: skipped: {s.reason}" for s in report.skipped]
    return "\n".join([*lines, report.summary()])


_LONGEST = 200  # most characters of a shown line


def _shown(report: Report, f: Finding) -> list[str]:
    """The line of a finding, and a caret below its column."""
    line = excerpt(report.texts, f).rstrip().replace("\t", " ")
    if not line.strip() or len(line) > _LONGEST or f.column > len(line) + 1:
        return []
    indent = len(line) - len(line.lstrip())
    cut = min(indent, f.column - 1)
    return [f"    {printable(line[cut:])}", f"    {' ' * (f.column - 1 - cut)}^"]


def as_json(report: Report) -> str:
    return json.dumps(
        {
            "findings": [
                {"file": f.source, **_without_source(f), "excerpt": excerpt(report.texts, f)}
                for f in report.findings
            ],
            "skipped": [asdict(s) for s in report.skipped],
            "checked": report.checked,
            "known": report.known,
            "left_out": list(report.left_out),
            "validators": report.validators,
        },
        indent=1,
    )


def as_github(report: Report) -> str:
    """GitHub's workflow commands: annotations on the lines of a pull request, and a summary."""
    lines = [
        f"::{_LEVELS[f.severity]} file={_property(f.source)},line={f.line},col={f.column},"
        f"title={_property(f'{f.validator} {f.code}'.strip())}::{_data(f.message)}"
        for f in report.findings
    ]
    lines += [
        f"::notice file={_property(s.file)},title=skipped::{_data(s.reason)}"
        for s in report.skipped
    ]
    return "\n".join([*lines, report.summary()])


def as_sarif(report: Report) -> str:
    """The findings as SARIF 2.1.0, which GitHub's code scanning and editors read."""
    rules = sorted({_rule(f) for f in report.findings})
    results = [
        {
            "ruleId": _rule(f),
            "level": f.severity,
            "message": {"text": f.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(f.source)},
                        "region": {"startLine": f.line, "startColumn": f.column},
                    }
                }
            ],
        }
        for f in report.findings
    ]
    driver = {"name": "pykernels validate", "version": __version__,
              "rules": [{"id": rule} for rule in rules]}  # fmt: skip
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1)


def _rule(f: Finding) -> str:
    return f.code or f.validator.replace(", ", "+")


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
}


def _without_source(f: Finding) -> dict[str, object]:
    return {k: v for k, v in asdict(f).items() if k != "source"}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
