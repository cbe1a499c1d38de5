"""Translates Python's expressions, and the targets of assignments, into JavaScript.

Expressions of specs (`expression`, which the build calls) and of plans become calls of `py`, which
keeps Python's meaning of operators on numbers, texts and tuples.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable

__all__ = ["BINARY", "MODULES", "Expressions", "NotTranslated", "expression", "safe"]

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "modulo", ast.Pow: "pow", ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "and_",
    ast.BitOr: "or_",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "py.same({0}, {1})", ast.NotEq: "!py.same({0}, {1})", ast.Lt: "py.less({0}, {1})",
    ast.LtE: "!py.less({1}, {0})", ast.Gt: "py.less({1}, {0})", ast.GtE: "!py.less({0}, {1})",
    ast.In: "py.has({1}, {0})", ast.NotIn: "!py.has({1}, {0})", ast.Is: "{0} === {1}",
    ast.IsNot: "{0} !== {1}",
}  # fmt: skip
_BUILTINS = {
    "abs", "all", "any", "dict", "enumerate", "int", "float", "isinstance", "len", "list", "map",
    "max", "min", "next", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum",
    "tuple", "zip", "bool", "id", "divmod", "frozenset", "filter",
}  # fmt: skip
_GENERIC = {"dict", "frozenset", "list", "set", "tuple"}
# Methods of views and index spaces; module/1_views.js defines methods of the same names.
_FLAGS = {"aligned", "columns_apart", "repeats", "vec", "vectorizable"}
_OF_VIEWS = {*_FLAGS, "as_rank", "broadcast_to", "with_layout"}
# Functions, besides built-ins, that spec expressions call in `step`; others only count work.
_OF_STEPS = {"cdiv", "dtype"}
# Functions of JavaScript, which take their arguments by position.
_DIRECT = {f"py.{name}" for name in _BUILTINS | _OF_STEPS}
_OF_TWO = {"py.max": "py.largest", "py.min": "py.smallest"}  # for operands without keywords
# The parts of Python's modules that module/5_python.js defines.
MODULES = {
    "math": {"ceil", "floor", "gcd", "inf", "isqrt", "lcm", "log2", "nan", "prod", "sqrt"},
    "operator": {"index"},
    "itertools": {"chain", "pairwise", "product"},
    "dataclasses": {"dataclass", "replace"},
}
# Names that Python allows but JavaScript reserves, and names that the module itself uses.
_RESERVED = {
    "arguments", "case", "catch", "const", "debugger", "default", "delete", "do", "enum", "eval",
    "export", "extends", "function", "implements", "instanceof", "interface", "let", "new", "null",
    "package", "private", "protected", "public", "static", "super", "switch", "this", "throw",
    "typeof", "var", "void",
    "py", "plans", "bodies", "kernels", "item_", "first_", "parts_",
}  # fmt: skip


def safe(name: str) -> str:
    """A Python name as a JavaScript name."""
    return f"{name}_" if name in _RESERVED else name


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


def expression(text: str, *, test: bool = False) -> str:
    """JavaScript for the value of a spec's expression, or with `test` for its truth. The names are
    known (`wgsl.expr.check`)."""
    tree = ast.parse(text, mode="eval").body
    values = Expressions("a spec")
    values.globals = {name: f"py.{name}" for name in _OF_STEPS}
    called = {n.func for n in ast.walk(tree) if isinstance(n, ast.Call)}
    values.scopes = [{n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n not in called}]
    return values.test(tree) if test else values.value(tree)


class Expressions:
    """Values and targets of one module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.globals: dict[str, str] = {}  # name: JavaScript
        self.scopes: list[set[str]] = []

    # -- values -----------------------------------------------------------------------------------

    def test(self, node: ast.expr) -> str:
        """JavaScript for the truth of a value."""
        if _is_plain(node):
            return self.value(node)
        if isinstance(node, ast.BoolOp):
            return f"({_word(node).join(map(self.test, node.values))})"
        return f"py.truth({self.value(node)})"

    def value(self, node: ast.expr) -> str:
        method = getattr(self, f"e_{type(node).__name__}", None)
        try:
            if method is None:
                raise NotTranslated(f"{self.name}: {ast.unparse(node)}")
            return str(method(node))
        except NotTranslated as e:
            e.at(node.lineno)
            raise

    def name_of(self, name: str) -> str:
        if any(name in scope for scope in self.scopes):
            return safe(name)
        if name in self.globals:
            return self.globals[name]
        if name in _BUILTINS:
            return f"py.{name}"
        raise NotTranslated(f"{self.name}: name {name}")

    def e_Name(self, node: ast.Name) -> str:
        return self.name_of(node.id)

    def e_Constant(self, node: ast.Constant) -> str:
        if node.value is None:
            return "null"
        if not isinstance(node.value, str | int | float | bool):
            raise NotTranslated(f"{self.name}: {node.value!r}")
        return json.dumps(node.value)

    def e_Attribute(self, node: ast.Attribute) -> str:
        self.known(node)
        of = self.value(node.value)
        if of.startswith("bodies.") and node.attr == "CONFIGS":
            return f"py.configs({of})"
        return f"{of}.{node.attr}"

    def known(self, node: ast.Attribute) -> None:
        """Raise NotTranslated for a function of Python's modules that 5_python.js lacks."""
        module = self.value(node.value).removeprefix("py.")
        if module in MODULES and node.attr not in MODULES[module]:
            raise NotTranslated(f"{self.name}: {module}.{node.attr}")

    def e_Subscript(self, node: ast.Subscript) -> str:
        s = node.slice
        if isinstance(s, ast.Slice):
            parts = (self.value(x) if x else "null" for x in (s.lower, s.upper, s.step))
            return f"py.cut({self.value(node.value)}, {', '.join(parts)})"
        return f"py.at({self.value(node.value)}, {self.value(s)})"

    def e_Call(self, node: ast.Call) -> str:
        args = f"[{', '.join(self.spread(a) for a in node.args)}]"
        named = ", ".join(
            f"{k.arg}: {self.value(k.value)}" if k.arg else f"...py.keywords({self.value(k.value)})"
            for k in node.keywords
        )
        called = node.func
        if isinstance(called, ast.Subscript) and isinstance(called.value, ast.Name):
            if called.value.id not in _GENERIC:
                raise NotTranslated(f"{self.name}: {ast.unparse(node)}")
            called = called.value  # list[int]() is list()
        if isinstance(called, ast.Attribute):
            self.known(called)
            of = self.value(called.value)
            if called.attr in _OF_VIEWS and not named and not of.startswith("plans."):
                return f"{of}.{called.attr}({args[1:-1]})"
            return f"py.method({of}, {json.dumps(called.attr)}, {args}, {{ {named} }})"
        function = self.value(called)
        if not named and function in _OF_TWO and len(node.args) > 1 and "..." not in args:
            return f"{_OF_TWO[function]}({args[1:-1]})"
        if not named and function in _DIRECT:
            return f"{function}({args[1:-1]})"
        return f"py.call({function}, {args}, {{ {named} }})"

    def spread(self, node: ast.expr) -> str:
        if isinstance(node, ast.Starred):
            return f"...py.iter({self.value(node.value)})"
        return self.value(node)

    def e_BinOp(self, node: ast.BinOp) -> str:
        if type(node.op) not in BINARY:
            raise NotTranslated(f"{self.name}: {ast.unparse(node)}")
        return f"py.{BINARY[type(node.op)]}({self.value(node.left)}, {self.value(node.right)})"

    def e_UnaryOp(self, node: ast.UnaryOp) -> str:
        if isinstance(node.op, ast.Not):
            return f"!{self.test(node.operand)}"
        inner = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            return f"-{inner}" if isinstance(node.operand, ast.Constant) else f"-({inner})"
        if isinstance(node.op, ast.Invert):
            return f"(-({inner}) - 1)"
        raise NotTranslated(f"{self.name}: {ast.unparse(node)}")

    def e_BoolOp(self, node: ast.BoolOp) -> str:
        if all(map(_is_plain, node.values[:-1])):
            return f"({_word(node).join(map(self.value, node.values))})"
        name = "all_of" if isinstance(node.op, ast.And) else "one_of"
        return f"py.{name}({', '.join(f'() => {self._returned(v)}' for v in node.values)})"

    def _returned(self, node: ast.expr) -> str:
        text = self.value(node)
        return f"({text})" if text.startswith("{") else text

    def e_Compare(self, node: ast.Compare) -> str:
        sides = [node.left, *node.comparators]
        parts = [
            _compare(op, b).format(self.value(a), self.value(b))
            for a, op, b in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return f"({' && '.join(parts)})"

    def e_IfExp(self, node: ast.IfExp) -> str:
        parts = (self.value(x) for x in (node.body, node.orelse))
        return f"({self.test(node.test)} ? {' : '.join(parts)})"

    def e_Tuple(self, node: ast.Tuple) -> str:
        return f"[{', '.join(map(self.spread, node.elts))}]"

    def e_List(self, node: ast.List) -> str:
        return f"[{', '.join(map(self.spread, node.elts))}]"

    def e_Set(self, node: ast.Set) -> str:
        return f"py.set([{', '.join(map(self.spread, node.elts))}])"

    def e_Dict(self, node: ast.Dict) -> str:
        parts = [
            f"[{self.value(k)}, {self.value(v)}]" if k else f"...py.items({self.value(v)})"
            for k, v in zip(node.keys, node.values, strict=True)
        ]
        return f"new py.Dict([{', '.join(parts)}])"

    def e_Lambda(self, node: ast.Lambda) -> str:
        walrus = [n.target.id for n in ast.walk(node.body) if isinstance(n, ast.NamedExpr)]
        return self.define(node.args, walrus, lambda: [f"  return {self.value(node.body)};"])

    def define(
        self, a: ast.arguments, assigned: Iterable[str], body: Callable[[], list[str]],
        star: str = "",
    ) -> str:  # fmt: skip
        """A function; `body` returns its lines and is called when its names are known."""
        if a.posonlyargs:
            raise NotTranslated(f"{self.name}: positional-only arguments")
        plain = [x.arg for x in (*a.args, *a.kwonlyargs)]
        defaults = dict(
            zip([x.arg for x in a.args][len(a.args) - len(a.defaults) :], a.defaults, strict=True)
        )
        for x, d in zip(a.kwonlyargs, a.kw_defaults, strict=True):
            if d is not None:
                defaults[x.arg] = d
        given = ", ".join(f"{n}: () => {self.value(d)}" for n, d in defaults.items())
        extra = [x.arg for x in (a.vararg, a.kwarg) if x]
        marks = json.dumps(
            {
                "names": plain, "positional": len(a.args),
                "rest": a.vararg.arg if a.vararg else None,
                "named": a.kwarg.arg if a.kwarg else None,
            }
        )  # fmt: skip
        params = ", ".join(map(safe, [*plain, *extra]))
        local = set(assigned) - {*plain, *extra}
        self.scopes.append({*plain, *extra, *local})
        lines = [f"  let {', '.join(sorted(map(safe, local)))};"] if local else []
        text = "\n".join([*lines, *body()])
        self.scopes.pop()
        return f"py.def({marks}, {{ {given} }}, function{star} ({params}) {{\n{text}\n}})"

    def e_JoinedStr(self, node: ast.JoinedStr) -> str:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                parts.append(f"py.str({self.value(part.value)})")
            else:
                parts.append(self.value(part))
        return f"[{', '.join(parts)}].join('')"

    def e_NamedExpr(self, node: ast.NamedExpr) -> str:
        return f"({self.name_of(node.target.id)} = {self.value(node.value)})"

    def e_Yield(self, node: ast.Yield) -> str:
        return f"(yield {self.value(node.value) if node.value else 'null'})"

    def e_YieldFrom(self, node: ast.YieldFrom) -> str:
        return f"(yield* py.iter({self.value(node.value)}))"

    def e_ListComp(self, node: ast.ListComp) -> str:
        return f"[...{self.loop(node.generators, node.elt)}]"

    def e_GeneratorExp(self, node: ast.GeneratorExp) -> str:
        return self.loop(node.generators, node.elt)

    def e_SetComp(self, node: ast.SetComp) -> str:
        return f"py.set({self.loop(node.generators, node.elt)})"

    def e_DictComp(self, node: ast.DictComp) -> str:
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return f"new py.Dict({self.loop(node.generators, pair)})"

    def loop(self, generators: list[ast.comprehension], element: ast.expr) -> str:
        """A generator; the first iterable is evaluated at once, as in Python."""
        first = self.value(generators[0].iter)
        names = {n for g in generators for n in _names(g.target)}
        self.scopes.append(names)
        lines = [f"yield {self.value(element)};"]
        for i, g in reversed(list(enumerate(generators))):
            for test in reversed(g.ifs):
                lines = [f"if ({self.test(test)}) {{", *lines, "}"]
            source = "first_" if i == 0 else f"py.iter({self.value(g.iter)})"
            lines = [
                f"for (const item_ of {source}) {{",
                self.assign(g.target, "item_"),
                *lines,
                "}",
            ]
        self.scopes.pop()
        declared = f"let {', '.join(sorted(map(safe, names)))};"
        return f"(function* (first_) {{ {declared} {' '.join(lines)} }})(py.iter({first}))"

    # -- targets ----------------------------------------------------------------------------------

    def assign(self, target: ast.expr, value: str) -> str:
        if isinstance(target, ast.Name):
            return f"{self.name_of(target.id)} = {value};"
        if isinstance(target, ast.Tuple | ast.List):
            unpacked = f"py.unpack({value}, {self.shape(target)})"
            if not any(isinstance(n, ast.Subscript) for n in target.elts):
                return f"{self.pattern(target)} = {unpacked};"
            each = (self.assign(n, f"parts_[{i}]") for i, n in enumerate(target.elts))
            return f"{{ const parts_ = {unpacked}; {' '.join(each)} }}"
        if isinstance(target, ast.Subscript):
            place = f"{self.value(target.value)}, {self.value(target.slice)}"
            return f"py.put({place}, {value});"
        raise NotTranslated(f"{self.name}: {ast.unparse(target)}")

    def pattern(self, target: ast.expr) -> str:
        """A target as an array pattern; nested ones are unpacked by `shape` beforehand."""
        if isinstance(target, ast.Name):
            return self.name_of(target.id)
        if isinstance(target, ast.Starred):
            return self.pattern(target.value)
        if isinstance(target, ast.Tuple | ast.List):
            return f"[{', '.join(map(self.pattern, target.elts))}]"
        raise NotTranslated(f"{self.name}: {ast.unparse(target)}")

    def shape(self, target: ast.expr) -> str:
        """The parts of a value: numbers for names, "*" for a starred name, lists inside."""
        if isinstance(target, ast.Starred):
            return '"*"'
        if isinstance(target, ast.Tuple | ast.List):
            return f"[{', '.join(map(self.shape, target.elts))}]"
        return "1"


def _names(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


def _word(node: ast.BoolOp) -> str:
    return " && " if isinstance(node.op, ast.And) else " || "


def _is_plain(node: ast.expr) -> bool:
    """True if JavaScript and Python agree on the truth of a value. They differ for empty lists."""
    if isinstance(node, ast.BoolOp):
        return all(map(_is_plain, node.values))
    if isinstance(node, ast.Call):
        named = node.func
        return isinstance(named, ast.Attribute) and named.attr in _FLAGS
    return isinstance(node, ast.Compare) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _compare(op: ast.cmpop, right: ast.expr) -> str:
    """A comparison. Equality with a text, a number or None is identity in JavaScript."""
    if isinstance(right, ast.Constant):
        op = {ast.Eq: ast.Is, ast.NotEq: ast.IsNot}.get(type(op), type(op))()
    return _COMPARE[type(op)]
