"""Emits the JavaScript and TypeScript of bodies and kernels, for `pykernels export`, and the same
facts as data, for exports in other languages.

Spec expressions, which `emit.py` writes as lines of Python, are translated in the same way as
plans. The translated lines call `Rows`, `axisSteps`, `Step` and others in pykernels/export/module/,
which has the same functions as tensors/layout.py and runtime/lower.py.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pykernels.export._javascript import expression, safe
from pykernels.wgsl.interface import CONFIG

from .emit import config_is_read, fixed_scalars, has_bools, one_dtype, seen, words
from .spec import DTYPE_NAMES, PARAM_TYPES, Param, Spec, TensorSpec

__all__ = ["emit_javascript"]

_TS_TYPES = {"int": "number", "float": "number", "str": "string", "bool": "boolean", "None": "null"}


def _taken(name: str) -> str:
    """A member in a destructuring pattern, under a name that JavaScript allows."""
    return name if safe(name) == name else f"{name}: {safe(name)}"


# -- bodies ---------------------------------------------------------------------------------------


def _body(spec: Spec) -> str:
    """The entry of a body: names and formats of Params, and `step`, which returns a dispatch."""
    plan_params = [p for p in spec.params if not p.arg]
    args = [p for p in spec.params if p.arg]
    given = [a.name for a in spec.axes if not a.pick] + [p.name for p in plan_params if not p.value]
    tensors = ", ".join(_taken(t.name) for t in spec.tensors)
    signature = f"caps, {{ {tensors} }}" + (f", {{ {', '.join(given)} }}" if given else "")
    lines = [f"bodies.{spec.name} = {{", f"  name: {json.dumps(spec.name)},"]
    lines.append(f"  axes: {json.dumps([a.name for a in spec.axes])},")
    lines.append(f"  tensors: {json.dumps([t.name for t in spec.tensors])},")
    lines.append(f"  values: {json.dumps(''.join(PARAM_TYPES[p.type] for p in plan_params))},")
    lines.append(f"  args: {json.dumps([n for p in args for n in p.fields])},")
    lines.append(f"  argsFormat: {json.dumps(''.join(PARAM_TYPES[p.type] for p in args))},")
    if spec.faults:
        lines.append("  faults: true,")
    if spec.configs:
        lines.append(f"  configs: {json.dumps(spec.configs)},")
    lines.append(f"  step({signature}) {{")
    words = "[]"
    if spec.iterate != "none":
        indexed = [t for t in spec.tensors if t.index]
        views = ", ".join(
            t.name if _seen(t) == t.name else f"{t.name}: {_seen(t)}" for t in indexed
        )
        of = f"{_seen(spec.filled)}.shape, {{ {views} }}"
        of += f", {json.dumps(spec.repeats)}" if spec.repeats else ""
        lines.append(f"    const it = new py.{spec.iterate.capitalize()}({of});")
        words = "it.params()"
    for a in spec.axes:
        if a.pick:
            lines.append(f"    const {a.name} = {expression(a.pick)};")
        if a.configs and config_is_read(spec):
            lines.append(f"    const {CONFIG} = this.configs[{a.name}];")
        if a.name == spec.vectors:
            lines.append(f"    it.in_vectors({a.name});")
    lines.append("    const list = [];")
    lines += [f"    {line}" for t in spec.tensors for line in [_bound(spec, t)]]
    axes = ", ".join(a.name for a in spec.axes)
    values = ", ".join(expression(p.value) if p.value else p.name for p in plan_params)
    grid = expression(spec.grid)
    lines.append(
        f"    return new Step(this, [{axes}], list, {words}, [{values}], {grid});\n  }},\n}};"
    )
    return "\n".join(lines) + "\n"


def _seen(t: TensorSpec) -> str:
    """The expression of the view by which the index space sees a tensor."""
    return expression(seen(t)) if seen(t) != t.name else safe(t.name)


def _bound(spec: Spec, t: TensorSpec) -> str:
    view = safe(t.name)
    size = f"{view}.dtype.itemsize"
    if t.optional:
        size = f"({view} ? {size} : {2 if t.dtype == 'f16' else 4})"
    elem = size + (f" * {t.vec}" if t.vec else "")
    unit = f"Math.max({elem}, 4)" if has_bools(t) else elem
    unit = f"unitOf({expression(t.bind)})" if t.bind else unit
    parts = []
    if spec.iterate != "none" and t.index:
        parts.append(f"it.steps({json.dumps(t.name)}, {t.vec or 1})")
        if t.optional and not t.when:
            parts[0] = f"({view} ? {parts[0]} : it.absent)"
    if t.steps:
        told = ", ".join(map(json.dumps, ("".join(t.axes), "".join(t.steps))))
        name = f"{json.dumps(spec.name)}, {json.dumps(t.name)}"
        parts.append(f"axisSteps({name}, {view}, {told}, {elem})")
    steps = parts[0] if len(parts) == 1 else f"[{', '.join(f'...{x}' for x in parts)}]"
    extra = (", readonly: true" if t.readonly else "") + (
        f", alias: {json.dumps(t.alias)}" if t.alias else ""
    )
    when = f"if ({expression(t.when, test=True)}) " if t.when else ""
    return (
        f"{when}list.push({{ name: {json.dumps(t.name)}, role: {json.dumps(t.role)}, "
        f"view: {view}, unit: {unit}, elem: {elem}, strides: {steps}{extra} }});"
    )


def _step(spec: Spec) -> dict[str, Any]:
    """The same as `step` of `_body`, as data; expressions stay in Python, as in the spec."""
    tensors = [
        {"name": t.name, "role": t.role, "itemsize": 2 if t.dtype == "f16" else 4}
        | {k: v for k in ("optional", "bind", "when", "readonly", "alias") if (v := getattr(t, k))}
        | ({"vec": str(t.vec)} if t.vec else {})
        | ({"bools": True} if has_bools(t) else {})
        | ({"index": seen(t)} if spec.iterate != "none" and t.index else {})
        | ({"axes": "".join(t.axes), "steps": "".join(t.steps)} if t.steps else {})
        for t in spec.tensors
    ]
    space: dict[str, Any] | None = None
    if spec.iterate != "none":
        space = {"kind": spec.iterate.capitalize(), "of": seen(spec.filled)}
        space |= {"vectors": spec.vectors, "repeats": list(spec.repeats)}
    return {
        "tensors": tensors,
        "space": space,
        "axes": [[a.name, a.pick] for a in spec.axes],
        "config": next((a.name for a in spec.axes if a.configs and config_is_read(spec)), ""),
        "configs": [[name, list(row.items())] for name, row in (spec.configs or {}).items()],
        "values": [[PARAM_TYPES[p.type], p.value or p.name] for p in spec.params if not p.arg],
        "args": [[n, PARAM_TYPES[p.type]] for p in spec.params if p.arg for n in p.fields],
        "faults": bool(spec.faults),
        "groups": spec.grid,
    }


# -- kernels --------------------------------------------------------------------------------------


def _kernel(spec: Spec, name: str, planned: bool) -> dict[str, Any]:
    """The export of one wrapper: its entry as data, and its function in JavaScript and
    TypeScript."""
    fixed = fixed_scalars(spec, name)
    rules = [
        {"name": t.name, "role": t.role, "dtypes": list(t.dtypes), "optional": t.optional}
        | {k: getattr(t, k) for k in ("like", "broadcast", "expand", "alias") if getattr(t, k)}
        | ({"readonly": True} if t.readonly else {})
        | ({"axes": "".join(t.axes)} if t.axes and not (planned or spec.plan) else {})
        | ({"same": one_dtype(t)} if one_dtype(t) else {})
        for t in spec.tensors
    ]
    scalars = [
        {"name": p.name, "type": p.type}
        | ({"of": p.of} if p.of else {})
        | ({"default": p.default} if p.default is not None else {})
        | ({"fixed": fixed[p.name]} if p.name in fixed else {})
        | ({"member": f"c{i}"} if spec.row is not None and p.name != f"c{i}" else {})
        for i, p in enumerate(p for p in spec.params if p.arg)
    ]
    options = [{"name": o.name, "type": o.type, "default": o.default} for o in spec.options]
    own = safe(name)
    axes = ", ".join(f"{axis}: {json.dumps(value)}" for axis, value in spec.fixed_axes)
    given = f"caps, views, {{ {axes} }}" if axes else "caps, views"
    body = spec.body or spec.name
    plan = "null" if planned else f"(caps, views) => [bodies.{body}.step({given})]"
    data = {"name": name, "of": spec.name, "tensors": rules, "scalars": scalars, "options": options}
    js = (
        f"kernels.{name} = {{\n  ...{json.dumps(data)},\n  plan: {plan},\n}};\n"
        f"{'export ' if own == name else ''}function {own}(gpu, args, plan = undefined) {{\n"
        f"  return gpu.call(kernels.{name}, args, plan);\n}}\n{_exported(name)}"
    )
    doc = str(spec.wrappers.get(name, {}).get("doc", spec.doc))
    return {
        **{k: v for k, v in data.items() if k != "name"},
        "doc": doc,
        "planned": planned,
        "plan": spec.plan,
        "family": spec.family,
        "row": bool(spec.fixed_axes),
        "body": body,
        "fixed_axes": dict(spec.fixed_axes),
        "js": js,
        "dts": _declaration(spec, name, doc, fixed),
    }


def _exported(name: str) -> str:
    """The export statement for a function whose name JavaScript reserves: only an export may have
    such a name."""
    return "" if safe(name) == name else f"export {{ {safe(name)} as {name} }};\n"


def _declaration(spec: Spec, name: str, doc: str, fixed: Collection[str]) -> str:
    lines = ["/**", *_comment(doc, " ")]
    word = "export" if safe(name) == name else "declare"
    lines += [" */", f"{word} function {safe(name)}(gpu: Kernels, args: {{"]
    for t in sorted(spec.tensors, key=lambda t: t.optional):
        role = "output" if t.role == "out" else "input"
        rules = f"{role}, {words(t.dtypes)}" + (f", the shape of {t.like}" if t.like else "")
        rules += f", broadcast to {t.broadcast or t.expand}" if t.broadcast or t.expand else ""
        names = " | ".join(json.dumps(d) for d in t.dtypes)
        kind = "Tensor" if len(t.dtypes) == len(DTYPE_NAMES) else f"Tensor<{names}>"
        mark, none = ("?", " | null") if t.optional else ("", "")
        lines.append(f"  /** {rules}{'. ' + t.doc if t.doc else ''} */")
        lines.append(f"  {t.name}{mark}: {kind}{none};")
    for p in spec.params:
        if p.arg and p.name not in fixed:
            lines += _field(p.name, p.doc, _scalar_type(p), p.default)
    for o in spec.options:
        lines += _field(o.name, o.doc, _ts_type(o.type), o.default)
    views = "; ".join(f"{t.name}: View{' | null' if t.optional else ''}" for t in spec.tensors)
    end = f"}}, plan?: Plan<{{ {views} }}>): Promise<Call>;"
    return "\n".join([*lines, end, _exported(name)])


def _field(name: str, doc: str, kind: str, default: object) -> list[str]:
    """One optional or required member of the arguments."""
    told = f"{doc} Default: {json.dumps(default)}.".strip() if default is not None else doc
    mark = "?" if default is not None or "null" in kind else ""
    return [*([f"  /** {told} */"] if told else []), f"  {name}{mark}: {kind};"]


def _scalar_type(p: Param) -> str:
    if p.type == "bits":
        return "number | bigint | boolean"
    return "boolean" if isinstance(p.default, bool) else "number"


def _ts_type(python: str) -> str:
    """A Python annotation as a type of TypeScript; `unknown` if the annotation is not simple."""
    return _ts(ast.parse(python, mode="eval").body)


def _ts(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp):
        parts = [_ts(node.left), _ts(node.right)]
        return "unknown" if "unknown" in parts else " | ".join(parts)
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if ast.unparse(node.value) == "Literal":
            return " | ".join(expression(ast.unparse(word)) for word in inner)
        if ast.unparse(node.value) == "tuple":
            if ast.unparse(inner[-1]) == "...":
                return f"readonly {_ts(inner[0])}[]"
            return f"readonly [{', '.join(map(_ts, inner))}]"
    return _TS_TYPES.get(ast.unparse(node), "unknown")


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}* {line}".rstrip() for line in text.replace("*/", "* /").split("\n")]


def emit_javascript(
    specs: Sequence[Spec], kernels: Sequence[Spec], has_plan: Callable[[str], bool]
) -> dict[str, Any]:
    """The parts from which `pykernels export` makes a module, by body and by kernel."""
    with_body = [s for s in specs if not s.bodies]
    return {
        "bodies": {
            s.name: {
                "js": _body(s),
                "step": _step(s),
                "grid": s.grid,
                "axes": [a.name for a in s.axes],
            }
            for s in with_body
        },
        "kernels": {n: _kernel(s, n, has_plan(s.name)) for s in kernels for n in s.names},
    }
