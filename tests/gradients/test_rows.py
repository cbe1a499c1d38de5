"""The gradients of rows and expressions in float64, without a device: what shaders compute is
evaluated with the rows' references, against central differences of the same."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pykernels._generated.ops.elementwise import OPS
from pykernels.call.promotion import WEAK, weak
from pykernels.plans.elementwise.derive import DY, Y, derived
from pykernels.plans.elementwise.language import CASTS, Call, Input, Node, Number, parse
from pykernels.plans.elementwise.program import Program
from pykernels.plans.elementwise.resolve import resolve
from pykernels.steps import Kernel
from tests.harness import Array

# Where a derivative is asked for: inside the domain, not at its far ends.
NEAR: dict[str, tuple[float, float]] = {
    "acosh": (1.1, 9), "pow": (0.2, 3), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9),
    "atanh": (-0.9, 0.9), "fmod": (0.3, 4), "remainder": (0.3, 4), "log1p": (-0.9, 5),
    "rsqrt": (0.1, 5), "sqrt": (0.1, 5),
}  # fmt: skip
# Not continuous, or only in steps: their derivative is 0 or that of a piece.
SMOOTH = [n for n, op in OPS.items() if op.gradients]


def evaluate(node: Node, values: Mapping[str, Any], numbers: tuple[float, ...] = ()) -> Any:
    """The value of a tree in float64."""
    if isinstance(node, Input):
        return values[node.name]
    if isinstance(node, Number):
        return numbers[node.index]
    args = [np.asarray(evaluate(a, values, numbers)) for a in node.args]
    if node.name in CASTS:
        return args[0] if node.name == "float32" else args[0].astype(node.name)
    row = OPS[node.name]
    wide = [a if n in row.conditions or a.dtype.kind == "b" else a.astype(np.float64)
            for n, a in zip(row.inputs, args, strict=True)]  # fmt: skip
    params = [float(evaluate(p, values, numbers)) for p in node.params]
    return row.reference(*wide, *params)


def gradient(kernel: Kernel, name: str, values: Mapping[str, Any], dy: Array, y: Array) -> Array:
    found = derived(kernel, name)
    if found.expression is None:
        return np.zeros_like(dy)
    known = {**values, **found.constants, DY: dy, Y: y}
    with np.errstate(all="ignore"):
        return np.asarray(evaluate(found.expression.root, known))


def program(text: str, types: Mapping[str, str]) -> Kernel:
    expression = parse("test", text)
    tensors = {n: t for n, t in types.items() if n in expression.inputs}
    return Program("test", resolve("test", expression.root, types), tensors).kernel


@pytest.mark.parametrize("name", SMOOTH)
def test_texts_of_rows_are_their_derivatives(name: str) -> None:
    op, rng = OPS[name], np.random.default_rng(len(name))
    types = {n: "bool" if n in op.conditions else "float32" for n in op.inputs}
    types |= dict.fromkeys(op.params, weak(WEAK[float]))
    text = f"{name}({', '.join([*op.inputs, *op.params])})"
    kernel = program(text, types)
    values: dict[str, Any] = {}
    domains = iter(op.domain)
    for n in op.inputs:
        if n in op.conditions:
            values[n] = rng.random(64) < 0.5
            continue
        low, high = next(domains)
        near = NEAR.get(name, (-4, 4))
        values[n] = rng.uniform(max(low, near[0]), min(high, near[1]), 64)
    values |= {p: float(v) for p, v in op.params.items()}
    if name == "softplus":
        values["threshold"] = 1e9  # the step there is none of the derivative
    dy = rng.normal(0, 1, 64)
    y = op.reference(*values.values())
    for n in types:
        if n in op.conditions or n in op.params:
            continue
        h = 1e-6
        up, down = ({**values, n: values[n] + s} for s in (h, -h))
        with np.errstate(all="ignore"):
            slope = (op.reference(*up.values()) - op.reference(*down.values())) / (2 * h)
        fine = np.abs(slope) < 1e3  # not across a step
        got = gradient(kernel, n, values, dy, y)
        np.testing.assert_allclose(got[fine], (dy * slope)[fine], rtol=1e-6, atol=1e-7)
        assert fine.sum() > 40


def next_of(kernel: Kernel, name: str) -> tuple[Kernel, dict[str, float]]:
    """The kernel that computes a gradient, and its numbers, by the names that it has for them."""
    found = derived(kernel, name)
    assert found.expression is not None
    types: dict[str, str] = dict.fromkeys(found.inputs, "float32")
    conditions = OPS[kernel.name].conditions
    types |= {n: "bool" for n in found.inputs if n in conditions}
    types |= dict.fromkeys((*found.constants, *OPS[kernel.name].params), weak("float32"))
    types = {n: types[n] for n in found.inputs}
    tensors = {n: t for n, t in types.items() if t in ("float32", "bool")}
    root = resolve("test", found.expression.root, types)
    numbers = {f"#{n}": v for n, v in found.constants.items()}
    return Program("test", root, tensors).kernel, numbers


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_of_rows(name: str) -> None:
    """The gradient of a row is an expression, and so is the gradient of that."""
    op = OPS[name]
    rng = np.random.default_rng(1)
    low, high = NEAR.get(name, (-3, 3))
    kernel = importlib.import_module(f"pykernels._generated.kernels.{name}").KERNEL
    values: dict[str, Any] = {n: rng.uniform(low, high, 64) for n in op.inputs}
    values |= {n: rng.uniform(0, 1, 64) > 0.5 for n in op.conditions}
    values |= {p: 1e9 if p == "threshold" else 0.7 for p in op.params}
    dy = rng.normal(0, 1, 64)
    for n in op.inputs:
        if n in op.conditions or derived(kernel, n).expression is None:
            continue
        again, numbers = next_of(kernel, n)
        y = op.reference(*values.values())
        known = {**values, **numbers, f"#{DY}": dy, f"#{Y}": y}
        first = gradient(kernel, n, values, dy, y)
        for m in op.inputs:
            if m in op.conditions:
                continue
            h, both = 1e-6, []
            for s in (h, -h):
                moved = {**values, m: values[m] + s}
                both.append(gradient(kernel, n, moved, dy, op.reference(*moved.values())))
            slope = (both[0] - both[1]) / (2 * h)
            got = np.zeros(64)
            if m in derived(kernel, n).inputs:
                got = got + gradient(again, m, known, np.ones(64), first)
            if Y in derived(kernel, n).inputs:
                by_y = gradient(kernel, m, values, np.ones(64), y)
                got = got + gradient(again, f"#{Y}", known, by_y, first)
            fine = np.abs(slope) < 1e3
            np.testing.assert_allclose(got[fine], slope[fine], rtol=2e-5, atol=1e-6)
            assert fine.sum() > 40


UNARY = ("exp", "sin", "tanh", "sigmoid", "gelu", "silu", "softplus", "atan", "neg", "square")
BINARY = ("add", "sub", "mul", "minimum", "maximum", "swiglu", "atan2")


def tree(rng: np.random.Generator, depth: int) -> str:
    """A text over a, b and c."""
    if depth == 0:
        return str(rng.choice(["a", "b", "c", "0.5", "2"]))
    kind = rng.random()
    if kind < 0.4:
        return f"{rng.choice(UNARY)}({tree(rng, depth - 1)})"
    if kind < 0.5:
        return f"where({tree(rng, 1)} > 0.1, {tree(rng, depth - 1)}, {tree(rng, 1)})"
    return f"{rng.choice(BINARY)}({tree(rng, depth - 1)}, {tree(rng, depth - 1)})"


@pytest.mark.parametrize("seed", range(40))
def test_expressions_by_the_chain_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = f"({tree(rng, 3)}) * a + b - c"
    types = dict.fromkeys("abc", "float32")
    expression = parse("test", text)
    kernel = program(text, types)
    values = {n: rng.uniform(-1.5, 1.5, 32) for n in "abc"}
    dy = rng.normal(0, 1, 32)
    numbers = {f"#n{i}": v for i, v in enumerate(expression.numbers)}
    y = evaluate(expression.root, values, expression.numbers)
    for n in "abc":
        found = []
        for h in (1e-6, 2e-6):
            up, down = ({**values, n: values[n] + s} for s in (h, -h))
            both = [evaluate(expression.root, v, expression.numbers) for v in (up, down)]
            found.append(dy * (both[0] - both[1]) / (2 * h))
        kink = np.abs(found[0] - found[1]) > 1e-4 * (1 + np.abs(found[0]))
        got = gradient(kernel, n, {**values, **numbers}, dy, y)
        np.testing.assert_allclose(got[~kink], found[0][~kink], rtol=1e-5, atol=1e-6)
        assert kink.sum() < 8


def test_a_gradient_reads_as_little_as_it_can() -> None:
    """Of the result where that is enough, else of inputs only."""
    for text, name, reads in (
        ("tanh(a * 2)", "a", {DY, Y}), ("a + b", "a", {DY}), ("relu(a)", "a", {DY, Y}),
        ("silu(a)", "a", {DY, "a"}), ("a * b", "a", {DY, "b"}), ("exp(a) + b", "b", {DY}),
    ):  # fmt: skip
        kernel = program(text, dict.fromkeys("ab", "float32"))
        used = {n for n in derived(kernel, name).inputs if n in (DY, Y, "a", "b")}
        assert used == reads, text


def test_equal_numbers_are_one_argument() -> None:
    kernel = program("gelu_tanh(a)", {"a": "float32"})
    found = derived(kernel, "a")
    assert len(found.constants) == len({*found.constants.values()})
    text = OPS["gelu_tanh"].gradients["x"]
    numbers = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)]
    assert len(numbers) > len(found.constants)
    assert isinstance(found.expression.root if found.expression else None, Call)
