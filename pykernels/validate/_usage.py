"""Finds what a WGSL text uses, from its module-scope declarations and the words of its functions.

All functions here take linear time for any text, because programs or attackers may write shaders.
So no pattern searches beyond the end of a declaration.
"""

from __future__ import annotations

import functools
import operator
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from ._sizes import Sizes, arguments, known

# `const(?<!\wconst)` matches the same as `\bconst`, but several times faster, because `re` searches
# directly for plain letters at the start of a pattern.
_CONST = re.compile(r"const(?<!\wconst)\s+(\w+)([^;]*)")
_ALIAS = re.compile(r"alias(?<!\walias)\s+(\w+)([^;]*)")
_OVERRIDE = re.compile(r"override(?<!\woverride)\s+(\w+)([^;]*)")
_TRUTH = {"true": "1", "false": "0"}
_ID = re.compile(r"@id\s*\(\s*(\d+)[iu]?\s*,?\s*\)\s*$")
_WORKGROUP = re.compile(r"var(?<!\wvar)\s*<\s*workgroup\s*>\s*(\w+)\s*:([^;]*)")
_RESOURCE = re.compile(
    r"var(?<!\wvar)\s*(?:<\s*(storage|uniform)\b[^<>;]*>)?\s*(\w+)\s*:\s*([^;=]*)"
)
_FUNCTION = re.compile(r"fn(?<!\wfn)\s+(\w+)\s*\(")
_STRUCT = re.compile(r"struct(?<!\wstruct)\s+(\w+)\s*\{([^{}]*)\}")
_PLACE = {a: re.compile(rf"@{a}\s*\(([^()]*)\)") for a in ("group", "binding")}
_COMPUTE = re.compile(r"@compute\b")
_BUILTIN = re.compile(r"@builtin\s*\(\s*(\w+)\s*,?\s*\)\s*(\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_BRACKET = re.compile(r"[()\[\]{}]")
_COMMENT = re.compile(r"//|/\*")
_IN_COMMENT = re.compile(r"/\*|\*/")
_VISIBLE = re.compile(r"[^\n]")
_LINE_BREAK = re.compile(r"\n")
BARRIERS = ("workgroupBarrier", "storageBarrier", "textureBarrier", "workgroupUniformLoad")
_T = TypeVar("_T")
Kind: TypeAlias = Literal["storage", "uniform", "texture", "sampler", "storage_texture"]


@dataclass(frozen=True)
class Item:
    """A declaration and its cost, which is None if unknown."""

    name: str
    cost: int | None
    line: int
    column: int
    waits: str = ""  # the override whose missing value makes the cost unknown


@dataclass(frozen=True)
class Resource:
    """A module-scope variable with a group and a binding (-1 if it has none)."""

    name: str
    kind: Kind
    type: str
    group: int
    binding: int
    line: int
    column: int


@dataclass(frozen=True)
class Override:
    """An override declaration; ``value`` is "" if the text gives none.

    ``key`` is its name for compilers: the number of its ``@id``, else its own name.
    """

    name: str
    value: str
    key: str
    line: int
    column: int


@dataclass(frozen=True)
class Function:
    """A function: its attributes, parameters and body as spans of the code."""

    name: str
    attributes: str
    at: int  # the index of the attributes in the code
    params: tuple[int, int]
    body: tuple[int, int]  # the span inside the braces

    @property
    def compute(self) -> bool:
        return _COMPUTE.search(self.attributes) is not None


@dataclass(frozen=True)
class Usage:
    """What a text uses: the bytes of each workgroup variable, the invocations of each entry point,
    and more."""

    code: str  # the text with its comments blanked
    ends: array[int]  # for each opening bracket, the index of its closing bracket
    places: Places
    names: Mapping[str, str]  # the text of each const, override, alias and struct, without blanks
    sizes: Sizes
    workgroup: list[Item]
    entry_points: list[Item]
    resources: list[Resource]
    overrides: list[Override]
    functions: Mapping[str, Function]

    def constants(self, given: Iterable[tuple[str, str]]) -> dict[str, float]:
        """The values that are given for the text's overrides, by the overrides' keys."""
        values = dict(given)
        found = {o.key: values.get(o.name, values.get(o.key)) for o in self.overrides}
        return {key: number(value) for key, value in found.items() if value is not None}

    def unset(self, given: Iterable[tuple[str, str]] = ()) -> list[Override]:
        """The overrides that have no value in the text, and none in `given`."""
        constants = self.constants(given)
        return [o for o in self.overrides if not o.value and o.key not in constants]

    def size(self, entry: str) -> list[int | None]:
        """The workgroup size of an entry point, axis by axis."""
        sizes = arguments(self.functions[entry].attributes)
        return [known(self.sizes.number, size) for size in sizes]

    @functools.cached_property
    def variables(self) -> frozenset[str]:
        """The names of the workgroup variables."""
        return frozenset(w.name for w in self.workgroup)

    @functools.cached_property
    def builtins(self) -> Mapping[str, list[tuple[str, str]]]:
        """The built-in values among the members of each struct: the value, and the name of the
        member."""
        return {name: _BUILTIN.findall(text) for name, text in structs(self.code).items()}

    @functools.cached_property
    def reach(self) -> Mapping[str, int]:
        """For each function, the names that it uses or that a function called by it uses.

        Each set of names is a mask: a bit for each workgroup variable, then for each resource, then
        one bit for barriers.
        """
        return _reach(self)

    def used(self, entry: str) -> list[Resource]:
        """The resources that an entry point reaches."""
        return _picked(self.resources, self.reach[entry] >> len(self.workgroup))

    def shared(self, entry: str) -> list[Item]:
        """The workgroup variables that an entry point reaches."""
        return _picked(self.workgroup, self.reach[entry])

    def touches(self, function: str) -> tuple[bool, bool]:
        """True if a function uses workgroup memory, and True if it uses a barrier; functions that
        it calls count, too."""
        mask = self.reach[function]
        return bool(mask & ((1 << len(self.workgroup)) - 1)), bool(
            mask >> (len(self.workgroup) + len(self.resources))
        )

    # Usage is hashed by identity, because it is made once for each text.
    __hash__ = object.__hash__


def _picked(items: list[_T], mask: int) -> list[_T]:
    return [item for item, bit in zip(items, f"{mask:b}"[::-1], strict=False) if bit == "1"]


def _reach(usage: Usage) -> Mapping[str, int]:
    declared = [*(w.name for w in usage.workgroup), *(r.name for r in usage.resources)]
    bits: dict[str, int] = dict.fromkeys(BARRIERS, 1 << len(declared))
    for index, name in enumerate(declared):
        bits[name] = bits.get(name, 0) | 1 << index
    found: dict[str, int] = {}
    calls: dict[str, list[str]] = {}
    for f in usage.functions.values():
        words = {*_WORD.findall(usage.code, *f.body), *_WORD.findall(usage.code, *f.params)}
        found[f.name] = functools.reduce(operator.or_, (bits[w] for w in words if w in bits), 0)
        calls[f.name] = [w for w in words if w in usage.functions]
    # The functions in an order in which callees come before callers; WGSL has no recursion.
    done: set[str] = set()
    for first in usage.functions:
        waiting = [(first, iter(calls[first]))] if first not in done else []
        done.add(first)
        while waiting:
            name, rest = waiting[-1]
            callee = next(rest, None)
            if callee is None:
                waiting.pop()
                if waiting:
                    found[waiting[-1][0]] |= found[name]
            elif callee in done:
                found[name] |= found[callee]
            else:
                done.add(callee)
                waiting.append((callee, iter(calls[callee])))
    return found


@functools.lru_cache(maxsize=8)
def measure(text: str, given: tuple[tuple[str, str], ...] = ()) -> Usage:
    """The usage of a text with these values of overrides.

    As in WebGPU, a workgroup variable that is never named costs nothing.
    """
    code = without_comments(text)
    ends, places = _closing(code), Places(code)
    overrides = [
        Override(m[1], m[2].partition("=")[2].strip(), _key(code, m), *places.of(m.start()))
        for m in _OVERRIDE.finditer(code)
    ]
    values = dict(given)
    names = {o.name: v for o in overrides if (v := values.get(o.name, values.get(o.key)))}
    for pattern in (_CONST, _ALIAS, _OVERRIDE):
        for m in pattern.finditer(code):
            names.setdefault(m[1], re.sub(r"\s", "", m[2].partition("=")[2]))
    for name, members in structs(code).items():
        names.setdefault(name, "{" + re.sub(r"\s", "", members) + "}")
    sizes = Sizes(names)
    functions = _functions(code, ends)
    variables = list(_WORKGROUP.finditer(code))
    wanted = {m[1] for m in variables}
    count = Counter(w for w in _WORD.findall(code) if w in wanted) if wanted else Counter()
    unset = {o.name for o in overrides if not o.value} - {
        o.name for o in overrides if o.name in values or o.key in values
    }
    workgroup = [
        _item(m[1], known(sizes.storage_bytes, m[2]), places.of(m.start()), m[2], names, unset)
        for m in variables
        if count[m[1]] > 1
    ]
    entry_points = []
    for f in functions.values():
        if compute := _COMPUTE.search(f.attributes):
            cost = known(sizes.invocations, f.attributes)
            at = places.of(f.at + compute.start())
            sized = ",".join(arguments(f.attributes))
            entry_points.append(_item(f.name, cost, at, sized, names, unset))
    resources = _resources(code, sizes, places)
    return Usage(
        code, ends, places, names, sizes, workgroup, entry_points, resources, overrides, functions
    )  # fmt: skip


def _item(
    name: str, cost: int | None, at: tuple[int, int], text: str,
    names: Mapping[str, str], unset: Collection[str],
) -> Item:  # fmt: skip
    """An item. If its cost is unknown, `text` shows which override the cost depends on."""
    if cost is not None or not unset:
        return Item(name, cost, *at)
    seen: set[str] = set()
    waiting = _WORD.findall(text)[::-1]
    while waiting:
        word = waiting.pop()
        if word in unset:
            return Item(name, cost, *at, word)
        if word in names and word not in seen:
            seen.add(word)
            waiting += _WORD.findall(names[word])[::-1]
    return Item(name, cost, *at)


def number(value: str) -> float:
    """The value of an override as a number; ValueError if the text is no value."""
    return float(_TRUTH.get(value, value))


def _key(code: str, m: re.Match[str]) -> str:
    found = _ID.search(code, max(0, m.start() - 60), m.start())
    return found[1] if found else m[1]


class Places:
    """Lines and columns of a text."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(m.end() for m in _LINE_BREAK.finditer(text))]

    def of(self, at: int) -> tuple[int, int]:
        """Line and column of an index into the text, both from 1."""
        line = bisect_right(self._starts, at)
        return line, at - self._starts[line - 1] + 1


def without_comments(text: str) -> str:
    """The text with blanks for its comments, which may nest; line breaks stay."""
    kept: list[str] = []
    at = 0
    while m := _COMMENT.search(text, at):
        if m[0] == "//":
            end = text.find("\n", m.end())
            end = len(text) if end < 0 else end
        else:
            depth, end = 1, m.end()
            while depth and (mark := _IN_COMMENT.search(text, end)):
                depth += 1 if mark[0] == "/*" else -1
                end = mark.end()
            end = len(text) if depth else end
        kept += [text[at : m.start()], _VISIBLE.sub(" ", text[m.start() : end])]
        at = end
    return "".join([*kept, text[at:]])


def _closing(code: str) -> array[int]:
    """For each opening bracket, the index of its closing bracket, or the end of the code."""
    ends = array("q", [len(code)]) * len(code)
    open_: dict[str, list[int]] = {")": [], "]": [], "}": []}
    of = {"(": open_[")"], "[": open_["]"], "{": open_["}"]}
    for m in _BRACKET.finditer(code):
        if m[0] in of:
            of[m[0]].append(m.start())
        elif open_[m[0]]:
            ends[open_[m[0]].pop()] = m.start()
    return ends


def structs(code: str) -> dict[str, str]:
    """The members of each struct, as text."""
    return {m[1]: m[2] for m in _STRUCT.finditer(code)}


def _functions(code: str, ends: array[int]) -> dict[str, Function]:
    found: dict[str, Function] = {}
    at = 0
    while m := _FUNCTION.search(code, at):
        start = code.find("{", ends[m.end() - 1])
        if start < 0:
            break
        attributes = _attributes(code, at, m.start())
        function = Function(
            m[1], code[attributes : m.start()], attributes,
            (m.end(), ends[m.end() - 1]), (start + 1, ends[start]),
        )  # fmt: skip
        found.setdefault(m[1], function)
        at = ends[start]
    return found


def _attributes(code: str, start: int, at: int) -> int:
    """The start of the attributes of a declaration: after the previous declaration, not before
    `start`."""
    return max(start, code.rfind(";", start, at) + 1, code.rfind("}", start, at) + 1)


def _resources(code: str, sizes: Sizes, places: Places) -> list[Resource]:
    found = []
    last = 0
    for m in _RESOURCE.finditer(code):
        attributes = code[_attributes(code, last, m.start()) : m.start()]
        last = m.end()
        wgsl = m[3].strip()
        kind = _kind(m[1], sizes.names.get(wgsl, wgsl))
        if kind is None:
            continue
        numbers = [
            known(sizes.number, at[1]) if at else None
            for at in (_PLACE[a].search(attributes) for a in ("group", "binding"))
        ]
        group, binding = (-1 if n is None else n for n in numbers)
        # The line and column are those of `var`.
        found.append(Resource(m[2], kind, wgsl, group, binding, *places.of(m.start())))
    return found


def _kind(space: str | None, wgsl: str) -> Kind | None:
    if space is not None:
        return "storage" if space == "storage" else "uniform"
    if wgsl.startswith("texture_storage"):
        return "storage_texture"
    if wgsl.startswith("texture"):
        return "texture"
    return "sampler" if wgsl.startswith("sampler") else None
