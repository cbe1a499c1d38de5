"""Translates plan modules (pure functions over integers, tuples and views) into JavaScript.

Python's meaning is kept by small functions of pykernels/export/module/5_python.js: `call` binds
positional and keyword arguments, `truth`, `same`, `add` and others work as in Python on arrays.
What is not translated raises `NotTranslated`: the kernel's plans are recorded then.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

__all__ = ["NotTranslated", "translate"]

_BINARY: dict[type[ast.operator], str] = {
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
# What module/5_python.js has of Python's modules, and of ours.
_MODULES = {
    "math": {"ceil", "floor", "gcd", "inf", "isqrt", "lcm", "log2", "prod", "sqrt"},
    "operator": {"index"},
    "itertools": {"chain", "pairwise", "product"},
    "dataclasses": {"dataclass", "replace"},
}
_OWN = {
    "Caps", "DType", "DTypeName", "DTYPES", "Ints", "Nd", "Rows", "Scratch", "Step", "Tiles",
    "View", "Watch", "cdiv", "contiguous_strides", "dtype", "extent", "merge_axes",
}  # fmt: skip
_OURS = ("pykernels.layout", "pykernels.plan", "pykernels.dtypes", "pykernels.faults")
_TYPES_ONLY = ("collections.abc", "__future__", "typing")


class NotTranslated(Exception):
    """A construct that this module does not know."""


def translate(name: str, folder: Path, done: dict[str, str]) -> None:
    """Add the module `name` of a folder of plans, after those that it imports, to `done`."""
    if name in done:
        return
    path = folder / f"{name}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    writer = _Writer(name)
    for other in writer.imports(tree):
        if not (folder / f"{other}.py").is_file():
            raise NotTranslated(f"{name} imports {other}")
        translate(other, folder, done)
    done[name] = writer.module(tree)


class _Writer:
    """One module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.globals: dict[str, str] = {}  # name: JavaScript
        self.scopes: list[set[str]] = []

    # -- modules ----------------------------------------------------------------------------------

    def imports(self, tree: ast.Module) -> Iterator[str]:
        """Plan modules that this one imports; fills in what imported names stand for."""
        for node in tree.body:
            if isinstance(node, ast.Import):
                for a in node.names:
                    if a.name not in _MODULES:
                        raise NotTranslated(f"import {a.name}")
                    self.globals[a.asname or a.name] = f"py.{a.name}"
            elif isinstance(node, ast.ImportFrom):
                yield from self._from(node)

    def _from(self, node: ast.ImportFrom) -> Iterator[str]:
        source = node.module or ""
        for a in node.names:
            name = a.asname or a.name
            if (node.level == 1 and not source) or source == "pykernels.plans":
                yield a.name
                self.globals[name] = f"plans.{a.name}"
            elif node.level == 1 or source.startswith("pykernels.plans."):
                module = source.rpartition(".")[2]
                yield module
                self.globals[name] = f"plans.{module}.{a.name}"
            elif source == "pykernels._generated.bodies":
                self.globals[name] = f"bodies.{a.name}"
            elif source == "pykernels.errors":
                self.globals[name] = "py.Failure"
            elif source in _OURS and a.name in _OWN:
                self.globals[name] = f"py.{a.name}"
            elif source in _TYPES_ONLY:
                self.globals[name] = "null"
            elif a.name in _MODULES.get(source, ()):
                self.globals[name] = f"py.{source}.{a.name}"
            else:
                raise NotTranslated(f"from {source} import {a.name}")

    def module(self, tree: ast.Module) -> str:
        body = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom)]
        names = [n for n in _assigned(body) if not n.startswith("__")]
        self.globals |= {n: _safe(n) for n in names}
        kept = [
            n for n in body
            if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
            and not (isinstance(n, ast.Assign) and _target_name(n) == "__all__")
            and not isinstance(n, ast.AnnAssign)
        ]  # fmt: skip
        types = [n for n in kept if _is_type(n)]
        lines = [line for n in kept if n not in types for line in self.statement(n)]
        known = [n for n in names if n not in {_target_name(t) for t in types}]
        inner = "\n".join(f"  {line}" for line in [f"let {', '.join(map(_safe, known))};", *lines])
        out = ", ".join(n if _safe(n) == n else f"{n}: {_safe(n)}" for n in known)
        return f"plans.{self.name} = (() => {{\n{inner}\n  return {{ {out} }};\n}})();\n"

    # -- statements -------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> list[str]:
        return ["  " + line for node in body for line in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[str]:
        name = f"_{type(node).__name__}"
        method = getattr(self, name, None)
        if method is None:
            raise NotTranslated(f"{self.name}: {type(node).__name__}")
        return list(method(node))

    def _FunctionDef(self, node: ast.FunctionDef) -> Iterator[str]:
        if node.decorator_list:
            raise NotTranslated(f"{self.name}: decorator of {node.name}")
        yield f"{_safe(node.name)} = {self.function(node)};"

    def function(self, node: ast.FunctionDef | ast.Lambda) -> str:
        a = node.args
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
        params = ", ".join(map(_safe, [*plain, *extra]))
        inner = ast.Return(node.body) if isinstance(node, ast.Lambda) else None
        body: list[ast.stmt] = [inner] if inner else node.body  # type: ignore[assignment]
        local = set(_assigned(body)) - {*plain, *extra}
        self.scopes.append({*plain, *extra, *local})
        star = "*" if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _own(body)) else ""
        lines = [f"  let {', '.join(sorted(map(_safe, local)))};"] if local else []
        lines += self.block([n for n in body if not _is_docstring(n)])
        self.scopes.pop()
        text = "\n".join(lines)
        return f"py.def({marks}, {{ {given} }}, function{star} ({params}) {{\n{text}\n}})"

    def _ClassDef(self, node: ast.ClassDef) -> Iterator[str]:
        bases = [ast.unparse(b) for b in node.bases]
        kind = "tuple" if bases == ["NamedTuple"] else "plain"
        dataclass = any("dataclass" in ast.unparse(d) for d in node.decorator_list)
        if kind == "plain" and (bases or not dataclass):
            raise NotTranslated(f"{self.name}: class {node.name}")
        fields, defaults, methods, getters, statics = [], [], [], [], []
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                fields.append(item.target.id)
                if item.value is not None:
                    defaults.append(f"{item.target.id}: () => {self.value(item.value)}")
            elif isinstance(item, ast.FunctionDef):
                marks = [ast.unparse(d) for d in item.decorator_list]
                entry = f"{item.name}: {self.function(item)}"
                if not marks:
                    methods.append(entry)
                elif marks == ["property"] or marks == ["functools.cached_property"]:
                    getters.append(entry)
                elif marks in (["staticmethod"], ["classmethod"]):
                    statics.append(entry)
                else:
                    raise NotTranslated(f"{self.name}: {marks} of {item.name}")
                if marks == ["classmethod"]:
                    methods.append(f"_class_{item.name}: true")
            elif not _is_docstring(item):
                raise NotTranslated(f"{self.name}: {ast.unparse(item)}")
        yield (
            f"{node.name} = py.type({json.dumps(node.name)}, {json.dumps(kind)}, "
            f"{json.dumps(fields)}, {{ {', '.join(defaults)} }}, {{ {', '.join(methods)} }}, "
            f"{{ {', '.join(getters)} }}, {{ {', '.join(statics)} }});"
        )

    def _Assign(self, node: ast.Assign) -> Iterator[str]:
        value = self.value(node.value)
        if len(node.targets) > 1:
            raise NotTranslated(f"{self.name}: {ast.unparse(node)}")
        yield self.assign(node.targets[0], value)

    def _AnnAssign(self, node: ast.AnnAssign) -> Iterator[str]:
        if node.value is not None:
            yield self.assign(node.target, self.value(node.value))

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
        """How many parts a value has: numbers for names, "*" for a starred one, lists within."""
        if isinstance(target, ast.Starred):
            return '"*"'
        if isinstance(target, ast.Tuple | ast.List):
            return f"[{', '.join(map(self.shape, target.elts))}]"
        return "1"

    def _AugAssign(self, node: ast.AugAssign) -> Iterator[str]:
        if type(node.op) not in _BINARY:
            raise NotTranslated(f"{self.name}: {ast.unparse(node)}")
        left, right = self.value(node.target), self.value(node.value)
        if isinstance(node.op, ast.Add):  # a list grows where it is
            yield self.assign(node.target, f"py.grow({left}, {right})")
        else:
            yield self.assign(node.target, f"py.{_BINARY[type(node.op)]}({left}, {right})")

    def _Return(self, node: ast.Return) -> Iterator[str]:
        yield f"return {self.value(node.value) if node.value else 'null'};"

    def _Expr(self, node: ast.Expr) -> Iterator[str]:
        yield f"{self.value(node.value)};"

    def _If(self, node: ast.If) -> Iterator[str]:
        yield f"if ({self.test(node.test)}) {{"
        yield from self.block(node.body)
        if node.orelse:
            yield "} else {"
            yield from self.block(node.orelse)
        yield "}"

    def _While(self, node: ast.While) -> Iterator[str]:
        if node.orelse:
            raise NotTranslated(f"{self.name}: while with else")
        yield f"while ({self.test(node.test)}) {{"
        yield from self.block(node.body)
        yield "}"

    def _For(self, node: ast.For) -> Iterator[str]:
        if node.orelse:
            raise NotTranslated(f"{self.name}: for with else")
        yield f"for (const item_ of py.iter({self.value(node.iter)})) {{"
        yield "  " + self.assign(node.target, "item_")
        yield from self.block(node.body)
        yield "}"

    def _Try(self, node: ast.Try) -> Iterator[str]:
        if len(node.handlers) != 1 or node.orelse or node.finalbody or node.handlers[0].name:
            raise NotTranslated(f"{self.name}: try")
        yield "try {"
        yield from self.block(node.body)
        yield "} catch {"
        yield from self.block(node.handlers[0].body)
        yield "}"

    def _Raise(self, node: ast.Raise) -> Iterator[str]:
        if node.exc is None:
            raise NotTranslated(f"{self.name}: raise")
        yield f"throw {self.value(node.exc)};"

    def _Pass(self, node: ast.Pass) -> Iterator[str]:
        yield from ()

    def _Break(self, node: ast.Break) -> Iterator[str]:
        yield "break;"

    def _Continue(self, node: ast.Continue) -> Iterator[str]:
        yield "continue;"

    def _Assert(self, node: ast.Assert) -> Iterator[str]:
        yield f"if (!({self.test(node.test)})) throw py.Failure('assertion');"

    # -- expressions ------------------------------------------------------------------------------

    def test(self, node: ast.expr) -> str:
        if isinstance(node, ast.Compare):
            return self.value(node)
        return f"py.truth({self.value(node)})"

    def value(self, node: ast.expr) -> str:
        method = getattr(self, f"e_{type(node).__name__}", None)
        if method is None:
            raise NotTranslated(f"{self.name}: {ast.unparse(node)}")
        return str(method(node))

    def name_of(self, name: str) -> str:
        if any(name in scope for scope in self.scopes):
            return _safe(name)
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
        return f"{self.value(node.value)}.{node.attr}"

    def known(self, node: ast.Attribute) -> None:
        """NotTranslated for what a module of Python's has, but 5_python.js has not."""
        module = self.value(node.value).removeprefix("py.")
        if module in _MODULES and node.attr not in _MODULES[module]:
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
        if isinstance(node.func, ast.Attribute):
            self.known(node.func)
            of = self.value(node.func.value)
            return f"py.method({of}, {json.dumps(node.func.attr)}, {args}, {{ {named} }})"
        return f"py.call({self.value(node.func)}, {args}, {{ {named} }})"

    def spread(self, node: ast.expr) -> str:
        if isinstance(node, ast.Starred):
            return f"...py.iter({self.value(node.value)})"
        return self.value(node)

    def e_BinOp(self, node: ast.BinOp) -> str:
        if type(node.op) not in _BINARY:
            raise NotTranslated(f"{self.name}: {ast.unparse(node)}")
        return f"py.{_BINARY[type(node.op)]}({self.value(node.left)}, {self.value(node.right)})"

    def e_UnaryOp(self, node: ast.UnaryOp) -> str:
        inner = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return f"!py.truth({inner})"
        if isinstance(node.op, ast.USub):
            return f"-({inner})"
        if isinstance(node.op, ast.Invert):
            return f"(-({inner}) - 1)"
        raise NotTranslated(f"{self.name}: {ast.unparse(node)}")

    def e_BoolOp(self, node: ast.BoolOp) -> str:
        name = "all_of" if isinstance(node.op, ast.And) else "one_of"
        return f"py.{name}({', '.join(f'() => {self._returned(v)}' for v in node.values)})"

    def _returned(self, node: ast.expr) -> str:
        text = self.value(node)
        return f"({text})" if text.startswith("{") else text

    def e_Compare(self, node: ast.Compare) -> str:
        sides = [node.left, *node.comparators]
        parts = [
            _COMPARE[type(op)].format(self.value(a), self.value(b))
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
        return f"py.call(py.set, [[{', '.join(map(self.spread, node.elts))}]], {{}})"

    def e_Dict(self, node: ast.Dict) -> str:
        parts = [
            f"[{self.value(k)}, {self.value(v)}]" if k else f"...py.items({self.value(v)})"
            for k, v in zip(node.keys, node.values, strict=True)
        ]
        return f"new py.Dict([{', '.join(parts)}])"

    def e_Lambda(self, node: ast.Lambda) -> str:
        return self.function(node)

    def e_JoinedStr(self, node: ast.JoinedStr) -> str:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                parts.append(f"py.call(py.str, [{self.value(part.value)}], {{}})")
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
        return f"py.call(py.set, [{self.loop(node.generators, node.elt)}], {{}})"

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
        declared = f"let {', '.join(sorted(map(_safe, names)))};"
        return f"(function* (first_) {{ {declared} {' '.join(lines)} }})(py.iter({first}))"


_RESERVED = {
    "arguments", "case", "catch", "const", "default", "delete", "do", "enum", "export", "extends",
    "function", "instanceof", "interface", "let", "new", "null", "package", "private", "protected",
    "public", "static", "super", "switch", "this", "throw", "typeof", "var", "void", "eval",
    "py", "plans", "bodies", "kernels", "item_", "first_", "parts_",
}  # fmt: skip


def _safe(name: str) -> str:
    return f"{name}_" if name in _RESERVED else name


def _names(target: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a body that belong to no inner function, class or comprehension."""
    queue: list[ast.AST] = list(body)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            queue += [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.comprehension)]


def _assigned(body: list[ast.stmt]) -> list[str]:
    """The names that a body binds itself."""
    found: list[str] = []
    for node in _own(body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node.id)
    return sorted(set(found))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _target_name(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def _is_type(node: ast.stmt) -> bool:
    """An alias of types, such as `Pair = int | tuple[int, int]`."""
    if not isinstance(node, ast.Assign):
        return False
    words = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
    shapes = ast.BinOp | ast.Subscript
    return (
        isinstance(node.value, shapes)
        and words <= {"int", "tuple", "str", "float", "bool", "None", "list", "Literal"}
        and bool(words)
    )
