"""Emits layer two where a function only allocates its output (and may run over any axis)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from .emit import constant, default, dtype_words, fixed_scalars, module, scalar_type
from .spec import DTYPE_NAMES, Param, Spec, TensorSpec

__all__ = ["emit_functional"]


def emit_functional(specs: Sequence[Spec], by_hand: frozenset[str]) -> str:
    """`_generated/functional.py`: a function for each kernel that has one output like an input.

    `by_hand` names the functions that `pykernels/functional` has.
    """
    modules, functions, names = [], [], []
    for spec in specs:
        dst = _allocated(spec)
        if dst is None or spec.name in by_hand:
            continue
        modules.append(f"from .wrappers import {spec.name} as _{spec.name}")
        for name in spec.names:
            names.append(name)
            functions.append(_function(spec, name, dst))
    text = "\n".join([f"__all__: list[str] = {sorted(names)!r}\n", *functions])
    return module("kernels/*.wgsl", ["", *modules], text)


def _allocated(spec: Spec) -> TensorSpec | None:
    """The only output, if its shape and dtype follow from the inputs."""
    outputs = [t for t in spec.tensors if t.role == "out"]
    if len(outputs) != 1:
        return None
    dst = outputs[0]
    inputs = [t for t in spec.tensors if t.role == "in"]
    expanded = inputs and all(t.expand == dst.name for t in inputs)
    if not dst.like and not expanded:
        return None
    like = inputs[0] if expanded else next(t for t in spec.tensors if t.name == dst.like)
    return dst if dst.dtype in (like.dtype, *DTYPE_NAMES) else None


def _function(spec: Spec, name: str, dst: TensorSpec) -> str:
    fixed = fixed_scalars(spec, name)
    ins = [t for t in spec.tensors if t.role == "in"]
    args = [p for p in spec.params if p.arg and p.name not in fixed]
    lines = ["", *_overloads(spec, name, ins, args)]
    doc = str(spec.wrappers.get(name, {}).get("doc", spec.doc))
    lines += textwrap.indent(_docstring(spec, doc, ins, args), "    ").splitlines()
    arrays = ", ".join(t.name for t in ins)
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
    lines += ["    )", "    return call.leave(result)", ""]
    return "\n".join(lines)


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
