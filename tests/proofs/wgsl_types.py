"""The types of expressions in a WGSL text, as far as an instrumented text needs them.

It follows declarations, constructors, built-in functions and members. A type that it does not find
is "": the caller leaves that place alone and counts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pykernels.validate._sizes import known
from pykernels.validate._usage import Function, Usage, structs

__all__ = ["Chain", "Part", "Types", "arguments"]

_GENERIC = re.compile(r"\b(?:vec[234]|mat\dx\d|array|bitcast|ptr|atomic)\s*<")
_ARGUMENTS = "«[^«»]*»"  # of a generic type, nested up to five deep
for _ in range(4):
    _ARGUMENTS = f"«[^«»]*(?:{_ARGUMENTS}[^«»]*)*»"
_TOKEN = re.compile(
    r"(?P<number>(?:0[xX][\da-fA-F]+|\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
    r"[uifh]?\b|\d+\.)"
    rf"|(?P<word>[A-Za-z_]\w*(?:{_ARGUMENTS})?)"
    r"|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|^!~])"
    r"|(?P<open>[(\[])|(?P<dot>\.)"
)
_SHORT = {"f": "f32", "h": "f16", "u": "u32", "i": "i32"}
_RESULT = {
    "unpack2x16float": "vec2<f32>", "unpack4x8snorm": "vec4<f32>", "unpack4x8unorm": "vec4<f32>",
    "unpack4xI8": "vec4<i32>", "unpack4xU8": "vec4<u32>", "dot4I8Packed": "i32",
    "dot4U8Packed": "u32", "arrayLength": "u32", "any": "bool", "all": "bool",
    "pack2x16float": "u32", "pack4xI8": "u32", "pack4xU8": "u32",
}  # fmt: skip
# Built-in functions whose result has the type of their first argument.
_SAME = frozenset(
    "abs min max clamp select sign round floor ceil trunc exp exp2 log log2 sqrt inverseSqrt fma "
    "mix pow sin cos tan tanh sinh cosh asin acos atan atan2 fract step smoothstep countOneBits "
    "firstLeadingBit firstTrailingBit countLeadingZeros countTrailingZeros reverseBits extractBits "
    "insertBits ldexp normalize quantizeToF16 subgroupShuffle subgroupShuffleXor subgroupAdd "
    "subgroupMax subgroupMin subgroupBroadcast subgroupBroadcastFirst subgroupExclusiveAdd "
    "subgroupInclusiveAdd subgroupShuffleUp subgroupShuffleDown".split()
)
_DECLARED = re.compile(r"\b(?:let|var|const)\b\s*(\w+)\s*(?::\s*([^=;]+?))?\s*(?:=|;)")
_PARAMETER = re.compile(rf"(\w+)\s*:\s*([^«,:@()]+(?:{_ARGUMENTS})?)")


@dataclass(frozen=True)
class Part:
    """An index of a chain: the span between its brackets; or a member, without a span."""

    start: int
    end: int
    of: str  # the type before it
    length: str = ""  # of what is indexed; "" for an array whose length only the device knows
    member: str = ""


@dataclass(frozen=True)
class Chain:
    """A variable with the members and indices behind it, as `tile[i][j].x`."""

    name: str
    start: int
    end: int
    parts: tuple[Part, ...]
    type: str  # of the whole chain, "" if unknown

    @property
    def indexed(self) -> bool:
        return any(not part.member for part in self.parts)


class Types:
    """The declarations of a text."""

    def __init__(self, usage: Usage) -> None:
        self.usage = usage
        self.code = _masked(usage.code)
        self.members = {
            name: {
                m[1]: m[2].strip()
                for member in arguments(_masked(text))
                if (m := re.search(r"(\w+)\s*:(.*)", member, re.DOTALL))
            }
            for name, text in structs(usage.code).items()
        }
        self.returns = {
            m[1]: self.resolved(m[2])
            for m in re.finditer(r"\bfn\s+(\w+)\s*\([^{};]*\)\s*->\s*([^{]+)\{", self.code)
        }
        self._locals: dict[str, list[tuple[int, str, str]]] = {}
        self.module = {r.name: self.resolved(r.type) for r in usage.resources}
        for m in re.finditer(
            r"\bvar\s*<\s*(?:workgroup|private)\s*>\s*(\w+)\s*:([^;=]*)", usage.code
        ):
            self.module[m[1]] = self.resolved(m[2])
        for m in re.finditer(r"\bconst\s+(\w+)\s*(?::\s*([^=;]+))?=\s*([^;]+);", self.code):
            if not any(f.body[0] <= m.start() < f.body[1] for f in usage.functions.values()):
                self.module[m[1]] = self.resolved(m[2]) if m[2] else self.of(m[3], None, 0)
        for f in usage.functions.values():
            self._locals[f.name] = found = []
            for m in _PARAMETER.finditer(self.code, *f.params):
                found.append((f.params[0], m[1], self.resolved(m[2])))
            for m in _DECLARED.finditer(self.code, *f.body):
                type_ = self.resolved(m[2]) if m[2] else ""
                if not type_ and self.code[m.end() - 1] == "=":
                    type_ = self.of(self._expression(m.end()), f, m.start())
                found.append((m.end(), m[1], type_))

    def _expression(self, start: int) -> str:
        """The text up to the end of a statement."""
        at = start
        while at < len(self.code) and self.code[at] not in ";{":
            at = self.usage.ends[at] + 1 if self.code[at] in "([" else at + 1
        return self.code[start:at]

    def resolved(self, type_: str) -> str:
        """A type with its aliases and short names written out, without blanks."""
        text = re.sub(r"\s", "", type_).replace("«", "<").replace("»", ">")
        text = re.sub(r"\bvec([234])([fhui])\b", lambda m: f"vec{m[1]}<{_SHORT[m[2]]}>", text)
        named = self.usage.names.get(text, "")
        return (
            self.resolved(named) if named and not named.startswith("{") and named != text else text
        )

    def inside(self, type_: str) -> tuple[str, str]:
        """What an index into the type gives, and the number of elements ("" if unknown)."""
        if m := re.fullmatch(r"array<(.*)>", type_):
            element, _, count = _halves(m[1])
            return self.resolved(element), count
        if m := re.fullmatch(r"vec([234])<(\w+)>", type_):
            return m[2], m[1]
        if m := re.fullmatch(r"mat(\d)x(\d)<(\w+)>", type_):
            return f"vec{m[2]}<{m[3]}>", m[1]
        return "", ""

    def number(self, count: str) -> int | None:
        """The value of the length of an array."""
        return known(self.usage.sizes.number, count)

    def variable(self, name: str, function: Function | None, at: int) -> tuple[str, bool]:
        """The type of a name at a place, and whether it is a name of the function."""
        for start, local, type_ in reversed(self._locals[function.name] if function else []):
            if local == name and start <= at:
                return type_, True
        return self.module.get(name, ""), False

    def member(self, type_: str, name: str) -> str:
        """The type of `.name`."""
        if m := re.fullmatch(r"vec[234]<(\w+)>", type_):
            return m[1] if len(name) == 1 else f"vec{len(name)}<{m[1]}>"
        return self.resolved(self.members.get(type_, {}).get(name, ""))

    def chains(self, function: Function) -> Iterator[Chain]:
        """The variables with an index, in a function."""
        for m in re.finditer(
            r"(?<![\w.])([A-Za-z_]\w*)\s*(?=[\[.])", self.code[: function.body[1]]
        ):
            if m.start() >= function.body[0] and (found := self._chain(m, function)).indexed:
                yield found

    def _chain(self, m: re.Match[str], function: Function) -> Chain:
        at = m.end()
        type_, _ = self.variable(m[1], function, m.start())
        parts: list[Part] = []
        while at < len(self.code):
            if self.code[at] == "[":
                end = self.usage.ends[at]
                inner, count = self.inside(type_)
                parts.append(Part(at + 1, end, type_, count))
                type_, at = inner, end + 1
            elif dot := re.compile(r"\s*\.\s*(\w+)").match(self.code, at):
                parts.append(Part(dot.end(), dot.end(), type_, member=dot[1]))
                type_, at = self.member(type_, dot[1]), dot.end()
            else:
                break
        return Chain(m[1], m.start(), at, tuple(parts), type_)

    def of(self, text: str, function: Function | None, at: int) -> str:
        """The type of an expression (with masked generics), "" if unknown. A literal without suffix
        is "abstract"."""
        operands, signs = _split(text)
        if not signs:
            return self._operand(operands[0], function, at)
        if any(s in ("<", ">", "<=", ">=", "==", "!=", "&&", "||") for s in signs):
            return "bool"
        types = [self._operand(o, function, at) for o in operands]
        if all(s in ("<<", ">>") for s in signs):
            return types[0]
        wide = [t for t in types if t.startswith(("vec", "mat"))]
        plain = [t for t in types if t and t != "abstract"]
        return (wide or plain or types)[0] if "" not in types or wide else ""

    def _operand(self, text: str, function: Function | None, at: int) -> str:
        text = text.strip().lstrip("-!~&").strip()
        if text.startswith("("):
            end = _closing(text, 0)
            return self._behind(self.of(text[1:end], function, at), text[end + 1 :])
        m = _TOKEN.match(text)
        if m is None:
            return ""
        if m.lastgroup == "number":
            if m[0][:2] in ("0x", "0X"):
                return _SHORT[m[0][-1]] if m[0][-1] in "ui" else "abstract"
            return _SHORT.get(m[0][-1], "abstract")
        name, rest = m[0], text[m.end() :]
        if rest.lstrip().startswith("("):
            rest = rest.lstrip()
            end = _closing(rest, 0)
            given = arguments(rest[1:end])
            return self._behind(self._call(name, given, function, at), rest[end + 1 :])
        if name in ("true", "false"):
            return "bool"
        return self._behind(self.variable(name, function, at)[0], rest)

    def _call(self, name: str, given: list[str], function: Function | None, at: int) -> str:
        if name in self.returns:
            return self.returns[name]
        plain = self.resolved(name)
        if plain.startswith("bitcast<"):
            return self.resolved(plain[8:-1])
        if re.match(r"(vec[234]|mat\dx\d|array)<|[fiu]32$|f16$|bool$", plain):
            return plain
        if name in _RESULT:
            return _RESULT[name]
        first = self.of(given[0], function, at) if given else ""
        if name.startswith("atomic") or name == "workgroupUniformLoad":
            return first[7:-1] if first.startswith("atomic<") else first
        if name == "dot":
            return self.inside(first)[0]
        if m := re.fullmatch(r"vec[234]", name):
            scalar = self.inside(first)[0] or first
            return f"{m[0]}<{scalar}>" if scalar not in ("", "abstract") else ""
        if name in _SAME:
            others = (self.of(g, function, at) for g in given[1:2])
            return first if first != "abstract" else next(others, first)
        return ""

    def _behind(self, type_: str, rest: str) -> str:
        """The type after the members and indices that follow."""
        rest = rest.strip()
        while rest and type_:
            if rest[0] == "[":
                type_, rest = self.inside(type_)[0], rest[_closing(rest, 0) + 1 :].strip()
            elif m := re.match(r"\.\s*(\w+)", rest):
                type_, rest = self.member(type_, m[1]), rest[m.end() :].strip()
            else:
                return ""
        return type_


def _masked(code: str) -> str:
    """The code with « and » around the arguments of generic types: the same length."""
    letters = list(code)
    for m in _GENERIC.finditer(code):
        depth, at = 0, m.end() - 1
        while at < len(code):
            if code[at] == "<":
                depth, letters[at] = depth + 1, "«"
            elif code[at] == ">":
                depth, letters[at] = depth - 1, "»"
                if not depth:
                    break
            at += 1
    return "".join(letters)


def _halves(text: str) -> tuple[str, str, str]:
    """The text before the last comma outside of brackets, the comma, and the text after it."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in ">)]") - (text[at] in "<([")
        if text[at] == "," and depth == 0:
            if text[at + 1 :].strip():
                return text[:at], ",", text[at + 1 :]
            return _halves(text[:at])
    return text, "", ""


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    return len(text)


def arguments(text: str) -> list[str]:
    """The arguments of a call, split at its commas."""
    found, depth, first = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{«") - (letter in ")]}»")
        if letter == "," and depth == 0:
            found.append(text[first:i])
            first = i + 1
    return [*found, text[first:]] if text[first:].strip() else found


def _split(text: str) -> tuple[list[str], list[str]]:
    """The operands and the binary signs between them, outside of brackets."""
    operands, signs, first, at, ended = [], [], 0, 0, False
    while at < len(text):
        if text[at] in "([":
            at, ended = _closing(text, at) + 1, True
            continue
        m = _TOKEN.match(text, at)
        if m is None:
            at += 1
        elif m.lastgroup == "sign" and ended:
            operands.append(text[first:at])
            signs.append(m[0])
            first, at, ended = m.end(), m.end(), False
        else:
            at, ended = m.end(), m.lastgroup in ("number", "word") or ended
    return [*operands, text[first:]], signs
