"""A kernel made of a reduction and an expression: the built bodies, which read other values.

The bodies `reduce_rows` and `reduce_columns` read their values by two functions only. A made text
is the built text with another head, and with these functions written from the expression.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pykernels._generated.bodies import reduce_columns, reduce_rows
from pykernels._generated.ops.reductions import FINISHES, RESULTS
from pykernels.dtypes import DTYPES, DTypeName
from pykernels.errors import ArgumentError, LimitError
from pykernels.plans.elementwise.inputs import Inputs, stored_dtypes
from pykernels.plans.elementwise.resolve import Typed, converted, exponents, limits, strong
from pykernels.plans.elementwise.text import operations
from pykernels.steps import Arg, Body, Bound, Caps, Kernel, Scratch, Step, touched
from pykernels.tensors.layout import Ints, Rows, Tiles, View, contiguous_strides
from pykernels.wgsl.head import MAX_PARAMS, features, head, params
from pykernels.wgsl.interface import Axis, Interface, Param, TensorSpec
from pykernels.wgsl.rows import class_of, value_type
from pykernels.wgsl.texts import Text, add_texts, of_body

from .axes import reduced_axes
from .reduction import reduced
from .values import Values, finish_of, results

__all__ = ["ReductionProgram"]

_NUMBERS = {"norm": 2.0}  # the number that a reduction takes, for reductions of expressions


class _Kind(NamedTuple):
    """One of the two bodies: its module, its index space, and the position of a value in it."""

    built: Any
    iterate: str
    space: type[Rows] | type[Tiles]
    first: str  # the name of the function that finds a row, or a batch
    at: str  # the names of an element's other indices


_KINDS = {
    "rows": _Kind(reduce_rows, "rows", Rows, "row", "c"),
    "columns": _Kind(reduce_columns, "tiles", Tiles, "batch", "r, c"),
}
# The functions of a built text that compute the values; each is one line.
_FIRST = re.compile(r"^fn value_(row|batch)\(.*\n", re.M)
_VALUE = re.compile(r"^fn value\(.*\n", re.M)
_MEMBERS = re.compile(r"  dst_cs: u32,\n(.*?)\}", re.S)


class ReductionProgram:
    """The kernel of a reduction (`how`) of a typed expression over tensors of these dtypes.

    `kernel` takes the tensors in their order, then the output, `axis` as its option, and `scalars`
    as numbers. `root` is the reduced expression, in the type that the reduction reads; `dtypes` are
    the possible dtypes of the result.
    """

    def __init__(self, name: str, how: str, root: Typed, tensors: Mapping[str, str]) -> None:
        found: DTypeName = strong(root.dtype)
        given: DTypeName = "float32" if found == "bfloat16" else found
        self.how, self._finish = how, finish_of(how, given, _NUMBERS.get(how, 0.0))
        op, *_, classes = FINISHES[self._finish]
        self.root = _readable(root, classes)
        if exponents(self.root):
            raise ArgumentError(
                f"[{name}] a reduction cannot raise integers to powers from a tensor: compute the "
                "powers before it"
            )
        self.dtypes = results(RESULTS[how][0], found)
        self.tensors = tuple(tensors)
        self._inputs = Inputs.of(name, self.root, tensors)
        self.scalars, self.limits = self._inputs.scalars, limits(root)
        told = repr((op, self.root, self._inputs.shorts))
        digest = hashlib.sha256(told.encode()).hexdigest()[:24]
        self._bodies = {
            name_of: _MadeBody(f"reduction-{name_of}-{digest}", name, op, kind, self._inputs)
            for name_of, kind in _KINDS.items()
        }
        ins = [
            Arg(x, "in", stored_dtypes(s), widened=dtype == "bfloat16")
            for (x, s), dtype in zip(self._inputs.shorts.items(), tensors.values(), strict=True)
        ]
        written = results(RESULTS[how][0], given)
        out = {d: None for name in written for d in stored_dtypes(DTYPES[name].short)}
        self.kernel = Kernel(
            name=name,
            family="reduce",
            args=(*ins, Arg("dst", "out", tuple(out), widened="bfloat16" in self.dtypes)),
            scalars=self._inputs.members,
            plan=self.plan,
            nbytes=_touched,
            operations=functools.partial(_operations, operations(self.root) + 1),
            options=("axis",),
            source=self,
        )

    def plan(self, caps: Caps, scratch: Scratch, *given: Any) -> list[Step]:
        """The steps for inputs that repeat to one shape; `given` ends with dst and axis."""
        *ins, dst, axis = given
        shape = _shape(ins)
        full = tuple([v.broadcast_to(shape) for v in ins])
        dtype = next(d for d in DTYPES.values() if d.short == self.root.kind)
        values = Values(full, dtype, self._step)
        axes = reduced_axes(self.kernel.name, values, dst, axis)
        return reduced(
            caps, scratch, values, dst, axes, _NUMBERS.get(self.how, 0.0),
            name=self.kernel.name, how=self.how, finish=self._finish,
        )  # fmt: skip

    def _step(self, caps: Caps, values: Values, dst: View, body: str, **params: Any) -> Step:
        return self._bodies[body].step(caps, values, dst, **params)


class _MadeBody:
    """One of the two bodies for one expression: its dispatches and its texts."""

    def __init__(self, name: str, op: str, row: str, kind: _Kind, inputs: Inputs) -> None:
        self._row, self._kind, self._inputs = row, kind, inputs
        built: Body = kind.built.BODY
        text = next(iter(of_body(built.name).values())).wgsl
        members = re.findall(r"(\w+): (\w+)", _MEMBERS.search(text)[1])  # type: ignore[index]
        levels = range(1, kind.space.LEVELS + 1)
        vectors = [a for x in inputs.shorts for a in inputs.axes(x)]
        dst = TensorSpec("dst", "out", "*", (), bind="'atomic<u32>' if PACKED else 'u32'")
        self._interface = Interface(
            name=op,
            axes=(
                Axis("T", ("f32", "f16", "i32", "u32", "bool")), Axis("PACKED", (False, True)),
                Axis("VEC", (1, 4)), Axis("BATCH", ("batch1", "batch8")),
                Axis("LEVELS", tuple(levels)), *vectors,
            ),
            tensors=(*[inputs.spec(x) for x in inputs.shorts], dst),
            params=(*[Param(n, t) for n, t in members], *inputs.params()),
            iterate=kind.iterate,
            levels="LEVELS",
        )  # fmt: skip
        self._levels = self._most_levels(op)
        self._body = Body(
            name, tuple([a.name for a in self._interface.axes]), built.values, inputs.members,
            inputs.args_format,
        )  # fmt: skip
        # shares the texts of an equal expression, if there is one
        self._texts = add_texts(name, self)

    def _most_levels(self, op: str) -> int:
        """The levels of the index space for which Params has room; LimitError if there is none."""
        axes = {a.name: a.values[0] for a in self._interface.axes}
        for levels in range(self._kind.space.LEVELS, 0, -1):
            if len(params(self._interface, {**axes, "LEVELS": levels})) <= MAX_PARAMS:
                return levels
        raise LimitError(
            f"[{op}] an expression of {len(self._inputs.tensors)} tensors and "
            f"{len(self._inputs.scalars)} numbers is more than the {MAX_PARAMS} params of a launch "
            "hold"
        )

    def step(self, caps: Caps, values: Values, dst: View, **params: Any) -> Step:
        """The step of the built body for a tensor with the shape of the values, with the inputs
        bound in place of that tensor."""
        named = dict(zip(self._inputs.shorts, values.views, strict=True))
        it = self._kind.space(dst.shape, {**named, "dst": dst})
        if it.levels > self._levels:
            raise LimitError(
                f"with {len(named)} tensors and {len(self._inputs.scalars)} numbers at most "
                f"{self._levels + it.TAIL} axes may be left after merging, but "
                f"{it.levels + it.TAIL} are"
            )
        vec = values.vec
        dtype = dst.dtype if dst.dtype.short == "f16" else values.dtype
        steps = contiguous_strides(values.shape, dtype.itemsize)
        if vec == 1:
            steps = (0,) * len(steps)
        alike = View(values.views[0].slot, dtype, values.shape, steps, 0)
        built: Step = self._kind.built.step(caps, alike, dst, **params)
        axes: list[object] = [*built.axes[1:], self._levels]
        bound = []
        for x, view in named.items():
            width = vec if view.strides[-1] else 1
            if self._inputs.shorts[x] == "f16":
                axes.append(view.dtype.short)
            axes.append(width)
            size = view.dtype.itemsize * width
            bound.append(Bound(x, "in", view, max(size, 4), size, self._steps(it, x, width)))
        bound.append(replace(built.bound[-1], strides=self._steps(it, "dst", 1)))
        words = it.params()[: self._levels + 1]
        return replace(built, body=self._body, axes=tuple(axes), bound=tuple(bound), words=words)

    def _steps(self, it: Rows | Tiles, name: str, vec: int) -> Ints:
        steps = it.steps(name, vec)
        return (*steps[: self._levels], *steps[it.LEVELS :])

    def get(self, key: str) -> Text:
        """The text of a variant: the built text with this head and these values."""
        given = dict(part.split("=", 1) for part in key.split(" "))
        mode = given.pop("mode")
        axes: dict[str, Any] = {k: int(v) if v.isdigit() else v for k, v in given.items()}
        axes["PACKED"] = given["PACKED"] == "True"
        told = " ".join([f"{a}={given[a]}" for a in ("T", "PACKED", "VEC", "BATCH")])
        built = of_body(self._kind.built.BODY.name).body(f"OP={self._row} {told} mode=read")
        text = _FIRST.sub(self._base(), _VALUE.sub(self._value(axes["VEC"]), built))
        return Text(
            head(self._interface, axes, mode) + text, tuple(features(self._interface, axes))
        )

    def _base(self) -> str:
        """The position of a row, or of a batch, in each tensor."""
        first, names = self._kind.first, [*self._inputs.shorts]
        members = ", ".join([f"{x}: u32" for x in names])
        found = ", ".join([f"{x}_{first}(i)" for x in names])
        return (
            f"struct Base {{ {members} }}\n"
            f"fn value_{first}(i: u32) -> Base {{ return Base({found}); }}\n"
        )

    def _value(self, vec: int) -> str:
        """The function that computes one vector of values, and the functions that it calls."""
        at = self._kind.at
        loads = {x: f"{x}_load({x}_at(base.{x}, {at}))" for x in self._inputs.shorts}
        lines: list[str] = []
        [result] = self._inputs.values(lines, vec, [loads])
        args = ", ".join([f"{name}: u32" for name in at.split(", ")])
        kind = value_type("V", self._inputs.root.kind, vec)
        start = f"fn value(base: Base, {args}) -> {kind} {{"
        return "\n".join(
            [*self._inputs.functions(vec), start, *lines, f"  return {result};", "}\n"]
        )


def _readable(root: Typed, classes: Sequence[str]) -> Typed:
    """The expression in a type that the reduction can read."""
    if class_of(root.kind) in classes:
        return root
    return converted(root, "i32" if "int" in classes else "f32")


def _shape(views: Sequence[View]) -> Ints:
    """The shape to which views repeat by numpy's rule; the views have been checked."""
    ndim = max([v.ndim for v in views])
    sizes = zip(*[v.as_rank(ndim).shape for v in views], strict=True)
    return tuple([next((n for n in each if n != 1), 1) for each in sizes])


def _touched(*views: View, **options: object) -> int:
    return touched(*views)


def _operations(each: int, *views: View, **options: object) -> int:
    return each * math.prod(_shape(views[:-1]))
