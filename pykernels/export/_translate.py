"""Reads plan modules (pure functions of integers, tuples and views) as syntax trees.

`_javascript.py` and `_rust.py` write the trees for their languages. `_expressions.py` lists the
nodes of expressions. The nodes of statements are

    ["define", name, def node]  ["class", its parts by name]
    ["assign", target, value]  ["augment", target, operator, left, right]
    ["return", value]  ["expr", value]  ["raise", value]  ["assert", test]
    ["if", test, body, else]  ["while", test, body]  ["for", target, iterable, body]
    ["try", body, handler]  ["break"]  ["continue"]

An unknown construct raises `NotTranslated`; then the export records the kernel's plans.
"""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._expressions import BINARY, MODULES, Expressions, Node, NotTranslated

__all__ = ["Module", "NotTranslated", "translate"]

_OWN = {
    "Caps", "DType", "DTypeName", "DTYPES", "Ints", "Nd", "Rows", "Scratch", "Step", "Tiles",
    "View", "Watch", "cdiv", "contiguous_strides", "dtype", "extent", "forced", "merge_axes",
    "repeated",
}  # fmt: skip
_OURS = ("pykernels.tensors.layout", "pykernels.steps", "pykernels.dtypes", "pykernels.wgsl.watch")
_NOT_RUN = ("candidates",)  # plans never call these functions; only `Device.explain` does
_TYPES_ONLY = ("collections.abc", "__future__", "typing", "pykernels.tuning")


def _run(tree: ast.Module) -> ast.Module:
    """The module without the functions that no plan calls, directly or through other functions."""
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


@dataclass(frozen=True, eq=False)  # caches use it as a key, by identity
class Module:
    """A module of plans: its name ("matmul.select"), the names that it binds, and its
    statements."""

    name: str
    names: list[str]
    body: list[Node]


def translate(name: str, folder: Path, done: dict[str, Module]) -> None:
    """Add the module `name` ("matmul.select") of a folder of plans to `done`, after the modules
    that it imports."""
    if name in done:
        return
    text = _file(name, folder).read_text(encoding="utf-8")
    others, translated = _translated(name, folder, text)
    for other in others:
        translate(other, folder, done)
    done[name] = translated


@functools.lru_cache(maxsize=1024)  # cached, because many kernels share a module
def _translated(name: str, folder: Path, text: str) -> tuple[tuple[str, ...], Module]:
    """The modules that a module imports, and its tree."""
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


def _file(name: str, folder: Path) -> Path:
    return folder.joinpath(*name.split(".")).with_suffix(".py")


class _Writer(Expressions):
    """Translates one module of a folder of plans."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name)
        self.folder = folder
        self.line = 1  # the line of the import that is read

    # -- modules ----------------------------------------------------------------------------------

    def imports(self, tree: ast.Module) -> Iterator[str]:
        """The plan modules that this module imports; also notes the meaning of imported names."""
        for node in tree.body:
            self.line = node.lineno
            if isinstance(node, ast.Import):
                for a in node.names:
                    if a.name not in MODULES:
                        raise NotTranslated(f"import {a.name}")
                    self.globals[a.asname or a.name] = ["py", a.name]
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
                self.globals[name] = ["plan", found, None]
            elif ours:
                yield module
                self.globals[name] = ["plan", module, a.name]
            elif source == "pykernels._generated.bodies":
                self.globals[name] = ["body", a.name]
            elif source.startswith("pykernels._generated.bodies.") and a.name == "CONFIGS":
                self.globals[name] = ["configs", source.rpartition(".")[2]]
            elif source.startswith("pykernels._generated.bodies.") and a.name == "Config":
                self.globals[name] = ["none"]
            elif source == "pykernels._generated.ops" and a.name == "ACTIVATIONS":
                pairs = getattr(importlib.import_module(source), a.name).items()
                self.globals[name] = ["table", list(map(list, pairs))]
            elif source == "pykernels._generated.ops.reductions":
                pairs = getattr(importlib.import_module(source), a.name).items()
                self.globals[name] = ["table", list(map(list, pairs))]
            elif source == "pykernels.errors":
                self.globals[name] = ["py", "Failure"]
            elif source in _OURS and a.name in _OWN:
                self.globals[name] = ["py", a.name]
            elif source in _TYPES_ONLY:
                self.globals[name] = ["none"]
            elif a.name in MODULES.get(source, ()):
                self.globals[name] = ["attr", ["py", source], a.name]
            else:
                raise NotTranslated(f"from {source} import {a.name}")

    def module(self, tree: ast.Module) -> Module:
        body = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom)]
        names = [n for n in _assigned(body) if not n.startswith("__")]
        self.globals |= {n: ["local", n] for n in names}
        kept = [
            n for n in body
            if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
            and not (isinstance(n, ast.Assign) and _target_name(n) == "__all__")
            and not (isinstance(n, ast.AnnAssign) and ast.unparse(n.annotation) == "TypeAlias")
            and not (isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
        ]  # fmt: skip
        types = [n for n in kept if _is_type(n)]
        statements = self.block([n for n in kept if n not in types])
        known = [n for n in names if n not in {_target_name(t) for t in types}]
        return Module(self.name, known, statements)

    # -- statements -------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> list[Node]:
        return [made for node in body if (made := self.statement(node))]

    def statement(self, node: ast.stmt) -> Node:
        """The node of a statement; [] if the statement does nothing."""
        method = getattr(self, f"_{type(node).__name__}", None)
        try:
            if method is None:
                raise NotTranslated(f"{self.name}: {type(node).__name__}")
            made: Node = method(node)
            return made
        except NotTranslated as e:
            e.at(node.lineno)
            raise

    def _FunctionDef(self, node: ast.FunctionDef) -> Node:
        if node.decorator_list:
            raise NotTranslated(f"{self.name}: decorator of {node.name}")
        return ["define", node.name, self.function(node)]

    def function(self, node: ast.FunctionDef) -> Node:
        body = [n for n in node.body if not _is_docstring(n)]
        generator = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in _own(body))
        return self.define(node.args, _assigned(body), lambda: self.block(body), generator)

    def _ClassDef(self, node: ast.ClassDef) -> Node:
        bases = [ast.unparse(b) for b in node.bases]
        kind = "tuple" if bases == ["NamedTuple"] else "plain"
        dataclass = any("dataclass" in ast.unparse(d) for d in node.decorator_list)
        if kind == "plain" and (bases or not dataclass):
            raise NotTranslated(f"{self.name}: class {node.name}")
        made: dict[str, Any] = {
            "name": node.name, "kind": kind, "fields": [], "defaults": [], "methods": [],
            "getters": [], "statics": [], "of_class": [],
        }  # fmt: skip
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                made["fields"].append(item.target.id)
                if item.value is not None:
                    made["defaults"].append([item.target.id, self.value(item.value)])
            elif isinstance(item, ast.FunctionDef):
                self._member(item, made)
            elif not _is_docstring(item):
                raise self.refuse(item)
        return ["class", made]

    def _member(self, node: ast.FunctionDef, made: dict[str, Any]) -> None:
        marks = [ast.unparse(d) for d in node.decorator_list]
        kinds = {
            "": "methods", "property": "getters", "functools.cached_property": "getters",
            "staticmethod": "statics", "classmethod": "statics",
        }  # fmt: skip
        if len(marks) > 1 or "".join(marks) not in kinds:
            raise NotTranslated(f"{self.name}: {marks} of {node.name}")
        made[kinds["".join(marks)]].append([node.name, self.function(node)])
        if marks == ["classmethod"]:
            made["of_class"].append(node.name)

    def _Assign(self, node: ast.Assign) -> Node:
        if len(node.targets) > 1:
            raise self.refuse(node)
        return ["assign", self.target(node.targets[0]), self.value(node.value)]

    def _AnnAssign(self, node: ast.AnnAssign) -> Node:
        if node.value is None:
            return []
        return ["assign", self.target(node.target), self.value(node.value)]

    def _AugAssign(self, node: ast.AugAssign) -> Node:
        if type(node.op) not in BINARY:
            raise self.refuse(node)
        left, right = self.value(node.target), self.value(node.value)
        return ["augment", self.target(node.target), BINARY[type(node.op)], left, right]

    def _Return(self, node: ast.Return) -> Node:
        return ["return", self.value(node.value) if node.value else ["const", None]]

    def _Expr(self, node: ast.Expr) -> Node:
        return ["expr", self.value(node.value)]

    def _If(self, node: ast.If) -> Node:
        return ["if", self.value(node.test), self.block(node.body), self.block(node.orelse)]

    def _While(self, node: ast.While) -> Node:
        if node.orelse:
            raise NotTranslated(f"{self.name}: while with else")
        return ["while", self.value(node.test), self.block(node.body)]

    def _For(self, node: ast.For) -> Node:
        if node.orelse:
            raise NotTranslated(f"{self.name}: for with else")
        return ["for", self.target(node.target), self.value(node.iter), self.block(node.body)]

    def _Try(self, node: ast.Try) -> Node:
        if len(node.handlers) != 1 or node.orelse or node.finalbody or node.handlers[0].name:
            raise NotTranslated(f"{self.name}: try")
        return ["try", self.block(node.body), self.block(node.handlers[0].body)]

    def _Raise(self, node: ast.Raise) -> Node:
        if node.exc is None:
            raise NotTranslated(f"{self.name}: raise")
        return ["raise", self.value(node.exc)]

    def _Pass(self, node: ast.Pass) -> Node:
        return []

    def _Break(self, node: ast.Break) -> Node:
        return ["break"]

    def _Continue(self, node: ast.Continue) -> Node:
        return ["continue"]

    def _Assert(self, node: ast.Assert) -> Node:
        return ["assert", self.value(node.test)]


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of a body, without the nodes in inner functions, classes and comprehensions."""
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
