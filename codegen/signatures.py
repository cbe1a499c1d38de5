"""Makes the signatures of layer two for type checkers. Each function has one annotated signature,
from which overloads are made.

A function that takes and returns `Array`, written by hand or declared, has a single signature. The
type of its result depends on its arguments: a Tensor if one of them is a Tensor, a numpy array if
all arrays are numpy arrays. This module makes an overload for each way to call the function.
Functions with overloads of their own, and functions whose result has the same type for all kinds of
arrays, keep their signatures.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import BuildError

__all__ = ["File", "Files", "Signatures", "is_literal", "renamed", "signatures"]

# Decorators that keep the signature.
KEEPING = ("whole", "again", "again_without_tensors")
KNOWN = {"Array", "NDArray", "Tensor"}  # names of pykernels.call.arrays and pykernels.device
# Arguments that may be quantised weights, and the type of quantised weights.
QUANTISED = {
    "embedding": ("weight", "QTensor"), "flash_attn": ("k v", "QTensor"),
    "get_rows": ("src", "QTensor"), "linear": ("w", "QTensor"), "matmul": ("b", "Transposed"),
    "rms_norm_linear": ("w", "QTensor"),
    "expert_linear": ("w", "QTensor"),
}  # fmt: skip
BUILTINS = {"None", "bool", "bytes", "float", "int", "list", "object", "str", "tuple"}


@dataclass
class Signatures:
    """Lines of a stub: the imports that annotations need, and the overloads by function."""

    imports: set[str] = field(default_factory=set)
    functions: dict[str, list[str]] = field(default_factory=dict)


def signatures(
    root: Path, homes: Mapping[str, str], texts: Mapping[str, str] | None = None
) -> Signatures:
    """The overloads of functions, by the module of each: a file of pykernels/functional,
    or a text of `texts`."""
    out = Signatures()
    files = Files(root, texts or {})
    for home in sorted(set(homes.values())):
        file = files[home]
        names = [name for name in homes if homes[name] == home]
        for name in names:
            d = file.functions.get(name)
            if d is not None and _follows_arrays(d):
                out.functions[name] = list(_overloads(file, d))
        for name in names:
            same = file.names.get(name)
            if isinstance(same, ast.Name) and same.id in out.functions:
                out.functions[name] = [f"{name} = {same.id}"]
        out.imports |= file.used
    return out


class Files(dict[str, "File"]):
    """The modules of layer two, by their names; each is read once."""

    def __init__(self, root: Path, texts: Mapping[str, str]) -> None:
        self.root, self.texts = root, texts

    def __missing__(self, name: str) -> File:
        self[name] = File(self, name)
        return self[name]

    def text(self, name: str) -> str:
        """The source of a module."""
        found = self.texts.get(name)
        path = self.root / f"{name.replace('.', '/')}.py"
        return path.read_text(encoding="utf-8") if found is None else found


class File:
    """A file of layer two: its functions, and the meanings of names in annotations."""

    def __init__(self, files: Files, name: str) -> None:
        self.files, self.file = files, f"{name.replace('.', '/')}.py"
        self.module = name
        self.functions: dict[str, ast.FunctionDef] = {}
        self.names: dict[str, ast.expr] = {}  # the values that are assigned to names
        self.classes: set[str] = set()
        self.imported: dict[str, str] = {}  # for each imported name, its module
        self.used: set[str] = set()
        for node in ast.parse(files.text(name)).body:
            if isinstance(node, ast.FunctionDef):
                # the overloads of a function come before the function itself
                if node.name in self.functions:
                    node.decorator_list = self.functions[node.name].decorator_list
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.classes.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                self.names[ast.unparse(target)] = node.value
            elif isinstance(node, ast.ImportFrom) and node.module:
                home = f"pykernels.functional.{node.module}" if node.level else node.module
                self.imported |= {a.asname or a.name: home for a in node.names}

    def spelled(self, annotation: ast.expr) -> ast.expr:
        """An annotation in which aliases of layer two are written out: it then has only names that
        every file can import."""
        return _Spelled(self).visit(copy.deepcopy(annotation))  # type: ignore[no-any-return]

    def meaning(self, node: ast.Name) -> ast.expr:
        """The meaning of a name in an annotation; the name itself if it is imported."""
        name = node.id
        if name in KNOWN | BUILTINS:
            return node
        if name in self.names:
            return self.spelled(self.names[name])
        if name in self.classes:
            self.used.add(f"from {self.module} import {name}")
            return node
        home = self.imported.get(name)
        if home is None:
            raise BuildError(self.file, node.lineno, f"annotation {name}: no such name at the top")
        if home.startswith("pykernels.functional."):
            other = self.files[home]
            found = other.meaning(node)
            self.used |= other.used
            return found
        self.used.add(f"from {home} import {name}")
        return node


class _Spelled(ast.NodeTransformer):
    def __init__(self, file: File) -> None:
        self.file = file

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.file.meaning(node)


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.names.get(node.id, node.id))


def renamed(annotation: ast.expr, names: Mapping[str, str]) -> ast.expr:
    """An annotation with names replaced by `names`."""
    return _Renamed(names).visit(copy.deepcopy(annotation))  # type: ignore[no-any-return]


def _with(annotation: ast.expr, name: str) -> str:
    return ast.unparse(renamed(annotation, {"Array": name}))


def _names(annotation: ast.expr | None) -> set[str]:
    return {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)} if annotation else set()


def _follows_arrays(d: ast.FunctionDef) -> bool:
    """True if the result depends on the kinds of arrays, and the function has no overloads of its
    own."""
    own = [n for n in d.decorator_list if ast.unparse(n) not in KEEPING]
    return not own and "Array" in _names(d.returns)


def _overloads(file: File, d: ast.FunctionDef) -> Iterator[str]:
    """The overloads of a function, the most specific first."""
    args = d.args
    more = [a for a in (args.vararg, args.kwarg) if a is not None]
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, *more]
    kinds = {a.arg: file.spelled(_given(file, a)) for a in every}
    assert d.returns is not None
    result = file.spelled(d.returns)
    plain = {name: ast.unparse(kind) for name, kind in kinds.items()}
    arrays = [name for name, kind in kinds.items() if "Array" in _names(kind)]
    optional = {name for name in kinds if "None" in plain[name].split(" | ")}
    # The parameters that only calls with tensors have: the output, and some others.
    tensors = [n for n in kinds if n in optional - {*arrays} and "Tensor" in _names(kinds[n])]
    flags = [n for n in kinds if n.startswith("return_") and plain[n] == "bool"]
    for told, returned in _by_flag(flags, result):
        to_tensor = _with(returned, "Tensor")
        if d.name in QUANTISED:
            names, kind = QUANTISED[d.name]
            file.used.add(f"from pykernels.tensors.quantised import {kind}")
            yield from _one(d, plain, {**told, **dict.fromkeys(names.split(), kind)}, to_tensor)
        for name in arrays:
            if name in {a.arg for a in more}:
                yield from _one(d, plain, {**told, name: "Tensor"}, to_tensor)
            elif name not in optional and "float" not in _names(kinds[name]):
                yield from _one(d, plain, {**told, name: _with(kinds[name], "Tensor")}, to_tensor)
        if "out" in tensors:
            given = {**told, "out": plain["out"].removesuffix(" | None")}
            yield from _one(d, plain, given, to_tensor)
        numpy = {name: _with(kinds[name], "NDArray") for name in arrays}
        none = dict.fromkeys(tensors, "None")
        yield from _one(d, plain, {**told, **numpy, **none}, _with(returned, "NDArray"))
    either = ast.unparse(result)
    # For a type checker, a list of tensors is not a list of "tensors or arrays".
    if "list" in _names(result):
        either = f"{_with(result, 'Tensor')} | {_with(result, 'NDArray')}"
    yield from _one(d, plain, {}, either)


def _by_flag(flags: list[str], result: ast.expr) -> Iterator[tuple[dict[str, str], ast.expr]]:
    """The type of the result for each value of a flag such as `return_indices`: `result` is a
    union, whose left type is for False and whose right type is for True. Without such a flag,
    `result` itself."""
    if len(flags) != 1 or not isinstance(result, ast.BinOp):
        yield {}, result
        return
    yield {flags[0]: "Literal[False]"}, result.left
    yield {flags[0]: "Literal[True]"}, result.right


def _given(file: File, a: ast.arg) -> ast.expr:
    if a.annotation is None:
        raise BuildError(file.file, a.lineno, f"{a.arg} has no annotation")
    return a.annotation


def _one(
    d: ast.FunctionDef, plain: Mapping[str, str], narrower: Mapping[str, str], result: str
) -> Iterator[str]:
    """An overload in which some parameters have narrower types."""
    params = ", ".join(_params(d.args, plain, narrower))
    yield from ("@overload", f"def {d.name}({params}) -> {result}: ...")


def _params(
    args: ast.arguments, plain: Mapping[str, str], narrower: Mapping[str, str]
) -> Iterator[str]:
    """The parameters as text. If the default of a parameter does not have its narrower type, this
    parameter and all parameters after it are keyword-only."""
    kinds = {**plain, **narrower}
    usual = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(usual) - len(args.defaults)) + [*args.defaults, *args.kw_defaults]
    by_name = False
    for i, (a, default) in enumerate(zip([*usual, *args.kwonlyargs], defaults, strict=True)):
        fits = default is not None and (a.arg not in narrower or _fits(default, kinds[a.arg]))
        if not by_name and (i >= len(usual) or (default is not None and not fits)):
            by_name = True
            yield f"*{args.vararg.arg}: {kinds[args.vararg.arg]}" if args.vararg else "*"
        text = f"{a.arg}: {kinds[a.arg]}"
        if default is not None and fits:
            text += f" = {ast.unparse(default) if is_literal(default) else '...'}"
        yield text
        if i + 1 == len(args.posonlyargs):
            yield "/"
    if args.vararg and not by_name:
        yield f"*{args.vararg.arg}: {kinds[args.vararg.arg]}"
    if args.kwarg:
        yield f"**{args.kwarg.arg}: {kinds[args.kwarg.arg]}"


def _fits(default: ast.expr, kind: str) -> bool:
    """True if the default, which is None or a flag, has the type `kind`."""
    text = ast.unparse(default)
    if text == "None":
        return "None" in kind.split(" | ")
    return not kind.startswith("Literal[") or kind == f"Literal[{text}]"


def is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
