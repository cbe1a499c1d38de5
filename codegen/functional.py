"""Emits layer two where a function only allocates its output (and may run over any axis)."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence

from .emit import constant, default, dtype_words, fixed_scalars, lazy, module, scalar_type
from .ops import Row
from .spec import DTYPE_NAMES, Param, Spec, TensorSpec

__all__ = ["emit_functional", "emit_functions"]


def emit_functional(specs: Sequence[Spec], by_hand: Collection[str]) -> str:
    """`_generated/functional.py`: a function for each kernel that has one output like an input.

    `by_hand` names the functions that `pykernels/functional` has.
    """
    modules, functions = [], []
    for spec in specs:
        dst = _allocated(spec)
        if dst is None or spec.name in by_hand:
            continue
        if spec.row is not None:
            functions.append(_operation(spec.row, spec))
            continue
        modules.append(f"from .wrappers import {spec.name} as _{spec.name}")
        functions += [_function(spec, name, dst) for name in spec.names]
    names = _generated(specs, by_hand)
    text = "\n".join([f"__all__: list[str] = {sorted(names)!r}\n", *functions])
    return module("kernels/*.wgsl", ["", *modules], text)


def emit_functions(specs: Sequence[Spec], by_hand: Mapping[str, str]) -> str:
    """`_generated/functions.py`: every function of layer two; `by_hand` says whose file has it."""
    homes = {name: "pykernels._generated.functional" for name in _generated(specs, by_hand)}
    homes |= {name: f"pykernels.functional.{family}" for name, family in by_hand.items()}
    return lazy("What pykernels.functional has.", homes)


def _generated(specs: Sequence[Spec], by_hand: Collection[str]) -> list[str]:
    """The functions that are not written by hand."""
    made = [s for s in specs if s.name not in by_hand and _allocated(s) is not None]
    return [
        name for spec in made for name in (*spec.names, *(spec.row.aliases if spec.row else ()))
    ]


def _allocated(spec: Spec) -> TensorSpec | None:
    """The only output, if its shape and dtype follow from the inputs."""
    outputs = [t for t in spec.tensors if t.role == "out"]
    if len(outputs) != 1:
        return None
    dst = outputs[0]
    if spec.row is not None:
        return dst
    inputs = [t for t in spec.tensors if t.role == "in"]
    expanded = inputs and all(t.expand == dst.name for t in inputs)
    if not dst.like and not expanded:
        return None
    like = inputs[0] if expanded else next(t for t in spec.tensors if t.name == dst.like)
    return dst if dst.dtype in (like.dtype, *DTYPE_NAMES) else None


def _operation(row: Row, spec: Spec) -> str:
    """The function of a row: tensors, arrays and numbers in any mix of dtypes."""
    name, ins = row.name, row.inputs
    numbers = "".join(f"{p}: float = {v!r}, " for p, v in row.params.items())

    def signature(kinds: Mapping[str, str], rest: str, out: str) -> str:
        given = ", ".join(f"{i}: {kinds.get(i, rest)}" for i in ins)
        return f"{given}, *, {numbers}{out}"

    may = "out: Tensor | None = None"
    cases = [({i: "Tensor"}, "Array | float", may, "Tensor") for i in ins]
    cases += [
        ({}, "Array | float", "out: Tensor", "Tensor"),
        ({}, "NDArray | float", "out: None = None", "NDArray"),
        ({}, "Array | float", may, "Array"),
    ]
    lines = ["", f"_{name}_known: Operations = {{}}", "", ""]
    for kinds, rest, out, result in cases:
        lines += ["@overload", f"def {name}({signature(kinds, rest, out)}) -> {result}: ..."]
    lines.append(f"def {name}({signature({}, 'Array | float', may)}) -> Array:")
    lines += textwrap.indent(_told(row, spec), "    ").splitlines()
    tensors = ", ".join(ins)
    given = "".join(f"{p}, " for p in row.params)
    for p in row.params:
        lines += [f"    if type({p}) is not float:", f"        {p} = real({name!r}, {p!r}, {p})"]
    lines += [
        f"    if out is None and {' and '.join(f'isinstance({i}, Tensor)' for i in ins)}:",
        *_ran(name, ins, (), given),
    ]
    if len(ins) == 2:
        lines += [
            f"    elif out is None and isinstance({ins[0]}, Tensor) "
            f"and isinstance({ins[1]}, (float, int)):",
            *_ran(name, ins[:1], ins[1:], given),
        ]
    lines += [
        f"    return operate({name!r}, _{name}_known, ({tensors}, ), ({given}), out)  "
        "# type: ignore[no-any-return]",
        "",
    ]
    lines += [f"\n{alias} = {name}" for alias in row.aliases]
    return "\n".join(lines)


def _ran(name: str, tensors: Sequence[str], numbers: Sequence[str], params: str) -> list[str]:
    """The short way of a call that has run before on such operands, into a new tensor."""
    key = "".join([*(f"{t}._layout, " for t in tensors), *(f"type({n}), " for n in numbers)])
    scalars = params + "".join(f"{n}, " for n in numbers)
    locations = ", ".join(f"{t}._location" for t in tensors)
    unused = "*ran.constants" if params else ""
    return [
        f"        ran = _{name}_known.get(({key}None))",
        "        if ran is not None:",
        f"            result = {tensors[0]}._fresh(ran.layout)",
        "            launch(",
        f"                (ran.kernel, (), {locations}, result._location),",
        f"                ({', '.join(tensors)}, result), ({scalars}{unused}),",
        "            )",
        "            return result",
    ]


def _told(row: Row, spec: Spec) -> str:
    """The docstring of a row's function."""
    takes = " or ".join(DTYPE_NAMES[d] for d in row.dtypes)
    lines = ['"""' + row.doc, ""]
    if len(row.inputs) > 1:
        lines += ["Operands repeat by numpy's rule. ", ""]
    lines += ["Args:"]
    for name in row.inputs:
        kind = "bool" if name in row.conditions else takes
        text = f"    {name}: Tensor, numpy array or number, computed as {kind}."
        lines += textwrap.wrap(text, 96, subsequent_indent=" " * 8)
    lines += [f"    {p.name}: {p.doc or 'A number.'}" for p in spec.params if p.arg and not p.fixed]
    result = "bool" if row.output == "bool" else "of the dtype to which the operands are promoted"
    lines += [
        "    out: The Tensor to write to, one of the operands too; None makes one.",
        "", "Returns:",
        f"    A Tensor if one is given, else a numpy array; {result}.",
        "", "Raises:",
        "    DTypeError, ShapeError, ArgumentError and what `pykernels.kernels` raises.", '"""',
    ]  # fmt: skip
    return "\n".join(line.rstrip() for line in lines)


def _function(spec: Spec, name: str, dst: TensorSpec) -> str:
    fixed = fixed_scalars(spec, name)
    ins = [t for t in spec.tensors if t.role == "in"]
    args = [p for p in spec.params if p.arg and p.name not in fixed]
    lines = ["", f"_{name}_known: Known = {{}}", "", "", *_overloads(spec, name, ins, args)]
    doc = str(spec.wrappers.get(name, {}).get("doc", spec.doc))
    lines += textwrap.indent(_docstring(spec, doc, ins, args), "    ").splitlines()
    arrays = ", ".join(t.name for t in ins)
    lines += _known(spec, name, ins, args)
    lines.append(f"    call = Call(_{spec.name}.{constant(spec, name)}, {arrays}, out=out)")
    lines += [f"    {t.name}_ = call.tensor({t.name!r}, {t.name})" for t in ins]
    if spec.axis_moves:
        tensors = {t.name for t in ins}
        known = tensors | {p.name for p in args}
        last = "".join(
            f", {n}={n}_" if n in tensors else f", {n}={n}"
            for n in spec.axis_last_only
            if n in known
        )
        lines.append(f"    call.over({dst.like}_, axis, dim{last})")
    like = dst.like or ins[0].name
    dtype = repr(DTYPE_NAMES[dst.dtype]) if dst.dtype in DTYPE_NAMES else f"{like}_.dtype"
    shape = f"{like}_.shape"
    if not dst.like:
        shapes = ", ".join(f"{t.name}={t.name}_.shape" for t in ins)
        shape = f"call.expanded({shapes})"
    lines.append(f"    result = call.out({shape}, {dtype})")
    given = [f"{t.name}={_passed(spec, t)}" for t in ins]
    given += [f"{p.name}={p.name}" for p in args]
    given += [f"{o.name}={o.name}" for o in spec.options]
    made = f"call.moved({dst.name!r}, result)" if spec.axis_moves else "result"
    given.insert(sum(not t.optional for t in ins), f"{dst.name}={made}")
    lines.append(f"    _{spec.name}.{name}(")
    lines += [f"        {g}," for g in given]
    lines += [
        "    )",
        f"    call.remember(_{name}_known, result)",
        "    return call.leave(result)",
        "",
    ]
    return "\n".join(lines)


def _known(spec: Spec, name: str, ins: Sequence[TensorSpec], args: Sequence[Param]) -> list[str]:
    """The short way: tensors whose layouts a call before had, over the last axis, and no `out`."""
    conditions = ["out is None"]
    if spec.axis_moves:
        conditions.append("(axis is LAST and dim is None or is_last(axis, dim))")
    conditions += [
        f"({t.name} is None or isinstance({t.name}, Tensor))"
        if t.optional
        else f"isinstance({t.name}, Tensor)"
        for t in ins
    ]
    layouts = "".join(
        f"None if {t.name} is None else {t.name}._layout, " if t.optional else f"{t.name}._layout, "
        for t in ins
    )
    rest = [t.name for t in ins if t.optional] + [p.name for p in args]
    rest += [o.name for o in spec.options]
    given = [t.name for t in ins if not t.optional] + ["result"] + [f"{n}={n}" for n in rest]
    return [
        f"    if {' and '.join(conditions)}:",
        f"        known = _{name}_known.get(({layouts}))",
        "        if known is not None:",
        f"            result = {ins[0].name}._fresh(known[0])",
        f"            _{spec.name}.{name}({', '.join(given)})",
        "            return result",
    ]


def _passed(spec: Spec, t: TensorSpec) -> str:
    return f"call.moved({t.name!r}, {t.name}_)" if t.name in spec.axis_moves else f"{t.name}_"


def _overloads(
    spec: Spec, name: str, ins: Sequence[TensorSpec], args: Sequence[Param]
) -> list[str]:
    """Tensors, or a Tensor to write to, give a Tensor; numpy arrays alone give a numpy array."""
    may = "out: Tensor | None = None"
    required = [t.name for t in ins if not t.optional]
    # One Tensor among the arguments is enough.
    cases = [({t: "Tensor"}, "Array", may, "Tensor") for t in required]
    cases += [
        ({}, "Array", "out: Tensor", "Tensor"),
        ({}, "NDArray", "out: None = None", "NDArray"),
        ({}, "Array", may, "Array"),
    ]
    lines = []
    for kinds, rest, out, result in cases:
        signature = ", ".join(_signature(spec, ins, args, kinds, rest, out))
        lines += ["@overload", f"def {name}({signature}) -> {result}: ..."]
    signature = "\n    ".join(f"{s}," for s in _signature(spec, ins, args, {}, "Array", may))
    return [*lines, f"def {name}(\n    {signature}\n) -> Array:"]


def _signature(
    spec: Spec,
    ins: Sequence[TensorSpec],
    args: Sequence[Param],
    kinds: Mapping[str, str],
    rest: str,
    out: str,
) -> list[str]:
    positional = [f"{t.name}: {kinds.get(t.name, rest)}" for t in ins if not t.optional]
    positional += [f"{p.name}: {scalar_type(p)}" for p in args if p.default is None]
    keyword = [f"{t.name}: {rest} | None = None" for t in ins if t.optional]
    keyword += [f"{p.name}: {scalar_type(p)}{default(p)}" for p in args if p.default is not None]
    keyword += [f"{o.name}: {o.type} = {o.default!r}" for o in spec.options]
    if spec.axis_moves:
        positional.append("axis: int = LAST")
        keyword.insert(0, "dim: int | None = None")
    return [*positional, "*", *keyword, out]


def _docstring(spec: Spec, doc: str, ins: Sequence[TensorSpec], args: Sequence[Param]) -> str:
    rows = [_row(t) for t in ins if not t.optional]
    rows += [(p.name, p.doc) for p in args if p.doc and p.default is None]
    if spec.axis_moves:
        last = f" (with {' or '.join(spec.axis_last_only)}: only the last)"
        note = last if spec.axis_last_only else ""
        rows.append(("axis", f"The axis to run over in place of the last one{note}."))
        rows.append(("dim", "The same as axis."))
    rows += [_row(t) for t in ins if t.optional]
    rows += [(p.name, p.doc) for p in args if p.doc and p.default is not None]
    rows += [(o.name, o.doc) for o in spec.options if o.doc]
    rows.append(("out", "The Tensor to write to; None makes one."))
    lines = ['"""' + doc, "", "Args:"]
    for name, text in rows:
        lines += textwrap.wrap(f"    {name}: {text}", 96, subsequent_indent=" " * 8)
    lines += [
        "", "Returns:",
        "    A numpy array if all arguments are numpy arrays, else a Tensor.",
        "", "Raises:",
        "    DTypeError, ShapeError, ArgumentError and what `pykernels.kernels` raises.", '"""',
    ]  # fmt: skip
    return "\n".join(lines)


def _row(t: TensorSpec) -> tuple[str, str]:
    """What the docstring says of a tensor argument."""
    rules = [dtype_words(t), "optional"] if t.optional else [dtype_words(t)]
    rules += [f"the shape of {t.like}"] if t.like else []
    rules += [f"broadcast to {t.broadcast}"] if t.broadcast else []
    rules += ["broadcast by numpy's rule"] if t.expand else []
    return t.name, f"Tensor or numpy array, {', '.join(rules)}. {t.doc}".rstrip()
