"""Lints on control flow: what each invocation does in which order, as far as the text shows it.

The walk knows statements, not types. A value counts as different between the invocations of a
workgroup if a built-in that differs (``local_invocation_id`` and the like) went into it by name;
what comes through a function's parameters or a pointer is taken as equal. So a finding stands for
a mistake, and silence proves nothing: Tint's analysis does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ._usage import Function, Usage, closing, position, structs

__all__ = ["Flaw", "flaws"]

_DIFFERENT = (
    "local_invocation_id|local_invocation_index|global_invocation_id|subgroup_invocation_id"
    "|subgroup_id|global_invocation_index"
)
_BUILTIN = re.compile(r"@builtin\s*\(\s*(\w+)\s*,?\s*\)\s*(\w+)")
_BARRIERS = ("workgroupBarrier", "storageBarrier", "textureBarrier", "workgroupUniformLoad")
_BARRIER = re.compile(rf"\b({'|'.join(_BARRIERS)})\b")
_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\(")
_HEAD = re.compile(r"\s*(?:(if|while|switch|for)\b|(loop|continuing|else)\b)\s*")
_MARKS = re.compile(r"[()\[\]{};]")
_ASSIGN = re.compile(r"(?<![=!<>])(=|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<=|>>=|\+\+|--)(?!=)")
_UNIFORM = re.compile(r"\bworkgroupUniformLoad\s*\([^()]*\)")


@dataclass(frozen=True)
class Flaw:
    code: str  # PK007 or PK008
    line: int
    column: int
    message: str


@dataclass
class _Statement:
    """One statement: its own text, and blocks that may run after it."""

    kind: str  # if, for, while, loop, switch, block, simple
    at: int
    text: str  # condition, header or the statement itself
    blocks: list[list[_Statement]] = field(default_factory=list)


def flaws(usage: Usage) -> Iterator[Flaw]:
    """PK007 in every function, PK008 for every compute entry point."""
    code = usage.code
    bodies = {
        name: _parse(code, *f.body) for name, f in usage.functions.items() if _needed(usage, f)
    }
    barriers = _with_barriers(usage)
    for name, body in bodies.items():
        if name in barriers:
            yield from _Divergence(usage, usage.functions[name], barriers).run(body)
    for f in usage.functions.values():
        if f.compute and usage.shared(f.name):
            yield from _first_uses(usage, f, bodies)


def _needed(usage: Usage, f: Function) -> bool:
    """Does a function, or one that it calls, name workgroup memory or a barrier?"""
    words = usage.words(f.name)
    return not words.isdisjoint(_BARRIERS) or any(w.name in words for w in usage.workgroup)


def _with_barriers(usage: Usage) -> frozenset[str]:
    """The functions that contain a barrier, or call one that does."""
    found = {n for n, f in usage.functions.items() if _BARRIER.search(usage.code, *f.body)}
    while True:
        more = {
            n
            for n, f in usage.functions.items()
            if n not in found and found & set(_CALL.findall(usage.code, *f.body))
        }
        if not more:
            return frozenset(found)
        found |= more


# -- statements -----------------------------------------------------------------------------------


def _parse(code: str, start: int, end: int) -> list[_Statement]:
    """The statements between two indices."""
    out: list[_Statement] = []
    at = start
    while True:
        while at < end and (code[at].isspace() or code[at] == ";"):
            at += 1
        if at >= end:
            return out
        head = _HEAD.match(code, at, end)
        if head and (head[1] or head[2]):
            statement, at = _compound(code, at, end, head[1] or head[2], head.end())
            if head[2] == "else" and out and out[-1].kind == "if":
                out[-1].blocks.append(
                    [statement] if statement.kind == "if" else statement.blocks[0]
                )
            else:
                out.append(statement)
            continue
        if code[at] == "{":
            last = min(closing(code, at), end)
            out.append(_Statement("block", at, "", [_parse(code, at + 1, last)]))
            at = last + 1
            continue
        last = _semicolon(code, at, end)
        out.append(_Statement("simple", at, code[at:last]))
        at = last + 1


def _semicolon(code: str, at: int, end: int) -> int:
    depth = 0
    for m in _MARKS.finditer(code, at, end):
        c = m[0]
        if c == ";":
            if depth <= 0:
                return m.start()
        else:
            depth += 1 if c in "([{" else -1
    return end


def _compound(code: str, at: int, end: int, kind: str, after: int) -> tuple[_Statement, int]:
    if kind == "else" and (inner := _HEAD.match(code, after, end)) and inner[1] == "if":
        return _compound(code, after, end, "if", inner.end())
    start = code.find("{", after, end)
    if start < 0:
        return _Statement("simple", at, code[at:end]), end
    last = min(closing(code, start), end)
    text = code[after:start]
    if kind == "switch":
        blocks = []
        inside = start + 1
        while 0 <= (brace := code.find("{", inside, last)):
            close = min(closing(code, brace), last)
            blocks.append(_parse(code, brace + 1, close))
            inside = close + 1
    else:
        blocks = [_parse(code, start + 1, last)]
    kind = {"else": "block", "continuing": "block"}.get(kind, kind)
    return _Statement(kind, at, text, blocks), last + 1


# -- PK007: barriers where invocations went different ways ----------------------------------------


class _Divergence:
    """Walks one function with the names whose values differ between invocations."""

    def __init__(self, usage: Usage, f: Function, barriers: frozenset[str]) -> None:
        self.usage, self.f = usage, f
        self.different, self.members = _different(usage, f)
        self.barrier = re.compile(
            _BARRIER.pattern + "|" + "|".join(rf"(?<![\w.]){n}(?=\s*\()" for n in sorted(barriers))
        )
        self.found: dict[int, str] = {}
        # Why the rest of the function, or of the loop, is reached by some only; "" if by all.
        self.left = ""
        self.left_loop = ""
        self.switches = 0  # around this statement, inside the innermost loop

    def run(self, body: list[_Statement]) -> Iterator[Flaw]:
        self.block(body, "")
        for at, why in sorted(self.found.items()):
            m = self.barrier.match(self.usage.code, at)
            name = m[0] if m else "barrier"
            yield Flaw("PK007", *position(self.usage.code, at), f"{name} {why}")

    def differs(self, text: str) -> bool:
        text = _UNIFORM.sub("0", text)
        if any(re.search(rf"\b{a}\s*\.\s*{b}\b", text) for a, b in self.members):
            return True
        # A member of another name is none of ours.
        return bool(self.different & set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)))

    def block(self, body: list[_Statement], why: str) -> None:
        for s in body:
            self.statement(s, why)

    def statement(self, s: _Statement, why: str) -> None:
        now = why or self.left or self.left_loop
        if s.kind == "simple":
            self.simple(s, now)
        elif s.kind == "block":
            self.block(s.blocks[0], why)
        elif s.kind in ("if", "switch"):
            self.inspect(s, now)
            inner = why
            if self.differs(s.text):
                inner = why or f"in a branch that only some invocations take ({self.line(s)})"
            before = set(self.different)
            after: set[str] = set()
            self.switches += s.kind == "switch"
            for b in s.blocks:
                self.different = set(before)
                self.block(b, inner)
                after |= self.different
            self.switches -= s.kind == "switch"
            self.different = after | before
        else:
            self.loop(s, why)

    def loop(self, s: _Statement, why: str) -> None:
        header = s.text.strip().removeprefix("(").removesuffix(")")
        init, condition, step = (
            [*header.split(";"), "", ""][:3] if s.kind == "for" else ("", header, "")
        )
        self.simple(_Statement("simple", s.at, init), why or self.left or self.left_loop)
        outer, switches, self.switches = self.left_loop, self.switches, 0
        for _ in range(2):  # what the end of the body makes different is so at its start
            inner = why
            if self.differs(condition):
                inner = (
                    why or f"in a loop that invocations leave at different times ({self.line(s)})"
                )
            before = set(self.different)
            self.block(s.blocks[0], inner)
            now = inner or self.left or self.left_loop
            self.simple(_Statement("simple", s.at, step), now)
            self.different |= before
        self.left_loop, self.switches = outer, switches

    def simple(self, s: _Statement, now: str) -> None:
        text = s.text.strip()
        self.inspect(s, now)
        word = re.match(r"(return|break|continue|discard)\b", text)
        if word:
            if now and word[1] in ("return", "discard"):
                self.left = self.left or f"after a {word[1]} of some invocations ({self.line(s)})"
            elif now and not (word[1] == "break" and self.switches):
                self.left_loop = (
                    self.left_loop or f"after a {word[1]} of some invocations ({self.line(s)})"
                )
            elif text.startswith("break if") and self.differs(text):
                self.left_loop = self.left_loop or (
                    f"after a break of some invocations ({self.line(s)})"
                )
            return
        assign = _ASSIGN.search(text)
        target = re.match(r"(?:let|var(?:\s*<[^>]*>)?|const)?\s*\(?\s*\*?\s*([A-Za-z_]\w*)", text)
        if not assign or not target:
            return
        name = target[1]
        if (
            now
            or self.differs(text[assign.end() :])
            or self.differs(text[: assign.start()][target.end() :])
        ):
            self.different.add(name)
        elif assign[1] == "=" and not re.search(r"[.\[]", text[: assign.start()]):
            self.different.discard(name)

    def inspect(self, s: _Statement, now: str) -> None:
        if not now:
            return
        at = self.usage.code.find(s.text, s.at) if s.text else s.at
        for m in self.barrier.finditer(s.text):
            self.found.setdefault(at + m.start(), now)

    def line(self, s: _Statement) -> str:
        return f"line {position(self.usage.code, s.at)[0]}"


def _different(usage: Usage, f: Function) -> tuple[set[str], list[tuple[str, str]]]:
    """Parameters, and members of parameters, that differ between invocations."""
    params = usage.code[f.params[0] : f.params[1]]
    direct = {name for what, name in _BUILTIN.findall(params) if re.fullmatch(_DIFFERENT, what)}
    members = []
    known = structs(usage.code)
    for name, kind in re.findall(r"(\w+)\s*:\s*(\w+)", params):
        for what, member in _BUILTIN.findall(known.get(kind, "")):
            if re.fullmatch(_DIFFERENT, what):
                members.append((name, member))
    return direct, members


# -- PK008: workgroup memory read before it is written --------------------------------------------


def _first_uses(
    usage: Usage, entry: Function, bodies: dict[str, list[_Statement]]
) -> Iterator[Flaw]:
    names = [w.name for w in usage.shared(entry.name)]
    patterns = {n: re.compile(rf"(?<![\w.]){n}\b") for n in names}
    any_name = re.compile(rf"(?<![\w.])(?:{'|'.join(names)})\b")
    written = {
        n for n in names
        if any(_writes(p, usage.code, m) for p in [patterns[n]] for m in p.finditer(usage.code))
    }  # fmt: skip
    done: set[str] = set()
    called: set[tuple[str, bool]] = set()  # a second walk through a function finds nothing new

    def walk(body: list[_Statement], certain: bool) -> Iterator[Flaw]:
        for s in body:
            # The step of a loop comes after its body.
            text = ";".join(s.text.split(";")[:2]) if s.kind == "for" else s.text
            yield from uses(s.at, text, certain)
            for b in s.blocks:
                # Written in one branch: it may be written. Read in one: it may not be reached.
                yield from walk(b, certain and s.kind not in ("if", "switch"))

    def uses(at: int, text: str, certain: bool) -> Iterator[Flaw]:
        where = usage.code.find(text, at) if text else at
        marks: list[tuple[int, str, bool]] = []
        for n in names if any_name.search(text) else ():
            if n in done:
                continue
            for m in patterns[n].finditer(text):
                marks.append((m.start(), n, _writes(patterns[n], text, m)))
        # The right side of an assignment is read before the left side is written.
        for offset, n, writes in sorted(marks, key=lambda m: (m[2], m[0])):
            if n in done:
                continue
            if writes:
                done.add(n)
            elif certain or n not in written:
                done.add(n)
                yield Flaw(
                    "PK008", *position(usage.code, where + offset),
                    f"workgroup memory {n} is read before it is written"
                    if n in written else f"workgroup memory {n} is read, but never written",
                )  # fmt: skip
        for m in _CALL.finditer(text):
            if m[1] in bodies and (m[1], certain) not in called:
                called.add((m[1], certain))
                yield from walk(bodies[m[1]], certain)

    yield from walk(bodies[entry.name], True)


def _writes(name: re.Pattern[str], text: str, m: re.Match[str]) -> bool:
    """Is this use of a variable a write, or one that cannot be followed?"""
    before = text[: m.start()].rstrip()
    if (
        before.endswith("&")
        and not before.endswith("&&")
        and not re.search(r"[\w)\]]\s*&$", before)
    ):
        return re.search(r"\batomic(Load|Add|Sub|Max|Min|And|Or|Xor)\s*\(\s*&$", before) is None
    if re.search(r"\bvar\s*<\s*workgroup\s*>\s*$", before):
        return False
    at = m.end()
    while True:  # past the indices and members
        rest = text[at:]
        step = re.match(r"\s*(\[|\.\s*\w+)", rest)
        if not step:
            break
        bracket = at + step.end() - 1
        at = closing(text, bracket) + 1 if step[1] == "[" else at + step.end()
    return re.match(r"\s*=(?!=)", text[at:]) is not None
