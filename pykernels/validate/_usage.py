"""What a WGSL text uses, read off its module-scope declarations and its functions' words."""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONST = re.compile(r"const\s+(\w+)\s*(?::[^=;]+)?=([^;]+);")
_ALIAS = re.compile(r"alias\s+(\w+)\s*=([^;]+);")
_OVERRIDE = re.compile(r"(?<!\w)override\s+(\w+)\s*(?::[^=;]+)?(?:=([^;]+))?;")
_WORKGROUP = re.compile(r"var\s*<\s*workgroup\s*>\s*(\w+)\s*:([^;]+);")
_ATTRIBUTES = r"((?:@\w+(?:\s*\([^)]*\))?\s*)*)"
_RESOURCE = re.compile(
    _ATTRIBUTES + r"var\s*(?:<\s*(storage|uniform)\b[^>]*>)?\s*(\w+)\s*:\s*([^;=]+)"
)
_FUNCTION = re.compile(_ATTRIBUTES + r"(?<!\w)fn\s+(\w+)\s*\(")
_STRUCT = re.compile(r"(?<!\w)struct\s+(\w+)\s*\{([^}]*)\}")
_COMMA = re.compile(r",(?![^<]*>)")  # between members, not inside a type
_MEMBER = re.compile(r"\w+:(.+)")  # without attributes, which may change its size
_INTEGER = re.compile(r"\b(0[xX][\da-fA-F]+|\d+)[iu]\b")
_ARITHMETIC = re.compile(r"(?:\s|\b[A-Za-z_]\w*\b|\b0[xX][\da-fA-F]+\b|\b\d+\b|[-+*/%()])+")
_WORD = re.compile(r"[A-Za-z_]\w*")

_SCALARS = {"f32": 4, "i32": 4, "u32": 4, "bool": 4, "f16": 2}
_SUFFIXES = {"f": "f32", "i": "i32", "u": "u32", "h": "f16"}
_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}

Kind: TypeAlias = Literal["storage", "uniform", "texture", "sampler", "storage_texture"]


@dataclass(frozen=True)
class Item:
    """A declaration and what it costs; None where this module cannot tell."""

    name: str
    cost: int | None
    line: int
    column: int


@dataclass(frozen=True)
class Resource:
    """A module-scope variable with a group and a binding (-1 where it has none)."""

    name: str
    kind: Kind
    type: str
    group: int
    binding: int
    line: int
    column: int


@dataclass(frozen=True)
class Override:
    """An override declaration; ``value`` is "" where the text gives it none."""

    name: str
    value: str
    line: int
    column: int


@dataclass(frozen=True)
class Function:
    """A function: its attributes, parameters and body as spans of the code."""

    name: str
    attributes: str
    at: int  # of the first attribute, or of `fn`
    params: tuple[int, int]
    body: tuple[int, int]  # inside the braces

    @property
    def compute(self) -> bool:
        return re.search(r"@compute\b", self.attributes) is not None


@dataclass(frozen=True)
class Usage:
    """Costs of a text: bytes of each workgroup variable, invocations of each entry point."""

    code: str  # the text with its comments blanked
    names: Mapping[str, str]  # what each const, override, alias and struct is, without blanks
    workgroup: list[Item]
    entry_points: list[Item]
    resources: list[Resource]
    overrides: list[Override]
    functions: Mapping[str, Function]

    @property
    def unset(self) -> bool:
        """Is there an override without a value?"""
        return any(not o.value for o in self.overrides)

    def size(self, entry: str) -> list[int | None]:
        """The workgroup size of an entry point, axis by axis."""
        sizes = _size_arguments(self.functions[entry].attributes)
        return [_known(_number, size, self.names) for size in sizes]

    def words(self, entry: str) -> frozenset[str]:
        """The identifiers in a function and in those that it calls, directly or not."""
        return _reach(self, entry)

    def used(self, entry: str) -> list[Resource]:
        """The resources that an entry point reaches."""
        return [r for r in self.resources if r.name in self.words(entry)]

    def shared(self, entry: str) -> list[Item]:
        """The workgroup variables that an entry point reaches."""
        return [w for w in self.workgroup if w.name in self.words(entry)]

    # Usage hashes by identity: it is made once per text.
    __hash__ = object.__hash__


@functools.lru_cache(maxsize=512)
def _reach(usage: Usage, entry: str) -> frozenset[str]:
    found: set[str] = set()
    queue, seen = [entry], {entry}
    while queue:
        f = usage.functions[queue.pop()]
        words = set(_WORD.findall(usage.code, *f.body)) | set(_WORD.findall(usage.code, *f.params))
        found |= words
        for name in words & usage.functions.keys() - seen:
            seen.add(name)
            queue.append(name)
    return frozenset(found)


@functools.lru_cache(maxsize=32)
def measure(text: str) -> Usage:
    """The usage of a text. As in WebGPU, a workgroup variable that is never named costs nothing."""
    code = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    names: dict[str, str] = {}
    for pattern in (_CONST, _ALIAS, _OVERRIDE):
        for m in pattern.finditer(code):
            names.setdefault(m[1], re.sub(r"\s", "", m[2] or ""))
    for m in _STRUCT.finditer(code):
        names.setdefault(m[1], "{" + re.sub(r"\s", "", m[2]) + "}")
    functions = _functions(code)
    workgroup = []
    for m in _WORKGROUP.finditer(code):
        if len(re.findall(rf"\b{m[1]}\b", code)) > 1:
            cost = _known(_storage_bytes, m[2], names)
            workgroup.append(Item(m[1], cost, *position(text, m.start())))
    entry_points = []
    for f in functions.values():
        if f.compute:
            cost = _known(_invocations, f.attributes, names)
            at = f.at + f.attributes.index("@compute")
            entry_points.append(Item(f.name, cost, *position(text, at)))
    overrides = [
        Override(m[1], (m[2] or "").strip(), *position(text, m.start()))
        for m in _OVERRIDE.finditer(code)
    ]
    return Usage(
        code, names, workgroup, entry_points, _resources(code, names), overrides, functions
    )


def position(text: str, at: int) -> tuple[int, int]:
    """Line and column of an index into the text, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def closing(code: str, at: int) -> int:
    """The index of the bracket that closes the one at ``at``; the end where none does."""
    opening = code[at]
    other = {"(": ")", "{": "}", "[": "]"}[opening]
    depth = 0
    for m in re.compile(f"[{re.escape(opening + other)}]").finditer(code, at):
        depth += 1 if m[0] == opening else -1
        if depth == 0:
            return m.start()
    return len(code)


def structs(code: str) -> dict[str, str]:
    """The members of each struct, as text."""
    return {m[1]: m[2] for m in _STRUCT.finditer(code)}


def _functions(code: str) -> dict[str, Function]:
    found: dict[str, Function] = {}
    for m in _FUNCTION.finditer(code):
        end = closing(code, m.end() - 1)
        start = code.find("{", end)
        if start < 0:
            continue
        body = start + 1, closing(code, start)
        found.setdefault(m[2], Function(m[2], m[1], m.start(), (m.end(), end), body))
    return found


def _resources(code: str, names: _Names) -> list[Resource]:
    found = []
    for m in _RESOURCE.finditer(code):
        kind = _kind(m[2], names.get(m[4].strip(), m[4].strip()))
        if kind is None:
            continue
        numbers = [
            _known(_number, at[1], names) if at else None
            for at in (re.search(rf"@{a}\s*\(([^)]*)\)", m[1]) for a in ("group", "binding"))
        ]
        group, binding = (-1 if n is None else n for n in numbers)
        # The place is that of `var`, where people look.
        at = m.start() + len(m[1])
        found.append(Resource(m[3], kind, m[4].strip(), group, binding, *position(code, at)))
    return found


def _kind(space: str | None, wgsl: str) -> Kind | None:
    if space is not None:
        return "storage" if space == "storage" else "uniform"
    if wgsl.startswith("texture_storage"):
        return "storage_texture"
    if wgsl.startswith("texture"):
        return "texture"
    return "sampler" if wgsl.startswith("sampler") else None


_Names: TypeAlias = Mapping[str, str]


def _known(cost: Callable[[str, _Names], int], text: str, names: _Names) -> int | None:
    try:
        return cost(text, names)
    except (SyntaxError, LookupError, ArithmeticError, TypeError, ValueError, RecursionError):
        return None


def _storage_bytes(wgsl: str, names: _Names) -> int:
    return _round_up(_layout(re.sub(r"\s", "", wgsl), names)[0], 16)


def _size_arguments(attributes: str) -> list[str]:
    found = re.findall(r"@workgroup_size\s*\(([^)]*)\)", attributes)
    return found[0].rstrip(", ").split(",") if found else []


def _invocations(attributes: str, names: _Names) -> int:
    sizes = _size_arguments(attributes)
    if not sizes:
        raise ValueError(attributes)
    return math.prod(_number(size, names) for size in sizes)


def _round_up(value: int, to: int) -> int:
    return -(-value // to) * to


def _layout(wgsl: str, names: _Names) -> tuple[int, int]:
    """Size and alignment of a scalar, atomic, vector, array or struct by WGSL's rules."""
    if wgsl in _SCALARS:
        return _SCALARS[wgsl], _SCALARS[wgsl]
    if m := re.fullmatch(r"atomic<(.+)>", wgsl):
        return _layout(m[1], names)
    if m := re.fullmatch(r"vec([234])(?:<(.+)>|([fiuh]))", wgsl):
        size, _ = _layout(m[2] or _SUFFIXES[m[3]], names)
        return size * int(m[1]), size * (2 if m[1] == "2" else 4)
    if m := re.fullmatch(r"array<(.+),([^,<>]+),?>", wgsl):
        size, align = _layout(m[1], names)
        return _round_up(size, align) * _number(m[2], names), align
    if m := re.fullmatch(r"\{(.+)\}", wgsl):
        end, most = 0, 1
        for member in filter(None, _COMMA.split(m[1])):
            size, align = _layout(_MEMBER.fullmatch(member)[1], names)  # type: ignore[index]
            end, most = _round_up(end, align) + size, max(most, align)
        return _round_up(end, most), most
    return _layout(names[wgsl], names)


def _number(text: str, names: _Names) -> int:
    """The value of a constant integer expression of literals, consts and operators."""

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return _number(names[name], names)
            case ast.BinOp(left=left, op=op, right=right):
                return _BINARY[type(op)](value(left), value(right))
        raise ValueError(text)

    plain = _INTEGER.sub(r"\1", text.strip())
    if not _ARITHMETIC.fullmatch(plain):
        raise ValueError(text)
    return value(ast.parse(plain, mode="eval").body)
