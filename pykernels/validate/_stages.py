"""Checks that the outputs of a vertex shader fit the inputs of its fragment shader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ._usage import Function, Usage, structs

__all__ = ["Mismatch", "mismatches"]

_STAGE = re.compile(r"@(vertex|fragment)\b")
_LOCATION = re.compile(r"@location\s*\(\s*(\d+)[iu]?\s*,?\s*\)")
_NAMED = re.compile(r"(\w+)\s*:\s*([^:]+)$")
_ATTRIBUTE = re.compile(r"@\w+\s*(?:\([^()]*\))?\s*")
_SHORT = re.compile(r"vec([234])([fiuh])")
_SUFFIXES = {"f": "f32", "i": "i32", "u": "u32", "h": "f16"}
_WORDS = re.compile(r"vertex|vert|vs|fragment|frag|fs|_|main")


@dataclass(frozen=True)
class Mismatch:
    """An input of a fragment shader without a matching output of the vertex shader."""

    function: Function
    message: str


def mismatches(usage: Usage) -> Iterator[Mismatch]:
    """For each fragment shader with a vertex shader in the same text, the first input that does not
    fit.

    Two entry points belong together if each is the only one of its stage, or if their names are
    equal except for words such as ``vs``, ``frag`` and ``main``.
    """
    stages: dict[str, list[Function]] = {"vertex": [], "fragment": []}
    for f in usage.functions.values():
        if m := _STAGE.search(f.attributes):
            stages[m[1]].append(f)
    for fragment in stages["fragment"]:
        alone = len(stages["vertex"]) == 1 == len(stages["fragment"])
        for vertex in stages["vertex"]:
            if alone or _stem(vertex.name) == _stem(fragment.name):
                given, taken = _outputs(usage, vertex), _inputs(usage, fragment)
                if given is None or taken is None:
                    continue
                for location, kind in sorted(taken.items()):
                    if given.get(location) != kind:
                        has = given.get(location, "no such output")
                        yield Mismatch(
                            fragment,
                            f"{fragment.name} takes {kind} at location {location}, "
                            f"but {vertex.name} has {has}",
                        )
                        break


def _stem(name: str) -> str:
    return _WORDS.sub("", name.lower())


def _outputs(usage: Usage, f: Function) -> dict[int, str] | None:
    between = usage.code[f.params[1] + 1 : f.body[0] - 1].strip().removeprefix("->")
    return _members(usage, [f"result: {between}" if "@" not in between else between])


def _inputs(usage: Usage, f: Function) -> dict[int, str] | None:
    return _members(usage, _parts(usage.code[f.params[0] : f.params[1]]))


def _members(usage: Usage, parts: list[str]) -> dict[int, str] | None:
    """The types by their locations; None if a part cannot be parsed."""
    found: dict[int, str] = {}
    known = structs(usage.code)
    for part in parts:
        location = _LOCATION.search(part)
        rest = _ATTRIBUTE.sub("", part).strip()
        named = _NAMED.fullmatch(rest)
        kind = (named[2] if named else rest).strip()
        kind = usage.names[kind] if kind in usage.names and kind not in known else kind
        if kind in known and not location:
            inner = _members(usage, _parts(known[kind]))
            if inner is None:
                return None
            found |= inner
        elif location:
            found[int(location[1])] = _plain(kind)
        elif "@builtin" not in part and kind:
            return None
    return found


def _plain(kind: str) -> str:
    kind = re.sub(r"\s", "", kind)
    m = _SHORT.fullmatch(kind)
    return f"vec{m[1]}<{_SUFFIXES[m[2]]}>" if m else kind


def _parts(text: str) -> list[str]:
    """The parts between commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for m in re.finditer(r"[<>(),]", text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1, ",": 0}[m[0]]
        if m[0] == "," and depth == 0:
            parts.append(text[start : m.start()])
            start = m.end()
    return [p for p in [*parts, text[start:]] if p.strip()]
