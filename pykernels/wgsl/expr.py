"""The expressions that a spec may contain: a small, allow-listed part of Python."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Mapping
from types import CodeType
from typing import Any

__all__ = ["ExprError", "check", "evaluate"]

FUNCTIONS = {
    "cdiv", "dtype", "max", "min", "seen_keys", "seen_pairs", "spans", "taps", "touched",
}  # fmt: skip
_NODES = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.Pow,
    ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.IfExp, ast.Compare, ast.Eq, ast.NotEq,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.Constant,
    ast.Name, ast.Load, ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.Tuple, ast.List,
)  # fmt: skip


class ExprError(ValueError):
    """A spec contains an expression that is not allowed."""


def check(
    text: str, names: Collection[str], fields: Mapping[str, Collection[str]] | None = None
) -> str:
    """Return `text` if it is an allowed expression over `names`; `fields` lists the attributes of
    the names that have attributes."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as e:
        raise ExprError(f"{text!r} is no expression: {e.msg}") from None
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ExprError(f"{text!r} uses {type(node).__name__}, which a spec may not")
        if isinstance(node, ast.Name) and node.id not in names and node.id not in FUNCTIONS:
            raise ExprError(f"{text!r} names {node.id!r}; known here: {', '.join(sorted(names))}")
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            raise ExprError(f"{text!r} reads the private attribute {node.attr!r}")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            known = (fields or {}).get(node.value.id)
            if known is not None and node.attr not in known:
                raise ExprError(
                    f"{text!r}: {node.value.id} has no {node.attr!r}; it has {', '.join(known)}"
                )
    return text


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """The value of an expression over axes, at build time."""
    code = _compiled(text, frozenset(values))
    return eval(code, {"__builtins__": {}, "min": min, "max": max}, dict(values))


@functools.cache
def _compiled(text: str, names: frozenset[str]) -> CodeType:
    return compile(ast.parse(check(text, names), mode="eval"), "<spec>", "eval")
