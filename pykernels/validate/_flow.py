"""Lints for control flow: barriers in divergent code, and workgroup memory that is read before it
is written.

The lints read statements, not types. A value counts as different between the invocations of a
workgroup if its expression names a built-in that differs (``local_invocation_id`` and the like), or
a variable that depends on such a built-in. Values that come through a function's parameters or a
pointer count as equal. So each finding is a mistake, but the lints do not find all mistakes. Only
Tint's analysis does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ._usage import BARRIERS, Function, Usage

__all__ = ["Flaw", "flaws"]

_DIFFERENT = (
    "local_invocation_id|local_invocation_index|global_invocation_id|subgroup_invocation_id"
    "|subgroup_id|global_invocation_index"
)
_BUILTIN = re.compile(r"@builtin\s*\(\s*(\w+)\s*,?\s*\)\s*(\w+)")
_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\(")
_HEAD = re.compile(r"\s*(?:(if|while|switch|for)\b|(loop|continuing|else)\b)\s*")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_MEMBER = re.compile(r"([A-Za-z_]\w*)\s*\.\s*([A-Za-z_]\w*)")
_MARKS = re.compile(r"[()\[\]{};]")
_ASSIGN = re.compile(r"(?<![=!<>])(=|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<=|>>=|\+\+|--)(?!=)")
_UNIFORM = re.compile(r"\bworkgroupUniformLoad\s*\([^()]*\)")
_PART = re.compile(r"\s*(?:(\[)|\.\s*\w+)")
_EQUAL = re.compile(r"\s*=(?!=)")
_ATOMIC = re.compile(r"\batomic(Load|Add|Sub|Max|Min|And|Or|Xor)\s*\(\s*&$")
_AND = re.compile(r"[\w)\]]\s*&$")
_DECLARED = re.compile(r"\bvar\s*<\s*workgroup\s*>\s*$")
_NEAR = 80  # how many characters before a name are searched
# Loops nested more deeply than this are walked once, not twice: each level doubles the work.
_TWICE = 3
# The most uses of workgroup memory that are followed, for all entry points together.
_MOST_USES = 1_000_000


@dataclass(frozen=True)
class Flaw:
    code: str  # the code, PK007 or PK008
    line: int
    column: int
    message: str


@dataclass
class _Statement:
    """One statement: its own text, and blocks that may run after it."""

    kind: str  # one of if, for, while, loop, switch, block, simple
    at: int
    start: int  # the index in the code at which `text` begins
    text: str  # the condition, the header, or the statement itself
    blocks: list[list[_Statement]] = field(default_factory=list)


def flaws(usage: Usage) -> Iterator[Flaw]:
    """Findings of PK007 in every function and of PK008 for every compute entry point, each flaw
    once."""
    bodies: dict[str, list[_Statement]] = {}
    for name, f in usage.functions.items():
        memory, barrier = usage.touches(name)
        try:
            if memory or barrier:
                bodies[name] = _parse(usage, *f.body)
            if barrier:
                yield from _Divergence(usage, f).run(bodies[name])
        except RecursionError:  # no findings: compilers refuse hundreds of nested blocks, too
            bodies.pop(name, None)
    uses = {name: list(_uses(usage, body)) for name, body in bodies.items()}
    yield from _first_uses(usage, uses)


# -- statements -----------------------------------------------------------------------------------


def _parse(usage: Usage, start: int, end: int) -> list[_Statement]:
    """The statements between two indices."""
    code = usage.code
    out: list[_Statement] = []
    at = start
    while True:
        while at < end and (code[at].isspace() or code[at] == ";"):
            at += 1
        if at >= end:
            return out
        head = _HEAD.match(code, at, end)
        if head and (head[1] or head[2]):
            statement, at = _compound(usage, at, end, head[1] or head[2], head.end())
            if head[2] == "else" and out and out[-1].kind == "if":
                out[-1].blocks.append(
                    [statement] if statement.kind == "if" else statement.blocks[0]
                )
            else:
                out.append(statement)
            continue
        if code[at] == "{":
            last = min(usage.ends[at], end)
            out.append(_Statement("block", at, at, "", [_parse(usage, at + 1, last)]))
            at = last + 1
            continue
        last = _semicolon(code, at, end)
        out.append(_Statement("simple", at, at, code[at:last]))
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


def _compound(usage: Usage, at: int, end: int, kind: str, after: int) -> tuple[_Statement, int]:
    code = usage.code
    if kind == "else" and (inner := _HEAD.match(code, after, end)) and inner[1] == "if":
        return _compound(usage, after, end, "if", inner.end())
    start = code.find("{", after, end)
    if start < 0:
        return _Statement("simple", at, at, code[at:end]), end
    last = min(usage.ends[start], end)
    if kind == "switch":
        blocks = []
        inside = start + 1
        while 0 <= (brace := code.find("{", inside, last)):
            close = min(usage.ends[brace], last)
            blocks.append(_parse(usage, brace + 1, close))
            inside = close + 1
    else:
        blocks = [_parse(usage, start + 1, last)]
    kind = {"else": "block", "continuing": "block"}.get(kind, kind)
    return _Statement(kind, at, after, code[after:start], blocks), last + 1


# -- PK007: barriers where invocations went different ways ----------------------------------------


class _Divergence:
    """Walks one function with the names whose values differ between invocations."""

    def __init__(self, usage: Usage, f: Function) -> None:
        self.usage = usage
        self.different, self.members = _different(usage, f)
        self.changes: list[str] = []  # names that were added to `different` or removed from it
        self.found: dict[int, tuple[str, str]] = {}
        # Why only some invocations reach the rest of the function or loop; "" if all reach it.
        self.left = ""
        self.left_loop = ""
        self.switches = 0  # the number of switches around this statement, inside the innermost loop
        self.loops = 0

    def run(self, body: list[_Statement]) -> Iterator[Flaw]:
        self.block(body, "")
        for at, (name, why) in sorted(self.found.items()):
            yield Flaw("PK007", *self.usage.places.of(at), f"{name} {why}")

    def differs(self, text: str) -> bool:
        text = _UNIFORM.sub("0", text)
        if self.members and not self.members.isdisjoint(_MEMBER.findall(text)):
            return True
        # _WORD skips members of structs, which may have the name of a variable.
        return not self.different.isdisjoint(_WORD.findall(text))

    def change(self, name: str, differs: bool) -> None:
        if differs != (name in self.different):
            self.different ^= {name}
            self.changes.append(name)

    def changed(self, start: int) -> tuple[set[str], set[str]]:
        """The names that differ now but did not differ when `changes` had length `start`; and the
        names that differed then but do not differ now."""
        odd = {name for name, n in Counter(self.changes[start:]).items() if n % 2}
        return odd & self.different, odd - self.different

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
            self.switches += s.kind == "switch"
            self.branches(s.blocks, inner)
            self.switches -= s.kind == "switch"
        else:
            self.loop(s, why)

    def branches(self, blocks: list[list[_Statement]], why: str) -> None:
        """Walk the branches of a statement. A value differs after the statement if it differs
        before the branches, or at the end of one branch."""
        start = len(self.changes)
        after: set[str] = set()
        for b in blocks:
            self.block(b, why)
            after |= self.changed(start)[0]
            while len(self.changes) > start:
                self.different ^= {self.changes.pop()}
        for name in after:
            self.change(name, True)

    def loop(self, s: _Statement, why: str) -> None:
        header = s.text.strip().removeprefix("(").removesuffix(")")
        init, condition, step = (
            [*header.split(";"), "", ""][:3] if s.kind == "for" else ("", header, "")
        )
        self.simple(_Statement("simple", s.at, s.start, init), why or self.left or self.left_loop)
        outer, switches, self.switches = self.left_loop, self.switches, 0
        self.loops += 1
        for _ in range(2 if self.loops <= _TWICE else 1):
            inner = why
            if self.differs(condition):
                inner = (
                    why or f"in a loop that invocations leave at different times ({self.line(s)})"
                )
            start, left = len(self.changes), (self.left, self.left_loop)
            self.block(s.blocks[0], inner)
            now = inner or self.left or self.left_loop
            self.simple(_Statement("simple", s.at, s.start, step), now)
            more, fewer = self.changed(start)
            for name in fewer:
                self.change(name, True)
            # A second walk is needed only if the body made more names differ: they then differ at
            # the start of the next round.
            if not more and left == (self.left, self.left_loop):
                break
        self.loops -= 1
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
            self.change(name, True)
        elif assign[1] == "=" and not re.search(r"[.\[]", text[: assign.start()]):
            self.change(name, False)

    def inspect(self, s: _Statement, now: str) -> None:
        """Note the barriers of a statement, and its calls of functions that contain a barrier."""
        if not now:
            return
        for m in _WORD.finditer(s.text):
            name = m[0]
            if name in BARRIERS or (name in self.usage.functions and self.usage.touches(name)[1]):
                self.found.setdefault(s.start + m.start(), (name, now))

    def line(self, s: _Statement) -> str:
        return f"line {self.usage.places.of(s.at)[0]}"


def _different(usage: Usage, f: Function) -> tuple[set[str], set[tuple[str, str]]]:
    """Parameters, and members of parameters, that differ between invocations."""
    params = usage.code[f.params[0] : f.params[1]]
    direct = {name for what, name in _BUILTIN.findall(params) if re.fullmatch(_DIFFERENT, what)}
    members = set()
    for name, kind in re.findall(r"(\w+)\s*:\s*(\w+)", params):
        for what, member in usage.builtins.get(kind, ()):
            if re.fullmatch(_DIFFERENT, what):
                members.add((name, member))
    return direct, members


# -- PK008: workgroup memory read before it is written --------------------------------------------


@dataclass(frozen=True)
class _Use:
    """A read or a write of workgroup memory, or a call, in the order in which they happen."""

    kind: Literal["read", "write", "call"]
    name: str
    at: int
    certain: bool  # True if every run of the function makes this access or call


def _uses(usage: Usage, body: list[_Statement], certain: bool = True) -> Iterator[_Use]:
    variables = usage.variables
    for s in body:
        # The step of a `for` runs after the body, so it is left out of the header here.
        text = ";".join(s.text.split(";")[:2]) if s.kind == "for" else s.text
        found: dict[str, list[_Use]] = {"read": [], "write": [], "call": []}
        for m in _WORD.finditer(text):
            at = s.start + m.start()
            kind: Literal["read", "write", "call"]
            if m[0] in variables:
                kind = "write" if _writes(usage, at, s.start + m.end()) else "read"
            elif m[0] in usage.functions:
                kind = "call"
            else:
                continue
            found[kind].append(_Use(kind, m[0], at, certain))
        # The right side of an assignment is read before the left side is written.
        yield from [*found["read"], *found["write"], *found["call"]]
        for b in s.blocks:
            # A use in a branch is not certain, because the branch may not run.
            yield from list(_uses(usage, b, certain and s.kind not in ("if", "switch")))


def _first_uses(usage: Usage, uses: dict[str, list[_Use]]) -> Iterator[Flaw]:
    written = {u.name for body in uses.values() for u in body if u.kind == "write"}
    said: set[int] = set()
    left = _MOST_USES
    for entry in (f.name for f in usage.functions.values() if f.compute and f.name in uses):
        done: set[str] = set()
        # the calls that were followed, because a second walk through a function finds nothing new
        called: set[tuple[str, bool]] = set()
        walk = [(iter(uses[entry]), True)]
        while walk and left:
            left -= 1
            body, sure = walk[-1]
            use = next(body, None)
            if use is None:
                walk.pop()
                continue
            certain = sure and use.certain
            if use.kind == "call":
                if use.name in uses and (use.name, certain) not in called:
                    called.add((use.name, certain))
                    walk.append((iter(uses[use.name]), certain))
            elif use.name in done:
                continue
            elif use.kind == "write":
                done.add(use.name)
            elif certain or use.name not in written:
                done.add(use.name)
                if use.at not in said:
                    said.add(use.at)
                    why = "before it is written" if use.name in written else ", but never written"
                    message = f"workgroup memory {use.name} is read {why}".replace(" ,", ",")
                    yield Flaw("PK008", *usage.places.of(use.at), message)


def _writes(usage: Usage, start: int, end: int) -> bool:
    """True if this use of a variable is a write, or may be a write through a pointer."""
    code = usage.code
    before = code[max(start - _NEAR, 0) : start].rstrip()
    if before.endswith("&") and not before.endswith("&&") and not _AND.search(before):
        return _ATOMIC.search(before) is None
    if _DECLARED.search(before):
        return False
    while part := _PART.match(code, end):  # skips indices and members
        end = usage.ends[part.end() - 1] + 1 if part[1] else part.end()
    return _EQUAL.match(code, end) is not None
