"""Reads the declarations of a text, without a compiler: storage bindings, textures, samplers,
members of the uniform struct, workgroup sizes. Also writes the text with the bindings of the
runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pykernels.contract import FEATURES, PARAMS_BYTES
from pykernels.dtypes import DTypeName
from pykernels.errors import ArgumentError, LimitError
from pykernels.validate._sizes import Sizes, known
from pykernels.validate._usage import Resource, Usage, measure

__all__ = ["Binding", "Interface", "Member", "Shown", "reflect"]

_ARRAY = re.compile(r"array<(.+?)(?:,([^,<>]+))?,?>")
_ATOMIC = re.compile(r"atomic<(.+)>")
_VECTOR = re.compile(r"vec([234])(?:<(\w+)>|([fiuh]))")
_MEMBER = re.compile(r"(\w+):(.+)")
_SAMPLED = re.compile(r"texture_([23]d)<(f32|i32|u32),?>")
_STORED = re.compile(r"texture_storage_([23]d)<(\w+),write,?>")
# The formats that WGSL has for storage textures.
_FORMATS = frozenset(
    "rgba8unorm rgba8snorm rgba8uint rgba8sint rgba16uint rgba16sint rgba16float r32uint r32sint "
    "r32float rg32uint rg32sint rg32float rgba32uint rgba32sint rgba32float bgra8unorm".split()
)
# A call of a built-in function that takes a texture and a sampler; a gather may have a component
# before them.
_SAMPLING = re.compile(
    r"\btexture(?:Sample|Gather)\w*\s*\(\s*(?:\d+[iu]?\s*,\s*)?([^,()]*),([^,()]*)"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_ENABLE = re.compile(r"\benable\s+([^;]+);")
_SUFFIXES = {"f": "f32", "i": "i32", "u": "u32", "h": "f16"}
# for each WGSL type: dtype, format letter of struct, bytes
_SCALARS: dict[str, tuple[DTypeName, str, int]] = {
    "f32": ("float32", "f", 4), "i32": ("int32", "i", 4), "u32": ("uint32", "I", 4),
    "f16": ("float16", "e", 2),
}  # fmt: skip
_WORDS: tuple[DTypeName, ...] = ("float32", "int32", "uint32")
OFFSET = "_offset"  # a struct member with this suffix holds the index of a tensor's first element


@dataclass(frozen=True)
class Binding:
    """A storage binding and the elements of its array. `stride`: bytes from one element to the
    next; `count`: the number of elements, 0 for an array without a fixed length."""

    name: str
    type: str
    written: bool
    dtypes: tuple[DTypeName, ...]
    stride: int
    count: int


@dataclass(frozen=True)
class Shown:
    """A texture or a sampler. `dimension` and `of` are "" for a sampler; `of` is the type of the
    components of a sampled texture, or the format of a storage texture. `written` is True for a
    storage texture."""

    name: str
    type: str
    dimension: str = ""
    of: str = ""
    written: bool = False


@dataclass(frozen=True)
class Member:
    """A member of the uniform struct, or the uniform itself: `count` numbers of one kind."""

    name: str
    type: str
    letter: str
    count: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Interface:
    """A text's interface, and the text with the numbers that the runtime gives its bindings."""

    bindings: tuple[Binding, ...]
    shown: tuple[Shown, ...]  # textures and samplers
    # each texture with each sampler that samples it; None: any pair is possible
    pairs: frozenset[tuple[str, str]] | None
    names: tuple[str, ...]  # of bindings, textures and samplers, in the order of their numbers
    members: tuple[Member, ...]
    # the bindings (also unused ones) that have an offset in the struct, in order
    offsets: tuple[str, ...]
    workgroup: tuple[int, ...]  # the workgroup size; 0 where it is unknown
    features: tuple[str, ...]
    # the text with inputs bound read-only, and the text with inputs bound read_write
    text: tuple[str, str]

    @property
    def written(self) -> tuple[str, ...]:
        """The names of the bindings and textures that it may write, in order."""
        found = self.declared
        return tuple(n for n in self.names if found[n].written)

    @property
    def declared(self) -> dict[str, Binding | Shown]:
        """Bindings, textures and samplers by name."""
        both: tuple[Binding | Shown, ...] = (*self.bindings, *self.shown)
        return {b.name: b for b in both}


def reflect(name: str, wgsl: str, entry: str, constants: Mapping[str, str]) -> Interface:
    """Read the interface of a text. ArgumentError if it cannot be launched."""
    usage = measure(wgsl, tuple(constants.items()))
    found = usage.functions.get(entry)
    if found is None or not found.compute:
        known_ = ", ".join(f.name for f in usage.functions.values() if f.compute) or "none"
        raise ArgumentError(f"[{name}] there is no @compute function {entry!r}; there are {known_}")
    for told in constants:
        if told not in {o.name for o in usage.overrides}:
            raise ArgumentError(f"[{name}] constants: the text has no override {told!r}")
    for override in usage.unset(constants.items()):
        raise ArgumentError(
            f"[{name}] override {override.name} has no value: give constants={{{override.name!r}: "
            "value}"
        )
    used = sorted(usage.used(entry), key=lambda r: (r.group, r.binding))
    for r in used:
        if r.group < 0 or r.binding < 0:
            raise ArgumentError(f"[{name}] {r.name} needs @group and @binding")
    storage = [r for r in used if r.kind == "storage"]
    uniforms = [r for r in used if r.kind == "uniform"]
    if len(uniforms) > 1:
        names = " and ".join(r.name for r in uniforms)
        raise ArgumentError(f"[{name}] a launch has one uniform struct, but the text has {names}")
    bindings = tuple(_binding(name, usage, r) for r in storage)
    resources = [r for r in used if r.kind not in ("storage", "uniform")]
    shown = tuple(_shown(name, usage, r) for r in resources)
    if not any(b.written for b in bindings) and not any(s.written for s in shown):
        raise ArgumentError(
            f"[{name}] no binding of {entry} is var<storage, read_write> or a storage texture"
        )
    members = _members(name, usage.sizes, uniforms[0]) if uniforms else ()
    given = tuple(r.name for r in used if r.kind != "uniform")
    taken = {*given, "grid"}
    for told in [m.name for m in members if m.name in taken]:
        what = "an argument of every call" if told == "grid" else "a binding"
        raise ArgumentError(f"[{name}] {told} is a member and {what}: give the member another name")
    others = [r for r in usage.resources if r not in used and r.group >= 0 and r.binding >= 0]
    # A launch has a uniform buffer behind its storage, even if the text has no uniform.
    uniform: list[Resource | None] = [*uniforms] or [None]
    bound = [*storage, *uniform, *resources, *others]
    texts = tuple(_bound(wgsl, usage, bound, used, constants, rw) for rw in (False, True))
    words = {w.strip() for m in _ENABLE.finditer(usage.code) for w in m[1].split(",")}
    return Interface(
        bindings, shown, _pairs(usage, entry, shown), given, members,
        _offsets(name, usage.resources, members),
        tuple(n or 0 for n in (*(usage.size(entry) or [None]), 1, 1)[:3]),
        tuple(f.name for f in FEATURES if f.word in words),
        (texts[0], texts[1]),
    )  # fmt: skip


def _written(usage: Usage, r: Resource) -> bool:
    found = re.search(_declared(r.name), usage.code)
    return found is not None and "write" in (found["space"] or "")


def _declared(name: str) -> str:
    """A pattern for the declaration of a binding, with its attributes."""
    place = r"@(?:group|binding)\s*\([^()]*\)"
    return rf"(?:{place}\s*)+var\s*(?:<(?P<space>[^<>]*)>)?\s*{name}\b"


def _binding(op: str, usage: Usage, r: Resource) -> Binding:
    wgsl = _plain(usage.names, r.type)
    array = _ARRAY.fullmatch(wgsl)
    element = _plain(usage.names, array[1] if array else wgsl)
    layout = usage.sizes.layout(element)
    if layout is None:
        raise ArgumentError(
            f"[{op}] the size of {r.name}: {r.type} cannot be determined from the text"
        )
    size, align = layout
    stride, count = -(-size // align) * align, 0
    if array is None:
        count = 1
    elif array[2] is not None:
        length = known(usage.sizes.number, array[2])
        if length is None:
            raise ArgumentError(f"[{op}] the length of {r.name}: {r.type} cannot be determined")
        count = length
    atomic = _ATOMIC.fullmatch(element)
    vector = _VECTOR.fullmatch(element)
    kind = atomic[1] if atomic else element
    if vector:
        kind = vector[2] or _SUFFIXES[vector[3]]
    dtypes = (_SCALARS[kind][0],) if kind in _SCALARS else _WORDS
    return Binding(r.name, r.type, _written(usage, r), dtypes, stride, count)


def _shown(op: str, usage: Usage, r: Resource) -> Shown:
    wgsl = _plain(usage.names, r.type)
    if wgsl == "sampler":
        return Shown(r.name, r.type)
    if m := _SAMPLED.fullmatch(wgsl):
        return Shown(r.name, r.type, m[1], m[2])
    if (m := _STORED.fullmatch(wgsl)) and m[2] in _FORMATS:
        return Shown(r.name, r.type, m[1], m[2], True)
    raise ArgumentError(
        f"[{op}] {r.name} is a {r.type}: raw kernels bind texture_2d and texture_3d of f32, i32 or "
        "u32, texture_storage_2d and texture_storage_3d of a format of WGSL with write, and sampler"
    )


def _pairs(usage: Usage, entry: str, shown: Sequence[Shown]) -> frozenset[tuple[str, str]] | None:
    """Each texture that an entry point samples, with its sampler; None if the entry point passes
    textures or samplers to functions."""
    if all(s.dimension for s in shown):
        return frozenset()
    reached, waiting = {entry}, [entry]
    while waiting:
        body = usage.code[slice(*usage.functions[waiting.pop()].body)]
        new = ({*_WORD.findall(body)} & usage.functions.keys()) - reached
        reached |= new
        waiting += new
    bodies = [usage.functions[name].body for name in reached]
    found = frozenset(
        (m[1].strip(), m[2].strip()) for b in bodies for m in _SAMPLING.finditer(usage.code, *b)
    )
    names = {s.name for s in shown}
    return found if all({t, s} <= names for t, s in found) else None


def _plain(names: Mapping[str, str], wgsl: str) -> str:
    """A type without blanks, with aliases replaced."""
    found = re.sub(r"\s", "", wgsl)
    for _ in range(16):
        other = names.get(found, "{")
        if other.startswith("{"):
            break
        found = other
    return found


def _members(op: str, sizes: Sizes, r: Resource) -> tuple[Member, ...]:
    """The members of a uniform, with their positions."""
    wgsl = _plain(sizes.names, r.type)
    struct = sizes.names.get(wgsl)
    parts = [(r.name, wgsl)]
    if struct is not None:
        found = [_MEMBER.fullmatch(m) for m in sizes.members(struct)]
        if any(m is None for m in found):
            raise ArgumentError(f"[{op}] members of {wgsl} must have no attributes")
        parts = [(m[1], m[2]) for m in found if m is not None]
    members: list[Member] = []
    at = 0
    for name, type_ in parts:
        plain = _plain(sizes.names, type_)
        vector = _VECTOR.fullmatch(plain)
        kind = (vector[2] or _SUFFIXES[vector[3]]) if vector else plain
        layout = sizes.layout(plain)
        if kind not in _SCALARS or layout is None:
            raise ArgumentError(
                f"[{op}] {name}: {type_} is no number and no vector of numbers: bind it as storage"
            )
        _, letter, nbytes = _SCALARS[kind]
        at = -(-at // layout[1]) * layout[1]
        count = int(vector[1]) if vector else 1
        members.append(Member(name, type_, letter, count, at, count * nbytes))
        at += count * nbytes
    if at > PARAMS_BYTES:
        raise LimitError(
            f"[{op}] {r.name} has {at} bytes, but a launch holds {PARAMS_BYTES}: bind it as storage"
        )
    return tuple(members)


def _offsets(
    op: str, resources: Sequence[Resource], members: tuple[Member, ...]
) -> tuple[str, ...]:
    """The bindings whose offset is a member; such members come first in the struct. Bindings of
    other entry points are included, because entry points may share a struct."""
    names = {r.name + OFFSET: r.name for r in resources if r.kind == "storage"}
    asked = [m for m in members if m.name in names]
    if asked != list(members[: len(asked)]):
        raise ArgumentError(f"[{op}] {asked[0].name} must stand before all other members")
    for m in asked:
        if m.letter != "I" or m.count != 1:
            raise ArgumentError(f"[{op}] {m.name} must be a u32")
    return tuple(names[m.name] for m in asked)


def _bound(
    wgsl: str, usage: Usage, bound: Sequence[Resource | None], used: list[Resource],
    constants: Mapping[str, str], all_writable: bool,
) -> str:  # fmt: skip
    """The text with the runtime's group 0 and binding numbers, and with values in place of
    overrides. Bindings that only other entry points use get the next numbers, because compilers
    check all entry points."""
    edits: list[tuple[int, int, str]] = []
    for number, r in enumerate(bound):
        if r is None:
            continue
        found = re.search(_declared(r.name), usage.code)
        assert found is not None
        space = f"<{found['space']}>" if found["space"] else ""
        if r.kind == "storage" and all_writable and r in used:
            space = "<storage, read_write>"
        edits.append((*found.span(), f"@group(0) @binding({number}) var{space} {r.name}"))
    for name, value in constants.items():
        pattern = rf"(?:@id\s*\([^()]*\)\s*)?\boverride\s+{name}\b\s*(:[^=;]*)?(?:=[^;]*)?;"
        declared = re.search(pattern, usage.code)
        assert declared is not None
        edits.append((*declared.span(), f"const {name}{declared[1] or ''} = {value};"))
    for start, end, text in sorted(edits, reverse=True):
        # keeps the line numbers of errors as in the caller's text
        lines = wgsl[start:end].count("\n")
        wgsl = wgsl[:start] + text + "\n" * lines + wgsl[end:]
    return wgsl
