"""A kernel made of an expression: one pass over tensors. Its text is written when it first runs."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pykernels.dtypes import DTypeName
from pykernels.errors import LimitError
from pykernels.plans.parts import each_part
from pykernels.steps import Arg, Body, Bound, Caps, Kernel, Scratch, Step, cdiv, touched
from pykernels.tensors.layout import Nd, View
from pykernels.wgsl.head import MAX_PARAMS, features, head, params
from pykernels.wgsl.interface import Axis, Interface, Param, TensorSpec
from pykernels.wgsl.rows import value_type
from pykernels.wgsl.texts import Text, add_texts
from pykernels.wgsl.watch import Watch

from .inputs import Inputs, stored_dtypes
from .resolve import Typed, exponents, limits, strong
from .text import operations
from .tiles import TILE, Tiling, tiling

__all__ = ["Program"]

WORKGROUP = 256
LEVELS = (2, 4, 6)  # levels of an index space; fewer levels leave room for other params
_START = """\
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {"""
# The first lines of a text in tiles. They find the workgroup's tile along both levels, then its
# index along the levels between and outside them.
_TILE = """\
  var g = group_id(wg);
  if (g >= p.groups) { return; }
  let tiles_c = (p.t_inner + SIDEu - 1u) / SIDEu;
  let tiles_r = (p.t_outer + SIDEu - 1u) / SIDEu;
  let c0 = g % tiles_c * SIDEu; g = g / tiles_c;
  let r0 = g % tiles_r * SIDEu; g = g / tiles_r;
  let first = (g / p.t_between) * (p.t_step * p.t_outer) + (g % p.t_between) * p.t_inner;"""
# The WGSL that reports negative exponents of integers; `number` is the number of the first element.
_EXPONENTS = {
    1: """\
fn refuse_negative(b: i32, number: u32) {
  if (b < 0) { fault(number, u32(b), 0xffffffffu); }
}""",
    4: """\
fn refuse_negative(b: vec4<i32>, number: u32) {
  for (var k = 0u; k < 4u; k += 1u) {
    if (b[k] < 0) { fault(number + k, u32(b[k]), 0xffffffffu); }
  }
}""",
}
_TILE_PARAMS = ("t_inner", "t_outer", "t_between", "t_step")


class Program:
    """The kernel of a typed expression; `tensors` are the dtypes of its tensors, by name.

    Shaders see tensors in their `native` dtypes. The arguments of `kernel` are the tensors,
    the output, and `scalars` as numbers. The output may overwrite the input `alias`, by default
    the first input that is stored in the same type.
    """

    def __init__(
        self, name: str, root: Typed, tensors: Mapping[str, str], *, alias: str | None = None
    ) -> None:
        self.tensors = tuple(tensors)
        self.root = root
        self._inputs = Inputs.of(name, root, tensors)
        self.scalars, self.limits = self._inputs.scalars, limits(root)
        self._watches = bool(exponents(root))
        self.dtype: DTypeName = strong(root.dtype)  # the dtype of the result
        shorts = self._inputs.shorts
        self._shorts = shorts | {"dst": _stored(root)}
        may = dict(zip(shorts, tensors, strict=True))
        same = (x for x, s in shorts.items() if s == self._shorts["dst"])
        self._alias = next((x for x in same if alias in (None, may[x])), "")
        told = repr((root, self._shorts, self._alias))
        self._interface = self._described(name)
        self._body = Body(
            name=f"elementwise-{hashlib.sha256(told.encode()).hexdigest()[:24]}",
            axes=tuple([a.name for a in self._interface.axes]),
            values="",
            args=self._inputs.members,
            args_format=self._inputs.args_format,
            faults=self._watches,
        )
        tile_params = "I" * (len(_TILE_PARAMS) + len(self._shorts))
        self._tiled_body = replace(self._body, values=tile_params)
        self._levels = self._most_levels(name)
        dst = Arg(
            "dst", "out", stored_dtypes(self._shorts["dst"]), alias=self._alias,
            widened=self.dtype == "bfloat16",
        )  # fmt: skip
        ins = [
            Arg(x, "in", stored_dtypes(s), expand="dst", widened=tensors[may[x]] == "bfloat16")
            for x, s in shorts.items()
        ]
        self.kernel = Kernel(
            name=name,
            family="elementwise",
            args=(*ins, dst),
            scalars=self._inputs.members,
            plan=self.plan,
            nbytes=touched,
            operations=functools.partial(_operations, operations(root)),
            source=self,
        )
        # shares the texts of an equal program, if there is one
        self._texts = add_texts(self._body.name, self)

    def _described(self, name: str) -> Interface:
        """The interface of the text: for each tensor, axes of dtype, vector width and reading."""
        axes = [Axis("TILE", (0, 1, 4)), Axis("LEVELS", LEVELS)]
        reads = ("", "row", "col", "one")
        for x in self._inputs.shorts:
            axes += [*self._inputs.axes(x), Axis(f"R_{x.removeprefix('x')}", reads)]
        if self._shorts["dst"] == "f16":
            axes.append(Axis("T_DST", ("f16", "f32")))
        axes += [Axis("V_DST", (1, 4)), Axis("R_DST", reads)]
        short = "T_DST" if self._shorts["dst"] == "f16" else self._shorts["dst"]
        dst = TensorSpec("dst", "out", short, (), vec="V_DST", alias=self._alias)
        sizes = [
            Param(n, "u32", when="TILE != 0")
            for n in (*_TILE_PARAMS, *[f"t_{x}" for x in self._shorts])
        ]
        return Interface(
            name=name, axes=tuple(axes),
            tensors=(*[self._inputs.spec(x) for x in self._inputs.shorts], dst),
            params=(*sizes, *self._inputs.params()), iterate="nd", levels="LEVELS",
            faults=self._watches,
        )  # fmt: skip

    def _most_levels(self, name: str) -> int:
        """The most levels for which Params has room, also in tiles. LimitError if there is no room
        for the least number of levels."""
        axes = self._axes(dict.fromkeys(self._shorts, "f32"), 1, 0, {}, {})
        values = dict(zip(self._body.axes, axes, strict=True))
        for levels in reversed(LEVELS):
            if len(params(self._interface, {**values, "LEVELS": levels})) <= MAX_PARAMS:
                return levels
        raise LimitError(
            f"[{name}] an expression of {len(self.tensors)} tensors and {len(self.scalars)} "
            f"numbers is more than the {MAX_PARAMS} params of a launch hold"
        )

    # -- a call -----------------------------------------------------------------------------------

    def plan(self, caps: Caps, scratch: Scratch, *views: View) -> list[Step]:
        """The steps: one dispatch for each part."""
        return each_part(caps, views, self.step, self._levels)

    def step(self, caps: Caps, views: Sequence[View]) -> Step:
        """The step of a single dispatch; the axes are in the order of the output's memory."""
        named = dict(zip(self._shorts, views, strict=True))
        inputs = [x for x in named if x != "dst"]
        it = Nd(views[-1].shape, named, inputs)
        vec = 4 if it.vec(4, inputs) else 1
        tiles = tiling(it, it.views) if vec == 1 else None
        return self._tiled(it, tiles) if tiles else self._straight(it, vec)

    def _straight(self, it: Nd, vec: int) -> Step:
        widths = {x: 1 if x != "dst" and it.repeats(x) else vec for x in it.views}
        it.in_vectors(vec)
        elems = {x: widths[x] * v.dtype.itemsize for x, v in it.views.items()}
        groups = cdiv(it.total, WORKGROUP)
        return self._dispatch(self._body, it, widths, elems, groups)

    def _tiled(self, it: Nd, tiles: Tiling) -> Step:
        widths = {x: 4 if tiles.reads.get(x) in ("row", "col") else 1 for x in it.views}
        elems = {x: v.dtype.itemsize for x, v in it.views.items()}
        return self._dispatch(self._tiled_body, it, widths, elems, tiles.groups, tiles)

    def _dispatch(
        self, body: Body, it: Nd, widths: Mapping[str, int], elems: Mapping[str, int], groups: int,
        tiles: Tiling | None = None,
    ) -> Step:  # fmt: skip
        """For each tensor, `widths` has the number of elements of a vector, and `elems` the bytes
        from one index to the next."""
        levels = next(n for n in LEVELS if n >= it.levels)
        bound = []
        for x, view in it.views.items():
            unit = max(widths[x] * view.dtype.itemsize, 4)
            steps = it.steps(x, elems[x] // view.dtype.itemsize)[:levels]
            if x == "dst":
                bound.append(Bound(x, "out", view, unit, elems[x], steps, alias=self._alias))
            else:
                bound.append(Bound(x, "in", view, unit, elems[x], steps))
        shorts = {x: v.dtype.short for x, v in it.views.items()}
        reads = tiles.reads if tiles else {}
        axes = self._axes(shorts, tiles.block if tiles else 0, levels, widths, reads)
        values = (*tiles.sizes, *[s & 0xFFFFFFFF for s in tiles.steps]) if tiles else ()
        words = it.params()[: levels + 1]
        shape = (it.total * widths["dst"],)
        watch = Watch("exponent", 1 << 31, shape, shape) if self._watches else None
        return Step(body, axes, tuple(bound), words, values, groups, watch)

    def _axes(
        self, shorts: Mapping[str, str], tile: int, levels: int, widths: Mapping[str, int],
        reads: Mapping[str, str],
    ) -> tuple[object, ...]:  # fmt: skip
        """The values of the axes, in order."""
        found: list[object] = [tile, levels]
        for x, short in self._shorts.items():
            if short == "f16":
                found.append(shorts[x])
            found += [widths.get(x, 1), reads.get(x, "")]
        return tuple(found)

    # -- its text ---------------------------------------------------------------------------------

    def get(self, key: str) -> Text:
        """The text of a variant."""
        given = dict(part.split("=", 1) for part in key.split(" "))
        mode = given.pop("mode")
        axes: dict[str, Any] = {k: int(v) if v.isdigit() else v for k, v in given.items()}
        top = head(self._interface, axes, mode)
        main = {0: self._vectors, 1: self._elements, 4: self._blocks}[axes["TILE"]](axes)
        return Text(top + main, tuple(features(self._interface, axes)))

    def _vectors(self, axes: Mapping[str, Any]) -> str:
        """The text in which an invocation computes one vector or one element."""
        lines = [
            _START,
            "  let i = group_id(wg) * 256u + li;",
            "  if (i >= p.total) { return; }",
        ]
        vec = axes["V_DST"]
        loads = {x: f"{x}_load({x}_index(i))" for x in self._shorts}
        result = self._inputs.values(lines, vec, [loads], [_checked(f"i * {vec}u")])
        return self._ended(vec, lines, [f"  dst_store(dst_index(i), {result[0]});"])

    def _elements(self, axes: Mapping[str, Any]) -> str:
        """The text in which an invocation computes four elements of a column of a tile."""
        side = TILE[1]
        lines = [_START, _TILE.replace("SIDE", str(side))]
        lines += [f"  let c = c0 + li % {side}u;", f"  let r = r0 + li / {side}u;"]
        lines.append("  let column = first + min(c, p.t_inner - 1u);")
        loads, ends = [], []
        for k in range(side * side // WORKGROUP):
            down = f"r + {k * WORKGROUP // side}u"
            lines.append(f"  let i{k} = column + min({down}, p.t_outer - 1u) * p.t_step;")
            loads.append({x: f"{x}_load({x}_index(i{k}))" for x in self._shorts})
            ends.append(f"  if ((c < p.t_inner) & ({down} < p.t_outer)) {{ RESULT }}")
        results = self._inputs.values(
            lines, 1, loads, [_checked(f"i{k}") for k in range(len(loads))]
        )
        stores = [
            end.replace("RESULT", f"dst_store(dst_index(i{k}), {v});")
            for k, (end, v) in enumerate(zip(ends, results, strict=True))
        ]
        return self._ended(1, lines, stores)

    def _blocks(self, axes: Mapping[str, Any]) -> str:
        """The text in which an invocation computes a block of 4 x 4 elements. A tensor that lies
        along the other level is transposed in registers. 32 neighbouring invocations access 128
        contiguous bytes along the output and 64 along the other level."""
        lines = [_START, _TILE.replace("SIDE", str(TILE[4]))]
        lines += [
            "  let c = c0 + ((li & 7u) + ((li >> 5u) & 1u) * 8u) * 4u;",
            "  let r = r0 + (((li >> 3u) & 3u) + (li >> 6u) * 4u) * 4u;",
            "  if ((c >= p.t_inner) | (r >= p.t_outer)) { return; }",
            "  let i = first + c + r * p.t_step;",
        ]
        loads: list[dict[str, str]] = [{}, {}, {}, {}]
        for x in self._shorts:
            read = axes[f"R_{x.removeprefix('x').upper()}"]
            if x == "dst":
                continue
            lines.append(f"  let {x}_at = {x}_index(i);")
            step = {"row": f"p.t_{x}", "col": f"p.{x}_s0", "one": ""}[read]
            for k in range(4):
                if read == "one":
                    loads[k][x] = f"{x}_load({x}_at)"
                    continue
                lines.append(f"  let {x}_{k} = {x}_load(({x}_at + {k}u * {step}) >> 2u);")
                kind = value_type("V", self._inputs.kind(x), 4)
                parts = ", ".join(f"{x}_{n}[{k}]" for n in range(4))
                loads[k][x] = f"{x}_{k}" if read == "row" else f"{kind}({parts})"
        rows = [_checked(f"i + {k}u * p.t_step") for k in range(4)]
        results = self._inputs.values(lines, 4, loads, rows)
        stores = ["  let dst_at = dst_index(i);"]
        stores += [
            f"  dst_store((dst_at + {k}u * p.t_dst) >> 2u, {v});" for k, v in enumerate(results)
        ]
        return self._ended(4, lines, stores)

    def _ended(self, vec: int, lines: Sequence[str], stores: Sequence[str]) -> str:
        functions, start = self._inputs.functions(vec), lines[0]
        if self._watches:
            functions.append(_EXPONENTS[vec])
            start += "\n  fault_started((group_id(wg) | li) == 0u);"
        return "\n".join([*functions, start, *lines[1:], *stores, "}\n"])


def _checked(number: str) -> str:
    return f"  refuse_negative(EXPONENT, {number});"


def _stored(root: Typed) -> str:
    """A short name for the storage type of the result."""
    return "f16" if strong(root.dtype) == "float16" else root.kind


def _operations(each: int, *views: View, **numbers: float) -> int:
    return each * views[-1].size
