"""Runs an operation or an expression on tensors, arrays and numbers of any dtypes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pykernels._generated.ops.elementwise import OPS
from pykernels.contract import accepted
from pykernels.device import Device, Tensor, default_device
from pykernels.dtypes import DTYPES, DTypeName, dtype_of
from pykernels.errors import ArgumentError, DTypeError, ShapeError, either
from pykernels.lazy import load
from pykernels.plans.elementwise.language import Expression, Node, parse
from pykernels.plans.elementwise.program import Program
from pykernels.plans.elementwise.resolve import Limit, passed, resolve, strong
from pykernels.plans.elementwise.rows import row_program
from pykernels.plans.elementwise.text import Scalar
from pykernels.plans.reduce.axes import reduced_shape
from pykernels.plans.reduce.program import ReductionProgram
from pykernels.runtime.launch import launch
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel
from pykernels.tensors.host import type_name
from pykernels.tensors.layout import Layout, contiguous_layout, expanded

from . import arrays
from .arrays import Array, is_complex, refusal
from .promotion import WEAK, weak

__all__ = ["Operations", "evaluate", "operate", "reduce"]

# Cached calls, by the layouts of tensors and of `out`, and by the types of numbers.
Operations: TypeAlias = "dict[tuple[Any, ...], _Ran]"
Operand = Array | float
Axis = int | tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class _Ran:
    """A cached call: its kernel, the result's layout, and the positions of the kernel's tensors and
    numbers among the given values. Positions beyond the given values stand for `constants`.
    `limits` apply to given numbers, and each call checks them."""

    kernel: Kernel
    options: tuple[Any, ...]
    layout: Layout
    tensors: tuple[int, ...]
    scalars: tuple[tuple[int, str], ...]
    constants: tuple[float, ...]
    limits: tuple[tuple[int, Limit], ...]


_expressions: dict[tuple[Any, ...], _Ran] = {}


@dataclass(frozen=True, slots=True)
class _Plan:
    """How an operation is computed for operands of certain dtypes."""

    kernel: Kernel
    tensors: tuple[str, ...]  # the tensors of the kernel, by name
    # the numbers that the kernel takes: each by the name of an operand, or by its index in
    # `numbers`
    scalars: tuple[Scalar, ...]
    numbers: tuple[float, ...]
    dtypes: tuple[DTypeName, ...]  # possible dtypes of the result, the usual one first
    written: DTypeName | None = None  # the dtype that the kernel writes, if it differs
    over: tuple[Axis, bool] | None = None  # only for a reduction: its axes, and keepdims
    limits: tuple[Limit, ...] = ()  # the limits that given numbers must respect


def operate(
    name: str, known: Operations, args: tuple[Operand, ...], params: tuple[float, ...],
    out: Tensor | None,
) -> Any:  # fmt: skip
    """The result of an operation on its inputs, given in order; `known` caches its calls."""
    key = (*[a._layout if isinstance(a, Tensor) else type(a) for a in args],
           None if out is None else _layout_of(name, out))  # fmt: skip
    ran = known.get(key) or known.get((key, "limits"))
    if ran is not None:
        return _again(name, ran, (*args, *params) if params else args, out)
    if any(map(is_complex, (*args, out))):
        return load("pykernels.functional.complex").operated(name, args, out)
    op = OPS[name]
    alone = _alone(args, out)
    types = [(n, _type(name, n, a, alone)) for n, a in zip(op.inputs, args, strict=True)]
    plan = _plan_of_row(name, tuple(types))
    operands = dict(zip((*op.inputs, *op.params), (*args, *params), strict=True))
    return _run(name, plan, operands, out, known, key)


def evaluate(
    op: str, text: str | Expression, operands: Mapping[str, Operand], out: Tensor | None
) -> Any:
    """The value of an expression (a text, or parsed) over named operands."""
    given = operands.values()
    key = (op, text, None if out is None else _layout_of(op, out), *operands,
           *[v._layout if isinstance(v, Tensor) else type(v) for v in given])  # fmt: skip
    ran = _remembered(op, text, key)
    if ran is not None:
        return _again(op, ran, (*given,), out)
    expression, types = _parsed(op, text, operands, out)
    program = _program(op, expression.root, types)
    plan = _Plan(
        program.kernel, program.tensors, program.scalars, expression.numbers, (program.dtype,),
        passed(program.dtype), limits=program.limits,
    )  # fmt: skip
    return _run(op, plan, operands, out, _expressions, key)


def reduce(
    op: str, text: str, how: str, operands: Mapping[str, Operand], axis: Axis, keepdims: bool,
    out: Tensor | None,
) -> Any:  # fmt: skip
    """The reduction `how` of an expression over named operands."""
    given = operands.values()
    key = (op, text, how, axis, keepdims, None if out is None else _layout_of(op, out), *operands,
           *[v._layout if isinstance(v, Tensor) else type(v) for v in given])  # fmt: skip
    ran = _remembered(op, text, key)
    if ran is not None:
        return _again(op, ran, (*given,), out)
    expression, types = _parsed(op, text, operands, out)
    program = _reduction(op, how, expression.root, types)
    plan = _Plan(
        program.kernel, program.tensors, program.scalars, expression.numbers, program.dtypes,
        over=(axis, keepdims), limits=program.limits,
    )  # fmt: skip
    return _run(op, plan, operands, out, _expressions, key)


def _remembered(op: str, text: object, key: tuple[Any, ...]) -> _Ran | None:
    """The cached call of this key; ArgumentError if the expression is not a text."""
    try:
        return _expressions.get(key) or _expressions.get((key, "limits"))
    except TypeError:  # a value that cannot be hashed, such as a list
        raise ArgumentError(f"[{op}] the expression must be a str but is {text!r:.80}") from None


def _again(op: str, ran: _Ran, given: tuple[Any, ...], out: Tensor | None) -> Tensor:
    """Run a cached call on tensors of the same layouts."""
    for place, limit in ran.limits:
        _check(op, limit, given[place])
    tensors = [given[i] for i in ran.tensors]
    result = tensors[0]._fresh(ran.layout) if out is None else out
    scalars: tuple[float, ...] = ()
    if ran.scalars:
        scalars = _numbers(ran.kernel.name, ran.scalars, (*given, *ran.constants))
    key = (ran.kernel, ran.options, *[t._location for t in tensors], result._location)
    launch(key, (*tensors, result), scalars)
    return result


def _check(op: str, limit: Limit, number: float) -> None:
    if not limit.low <= number <= limit.high:
        raise ArgumentError(f"[{op}] {number!r:.40} {limit.otherwise}")


def _numbers(
    op: str, wanted: Sequence[tuple[int, str]], values: Sequence[Any]
) -> tuple[float, ...]:
    """The numbers of a call, in the form that the kernel takes."""
    found = []
    for place, kind in wanted:
        value = values[place]
        if kind == "f32":
            try:
                value = float(value)
            except OverflowError:
                raise ArgumentError(f"[{op}] numbers must fit float32 but one does not") from None
        elif kind == "bool":
            value = value != 0
        found.append(value)
    return tuple(found)


def _parsed(
    op: str, text: str | Expression, operands: Mapping[str, Operand], out: Tensor | None
) -> tuple[Expression, tuple[tuple[str, str], ...]]:
    """An expression, and the dtypes of its operands; ArgumentError if the operands are not its
    names."""
    expression = text if isinstance(text, Expression) else parse(op, text)
    for name in operands:
        if name not in expression.inputs:
            raise ArgumentError(f"[{op}] {name} is given, but the expression does not name it")
    for name in expression.inputs:
        if name not in operands:
            raise ArgumentError(f"[{op}] the expression names {name}, which is not given")
    alone = _alone(operands.values(), out)
    return expression, tuple([(n, _type(op, n, operands[n], alone)) for n in expression.inputs])


def _layout_of(op: str, out: object) -> Layout:
    if not isinstance(out, Tensor):
        raise DTypeError(f"[{op}] out must be a pykernels.Tensor but is {type_name(out)}")
    return out._layout


def _alone(values: Iterable[object], out: Tensor | None) -> bool:
    """True if no operand is a tensor."""
    return out is None and not any(isinstance(v, Tensor) for v in values)


def _type(op: str, name: str, value: object, alone: bool) -> str:
    """The dtype of an operand, or the mark of a number; float64 beside tensors becomes float32."""
    if is_complex(value):
        raise refusal(op, name)
    if isinstance(value, Tensor):
        return value._layout.dtype.name
    if isinstance(value, np.integer):
        return weak("int32")
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, float):
        if value.dtype == np.float64 and not alone:
            return "float32"
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
    """The built kernel if it takes these dtypes, else a kernel made at run time."""
    op = OPS[name]
    values = {t for n, t in types if n not in op.conditions}
    conditions = {t for n, t in types if n in op.conditions}
    if (
        op.public
        and len(values) == 1
        and values <= {*accepted(op.dtypes)}
        and conditions <= {"bool"}
    ):
        [dtype] = values
        kernel: Kernel = load(f"pykernels._generated.kernels.{name}").KERNEL
        scalars: tuple[Scalar, ...] = tuple((p, "f32") for p in op.params)
        unused = (0.0,) * (len(kernel.scalars) - len(scalars))
        scalars += tuple((i, "f32") for i in range(len(unused)))
        result: DTypeName = "bool" if op.output == "bool" else strong(dtype)
        return _Plan(kernel, op.inputs, scalars, unused, (result,))
    program = row_program(name, types)
    written = passed(program.dtype)
    return _Plan(
        program.kernel, program.tensors, program.scalars, (), (program.dtype,), written,
        limits=program.limits,
    )  # fmt: skip


@functools.lru_cache(maxsize=512)
def _program(op: str, root: Node, types: tuple[tuple[str, str], ...]) -> Program:
    """The program of an expression."""
    tensors = {n: t for n, t in types if not t.startswith("weak ")}
    return Program(op, resolve(op, root, dict(types)), tensors)


@functools.lru_cache(maxsize=512)
def _reduction(
    op: str, how: str, root: Node, types: tuple[tuple[str, str], ...]
) -> ReductionProgram:
    """The program of a reduction of an expression."""
    tensors = {n: t for n, t in types if not t.startswith("weak ")}
    if not tensors:
        raise ArgumentError(f"[{op}] the expression names no tensor and no array")
    return ReductionProgram(op, how, resolve(op, root, dict(types)), tensors)


@whole
def _run(
    op: str, plan: _Plan, operands: Mapping[str, Any], out: Tensor | None,
    known: dict[tuple[Any, ...], _Ran], key: tuple[Any, ...],
) -> Any:  # fmt: skip
    """The result. Caches the call in `known` if no argument was converted."""
    places = {n: i for i, n in enumerate(operands)}
    limits: list[tuple[int, Limit]] = []  # limits of given numbers; another call may give others
    for limit in plan.limits:
        if isinstance(limit.source, int):
            _check(op, limit, plan.numbers[limit.source])
        else:
            _check(op, limit, operands[limit.source])
            limits.append((places[limit.source], limit))
    device, host = _device(operands.values(), out)
    tensors, direct = [], not host and bool(plan.tensors)
    for name in plan.tensors:
        value = operands[name]
        if not isinstance(value, Tensor):
            value, direct = np.asarray(value), False
            if value.dtype == np.int64:
                value = arrays.narrowed(op, name, value)
            value = device.tensor(value)
        if value.dtype == "int64":
            value, direct = arrays.narrowed(op, name, value), False
        if value.dtype != passed(value.dtype):
            value, direct = value.astype(passed(value.dtype)), False
        tensors.append(value)
    shape = _shape(op, dict(zip(plan.tensors, tensors, strict=True)))
    options: tuple[Any, ...] = ()
    if plan.over is not None:
        shape, options = reduced_shape(op, shape, *plan.over), (plan.over[0],)
    dtype = plan.dtypes[0] if out is None or out.dtype not in plan.dtypes else out.dtype
    if out is not None and (out.shape != shape or out.dtype != dtype):
        if out.shape != shape:
            raise ShapeError(f"[{op}] out must have shape {shape} but has {out.shape}")
        raise DTypeError(f"[{op}] out must be {either(plan.dtypes)} but is {out.dtype}")
    written = plan.written or dtype
    if out is not None and written == dtype:
        result = out
    else:
        lay = contiguous_layout(shape, DTYPES[written])
        result = tensors[0]._fresh(lay) if tensors else device.empty(shape, lay.dtype.name)
    scalars = tuple(
        [(s + len(places) if isinstance(s, int) else places[s], kind) for s, kind in plan.scalars]
    )
    launch(
        (plan.kernel, options, *[t._location for t in tensors], result._location),
        (*tensors, result), _numbers(op, scalars, (*operands.values(), *plan.numbers)),
    )  # fmt: skip
    if written != dtype:
        if out is None:
            result = result.astype(dtype)
        else:
            out[...] = result
            result = out
    elif direct:
        if len(known) >= arrays.MAX_KNOWN:
            known.clear()
        among = tuple([places[n] for n in plan.tensors])
        # Generated functions look up `known` by `key` themselves and do not check limits. So a call
        # with limits gets another key.
        known[(key, "limits") if limits else key] = _Ran(
            plan.kernel, options, result._layout, among, scalars, plan.numbers, (*limits,)
        )
    return result.numpy() if host else result


def _device(values: Any, out: Tensor | None) -> tuple[Device, bool]:
    """The device of the call, and True if the result goes to the host."""
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
        return expanded(*shapes)
    except ValueError:
        told = " and ".join(f"{n} {t.shape}" for n, t in tensors.items())
        raise ShapeError(f"[{op}] shapes must broadcast together but are {told}") from None
