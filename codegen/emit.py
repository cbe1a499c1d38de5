"""Emits the typed Python modules: one for each body, and one with the data of each public
kernel."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from pykernels.contract import accepted
from pykernels.errors import either
from pykernels.wgsl.interface import CONFIG

from .spec import DTYPE_NAMES, PARAM_TYPES, Param, Spec, TensorSpec

__all__ = [
    "checked",
    "config_is_read",
    "constant",
    "default",
    "dtype_words",
    "emit_body",
    "emit_index",
    "emit_kernel",
    "emit_package",
    "fixed_scalars",
    "has_bools",
    "lazy",
    "module",
    "scalar_type",
    "seen",
    "words",
]

# For each name that generated modules may use, the module that has it.
_IMPORTS = {
    "dataclasses": ("replace",),
    "collections.abc": ("Sequence",),
    "typing": ("Any", "Literal", "NamedTuple", "Unpack", "overload"),
    "pykernels.call.arrays": ("Array", "NDArray"),
    "pykernels.call.autocast": ("live", "recast"),
    "pykernels.call.operation": ("Operation", "either"),
    "pykernels.device": ("Tensor",),
    "pykernels.call.apply": ("Operations", "operate"),
    "pykernels.dtypes": ("DTypeLike",),
    "pykernels.wgsl.watch": ("Watch",),
    "pykernels.tensors.layout": ("Nd", "Rows", "Tiles", "View"),
    "pykernels.steps": (
        "Arg", "Body", "Bound", "Caps", "Kernel", "Scratch", "Step", "axis_steps", "cdiv", "dtype",
        "seen_keys", "seen_pairs", "spans", "taps", "touched", "unit_of",
    ),
    "pykernels.runtime.launch": ("launch", "wrong_type"),
    "pykernels.runtime.observe": ("recording",),
    "pykernels.runtime.whole": ("whole",),
    "pykernels.call.scalars": ("axes", "bits_of", "choice", "flag", "integer", "integers", "real"),
}  # fmt: skip
# Generated bodies and kernels import names of these modules only, so an axis may have any name that
# is not one of these.
_DATA = (
    "dataclasses",
    "typing",
    "pykernels.wgsl.watch",
    "pykernels.tensors.layout",
    "pykernels.steps",
)
_PY_TYPES = {"u32": "int", "i32": "int", "f32": "float", "bits": "float"}


def module(
    file: str, imports: Sequence[str], text: str, homes: Collection[str] = tuple(_IMPORTS)
) -> str:
    """A generated module: its header, the imports that the text needs, `imports`, the text."""
    code = re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
    words = set(re.findall(r"(?<![.\w])\w+", code))
    lines = [f'"""Generated from {file} by codegen; do not edit."""', ""]
    lines += ["from __future__ import annotations", ""]
    for home in homes:
        used = [n for n in _IMPORTS[home] if n in words]
        if used:
            lines.append(f"from {home} import {', '.join(used)}")
            if home in ("collections.abc", "typing"):
                lines.append("")
    return "\n".join([*lines, *imports, "", text.strip("\n"), ""])


def _view_type(t: TensorSpec) -> str:
    return "View | None" if t.optional else "View"


def emit_body(spec: Spec) -> str:
    """`_generated/bodies/NAME.py`: BODY, `step`, which returns one dispatch, and CONFIGS."""
    out = _configs(spec)
    plan_params = [p for p in spec.params if not p.arg]
    args = [p for p in spec.params if p.arg]
    values = "".join(PARAM_TYPES[p.type] for p in plan_params)
    fmt = "".join(PARAM_TYPES[p.type] for p in args)
    arg_names = [n for p in args for n in p.fields]
    out.append(
        f"BODY = Body(\n    name={spec.name!r},\n    axes={_tuple([a.name for a in spec.axes])},\n"
        f"    values={values!r},\n    args={_tuple(arg_names)},\n    args_format={fmt!r},\n"
        + ("    faults=True,\n" if spec.faults else "")
        + ")\n"
    )
    keyword = [f"{a.name}: {a.type}" for a in spec.axes if not a.pick]
    keyword += [f"{p.name}: {_PY_TYPES[p.type]}" for p in plan_params if not p.value]
    if spec.faults:
        keyword.append("watch: Watch | None")
    signature = ["caps: Caps"] + [f"{t.name}: {_view_type(t)}" for t in spec.tensors]
    signature += ["*", *keyword] if keyword else []
    out.append("\ndef step(\n    " + ",\n    ".join(signature) + ",\n) -> Step:")
    doc = f"One dispatch of {spec.file}."
    out.append(f'    """{doc}"""')
    out += _step_lines(spec, plan_params)
    return module(spec.file, [], "\n".join(out), _DATA)


def _configs(spec: Spec) -> list[str]:
    """The table of configurations as typed data."""
    if not spec.configs:
        return []
    fields = next(iter(spec.configs.values()))
    lines = ["class Config(NamedTuple):", f'    """One of the configurations of {spec.file}."""\n']
    lines += [f"    {name}: {type(value).__name__}" for name, value in fields.items()]
    lines.append("\n\nCONFIGS: dict[str, Config] = {")
    for name, row in spec.configs.items():
        values = ", ".join(f"{k}={v!r}" for k, v in row.items())
        lines.append(f"    {name!r}: Config({values}),")
    return [*lines, "}\n"]


def config_is_read(spec: Spec) -> bool:
    """True if an expression of `step` reads the configuration."""
    texts = [spec.grid, *(a.pick for a in spec.axes), *(p.value for p in spec.params)]
    texts += [text for t in spec.tensors for text in (t.when, t.bind)]
    return any(re.search(rf"\b{CONFIG}\b", text) for text in texts)


def emit_package(specs: Sequence[Spec]) -> str:
    """An `__init__.py` that changes whenever a module beside it changes, so that mypy's cache
    notices."""
    names = "\n".join(f"    from . import {s.name} as {s.name}" for s in specs)
    return (
        '"""Generated by codegen; do not edit."""\n\nfrom typing import TYPE_CHECKING\n\n'
        f"if TYPE_CHECKING:\n{names}\n"
    )


def seen(t: TensorSpec) -> str:
    """The expression of the view by which the index space sees a tensor."""
    return t.over or t.name


def has_bools(t: TensorSpec) -> bool:
    """True if the tensor's elements may be bools, which are bytes and are bound as words."""
    return not t.bind and "bool" in t.dtypes


def _tuple(items: Sequence[str]) -> str:
    return repr(tuple(items))


def _step_lines(spec: Spec, plan_params: Sequence[Param]) -> list[str]:
    lines = []
    if spec.iterate != "none":
        views = ", ".join(f'"{t.name}": {seen(t)}' for t in spec.tensors if t.index)
        given = [f"{seen(spec.filled)}.shape", f"{{{views}}}"]
        given += [_tuple(spec.repeats)] if spec.repeats else []
        lines.append(f"    it = {spec.iterate.capitalize()}({', '.join(given)})")
    for a in spec.axes:
        if a.pick:
            lines.append(f"    {a.name} = {a.pick}")
        if a.configs and config_is_read(spec):
            lines.append(f"    {CONFIG} = CONFIGS[{a.name}]")
        if a.name == spec.vectors:
            lines.append(f"    it.in_vectors({a.name})")
    lines.append("    bound = []")
    for t in spec.tensors:
        vec = t.vec or "1"
        elem = f"{t.name}.dtype.itemsize" + (f" * {t.vec}" if t.vec else "")
        if t.optional:
            size = _dtype_size(t)
            elem = f"({t.name}.dtype.itemsize if {t.name} else {size})" + (
                f" * {t.vec}" if t.vec else ""
            )
        unit = f"unit_of({t.bind})" if t.bind else f"max({elem}, 4)" if has_bools(t) else elem
        parts = []
        if spec.iterate != "none" and t.index:
            parts.append(f"it.steps({t.name!r}, {vec})")
            if t.optional and not t.when:
                parts[0] += f" if {t.name} else it.absent"
        if t.steps:
            named = f"{spec.name!r}, {t.name!r}, {t.name}, {''.join(t.axes)!r}"
            parts.append(f"axis_steps({named}, {''.join(t.steps)!r}, {elem})")
        joined = " + ".join(f"({x})" if " if " in x and len(parts) > 1 else x for x in parts)
        steps = f", {joined}" if parts else ""
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
    watch = ", watch" if spec.faults else ""
    fields = f"BODY, ({axes}), tuple(bound), {words}, ({values}), {spec.grid}{watch}"
    lines.append(f"    return Step({fields})")
    return lines


def _dtype_size(t: TensorSpec) -> int:
    return {"f16": 2}.get(t.dtype, 4)


def emit_kernel(spec: Spec, has_plan: bool) -> str:
    """`_generated/kernels/NAME.py`: the rules of its tensors, its plan and its work, as data."""
    out = []
    if spec.plan:
        home = f"pykernels.plans.{spec.family}.{spec.plan}"
        imports = [
            f"from {home} import choose as choose",
            f"from {home} import plan as {spec.plan}",
        ]
        views = ", ".join(f"{t.name}: View" for t in spec.tensors)
        options = "".join(f", {o.name}: {o.type}" for o in spec.options)
        given = ", ".join([t.name for t in spec.tensors] + [o.name for o in spec.options])
        out.append(
            f"\ndef plan(caps: Caps, scratch: Scratch, {views}{options}) -> list[Step]:\n"
            f'    """The steps of {spec.plan}."""\n'
            f"    return {spec.plan}(caps, scratch, {given}, name={spec.name!r})\n"
        )
    elif has_plan:
        imports = [f"from pykernels.plans.{spec.family}.{spec.name} import plan"]
    elif spec.row is not None:
        imports = ["", f"from pykernels._generated.bodies.{spec.body} import step"]
        imports.append("from pykernels.plans.elementwise.rows import plan_of")
        out.append(f"\nplan = plan_of({spec.name!r}, step)\n")
    else:
        imports = ["", f"from pykernels._generated.bodies.{spec.name} import step"]
        views = ", ".join(f"{t.name}: {_view_type(t)}" for t in spec.tensors)
        options = "".join(f", {o.name}: {o.type}" for o in spec.options)
        given = ", ".join(t.name for t in spec.tensors)
        out.append(
            f"\ndef plan(caps: Caps, scratch: Scratch, {views}{options}) -> list[Step]:\n"
            f'    """A single dispatch."""\n    return [step(caps, {given})]\n'
        )
    out += _work(spec)
    scalars = [n for p in spec.params if p.arg for n in p.fields]
    out.append("\nKERNEL = Kernel(")
    out.append(f"    name={spec.name!r},")
    out.append(f"    family={spec.family!r},")
    out.append("    args=(")
    # If the kernel has a plan, the spec's `axes` are axes of the plan's views, so they say nothing
    # about the caller's tensors.
    named = not (spec.plan or has_plan)
    out += [f"        {_arg(t, named)}," for t in spec.tensors]
    out.append("    ),")
    out.append(f"    scalars={_tuple(scalars)},")
    out.append("    plan=plan,")
    out += ["    nbytes=nbytes,", "    operations=operations,"]
    if spec.options:
        out.append(f"    options={_tuple([o.name for o in spec.options])},")
    if spec.moves_bytes:
        out.append("    moves_bytes=True,")
    out.append(")\n")
    for name in spec.names:
        if name != spec.name:
            out.append(f"\n{constant(spec, name)} = replace(KERNEL, name={name!r})")
    return module(spec.file, imports, "\n".join(out), _DATA)


def _work(spec: Spec) -> list[str]:
    """`nbytes` and `operations` as functions of a call: tensors are passed in order, all else by
    name."""
    signature = [f"{t.name}: {_view_type(t)}" for t in spec.tensors]
    named = [
        f"{p.name}: {scalar_type(p)}{default(p)}"
        for p in spec.params
        if p.arg and p.default is not None and not p.fixed
    ]
    named += [f"{o.name}: {o.type} = {o.default!r}" for o in spec.options]
    signature += ["*", *named] if named else []
    tensors = ", ".join(t.name for t in spec.tensors)
    lines = []
    for name, doc, value in (
        ("nbytes", "Bytes that a call reads and writes.", spec.nbytes or f"touched({tensors})"),
        ("operations", "Arithmetic operations of a call.", spec.operations or "0"),
    ):
        lines += [f"\ndef {name}(", *(f"    {s}," for s in signature), ") -> int:"]
        lines += [f'    """{doc}"""', f"    return {value}\n"]
    return lines


def _arg(t: TensorSpec, named: bool) -> str:
    fields = [f"{t.name!r}", f"{t.role!r}", _tuple(t.dtypes)]
    if named and t.axes:
        fields.append(f"axes={''.join(t.axes)!r}")
    for key in ("like", "broadcast", "expand", "alias"):
        if getattr(t, key):
            fields.append(f"{key}={getattr(t, key)!r}")
    for key in ("optional", "readonly", "in_place", "keeps", "skips"):
        if getattr(t, key):
            fields.append(f"{key}=True")
    same = one_dtype(t)
    if same:
        fields.append(f"same={same!r}")
    return f"Arg({', '.join(fields)})"


def one_dtype(t: TensorSpec) -> str:
    """The word that marks tensors which must have the same dtype: an axis, or the spec's `same`."""
    return t.same if t.dtype in ("*", *DTYPE_NAMES) else t.dtype


def default(p: Param) -> str:
    """The default of a scalar in a signature."""
    return "" if p.default is None else f" = {p.default!r}"


def scalar_type(p: Param) -> str:
    """The annotation of a scalar argument of the call."""
    if isinstance(p.default, bool):
        return "bool"
    return _PY_TYPES[p.type]


def fixed_scalars(spec: Spec, wrapper: str) -> dict[str, object]:
    """The scalars that this wrapper sets, and the defaults of the scalars that only other wrappers
    set."""
    given = {k for w in spec.wrappers.values() for k in w if k != "doc"}
    given |= {p.name for p in spec.params if p.fixed}
    defaults: dict[str, object] = {p.name: p.default for p in spec.params if p.name in given}
    return defaults | {k: v for k, v in spec.wrappers.get(wrapper, {}).items() if k != "doc"}


def dtype_words(t: TensorSpec) -> str:
    """A text that says which dtypes of tensors a call may have."""
    return words(accepted(t.dtypes))


def words(dtypes: Sequence[str]) -> str:
    """Dtypes in words."""
    missing = [d for d in DTYPE_NAMES.values() if d not in dtypes]
    if len(missing) <= 2:
        return f"any dtype but {' and '.join(missing)}" if missing else "any dtype"
    return either(dtypes)


def constant(spec: Spec, wrapper: str) -> str:
    """The name of the Kernel object behind a wrapper."""
    return "KERNEL" if wrapper == spec.name else wrapper.upper()


def emit_index(specs: Sequence[Spec]) -> str:
    """`_generated/index.py`: the public wrappers and their names."""
    homes = {name: f"pykernels._generated.wrappers.{s.name}" for s in specs for name in s.names}
    return lazy("The wrappers of all kernels.", homes)


def lazy(doc: str, homes: Mapping[str, str]) -> str:
    """A module that imports a name when it is first used. Its table HOMES has the module of each
    name; its import statements are only for type checkers."""
    lines = [f'"""Generated by codegen; do not edit. {doc}"""', ""]
    lines += ["from typing import TYPE_CHECKING", "", "if TYPE_CHECKING:"]
    lines += [f"    from {home} import {n} as {n}" for n, home in sorted(homes.items())] or [
        "    pass"
    ]
    lines += ["", "HOMES = {", *(f"    {n!r}: {home!r}," for n, home in sorted(homes.items())), "}"]
    return "\n".join([*lines, f"__all__ = {sorted(homes)!r}", ""])


def checked(name: str, text: str) -> str:
    """The text itself, once Python has parsed it without an error."""
    ast.parse(text, name)
    return text
