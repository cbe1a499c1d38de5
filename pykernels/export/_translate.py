"""Translates plan modules (pure functions over integers, tuples and views) into JavaScript.

Python's meaning is kept by small functions of pykernels/export/module/5_python.js: `call` binds
positional and keyword arguments, `truth`, `same`, `add` and others work as in Python on arrays.
An unknown construct raises `NotTranslated`; the kernel's plans are recorded then.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

from ._expressions import BINARY, MODULES, Expressions, NotTranslated, safe

__all__ = ["NotTranslated", "plan_object", "translate"]

_OWN = {
    "Caps", "DType", "DTypeName", "DTYPES", "Ints", "Nd", "Rows", "Scratch", "Step", "Tiles",
    "View", "Watch", "cdiv", "contiguous_strides", "dtype", "extent", "forced", "merge_axes",
    "repeated",
}  # fmt: skip
_OURS = ("pykernels.tensors.layout", "pykernels.steps", "pykernels.dtypes", "pykernels.wgsl.watch")
_NOT_RUN = ("candidates",)  # functions that only `Device.explain` calls
_TYPES_ONLY = ("collections.abc", "__future__", "typing", "pykernels.tuning")


def _run(tree: ast.Module) -> ast.Module:
    """A module without functions that no plan calls, directly or through other functions."""
    gone = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in _NOT_RUN]
    if not gone:
        return tree
    tree.body = [n for n in tree.body if n not in gone]
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [a for a in node.names if (a.asname or a.name) in {*used, "annotations"}]
    tree.body = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom) or n.names]
    return tree


def translate(name: str, folder: Path, done: dict[str, str]) -> None:
    """Add the module `name` ("matmul.select") of a folder of plans, after those that it imports,
    to `done`."""
    if name in done:
        return
    text = _file(name, folder).read_text(encoding="utf-8")
    others, translated = _translated(name, folder, text)
    for other in others:
        translate(other, folder, done)
    done[name] = translated


@functools.lru_cache(maxsize=1024)  # many kernels share a module
def _translated(name: str, folder: Path, text: str) -> tuple[tuple[str, ...], str]:
    """The modules that a module imports, and its JavaScript."""
    tree, writer, others = _run(ast.parse(text)), _Writer(name, folder), list[str]()
    try:
        for other in writer.imports(tree):
            if not _file(other, folder).is_file():
                raise NotTranslated(f"{name} imports {other}")
            others.append(other)
        return tuple(others), writer.module(tree)
    except NotTranslated as e:
        e.at(writer.line, f"pykernels/plans/{name.replace('.', '/')}.py")
        raise


def plan_object(name: str) -> str:
    """The name of a module of plans in JavaScript."""
    return "plans." + name.replace(".", "$")


def _file(name: str, folder: Path) -> Path:
    return folder.joinpath(*name.split(".")).with_suffix(".py")


class _Writer(Expressions):
    """One module of a folder of plans."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self.folder = folder
        self.line = 1  # of the import that is read

    # -- modules ----------------------------------------------------------------------------------

    def imports(self, tree: ast.Module) -> Iterator[str]:
        """The plan modules that this module imports; also notes the meaning of imported names."""
        for node in tree.body:
            self.line = node.lineno
            if isinstance(node, ast.Import):
                for a in node.names:
                    if a.name not in MODULES:
                        raise NotTranslated(f"import {a.name}")
                    self.globals[a.asname or a.name] = f"py.{a.name}"
            elif isinstance(node, ast.ImportFrom):
                yield from self._from(node)

    def _from(self, node: ast.ImportFrom) -> Iterator[str]:
        source = node.module or ""
        if node.level == 1:
            here = ["pykernels.plans", *self.name.split(".")[:-1]]
            source = ".".join(here + ([source] if source else []))
        module = source.removeprefix("pykernels.plans").removeprefix(".")
        for a in node.names:
            name = a.asname or a.name
            found = f"{module}.{a.name}".removeprefix(".")
            ours = source.startswith("pykernels.plans")
            if ours and _file(found, self.folder).is_file():
                yield found
                self.globals[name] = plan_object(found)
            elif ours:
                yield module
                self.globals[name] = f"{plan_object(module)}.{a.name}"
            elif source == "pykernels._generated.bodies":
                self.globals[name] = f"bodies.{a.name}"
            elif source.startswith("pykernels._generated.bodies.") and a.name == "CONFIGS":
                self.globals[name] = f"py.configs(bodies.{source.rpartition('.')[2]})"
            elif source.startswith("pykernels._generated.bodies.") and a.name == "Config":
                self.globals[name] = "null"
            elif source == "pykernels._generated.ops" and a.name == "ACTIVATIONS":
                pairs = getattr(importlib.import_module(source), a.name).items()
                self.globals[name] = f"new py.Dict({json.dumps(list(pairs))})"
            elif source == "pykernels._generated.ops.reductions":
                pairs = getattr(importlib.import_module(source), a.name).items()
                self.globals[name] = f"new py.Dict({json.dumps(list(pairs))})"
            elif source == "pykernels.errors":
                self.globals[name] = "py.Failure"
            elif source in _OURS and a.name in _OWN:
                self.globals[name] = f"py.{a.name}"
            elif source in _TYPES_ONLY:
                self.globals[name] = "null"
            elif a.name in MODULES.get(source, ()):
                self.globals[name] = f"py.{source}.{a.name}"
            else:
                raise NotTranslated(f"from {source} import {a.name}")

    def module(self, tree: ast.Module) -> str:
        body = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom)]
        names = [n for n in _assigned(body) if not n.startswith("__")]
        self.globals |= {n: safe(n) for n in names}
        kept = [
            n for n in body
            if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
            and not (isinstance(n, ast.Assign) and _target_name(n) == "__all__")
            and not (isinstance(n, ast.AnnAssign) and ast.unparse(n.annotation) == "TypeAlias")
            and not (isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
        ]  # fmt: skip
        types = [n for n in kept if _is_type(n)]
        lines = [line for n in kept if n not in types for line in self.statement(n)]
        known = [n for n in names if n not in {_target_name(t) for t in types}]
        inner = "\n".join(f"  {line}" for line in [f"let {', '.join(map(safe, known))};", *lines])
        out = ", ".join(n if safe(n) == n else f"{n}: {safe(n)}" for n in known)
        return f"{plan_object(self.name)} = (() => {{\n{inner}\n  return {{ {out} }};\n}})();\n"

    # -- statements -------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> list[str]:
        return ["  " + line for node in body for line in self.statement(node)]

    def statement(self, node: ast.stmt) -> list[str]:
        name = f"_{type(node).__name__}"
        method = getattr(self, name, None)
        try:
            if method is None:
                raise NotTranslated(f"{self.name}: {type(node).__name__}")
            return list(method(node))
        except NotTranslated as e:
            e.at(node.lineno)
            raise

    def _FunctionDef(self, node: ast.FunctionDef) -> Iterator[str]:
        if node.decorator_list:
            raise NotTranslated(f"{self.name}: decorator of {node.name}")
        yield f"{safe(node.name)} = {self.function(node)};"

    def function(self, node: ast.FunctionDef) -> str:
        body = [n for n in node.body if not _is_docstring(n)]
        star = "*" if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _own(body)) else ""
        return self.define(node.args, _assigned(body), lambda: self.block(body), star)

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

    def _AugAssign(self, node: ast.AugAssign) -> Iterator[str]:
        if type(node.op) not in BINARY:
            raise NotTranslated(f"{self.name}: {ast.unparse(node)}")
        left, right = self.value(node.target), self.value(node.value)
        if isinstance(node.op, ast.Add):  # a list grows in place
            yield self.assign(node.target, f"py.grow({left}, {right})")
        else:
            yield self.assign(node.target, f"py.{BINARY[type(node.op)]}({left}, {right})")

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
