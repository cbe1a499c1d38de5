"""Known findings: the file that `pykernels validate --json` wrote earlier."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ._types import Finding

__all__ = ["excerpt", "read_baseline", "unknown"]

_Known = Counter[tuple[str, ...]]


def excerpt(texts: Mapping[str, str], f: Finding) -> str:
    """The line that a finding points at; "" if there is no such line."""
    lines = texts.get(f.source, "").split("\n")
    return lines[f.line - 1] if f.line <= len(lines) else ""


def read_baseline(file: str) -> _Known:
    """The findings in a file that ``--json`` wrote."""
    try:
        found = json.loads(Path(file).read_text(encoding="utf-8"))["findings"]
        return Counter(_key(f) for f in found)
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as e:
        raise ArgumentError(
            f"[validate] --baseline must be a file that --json wrote, but {file} is not: {e}"
        ) from None


def unknown(findings: Sequence[Finding], texts: Mapping[str, str], known: _Known) -> list[Finding]:
    """Findings that are not in the baseline. A known line may have moved, but its text must be the
    same."""
    left = known.copy()
    kept = []
    for f in findings:
        fields = {
            "file": f.source, "severity": f.severity, "code": f.code, "message": f.message,
            "excerpt": excerpt(texts, f),
        }  # fmt: skip
        key = _key(fields)
        if left[key] > 0:
            left[key] -= 1
        else:
            kept.append(f)
    return kept


def _key(f: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("file", "severity", "code", "message")
    return (*(str(f[name]) for name in names), str(f["excerpt"]).strip())
