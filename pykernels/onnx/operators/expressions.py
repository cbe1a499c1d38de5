"""Elementwise operations of ONNX as expressions of `pk.elementwise`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import ModelError
from ..graph import Array, Node

# The most tensors that one expression may have.
TENSORS = 7
# Returns the text of an operation's value, from the texts of its operands.
Rule = Callable[..., str]


def _call(name: str) -> Rule:
    return lambda _, *x: f"{name}({', '.join(x)})"


def _infix(sign: str) -> Rule:
    return lambda _, a, b: f"({a} {sign} {b})"


def _mul(_: Node, a: str, b: str) -> str:
    return b if a == "1.0" else a if b == "1.0" else f"({a} * {b})"


def _prefix(sign: str) -> Rule:
    return lambda _, x: f"({sign}{x})"


def _chain(name: str) -> Rule:
    """An operation on any number of operands, two at a time."""

    def rule(_: Node, first: str, *rest: str) -> str:
        for x in rest:
            first = f"{name}({first}, {x})"
        return first

    return rule


def _sum(_: Node, *x: str) -> str:
    return f"({' + '.join(x)})"


def _mean(_: Node, *x: str) -> str:
    return f"(({' + '.join(x)}) / {float(len(x))})"


def _scaled(name: str, **defaults: float) -> Rule:
    """A function whose further arguments are attributes of the node."""

    def rule(node: Node, x: str) -> str:
        numbers = [float(node.attributes.get(key, value)) for key, value in defaults.items()]
        return f"{name}({', '.join([x, *map(number, numbers)])})"

    return rule


def _clip(node: Node, x: str, low: str = "", high: str = "") -> str:
    low = low or _attribute(node, "min")
    high = high or _attribute(node, "max")
    x = f"maximum({x}, {low})" if low else x
    return f"minimum({x}, {high})" if high else x


def _attribute(node: Node, name: str) -> str:
    return number(float(node.attributes[name])) if name in node.attributes else ""


def _hard_sigmoid(node: Node, x: str) -> str:
    alpha, beta = (node.attributes.get(n, d) for n, d in (("alpha", 0.2), ("beta", 0.5)))
    return f"minimum(maximum({x} * {number(alpha)} + {number(beta)}, 0.0), 1.0)"


def _selu(node: Node, x: str) -> str:
    alpha = number(float(node.attributes.get("alpha", 1.6732632423543772)))
    gamma = number(float(node.attributes.get("gamma", 1.0507009873554805)))
    return f"({gamma} * elu({x}, {alpha}))"


def _thresholded_relu(node: Node, x: str) -> str:
    return f"where({x} > {number(float(node.attributes.get('alpha', 1.0)))}, {x}, 0.0)"


def _gelu(node: Node, x: str) -> str:
    return f"gelu_tanh({x})" if node.attributes.get("approximate") == b"tanh" else f"gelu({x})"


def _swish(node: Node, x: str) -> str:
    return f"({x} * sigmoid({number(float(node.attributes.get('alpha', 1.0)))} * {x}))"


def _prelu(_: Node, x: str, slope: str) -> str:
    return f"where({x} < 0.0, {x} * {slope}, {x})"


def _pow(_: Node, x: str, y: str) -> str:
    return {"2.0": f"square({x})", "2": f"square({x})", "0.5": f"sqrt({x})"}.get(y, f"({x} ** {y})")


def _mod(node: Node, x: str, y: str) -> str:
    return f"fmod({x}, {y})" if node.attributes.get("fmod", 0) else f"({x} % {y})"


def _shift(node: Node, x: str, y: str) -> str:
    return f"({x} {'<<' if node.attributes['direction'] == b'LEFT' else '>>'} {y})"


def _is_infinite(node: Node, x: str) -> str:
    both = (("detect_positive", ">"), ("detect_negative", "<"))
    sides = [sign for key, sign in both if node.attributes.get(key, 1)]
    if len(sides) != 1:
        return f"isinf({x})" if sides else f"(isinf({x}) and False)"
    return f"(isinf({x}) and {x} {sides[0]} 0.0)"


RULES: dict[str, Rule] = {
    "Abs": _call("abs"), "Acos": _call("acos"), "Acosh": _call("acosh"), "Add": _infix("+"),
    "Affine": lambda _, x, scale, shift: f"({x} * {scale} + {shift})", "And": _infix("and"),
    "Asin": _call("asin"), "Asinh": _call("asinh"), "Atan": _call("atan"), "Atanh": _call("atanh"),
    "BitShift": _shift, "BitwiseAnd": _infix("&"), "BitwiseNot": _prefix("~"),
    "BitwiseOr": _infix("|"), "BitwiseXor": _infix("^"),
    "Ceil": _call("ceil"), "Celu": _scaled("celu", alpha=1.0), "Clip": _clip, "Cos": _call("cos"),
    "Cosh": _call("cosh"), "Div": _infix("/"), "Elu": _scaled("elu", alpha=1.0),
    "Equal": _infix("=="), "Erf": _call("erf"), "Exp": _call("exp"), "Floor": _call("floor"),
    "Gelu": _gelu, "Greater": _infix(">"), "GreaterOrEqual": _infix(">="),
    "HardSigmoid": _hard_sigmoid, "HardSwish": _call("hardswish"), "IsInf": _is_infinite,
    "IsNaN": _call("isnan"), "LeakyRelu": _scaled("leaky_relu", alpha=0.01), "Less": _infix("<"),
    "LessOrEqual": _infix("<="), "Log": _call("log"), "Max": _chain("maximum"), "Mean": _mean,
    "Min": _chain("minimum"), "Mish": _call("mish"), "Mod": _mod, "Mul": _mul,
    "Neg": _prefix("-"), "Not": _prefix("not "), "Or": _infix("or"), "PRelu": _prelu, "Pow": _pow,
    "Reciprocal": _call("reciprocal"), "Relu": _call("relu"), "Round": _call("round"),
    "Selu": _selu, "Sigmoid": _call("sigmoid"), "Sign": _call("sign"), "Sin": _call("sin"),
    "Sinh": _call("sinh"), "Softplus": _call("softplus"), "Softsign": _call("softsign"),
    "Sqrt": _call("sqrt"), "Sub": _infix("-"), "Sum": _sum, "Swish": _swish, "Tan": _call("tan"),
    "Tanh": _call("tanh"), "ThresholdedRelu": _thresholded_relu, "Where": _call("where"),
    "Xor": _call("logical_xor"),
}  # fmt: skip
# For each kind of dtype (numpy's letter), the function that converts to it in an expression.
_CONVERSIONS = {"f": "float32", "i": "int32", "u": "uint32", "b": "bool"}


def number(value: float) -> str:
    """The text of a number in an expression."""
    return repr(value) if value >= 0 else f"({value!r})"


def scalar(array: Array) -> str | None:
    """A constant of one element as a number; None for other constants."""
    if array.size != 1 or array.dtype.kind not in "fiub":
        return None
    return number(array.astype(np.float64).item() if array.dtype.kind == "f" else array.item())


def is_elementwise(node: Node, target: np.dtype | None = None) -> bool:
    """True if the node can be a part of an expression. `target` is the dtype of its result."""
    if node.op == "Cast":
        # Expressions convert only to these dtypes; other conversions are copies.
        return target in (np.float32, np.float64, np.int32, np.int64, np.uint32, np.bool_)
    if node.op == "PRelu" and node.version < 7:
        return False  # the slopes of PRelu may belong to channels
    return node.op in RULES


def expression(node: Node, operands: list[str], source: np.dtype, target: np.dtype) -> str:
    """The text of a node's value, from the texts of its operands; `source` is the dtype of the
    first operand, and `target` the dtype of the result."""
    if node.op == "Cast":
        return f"{_CONVERSIONS[target.kind]}({operands[0]})"
    if node.op == "Div" and source.kind in "iu":
        a, b = operands  # rounds towards zero
        return f"(({a} - fmod({a}, {b})) // {b})"
    if node.op not in RULES:
        raise ModelError(f"missing operations: {node.op}")
    return RULES[node.op](node, *operands)
