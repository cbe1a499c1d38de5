"""Reads Python's expressions, and the targets of assignments, as trees for other languages.

A node is a list: its kind, then its parts, which JSON can hold.

    ["const", value]  ["none"] (a name that only types use)  ["local", name]
    ["py", name] (of the runtime: "cdiv", "math")  ["body", name]  ["configs", body]
    ["plan", module, name or None]  ["table", pairs]
    ["attr", of, name]  ["at", of, index]  ["cut", of, from, to, step]
    ["call", function, arguments, named]  ["method", of, name, arguments, named]
    ["bin", operator, left, right]  ["neg", of]  ["not", of]  ["invert", of]
    ["and", nodes]  ["or", nodes]  ["compare", left, [[operator, right], ...]]  ["if", test, a, b]
    ["list", nodes]  ["tuple", nodes]  ["set", nodes]  ["dict", [[key or None, value], ...]]
    ["def", marks, defaults, locals, statements, is a generator]  ["text", nodes]
    ["walrus", name, value]  ["yield", value]  ["yieldfrom", value]
    ["comp", kind, names, [[target, iterable, tests], ...], element]
    ["star", of] among arguments and elements

A target is ["to", local node], ["parts", targets], ["star", target] or ["item", of, index].
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

__all__ = ["BINARY", "BUILTINS", "MODULES", "OF_STEPS", "Expressions", "Node", "NotTranslated",
           "spec_expression"]  # fmt: skip

Node: TypeAlias = list[Any]

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "modulo", ast.Pow: "pow", ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "and_",
    ast.BitOr: "or_",
}  # fmt: skip
BUILTINS = {
    "abs", "all", "any", "dict", "enumerate", "int", "float", "isinstance", "len", "list", "map",
    "max", "min", "next", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum",
    "tuple", "zip", "bool", "id", "divmod", "frozenset", "filter",
}  # fmt: skip
_GENERIC = {"dict", "frozenset", "list", "set", "tuple"}
# Functions, besides built-ins, that the `step` expressions of a spec may call. The other functions
# of `wgsl.expr` are for expressions that count bytes and operations.
OF_STEPS = {"cdiv", "dtype"}
# The parts of Python's modules that the runtimes of the other languages define.
MODULES = {
    "math": {"ceil", "floor", "gcd", "inf", "isqrt", "lcm", "log2", "nan", "prod", "sqrt"},
    "operator": {"index"},
    "itertools": {"chain", "pairwise", "product"},
    "dataclasses": {"dataclass", "replace"},
}


class NotTranslated(Exception):
    """An unknown construct, with its file and line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.file, self.line = "", 0

    def at(self, line: int, file: str = "") -> None:
        """Set file and line, unless they are known already."""
        self.line, self.file = self.line or line, self.file or file

    def __str__(self) -> str:
        message = super().__str__()
        return f"{self.file}:{self.line}: {message}" if self.file else message


def spec_expression(text: str) -> Node:
    """The tree of a spec's expression; `wgsl.expr.check` has already checked its names."""
    tree = ast.parse(text, mode="eval").body
    values = Expressions("a spec")
    values.globals = {name: ["py", name] for name in OF_STEPS}
    called = {n.func for n in ast.walk(tree) if isinstance(n, ast.Call)}
    values.scopes = [{n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n not in called}]
    return values.value(tree)


class Expressions:
    """Reads the values and the targets of one module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.globals: dict[str, Node] = {}
        self.scopes: list[set[str]] = []

    def refuse(self, node: ast.AST) -> NotTranslated:
        return NotTranslated(f"{self.name}: {ast.unparse(node)}")

    # -- values -----------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Node:
        method = getattr(self, f"e_{type(node).__name__}", None)
        try:
            if method is None:
                raise self.refuse(node)
            found: Node = method(node)
            return found
        except NotTranslated as e:
            e.at(node.lineno)
            raise

    def values(self, nodes: Iterable[ast.expr]) -> list[Node]:
        return [self.value(n) for n in nodes]

    def name_of(self, name: str) -> Node:
        if any(name in scope for scope in self.scopes):
            return ["local", name]
        if name in self.globals:
            return self.globals[name]
        if name in BUILTINS:
            return ["py", name]
        raise NotTranslated(f"{self.name}: name {name}")

    def e_Name(self, node: ast.Name) -> Node:
        return self.name_of(node.id)

    def e_Constant(self, node: ast.Constant) -> Node:
        if node.value is not None and not isinstance(node.value, str | int | float | bool):
            raise NotTranslated(f"{self.name}: {node.value!r}")
        return ["const", node.value]

    def e_Attribute(self, node: ast.Attribute) -> Node:
        of = self.owner(node)
        if of[0] == "body" and node.attr == "CONFIGS":
            return ["configs", of[1]]
        return ["attr", of, node.attr]

    def owner(self, node: ast.Attribute) -> Node:
        """The value before the dot; NotTranslated for a part of Python's modules that the runtimes
        lack."""
        of = self.value(node.value)
        module = of[1] if of[0] == "py" else ""
        if module in MODULES and node.attr not in MODULES[module]:
            raise NotTranslated(f"{self.name}: {module}.{node.attr}")
        return of

    def e_Subscript(self, node: ast.Subscript) -> Node:
        of, s = self.value(node.value), node.slice
        if isinstance(s, ast.Slice):
            return ["cut", of, *(self.value(x) if x else None for x in (s.lower, s.upper, s.step))]
        return ["at", of, self.value(s)]

    def e_Call(self, node: ast.Call) -> Node:
        args = self.values(node.args)
        named = [[k.arg, self.value(k.value)] for k in node.keywords]
        called = node.func
        if isinstance(called, ast.Subscript) and isinstance(called.value, ast.Name):
            if called.value.id not in _GENERIC:
                raise self.refuse(node)
            called = called.value  # list[int]() means list()
        if isinstance(called, ast.Attribute):
            return ["method", self.owner(called), called.attr, args, named]
        return ["call", self.value(called), args, named]

    def e_Starred(self, node: ast.Starred) -> Node:
        return ["star", self.value(node.value)]

    def e_BinOp(self, node: ast.BinOp) -> Node:
        if type(node.op) not in BINARY:
            raise self.refuse(node)
        return ["bin", BINARY[type(node.op)], self.value(node.left), self.value(node.right)]

    def e_UnaryOp(self, node: ast.UnaryOp) -> Node:
        kinds: dict[type[ast.unaryop], str] = {
            ast.Not: "not", ast.USub: "neg", ast.Invert: "invert"
        }  # fmt: skip
        if type(node.op) not in kinds:
            raise self.refuse(node)
        return [kinds[type(node.op)], self.value(node.operand)]

    def e_BoolOp(self, node: ast.BoolOp) -> Node:
        return ["and" if isinstance(node.op, ast.And) else "or", self.values(node.values)]

    def e_Compare(self, node: ast.Compare) -> Node:
        rest = zip(node.ops, node.comparators, strict=True)
        return [
            "compare", self.value(node.left), [[type(op).__name__, self.value(x)] for op, x in rest]
        ]  # fmt: skip

    def e_IfExp(self, node: ast.IfExp) -> Node:
        return ["if", *self.values((node.test, node.body, node.orelse))]

    def e_Tuple(self, node: ast.Tuple) -> Node:
        return ["tuple", self.values(node.elts)]

    def e_List(self, node: ast.List) -> Node:
        return ["list", self.values(node.elts)]

    def e_Set(self, node: ast.Set) -> Node:
        return ["set", self.values(node.elts)]

    def e_Dict(self, node: ast.Dict) -> Node:
        pairs = zip(node.keys, node.values, strict=True)
        return ["dict", [[self.value(k) if k else None, self.value(v)] for k, v in pairs]]

    def e_Lambda(self, node: ast.Lambda) -> Node:
        walrus = [n.target.id for n in ast.walk(node.body) if isinstance(n, ast.NamedExpr)]
        return self.define(node.args, walrus, lambda: [["return", self.value(node.body)]])

    def define(
        self, a: ast.arguments, assigned: Iterable[str], body: Callable[[], list[Node]],
        generator: bool = False,
    ) -> Node:  # fmt: skip
        """A function. `body` returns its statements; it is called when the names are known."""
        if a.posonlyargs:
            raise NotTranslated(f"{self.name}: positional-only arguments")
        plain = [x.arg for x in (*a.args, *a.kwonlyargs)]
        defaults = dict(
            zip([x.arg for x in a.args][len(a.args) - len(a.defaults) :], a.defaults, strict=True)
        )
        for x, d in zip(a.kwonlyargs, a.kw_defaults, strict=True):
            if d is not None:
                defaults[x.arg] = d
        given = [[n, self.value(d)] for n, d in defaults.items()]
        extra = [x.arg for x in (a.vararg, a.kwarg) if x]
        marks = {
            "names": plain, "positional": len(a.args),
            "rest": a.vararg.arg if a.vararg else None,
            "named": a.kwarg.arg if a.kwarg else None,
        }  # fmt: skip
        local = set(assigned) - {*plain, *extra}
        self.scopes.append({*plain, *extra, *local})
        statements = body()
        self.scopes.pop()
        return ["def", marks, given, sorted(local), statements, generator]

    def e_JoinedStr(self, node: ast.JoinedStr) -> Node:
        return ["text", self.values(node.values)]

    def e_FormattedValue(self, node: ast.FormattedValue) -> Node:
        return ["call", ["py", "str"], [self.value(node.value)], []]

    def e_NamedExpr(self, node: ast.NamedExpr) -> Node:
        return ["walrus", self.name_of(node.target.id), self.value(node.value)]

    def e_Yield(self, node: ast.Yield) -> Node:
        return ["yield", self.value(node.value) if node.value else ["const", None]]

    def e_YieldFrom(self, node: ast.YieldFrom) -> Node:
        return ["yieldfrom", self.value(node.value)]

    def e_ListComp(self, node: ast.ListComp) -> Node:
        return self.loop("list", node.generators, node.elt)

    def e_GeneratorExp(self, node: ast.GeneratorExp) -> Node:
        return self.loop("generator", node.generators, node.elt)

    def e_SetComp(self, node: ast.SetComp) -> Node:
        return self.loop("set", node.generators, node.elt)

    def e_DictComp(self, node: ast.DictComp) -> Node:
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return self.loop("dict", node.generators, pair)

    def loop(self, kind: str, generators: list[ast.comprehension], element: ast.expr) -> Node:
        """A comprehension; its first iterable is outside the scope of its names, as in Python."""
        first = self.value(generators[0].iter)
        names = {n for g in generators for n in _names(g.target)}
        self.scopes.append(names)
        each = [
            [self.target(g.target), self.value(g.iter) if i else first, self.values(g.ifs)]
            for i, g in enumerate(generators)
        ]
        made = ["comp", kind, sorted(names), each, self.value(element)]
        self.scopes.pop()
        return made

    # -- targets ----------------------------------------------------------------------------------

    def target(self, node: ast.expr) -> Node:
        if isinstance(node, ast.Name):
            return ["to", self.name_of(node.id)]
        if isinstance(node, ast.Tuple | ast.List):
            return ["parts", [self.target(n) for n in node.elts]]
        if isinstance(node, ast.Starred):
            return ["star", self.target(node.value)]
        if isinstance(node, ast.Subscript):
            return ["item", self.value(node.value), self.value(node.slice)]
        raise self.refuse(node)


def _names(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
