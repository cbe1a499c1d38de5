"""Values of constants and sizes of types, if they follow from the text without type inference."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping

__all__ = ["Sizes", "arguments", "known"]

_SIZES = re.compile(r"@workgroup_size\s*\(([^)]*)")
# a member without attributes, because attributes may change its size
_MEMBER = re.compile(r"\w+:(.+)")
_INTEGER = re.compile(r"\b(0[xX][\da-fA-F]+|\d+)[iu]\b")
_ARITHMETIC = re.compile(r"(?:\s|\b[A-Za-z_]\w*\b|\b0[xX][\da-fA-F]+\b|\b\d+\b|[-+*/%()])+")
_COMMA = re.compile(r"[<>,]")
_WORD = re.compile(r"[A-Za-z_]\w*")
# Longer expressions and types are not evaluated, and neither are integers of more than 64 bits.
_LONGEST = 1000
_LARGEST = 2**63

_SCALARS = {"f32": 4, "i32": 4, "u32": 4, "bool": 4, "f16": 2}
_SUFFIXES = {"f": "f32", "i": "i32", "u": "u32", "h": "f16"}
_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


def known(cost: Callable[[str], int], text: str) -> int | None:
    """The cost, or None if it is unknown."""
    try:
        return cost(text)
    except (SyntaxError, LookupError, ArithmeticError, TypeError, ValueError, RecursionError):
        return None


def arguments(attributes: str) -> list[str]:
    """The arguments of @workgroup_size among a function's attributes."""
    found = _SIZES.search(attributes)
    return found[1].rstrip(", ").split(",") if found else []


def _round_up(value: int, to: int) -> int:
    return -(-value // to) * to


class Sizes:
    """Values of constants and sizes of types; each name is evaluated once. Its methods raise the
    errors that `known` catches."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self._values: dict[str, int | None] = {}
        self._layouts: dict[str, tuple[int, int] | None] = {}

    def storage_bytes(self, wgsl: str) -> int:
        return _round_up(self._layout(re.sub(r"\s", "", wgsl))[0], 16)

    def layout(self, wgsl: str) -> tuple[int, int] | None:
        """Size and alignment of a type in bytes, None if unknown."""
        try:
            return self._layout(re.sub(r"\s", "", wgsl))
        except (SyntaxError, LookupError, ArithmeticError, TypeError, ValueError, RecursionError):
            return None

    @staticmethod
    def members(struct: str) -> list[str]:
        """The members of a struct in `names`, each as "name:type"."""
        return [m for m in _members(struct[1:-1]) if m]

    def invocations(self, attributes: str) -> int:
        sizes = arguments(attributes)
        if not sizes:
            raise ValueError(attributes)
        return math.prod(self.number(size) for size in sizes)

    def number(self, text: str) -> int:
        """The value of a constant integer expression of literals, consts and operators."""
        waiting = self._unknown(text)
        opened: set[str] = set()
        while waiting:  # the names that a name depends on are evaluated first
            name = waiting[-1]
            more = self._unknown(self.names[name]) if name not in opened else []
            opened.add(name)
            if more:
                waiting += more
            else:
                waiting.pop()
                self._values.setdefault(name, known(self._evaluate, self.names[name]))
        return self._evaluate(text)

    def _unknown(self, text: str) -> list[str]:
        words = _WORD.findall(text) if len(text) <= _LONGEST else []
        return [w for w in words if w in self.names and w not in self._values]

    def _evaluate(self, text: str) -> int:
        def value(node: ast.expr) -> int:
            match node:
                case ast.Constant(value=int(number)):
                    found: int | None = number
                case ast.Name(id=name):
                    found = self._values[name]
                case ast.BinOp(left=left, op=op, right=right):
                    found = _BINARY[type(op)](value(left), value(right))
                case _:
                    found = None
            if found is None or abs(found) > _LARGEST:
                raise ValueError(text)
            return found

        plain = _INTEGER.sub(r"\1", text.strip())
        if len(plain) > _LONGEST or not _ARITHMETIC.fullmatch(plain):
            raise ValueError(text)
        return value(ast.parse(plain, mode="eval").body)

    def _layout(self, wgsl: str) -> tuple[int, int]:
        """Size and alignment of a scalar, atomic, vector, array or struct by WGSL's rules."""
        if wgsl in _SCALARS:
            return _SCALARS[wgsl], _SCALARS[wgsl]
        if wgsl in self.names:
            return self._named(wgsl)
        if wgsl.startswith("{"):
            return self._struct(wgsl[1:-1])
        if len(wgsl) > _LONGEST:
            raise ValueError(wgsl)
        if m := re.fullmatch(r"atomic<(.+)>", wgsl):
            return self._layout(m[1])
        if m := re.fullmatch(r"vec([234])(?:<(.+)>|([fiuh]))", wgsl):
            size, _ = self._layout(m[2] or _SUFFIXES[m[3]])
            return size * int(m[1]), size * (2 if m[1] == "2" else 4)
        if m := re.fullmatch(r"array<(.+),([^,<>]+),?>", wgsl):
            size, align = self._layout(m[1])
            return _round_up(size, align) * self.number(m[2]), align
        raise ValueError(wgsl)

    def _named(self, name: str) -> tuple[int, int]:
        if name not in self._layouts:
            # marks the size as unknown, also for a type that contains itself
            self._layouts[name] = None
            self._layouts[name] = self._layout(self.names[name])
        found = self._layouts[name]
        if found is None:
            raise ValueError(name)
        return found

    def _struct(self, members: str) -> tuple[int, int]:
        end, most = 0, 1
        for member in filter(None, _members(members)):
            size, align = self._layout(_MEMBER.fullmatch(member)[1])  # type: ignore[index]
            end, most = _round_up(end, align) + size, max(most, align)
        return _round_up(end, most), most


def _members(text: str) -> list[str]:
    """The parts between commas that are not inside a type."""
    parts: list[str] = []
    depth = start = 0
    for m in _COMMA.finditer(text):
        depth += {"<": 1, ">": -1, ",": 0}[m[0]]
        if m[0] == "," and depth == 0:
            parts.append(text[start : m.start()])
            start = m.end()
    return [*parts, text[start:]]
