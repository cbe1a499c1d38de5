"""Rewrites a WGSL text: finds calls and indices, and inserts text before, after or in place of
them.

    sites = Rewriting(text)
    for access in sites.indices():
        sites.insert(access.start, "checked(")
        sites.insert(access.end, ")")
    new = sites.text()

Edits insert text at places of the original text, or replace spans of it, so edits of nested calls
and indices do not disturb each other. Line numbers do not change: inserted text has no line break,
and a replaced span keeps its line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._usage import Function, Usage, measure

__all__ = ["Call", "Index", "Rewriting"]

_INDEX = re.compile(r"\b([A-Za-z_]\w*)\s*\[")
_DECLARED = r"\b(?:let|var|const)\b\s*(?:<[^<>;]*>)?\s*{}\b"
_ARRAY = re.compile(r"array\s*<(.*)>\s*\Z", re.DOTALL)
_BUILTIN = re.compile(r"@builtin\s*\(\s*(\w+)\s*,?\s*\)\s*(\w+)\s*:")


@dataclass(frozen=True)
class Index:
    """An index into a module-scope array: the span of the expression between the brackets."""

    name: str
    start: int
    end: int
    line: int
    column: int
    length: str  # an expression (WGSL) for the number of elements of the array


@dataclass(frozen=True)
class Call:
    """A call: its span, the span of each argument, and its line and column."""

    start: int
    end: int
    arguments: tuple[tuple[int, int], ...]
    line: int
    column: int


class Rewriting:
    """A text that is rewritten. `usage` describes its declarations."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.usage: Usage = measure(text)
        self._inserts: dict[int, list[str]] = {}
        self._replaced: list[tuple[int, int, str]] = []

    # -- what there is ----------------------------------------------------------------------------

    def functions(self) -> Iterator[Function]:
        """The functions of the text."""
        yield from self.usage.functions.values()

    def indices(self, kind: str = "storage") -> Iterator[Index]:
        """Each index into a storage array ("workgroup": an array in workgroup memory)."""
        code, lengths = self.usage.code, self._lengths(kind)
        for function in self.functions():
            local = {name for name in lengths if self._is_local(name, function)}
            for m in _INDEX.finditer(code, *function.body):
                name, start = m[1], m.end()
                before = code[: m.start()].rstrip()[-1:]
                if name not in lengths or name in local or before == ".":
                    continue
                place = self.usage.places.of(m.start())
                yield Index(name, start, self.usage.ends[start - 1], *place, lengths[name])

    def calls(self, name: str) -> Iterator[Call]:
        """Each call of a function of this name."""
        code, ends = self.usage.code, self.usage.ends
        pattern = re.compile(rf"(?<![\w.]){name}\s*\(")
        for function in self.functions():
            for m in pattern.finditer(code, *function.body):
                end = ends[m.end() - 1]
                yield Call(
                    m.start(), end + 1, tuple(self._arguments(m.end(), end)),
                    *self.usage.places.of(m.start()),
                )  # fmt: skip

    def builtin(self, entry: str, name: str) -> str:
        """The expression of a built-in value in an entry point, "" if the entry point does not take
        it."""
        code, function = self.usage.code, self.usage.functions[entry]
        for found, parameter in _BUILTIN.findall(code, *function.params):
            if found == name:
                return str(parameter)
        for m in re.finditer(r"(\w+)\s*:\s*(\w+)", code[slice(*function.params)]):
            for found, member in self.usage.builtins.get(m[2], ()):
                if found == name:
                    return f"{m[1]}.{member}"
        return ""

    def free_binding(self) -> tuple[int, int]:
        """The last group in use, and the first free binding of this group."""
        places = [(r.group, r.binding) for r in self.usage.resources]
        group, binding = max(places, default=(0, -1))
        return max(group, 0), binding + 1

    # -- edits ------------------------------------------------------------------------------------

    def insert(self, at: int, text: str) -> None:
        """Insert a text at a place, after texts that were inserted there before."""
        self._inserts.setdefault(at, []).append(_one_line(text))

    def replace(self, start: int, end: int, text: str) -> None:
        """Put a text in place of a span; edits inside of the span are dropped."""
        breaks = "\n" * self._text.count("\n", start, end)
        self._replaced.append((start, end, _one_line(text) + breaks))

    def original(self, start: int, end: int) -> str:
        """A span of the original text without comments, as one line."""
        return " ".join(self.usage.code[start:end].split())

    def text(self) -> str:
        """The text after all edits."""
        parts: list[str] = []
        at = 0
        spans = sorted(self._replaced)
        for start, end, new in spans:
            if start < at:
                continue  # dropped, because it is inside a span that is replaced
            parts += [self._plain(at, start), new]
            at = end
        parts.append(self._plain(at, len(self._text) + 1))
        return "".join(parts)

    def _plain(self, start: int, end: int) -> str:
        parts: list[str] = []
        at = start
        for place in sorted(p for p in self._inserts if start <= p < end):
            parts += [self._text[at:place], *self._inserts[place]]
            at = place
        return "".join([*parts, self._text[at:end]])

    # -- parts ------------------------------------------------------------------------------------

    def _lengths(self, kind: str) -> dict[str, str]:
        """The number of elements of each module-scope array."""
        if kind == "workgroup":
            pattern = r"var(?<!\wvar)\s*<\s*workgroup\s*>\s*(\w+)\s*:([^;]*)"
            found = [(m[1], m[2].strip()) for m in re.finditer(pattern, self.usage.code)]
        else:
            found = [(r.name, r.type) for r in self.usage.resources if r.kind == kind]
        lengths = {}
        for name, type_ in found:
            array = _ARRAY.fullmatch(self.usage.names.get(type_, type_))
            if array is None:
                continue
            count = _second(array[1])
            lengths[name] = f"u32({count})" if count else f"arrayLength(&{name})"
        return lengths

    def _is_local(self, name: str, function: Function) -> bool:
        """True if a parameter or variable of the function hides the module's variable."""
        code = self.usage.code
        if re.compile(rf"\b{name}\s*:").search(code, *function.params):
            return True
        return re.compile(_DECLARED.format(name)).search(code, *function.body) is not None

    def _arguments(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        code, ends, at, first = self.usage.code, self.usage.ends, start, start
        while at < end:
            if code[at] in "([{":
                at = ends[at]
            elif code[at] == ",":
                yield first, at
                first = at + 1
            at += 1
        if code[first:end].strip():
            yield first, end


def _second(arguments: str) -> str:
    """The text after the comma of `ELEMENT, COUNT`; "" if there is no comma."""
    depth = 0
    for i, letter in enumerate(arguments):
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth == 0:
            return arguments[i + 1 :].strip().rstrip(",").strip()
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))
