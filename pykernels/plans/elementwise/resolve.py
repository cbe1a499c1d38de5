"""Gives each node of an expression its dtype, and the type that it is computed in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pykernels._generated.ops.elementwise import OPS
from pykernels.call.promotion import WEAK, result_type, weak
from pykernels.dtypes import DTYPES, DTypeName
from pykernels.errors import ArgumentError, DTypeError, either
from pykernels.wgsl.rows import class_of

from .language import CASTS, Call, Input, Node, Number

__all__ = [
    "Limit", "Typed", "computed", "converted", "exponents", "limits", "narrowed",
    "native", "passed", "resolve", "strong",
]  # fmt: skip


# The types to try, in order, if an operation has no text for a type.
_UP = {"bool": ("i32", "f32"), "i32": ("f32",), "u32": ("f32",), "f32": ()}
_NARROW = {"int8": 8, "uint8": 8, "int16": 16, "uint16": 16}
_NATIVE = ("float32", "float16", "int32", "uint32", "bool")
_NAMES: dict[str, DTypeName] = {"f32": "float32", "i32": "int32", "u32": "uint32", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class Typed:
    """A node with its type: `dtype` as promotion sees it, `kind` as WGSL computes it."""

    node: Node
    # the name of a dtype, or the mark of a number that adapts to the dtype of other operands
    dtype: str
    kind: str  # the WGSL type f32, i32, u32 or bool
    args: tuple[Typed, ...] = ()


def strong(dtype: str) -> DTypeName:
    """A dtype without the mark of a number."""
    return dtype.rpartition(" ")[2]  # type: ignore[return-value]


def computed(dtype: str) -> str:
    """The type that a dtype is computed in."""
    dt = DTYPES[strong(dtype)]
    if dt.kind == "b":
        return "bool"
    if dt.kind == "f":
        return "f32"
    return "u32" if dt.name == "uint32" else "i32"


def native(dtype: str) -> DTypeName:
    """The dtype in which kernels read and write tensors of this dtype; it is often the same
    dtype."""
    if dtype in _NATIVE:
        return dtype  # type: ignore[return-value]
    return "float32" if dtype == "bfloat16" else "int32"


def passed(dtype: str) -> DTypeName:
    """The dtype in which a call gives its kernel a tensor: `native`, or bfloat16, which the
    launcher converts."""
    return "bfloat16" if dtype == "bfloat16" else native(dtype)


def resolve(op: str, node: Node, operands: Mapping[str, str]) -> Typed:
    """The typed tree of an expression; `operands` are the dtypes or marks of its inputs."""
    if isinstance(node, Input):
        if node.name not in operands:
            raise ArgumentError(f"[{op}] {node.name} is not given")
        dtype = operands[node.name]
        if dtype == "int64":  # int64 is computed in 32 bits
            dtype = "int32"
        return Typed(node, dtype, computed(dtype))
    if isinstance(node, Number):
        dtype = weak(WEAK[node.kind])
        return Typed(node, dtype, computed(dtype))
    args = tuple([resolve(op, a, operands) for a in node.args])
    if node.name in CASTS:
        return Typed(node, node.name, computed(node.name), args)
    return _operation(op, node, args)


def _operation(op: str, node: Call, args: tuple[Typed, ...]) -> Typed:
    row = OPS[node.name]
    values = [a for a, name in zip(args, row.inputs, strict=True) if name not in row.conditions]
    found: str = result_type(v.dtype for v in values)
    kind = computed(found)
    fits = [k for k in (kind, *_UP[kind]) if class_of(k) in row.texts]
    if not fits:
        takes = either(row.dtypes)
        raise DTypeError(f"[{op}] {node.name} takes {takes} but got {found}")
    if fits[0] != kind:
        kind = fits[0]
        found = _NAMES[kind]
    if all(v.dtype.startswith("weak ") for v in values):
        found = weak(found)
    if row.output == "bool":
        return Typed(node, "bool", "bool", _given(args, row.conditions, row.inputs, kind))
    return Typed(node, found, kind, _given(args, row.conditions, row.inputs, kind))


class Limit(NamedTuple):
    """A number of the text or an input (by its name) that must be in a range; `otherwise` is the
    message for a number outside of the range."""

    source: str | int
    low: float
    high: float
    otherwise: str


def narrowed(t: Typed) -> str:
    """The dtype of up to 16 bits that the result of an operation wraps to, "" if it does not
    wrap."""
    if not isinstance(t.node, Call) or t.node.name in CASTS or t.dtype not in _NARROW:
        return ""
    return t.dtype


def limits(root: Typed) -> tuple[Limit, ...]:
    """The numbers that are combined with integers of up to 16 bits: they must fit, because results
    wrap. Comparisons compute in 32 bits, so any number fits. The exponents of integers are
    included, because they must not be negative."""
    found = [limit for a in root.args for limit in limits(a)]
    name = root.node.name if isinstance(root.node, Call) else ""
    if name == "pow" and root.kind != "f32":
        exponent = root.args[1]
        if exponent.dtype.startswith("weak ") and not isinstance(exponent.node, Call):
            rule = "is a negative power, which integers do not have: convert them to float32 first"
            found.append(Limit(_source(exponent.node), 0, math.inf, rule))
    bits = _NARROW.get(strong(root.dtype), 0)
    if not bits or name not in OPS or OPS[name].output == "bool":
        return tuple(found)
    dtype = strong(root.dtype)
    low: float = 0 if dtype.startswith("u") else -(1 << bits - 1)
    high: float = low + (1 << bits) - 1
    if name == "minimum":
        high = math.inf
    elif name == "maximum":
        low = -math.inf
    for arg, of in zip(root.args, OPS[name].inputs, strict=True):
        if of not in OPS[name].conditions and arg.dtype.startswith("weak "):
            if not isinstance(arg.node, Call):
                found.append(Limit(_source(arg.node), low, high, f"does not fit {dtype}"))
    return tuple(found)


def _source(node: Input | Number) -> str | int:
    return node.index if isinstance(node, Number) else node.name


def exponents(root: Typed) -> tuple[Typed, ...]:
    """Exponents of integers that are known only on the device and may be negative."""
    found = [e for a in root.args for e in exponents(a)]
    if isinstance(root.node, Call) and root.node.name == "pow" and root.kind == "i32":
        exponent = root.args[1]
        number = exponent.dtype.startswith("weak ") and not isinstance(exponent.node, Call)
        if not number and DTYPES[strong(exponent.dtype)].kind == "i":
            found.append(exponent)
    return tuple(found)


def _given(
    args: tuple[Typed, ...], conditions: tuple[str, ...], names: tuple[str, ...], kind: str
) -> tuple[Typed, ...]:
    """The arguments, converted to the type that an operation computes in."""
    return tuple(
        [
            converted(a, "bool" if name in conditions else kind)
            for a, name in zip(args, names, strict=True)
        ]
    )


def converted(typed: Typed, kind: str) -> Typed:
    """The node in this type: a number takes the type, and other nodes are converted to it."""
    if typed.kind == kind:
        return typed
    if typed.dtype.startswith("weak ") and not isinstance(typed.node, Call):
        return Typed(typed.node, typed.dtype, kind)
    return Typed(Call(_NAMES[kind], (typed.node,)), _NAMES[kind], kind, (typed,))
