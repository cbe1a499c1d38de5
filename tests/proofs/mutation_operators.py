"""Small wrong changes of a source file: the operators of the mutation run.

A mutation is a place in a text and what stands there instead. Comments, docstrings, the head of a
spec and lines of directives are left alone: a wrong head is a kernel that does not build.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Mutation", "mutations"]


@dataclass(frozen=True)
class Mutation:
    kind: str
    start: int
    end: int
    to: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.to + text[self.end :]

    def describe(self, text: str) -> str:
        line = text.count("\n", 0, self.start) + 1
        return f"{line}: {self.kind}: `{text[self.start : self.end]}` -> `{self.to}`"


SWAPS = {
    "<": ("bound", "<="), "<=": ("bound", "<"), ">": ("bound", ">="), ">=": ("bound", ">"),
    "==": ("comparison", "!="), "!=": ("comparison", "=="),
    "+": ("arithmetic", "-"), "-": ("arithmetic", "+"),
    "*": ("arithmetic", "+"), "/": ("arithmetic", "*"), "%": ("arithmetic", "/"),
    "//": ("arithmetic", "*"),
    "+=": ("accumulation", "="), "&&": ("mask", "||"), "||": ("mask", "&&"),
    "and": ("mask", "or"), "or": ("mask", "and"),
    "<<": ("shift", ">>"), ">>": ("shift", "<<"),
    "min": ("identity", "max"), "max": ("identity", "min"),
    "True": ("decision", "False"), "False": ("decision", "True"),
    "true": ("decision", "false"), "false": ("decision", "true"),
}  # fmt: skip

# Longest first. A generic's angle brackets (`vec4<f32>`, `array<u32, 4>`) are one token.
WGSL = re.compile(
    r"(?P<generic>\b(?:vec[234]|mat\dx\d|array|atomic|ptr|bitcast|var)\s*<[^<>;(){}]*(?:<[^<>]*>)?[^<>;(){}]*>)"
    r"|(?P<barrier>\b(?:workgroupBarrier|storageBarrier|subgroupBarrier)\(\);)"
    r"|(?P<guard>\bif \((?:[^(){}]|\([^()]*\))*\) \{ (?:return|continue|break);? \})"
    r"|(?P<hole>\$\{[^}]*\}|\{\{.*?\}\})"
    r"|(?P<number>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uifh]?\b)"
    r"|(?P<word>\b[A-Za-z_]\w*\b)"
    r"|(?P<sign><<=|>>=|->|<<|>>|<=|>=|==|!=|\+=|-=|\*=|/=|&&|\|\||[-+*/%<>=&|^!])"
)

# Changes that take more than one token, in a line of WGSL. `quantizeToF16` rounds a f32 as a store
# to a f16 would.
SUM = re.compile(r"(?P<to>\b[\w.]+(?:\[[^\]]*\])?) \+= (?P<what>[^;]+);")
LOOP = re.compile(
    r"\bfor \([^;]*; (?P<name>\w+) < (?P<end>[^;]+); (?P=name) \+= (?P<by>(?:\$\{[^}]*\}|[^){])+)\)"
)
PAIR = re.compile(
    r"\b(?!(?:min|max|dot|vec\d|mat\d)\b)[a-z]\w*\((?:[\w.]+, )?(?P<a>[\w.]+), (?P<b>[\w.]+)\)"
)


def mutations(text: str, path: str) -> list[Mutation]:
    """All mutations of a file, in its order."""
    return list(_python(text) if path.endswith(".py") else _wgsl(text))


def _number(value: str, start: int, end: int) -> Iterator[Mutation]:
    digits = value.rstrip("uifh")
    suffix = value[len(digits) :]
    if re.fullmatch(r"\d+", digits):
        yield Mutation("off by one", start, end, f"{int(digits) + 1}{suffix}")
        if int(digits) > 0:
            yield Mutation("off by one", start, end, f"{int(digits) - 1}{suffix}")
    elif float(digits) == 0:
        yield Mutation("identity", start, end, f"1.0{suffix}")
    else:
        yield Mutation("identity", start, end, f"0.0{suffix}")


def _wgsl(text: str) -> Iterator[Mutation]:
    head = [m.end() for m in re.finditer(r"^// ///.*$", text, re.M)]
    at = head[-1] if head else 0
    for line in text[at:].splitlines(keepends=True):
        code = line.partition("//")[0]
        if line.lstrip().startswith(("enable", "requires", "diagnostic", "fn ", "struct", "var")):
            code = ""
        for m in WGSL.finditer(code):
            start, end = at + m.start(), at + m.end()
            value = m.group()
            if m.lastgroup == "barrier":
                yield Mutation("barrier", start, end, "")
            elif m.lastgroup == "guard":
                yield Mutation("guard", start, end, "")
            elif m.lastgroup == "number":
                yield from _number(value, start, end)
            elif m.lastgroup in ("word", "sign") and value in SWAPS:
                kind, to = SWAPS[value]
                yield Mutation(kind, start, end, to)
        yield from _lines(code, at)
        at += len(line)


def _lines(code: str, at: int) -> Iterator[Mutation]:
    """Sums rounded to f16, loops without their last step, two arguments swapped."""
    for m in SUM.finditer(code):
        to = f"{m['to']} = quantizeToF16({m['to']} + ({m['what']}));"
        yield Mutation("f16 sum", at + m.start(), at + m.end(), to)
    for m in LOOP.finditer(code):
        start, end = m.span("name")
        yield Mutation("last tile", at + start, at + end, f"{m['name']} + {m['by']}")
    for m in PAIR.finditer(code):
        if m["a"] != m["b"]:
            to = f"{m['b']}, {m['a']}"
            yield Mutation("swapped arguments", at + m.start("a"), at + m.end("b"), to)


def _python(text: str) -> Iterator[Mutation]:
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    signature = 0  # inside of a `def ...:`, an import or an annotation nothing is changed
    for i, token in enumerate(tokens):
        if token.type == tokenize.NAME and token.string in ("def", "import", "from", "class"):
            signature = token.start[0]
        if token.type == tokenize.NEWLINE:
            signature = 0
        if signature or token.line.lstrip().startswith(("@", "__all__")):
            continue
        start, end = (
            lines[token.start[0] - 1] + token.start[1],
            lines[token.end[0] - 1] + token.end[1],
        )
        value = token.string
        if token.type == tokenize.NUMBER and re.fullmatch(r"[\d.]+", value):
            yield from _number(value, start, end)
        elif value == "not" and tokens[i + 1].string != "in" and tokens[i - 1].string != "is":
            yield Mutation("mask", start, end, "")
        elif token.type in (tokenize.OP, tokenize.NAME) and value in SWAPS:
            # Signs that mean something else in Python: `*args`, `-1` and types with `|`.
            unary = tokens[i - 1].type == tokenize.OP and tokens[i - 1].string not in (
                ")",
                "]",
                "}",
            )
            if value in ("*", "-", "+", "/") and (
                unary or tokens[i - 1].string in ("return", "in")
            ):
                continue
            kind, to = SWAPS[value]
            yield Mutation(kind, start, end, to)
