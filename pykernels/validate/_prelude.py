"""Texts that a program puts in front of a file before it compiles it."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import ArgumentError
from ._files import gather
from ._types import Finding, Source

__all__ = ["Prelude", "placed", "prepend"]


@dataclass(frozen=True)
class Prelude:
    """The files in front of a text, in order, each with its number of lines."""

    files: tuple[tuple[str, int], ...] = ()

    def place(self, source: str, line: int) -> tuple[str, int]:
        """The file that a line of the joined text comes from, and its line number in that file."""
        for name, lines in self.files:
            if line <= lines:
                return name, line
            line -= lines
        return source, line


def prepend(
    sources: Sequence[Source], given: Sequence[str]
) -> tuple[list[Source], dict[str, Prelude]]:
    """The texts with the files of ``[FILES:]FILE`` in front of them, and the files of each text.

    A file that is put in front of others is checked only with them.
    """
    texts = {s.name: s.text for s in sources}
    preludes: dict[str, list[str]] = {s.name: [] for s in sources}
    chosen: list[tuple[str, str]] = []
    for value in given:
        pattern, _, file = value.rpartition(":")
        [source] = _read(file)
        texts[source.name] = source.text
        chosen.append((pattern or "*", source.name))
    ahead = {name for _, name in chosen}
    for pattern, file in chosen:
        found = [s for s in sources if s.name not in ahead and fnmatch.fnmatch(s.name, pattern)]
        if not found:
            raise ArgumentError(f"[validate] --prepend: no file matches {pattern!r}")
        for s in found:
            preludes[s.name].append(file)
    joined = [
        replace(s, text="".join(_line(texts[name]) for name in preludes[s.name]) + s.text)
        for s in sources
        if s.name not in ahead
    ]
    return joined, {
        name: Prelude(tuple((file, _line(texts[file]).count("\n")) for file in files))
        for name, files in preludes.items()
        if files
    }


def placed(findings: Sequence[Finding], preludes: dict[str, Prelude]) -> list[Finding]:
    """Findings with the files and lines of the original texts, without duplicates."""
    moved = []
    for f in findings:
        name, line = preludes.get(f.source, Prelude()).place(f.source, f.line)
        moved.append(replace(f, source=name, line=line))
    return list({(f.source, f.line, f.column, f.message): f for f in moved}.values())


def _read(file: str) -> list[Source]:
    sources, skipped, findings = gather([file])
    if len(sources) != 1:
        why = [f.message for f in findings] + [s.reason for s in skipped] or ["no single file"]
        raise ArgumentError(f"[validate] --prepend: {file} cannot be prepended: {why[0]}")
    return sources


def _line(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
