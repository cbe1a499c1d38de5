"""Translates the gradients of rows into the language of `pykernels.elementwise`: numpy's names
become names of rows, and a constant part becomes one number."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping

__all__ = ["in_language"]


def in_language(text: str, names: Mapping[str, str]) -> str:
    """A `grad` text as an expression for shaders; `names` maps every name of a row to the row's
    main name.

    Raises:
        ValueError: The text calls a function of numpy that is not a row.
    """
    return ast.unparse(_Translator(names).visit(ast.parse(" ".join(text.split()), mode="eval")))


class _Translator(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.BinOp, ast.Call, ast.Attribute)) and _constant(node):
            value = eval(compile(ast.Expression(node), "<grad>", "eval"), {"np": math})
            return ast.Constant(value)
        found: ast.AST = super().visit(node)
        return found

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if name not in self._names:
            raise ValueError(f"{ast.unparse(node.func)} is no row of the table")
        args: list[ast.expr] = [self.visit(arg) for arg in node.args]  # type: ignore[misc]
        return ast.Call(ast.Name(self._names[name]), args, [])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """`&` of two conditions becomes `and`."""
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.BitAnd):
            return ast.BoolOp(ast.And(), [left, right])  # type: ignore[list-item]
        return ast.BinOp(left, node.op, right)  # type: ignore[arg-type]


def _constant(node: ast.AST) -> bool:
    """True if the expression is a constant: its only name, if any, is `np`."""
    return all(not isinstance(n, ast.Name) or n.id == "np" for n in ast.walk(node))
