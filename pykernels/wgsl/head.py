"""The head of a variant: everything that depends on how tensors are bound and stored.

It needs only the standard library; codegen makes the shipped texts with it.

Only this module writes Params and bindings. The body sees named constants and `p`, which is Params.
For an input x and an output dst it sees `x_load(i)` and `dst_store(i, v)`. The other functions of a
tensor depend on the index space: `x_index(i)` for nd, `x_row(r)` and `x_at(row, c)` for rows,
`x_batch(b)` and `x_at(batch, r, c)` for tiles. If a tensor has named axes, Params has their steps:
`p.x_hs` for the axis h. Tensors of any dtype (`dtype = "*"`) are bound as words and read through
`x_mem`. With `faults = true` the body calls `fault_started(first)` once in every invocation and
`fault(position, lo, hi)` for each number that it finds wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykernels.contract import (
    COOPERATIVE_MATRIX,
    F16,
    GRID_ROW,
    PARAMS_BYTES,
    SUBGROUP_MATRIX,
    SUBGROUPS,
    UNITS,
)
from pykernels.errors import LimitError
from pykernels.tensors.layout import Nd, Rows, Tiles

from . import expr
from .interface import Interface, Param, TensorSpec
from .watch import BITS, FAULTS, STARTED

__all__ = ["ElementType", "element", "features", "head", "modes", "params", "present"]

MAX_PARAMS = PARAMS_BYTES // 4
_SCALARS = {"f32": "f32", "f16": "f16", "i32": "i32", "u32": "u32"}
# Each index space: its member of Params, and its class with the numbers of levels and kept axes.
SPACES = {"rows": ("rows", Rows), "nd": ("total", Nd), "tiles": ("batches", Tiles)}
# The features and extensions that a dialect of matrix units needs.
_MATRIX_FEATURES = {
    "subgroup_matrix": (SUBGROUP_MATRIX.name, SUBGROUPS.name),
    "cooperative_matrix": (COOPERATIVE_MATRIX.name, SUBGROUPS.name),
}
_MATRIX_LINES = {
    # Tint cannot prove that no subgroup diverges at a matrix operation, but the texts make sure of
    # it.
    "subgroup_matrix": (
        SUBGROUP_MATRIX.enable,
        "diagnostic(off, chromium.subgroup_matrix_uniformity);",
    ),
    "cooperative_matrix": (COOPERATIVE_MATRIX.enable,),
}


# Each bit of a wrong number has its own word. The higher bits of the word are the position, counted
# down, so the maximum over all invocations has the bit of the first position.
_FAULT = f"""\
fn fault_started(first: bool) {{
  if (first & (p.fault_slot != 0u)) {{ atomicAdd(&faults_mem[{STARTED}], 1u); }}
}}
fn fault(position: u32, lo: u32, hi: u32) {{
  if (p.fault_slot == 0u) {{ return; }}
  atomicAdd(&faults_mem[{FAULTS}], 1u);
  atomicAdd(&faults_mem[p.fault_slot], 1u);
  let rank = 0x7fffffffu - position;
  if (atomicLoad(&faults_mem[p.fault_slot + 1u]) >> 1u > rank) {{ return; }}
  for (var bit = 0u; bit < {BITS}u; bit += 1u) {{
    let word = select(hi, lo, bit < 32u) >> (bit & 31u);
    atomicMax(&faults_mem[p.fault_slot + 1u + bit], (rank << 1u) | (word & 1u));
  }}
}}""".splitlines()


@dataclass(frozen=True)
class ElementType:
    """The type of a tensor in its binding, and the type that the body computes with."""

    storage: str
    value: str  # the second type, such as "vec4<f32>"; "" for a tensor that is bound as words
    size: int


def present(spec: Interface, axes: Mapping[str, Any]) -> list[TensorSpec]:
    """The tensors that this variant binds, in binding order."""
    values = spec.values(axes)
    return [t for t in spec.tensors if not t.when or expr.evaluate(t.when, values)]


def short_dtype(tensor: TensorSpec, axes: Mapping[str, Any]) -> str:
    return str(axes.get(tensor.dtype, tensor.dtype))


def element(spec: Interface, tensor: TensorSpec, axes: Mapping[str, Any]) -> ElementType:
    if tensor.bind:
        storage = expr.evaluate(tensor.bind, spec.values(axes))
        return ElementType(storage, "", UNITS[storage])
    short = short_dtype(tensor, axes)
    if short == "bool":
        return _bools(tensor, axes[tensor.vec] if tensor.vec else 1)
    scalar = _SCALARS[short]
    value = "f32" if scalar == "f16" else scalar
    n = axes[tensor.vec] if tensor.vec else 1
    size = (2 if short == "f16" else 4) * n
    if n == 1:
        return ElementType(scalar, value, size)
    return ElementType(f"vec{n}<{scalar}>", f"vec{n}<{value}>", size)


def _bools(tensor: TensorSpec, n: int) -> ElementType:
    """Bools as bytes in words; atomic if several invocations write the bytes of one word."""
    if n == 4:
        return ElementType("u32", "vec4<bool>", 4)
    return ElementType("u32" if tensor.role == "in" else "atomic<u32>", "bool", 1)


def features(spec: Interface, axes: Mapping[str, Any]) -> list[str]:
    """The device features that a variant needs, by WebGPU's names."""
    needs = []
    matrix = _MATRIX_FEATURES.get(spec.dialect(axes), ())
    halves = matrix and expr.evaluate(spec.fragments, spec.values(axes)) == "f16"
    if halves or any("f16" in element(spec, t, axes).storage for t in present(spec, axes)):
        needs.append(F16.name)
    needs += matrix
    if (
        SUBGROUPS.name not in needs
        and spec.subgroups
        and expr.evaluate(spec.subgroups, spec.values(axes))
    ):
        needs.append(SUBGROUPS.name)
    return needs


def modes(spec: Interface, axes: Mapping[str, Any]) -> list[str]:
    """The binding modes of a variant, which say which of its windows may lie in one buffer."""
    tensors = present(spec, axes)
    names = {t.name: t for t in tensors}
    out = ["read"]
    if any(t.role == "in" and not t.readonly for t in tensors):
        out.append("rw")
    aliases = [t for t in tensors if t.alias and t.alias in names]
    if any(_alike(element(spec, t, axes), element(spec, names[t.alias], axes)) for t in aliases):
        out.append("merged")
    return out


def _alike(a: ElementType, b: ElementType) -> bool:
    """True if one binding can serve both tensors."""
    return a == b or (a.value == b.value == "bool")


def params(spec: Interface, axes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The name and WGSL type of each member of Params, in order."""
    out = [("groups", "u32")]
    levels: list[str] = []
    if spec.iterate != "none":
        count, space = SPACES[spec.iterate]
        depth = _levels(spec, axes)
        out += [(count, "u32"), ("levels", "u32")]
        out += [(f"n{i}", "u32") for i in range(depth - 1)]
        levels = [f"s{i}" for i in range(depth)] + ["rs", "cs"][2 - space.TAIL :]
    for t in present(spec, axes):
        out.append((f"{t.name}_off", "u32"))
        if t.index:
            out += [(f"{t.name}_{s}", "u32") for s in levels]
        out += [(t.step(axis), "u32") for axis in t.steps]
    values = spec.values(axes)
    given = [p for p in spec.params if not p.arg and (not p.when or expr.evaluate(p.when, values))]
    arguments = [p for p in spec.params if p.arg]
    out += _members(given)
    if spec.faults:
        out.append(("fault_slot", "u32"))
    return out + _members(arguments)


def _levels(spec: Interface, axes: Mapping[str, Any]) -> int:
    """The number of levels of a variant's index space."""
    return int(axes[spec.levels]) if spec.levels else SPACES[spec.iterate][1].LEVELS


def _members(declared: Sequence[Param]) -> list[tuple[str, str]]:
    return [(n, "u32" if p.type == "bits" else p.type) for p in declared for n in p.fields]


def head(spec: Interface, axes: Mapping[str, Any], mode: str) -> str:
    """The text that precedes the body, for one binding mode."""
    tensors = present(spec, axes)
    lines = [F16.enable] if F16.name in features(spec, axes) else []
    lines += _MATRIX_LINES.get(spec.dialect(axes), ())
    for a in spec.axes:
        value = axes[a.name]
        if isinstance(value, bool):
            lines.append(f"const {a.name} = {str(value).lower()};")
        elif isinstance(value, int):
            lines.append(f"const {a.name} = {value}u;")
        elif value in _SCALARS and any(t.dtype == a.name for t in tensors):
            lines.append(f"alias {a.name} = {value};")
    members = params(spec, axes)
    if len(members) > MAX_PARAMS:
        raise LimitError(
            f"Params has {len(members)} members of 4 bytes, but a launch has room for {MAX_PARAMS}"
        )
    lines.append("struct Params {")
    lines += [f"  {name}: {kind}," for name, kind in members]
    lines.append("}")
    lines += _bindings(spec, axes, mode, tensors)
    shift = GRID_ROW.bit_length() - 1
    lines.append(f"fn group_id(w: vec3<u32>) -> u32 {{ return w.x + (w.y << {shift}u); }}")
    for t in tensors:
        lines += _accessors(spec, axes, mode, t)
    if spec.faults:
        lines += _FAULT
    return "\n".join(lines) + "\n"


def _alias_of(tensors: list[TensorSpec], name: str) -> str:
    return next((t.name for t in tensors if t.alias == name), "")


def _bindings(
    spec: Interface, axes: Mapping[str, Any], mode: str, tensors: list[TensorSpec]
) -> list[str]:
    lines = []
    number = 0
    for t in tensors:
        if mode == "merged" and t.role == "in" and _alias_of(tensors, t.name):
            continue  # this input is read through the output's binding
        write = t.role == "out" or (mode == "rw" and not t.readonly)
        access = "read_write" if write else "read"
        storage = element(spec, t, axes).storage
        lines.append(
            f"@group(0) @binding({number}) var<storage, {access}> {t.name}_mem: array<{storage}>;"
        )
        number += 1
    if spec.faults:
        lines.append(
            f"@group(0) @binding({number}) var<storage, read_write> faults_mem: array<atomic<u32>>;"
        )
        number += 1
    lines.append(f"@group(0) @binding({number}) var<uniform> p: Params;")
    return lines


def _accessors(spec: Interface, axes: Mapping[str, Any], mode: str, t: TensorSpec) -> list[str]:
    kind = element(spec, t, axes)
    mem = f"{t.name}_mem"
    if mode == "merged" and t.role == "in":
        mem = f"{_alias_of(present(spec, axes), t.name) or t.name}_mem"
    lines = []
    if kind.value.endswith(("bool", "bool>")):
        shared = mem != f"{t.name}_mem" and kind.value == "bool"
        lines += _bool_access(
            t, kind, f"atomicLoad(&{mem}[i >> 2u])" if shared else f"{mem}[i >> 2u]"
        )
    elif kind.value and t.role == "in":
        load = f"{mem}[i]" if kind.value == kind.storage else f"{kind.value}({mem}[i])"
        lines.append(f"fn {t.name}_load(i: u32) -> {kind.value} {{ return {load}; }}")
    elif kind.value:
        value = "v" if kind.value == kind.storage else f"{kind.storage}(v)"
        lines.append(f"fn {t.name}_store(i: u32, v: {kind.value}) {{ {mem}[i] = {value}; }}")
    if not t.index or spec.iterate == "none":
        return lines
    depth = _levels(spec, axes)
    col = "c" if t.vec and axes[t.vec] > 1 else f"c * p.{t.name}_cs"
    if spec.iterate == "rows":
        lines += _index_function(f"{t.name}_row", t.name, depth)
        lines.append(f"fn {t.name}_at(row: u32, c: u32) -> u32 {{ return row + {col}; }}")
    elif spec.iterate == "tiles":
        lines += _index_function(f"{t.name}_batch", t.name, depth)
        lines.append(
            f"fn {t.name}_at(batch: u32, r: u32, c: u32) -> u32 "
            f"{{ return batch + r * p.{t.name}_rs + {col}; }}"
        )
    else:
        lines += _index_function(f"{t.name}_index", t.name, depth)
    return lines


def _bool_access(t: TensorSpec, kind: ElementType, word: str) -> list[str]:
    """The functions that load and store bools. For a tensor that is read element by element, `word`
    is the expression of the word that holds element i."""
    name, mem = t.name, f"{t.name}_mem"
    if kind.value != "bool" and t.role == "in":
        bits = "vec4<u32>(0xffu, 0xff00u, 0xff0000u, 0xff000000u)"
        word = word.replace("i >> 2u", "i")
        test = f"(vec4<u32>({word}) & {bits}) != vec4<u32>()"
        return [f"fn {name}_load(i: u32) -> vec4<bool> {{ return {test}; }}"]
    if kind.value != "bool":
        ones = "vec4<u32>(1u, 0x100u, 0x10000u, 0x1000000u)"
        return [
            f"fn {name}_store(i: u32, v: vec4<bool>) {{",
            f"  let bits = select(vec4<u32>(), {ones}, v);",
            f"  {mem}[i] = bits.x | bits.y | bits.z | bits.w;",
            "}",
        ]
    if t.role == "in":
        test = f"({word} & (0xffu << ((i & 3u) << 3u))) != 0u"
        return [f"fn {name}_load(i: u32) -> bool {{ return {test}; }}"]
    return [
        f"fn {name}_store(i: u32, v: bool) {{",
        "  let shift = (i & 3u) << 3u;",
        f"  atomicAnd(&{mem}[i >> 2u], ~(0xffu << shift));",
        f"  if (v) {{ atomicOr(&{mem}[i >> 2u], 1u << shift); }}",
        "}",
    ]


def _index_function(name: str, tensor: str, levels: int) -> list[str]:
    """The index of a tensor's element from a linear index, which is divided by one level after the
    other."""
    lines = [f"fn {name}(i: u32) -> u32 {{", "  var r = i;", f"  var o = p.{tensor}_off;"]
    for k in range(levels - 1):
        lines.append(f"  if (p.levels == {k + 1}u) {{ return o + r * p.{tensor}_s{k}; }}")
        lines.append(f"  {{ let q = r / p.n{k}; o += (r - q * p.n{k}) * p.{tensor}_s{k}; r = q; }}")
    lines.append(f"  return o + r * p.{tensor}_s{levels - 1};")
    return [*lines, "}"]
