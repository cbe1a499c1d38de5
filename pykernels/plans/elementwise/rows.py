"""The plan of operations on each element: usually one dispatch of a body of the build.

Calls that read a tensor across its memory run a `Program` in tiles. A call is cut into
parts if a tensor does not fit a binding, or if there are too many axes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from pykernels._generated.ops.elementwise import OPS
from pykernels.call.promotion import weak
from pykernels.plans.parts import each_part
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Nd, View

from .language import Call, Input, Node
from .program import Program
from .resolve import resolve
from .tiles import tiling

__all__ = ["plan_of", "row_program"]

Types = tuple[tuple[str, str], ...]
Plan = Callable[..., list[Step]]


def plan_of(name: str, step: Callable[..., Step]) -> Plan:
    """The plan of a row of OPS that a body of the build computes; `step` makes one dispatch."""
    inputs = OPS[name].inputs

    def plan(caps: Caps, scratch: Scratch, *views: View) -> list[Step]:
        if caps.built_only:
            return [step(caps, *views, OP=name)]
        # the program for the expression reports negative exponents
        if name == "pow" and views[-1].dtype.kind == "i":
            return each_part(caps, views, made)
        return each_part(caps, views, one)

    def one(caps: Caps, views: Sequence[View]) -> Step:
        named = dict(zip((*inputs, "dst"), views, strict=True))
        it = Nd(views[-1].shape, named, inputs)
        if it.levels > 1 and not it.vec(4, inputs) and tiling(it, it.views):
            return made(caps, views)
        return step(caps, *views, OP=name)

    def made(caps: Caps, views: Sequence[View]) -> Step:
        types = tuple([(n, v.dtype.name) for n, v in zip(inputs, views, strict=False)])
        return row_program(name, types).step(caps, views)

    return plan


@functools.lru_cache(maxsize=512)
def row_program(name: str, types: Types) -> Program:
    """The program of one operation; `types` are the dtypes of its inputs, or marks of numbers."""
    op = OPS[name]
    root: Node = Call(name, tuple([Input(n) for n in op.inputs]), tuple(map(Input, op.params)))
    marks = {p: weak("float32") for p in op.params}
    first = next(n for n in op.inputs if n not in op.conditions)
    tensors = {n: t for n, t in types if not t.startswith("weak ")}
    return Program(name, resolve(name, root, {**dict(types), **marks}), tensors, alias=first)
