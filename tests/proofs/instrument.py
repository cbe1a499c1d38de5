"""A text that reports what WGSL forbids and a software driver hides.

    text, sites = instrumented(text)

It checks, in each invocation:

    each index into storage, workgroup memory and private arrays, and each dynamic component
    each shift by a number that is no literal: it must be below 32
    each conversion from a float to an integer: the number must fit
    each access to workgroup memory: no other invocation may have written the element since the
    last barrier, and none may have read or written what is written

For the last, a buffer holds two words for each element of workgroup memory of each workgroup: its
last writer, and its last reader, each with the number of barriers before it. The result does not
depend on the order in which a driver runs invocations.

Software drivers inline all functions and take long to compile atomics, so an invocation keeps what
it finds first and writes it where it ends.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from pykernels.validate._instrument import MEMORY, Site
from pykernels.validate._rewrite import Rewriting
from pykernels.validate._usage import Function
from tests.proofs.wgsl_types import Chain, Part, Types, arguments

__all__ = ["HEADER_WORDS", "KINDS", "Instrument"]

HEADER_WORDS = 8
KINDS = ("index", "shift", "conversion", "race")
_ACCESSOR = re.compile(r"\w+_(?:load|store)\Z")
_LITERAL = re.compile(r"\s*(?:0[xX][\da-fA-F]+|\d+)[ui]?\s*\Z")
_SHIFT = re.compile(r"(<<|>>)(?!=)\s*(?=\S)")
_CONVERSION = re.compile(r"(?<![\w.])(?:([iu])32|vec([234])«([iu])32»)\s*\(")
_ASSIGNED = re.compile(r"\s*(?:=(?!=)|([-+*/%&|^]|<<|>>)=|\+\+|--)")
_WORD = re.compile(r"[-!~\s]*[\w.]+(?:«[^»]*»)?|[-!~\s]*(?=[(\[])")
_MEMBER = re.compile(r"\s*\.\s*\w+")
_UNIFORM_LOAD = re.compile(r"\bworkgroupUniformLoad\s*\([^()]*\)[^;{}]*;")
_ATTRIBUTE = re.compile(r"@\w+\s*\([^()]*\)")
_GIVEN = {
    "global_invocation_id": "vec3<u32>", "local_invocation_index": "u32",
    "workgroup_id": "vec3<u32>", "num_workgroups": "vec3<u32>",
}  # fmt: skip


@dataclass
class Instrument:
    """The rewriting of one text; `sites` are its checks, `skipped` what has no check and why."""

    wgsl: str
    first: int = 0  # the number of the first site
    races: bool = True  # False: of workgroup memory only indices are checked
    sites: list[Site] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.edits = Rewriting(self.wgsl)
        self.usage = self.edits.usage
        self.types = Types(self.usage)
        self._accessors = {
            f.name: f for f in self.usage.functions.values() if _ACCESSOR.fullmatch(f.name)
        }
        self._bases: dict[str, int] = {}
        self.words = 0  # of workgroup memory, in elements
        for name in self._shared():
            self._bases[name] = self.words
            self.words += self._elements(self.types.module[name])

    def rewrite(self) -> None:
        """Insert all checks; the buffer is declared by `declare`."""
        for function in self.usage.functions.values():
            # Where two checks end at the same place, the inner one is inserted first.
            self._shifts(function)
            self._conversions(function)
            for chain in self.types.chains(function):
                self._chain(chain, function)
            self._scalars(function)
            self._barriers(function)
        for name, function in self._accessors.items():
            self.edits.insert(function.params[1], ", pk_site: u32")
            for call in self.edits.calls(name):
                site = self._site(call.start, call.end, name.rpartition("_")[0])
                self.edits.insert(call.end - 1, f", {site}")

    def declare(self, group: int, binding: int) -> str:
        """The new text, with the buffer at this place."""
        for function in self.usage.functions.values():
            if function.compute:
                self._enter(function)
        self.edits.insert(
            len(self.usage.code),
            f" @group({group}) @binding({binding}) var<storage, read_write> {MEMORY}: "
            f"array<atomic<u32>>; {_PRIVATE} {_FUNCTIONS} {self._getters()}",
        )
        return self.edits.text()

    # -- places -----------------------------------------------------------------------------------

    def _site(self, start: int, end: int, name: str) -> str:
        line, _ = self.usage.places.of(start)
        self.sites.append(Site(line, self.edits.original(start, end), name=name))
        return f"{self.first + len(self.sites) - 1}u"

    def _shared(self) -> list[str]:
        found = re.finditer(r"\bvar\s*<\s*workgroup\s*>\s*(\w+)", self.usage.code)
        return [m[1] for m in found]

    def _elements(self, type_: str) -> int:
        """How many elements a type has whose accesses are told apart: those of its arrays."""
        if members := self.types.members.get(type_):
            found = [self._elements(self.types.resolved(m)) for m in members.values()]
            return sum(found) if max(found) > 1 else 1
        if not type_.startswith("array<"):
            return 1
        element, count = self.types.inside(type_)
        number = self.types.number(count)
        if number is None:
            raise ValueError(f"the length {count!r} of an array in workgroup memory is not known")
        return number * self._elements(element)

    def _place(self, chain: Chain, last: int) -> str:
        """An expression for the first element of what stands before part `last` of a chain."""
        found = f"{self._bases[chain.name]}u"
        for part in chain.parts[:last]:
            if part.member:
                for name, type_ in self.types.members.get(part.of, {}).items():
                    if name == part.member:
                        break
                    found += f" + {self._elements(self.types.resolved(type_))}u"
            else:
                each = self._elements(self.types.inside(part.of)[0])
                found += f" + u32({self.edits.original(part.start, part.end)}) * {each}u"
        return found

    def _chain(self, chain: Chain, function: Function) -> None:
        """Checks of the indices behind a name."""
        _, local = self.types.variable(chain.name, function, chain.start)
        shared = not local and chain.name in self._bases
        arrays = [n for n, p in enumerate(chain.parts) if p.of.startswith("array<")]
        for number, part in enumerate(chain.parts):
            if part.member:
                continue
            last = shared and arrays[-1:] == [number]
            length = self._length(chain, part, local)
            if _LITERAL.match(self.edits.original(part.start, part.end)) and not last:
                continue  # compilers check it
            if not length:
                self.skipped["index of an unknown length"] += 1
                continue
            if function.name in self._accessors and not shared and not local:
                site = "pk_site"
            else:
                site = self._site(chain.start, chain.end, chain.name)
            self.checks["index"] += 1
            element = self.types.inside(part.of)[0]
            known = not element.startswith("atomic<") and not self._address(chain.start)
            if not last or not known or not self.races:
                self.edits.insert(part.start, "pk_at(u32(")
                self.edits.insert(part.end, f"), {length}, {site})")
                continue
            writes, reads = self._use(chain.end)
            self.checks["race"] += 1
            each = self._elements(element)
            how = (
                ("read" if reads else "") + ("write" if writes else "") + ("s" if each > 1 else "")
            )
            self.edits.insert(part.start, f"pk_{how}_at(u32(")
            where = f"{self._place(chain, number)}" + (f", {each}u" if each > 1 else "")
            self.edits.insert(part.end, f"), {length}, {site}, {where})")

    def _length(self, chain: Chain, part: Part, local: bool) -> str:
        if part.length:
            return f"u32({part.length})"
        whole = part is chain.parts[0] and not local and part.of.startswith("array<")
        return f"arrayLength(&{chain.name})" if whole else ""

    def _address(self, start: int) -> bool:
        before = self.usage.code[:start].rstrip()
        return before.endswith("&") and before[:-1].rstrip()[-1:] in ("(", ",")

    def _use(self, end: int) -> tuple[bool, bool]:
        """Whether the element is written, and whether it is read."""
        m = _ASSIGNED.match(self.usage.code, end)
        return (True, m[0].strip() != "=") if m else (False, True)

    def _scalars(self, function: Function) -> None:
        """Workgroup variables that are no arrays: each use in a statement is recorded before it."""
        code = self.usage.code
        for name, base in self._bases.items():
            type_ = self.types.module[name]
            if type_.startswith(("array<", "atomic<")) or not self.races:
                continue
            for m in re.compile(rf"(?<![\w.]){name}\b").finditer(code, *function.body):
                if self._address(m.start()):
                    continue
                end = m.end()
                while part := re.compile(r"\s*\.\s*\w+").match(code, end):
                    end = part.end()
                writes, _ = self._use(end)
                site = self._site(m.start(), m.end(), name)
                self.checks["race"] += 1
                if writes:
                    self.edits.insert(m.start(), f"pk_mark({base}u, true, {site}); ")
                else:
                    self.edits.replace(m.start(), m.end(), f"pk_get_{name}({site})")

    def _getters(self) -> str:
        """A function for each workgroup variable that is no array: it records that it is read."""
        return " ".join(
            f"fn pk_get_{name}(site: u32) -> {type_} "
            f"{{ pk_mark({base}u, false, site); return {name}; }}"
            for name, base in self._bases.items()
            if not (type_ := self.types.module[name]).startswith(("array<", "atomic<"))
        )

    def _shifts(self, function: Function) -> None:
        code = self.types.code
        for m in _SHIFT.finditer(code, *function.body):
            end = self._operand(m.end())
            text = self.edits.original(m.end(), end)
            type_ = self.types.of(code[m.end() : end], function, m.start())
            if _LITERAL.match(text) or re.fullmatch(r"u32\(\d+u?\)|vec\d<u32>\([\du, ]+\)", text):
                continue
            wide = re.fullmatch(r"vec([234])<u32>", type_)
            if type_ not in ("u32", "abstract") and not wide:
                self.skipped["shift of an unknown type"] += 1
                continue
            self.checks["shift"] += 1
            self.edits.insert(m.end(), f"pk_shift{wide[1] if wide else ''}(")
            self.edits.insert(end, f", {self._site(m.end(), end, 'shift')})")

    def _operand(self, at: int) -> int:
        """The end of the operand that starts here: a name, a number or brackets, and what is
        behind it."""
        code = self.types.code
        m = _WORD.match(code, at)
        while m:
            at = m.end()
            while at < len(code) and code[at] in "([":
                at = self.usage.ends[at] + 1
            m = _MEMBER.match(code, at)
        return at

    def _conversions(self, function: Function) -> None:
        code = self.types.code
        for m in _CONVERSION.finditer(code, *function.body):
            start, end = m.end(), self.usage.ends[m.end() - 1]
            kind, wide = m[1] or m[3], m[2] or ""
            type_ = self.types.of(code[start:end], function, start)
            if len(arguments(code[start:end])) != 1:
                continue  # a vector of several numbers
            if not type_:
                self.skipped["conversion of an unknown type"] += 1
            if not re.fullmatch(rf"vec{wide}<f(32|16)>" if wide else "f(32|16)", type_):
                continue
            self.checks["conversion"] += 1
            to = f"vec{wide}<f32>" if wide else "f32"
            self.edits.insert(start, f"pk_{kind}{wide}({to}(")
            self.edits.insert(end, f"), {self._site(m.start(), end + 1, 'conversion')})")

    def _barriers(self, function: Function) -> None:
        code = self.usage.code
        for m in re.compile(r"\bworkgroupBarrier\s*\(\s*\)\s*;").finditer(code, *function.body):
            self.edits.insert(m.end(), " pk_epoch += 1u;")
        for m in _UNIFORM_LOAD.finditer(code, *function.body):
            self.edits.insert(m.end(), " pk_epoch += 1u;")

    def _enter(self, function: Function) -> None:
        """The entry point becomes a function, which a new entry point calls between `pk_begin` and
        `pk_end`: the function may return anywhere."""
        start, end = function.params
        params = self.usage.code[start:end]
        given = {name: self.edits.builtin(function.name, name) for name in _GIVEN}
        missing = [name for name, found in given.items() if not found]
        given |= {name: f"pk_{name}" for name in missing}
        declared = ", ".join(f"@builtin({n}) pk_{n}: {_GIVEN[n]}" for n in missing)
        comma = ", " if declared and params.strip() else ""
        own = ", ".join(re.findall(r"(\w+)\s*:", params))
        words = 2 * self.words if self.races else 0
        size = math.prod(n or 1 for n in self.usage.size(function.name))
        name = self.usage.code.rindex(function.name, 0, start)
        self.edits.replace(
            name, name + len(function.name),
            f"{function.name}({declared}{comma}{' '.join(params.split())}) {{ "
            f"pk_begin({given['global_invocation_id']}, {given['local_invocation_index']}, "
            f"{given['workgroup_id']}, {given['num_workgroups']}, {words}u, {size}u); "
            f"pk_{function.name}({own}); pk_end(); }} fn pk_{function.name}",
        )  # fmt: skip
        for m in _ATTRIBUTE.finditer(self.usage.code, start, end):
            self.edits.replace(*m.span(), "")


def _wide() -> Iterator[str]:
    for n in ("", "2", "3", "4"):
        u, f = (f"vec{n}<u32>", f"vec{n}<f32>") if n else ("u32", "f32")
        worst = "v" if not n else f"max(v.x, v[{n}u - 1u])" if n == "2" else (
            f"max(max(v.x, v.y), max(v.z, v[{n}u - 1u]))"
        )  # fmt: skip
        bad = "any({})" if n else "({})"
        yield (
            f"fn pk_shift{n}(v: {u}, site: u32) -> {u} {{ let worst = {worst}; "
            "if (worst >= 32u) { pk_report(site, 1u, worst, 32u); } return v; }"
        )
        for kind, low, high in (
            ("u", "-1.0f", "4294967296.0f"), ("i", "-2147483904.0f", "2147483648.0f"),
        ):  # fmt: skip
            fits = f"(v > {f}({low})) & (v < {f}({high}))"
            yield (
                f"fn pk_{kind}{n}(v: {f}, site: u32) -> {f} {{ if ({bad.format(f'!({fits})')}) "
                f"{{ pk_report(site, 2u, bitcast<u32>(v{'.x' if n else ''}), 0u); }} return v; }}"
            )


def _shared() -> Iterator[str]:
    """The functions around an index into workgroup memory: of one element, or of `each`."""
    for how in ("read", "write", "readwrite"):
        marks = "".join(
            f"pk_mark(at, {str(w == 'write').lower()}, site); "
            for w in ("read", "write")
            if w in how.replace("readwrite", "read write").split()
        )
        yield (
            f"fn pk_{how}_at(i: u32, elements: u32, site: u32, first: u32) -> u32 {{ "
            f"let index = pk_at(i, elements, site); let at = first + index; {marks}return index; }}"
        )
        yield (
            f"fn pk_{how}s_at(i: u32, elements: u32, site: u32, first: u32, each: u32) -> u32 {{ "
            "let index = pk_at(i, elements, site); let end = first + index * each + each; "
            f"for (var at = end - each; at < end; at += 1u) {{ {marks}}} return index; }}"
        )


_PRIVATE = (
    "var<private> pk_id: vec3<u32>; var<private> pk_li: u32; var<private> pk_base: u32; "
    "var<private> pk_epoch: u32; var<private> pk_count: u32; var<private> pk_first: vec4<u32>;"
)
_FUNCTIONS = f"""
fn pk_begin(id: vec3<u32>, li: u32, wg: vec3<u32>, n: vec3<u32>, words: u32, size: u32) {{
  pk_id = id;
  pk_li = li;
  pk_epoch = 1u;
  let group = wg.x + n.x * (wg.y + n.y * wg.z);
  if (words > 0u && group < (arrayLength(&{MEMORY}) - {HEADER_WORDS}u) / words) {{
    pk_base = {HEADER_WORDS}u + group * words;
    for (var i = li; i < words; i += size) {{ atomicStore(&{MEMORY}[pk_base + i], 0u); }}
  }}
  storageBarrier();
  workgroupBarrier();
}}
fn pk_end() {{
  if (pk_count != 0u && atomicAdd(&{MEMORY}[0], pk_count) == 0u) {{
    atomicStore(&{MEMORY}[1], pk_first.x);
    atomicStore(&{MEMORY}[2], pk_first.z);
    atomicStore(&{MEMORY}[3], pk_first.w);
    atomicStore(&{MEMORY}[4], pk_id.x);
    atomicStore(&{MEMORY}[5], pk_id.y);
    atomicStore(&{MEMORY}[6], pk_id.z);
    atomicStore(&{MEMORY}[7], pk_first.y);
  }}
}}
fn pk_report(site: u32, kind: u32, value: u32, limit: u32) {{
  if (pk_count == 0u) {{ pk_first = vec4<u32>(site, kind, value, limit); }}
  pk_count += 1u;
}}
fn pk_at(index: u32, elements: u32, site: u32) -> u32 {{
  if (index >= elements) {{ pk_report(site, 0u, index, elements); }}
  return min(index, max(elements, 1u) - 1u);
}}
{" ".join(_shared())}
fn pk_mark(element: u32, writes: bool, site: u32) {{
  if (pk_base != 0u) {{
    let at = pk_base + 2u * element;
    let own = (pk_epoch << 11u) | (pk_li + 1u);
    var writer = 0u;
    if (writes) {{
      writer = atomicExchange(&{MEMORY}[at], own);
      let reader = atomicLoad(&{MEMORY}[at + 1u]);
      if ((reader >> 11u) == pk_epoch && reader != own) {{
        pk_report(site, 3u, element, (reader & 2047u) - 1u);
      }}
    }} else {{
      writer = atomicLoad(&{MEMORY}[at]);
      let reader = atomicExchange(&{MEMORY}[at + 1u], own);
      if ((reader >> 11u) == pk_epoch && reader != own) {{
        atomicStore(&{MEMORY}[at + 1u], own | 2047u);
      }}
    }}
    if ((writer >> 11u) == pk_epoch && writer != own) {{
      pk_report(site, 3u, element, (writer & 2047u) - 1u);
    }}
  }}
}}
{" ".join(_wide())}
"""
