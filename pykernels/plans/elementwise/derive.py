"""The gradient of an expression, or of its sum, as another expression, by the chain rule and the
gradient texts of the operations (the rows of OPS).

The inputs of the gradient are the inputs of the expression, by their names, and two more: DY, the
gradient of the result, and Y, the result. Numbers become inputs, too, so that equal parts of the
gradient are computed once.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from pykernels._generated.ops.elementwise import OPS
from pykernels.call.promotion import weak
from pykernels.steps import Kernel

from .language import CASTS, Call, Expression, Input, Node, Number, parse
from .program import Program
from .resolve import Typed, resolve
from .text import Scalar

__all__ = [
    "DY", "SHARE", "ZERO", "Derived", "Y", "depends", "derived", "expression_of", "named",
    "tree_of",
]  # fmt: skip

DY, Y, SHARE = "#dy", "#y", "#share"  # no name that a caller gives can be one of these
ZERO = "0.0 * dy"  # rows whose gradient is zero everywhere have this text


@dataclass(frozen=True, eq=False)
class Tree:
    """The expression of a kernel: `names` maps the inputs to its arguments, `scalars` are its
    numbers in order. `dy` is the gradient of `root`, and `y` is its value. For reductions `y` is
    None, because the value of `root` is not an input."""

    root: Typed
    names: Mapping[str, str]
    scalars: tuple[Scalar, ...]
    dy: Node = Input(DY)  # noqa: RUF009
    y: Node | None = Input(Y)  # noqa: RUF009


@dataclass(frozen=True, eq=False)
class Derived:
    """The gradient of one input: an expression over some inputs, and constants by name; None is a
    gradient of zero."""

    expression: Expression | None
    constants: Mapping[str, float]

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.expression is None else self.expression.inputs


@functools.lru_cache(maxsize=1024)
def tree_of(kernel: Kernel) -> Tree:
    """The expression that a kernel of the family computes, or that a reduction of an expression
    reduces."""
    program = kernel.source
    if program is not None:
        root = _renamed(program.root)
        names = {_of_its_own(name): f"x{i}" for i, name in enumerate(program.tensors)}
        scalars = tuple(
            (_of_its_own(n) if isinstance(n, str) else n, kind) for n, kind in program.scalars
        )
        if isinstance(program, Program):
            return Tree(root, names, scalars)
        share = Call("mul", (Input(DY), Input(SHARE)))  # the share of dy that an element gets
        return Tree(root, names, scalars, share, None)
    op = OPS[kernel.name]
    types = {n: "bool" if n in op.conditions else "float32" for n in op.inputs}
    node = Call(op.name, tuple(map(Input, op.inputs)), tuple(map(Input, op.params)))
    root = resolve(op.name, node, types | dict.fromkeys(op.params, weak("float32")))
    return Tree(root, {n: n for n in op.inputs}, tuple((p, "f32") for p in op.params))


def _of_its_own(name: str) -> str:
    """The name of an input. If the kernel itself computes a gradient, its inputs may have the names
    DY and Y, or the name of a number. Such a name is changed, because the next gradient has inputs
    of its own with these names."""
    return f"#{name}" if name.startswith("#") else name


def _renamed(t: Typed) -> Typed:
    """The tree with its inputs renamed."""
    return dataclasses.replace(t, node=_with_names(t.node), args=tuple(map(_renamed, t.args)))


def _with_names(node: Node) -> Node:
    if isinstance(node, Input):
        return Input(_of_its_own(node.name))
    if isinstance(node, Call):
        args, params = (tuple(map(_with_names, nodes)) for nodes in (node.args, node.params))
        return Call(node.name, args, params)
    return node


@functools.lru_cache(maxsize=4096)
def derived(kernel: Kernel, name: str) -> Derived:
    """The gradient of an input of a kernel."""
    constants: dict[str, float] = {}
    tree = tree_of(kernel)
    terms: list[Node] = []
    _follow(tree.root, tree.dy, tree.y, name, terms, constants)
    if not terms:
        return Derived(None, {})
    root = functools.reduce(lambda a, b: Call("add", (a, b)), terms)
    expression = expression_of(root)
    return Derived(expression, {n: constants[n] for n in expression.inputs if n in constants})


@functools.lru_cache(maxsize=4096)
def expression_of(root: Node) -> Expression:
    """An expression made of a tree that has no numbers."""
    inputs: dict[str, None] = {}
    _inputs(root, inputs)
    return Expression(root, tuple(inputs), ())


def _follow(
    t: Typed, dy: Node, y: Node | None, name: str, terms: list[Node], constants: dict[str, float]
) -> None:  # fmt: skip
    """Append to `terms` the gradient that reaches the input `name` through a node. `y` is the
    node's value, if it is an input."""
    node = t.node
    if t.kind != "f32" or isinstance(node, Number):
        return
    if isinstance(node, Input):
        if node.name == name:
            terms.append(dy)
        return
    if node.name in CASTS:
        _follow(t.args[0], dy, None, name, terms, constants)
        return
    row = OPS[node.name]
    values: dict[str, Node] = {n: named(a.node) for n, a in zip(row.inputs, t.args, strict=True)}
    numbers = {n: named(p) for n, p in zip(row.params, node.params, strict=True)}
    for n, a in zip(row.inputs, t.args, strict=True):
        text = row.gradients.get(n)
        if text is None or text == ZERO or not depends(a, name):
            continue
        local = parse(row.name, text)
        whole = {"dy": dy, "y": named(node), **values, **numbers}
        if y is not None and not any(i in local.inputs for i in row.inputs):
            # the gradient's text reads no input of the row, so the tape keeps no input
            whole["y"] = y
        _follow(a, _put(local.root, local.numbers, whole, constants), None, name, terms, constants)


def depends(t: Typed, name: str) -> bool:
    """True if a node reads an input."""
    if isinstance(t.node, Input):
        return t.node.name == name
    return any(depends(a, name) for a in t.args)


def named(node: Node) -> Node:
    """The node with its numbers as inputs; the input for the number with the index 3 in the text
    has the name `#n3`."""
    if isinstance(node, Number):
        return Input(f"#n{node.index}")
    if isinstance(node, Call):
        return Call(node.name, tuple(map(named, node.args)), tuple(map(named, node.params)))
    return node


def _put(
    node: Node, numbers: tuple[float, ...], values: Mapping[str, Node], constants: dict[str, float]
) -> Node:  # fmt: skip
    """A row's text, with nodes in place of its names."""
    if isinstance(node, Number):
        value = numbers[node.index]
        constants[f"#{value!r}"] = value
        return Input(f"#{value!r}")
    if isinstance(node, Input):
        return values[node.name]
    args, params = (
        tuple([_put(a, numbers, values, constants) for a in nodes])
        for nodes in (node.args, node.params)
    )
    return Call(node.name, args, params)


def _inputs(node: Node, found: dict[str, None]) -> None:
    if isinstance(node, Input):
        found[node.name] = None
    elif isinstance(node, Call):
        for a in (*node.args, *node.params):
            _inputs(a, found)
