"""Sequences, optional values and maps at the border of a network, which computes tensors only.

The element i of an input or output `x` is a tensor with the name `x[i]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .errors import ModelError
from .graph import Array
from .shapes import Value, graph_inputs

__all__ = ["ABSENT", "Lists", "element", "gathered", "list_inputs", "opened", "spread"]

ABSENT = -1  # number of elements that stands for an absent optional value
# For each output that is no tensor of numbers: the number of its elements, the labels of a map, or,
# for strings, {"names": [...]}; the network computes the positions of strings in that list.
Lists = dict[str, int | list[int] | list[str] | dict[str, list[str]]]


def element(name: str, i: int) -> str:
    """The name of an element; ABSENT stands for an optional value that is not there."""
    return f"{name}[{'none' if i == ABSENT else i}]"


def _parts(kind: onnx.TypeProto) -> tuple[bool, int]:
    """True if a type is a sequence, and the dtype of its tensors."""
    optional = kind.WhichOneof("value") == "optional_type"
    inner = kind.optional_type.elem_type if optional else kind
    sequence = inner.WhichOneof("value") == "sequence_type"
    inner = inner.sequence_type.elem_type if sequence else inner
    if inner.WhichOneof("value") != "tensor_type":
        raise ModelError(f"a value of type {inner.WhichOneof('value')}: not supported")
    return sequence, inner.tensor_type.elem_type


def list_inputs(inputs: Iterable[Value]) -> dict[str, str]:
    """The dtypes of the inputs that are sequences or optional."""
    return {v.name: v.dtype for v in inputs if v.dtype.startswith(("sequence(", "optional("))}


def spread(name: str, dtype: str, value: Any) -> Iterator[tuple[str, Any, str]]:
    """The tensors of an input that is a sequence or optional: the name, value and dtype of each."""
    inner = dtype.removeprefix("optional(").rstrip(")")
    if value is None:
        if inner == dtype.rstrip(")"):
            raise ModelError(f"input {name} is missing")
        yield element(name, ABSENT), np.zeros(0, bool), "bool"
        return
    kind = inner.removeprefix("sequence(")
    if kind != inner and not isinstance(value, (list, tuple)):
        raise ModelError(f"input {name} is a {type(value).__name__}, not a list of arrays")
    for i, one in enumerate(value if kind != inner else [value]):
        yield element(name, i), one, kind


def opened(
    proto: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[onnx.ModelProto, set[str]]:
    """The file with one input for each element of a sequence or an optional value, and with nodes
    that make the sequences and optional values of these inputs. Also returns the names that stand
    for absent optional values."""
    kinds = ("sequence_type", "optional_type")
    lists = {v.name: v for v in graph_inputs(proto) if v.type.WhichOneof("value") in kinds}
    none = set[str]()
    if not lists:
        return proto, none
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    inputs = [v for v in proto.graph.input if v.name not in lists]
    nodes: list[onnx.NodeProto] = []
    for name, info in lists.items():
        sequence, kind = _parts(info.type)
        if element(name, ABSENT) in shapes:
            none.add(element(name, ABSENT))
            nodes.append(
                helper.make_node("Optional", [], [name], type=info.type.optional_type.elem_type)
            )
            continue
        rows: list[str] = []
        while element(name, len(rows)) in shapes:
            rows.append(element(name, len(rows)))
        inputs += [helper.make_tensor_value_info(r, kind, shapes[r]) for r in rows]
        if sequence:
            op = "SequenceConstruct" if rows else "SequenceEmpty"
            nodes.append(helper.make_node(op, rows, [name]))
        else:
            nodes.append(helper.make_node("Optional", rows, [name]))
    nodes += proto.graph.node
    del changed.graph.input[:]
    changed.graph.input.extend(inputs)
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    return changed, none


def gathered(names: Iterable[str], lists: Lists, found: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of these names.

    The entry in `lists` decides what an output becomes: a list of its elements, None, a list of
    dicts by label, or an array of strings. Without an entry it is the value in `found`. Maps and
    strings for which `found` has a tensor stay this tensor.
    """
    results: dict[str, Any] = {}
    for name in names:
        told = lists.get(name)
        if told is None:
            results[name] = found[name]
        elif isinstance(told, int):
            rows = None if told == ABSENT else [found[element(name, i)] for i in range(told)]
            results[name] = rows
        elif not isinstance(found[name], np.ndarray):
            results[name] = found[name]
        elif isinstance(told, dict):
            results[name] = np.array(told["names"], object)[found[name]]
        else:
            results[name] = _mapped(told, found[name])
    return results


def _mapped(labels: list[int] | list[str], scores: Array) -> list[dict[Any, float]]:
    rows = scores.reshape(-1, len(labels)).tolist()
    return [dict(zip(labels, row, strict=True)) for row in rows]
