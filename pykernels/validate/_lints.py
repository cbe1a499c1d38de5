"""Lints on the text: faults that compilers accept but a portable shader must not have.

docs/reference/lints.md explains each code. A comment suppresses the codes that it names:

    // pykernels: ignore PK008            on the line, or on the line above it; without codes: all
    // pykernels: ignore-file PK009       in the whole text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, TypeAlias

from pykernels.contract import GRID_MAX

from ._flow import flaws
from ._stages import mismatches
from ._types import Finding, Limits, Severity, Source
from ._usage import Item, Places, Usage, measure

__all__ = ["CODES", "ENABLE", "FLOW", "OPINIONS", "SUBGROUP", "SWIZZLE", "Lints", "over_limits"]

CODES = {
    "PK001": "an override sizes a workgroup or workgroup memory",
    "PK002": "an override declaration",
    "PK003": "more workgroup memory than declared",
    "PK004": "more invocations in a workgroup than declared",
    "PK005": "more storage buffers than declared",
    "PK006": "a bitcast to vec2<f16> or vec4<f16>",
    "PK007": "a barrier that only some invocations reach",
    "PK008": "workgroup memory read before it is written",
    "PK009": "only the grid's x is read",
    "PK010": "a construct that naga refuses",
    "PK011": "a construct that Tint refuses",
    "PK012": "a workgroup longer along one axis than declared",
    "PK013": "more bindings of a kind than declared",
    "PK014": "a fragment shader takes what its vertex shader does not give",
}
# the lints that walk every statement, which takes most of the time
FLOW = frozenset({"PK007", "PK008"})
# rules of this project, which other texts need not follow
OPINIONS = frozenset({"PK001", "PK002", "PK009"})
_BITCAST = re.compile(r"bitcast\s*<\s*(\w+(?:\s*<\s*\w+\s*>)?)\s*>")
ENABLE = re.compile(r"enable(?<!\wenable)\s+([^;]*)")
_REQUIRES = re.compile(r"requires(?<!\wrequires)\s+([^;]*)")
_F16_VECTOR = re.compile(r"vec[24](<f16>|h)")
_IGNORE = re.compile(r"//\s*pykernels:\s*ignore(-file)?\b([^\n]*)")
_CODE = re.compile(r"\bPK\d{3}\b")
_POINTER = re.compile(r":\s*ptr\s*<\s*(storage|workgroup|uniform)\b")
SWIZZLE = re.compile(r"\.\s*([xyzw]{2,4}|[rgba]{2,4})\s*[-+*/%&|^]?=(?!=)")
SUBGROUP = re.compile(
    r"subgroup(?<![\w.]subgroup)[A-Z]\w*\s*\(|quad(?<![\w.]quad)[A-Z]\w*\s*\("
    r"|@builtin\s*\(\s*subgroup_\w+"
)
_NOT_FINITE = re.compile(
    r"bitcast\s*<\s*f32\s*>\s*\(\s*(0[xX][7fF][fF][89a-fA-F][\da-fA-F]{5}u?)\s*\)"
)
_TOO_LARGE = re.compile(r"3\.4028235(?<![\w.]3\.4028235)[eE]\+?38f?\b")
_BUILTIN = re.compile(r"@builtin\s*\(\s*(workgroup_id|global_invocation_id)\s*,?\s*\)\s*(\w+)")
_UNSIZED = re.compile(r"array\s*<[^,;]+>")
_DECLARED, _GUARANTEED = "but the declared limit is", "more than WebGPU guarantees:"
# Language extensions that naga 29 supports.
_IN_NAGA = {
    "readonly_and_readwrite_storage_textures",
    "packed_4x8_integer_dot_product",
    "pointer_composite_access",
}
_Found: TypeAlias = tuple[str, Severity, int, int, str]


class Lints:
    """The lints as a validator. `ignore` names codes that are left out everywhere."""

    name = "lint"
    version = "6"

    def __init__(self, ignore: Collection[str] = ()) -> None:
        self.ignore = frozenset(ignore)

    def check(self, sources: Sequence[Source]) -> list[Finding]:
        """The findings of all lints. If a source declares no limits, a use beyond WebGPU's
        guaranteed limits is reported as a note."""
        findings = []
        for source in sources:
            silent = _suppressed(source.text)
            for code, severity, line, column, message in _all(source, self.ignore):
                if code in self.ignore or silent(code, line):
                    continue
                findings.append(
                    Finding(source.name, line, column, severity, message, self.name, code, message)
                )
        return findings


def _all(source: Source, ignore: Collection[str]) -> Iterator[_Found]:
    usage = measure(source.text, source.overrides)
    yield from _overrides(usage)
    yield from _half_vectors(usage)
    if not set(ignore) >= FLOW:
        for flaw in flaws(usage):
            severity: Severity = "error" if flaw.code == "PK007" else "warning"
            yield flaw.code, severity, flaw.line, flaw.column, flaw.message
    yield from _grid(usage)
    yield from _dialects(usage, source.features)
    for wrong in mismatches(usage):
        stage = wrong.function.attributes.index("@fragment")
        yield _found(usage, "PK014", "error", wrong.function.at + stage, wrong.message)
    if source.limits:
        yield from over_limits(usage, source.limits)
    else:
        for code, severity, line, column, message in over_limits(usage, Limits()):
            if severity == "error":
                said = message.replace(_DECLARED, _GUARANTEED).replace("they end", "WebGPU's end")
                yield code, "note", line, column, said


def _suppressed(text: str) -> Callable[[str, int], bool]:
    """A function of a code and a line: True if a comment suppresses the code on that line."""
    everywhere: set[str] = set()
    lines: dict[int, set[str]] = {}
    places = Places(text)
    for m in _IGNORE.finditer(text):
        codes = set(_CODE.findall(m[2])) or set(CODES)
        if m[1]:
            everywhere |= codes
            continue
        line, column = places.of(m.start())
        alone = not text[m.start() - column + 1 : m.start()].strip()
        lines.setdefault(line + alone, set()).update(codes)
    return lambda code, line: code in everywhere or code in lines.get(line, ())


def _found(
    usage: Usage, code: str, severity: Severity, at: int, message: str
) -> tuple[str, Severity, int, int, str]:
    return code, severity, *usage.places.of(at), message


def _overrides(usage: Usage) -> Iterator[_Found]:
    """Findings of PK001 for overrides on which a workgroup's size or memory depends (also through
    other overrides), and of PK002 for all other overrides."""
    values = {o.name: set(re.findall(r"[A-Za-z_]\w*", o.value)) for o in usage.overrides}
    sizes = " ".join(
        [f.attributes for f in usage.functions.values() if f.compute]
        + re.findall(r"var\s*<\s*workgroup\s*>[^;]+", usage.code)
    )
    sizing = set(re.findall(r"[A-Za-z_]\w*", sizes)) & values.keys()
    waiting = list(sizing)
    while waiting:
        more = (values[waiting.pop()] & values.keys()) - sizing
        sizing |= more
        waiting += more
    for o in usage.overrides:
        if o.name in sizing:
            message = f"{o.name} sizes a workgroup: use const text, not an override declaration"
            yield "PK001", "error", o.line, o.column, message
        else:
            what = "its default value" if o.value else "no value at all"
            message = f"override {o.name}: what is checked and translated here has {what}"
            yield "PK002", "warning", o.line, o.column, message


def _half_vectors(usage: Usage) -> Iterator[_Found]:
    if _dialect(_enabled(usage)) == "tint":
        return  # no finding, because naga never gets this text
    for m in _BITCAST.finditer(usage.code):
        name = re.sub(r"\s", "", m[1])
        if _F16_VECTOR.fullmatch(usage.names.get(name, name)):
            message = f"naga types bitcast<{name}> as f32; use vec2<f16>(unpack2x16float(u))"
            yield _found(usage, "PK006", "error", m.start(), message)


def _grid(usage: Usage) -> Iterator[_Found]:
    """Findings of PK009: the text has an unsized array, and an entry point reads only x of the
    grid."""
    if not any(r.kind == "storage" and _UNSIZED.fullmatch(r.type) for r in usage.resources):
        return
    for entry in usage.entry_points:
        f = usage.functions[entry.name]
        params, body = usage.code[f.params[0] : f.params[1]], usage.code[f.body[0] : f.body[1]]
        if "num_workgroups" in params:
            continue
        uses = [
            m[1] or ""
            for _, name in _BUILTIN.findall(params)
            for m in re.finditer(rf"(?<![\w.]){name}\b(\s*\.\s*[xr]\b)?", body)
        ]
        if not uses or not all(uses):
            continue
        reach = f" of {entry.cost} invocations" if entry.cost else ""
        message = (
            f"{entry.name} reads only x of the grid: at most {GRID_MAX} workgroups{reach}; "
            "fold larger grids into y"
        )
        yield "PK009", "warning", entry.line, entry.column, message


def _dialects(usage: Usage, features: Sequence[str]) -> Iterator[_Found]:
    """Findings of PK010 and PK011. A text that enables an extension of one compiler is written for
    that compiler."""
    code = usage.code
    enabled = _enabled(usage)
    dialect = _dialect(enabled)
    for m in ENABLE.finditer(code):
        names = {name.strip() for name in m[1].split(",")}
        for name in sorted(names):
            if name.replace("_", "-") in features:
                continue  # no finding, because the text is for one compiler only
            if name == "subgroups" or name.startswith("chromium_"):
                yield _found(usage, "PK010", "note", m.start(), f"naga 29 has no enable {name}")
            elif name.startswith("wgpu_"):
                yield _found(usage, "PK011", "note", m.start(), f"Tint has no enable {name}")
    if dialect != "tint":
        for m in _REQUIRES.finditer(code):
            for name in sorted({n.strip() for n in m[1].split(",")} - _IN_NAGA - {""}):
                yield _found(usage, "PK010", "note", m.start(), f"naga 29 has no requires {name}")
        for f in usage.functions.values():
            for m in _POINTER.finditer(code, *f.params):
                message = f"naga refuses pointers to {m[1]} memory as parameters"
                yield _found(usage, "PK010", "warning", m.start() + 1, message)
            for m in SWIZZLE.finditer(code, *f.body):
                message = f"naga refuses an assignment to .{m[1]}"
                yield _found(usage, "PK010", "warning", m.start(1) - 1, message)
    if dialect != "naga":
        yield from _for_naga_alone(usage, enabled | set(features))


def _enabled(usage: Usage) -> set[str]:
    return {name.strip() for m in ENABLE.finditer(usage.code) for name in m[1].split(",")}


def _dialect(enabled: set[str]) -> Literal["", "tint", "naga"]:
    if any(name.startswith("chromium_") for name in enabled):
        return "tint"
    return "naga" if any(name.startswith("wgpu_") for name in enabled) else ""


def _for_naga_alone(usage: Usage, enabled: set[str]) -> Iterator[_Found]:
    code = usage.code
    m = SUBGROUP.search(code)
    if m and "subgroups" not in enabled:
        message = "Tint refuses subgroup built-ins without enable subgroups"
        yield _found(usage, "PK011", "warning", m.start(), message)
    for m in _NOT_FINITE.finditer(code):
        message = f"Tint refuses the constant {m[0]}: it is not finite"
        yield _found(usage, "PK011", "warning", m.start(), message)
    for m in _TOO_LARGE.finditer(code):
        message = f"Tint refuses {m[0]}: write 0x1.fffffep+127f"
        yield _found(usage, "PK011", "warning", m.start(), message)


def over_limits(usage: Usage, limits: Limits) -> list[_Found]:
    """Findings of PK003, PK004, PK005, PK012 and PK013, as code, severity, line, column and
    message.

    Memory and bindings are counted for each entry point. In a text without entry points, all
    declarations are counted.
    """
    found: list[_Found] = []
    # Of several entry points that reach the same declarations, only the first one is checked.
    reached = {usage.reach[item.name]: item.name for item in reversed(usage.entry_points)}
    entries = list(reversed(reached.values()))
    memory = [usage.shared(name) for name in entries] or [usage.workgroup]
    for items in memory:
        what = "bytes of workgroup memory"
        found += _sum("PK003", what, items, limits.max_workgroup_storage)
    for item in usage.entry_points:
        before = len(found)
        most = (limits.max_size_x, limits.max_size_y, limits.max_size_z)
        for axis, n, limit in zip("xyz", usage.size(item.name), most, strict=False):
            if n is not None and n > limit:
                message = f"{n} invocations along {axis}, {_DECLARED} {limit}"
                found.append(("PK012", "error", item.line, item.column, message))
        # A workgroup that is too long along an axis often has too many invocations, too: this is
        # reported only once.
        if len(found) == before:
            what = f"invocations in a workgroup of {item.name}"
            found += _sum("PK004", what, [item], limits.max_invocations)
    used = [usage.used(name) for name in entries] or [usage.resources]
    for resources in used:
        for kind, what, limit in (
            ("storage", "storage buffers", limits.max_storage_buffers),
            ("uniform", "uniform buffers", limits.max_uniform_buffers),
            ("texture", "sampled textures", limits.max_textures),
            ("sampler", "samplers", limits.max_samplers),
            ("storage_texture", "storage textures", limits.max_storage_textures),
        ):
            items = [Item(r.name, 1, r.line, r.column) for r in resources if r.kind == kind]
            found += _sum("PK005" if kind == "storage" else "PK013", what, items, limit)
    for r in usage.resources:
        for number, what, limit in (
            (r.group, "group", limits.max_bind_groups),
            (r.binding, "binding", limits.max_bindings),
        ):
            if number >= limit:
                message = f"{r.name} has {what} {number}, but they end at {limit - 1}"
                found.append(("PK013", "error", r.line, r.column, message))
    return list(dict.fromkeys(found))


def _sum(code: str, what: str, items: Sequence[Item], limit: int) -> Iterator[_Found]:
    """A finding at the item with which the total cost exceeds the limit, and a finding for each
    unknown cost."""
    total, over = 0, None
    for item in items:
        if item.cost is None:
            message = f"cannot tell what {item.name} adds to the {what}"
            severity: Severity = "warning"
            if item.waits:
                message = f"needs a value for override {item.waits}, which counts in the {what}"
                severity = "note"
            yield code, severity, item.line, item.column, message
            continue
        total += item.cost
        if total > limit and over is None:
            over = item
    if over is not None:
        message = f"{total} {what}, {_DECLARED} {limit}"
        yield code, "error", over.line, over.column, message
