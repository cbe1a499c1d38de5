"""Rewrites a text so that its calls of `debug` write records, or so that its indices are checked.

`debug("label", value, ...)` is a statement in a text that a user wrote, with up to MOST_VALUES
numbers. A launch outside of `Device.debug` runs the text without these statements. In a launch
inside of `Device.debug`, each `debug` call appends a record to an extra buffer of the text:

    words 0, 1     words of all records so far (also of those that did not fit), capacity
    words 2 to 7   the first and the last invocation that is recorded, along x, y and z
    words 8 and on the records: number of the call + 1, invocation, three words for each value

A value is a number of any type. Its three words are its bits as f32, as i32 and as u32. Together
they determine the number, so its type need not be known.

A checked text has a buffer for the first index that is outside of its binding:

    words 0 to 6   count of such indices; of the first: number, index, elements, invocation
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pykernels.errors import ArgumentError

from ._rewrite import Call, Rewriting

__all__ = [
    "CHECK",
    "CHECKED_WORDS",
    "HEADER_WORDS",
    "MEMORY",
    "MOST_VALUES",
    "Instrumented",
    "Site",
    "WrongDebug",
    "bind_memory",
    "checked",
    "debugging",
    "prepare",
    "without_debug",
]  # fmt: skip

MEMORY = "pk_debug_mem"  # the name of the extra binding
HEADER_WORDS, CHECKED_WORDS = 8, 8
MOST_VALUES = 16
_LABEL = re.compile(r'(\bdebug\s*\(\s*)"([^"\n]*)"')
_ID = "pk_debug_id"
_NAME = MEMORY.removesuffix("_mem")
_UNIFORM = re.compile(r"@group\(0\) @binding\((\d+)\) var<uniform> p: Params;")
_FAULTS = re.compile(r"@group\(0\) @binding\((\d+)\) (?=var<storage, read_write> faults_mem)")


class WrongDebug(ArgumentError):
    """A call of debug that is not allowed; `line` and `why` are parts of the message."""

    def __init__(self, name: str, line: int, why: str) -> None:
        super().__init__(f"[{name}] line {line}: {why}")
        self.line, self.why = line, why


@dataclass(frozen=True)
class Site:
    """A site, which is a call of debug or an index: its line, its label or expression, and the
    number of its values."""

    line: int
    label: str
    values: int = 0
    name: str = ""


@dataclass(frozen=True)
class Instrumented:
    """An instrumented text, and the sites that were found in it."""

    text: str
    sites: tuple[Site, ...]


def without_debug(name: str, text: str) -> str:
    """The text without calls of debug; the same text if it has none."""
    if "debug" not in text:
        return text
    plain, _ = _labels(text)
    sites = Rewriting(plain)
    if "debug" in sites.usage.functions:
        return text
    found = False
    for call in sites.calls("debug"):
        sites.replace(*_statement(name, sites, call), "")
        found = True
    return sites.text() if found else text


def debugging(name: str, text: str, members: int | None = None, first: int = 0) -> Instrumented:
    """The text with calls of debug that write records.

    `members` is given for a text of the build: the buffer is then bound as for `bind_memory`.
    `first` is the number of the first call.
    """
    plain, labels = _labels(text)
    sites = Rewriting(plain)
    found: list[Site] = []
    calls = [] if "debug" in sites.usage.functions else list(sites.calls("debug"))
    for call in calls:
        start, end = _statement(name, sites, call)
        named, *rest = call.arguments or ((0, 0),)
        label = labels.get(named[0])
        if label is None:
            raise WrongDebug(name, call.line, 'debug needs a label: debug("x", x)')
        if len(rest) > MOST_VALUES:
            raise WrongDebug(name, call.line, f"debug takes {MOST_VALUES} values, not {len(rest)}")
        values = [sites.original(*span) for span in rest]
        sites.replace(start, end, _record(first + len(found), values))
        found.append(Site(call.line, label, len(values)))
    if not found:
        return Instrumented(text, ())
    place = sites.free_binding() if members is None else (0, bind_memory(sites, members))
    prepare(sites, place, _DEBUG)
    return Instrumented(sites.text(), tuple(found))


def checked(text: str) -> Instrumented:
    """The text in which indices into storage are checked, and kept within their arrays."""
    sites = Rewriting(text)
    found: list[Site] = []
    for index in sites.indices("storage"):
        sites.insert(index.start, "pk_debug_at(u32(")
        sites.insert(index.end, f"), {index.length}, {len(found)}u)")
        expression = sites.original(index.start, index.end)
        found.append(Site(index.line, expression, name=index.name))
    if not found:
        return Instrumented(text, ())
    prepare(sites, sites.free_binding(), CHECK)
    return Instrumented(sites.text(), tuple(found))


def _labels(text: str) -> tuple[str, dict[int, str]]:
    """The text with numbers in place of labels, because WGSL has no strings; and the labels by
    position."""
    labels: dict[int, str] = {}

    def blank(m: re.Match[str]) -> str:
        at = m.start() + len(m[1])
        labels[at] = m[2]
        return m[1] + "0" + " " * (len(m[2]) + 1)

    found = _LABEL.sub(blank, text)
    # The span of an argument begins directly behind the bracket, so it includes blanks.
    return found, {found.rfind("(", 0, at) + 1: label for at, label in labels.items()}


def _statement(name: str, sites: Rewriting, call: Call) -> tuple[int, int]:
    """The span of the call with its semicolon."""
    code = sites.usage.code
    end = call.end
    while end < len(code) and code[end].isspace():
        end += 1
    if code[end : end + 1] != ";" or code[: call.start].rstrip()[-1:] not in (";", "{", "}", ":"):
        raise WrongDebug(name, call.line, "debug(...); is a statement by itself")
    return call.start, end + 1


def _record(number: int, values: list[str]) -> str:
    lets = "".join(f"let pk_v{i} = {value}; " for i, value in enumerate(values))
    words = 4 + 3 * len(values)
    stores = "".join(
        f"pk_debug_value(pk_at + {4 + 3 * i}u, bitcast<u32>(f32(pk_v{i})), "
        f"bitcast<u32>(i32(pk_v{i})), u32(pk_v{i})); "
        for i in range(len(values))
    )
    if not values:
        return f"{{ pk_debug_start({number}u, {words}u); }}"
    return (
        f"{{ {lets}let pk_at = pk_debug_start({number}u, {words}u); "
        f"if (pk_at != 0u) {{ {stores}}} }}"
    )


def bind_memory(sites: Rewriting, members: int) -> int:
    """Make room for the buffer among the bindings of a text of the build, and for its offset in
    Params, as member number `members`. Returns the number of the buffer's binding."""
    uniform = _UNIFORM.search(sites.usage.code)
    params = re.search(r"struct Params \{", sites.usage.code)
    assert uniform is not None and params is not None
    last = int(uniform[1])
    faults = _FAULTS.search(sites.usage.code)
    own = last if faults is None else int(faults[1])
    if faults is not None:
        sites.replace(*faults.span(), f"@group(0) @binding({own + 1}) ")
    sites.replace(*uniform.span(), f"@group(0) @binding({last + 1}) var<uniform> p: Params;")
    at = params.end()
    for _ in range(members):
        at = sites.usage.code.index(",", at) + 1
    sites.insert(at, f" {_NAME}_off: u32,")
    return own


def prepare(sites: Rewriting, place: tuple[int, int], functions: str) -> None:
    """Add the buffer at (group, binding), the functions, and a variable with the invocation."""
    group, binding = place
    for function in sites.functions():
        if not function.compute:
            continue
        given = sites.builtin(function.name, "global_invocation_id")
        if not given:
            given, (start, end) = "pk_debug_given", function.params
            comma = ", " if sites.usage.code[start:end].strip() else ""
            sites.insert(start, f"@builtin(global_invocation_id) {given}: vec3<u32>{comma}")
        sites.insert(function.body[0], f" {_ID} = {given};")
    # The additions come behind everything else, because directives must come first in a text.
    declared = (
        f"@group({group}) @binding({binding}) var<storage, read_write> {MEMORY}: "
        f"array<atomic<u32>>; var<private> {_ID}: vec3<u32>; "
    )
    sites.insert(len(sites.usage.code), f" {declared}{functions}")


_DEBUG = f"""
fn pk_debug_start(number: u32, words: u32) -> u32 {{
  for (var axis = 0u; axis < 3u; axis += 1u) {{
    let at = {_ID}[axis];
    if (at < atomicLoad(&{MEMORY}[2u + axis]) || at > atomicLoad(&{MEMORY}[5u + axis])) {{
      return 0u;
    }}
  }}
  let taken = atomicAdd(&{MEMORY}[0], words);
  let capacity = atomicLoad(&{MEMORY}[1]);
  if (taken > capacity || words > capacity - taken) {{ return 0u; }}
  let at = {HEADER_WORDS}u + taken;
  atomicStore(&{MEMORY}[at], number + 1u);
  pk_debug_value(at + 1u, {_ID}.x, {_ID}.y, {_ID}.z);
  return at;
}}
fn pk_debug_value(at: u32, a: u32, b: u32, c: u32) {{
  atomicStore(&{MEMORY}[at], a);
  atomicStore(&{MEMORY}[at + 1u], b);
  atomicStore(&{MEMORY}[at + 2u], c);
}}
"""

CHECK = f"""
fn pk_debug_at(index: u32, elements: u32, number: u32) -> u32 {{
  if (index < elements) {{ return index; }}
  if (atomicAdd(&{MEMORY}[0], 1u) == 0u) {{
    atomicStore(&{MEMORY}[1], number);
    atomicStore(&{MEMORY}[2], index);
    atomicStore(&{MEMORY}[3], elements);
    atomicStore(&{MEMORY}[4], {_ID}.x);
    atomicStore(&{MEMORY}[5], {_ID}.y);
    atomicStore(&{MEMORY}[6], {_ID}.z);
  }}
  return max(elements, 1u) - 1u;
}}
"""
