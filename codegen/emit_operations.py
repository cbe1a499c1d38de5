"""Emits the functions that declarations describe: `_generated/operations/NAME.py`."""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pykernels.call.casts import CASTS

from .emit import constant, fixed_scalars, module
from .operations import CHECKS, INTEGERS, Argument, Declared, Function

__all__ = ["emit_function", "emit_operations", "operation_imports"]

_PLAIN = {"integer": "int", "real": "float", "flag": "bool"}


def emit_operations(functions: Sequence[Function]) -> str:
    """`_generated/operations/NAME.py`: the functions of one file of declarations."""
    public = sorted(f.name for f in functions if f.is_public)
    text = [f"__all__ = {public!r}\n"]
    others = {f.name: f for f in functions}
    text += ["\n".join(emit_function(f, others)) for f in functions]
    return module(functions[0].file, operation_imports(functions), "\n\n".join(text))


def operation_imports(functions: Sequence[Function]) -> list[str]:
    """The imports of a module of these functions: rules, checks and kernels."""
    imports = [""]
    if any(not isinstance(f, Declared) for f in functions):
        imports.append("from pykernels.call.again import again")
    homes = {name: home for f in functions for name, home in f.homes.items()}
    for home in sorted({*homes.values()} - {"pykernels.call.scalars"}):
        names = sorted(name for name in homes if homes[name] == home)
        imports.append(f"from {home} import {', '.join(names)}")
    kernels = {
        (f.spec.name, constant(f.spec, f.wrapper)) for f in functions if isinstance(f, Declared)
    }
    return imports + [
        f"from pykernels._generated.kernels.{kernel} import {const} as {_kernel(kernel, const)}"
        for kernel, const in sorted(kernels)
    ]


def _kernel(name: str, const: str) -> str:
    return f"_{name}_kernel" if const == "KERNEL" else f"_{const.lower()}_kernel"


def _renamed(f: Declared) -> bool:
    """True if the kernel gets the function's name, so that faults, which the device reports later,
    contain this name."""
    return f.spec.faults and f.op != f.wrapper


def emit_function(f: Function, functions: Mapping[str, Function]) -> Iterator[str]:
    """The function of a declaration; `functions` are the functions that the declaration may
    name."""
    if isinstance(f, Declared):
        yield from _operation(f)
    yield from _signature(f)
    yield from textwrap.indent(_docstring(f), "    ").splitlines()
    yield from _plain(f)
    if isinstance(f, Declared):
        yield from _short(f, _run_kernel(f))
    yield from _checked(f)
    yield from _run(f, functions) if isinstance(f, Declared) else _handed_on(f)


def _operation(f: Declared) -> Iterator[str]:
    """The function that runs a call that is not cached."""
    names = {a.tensor.name: a.name for a in f.arrays if a.tensor}
    if _renamed(f):
        kernel = _kernel(f.spec.name, constant(f.spec, f.wrapper))
        yield f"{_run_kernel(f)} = replace({kernel}, name={f.op!r})"
    yield f"_{f.name} = Operation("
    yield f"    {f.op!r}, {_run_kernel(f)}, {f.rule}, {f.takes!r}, {names!r}, {tuple(f.results)!r},"
    left = tuple(a.tensor.name for a in f.arrays if a.tensor and a.left)
    yield f"    {_constants(f)!r}," + (f" {left!r}," if left else "")
    yield ")"
    yield ""
    yield ""


def _run_kernel(f: Declared) -> str:
    """The name of the kernel that a function runs."""
    own = f"_{f.name}_kernel"
    return own if _renamed(f) else _kernel(f.spec.name, constant(f.spec, f.wrapper))


def _signature(f: Function) -> Iterator[str]:
    keyword = [a for a in f.arguments if a.keyword]
    signature = [_parameter(a) for a in f.arguments if not a.keyword]
    others = [f"{a.same}: {_or_none(a.type)} = None" for a in f.arguments if a.same]
    if keyword or others:
        signature += ["*", *map(_parameter, [a for a in keyword if not a.rest]), *others]
    signature += [f"**{a.name}: Unpack[{a.type}]" for a in f.arguments if a.rest]
    if isinstance(f, Declared) and any(a.converts for a in f.arrays):
        yield "@whole"  # conversions by checks are part of the call
    if not isinstance(f, Declared):
        yield "@again"  # its rule calls other functions, so there is no kernel to cache
    yield f"def {f.name}("
    yield from (f"    {s}," for s in signature)
    yield f") -> {f.result}:"


def _plain(f: Function) -> Iterator[str]:
    """Lines that make plain, hashable values of the arguments."""
    for a in f.arguments:
        if a.same:
            given = f"{f.op!r}, {a.name!r}, {a.name}, {a.default}, {a.same!r}, {a.same}"
            yield f"    if {a.same} is not None:"
            yield f"        {a.name} = either({given})"
    for a in f.arrays:
        if a.check and not a.refuses:
            given = ", ".join([a.name, *a.of_others])
            yield f"    {a.name} = {a.check}({f.op!r}, {a.name!r}, {given})"
    for a in (*f.options, *f.numbers):
        if a.check and (a.check != "choice" or isinstance(f, Declared)):
            yield from _converted(f.op, a)
    yield from _cast(f)


def _checked(f: Function) -> Iterator[str]:
    """Lines for checks that a cached call skips."""
    for a in f.arguments:
        if a.kind == "out" and a.check:
            yield f"    {a.check}({f.op!r}, {a.name!r}, {a.name})"
        if a.refuses or _of_integer(a):
            given = "" if a.refuses else f"{a.name} = "
            yield f"    {given}{a.check}({f.op!r}, {a.name!r}, {a.name})"
        if a.check == "choice":  # this check looks at the values of plain arguments, too
            if a.type.endswith("| None"):
                yield f"    if {a.name} is not None:"
            indent = " " * (8 if a.type.endswith("| None") else 4)
            yield f"{indent}choice({f.op!r}, {a.name!r}, {a.name}, {_values(a)!r})"


def _handed_on(f: Function) -> Iterator[str]:
    """The line that calls the function that does the work."""
    given = {a.name: a.name for a in f.arguments}
    given |= {name: _literal(value) for name, value in f.given.items()}
    taken = ", ".join(f"{name}={given[name]}" for name in f.takes)
    yield f"    return {f.rule}({f.op!r}, {taken})"


def _run(f: Declared, functions: Mapping[str, Function]) -> Iterator[str]:
    """The lines of a call that is not cached."""
    for special in f.special:
        given = ", ".join(a.name for a in f.arguments)
        yield f"    if {special['test']}({given}):"
        function = functions.get(special["function"])
        taken = given
        if function is not None:
            taken = ", ".join(f"{a.name}={a.name}" for a in function.arguments)
        yield f"        return {special['function']}({taken})"
    arrays = "".join(f"{a.name}, " for a in f.arrays)
    options = "".join(f"{o.name!r}: {o.name}, " for o in (*f.options, *f.others))
    options += "".join(f"{n!r}: {_literal(v)}, " for n, v in f.given.items())
    numbers = "".join(f"{n.name!r}: {n.name}, " for n in f.numbers)
    asked = "".join(f"{when or 'True'}, " for when in f.results.values())
    out = "out" if any(a.kind == "out" for a in f.arguments) else "None"
    yield f"    return _{f.name}.run(  # type: ignore[no-any-return]"
    yield f"        ({arrays}), {{{options}}}, {{{numbers}}}, ({_decisive(f)}), ({asked}), {out},"
    yield "    )"


def _cast(f: Function) -> Iterator[str]:
    """Lines that convert arguments inside `pk.autocast`; outside of it they cost one test."""
    names = CASTS.get(f.name)
    if names:
        out = any(a.kind == "out" for a in f.arguments)
        yield f"    if live{' and out is None' if out else ''}:"
        given = ", ".join(names)
        yield f"        [{given}] = recast({f.name!r}, {given})"


def _parameter(a: Argument) -> str:
    return f"{a.name}: {a.type}" + (f" = {a.default}" if a.default else "")


def _or_none(type_: str) -> str:
    return type_ if type_.endswith("| None") else f"{type_} | None"


def _of_integer(a: Argument) -> bool:
    """True if plain integers are checked only when no cached call fits."""
    return a.type == "int" and a.check not in (*CHECKS, *INTEGERS)


def _converted(op: str, a: Argument) -> Iterator[str]:
    """Lines that convert an argument to a plain, hashable value; a plain argument costs one
    comparison."""
    tests = [f"{a.name} is not None"] if a.type.endswith("| None") else []
    plain = _PLAIN.get(a.check)
    if plain:
        tests.append(f"type({a.name}) is not {plain}")
    elif a.check in INTEGERS or _of_integer(a):
        tests.append(f"type({a.name}) is not int")
    given = f"{op!r}, {a.name!r}, {a.name}"
    if a.check == "choice":
        tests.append(f"type({a.name}) is not str")
        given += f", {_values(a)!r}"
    if tests:
        yield f"    if {' and '.join(tests)}:"
    yield f"{'    ' if tests else ''}    {a.name} = {a.check}({given})"


def _values(a: Argument) -> tuple[Any, ...]:
    """The values that a Literal allows."""
    return tuple(ast.literal_eval(a.type.removesuffix(" | None").removeprefix("Literal")))


def _key(f: Declared) -> str:
    layouts = [
        f"None if {a.name} is None else {a.name}._layout" if a.optional else f"{a.name}._layout"
        for a in f.arrays
    ]
    return "".join(f"{part}, " for part in layouts) + _decisive(f)


def _decisive(f: Declared) -> str:
    """The values that, together with layouts, determine the result of the rule."""
    parts = [o.name for o in f.options] + (["recording()"] if f.tape else [])
    return "".join(f"{part}, " for part in parts)


def _short(f: Declared, kernel: str) -> Iterator[str]:
    """Lines that run a cached call for tensors of known layouts, into new results."""
    conditions = ["out is None"] if any(a.kind == "out" for a in f.arguments) else []
    conditions += [
        f"({a.name} is None or isinstance({a.name}, Tensor))"
        if a.optional
        else f"isinstance({a.name}, Tensor)"
        for a in f.arrays
    ]
    by_tensor = {a.tensor.name: a for a in f.arrays if a.tensor}
    places = [*_bits(f), *(f"{t.name}_at" for t in f.spec.tensors)]
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


def _literal(value: Any) -> str:
    """A constant as Python source; infinities are included."""
    number = isinstance(value, float) and not math.isfinite(value)
    return f"float('{value}')" if number else repr(value)


def _bits(f: Declared) -> list[str]:
    """The kernel's scalars of the type `bits`, whose words the rule computes."""
    return [p.name for p in f.spec.params if p.arg and p.type == "bits"]


def _scalars(f: Declared) -> str:
    """The scalars of a launch in the kernel's order: numbers of the call, bits of the cached call,
    and constants."""
    given, fixed = {n.name: n.name for n in f.numbers}, _constants(f)
    given |= {n: f"*{n}" for n in _bits(f)}
    names = [p.name for p in f.spec.params if p.arg]
    return "".join(f"{given[n] if n in given else repr(fixed[n])}, " for n in names)


def _constants(f: Declared) -> dict[str, Any]:
    """The kernel's scalars and options that are not arguments of the function: values that the
    wrapper sets, or defaults."""
    given = {a.name for a in f.arguments}
    scalars = {p.name: p.default for p in f.spec.params if p.arg and p.name not in given}
    options = {o.name: o.default for o in f.spec.options if o.name not in given}
    return scalars | options | fixed_scalars(f.spec, f.wrapper)


_RAISES = "DTypeError, ShapeError, ArgumentError and the errors of `pykernels.kernels`."


def _docstring(f: Function) -> str:
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
            rest = " " * (8 if head == "Raises:" and ": " in paragraph else 4)
            lines += textwrap.wrap(f"    {paragraph}", 96, subsequent_indent=rest)
    return "\n".join([*lines, '"""'])
