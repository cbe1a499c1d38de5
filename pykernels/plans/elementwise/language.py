"""The language of expressions: a text becomes nodes. The text itself never reaches a shader."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from pykernels._generated.ops.elementwise import OPS
from pykernels.errors import ArgumentError

__all__ = ["CASTS", "Call", "Expression", "Input", "Node", "Number", "named", "parse"]

CASTS = ("float32", "int32", "uint32", "bool")
MAX_TEXT = 10_000
MAX_DEPTH = 100
_CONSTANTS = {"pi": 3.141592653589793, "inf": float("inf"), "nan": float("nan")}
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "remainder",
    ast.FloorDiv: "floor_divide", ast.Pow: "pow", ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor", ast.LShift: "left_shift",
    ast.RShift: "right_shift", ast.USub: "neg", ast.Invert: "bitwise_not",
    ast.Not: "logical_not", ast.And: "logical_and", ast.Or: "logical_or", ast.Lt: "less",
    ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
    ast.NotEq: "not_equal",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor, an array or a number that the caller gives by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the text: its index among the numbers, and its type."""

    index: int
    kind: type


@dataclass(frozen=True, slots=True)
class Call:
    """An operation, or a conversion to one of CASTS; `params` are its numbers, in order."""

    name: str
    args: tuple[Node, ...]
    params: tuple[Node, ...] = ()


Node = Input | Number | Call


# calls use it in their keys, so it is hashed by identity
@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A parsed text. Texts that differ only in their numbers have equal `root`s."""

    root: Node
    inputs: tuple[str, ...]  # the names of the inputs, in the order in which they appear
    numbers: tuple[float, ...]


@functools.cache
def named() -> dict[str, str]:
    """The operations by their names and their other spellings."""
    found = {alias: op.name for op in OPS.values() for alias in op.aliases}
    return found | {name: name for name in OPS}


@functools.lru_cache(maxsize=1024)
def parse(op: str, text: str) -> Expression:
    """The expression of a text.

    Raises:
        ArgumentError, which is a ValueError: the text is not an expression. The error shows the
            position of the mistake.
    """
    return _Parser(op, text).parsed()


class _Parser:
    def __init__(self, op: str, text: str) -> None:
        self._op, self._text = op, text
        self._inputs: dict[str, None] = {}
        self._numbers: list[float] = []
        self._depth = 0

    def parsed(self) -> Expression:
        if not isinstance(self._text, str):
            raise ArgumentError(f"[{self._op}] the expression must be a str but is {self._text!r}")
        if len(self._text) > MAX_TEXT:
            raise ArgumentError(
                f"[{self._op}] the expression has {len(self._text)} characters, at most {MAX_TEXT} "
                "are taken"
            )
        try:
            tree = ast.parse(self._text.strip(), mode="eval")
        except SyntaxError as e:
            self._fail(e.msg, (e.lineno or 1, (e.offset or 1) - 1))
        except (ValueError, RecursionError, MemoryError) as e:
            # the text has NUL bytes, or is nested too deeply
            raise ArgumentError(f"[{self._op}] the expression cannot be parsed: {e}") from None
        root = self._node(tree.body)
        return Expression(root, tuple(self._inputs), tuple(self._numbers))

    def _fail(self, message: str, at: tuple[int, int]) -> NoReturn:
        lines = self._text.strip().splitlines() or [""]
        line = lines[min(at[0], len(lines)) - 1]
        before = line.encode()[: at[1]].decode(errors="ignore")
        raise ArgumentError(f"[{self._op}] {message}:\n    {line}\n    {' ' * len(before)}^")

    def _wrong(self, node: ast.AST, message: str) -> NoReturn:
        self._fail(message, (getattr(node, "lineno", 1), getattr(node, "col_offset", 0)))

    def _node(self, node: ast.expr) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._wrong(node, f"more than {MAX_DEPTH} levels of operations in each other")
        found = self._one(node)
        self._depth -= 1
        return found

    def _one(self, node: ast.expr) -> Node:
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Constant):
            return self._number(node, node.value)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return self._apply(node, _OPERATORS[type(node.op)], [node.left, node.right])
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.BoolOp):
            self._check_row(node, len(node.values))
            found = self._node(node.values[0])
            for value in node.values[1:]:
                found = self._call(node, _OPERATORS[type(node.op)], (found, self._node(value)))
            return found
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            return self._apply(node, "where", [node.test, node.body, node.orelse])
        if isinstance(node, ast.Call):
            return self._function(node)
        self._wrong(node, f"{type(node).__name__} is not part of the language")

    def _name(self, node: ast.Name) -> Node:
        if node.id in _CONSTANTS:
            return self._number(node, _CONSTANTS[node.id])
        if node.id in named() or node.id in CASTS:
            self._wrong(node, f"{node.id} is a function")
        self._inputs[node.id] = None
        return Input(node.id)

    def _number(self, node: ast.expr, value: object) -> Node:
        if not isinstance(value, (bool, int, float)):
            self._wrong(node, f"{value!r} is no number")
        self._numbers.append(value)
        return Number(len(self._numbers) - 1, type(value))

    def _unary(self, node: ast.UnaryOp) -> Node:
        value = node.operand
        if isinstance(node.op, ast.UAdd):
            return self._node(value)
        number = value.value if isinstance(value, ast.Constant) else None
        if isinstance(node.op, ast.USub) and type(number) in (int, float):
            return self._number(node, -number)  # type: ignore[operator]
        return self._apply(node, _OPERATORS[type(node.op)], [value])

    def _check_row(self, node: ast.expr, count: int) -> None:
        """ArgumentError if there are too many operations in a row. Chains of comparisons count,
        too, because they become nested operations: x < y < z is (x < y) and (y < z)."""
        if count > MAX_DEPTH:
            self._wrong(node, f"more than {MAX_DEPTH} operations in a row")

    def _compare(self, node: ast.Compare) -> Node:
        self._check_row(node, len(node.ops))
        sides = [self._node(side) for side in (node.left, *node.comparators)]
        found: Node | None = None
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if type(op) not in _OPERATORS:
                self._wrong(node, f"{type(op).__name__} is not part of the language")
            one = self._call(node, _OPERATORS[type(op)], (left, right))
            found = one if found is None else self._call(node, "logical_and", (found, one))
        assert found is not None
        return found

    def _function(self, node: ast.Call) -> Node:
        if not isinstance(node.func, ast.Name):
            self._wrong(node, "only functions by their names can be called")
        name = node.func.id
        if name in CASTS:
            if len(node.args) != 1 or node.keywords:
                self._wrong(node, f"{name} takes one argument")
            return Call(name, (self._node(node.args[0]),))
        if name not in named():
            self._wrong(node, f"there is no function {name!r}")
        return self._apply(node, named()[name], node.args, node.keywords)

    def _apply(
        self, node: ast.expr, name: str, args: Sequence[ast.expr],
        keywords: Sequence[ast.keyword] = (),
    ) -> Node:  # fmt: skip
        """The node of an operation; its numbers are given by position or by name."""
        if name not in OPS:
            self._wrong(node, f"there is no function {name!r}")
        op = OPS[name]
        count = len(op.inputs)
        if not count <= len(args) <= count + len(op.params):
            takes = f"takes {count} argument{'s' * (count > 1)}"
            more = f" and up to {len(op.params)} numbers" if op.params else ""
            self._wrong(node, f"{name} {takes}{more} but got {len(args)}")
        given: dict[str, ast.expr] = dict(zip(op.params, args[count:], strict=False))
        for keyword in keywords:
            if keyword.arg is None or keyword.arg not in op.params or keyword.arg in given:
                self._wrong(node, f"{name} has no number {keyword.arg!r} to be given here")
            given[keyword.arg] = keyword.value
        params = []
        for key, default in op.params.items():
            value = self._node(given[key]) if key in given else self._number(node, default)
            if isinstance(value, Call):
                self._wrong(given[key], f"{key} of {name} must be a number, not an expression")
            params.append(value)
        return self._call(node, name, tuple([self._node(a) for a in args[:count]]), tuple(params))

    def _call(
        self, node: ast.expr, name: str, args: tuple[Node, ...], params: tuple[Node, ...] = ()
    ) -> Node:
        if name not in OPS:
            self._wrong(node, f"there is no function {name!r}")
        return Call(name, args, params)
