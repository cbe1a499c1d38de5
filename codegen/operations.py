"""Declared functions of layer two: `kernels/FAMILY/NAME.op.toml` read, and emitted as Python.

Every key is described in docs/reference/spec.md.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from pykernels.call.casts import CASTS

from .emit import constant, dtype_words, fixed_scalars, module, scalar_type
from .errors import BuildError
from .keys import meant
from .sources import parameters
from .spec import Spec, TensorSpec

__all__ = [
    "Argument", "Declared", "converter", "emit_function", "emit_operations", "load_operations",
    "operation_files", "operation_imports", "out_argument", "tensor_argument",
]  # fmt: skip

SUFFIX = ".op.toml"
_FILE = {"rules": list, "words": dict, "forms": dict, "functions": dict}
_FUNCTION = {
    "form": str, "kernel": str, "words": str, "doc": str, "returns": str, "raises": str,
    "result": str, "rule": str, "tape": bool, "given": dict, "arguments": dict, "results": dict,
    "without": list, "special": list, "name": str,
}  # fmt: skip
_ARGUMENT = {
    "of": str, "type": str, "default": str, "check": str, "same": str, "keyword": bool, "doc": str,
}  # fmt: skip
_RESULT = {"when": str}
_SPECIAL = {"test": str, "function": str}
# Of pykernels.call.scalars; another check is a function of the module with the rules.
_CHECKS = ("axes", "choice", "flag", "integer", "integers", "real")
_OF_TYPE = {"int": "integer", "float": "real", "bool": "flag"}
_INTEGERS = ("axes", "integers", "numbers")  # checks that give an integer back as it is
_PLAIN = {"integer": "int", "real": "float", "flag": "bool"}


@dataclass(frozen=True)
class Argument:
    """One argument of a function: an array, a number that the kernel takes, or an option."""

    name: str
    kind: str  # "array", "number", "option" or "out"
    type: str = ""
    default: str = ""  # a Python literal
    check: str = ""
    same: str = ""  # another name for it
    keyword: bool = False
    doc: str = ""
    tensor: TensorSpec | None = None  # the kernel's, of an array

    @property
    def optional(self) -> bool:
        """May it be None? An array then counts as not given."""
        return self.tensor is not None and self.tensor.optional


@dataclass(frozen=True)
class Declared:
    """One function of layer two."""

    name: str
    file: str
    line: int
    spec: Spec  # the kernel that it runs
    wrapper: str  # the name under which it runs it
    rule: str
    takes: tuple[str, ...]  # arguments of the rule besides the call
    given: Mapping[str, Any]  # constants for the rule
    arguments: tuple[Argument, ...]
    results: Mapping[str, str]  # outputs of the kernel, and the argument that asks for each
    result: str  # the annotation of the result
    tape: bool  # True if it has more outputs while a tape records
    special: Sequence[Mapping[str, str]]  # tests of the arguments, and the function for such calls
    homes: Mapping[str, str]  # of the rule, the checks and the test: the module of each
    op: str  # its name in errors
    doc: str
    returns: str
    raises: str

    @property
    def is_public(self) -> bool:
        """True if it is a function of the package."""
        return not self.name.startswith("_")

    @cached_property
    def arrays(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind == "array"]

    @cached_property
    def options(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind == "option"]

    @cached_property
    def numbers(self) -> list[Argument]:
        return [a for a in self.arguments if a.kind == "number"]


def operation_files(root: Path) -> list[Path]:
    """The files of declarations, by family and name."""
    return sorted((root / "kernels").glob(f"*/*{SUFFIX}"))


def load_operations(root: Path, kernels: Sequence[Spec]) -> dict[str, list[Declared]]:
    """The declared functions by the name of their file; BuildError names file and line of what is
    wrong."""
    specs = {name: spec for spec in kernels for name in spec.names}
    return {
        path.name.removesuffix(SUFFIX): _File(path, root).functions(specs)
        for path in operation_files(root)
    }


class _File:
    """One file of declarations, which knows the line of each key."""

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
        self.signatures: dict[str, list[str]] = {}
        self.homes = {name: "pykernels.call.scalars" for name in _CHECKS}
        for name in self.modules:
            signatures = parameters(root / "pykernels" / "rules" / f"{name}.py")
            self.signatures |= signatures
            self.homes |= dict.fromkeys(signatures, f"pykernels.rules.{name}")

    def fail(self, message: str, *keys: str) -> NoReturn:
        raise BuildError(self.file, self.line(*keys), message)

    def line(self, *keys: str) -> int:
        """Where the table or the key stands, or what it is in."""
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

    def functions(self, specs: Mapping[str, Spec]) -> list[Declared]:
        for form, table in self.data.get("forms", {}).items():
            self.check(table, _FUNCTION, "forms", form)
        return [self.function(name, specs) for name in self.data.get("functions", {})]

    def function(self, name: str, specs: Mapping[str, Spec]) -> Declared:
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
        data["arguments"] = {
            n: v for n, v in data["arguments"].items() if n not in data.get("without", ())
        }
        kernel = data.get("kernel", name)
        if kernel not in specs:
            self.fail(f"{name}: there is no kernel {kernel!r}{meant(kernel, specs)}", *keys)
        spec = specs[kernel]
        words = self.words(name, data.get("words", ""))

        def said(text: str) -> str:
            for word, meaning in words.items():
                text = text.replace(f"{{{word}}}", meaning)
            return text.strip()

        rule, special = data.get("rule", ""), data.get("special", [])
        for one in special:
            self.check(one, _SPECIAL, *keys, "special")
        self.found(rule, *keys)
        if any(p.type == "bits" and p.arg for p in spec.params):
            self.fail(f"{name}: a kernel that takes bits cannot be declared", *keys)
        arguments = tuple(
            self.argument(name, n, given, spec, said) for n, given in data["arguments"].items()
        )
        used = [rule, *(a.check for a in arguments)]
        for one in special:
            given = () if one["function"] in self.data["functions"] else (one["function"],)
            used += [one["test"], *given]
        homes = {n: self.found(n, *keys) for n in used if n}
        takes = self.signatures[rule][1:]
        there = {a.name for a in arguments if a.kind != "out"} | {*data["given"]}
        if missing := [n for n in takes if n not in there]:
            self.fail(f"{name} has no {', '.join(missing)}, which rule {rule} takes", *keys)
        results = data["results"] or {_output(spec): {}}
        for result, given in results.items():
            self.check(given, _RESULT, *keys, "results", result)
        doc = spec.wrappers.get(kernel, {}).get("doc", spec.doc)
        return Declared(
            name=name, file=self.file, line=self.line(*keys), spec=spec, wrapper=kernel,
            rule=rule, takes=tuple(takes),
            given=data["given"], arguments=arguments,
            results={n: given.get("when", "") for n, given in results.items()},
            result=data.get("result", "Array"), tape=data.get("tape", False), special=special,
            homes=homes, op=data.get("name", name),
            doc=said(data.get("doc", "") or str(doc)).replace("`dst`", "`out`"),
            returns=said(data.get("returns", "")), raises=said(data.get("raises", "")),
        )  # fmt: skip

    def found(self, name: str, *keys: str) -> str:
        """The module that has a rule or a check."""
        if name not in self.homes:
            told = ", ".join(f"pykernels/rules/{m}.py" for m in self.modules)
            self.fail(f"there is no {name!r} in {told}{meant(name, self.homes)}", *keys)
        return self.homes[name]

    def words(self, name: str, which: str) -> dict[str, str]:
        table = self.data.get("words", {})
        if which and which not in table:
            self.fail(f"{name}: there are no words {which!r}{meant(which, table)}", "words")
        return dict(table.get(which, {}))

    def argument(self, name: str, arg: str, given: Any, spec: Spec, said: Any) -> Argument:
        where = ("functions", name, "arguments", arg)
        self.check(given, _ARGUMENT, *where)
        keyword, doc = given.get("keyword", False), said(given.get("doc", ""))
        if arg == "out":
            return out_argument(keyword, doc)
        of = given.get("of", arg)
        tensor = next((t for t in spec.tensors if t.name == of and t.role == "in"), None)
        if tensor is not None:
            return tensor_argument(arg, tensor, given.get("check", ""), doc, keyword)
        param = next((p for p in spec.params if p.arg and p.name == of), None)
        option = next((o for o in spec.options if o.name == of), None)
        type_, default, told = "", "", ""
        if param is not None:
            type_, told = scalar_type(param), param.doc
            default = "" if param.default is None else repr(param.default)
        if option is not None:
            type_, default, told = option.type, repr(option.default), option.doc
        type_, default = said(given.get("type", type_)), given.get("default", default)
        if not type_:
            self.fail(
                f"{name}: {arg} needs a type, as {spec.name} has nothing of this name", *where
            )
        number = param is not None and type_ in ("int", "float", "bool")
        check = given.get("check", "") or converter(type_)
        if not check:
            self.fail(f"{name}: {arg} needs a check, which makes its values hashable", *where)
        kind = "number" if number else "option"
        same = given.get("same", "")
        return Argument(arg, kind, type_, default, check, same, keyword, doc or told)


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
    """The check that a type names by itself, "" where there is none."""
    kind = type_.removesuffix(" | None")
    if kind.startswith("Literal["):
        return "choice"
    return "integers" if kind == "int | tuple[int, ...]" else _OF_TYPE.get(kind, "")


def _row(t: TensorSpec) -> str:
    rules = [dtype_words(t), "optional"] if t.optional else [dtype_words(t)]
    rules += [f"the shape of {t.like}"] if t.like else []
    rules += [f"broadcast to {t.broadcast}"] if t.broadcast else []
    return f"Tensor or numpy array, {', '.join(rules)}. {t.doc}".strip()


def emit_operations(functions: Sequence[Declared]) -> str:
    """`_generated/operations/NAME.py`: the functions of one file of declarations."""
    public = sorted(f.name for f in functions if f.is_public)
    text = [f"__all__ = {public!r}\n"]
    others = {f.name: f for f in functions}
    text += ["\n".join(emit_function(f, others)) for f in functions]
    return module(functions[0].file, operation_imports(functions), "\n\n".join(text))


def operation_imports(functions: Sequence[Declared]) -> list[str]:
    """The imports of a module of these functions: rules, checks and kernels."""
    imports = [""]
    homes = {name: home for f in functions for name, home in f.homes.items()}
    for home in sorted({*homes.values()} - {"pykernels.call.scalars"}):
        names = sorted(name for name in homes if homes[name] == home)
        imports.append(f"from {home} import {', '.join(names)}")
    kernels = {(f.spec.name, constant(f.spec, f.wrapper)) for f in functions}
    return imports + [
        f"from pykernels._generated.kernels.{kernel} import {const} as {_kernel(kernel, const)}"
        for kernel, const in sorted(kernels)
    ]


def _kernel(name: str, const: str) -> str:
    return f"_{name}_kernel" if const == "KERNEL" else f"_{const.lower()}_kernel"


def _renamed(f: Declared) -> bool:
    """Does the kernel go by the function's name? What it finds wrong later is said in that name."""
    return f.spec.faults and f.op != f.wrapper


def emit_function(f: Declared, functions: Mapping[str, Declared]) -> Iterator[str]:
    """The function of a declaration; `functions` are those that it may name."""
    positional = [a for a in f.arguments if not a.keyword]
    keyword = [a for a in f.arguments if a.keyword]
    signature = [_parameter(a) for a in positional]
    others = [f"{a.same}: {_or_none(a.type)} = None" for a in f.arguments if a.same]
    if keyword or others:
        signature += ["*", *map(_parameter, keyword), *others]
    kernel = _kernel(f.spec.name, constant(f.spec, f.wrapper))
    names = {a.tensor.name: a.name for a in f.arrays if a.tensor}
    fixed = _constants(f)
    if _renamed(f):
        yield f"_{f.name}_kernel = replace({kernel}, name={f.op!r})"
        kernel = f"_{f.name}_kernel"
    yield f"_{f.name} = Operation("
    yield f"    {f.op!r}, {kernel}, {f.rule}, {f.takes!r}, {names!r}, {tuple(f.results)!r},"
    yield f"    {fixed!r},"
    yield ")"
    yield ""
    yield ""
    yield f"def {f.name}("
    yield from (f"    {s}," for s in signature)
    yield f") -> {f.result}:"
    yield from textwrap.indent(_docstring(f), "    ").splitlines()
    for a in f.arguments:
        if a.same:
            given = f"{f.op!r}, {a.name!r}, {a.name}, {a.default}, {a.same!r}, {a.same}"
            yield f"    if {a.same} is not None:"
            yield f"        {a.name} = either({given})"
    for a in f.arrays:
        if a.check:
            yield f"    {a.name} = {a.check}({f.op!r}, {a.name!r}, {a.name})"
    for a in (*f.options, *f.numbers):
        yield from _converted(f.op, a)
    yield from _cast(f)
    yield from _short(f, kernel)
    for a in f.options:
        if a.check == "choice":  # the values of plain ones
            if a.type.endswith("| None"):
                yield f"    if {a.name} is not None:"
            indent = " " * (8 if a.type.endswith("| None") else 4)
            yield f"{indent}choice({f.op!r}, {a.name!r}, {a.name}, {_values(a)!r})"
    for special in f.special:
        given = ", ".join(a.name for a in f.arguments)
        yield f"    if {special['test']}({given}):"
        function = functions.get(special["function"])
        taken = given
        if function is not None:
            taken = ", ".join(f"{a.name}={a.name}" for a in function.arguments)
        yield f"        return {special['function']}({taken})"
    arrays = "".join(f"{a.name}, " for a in f.arrays)
    options = "".join(f"{o.name!r}: {o.name}, " for o in f.options)
    options += "".join(f"{n!r}: {v!r}, " for n, v in f.given.items())
    numbers = "".join(f"{n.name!r}: {n.name}, " for n in f.numbers)
    asked = "".join(f"{when or 'True'}, " for when in f.results.values())
    out = "out" if any(a.kind == "out" for a in f.arguments) else "None"
    yield f"    return _{f.name}.run(  # type: ignore[no-any-return]"
    yield f"        ({arrays}), {{{options}}}, {{{numbers}}}, ({_decisive(f)}), ({asked}), {out},"
    yield "    )"


def _cast(f: Declared) -> Iterator[str]:
    """Lines that convert arguments inside `pk.autocast`; outside they cost a test."""
    names = CASTS.get(f.name)
    if names:
        yield "    if live and out is None:"
        given = ", ".join(names)
        yield f"        [{given}] = recast({f.name!r}, {given})"


def _parameter(a: Argument) -> str:
    return f"{a.name}: {a.type}" + (f" = {a.default}" if a.default else "")


def _or_none(type_: str) -> str:
    return type_ if type_.endswith("| None") else f"{type_} | None"


def _converted(op: str, a: Argument) -> Iterator[str]:
    """Lines that convert an argument to a plain, hashable value; a plain argument costs one
    comparison."""
    tests = [f"{a.name} is not None"] if a.type.endswith("| None") else []
    plain = _PLAIN.get(a.check)
    if plain:
        tests.append(f"type({a.name}) is not {plain}")
    elif a.check in _INTEGERS:
        tests.append(f"type({a.name}) is not int")
    given = f"{op!r}, {a.name!r}, {a.name}"
    if a.check == "choice":
        tests.append(f"type({a.name}) is not str")
        given += f", {_values(a)!r}"
    if tests:
        yield f"    if {' and '.join(tests)}:"
    yield f"{'    ' if tests else ''}    {a.name} = {a.check}({given})"


def _values(a: Argument) -> tuple[Any, ...]:
    """The values of a Literal."""
    return tuple(ast.literal_eval(a.type.removesuffix(" | None").removeprefix("Literal")))


def _key(f: Declared) -> str:
    layouts = [
        f"None if {a.name} is None else {a.name}._layout" if a.optional else f"{a.name}._layout"
        for a in f.arrays
    ]
    return "".join(f"{part}, " for part in layouts) + _decisive(f)


def _decisive(f: Declared) -> str:
    """The values besides layouts that the result of the rule depends on."""
    parts = [o.name for o in f.options] + (["recording()"] if f.tape else [])
    return "".join(f"{part}, " for part in parts)


def _short(f: Declared, kernel: str) -> Iterator[str]:
    """A cached call: known layouts of tensors, new results."""
    conditions = ["out is None"] if any(a.kind == "out" for a in f.arguments) else []
    conditions += [
        f"({a.name} is None or isinstance({a.name}, Tensor))"
        if a.optional
        else f"isinstance({a.name}, Tensor)"
        for a in f.arrays
    ]
    by_tensor = {a.tensor.name: a for a in f.arrays if a.tensor}
    places = [f"{t.name}_at" for t in f.spec.tensors]
    first = next(a.name for a in f.arrays if not a.optional)
    yield f"    if {' and '.join(conditions)}:"
    yield f"        known = _{f.name}.known.get(({_key(f)}))"
    yield "        if known is not None:"
    yield f"            options, {', '.join(places)} = known"
    given = []
    for t in f.spec.tensors:
        view = f"_{t.name}"
        given.append(view)
        a = by_tensor.get(t.name)
        if t.role == "out":
            made = f"{first}._fresh({t.name}_at[0])"
            seen = f"{t.name} if {t.name}_at[1] is None else {t.name}._at(*{t.name}_at[1])"
            if f.results.get(t.name) == "":
                yield f"            {t.name} = {made}"
                yield f"            {view} = {seen}"
            else:
                yield f"            {t.name} = {view} = None"
                yield f"            if {t.name}_at is not None:"
                yield f"                {t.name} = {made}"
                yield f"                {view} = {seen}"
        elif a is None:
            yield f"            {view} = None"
        elif a.optional:
            yield f"            {view} = {a.name}"
            yield f"            if {t.name}_at is not None and {a.name} is not None:"
            yield f"                {view} = {a.name}._at(*{t.name}_at)"
        else:
            seen = f"{a.name} if {t.name}_at is None else {a.name}._at(*{t.name}_at)"
            yield f"            {view} = {seen}"
    locations = ", ".join(
        f"None if {v} is None else {v}._location" if t.optional else f"{v}._location"
        for v, t in zip(given, f.spec.tensors, strict=True)
    )
    yield "            launch("
    yield f"                ({kernel}, options, {locations}),"
    yield f"                ({', '.join(given)}, ), ({_scalars(f)}),"
    yield "            )"
    always = [name for name, when in f.results.items() if not when]
    for name, when in f.results.items():
        if when:
            yield f"            if {when} and {name} is not None:"
            yield f"                return {', '.join([*always, name])}"
    yield f"            return {', '.join(always)}"


def _scalars(f: Declared) -> str:
    """The scalars of a launch in the kernel's order: numbers of the call, and constants."""
    numbers, fixed = {n.name for n in f.numbers}, _constants(f)
    names = [p.name for p in f.spec.params if p.arg]
    return "".join(f"{n}, " if n in numbers else f"{fixed[n]!r}, " for n in names)


def _constants(f: Declared) -> dict[str, Any]:
    """The kernel's scalars and options that are no arguments: of the wrapper, or defaults."""
    given = {a.name for a in f.arguments}
    scalars = {p.name: p.default for p in f.spec.params if p.arg and p.name not in given}
    options = {o.name: o.default for o in f.spec.options if o.name not in given}
    return scalars | options | fixed_scalars(f.spec, f.wrapper)


_RAISES = "DTypeError, ShapeError, ArgumentError and the errors of `pykernels.kernels`."


def _docstring(f: Declared) -> str:
    lines = ['"""' + f.doc, "", "Args:"]
    documented = [a for a in f.arguments if not a.keyword] + [a for a in f.arguments if a.keyword]
    for a in documented:
        lines += textwrap.wrap(f"    {a.name}: {a.doc}", 96, subsequent_indent=" " * 8)
    for a in f.arguments:
        if a.same:
            lines.append(f"    {a.same}: Another name for {a.name}.")
    returns = f.returns or "A numpy array if all arguments are numpy arrays, else a Tensor."
    raises = f.raises or _RAISES
    for head, text in (("Returns:", returns), ("Raises:", raises)):
        lines += ["", head]
        for paragraph in text.split("\n"):
            lines += textwrap.wrap(f"    {paragraph}", 96, subsequent_indent="    ")
    return "\n".join([*lines, '"""'])
