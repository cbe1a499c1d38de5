"""Reads declared functions of layer two from `kernels/FAMILY/NAME.op.toml` into dataclasses.

Every key is described in docs/reference/spec.md.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from .emit import dtype_words, scalar_type
from .errors import BuildError
from .keys import meant
from .sources import Rule, classes_of, rules_of
from .spec import Spec, TensorSpec

__all__ = [
    "CHECKS", "INTEGERS", "Argument", "Declared", "Function", "converter", "load_operations",
    "operation_files", "out_argument", "tensor_argument",
]  # fmt: skip

SUFFIX = ".op.toml"
_FILE = {"rules": list, "words": dict, "forms": dict, "functions": dict}
_FUNCTION = {
    "form": str, "kernel": str, "words": str, "doc": str, "returns": str, "raises": str,
    "result": str, "rule": str, "runs": str, "tape": bool, "given": dict, "arguments": dict,
    "results": dict, "without": list, "special": list, "name": str,
}  # fmt: skip
_ARGUMENT = {
    "of": str, "type": str, "default": str, "check": str, "same": str, "keyword": bool, "doc": str,
    "of_others": list, "rest": bool,
}  # fmt: skip
_RESULT = {"when": str}
_SPECIAL = {"test": str, "function": str}
# Checks of pykernels.call.scalars; other checks are functions of the module with the rules.
CHECKS = ("axes", "choice", "flag", "integer", "integers", "real")
_OF_TYPE = {"int": "integer", "float": "real", "bool": "flag"}
INTEGERS = ("axes", "integers", "numbers")  # checks that return an integer unchanged


@dataclass(frozen=True)
class Argument:
    """One argument of a function: an array, a number that the kernel takes, or an option."""

    name: str
    # "array", "number", "option", "out", or "other" if only checks of other arguments read it
    kind: str
    type: str = ""
    default: str = ""  # a Python literal
    check: str = ""
    same: str = ""  # another name of the argument
    keyword: bool = False
    doc: str = ""
    tensor: TensorSpec | None = None  # for an array, the tensor of the kernel
    # True if the check only raises errors, so it runs only if no cached call fits
    refuses: bool = False
    of_others: tuple[str, ...] = ()  # other arguments that the check reads
    rest: bool = False  # True if the argument collects all other keywords

    @property
    def converts(self) -> bool:
        """True if the argument's check may launch a kernel that converts the array's dtype."""
        return bool(self.check) and not self.refuses and not self.of_others

    @property
    def left(self) -> bool:
        """True if the caller may leave out an array that the kernel needs, because the rule
        computes it."""
        return self.tensor is not None and self.default == "None" and not self.tensor.optional

    @property
    def optional(self) -> bool:
        """True for an array that may be None, which counts as not given."""
        return self.tensor is not None and self.tensor.optional


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function of layer two whose work a function of pykernels/rules does."""

    name: str
    file: str
    line: int
    rule: str
    takes: tuple[str, ...]  # arguments of the rule, without the first
    given: Mapping[str, Any]  # constants that the rule gets
    arguments: tuple[Argument, ...]
    result: str  # the annotation of the result
    homes: Mapping[str, str]  # the modules of the rule, the checks and the test
    op: str  # the function's name in errors
    doc: str
    returns: str
    raises: str

    @property
    def is_public(self) -> bool:
        """True for a function that users call."""
        return not self.name.startswith("_")

    @cached_property
    def arrays(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind == "array"]

    @cached_property
    def options(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind == "option"]

    @cached_property
    def others(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind == "other"]

    @cached_property
    def numbers(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind == "number"]


@dataclass(frozen=True, kw_only=True)
class Declared(Function):
    """One function of layer two that runs a kernel on the views that a rule makes."""

    spec: Spec  # the kernel
    wrapper: str  # the name of the kernel's wrapper
    # for each output of the kernel, the argument that asks for it; "" if it is always made
    results: Mapping[str, str]
    tape: bool  # True if the kernel has more outputs while a tape records
    # tests of arguments; if a call passes a test, the function beside the test handles the call
    special: Sequence[Mapping[str, str]]


def operation_files(root: Path) -> list[Path]:
    """The files of declarations, in the order of their families and names."""
    return sorted((root / "kernels").glob(f"*/*{SUFFIX}"))


def load_operations(root: Path, kernels: Sequence[Spec]) -> dict[str, list[Function]]:
    """The declared functions by the names of their files. A BuildError names the file and line of a
    mistake."""
    specs = {name: spec for spec in kernels for name in spec.names}
    return {
        path.name.removesuffix(SUFFIX): _File(path, root).functions(specs)
        for path in operation_files(root)
    }


class _File:
    """One file of declarations, with the line of each key."""

    def __init__(self, path: Path, root: Path) -> None:
        self.file = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        self.lines = text.splitlines()
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as e:
            found = re.search(r"at line (\d+)", str(e))
            raise BuildError(self.file, int(found[1]) if found else 1, f"no TOML: {e}") from None
        self.check(self.data, _FILE)
        self.modules = self.data.get("rules", [path.name.removesuffix(SUFFIX)])
        self.rules: dict[str, Rule] = {}
        self.homes = {name: "pykernels.call.scalars" for name in CHECKS}
        for name in self.modules:
            rules = rules_of(root / "pykernels" / "rules" / f"{name}.py")
            self.rules |= rules
            classes = classes_of(root / "pykernels" / "rules" / f"{name}.py")
            self.homes |= dict.fromkeys((*rules, *classes), f"pykernels.rules.{name}")

    def fail(self, message: str, *keys: str) -> NoReturn:
        raise BuildError(self.file, self.line(*keys), message)

    def line(self, *keys: str) -> int:
        """The line of the key or the table, or else of the table around it."""
        for depth in range(len(keys), 0, -1):
            header = re.compile(rf"\[{re.escape('.'.join(keys[:depth]))}\]")
            entry = re.compile(rf"{re.escape(keys[depth - 1])}\s*[.=]")
            for number, text in enumerate(self.lines, 1):
                if header.match(text) or entry.match(text):
                    return number
        return 1

    def check(self, table: Any, known: Mapping[str, type], *keys: str) -> None:
        where = ".".join(keys)
        if not isinstance(table, dict):
            self.fail(f"{where} must be a table", *keys)
        for key, value in table.items():
            if key not in known:
                self.fail(f"unknown key {'.'.join((*keys, key))!r}{meant(key, known)}", *keys)
            if not isinstance(value, known[key]):
                self.fail(f"{where}.{key} cannot be {value!r}", *keys)

    def functions(self, specs: Mapping[str, Spec]) -> list[Function]:
        for form, table in self.data.get("forms", {}).items():
            self.check(table, _FUNCTION, "forms", form)
        return [self.function(name, specs) for name in self.data.get("functions", {})]

    def function(self, name: str, specs: Mapping[str, Spec]) -> Function:
        keys = ("functions", name)
        data = self.merged(name)
        special = data.get("special", [])
        for one in special:
            self.check(one, _SPECIAL, *keys, "special")
        runs, kernel = data.get("runs", ""), data.get("kernel", name)
        if kernel not in specs and not runs:
            self.fail(f"{name}: there is no kernel {kernel!r}{meant(kernel, specs)}", *keys)
        spec = None if runs else specs[kernel]
        for p in spec.params if spec else ():
            if p.type == "bits" and p.name in data["arguments"]:
                self.fail(f"{name}: the rule gives {p.name}, whose bits depend on a dtype", *keys)
        said = self.words(name, data.get("words", ""))
        arguments = tuple(
            self.argument(name, n, given, spec, said) for n, given in data["arguments"].items()
        )
        rule = runs or data.get("rule", "")
        self.found(rule, *keys)
        used = [rule, *(a.check for a in arguments), *(one["test"] for one in special)]
        used += [a.type for a in arguments if a.rest]
        elsewhere = [one["function"] for one in special]
        used += [n for n in elsewhere if n not in self.data["functions"]]
        takes = self.rules[rule].takes[1:]
        there = {a.name for a in arguments if runs or a.kind != "out" or a.check} | {*data["given"]}
        if missing := [n for n in takes if n not in there]:
            self.fail(f"{name} has no {', '.join(missing)}, which rule {rule} takes", *keys)
        doc = "" if spec is None else str(spec.wrappers.get(kernel, {}).get("doc", spec.doc))
        common: dict[str, Any] = {
            "name": name, "file": self.file, "line": self.line(*keys), "rule": rule,
            "takes": takes, "given": data["given"], "arguments": arguments,
            "result": data.get("result", "Array"), "op": data.get("name", name),
            "homes": {n: self.found(n, *keys) for n in used if n},
            "doc": said(data.get("doc", "") or doc).replace("`dst`", "`out`"),
            "returns": said(data.get("returns", "")), "raises": said(data.get("raises", "")),
        }  # fmt: skip
        if spec is None:
            return Function(**common)
        results = data["results"] or {_output(spec): {}}
        for result, given in results.items():
            self.check(given, _RESULT, *keys, "results", result)
        asked = {n: given.get("when", "") for n, given in results.items()}
        tape = data.get("tape", False)
        return Declared(
            spec=spec, wrapper=kernel, results=asked, tape=tape, special=special, **common
        )

    def merged(self, name: str) -> dict[str, Any]:
        """The keys of a function, merged with the keys of its form."""
        keys = ("functions", name)
        own = self.data["functions"][name]
        self.check(own, _FUNCTION, *keys)
        form = own.get("form", "")
        forms = self.data.get("forms", {})
        if form and form not in forms:
            self.fail(f"{name}: there is no form {form!r}{meant(form, forms)}", *keys)
        data = {**forms.get(form, {}), **own}
        for key in ("arguments", "results", "given"):
            data[key] = {**forms.get(form, {}).get(key, {}), **own.get(key, {})}
        left_out = data.get("without", ())
        data["arguments"] = {n: v for n, v in data["arguments"].items() if n not in left_out}
        return data

    def found(self, name: str, *keys: str) -> str:
        """The module that has a rule or a check."""
        if name not in self.homes:
            told = ", ".join(f"pykernels/rules/{m}.py" for m in self.modules)
            self.fail(f"there is no {name!r} in {told}{meant(name, self.homes)}", *keys)
        return self.homes[name]

    def words(self, name: str, which: str) -> Callable[[str], str]:
        """A function that replaces each `{word}` of a text by its meaning."""
        table = self.data.get("words", {})
        if which and which not in table:
            self.fail(f"{name}: there are no words {which!r}{meant(which, table)}", "words")

        def said(text: str) -> str:
            for word, meaning in table.get(which, {}).items():
                text = text.replace(f"{{{word}}}", meaning)
            return text.strip()

        return said

    def argument(
        self, name: str, arg: str, given: Any, spec: Spec | None, said: Callable[[str], str]
    ) -> Argument:
        """Read an argument. Facts that its keys do not give come from the kernel."""
        where = ("functions", name, "arguments", arg)
        self.check(given, _ARGUMENT, *where)
        keyword, doc = given.get("keyword", False), said(given.get("doc", ""))
        others = self.data["functions"][name].get("arguments", {}).values()
        helps = any(arg in other.get("of_others", ()) for other in others)
        if helps and not _is_of_kernel(arg, spec):
            rest = given.get("rest", False)
            return Argument(
                arg, "other", given["type"], given.get("default", ""), "", "", keyword, doc,
                rest=rest,
            )  # fmt: skip
        if arg == "out":
            made = out_argument(keyword, doc)
            return replace(made, type=given.get("type", made.type), check=given.get("check", ""))
        of = given.get("of", arg)
        tensors = () if spec is None else spec.tensors
        tensor = next((t for t in tensors if t.name == of and t.role == "in"), None)
        if tensor is not None:
            made = tensor_argument(arg, tensor, given.get("check", ""), doc, keyword)
            refuses = made.check in self.rules and self.rules[made.check].gives_none
            type_, default = given.get("type", made.type), given.get("default", made.default)
            return replace(
                made, refuses=refuses, type=type_, default=default,
                of_others=tuple(given.get("of_others", ())),
            )  # fmt: skip
        param = next((p for p in spec.params if p.arg and p.name == of), None) if spec else None
        option = next((o for o in spec.options if o.name == of), None) if spec else None
        type_, default, told = "", "", ""
        if param is not None:
            type_, told = scalar_type(param), param.doc
            default = "" if param.default is None else repr(param.default)
        if option is not None:
            type_, default, told = option.type, repr(option.default), option.doc
        type_, default = said(given.get("type", type_)), given.get("default", default)
        if not type_:
            told = "no kernel" if spec is None else f"{spec.name}"
            self.fail(f"{name}: {arg} needs a type, as {told} has nothing of this name", *where)
        number = param is not None and type_ in ("int", "float", "bool")
        check = given.get("check", "") or converter(type_)
        if not check and spec is not None:
            self.fail(f"{name}: {arg} needs a check, which makes its values hashable", *where)
        kind = "number" if number else "option"
        same = given.get("same", "")
        return Argument(arg, kind, type_, default, check, same, keyword, doc or told)


def _is_of_kernel(arg: str, spec: Spec | None) -> bool:
    """True if the kernel has a tensor, a param or an option of this name."""
    if spec is None:
        return False
    names = (part.name for parts in (spec.tensors, spec.params, spec.options) for part in parts)
    return arg in names


def _output(spec: Spec) -> str:
    return next(t.name for t in spec.tensors if t.role == "out" and not t.optional)


def out_argument(keyword: bool, doc: str = "") -> Argument:
    """The tensor to write to."""
    doc = doc or "The Tensor to write to; None makes one."
    return Argument("out", "out", "Tensor | None", "None", keyword=keyword, doc=doc)


def tensor_argument(name: str, tensor: TensorSpec, check: str, doc: str, keyword: bool) -> Argument:
    """An array for a tensor of the kernel."""
    kind, default = ("Array | None", "None") if tensor.optional else ("Array", "")
    return Argument(name, "array", kind, default, check, "", keyword, doc or _row(tensor), tensor)


def converter(type_: str) -> str:
    """The check that a type implies; "" if the type implies no check."""
    kind = type_.removesuffix(" | None")
    if kind.startswith("Literal["):
        return "choice"
    return "integers" if kind == "int | tuple[int, ...]" else _OF_TYPE.get(kind, "")


def _row(t: TensorSpec) -> str:
    rules = [dtype_words(t), "optional"] if t.optional else [dtype_words(t)]
    rules += [f"the shape of {t.like}"] if t.like else []
    rules += [f"broadcast to {t.broadcast}"] if t.broadcast else []
    return f"Tensor or numpy array, {', '.join(rules)}. {t.doc}".strip()
