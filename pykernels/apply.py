"""Runs an operation or an expression on tensors, arrays and numbers, whatever their dtypes."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pykernels import arrays
from pykernels._generated.ops.elementwise import OPS
from pykernels.arrays import Array
from pykernels.device import Device, Tensor, default_device
from pykernels.dtypes import DTYPES, DTypeName, dtype_of
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.host import type_name
from pykernels.layout import Layout, contiguous_layout
from pykernels.plan import Kernel
from pykernels.plans.elementwise.language import Expression, Node, parse
from pykernels.plans.elementwise.program import Program, scalar_values
from pykernels.plans.elementwise.resolve import native, resolve, strong
from pykernels.plans.elementwise.rows import row_program
from pykernels.plans.elementwise.text import Scalar
from pykernels.promotion import WEAK, weak
from pykernels.runtime.launch import launch

__all__ = ["Operations", "evaluate", "operate"]

# By the layouts of tensors and the types of numbers (and the layout of `out`): how a call ran.
Operations: TypeAlias = "dict[tuple[Any, ...], _Ran]"
Operand = Array | float


@dataclass(frozen=True, slots=True)
class _Ran:
    """What a call needs that has run before: its kernel, the result's layout, and which of its
    operands are tensors of the kernel and which are numbers; a kernel of the build may have more
    numbers than the operation."""

    kernel: Kernel
    layout: Layout
    tensors: tuple[int, ...]
    scalars: tuple[int, ...]
    unused: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The same of an expression, whose operands have names."""

    kernel: Kernel
    layout: Layout
    tensors: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    numbers: tuple[float, ...]


_seen: dict[tuple[Any, ...], _Seen] = {}


@dataclass(frozen=True, slots=True)
class _Plan:
    """How operands of certain dtypes are computed."""

    kernel: Kernel
    tensors: tuple[str, ...]  # those that the kernel takes, by name
    scalars: tuple[Scalar, ...]  # a number of a row's kernel is named by its input
    numbers: tuple[float, ...]
    dtype: DTypeName  # of the result


def operate(
    name: str, known: Operations, args: tuple[Operand, ...], params: tuple[float, ...],
    out: Tensor | None,
) -> Any:  # fmt: skip
    """An operation on its inputs, in order; `known` is what its calls so far have left."""
    key = (*[a._layout if isinstance(a, Tensor) else type(a) for a in args],
           None if out is None else _layout_of(name, out))  # fmt: skip
    ran = known.get(key)
    if ran is not None:
        tensors = [args[i] for i in ran.tensors]
        result = tensors[0]._fresh(ran.layout) if out is None else out  # type: ignore[union-attr]
        locations = [t._location for t in tensors]  # type: ignore[union-attr]
        scalars = (*params, *[args[i] for i in ran.scalars], *ran.unused)
        launch((ran.kernel, (), *locations, result._location), (*tensors, result), scalars)  # type: ignore[arg-type]
        return result
    op = OPS[name]
    operands = dict(zip(op.inputs, args, strict=True))
    types = {n: _type(name, n, a) for n, a in operands.items()}
    plan = _plan_of_row(name, tuple(types.items()))
    numbers = dict(zip(op.params, params, strict=True))
    result, direct = _run(name, plan, operands, numbers, out)
    if direct:
        places = {n: i for i, n in enumerate(op.inputs)}
        given = [source for source, _ in plan.scalars if source in places]
        if len(known) >= arrays.MAX_KNOWN:
            known.clear()
        known[key] = _Ran(
            plan.kernel, result._layout, tuple([places[n] for n in plan.tensors]),
            tuple([places[n] for n in given]), plan.numbers,
        )  # fmt: skip
    return result


def evaluate(
    op: str, text: str | Expression, operands: Mapping[str, Operand], out: Tensor | None
) -> Any:
    """The value of an expression, as a text or parsed, over named operands."""
    given = [v._layout if isinstance(v, Tensor) else type(v) for v in operands.values()]
    key = (op, text, None if out is None else _layout_of(op, out), *operands, *given)
    seen = _seen.get(key)
    if seen is not None:
        tensors = [operands[n] for n in seen.tensors]
        result = tensors[0]._fresh(seen.layout) if out is None else out  # type: ignore[union-attr]
        locations = [t._location for t in tensors]  # type: ignore[union-attr]
        numbers = scalar_values(seen.scalars, operands, seen.numbers)
        launch(
            (seen.kernel, (), *locations, result._location),
            (*tensors, result),  # type: ignore[arg-type]
            numbers,
        )
        return result
    expression = text if isinstance(text, Expression) else parse(op, text)
    for name in operands:
        if name not in expression.inputs:
            raise ArgumentError(f"[{op}] {name} is given, but the expression does not name it")
    for name in expression.inputs:
        if name not in operands:
            raise ArgumentError(f"[{op}] the expression names {name}, which is not given")
    types = tuple([(n, _type(op, n, operands[n])) for n in expression.inputs])
    program = _program(op, expression.root, types)
    plan = _Plan(
        program.kernel, program.tensors, program.scalars, expression.numbers, program.dtype
    )  # fmt: skip
    result, direct = _run(op, plan, operands, {}, out)
    if direct and plan.tensors:
        if len(_seen) >= arrays.MAX_KNOWN:
            _seen.clear()
        _seen[key] = _Seen(
            plan.kernel, result._layout, plan.tensors, plan.scalars, expression.numbers
        )  # fmt: skip
    return result


def _layout_of(op: str, out: object) -> Layout:
    if not isinstance(out, Tensor):
        raise DTypeError(f"[{op}] out must be a pykernels.Tensor but is {type_name(out)}")
    return out._layout


def _type(op: str, name: str, value: object) -> str:
    """The dtype of an operand, or the mark of a number."""
    if isinstance(value, Tensor):
        return value._layout.dtype.name
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, float):
        return dtype_of(value.dtype, f"[{op}] {name}: array dtype").name
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return weak(WEAK[kind])
    raise DTypeError(
        f"[{op}] {name} must be a pykernels.Tensor, a numpy array or a number but is "
        f"{type_name(value)}: pk.tensor(x) makes a tensor"
    )


@functools.lru_cache(maxsize=4096)
def _plan_of_row(name: str, types: tuple[tuple[str, str], ...]) -> _Plan:
    """The kernel of the build where it takes these dtypes, else one that is made."""
    op = OPS[name]
    values = {t for n, t in types if n not in op.conditions}
    conditions = {t for n, t in types if n in op.conditions}
    if op.public and len(values) == 1 and values <= {*op.dtypes} and conditions <= {"bool"}:
        [dtype] = values
        kernel: Kernel = importlib.import_module(f"pykernels._generated.kernels.{name}").KERNEL
        scalars: tuple[Scalar, ...] = tuple((p, "f32") for p in op.params)
        unused = (0.0,) * (len(kernel.scalars) - len(scalars))
        scalars += tuple((i, "f32") for i in range(len(unused)))
        result: DTypeName = "bool" if op.output == "bool" else strong(dtype)
        return _Plan(kernel, op.inputs, scalars, unused, result)
    program = row_program(name, types)
    return _Plan(program.kernel, program.tensors, program.scalars, (), program.dtype)


@functools.lru_cache(maxsize=512)
def _program(op: str, root: Node, types: tuple[tuple[str, str], ...]) -> Program:
    """The program of an expression."""
    tensors = {n: t for n, t in types if not t.startswith("weak ")}
    return Program(op, resolve(op, root, dict(types)), tensors)


def _run(
    op: str, plan: _Plan, operands: Mapping[str, Any], params: Mapping[str, float],
    out: Tensor | None,
) -> tuple[Any, bool]:  # fmt: skip
    """The result, and whether tensors went to the kernel and came from it as they are."""
    device, host = _device(operands.values(), out)
    tensors, direct = [], not host
    for name in plan.tensors:
        value = operands[name]
        if not isinstance(value, Tensor):
            value, direct = device.tensor(np.asarray(value)), False
        if value.dtype != native(value.dtype):
            value, direct = value.astype(native(value.dtype)), False
        tensors.append(value)
    shape = _shape(op, dict(zip(plan.tensors, tensors, strict=True)))
    if out is not None and (out.shape != shape or out.dtype != plan.dtype):
        if out.shape != shape:
            raise ShapeError(f"[{op}] out must have shape {shape} but has {out.shape}")
        raise DTypeError(f"[{op}] out must be {plan.dtype} but is {out.dtype}")
    written = native(plan.dtype)
    if out is not None and written == plan.dtype:
        result = out
    else:
        lay = contiguous_layout(shape, DTYPES[written])
        result = tensors[0]._fresh(lay) if tensors else device.empty(shape, lay.dtype.name)
    numbers = scalar_values(plan.scalars, {**operands, **params}, plan.numbers)
    launch(
        (plan.kernel, (), *[t._location for t in tensors], result._location),
        (*tensors, result), numbers,
    )  # fmt: skip
    if written != plan.dtype:
        direct = False
        if out is None:
            result = result.astype(plan.dtype)
        else:
            out[...] = result
            result = out
    return (result.numpy() if host else result), direct


def _device(values: Any, out: Tensor | None) -> tuple[Device, bool]:
    """Where it runs, and whether the result goes to the host."""
    for value in (*values, out):
        if isinstance(value, Tensor):
            return value.device, False
    return default_device(), True


def _shape(op: str, tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    """The shape to which operands repeat by numpy's rule."""
    shapes: Sequence[tuple[int, ...]] = [t._layout.shape for t in tensors.values()]
    if not shapes:
        return ()
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        told = " and ".join(f"{n} {t.shape}" for n, t in tensors.items())
        raise ShapeError(f"[{op}] shapes must broadcast together but are {told}") from None
