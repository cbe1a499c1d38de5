"""Emits the typed wrappers of public kernels: `_generated/wrappers/NAME.py`."""

from __future__ import annotations

import textwrap
from collections.abc import Collection

from .emit import constant, default, dtype_words, fixed_scalars, module, scalar_type
from .spec import DTYPE_NAMES, Param, Spec

__all__ = ["emit_wrappers"]


def emit_wrappers(spec: Spec) -> str:
    """`_generated/wrappers/NAME.py`: the public wrapper."""
    home = f"pykernels._generated.kernels.{spec.name}"
    names = [constant(spec, name) for name in spec.names]
    imports = [f"from {home} import {name} as {name}" for name in names]
    return module(spec.file, imports, "\n".join(_wrapper(spec, name) for name in spec.names))


def _wrapper(spec: Spec, name: str) -> str:
    fixed = fixed_scalars(spec, name)
    doc = str(spec.wrappers.get(name, {}).get("doc", spec.doc))
    required = [t for t in spec.tensors if not t.optional]
    optional = [t for t in spec.tensors if t.optional]
    args = [p for p in spec.params if p.arg]
    positional = [f"{t.name}: Tensor" for t in required]
    positional += [f"{p.name}: {scalar_type(p)}" for p in args if p.default is None]
    keyword = [f"{t.name}: Tensor | None = None" for t in optional]
    keyword += [
        f"{p.name}: {scalar_type(p)}{default(p)}"
        for p in args
        if p.default is not None and p.name not in fixed
    ]
    keyword += [f"{o.name}: {o.type} = {o.default!r}" for o in spec.options]
    signature = positional + (["*", *keyword] if keyword else [])
    tensors = "".join(f"{t.name}, " for t in spec.tensors)
    scalars = "".join(_scalar(spec, p, fixed) + ", " for p in args)
    options = "".join(f"{o.name}, " for o in spec.options)
    lines = [f"\ndef {name}(", *(f"    {s}," for s in signature), ") -> None:"]
    lines += textwrap.indent(_docstring(spec, doc, fixed), "    ").splitlines()
    launched = constant(spec, name)
    locations = ", ".join(
        f"None if {t.name} is None else {t.name}._location" if t.optional else f"{t.name}._location"
        for t in spec.tensors
    )
    given = [(p.name, scalar_type(p)) for p in args if p.type != "bits" and p.name not in fixed]
    for argument, type_ in given + [(o.name, o.type) for o in spec.options]:
        lines += _plain(name, argument, type_)
    lines += [
        "    try:",
        f"        key = ({launched}, ({options}), {locations})",
        "    except AttributeError:",
        f"        raise wrong_type({launched}, ({tensors})) from None",
        f"    launch(key, ({tensors}), ({scalars}))",
    ]
    return "\n".join(lines) + "\n"


# For each type of options and scalars, the function that converts other values to the type.
_CONVERT = {"int": "integer", "float": "real", "bool": "flag"}


def _plain(op: str, name: str, type_: str) -> list[str]:
    """Lines that convert values of other types to plain values; for a plain value they cost one
    comparison."""
    kind = type_.removesuffix(" | None")
    first = kind.split(" | Literal")[0]
    convert = "integers" if "tuple[" in kind else _CONVERT.get(first)
    if not convert:
        return []
    plain = {"real": "float", "flag": "bool"}.get(convert, "int")
    tests = [f"{name} is not None"] if type_ != kind else []
    tests += [] if kind.startswith("tuple[") else [f"type({name}) is not {plain}"]
    tests += [f"type({name}) is not str"] if first == "bool" != kind else []
    return [
        f"    if {' and '.join(tests)}:",
        f"        {name} = {convert}({op!r}, {name!r}, {name})",
    ]


def _scalar(spec: Spec, p: Param, fixed: dict[str, object]) -> str:
    if p.type == "bits":
        of = repr(p.of) if p.of in DTYPE_NAMES.values() else f"{p.of}.dtype"
        name = "" if p.name == "value" else f", {p.name!r}"
        return f"*bits_of({spec.name!r}, {p.name}, {of}{name})"
    return repr(fixed[p.name]) if p.name in fixed else p.name


def _docstring(spec: Spec, doc: str, fixed: Collection[str]) -> str:
    lines = ['"""' + doc, "", "Args:"]
    for t in sorted(spec.tensors, key=lambda t: t.optional):
        role = "in and out" if t.in_place else "output" if t.role == "out" else "input"
        rules = [dtype_words(t), "optional"] if t.optional else [dtype_words(t)]
        if t.like:
            rules.append(f"the shape of {t.like}")
        if t.broadcast:
            rules.append(f"broadcast to {t.broadcast}")
        if t.expand:
            rules.append(f"broadcast to {t.expand} by numpy's rule")
        text = f"{role}, {', '.join(rules)}." + (f" {t.doc}" if t.doc else "")
        lines += textwrap.wrap(f"    {t.name}: {text}", 96, subsequent_indent=" " * 8)
    scalars = [p for p in spec.params if p.arg and p.name not in fixed]
    docs = [(p.name, p.doc) for p in scalars] + [(o.name, o.doc) for o in spec.options]
    for name, text in docs:
        if text:
            lines += textwrap.wrap(f"    {name}: {text}", 96, subsequent_indent=" " * 8)
    lines += [
        "", "Raises:",
        "    DTypeError, ShapeError, AliasError, LimitError, BufferStateError, DeviceLostError:",
        "        before anything is encoded; no tensor changes.",
    ]  # fmt: skip
    if spec.source:
        lines += ["", f"Source: {spec.source}"]
    return "\n".join([*lines, '"""'])
