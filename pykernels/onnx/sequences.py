"""Handles sequences and optional values of a file as lists of names, so nothing is computed for
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .control import stacked
from .errors import ModelError
from .order import first_output
from .values import Values

__all__ = ["OPERATIONS", "sequence"]

OPERATIONS = frozenset((
    "SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt",
    "SequenceLength", "ConcatFromSequence", "SplitToSequence", "Optional", "OptionalHasElement",
    "OptionalGetElement",
))  # fmt: skip


def sequence(values: Values, node: onnx.NodeProto, given: list[str]) -> Iterator[onnx.NodeProto]:
    """Handle a node that reads or makes sequences. Returns the nodes that compute tensors for
    it."""
    told = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    out, kind = node.output[0], node.op_type
    rows = values.sequences.get(given[0], []) if given else []
    if kind == "SequenceEmpty":
        values.sequences[out] = []
    elif kind == "SequenceConstruct":
        values.sequences[out] = list(given)
    elif kind == "SequenceLength":
        values.know(out, np.array(len(rows), np.int64))
    elif kind == "SequenceInsert":
        at = _place(values, node, given, 2, len(rows), len(rows) + 1)
        values.sequences[out] = [*rows[:at], given[1], *rows[at:]]
    elif kind == "SequenceErase":
        at = _place(values, node, given, 1, len(rows) - 1, len(rows))
        values.sequences[out] = [*rows[:at], *rows[at + 1 :]]
    elif kind == "SequenceAt":
        values.rename(rows[_place(values, node, given, 1, 0, len(rows))], out)
    elif kind == "ConcatFromSequence":
        axis = told.get("axis", 0)
        if not rows:
            raise ModelError("a sequence without elements", kind, node.name or out)
        if told.get("new_axis", 0):
            axis %= len(values.shape(rows[0])) + 1
            yield from stacked(rows, out, values.versions.get("", 1), axis)
        else:
            yield helper.make_node("Concat", rows, [out], axis=axis)
    elif kind == "SplitToSequence":
        yield from _split(values, node, given, told)
    elif kind == "OptionalHasElement":
        values.know(out, np.array(bool(given and given[0]) and given[0] not in values.absent))
    elif kind == "Optional" and (not given or not given[0]):
        values.absent.add(out)
    elif not given or not given[0] or given[0] in values.absent:
        raise ModelError("an optional value that is not there", kind, node.name or out)
    else:  # the optional value is present, so take its element
        values.rename(given[0], out)


def _place(
    values: Values, node: onnx.NodeProto, given: list[str], i: int, usual: int, size: int
) -> int:
    """The position in a sequence; a negative number counts from the end."""
    if len(given) <= i or not given[i]:
        return usual
    if given[i] not in values.known:
        raise values.needs("a position that depends on values of the run", node, [given[i]])
    at = int(values.known[given[i]].item())
    found = at + (size if at < 0 and node.op_type != "SequenceInsert" else 0)
    if at < 0 and node.op_type == "SequenceInsert":
        found = at + size - 1
    if not 0 <= found < size:
        reason = f"position {at} of a sequence with {size} places"
        raise ModelError(reason, node.op_type, node.name or first_output(node))
    return found


def _split(
    values: Values, node: onnx.NodeProto, given: list[str], told: dict[str, Any]
) -> Iterator[onnx.NodeProto]:
    shape, out = values.shape(given[0]), node.output[0]
    axis = told.get("axis", 0) % len(shape)
    alone = len(given) < 2 or not given[1]
    if alone:
        sizes = [1] * shape[axis]
    elif given[1] not in values.known:
        raise values.needs("sizes that depend on values of the run", node, [given[1]])
    elif values.known[given[1]].ndim:
        sizes = values.known[given[1]].tolist()
    else:
        size = int(values.known[given[1]].item())
        if size < 1:
            raise ModelError(f"parts of {size} elements", node.op_type, node.name or out)
        sizes = [min(size, shape[axis] - i) for i in range(0, shape[axis], size)]
    names = [f"{out}/part{i}" for i in range(len(sizes))]
    if values.versions.get("", 1) >= 13:
        value = numpy_helper.from_array(np.array(sizes, np.int64))
        yield helper.make_node("Constant", [], [f"{out}/sizes"], value=value)
        yield helper.make_node("Split", [given[0], f"{out}/sizes"], names, axis=axis)
    else:
        yield helper.make_node("Split", [given[0]], names, axis=axis, split=sizes)
    if alone and not told.get("keepdims", 1):
        values.know(f"{out}/zero", np.array(0, np.int64))
        for i, name in enumerate(names):
            names[i] = f"{name}/row"
            yield helper.make_node("Gather", [name, f"{out}/zero"], [names[i]], axis=axis)
    values.sequences[out] = names
