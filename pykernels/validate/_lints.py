"""Lints on the text: what the compilers accept and a portable kernel must not have.

PK001  an `override` declaration: translators get overridden workgroup sizes wrong
PK003  more workgroup memory than declared: naga, wgpu and some drivers say nothing
PK004  more invocations in a workgroup than declared
PK005  more storage buffers than declared
PK006  a bitcast to vec2<f16> or vec4<f16>: naga types the result as f32 (wrong numbers)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ._types import Finding, Limits, Severity, Source
from ._usage import Item, Usage, measure, position

_OVERRIDE = re.compile(r"(?<!\w)override\b")
_BITCAST = re.compile(r"bitcast\s*<\s*(\w+(?:\s*<\s*\w+\s*>)?)\s*>")
_TINT_ONLY = re.compile(r"enable\s[^;]*\bchromium_")
_F16_VECTOR = re.compile(r"vec[24](<f16>|h)")


class Lints:
    """The lints as a validator."""

    name = "lint"
    version = "1"

    def check(self, sources: Sequence[Source]) -> list[Finding]:
        """The findings of all lints; those on limits only for sources that declare some."""
        findings = []
        for source in sources:
            usage = measure(source.text)
            found = [*_words(usage), *(over_limits(usage, source.limits) if source.limits else ())]
            for code, severity, line, column, message in found:
                findings.append(
                    Finding(source.name, line, column, severity, message, self.name, code, message)
                )
        return findings


_Found = tuple[str, Severity, int, int, str]


def _words(usage: Usage) -> Iterator[_Found]:
    for m in _OVERRIDE.finditer(usage.code):
        line, column = position(usage.code, m.start())
        yield "PK001", "error", line, column, "use const text, not an override declaration"
    if _TINT_ONLY.search(usage.code):
        return  # naga never sees this text
    for m in _BITCAST.finditer(usage.code):
        name = re.sub(r"\s", "", m[1])
        if _F16_VECTOR.fullmatch(usage.names.get(name, name)):
            line, column = position(usage.code, m.start())
            message = f"naga types bitcast<{name}> as f32; use vec2<f16>(unpack2x16float(u))"
            yield "PK006", "error", line, column, message


def over_limits(usage: Usage, limits: Limits) -> Iterator[_Found]:
    """PK003, PK004 and PK005, as code, severity, line, column and message."""
    limit = limits.max_workgroup_storage
    yield from _sum("PK003", "bytes of workgroup memory", usage.workgroup, limit)
    for item in usage.entry_points:
        what = f"invocations in a workgroup of {item.name}"
        yield from _sum("PK004", what, [item], limits.max_invocations)
    yield from _sum("PK005", "storage buffers", usage.storage, limits.max_storage_buffers)


def _sum(code: str, what: str, items: Sequence[Item], limit: int) -> Iterator[_Found]:
    """A finding where the running total passes the limit, and one for each unknown cost."""
    total, over = 0, None
    for item in items:
        if item.cost is None:
            message = f"cannot tell what {item.name} adds to the {what}"
            yield code, "warning", item.line, item.column, message
            continue
        total += item.cost
        if total > limit and over is None:
            over = item
    if over is not None:
        message = f"{total} {what}, but the declared limit is {limit}"
        yield code, "error", over.line, over.column, message
