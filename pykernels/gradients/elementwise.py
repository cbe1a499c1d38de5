"""Operations on each element, and expressions: the gradient of an input is another expression.

The expressions come from `ops.toml`; see `plans/elementwise/derive.py`.
"""

from __future__ import annotations

from typing import Any

from pykernels._generated.ops.elementwise import OPS
from pykernels.call.apply import evaluate
from pykernels.device import Tensor
from pykernels.errors import LimitError
from pykernels.plans.elementwise.derive import (
    DY,
    SHARE,
    ZERO,
    Derived,
    Y,
    depends,
    derived,
    expression_of,
    named,
    tree_of,
)  # fmt: skip
from pykernels.plans.elementwise.language import CASTS, Expression, Input, Node, Number, parse
from pykernels.plans.elementwise.language import Call as ExpressionCall
from pykernels.plans.elementwise.resolve import Typed
from pykernels.steps import Kernel
from pykernels.tape import Taped, reads


def needed(kernel: Kernel, options: dict[str, Any]) -> set[str]:
    """The arguments that the gradients of a kernel read."""
    names = tree_of(kernel).names
    used = {i for name in names for i in derived(kernel, name).inputs}
    return {names[i] for i in used if i in names} | ({"dst"} if Y in used else set())


@reads(of=needed)
def default(call: Taped) -> None:
    give(call, call.dy())


def give(call: Taped, dy: Tensor, **numbers: float) -> None:
    """Give the gradients of all inputs. They are computed from `dy`, the gradient of the value, and
    from `numbers`, which are not inputs."""
    for name in tree_of(call.kernel).names:
        _give_one(call, name, dy, numbers)


def _give_one(call: Taped, name: str, dy: Tensor, numbers: dict[str, float]) -> None:
    """The gradient of one input."""
    arg = tree_of(call.kernel).names[name]
    if not call.wants(arg):
        return
    found = derived(call.kernel, name)
    if found.expression is None:
        call.give(arg, dy.device.zeros((), dy.dtype))
    elif found.expression.root == Input(DY):
        call.give(arg, dy)
    else:
        alike = call.shape(arg) == dy.shape and dy.dtype == "float32"
        [out] = call.room(arg) if alike else (None,)
        if out is not None and out.dtype != dy.dtype:
            out = None
        call.give(arg, _evaluated(call, name, found, {DY: dy, **numbers}, out))


def _inputs(kernel: Kernel, options: dict[str, Any]) -> set[str]:
    return {arg.name for arg in kernel.args if arg.role == "in"}


@reads(of=_inputs)
def clamp(call: Taped) -> None:
    """The subgradient of the smallest norm, as in torch. Where x equals a limit that is a tensor, x
    and the limit share the gradient; where x equals a limit that is a number, the gradient is 0."""
    names, dy = tree_of(call.kernel).names, call.dy()
    known: dict[str, Any] = {**_numbers(call), "dy": dy}
    known |= {name: call.saved(arg) for name, arg in names.items()}
    or_equal = {name: "=" if name in names else "" for name in known}
    takes = {"x": [f"x >{or_equal['low']} low"] if "low" in known else []}
    if "high" in known:
        below = f"<{or_equal['high']} high"
        takes["x"] += [f"x {below}"]
        takes["low"] = ["low >= x", f"low {below}"]
        above = f" or high <{or_equal['low']} low" if "low" in known else ""
        takes["high"] = [f"(high <= x{above})"]
    elif "low" in known:
        takes["low"] = ["low >= x"]
    tests = {name: " and ".join(takes[name]) or "True" for name in names}
    count = " + ".join(f"where({test}, 1.0, 0.0)" for test in tests.values())
    for name, arg in names.items():
        if call.wants(arg):
            share = "dy" if len(names) == 1 else f"dy / ({count})"
            text = parse("clamp", f"where({tests[name]}, {share}, 0)")
            call.give(arg, _value("clamp gradient", text, known))


@reads(of=_inputs)
def binary_cross_entropy(call: Taped) -> None:
    """As in torch, the divisor input * (1 - input) is at least 1e-12."""
    names, dy = tree_of(call.kernel).names, call.dy()
    known: dict[str, Any] = {n: call.saved(arg) for n, arg in names.items()} | {"dy": dy}
    log = "where({0} < 1.2e-38, -100, log(maximum({0}, 1.2e-38)))"
    ones, zeros = log.format("input"), log.format("(1 - input)")
    scale = "dy * weight" if "weight" in names else "dy"
    texts = {
        "input": f"{scale} * (input - target) / maximum(input * (1 - input), 1e-12)",
        "target": f"{scale} * ({zeros} - {ones})",
        "weight": f"dy * ((target - 1) * {zeros} - target * {ones})",
    }
    for name, arg in names.items():
        if call.wants(arg):
            call.give(arg, _value("binary_cross_entropy gradient", parse("", texts[name]), known))


def _evaluated(
    call: Taped, name: str, found: Derived, given: dict[str, Any], out: Any = None
) -> Any:
    """The gradient of an input, as one dispatch if possible; then it may be written to `out`."""
    tree = tree_of(call.kernel)
    known: dict[str, Any] = {**_numbers(call), **found.constants, **given}
    for n in found.inputs:
        if n in tree.names:
            known[n] = call.saved(tree.names[n])
        elif n == Y:
            known[n] = call.saved("dst")
    assert found.expression is not None
    try:
        return _value(f"{call.kernel.name} gradient", found.expression, known, out)
    except LimitError:  # the expression has too many tensors or numbers for one kernel
        return _Steps(call, name, known).sum()


def _value(op: str, expression: Expression, known: dict[str, Any], out: Any = None) -> Any:
    return evaluate(op, expression, {n: known[n] for n in expression.inputs}, out)


def values_of(call: Taped) -> Any:
    """The values of an expression that a kernel reduces, in float32."""
    tree = tree_of(call.kernel)
    known = {**_numbers(call), **{n: call.saved(arg) for n, arg in tree.names.items()}}
    root = ExpressionCall("float32", (named(tree.root.node),))
    return _value(f"{call.kernel.name} gradient", expression_of(root), known)


def _numbers(call: Taped) -> dict[str, float]:
    """The numbers of a call, by the names that they have in its gradients."""
    found: dict[str, float] = {}
    for i, (source, kind) in enumerate(tree_of(call.kernel).scalars):
        value = call.scalar(f"c{i}")
        name = source if isinstance(source, str) else f"#n{source}"
        found[name] = bool(value) if kind == "bool" else value
    return found


class _Steps:
    """The gradient of an input, computed one operation after the other."""

    def __init__(self, call: Taped, name: str, known: dict[str, Any]) -> None:
        self._op, self._name, self._known = f"{call.kernel.name} gradient", name, known
        self._root = tree_of(call.kernel).root
        self._sum: Any = None

    def sum(self) -> Any:
        dy = self._known[DY] * self._known.get(SHARE, 1)
        self._follow(self._root, dy, self._known.get(Y))
        return self._sum

    def _follow(self, t: Typed, dy: Any, y: Any = None) -> None:
        node = t.node
        if t.kind != "f32" or isinstance(node, Number):
            return
        if isinstance(node, Input):
            if node.name == self._name:
                self._sum = dy if self._sum is None else self._sum + dy
            return
        if node.name in CASTS:
            self._follow(t.args[0], dy)
            return
        row = OPS[node.name]
        given = dict(zip((*row.inputs, *row.params), (*node.args, *node.params), strict=True))
        for n, a in zip(row.inputs, t.args, strict=True):
            text = row.gradients.get(n)
            if text is None or text == ZERO or not depends(a, self._name):
                continue
            local = parse(row.name, text)
            known = {i: self._computed(given[i]) for i in local.inputs if i in given}
            if "y" in local.inputs:
                known["y"] = self._computed(node) if y is None else y
            self._follow(a, _value(self._op, local, {**known, "dy": dy}))

    def _computed(self, node: Node) -> Any:
        """The value of a node."""
        expression = expression_of(named(node))
        if isinstance(expression.root, Input):
            return self._known[expression.root.name]
        return _value(self._op, expression, self._known)
