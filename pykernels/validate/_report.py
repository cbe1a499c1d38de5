"""Findings as text, as JSON and as annotations of GitHub's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from ._files import Skipped
from ._types import Finding

__all__ = ["FORMATS", "Report"]


@dataclass(frozen=True)
class Report:
    """What a run found, of how many texts, with which validators."""

    findings: Sequence[Finding]
    skipped: Sequence[Skipped]
    checked: int  # and those that could not be, an error each
    validators: dict[str, str]  # name: version

    def summary(self) -> str:
        kinds = Counter(f.severity for f in self.findings)
        counts = {k: f"{kinds[k]} {k}{'s' * (kinds[k] != 1)}" for k in ("error", "warning")}
        where = len({f.source for f in self.findings})
        if kinds["error"] or not self.checked:
            lines = f"{', '.join(counts.values())} in {where} of {self.checked} shaders"
        else:
            lines = f"All {self.checked} shaders valid" if self.checked > 1 else "1 shader valid"
            if kinds["warning"]:
                lines += f", {counts['warning']} in {where}"
        tools = ", ".join(f"{n} {v}" for n, v in self.validators.items())
        lines += f" ({tools})"
        if self.skipped:
            lines += f"; {len(self.skipped)} skipped, not checked"
        return lines


def as_text(report: Report) -> str:
    lines = [str(f) for f in report.findings]
    lines += [f"{s.file}: skipped: {s.reason}" for s in report.skipped]
    return "\n".join([*lines, report.summary()])


def as_json(report: Report) -> str:
    return json.dumps(
        {
            "findings": [{"file": f.source, **_without_source(f)} for f in report.findings],
            "skipped": [asdict(s) for s in report.skipped],
            "checked": report.checked,
            "validators": report.validators,
        },
        indent=1,
    )


def as_github(report: Report) -> str:
    """Workflow commands: annotations on the lines of a pull request, and a summary."""
    lines = [
        f"::{f.severity} file={_property(f.source)},line={f.line},col={f.column},"
        f"title={_property(f'{f.validator} {f.code}'.strip())}::{_data(f.message)}"
        for f in report.findings
    ]
    lines += [
        f"::notice file={_property(s.file)},title=skipped::{_data(s.reason)}"
        for s in report.skipped
    ]
    return "\n".join([*lines, report.summary()])


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
}


def _without_source(f: Finding) -> dict[str, object]:
    return {k: v for k, v in asdict(f).items() if k != "source"}


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
