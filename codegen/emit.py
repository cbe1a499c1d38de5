"""Emits the typed Python modules: one per body, one per public kernel."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence

from .head import PARAM_TYPES
from .spec import DTYPE_NAMES, Param, Spec, TensorSpec

__all__ = ["emit_body", "emit_functional", "emit_index", "emit_kernel"]

_HEADER = (
    '"""Generated from {file} by codegen; do not edit."""\n\nfrom __future__ import annotations\n'
)
_PY_TYPES = {"u32": "int", "i32": "int", "f32": "float", "bits": "float"}


def _view_type(t: TensorSpec) -> str:
    return "View | None" if t.optional else "View"


def emit_body(spec: Spec) -> str:
    """`_generated/bodies/NAME.py`: BODY and `step`, which fills in one dispatch."""
    out = [_HEADER.format(file=spec.file)]
    out.append(
        "from pykernels.layout import Nd, Rows, Tiles, View\n"
        "from pykernels.plan import Body, Bound, Caps, Step, cdiv, dtype, unit_of\n"
    )
    plan_params = [p for p in spec.params if not p.arg]
    args = [p for p in spec.params if p.arg]
    values = "".join(PARAM_TYPES[p.type] for p in plan_params)
    fmt = "".join(PARAM_TYPES[p.type] for p in args)
    arg_names = [n for p in args for n in _fields(p)]
    out.append(
        f"BODY = Body(\n    name={spec.name!r},\n    axes={_tuple([a.name for a in spec.axes])},\n"
        f"    values={values!r},\n    args={_tuple(arg_names)},\n    args_format={fmt!r},\n)\n"
    )
    keyword = [f"{a.name}: {a.type}" for a in spec.axes if not a.pick]
    keyword += [f"{p.name}: {_PY_TYPES[p.type]}" for p in plan_params if not p.value]
    signature = ["caps: Caps"] + [f"{t.name}: {_view_type(t)}" for t in spec.tensors]
    signature += ["*", *keyword] if keyword else []
    out.append("\ndef step(\n    " + ",\n    ".join(signature) + ",\n) -> Step:")
    doc = f"One dispatch of {spec.file}."
    out.append(f'    """{doc}"""')
    out += _step_lines(spec, plan_params)
    return "\n".join(out) + "\n"


def _fields(p: Param) -> list[str]:
    return [f"{p.name}_lo", f"{p.name}_hi"] if p.type == "bits" else [p.name]


def _tuple(items: Sequence[str]) -> str:
    return repr(tuple(items))


def _step_lines(spec: Spec, plan_params: Sequence[Param]) -> list[str]:
    lines = []
    if spec.iterate != "none":
        last = [t.name for t in spec.tensors if t.index and not t.optional][-1]
        views = ", ".join(f'"{t.name}": {t.name}' for t in spec.tensors if t.index)
        space = spec.iterate.capitalize()
        lines.append(f"    it = {space}({last}.shape, {{{views}}})")
    for a in spec.axes:
        if a.pick:
            lines.append(f"    {a.name} = {a.pick}")
    lines.append("    bound = []")
    for t in spec.tensors:
        vec = t.vec or "1"
        elem = f"{t.name}.dtype.itemsize" + (f" * {t.vec}" if t.vec else "")
        if t.optional:
            size = _dtype_size(t)
            elem = f"({t.name}.dtype.itemsize if {t.name} else {size})" + (
                f" * {t.vec}" if t.vec else ""
            )
        unit = f"unit_of({t.bind})" if t.bind else elem
        steps = ""
        if spec.iterate != "none" and t.index:
            steps = f", it.steps({t.name!r}, {vec})"
            if t.optional and not t.when:
                steps = f", it.steps({t.name!r}, {vec}) if {t.name} else it.absent"
        extra = (", readonly=True" if t.readonly else "") + (
            f", alias={t.alias!r}" if t.alias else ""
        )
        line = (
            f"bound.append(Bound({t.name!r}, {t.role!r}, {t.name}, {unit}, {elem}{steps}{extra}))"
        )
        if t.when:
            lines.append(f"    if {t.when}:")
            line = "    " + line
        lines.append("    " + line)
    axes = "".join(f"{a.name}, " for a in spec.axes)
    words = "it.params()" if spec.iterate != "none" else "()"
    values = "".join(f"{p.value or p.name}, " for p in plan_params)
    lines.append(f"    return Step(BODY, ({axes}), tuple(bound), {words}, ({values}), {spec.grid})")
    return lines


def _dtype_size(t: TensorSpec) -> int:
    return {"f16": 2}.get(t.dtype, 4)


def emit_kernel(spec: Spec, has_plan: bool) -> str:
    """`_generated/NAME.py`: the wrapper that people call, with its tensor rules."""
    out = [_HEADER.format(file=spec.file)]
    out.append("from typing import Any, Literal\n")
    out.append("from pykernels.dtypes import DTypeLike")
    out.append("from pykernels.launch import launch")
    out.append("from pykernels.plan import Arg, Caps, Kernel, Scratch, Step")
    if any(p.type == "bits" for p in spec.params):
        out.append("from pykernels.scalars import bits_of")
    out.append("from pykernels.layout import View")
    out.append("from pykernels.tensor import Tensor\n")
    if has_plan:
        out.append(f"from pykernels.plans.{spec.name} import plan\n")
    else:
        out.append(f"from .bodies.{spec.name} import step\n")
        views = ", ".join(f"{t.name}: {_view_type(t)}" for t in spec.tensors)
        options = "".join(f", {o.name}: Any" for o in spec.options)
        given = ", ".join(t.name for t in spec.tensors)
        out.append(
            f"\ndef plan(caps: Caps, scratch: Scratch, {views}{options}) -> list[Step]:\n"
            f'    """A single dispatch."""\n    return [step(caps, {given})]\n'
        )
    scalars = [n for p in spec.params if p.arg for n in _fields(p)]
    out.append("\nKERNEL = Kernel(")
    out.append(f"    name={spec.name!r},")
    out.append("    args=(")
    out += [f"        {_arg(t)}," for t in spec.tensors]
    out.append("    ),")
    out.append(f"    scalars={_tuple(scalars)},")
    out.append("    plan=plan,")
    if spec.moves_bytes:
        out.append("    moves_bytes=True,")
    out.append(")\n")
    out.append(_wrapper(spec, spec.name, spec.doc, {}))
    for name, fixed in spec.wrappers.items():
        doc = fixed.get("doc", spec.doc)
        out.append(_wrapper(spec, name, doc, {k: v for k, v in fixed.items() if k != "doc"}))
    return "\n".join(out)


def _arg(t: TensorSpec) -> str:
    fields = [f"{t.name!r}", f"{t.role!r}", _tuple(t.dtypes)]
    for key in ("like", "broadcast", "alias"):
        if getattr(t, key):
            fields.append(f"{key}={getattr(t, key)!r}")
    for key in ("optional", "readonly"):
        if getattr(t, key):
            fields.append(f"{key}=True")
    if t.dtype not in ("*", *DTYPE_NAMES):
        fields.append(f"same={t.dtype!r}")
    return f"Arg({', '.join(fields)})"


def _default(p: Param) -> str:
    return "" if p.default is None else f" = {p.default!r}"


def _scalar_type(p: Param) -> str:
    if isinstance(p.default, bool):
        return "bool"
    return _PY_TYPES[p.type]


def _wrapper(spec: Spec, name: str, doc: str, fixed: dict[str, object]) -> str:
    required = [t for t in spec.tensors if not t.optional]
    optional = [t for t in spec.tensors if t.optional]
    args = [p for p in spec.params if p.arg]
    positional = [f"{t.name}: Tensor" for t in required]
    positional += [f"{p.name}: {_scalar_type(p)}" for p in args if p.default is None]
    keyword = [f"{t.name}: Tensor | None = None" for t in optional]
    keyword += [
        f"{p.name}: {_scalar_type(p)}{_default(p)}"
        for p in args
        if p.default is not None and p.name not in fixed
    ]
    keyword += [f"{o.name}: {o.type} = {o.default!r}" for o in spec.options]
    signature = positional + (["*", *keyword] if keyword else [])
    tensors = "".join(f"{t.name}, " for t in spec.tensors)
    scalars = "".join(_scalar(spec, p, fixed) + ", " for p in args)
    options = "".join(f"{o.name}, " for o in spec.options)
    lines = [f"\ndef {name}(", *(f"    {s}," for s in signature), ") -> None:"]
    lines += textwrap.indent(_docstring(spec, doc), "    ").splitlines()
    lines.append(f"    launch(KERNEL, ({tensors}), ({scalars}), ({options}))")
    return "\n".join(lines) + "\n"


def _scalar(spec: Spec, p: Param, fixed: dict[str, object]) -> str:
    if p.type == "bits":
        of = repr(p.of) if p.of in DTYPE_NAMES.values() else f"{p.of}.dtype"
        return f"*bits_of({spec.name!r}, {p.name}, {of})"
    return repr(fixed[p.name]) if p.name in fixed else p.name


def _docstring(spec: Spec, doc: str) -> str:
    lines = ['"""' + doc, "", "Args:"]
    for t in spec.tensors:
        role = "output" if t.role == "out" else "input"
        dtypes = "any dtype" if len(t.dtypes) == len(DTYPE_NAMES) else " or ".join(t.dtypes)
        rules = [dtypes, "optional"] if t.optional else [dtypes]
        if t.like:
            rules.append(f"the shape of {t.like}")
        if t.broadcast:
            rules.append(f"broadcast to {t.broadcast}")
        text = f"{role}, {', '.join(rules)}." + (f" {t.doc}" if t.doc else "")
        lines += textwrap.wrap(f"    {t.name}: {text}", 96, subsequent_indent=" " * 8)
    for p in (*(p for p in spec.params if p.arg), *spec.options):
        if p.doc:
            lines += textwrap.wrap(f"    {p.name}: {p.doc}", 96, subsequent_indent=" " * 8)
    lines += [
        "", "Raises:",
        "    DTypeError, ShapeError, AliasError, LimitError, BufferStateError, DeviceLostError:",
        "        before anything is encoded; no tensor changes.",
    ]  # fmt: skip
    if spec.source:
        lines += ["", f"Source: {spec.source}"]
    return "\n".join([*lines, '"""'])


def emit_functional(specs: Sequence[Spec], by_hand: frozenset[str]) -> str:
    """`_generated/functional.py`: layer two where a function only allocates its output."""
    out = [
        _HEADER.format(file="kernels/*.wgsl"),
        "from typing import overload\n",
        "from pykernels.functional._arrays import Array, Call, NDArray\n"
        "from pykernels.tensor import Tensor\n",
    ]
    names = []
    for spec in specs:
        outputs = [t for t in spec.tensors if t.role == "out"]
        simple = len(outputs) == 1 and outputs[0].like and not spec.part_of
        if not simple or spec.name in by_hand or spec.options:
            continue
        names.append(spec.name)
        out.append(f"from . import {spec.name} as _{spec.name}")
        out.append(_allocating(spec, outputs[0]))
    out.append(f"\n__all__: list[str] = {sorted(names)!r}")
    return "\n".join(out) + "\n"


def _allocating(spec: Spec, dst: TensorSpec) -> str:
    ins = [t for t in spec.tensors if t.role == "in"]
    args = [p for p in spec.params if p.arg]
    rest = [f"{t.name}: {{array}} | None = None" for t in ins if t.optional]
    rest += [f"{p.name}: {_scalar_type(p)}{_default(p)}" for p in args]
    lines = []
    for array, result in (("Tensor", "Tensor"), ("NDArray", "NDArray"), ("Array", "Array")):
        head = [f"{t.name}: {array}" for t in ins if not t.optional]
        keyword = [r.format(array=array) for r in rest] + ["out: Tensor | None = None"]
        if array != "Array":
            lines.append("@overload")
        signature = ", ".join([*head, "*", *keyword])
        tail = ": ..." if array != "Array" else ":"
        lines.append(f"def {spec.name}({signature}) -> {result}{tail}")
    doc = spec.doc.splitlines()[0]
    lines.append(f'    """{doc} Allocates the output unless `out` is given."""')
    lines.append(f"    call = Call({spec.name!r}, {', '.join(t.name for t in ins)})")
    lines.append(f"    {', '.join(t.name + '_' for t in ins)}, = call.tensors")
    for t in ins:
        if not t.optional:
            lines.append(f"    assert {t.name}_ is not None")
    lines.append(f"    dst = call.out(out, {dst.like}_.shape, {dst.like}_.dtype)")
    given = [f"{t.name}_" for t in ins if not t.optional] + [dst.name]
    given += [f"{t.name}={t.name}_" for t in ins if t.optional]
    given += [f"{p.name}={p.name}" for p in args]
    lines.append(f"    _{spec.name}.{spec.name}({', '.join(given)})")
    lines.append("    return call.leave(dst)")
    return "\n" + "\n".join(lines) + "\n"


def emit_index(specs: Sequence[Spec]) -> str:
    """`_generated/__init__.py`: the public wrappers and their names."""
    out = ['"""Generated by codegen; do not edit. The wrappers of all kernels."""\n']
    names: dict[str, str] = {}
    for spec in specs:
        if not spec.part_of:
            for name in (spec.name, *spec.wrappers):
                names[name] = spec.name
    out += [f"from .{module} import {name} as {name}" for name, module in sorted(names.items())]
    out.append(f"\n__all__ = {sorted(names)!r}")
    return "\n".join(out) + "\n"


def checked(name: str, text: str) -> str:
    """The text again, if Python can parse it."""
    ast.parse(text, name)
    return text
