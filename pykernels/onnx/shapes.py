"""The inputs and outputs of a file, and the shapes that its inputs get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import onnx
from onnx import helper

from .errors import ModelError

__all__ = ["Value", "described", "graph_inputs", "input_shapes"]


class Value(NamedTuple):
    """An input or output of a file. For a dimension that the file leaves open, the shape has its
    name, or None. A value that is no tensor has no shape, and its dtype is "sequence(float32)",
    "optional(float32)", "optional(sequence(float32))" or "sequence(map(int64, float32))"."""

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: str


def described(values: Iterable[onnx.ValueInfoProto]) -> tuple[Value, ...]:
    """The inputs or outputs of a file, as the file describes them."""
    return tuple(_described(v) for v in values)


def _described(value: onnx.ValueInfoProto) -> Value:
    kind = value.type.tensor_type
    if value.type.WhichOneof("value") not in ("tensor_type", None):
        return Value(value.name, None, _kind(value.name, value.type))
    shape = None
    if kind.HasField("shape"):
        shape = tuple(
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or None
            for d in kind.shape.dim
        )
    return Value(value.name, shape, _dtype(value.name, kind.elem_type))


def _kind(name: str, kind: onnx.TypeProto) -> str:
    """The dtype of a value that may be no tensor."""
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return f"sequence({_kind(name, kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({_kind(name, kind.optional_type.elem_type)})"
    if which == "map_type":
        key = "str" if kind.map_type.key_type == onnx.TensorProto.STRING else \
            _dtype(name, kind.map_type.key_type)  # fmt: skip
        return f"map({key}, {_kind(name, kind.map_type.value_type)})"
    if which == "tensor_type":
        return _dtype(name, kind.tensor_type.elem_type)
    return str(which).removesuffix("_type")


def _dtype(name: str, number: int) -> str:
    if not number:
        return "unknown"
    try:
        found: str = helper.tensor_dtype_to_np_dtype(number).name
    except KeyError:
        raise ModelError(f"{name} has an unknown dtype: {number}") from None
    return found


def graph_inputs(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that a run needs, without the constants that older files list as inputs."""
    known = {t.name for t in proto.graph.initializer}
    known |= {t.values.name for t in proto.graph.sparse_initializer}
    return [v for v in proto.graph.input if v.name not in known]


def input_shapes(
    proto: onnx.ModelProto, given: Mapping[str, Iterable[int]]
) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs: the given shapes, or else the shapes of the file. An open dimension
    gets the size of a given dimension with the same name. If there is no such dimension, the first
    dimension of an input gets 1, the rows and columns of an image get 224, and other dimensions get
    16."""
    values = described(graph_inputs(proto))
    named = {
        d: size
        for v in values
        for d, size in zip(v.shape or (), given.get(v.name, ()), strict=False)
        if isinstance(d, str)
    }
    found: dict[str, tuple[int, ...]] = {}
    for v in values:
        if "(" in v.dtype or v.dtype in ("sparse_tensor", "opaque"):
            raise ModelError(f"input {v.name} is no tensor but of type {v.dtype}")
        if v.shape is None:
            if v.name not in given:
                raise ModelError(f"input {v.name} has no shape in the file: give one")
            found[v.name] = tuple(given[v.name])
            continue
        shape = tuple(
            d if isinstance(d, int) else named.get(d or "?", _default(i, len(v.shape)))
            for i, d in enumerate(v.shape)
        )
        wanted = tuple(int(n) for n in given.get(v.name, shape))
        fits = len(wanted) == len(shape) and all(
            w >= 0 and (not isinstance(d, int) or d == w)
            for d, w in zip(v.shape, wanted, strict=True)
        )
        if not fits:
            told = [d if isinstance(d, int) else d or "?" for d in v.shape]
            raise ModelError(f"input {v.name} has shape {told}, not {list(wanted)}")
        found[v.name] = wanted
    for name in given:
        if name not in found:
            names = ", ".join(found) or "none"
            raise ModelError(f"there is no input {name}: inputs are {names}")
    return found


def _default(axis: int, ndim: int) -> int:
    if axis == 0 or ndim < 2:
        return 1
    return 224 if ndim == 4 and axis > 1 else 16
