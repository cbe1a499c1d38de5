"""How much of each limit a WGSL text uses, read off its module-scope declarations."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONST = re.compile(r"const\s+(\w+)\s*(?::[^=;]+)?=([^;]+);")
_ALIAS = re.compile(r"alias\s+(\w+)\s*=([^;]+);")
_WORKGROUP = re.compile(r"var\s*<\s*workgroup\s*>\s*(\w+)\s*:([^;]+);")
_STORAGE = re.compile(r"var\s*<\s*storage\b[^>]*>\s*(\w+)")
_FUNCTION = re.compile(r"((?:@\w+(?:\s*\([^)]*\))?\s*)+)fn\s+(\w+)")
_INTEGER = re.compile(r"\b(0[xX][\da-fA-F]+|\d+)[iu]\b")

_SCALARS = {"f32": 4, "i32": 4, "u32": 4, "bool": 4, "f16": 2}
_SUFFIXES = {"f": "f32", "i": "i32", "u": "u32", "h": "f16"}
_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Item:
    """A declaration and what it costs; None where this module cannot tell."""

    name: str
    cost: int | None
    line: int
    column: int


@dataclass(frozen=True)
class Usage:
    """Costs of a text: bytes of each workgroup variable, invocations of each entry point."""

    code: str  # the text with its comments blanked
    names: Mapping[str, str]  # what each const and alias stands for, without blanks
    workgroup: list[Item]
    entry_points: list[Item]
    storage: list[Item]


def measure(text: str) -> Usage:
    """The usage of a text. As in WebGPU, a workgroup variable that is never named costs nothing."""
    code = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    names: dict[str, str] = {}
    for pattern in (_CONST, _ALIAS):
        for m in pattern.finditer(code):
            names.setdefault(m[1], re.sub(r"\s", "", m[2]))

    def item(name: str, cost: int | None, at: int) -> Item:
        return Item(name, cost, *position(text, at))

    workgroup = []
    for m in _WORKGROUP.finditer(code):
        if len(re.findall(rf"\b{m[1]}\b", code)) > 1:
            workgroup.append(item(m[1], _known(_storage_bytes, m[2], names), m.start()))
    entry_points = []
    for m in _FUNCTION.finditer(code):
        if "@compute" in m[1]:
            cost = _known(_invocations, m[1], names)
            entry_points.append(item(m[2], cost, m.start() + m[1].index("@compute")))
    storage = [item(m[1], 1, m.start()) for m in _STORAGE.finditer(code)]
    return Usage(code, names, workgroup, entry_points, storage)


def position(text: str, at: int) -> tuple[int, int]:
    """Line and column of an index into the text, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


_Names: TypeAlias = Mapping[str, str]


def _known(cost: Callable[[str, _Names], int], text: str, names: _Names) -> int | None:
    try:
        return cost(text, names)
    except (SyntaxError, LookupError, ArithmeticError, TypeError, ValueError, RecursionError):
        return None


def _storage_bytes(wgsl: str, names: _Names) -> int:
    return _round_up(_layout(re.sub(r"\s", "", wgsl), names)[0], 16)


def _invocations(attributes: str, names: _Names) -> int:
    sizes = re.findall(r"@workgroup_size\s*\(([^)]*)\)", attributes)[0].rstrip(", ").split(",")
    return math.prod(_number(size, names) for size in sizes)


def _round_up(value: int, to: int) -> int:
    return -(-value // to) * to


def _layout(wgsl: str, names: _Names) -> tuple[int, int]:
    """Size and alignment of a scalar, atomic, vector or array by WGSL's rules."""
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

    return value(ast.parse(_INTEGER.sub(r"\1", text.strip()), mode="eval").body)
