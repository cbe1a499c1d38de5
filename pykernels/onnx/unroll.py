"""Reads branches, loops and scans: the nodes of the graphs inside a node take the place of that
node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .control import ALIVE, LONGEST, attribute_graph, inlined, stacked
from .errors import ModelError
from .order import first_output
from .values import Values, operator

__all__ = ["Unroller", "dtype_of", "label"]

# The most nodes, in branches or in rounds of a loop, that run although their results may be
# dropped.
LONGEST_BRANCHES = 512


class Unroller:
    """Reads nodes that contain graphs. A subclass defines how it reads a node and constants."""

    values: Values

    def _read(self, node: onnx.NodeProto) -> None:
        raise NotImplementedError

    def _read_constants(self, tensors: Iterable[onnx.TensorProto]) -> None:
        raise NotImplementedError

    def _inline(self, graph: onnx.GraphProto, prefix: str, given: Mapping[str, str]) -> list[str]:
        """Read a graph inside a node. Returns the names of its outputs."""
        constants, nodes, outputs = inlined(graph, prefix, given)
        self._read_constants(constants)
        for inner in nodes:
            self._read(inner)
        return [self.values.same.get(n, n) for n in outputs]

    def _branch(self, node: onnx.NodeProto, condition: str) -> None:
        """Replace an If by the nodes of the branch that is taken, or of both branches if the device
        computes the condition."""
        values, first = self.values, first_output(node)
        if condition in values.known:
            taken = "then_branch" if values.known[condition].item() else "else_branch"
            found = self._inline(attribute_graph(node, taken), f"{first}/", {})
            for old, new in zip(found, node.output, strict=True):
                values.rename(old, new)
            return
        branches = [attribute_graph(node, f"{side}_branch") for side in ("then", "else")]
        reason = "control flow that depends on values of the run"
        few = sum(len(b.node) for b in branches) <= LONGEST_BRANCHES
        if not few or self._is_option(condition):
            raise values.needs(reason, node, [condition])
        try:
            pairs = [self._inline(b, f"{first}/{i}/", {}) for i, b in enumerate(branches)]
            for one, other, new in zip(*pairs, node.output, strict=True):
                self._select(condition, one, other, new)
        except ModelError as e:
            raise values.needs(f"{reason}: {e}", node, [condition]) from e

    def _is_option(self, name: str) -> bool:
        """True if a value depends only on a few integers or truth values among the inputs."""
        types = self.values.types
        return all(
            math.prod(self.values.shape(n)) <= 8 and dtype_of(n, types[n]).kind in "iub"
            for n in self.values.came_from([name])
        )

    def _select(self, condition: str, one: str, other: str, new: str) -> None:
        """One of two values of the same shape, chosen by a condition that the device computes."""
        values = self.values
        for name in (one, other):
            if name not in values.types:
                raise ModelError(f"{name or new} is no tensor")
        if values.shape(one) != values.shape(other):
            raise ModelError(f"results of shapes {values.shape(one)} and {values.shape(other)}")
        if values.shape(condition) != ():
            flat = f"{new}/condition"
            values.know(f"{flat}/shape", np.zeros(0, np.int64))
            self._read(helper.make_node("Reshape", [condition, f"{flat}/shape"], [flat]))
            condition = flat
        self._read(helper.make_node("Where", [condition, one, other], [new]))

    def _loop(self, node: onnx.NodeProto, given: list[str]) -> None:
        """Unroll a loop."""
        values, body = self.values, attribute_graph(node, "body")
        first = first_output(node)
        unknown = [n for n in given[:2] if n and n not in values.known]
        if unknown:
            raise values.needs("a loop whose end depends on values of the run", node, unknown)
        most = int(values.known[given[0]].item()) if given[0] else LONGEST + 1
        going = bool(values.known[given[1]].item()) if len(given) > 1 and given[1] else True
        states, rounds = list(given[2:]), 0
        rows: list[list[str]] = [[] for _ in range(len(node.output) - len(states))]
        alive = ""  # the condition, if the device computes it: states change only while it is true
        # True for loops of `with_all_rows`
        cut = bool(node.output) and node.output[-1].endswith(ALIVE)
        while going and rounds < most:
            if rounds == LONGEST:
                raise ModelError(f"a loop of more than {LONGEST} rounds", *label(node))
            prefix = f"{first}/{rounds}/"
            values.know(f"{prefix}round", np.array(rounds, np.int64))
            values.know(f"{prefix}going", np.array(True))
            names = [f"{prefix}round", alive if cut and alive else f"{prefix}going", *states]
            pairs = dict(zip((v.name for v in body.input), names, strict=True))
            end, *found = self._inline(body, prefix, pairs)
            if alive:
                for k, new in enumerate(found[: len(states)]):
                    found[k] = f"{prefix}state{k}"
                    self._select(alive, new, states[k], found[k])
            rounds += 1
            if end in values.known:
                going = bool(values.known[end].item())
            elif (rows and not cut) or not given[0] or most * len(body.node) > LONGEST_BRANCHES:
                raise values.needs("a loop whose end depends on values of the run", node, [end])
            elif alive:
                self._read(helper.make_node("And", [alive, end], [f"{prefix}alive"]))
                alive = f"{prefix}alive"
            else:
                alive = end
            states = found[: len(states)]
            for row, part in zip(rows, found[len(states) :], strict=True):
                row.append(part)
        for old, new in zip(states, node.output, strict=False):
            if new:
                values.rename(old, new)
        for row, new in zip(rows, node.output[len(states) :], strict=True):
            if new and not row:
                raise ModelError("a loop without rounds, whose result has no shape", *label(node))
            for inner in stacked(row, new, values.versions.get("", 1)) if new else ():
                self._read(inner)

    def _map(self, node: onnx.NodeProto, given: list[str]) -> None:
        """Repeat a body for each element of a sequence."""
        values, body = self.values, attribute_graph(node, "body")
        if given[0] not in values.sequences:
            raise ModelError(f"its input {given[0]} is no sequence", *label(node))
        count = len(values.sequences[given[0]])
        if count > LONGEST:
            raise ModelError(f"a sequence of more than {LONGEST} elements", *label(node))
        rows: list[list[str]] = [[] for _ in node.output]
        for i in range(count):
            names = []
            for name in given:
                parts = values.sequences.get(name)
                if parts is not None and len(parts) != count:
                    reason = f"sequences of {count} and {len(parts)} elements"
                    raise ModelError(reason, *label(node))
                names.append(name if parts is None else values.same.get(parts[i], parts[i]))
            pairs = zip((v.name for v in body.input), names, strict=True)
            found = self._inline(body, f"{first_output(node)}/{i}/", dict(pairs))
            for row, part in zip(rows, found, strict=True):
                row.append(part)
        values.sequences.update(zip(node.output, rows, strict=True))

    def _scan_of_batches(self, node: onnx.NodeProto, given: list[str]) -> None:
        """Unroll a scan of version 8: it becomes one scan for each batch, and their results are
        stacked."""
        values, first = self.values, first_output(node)
        if given[0]:
            raise ModelError("a scan with lengths of sequences: not supported", *label(node))
        batches: list[list[str]] = []
        for b in range(values.shape(given[1])[0]):
            prefix = f"{first}/batch{b}"
            values.know(prefix, np.array(b, np.int64))
            parts = [f"{prefix}/in{k}" for k in range(len(given) - 1)]
            for name, part in zip(given[1:], parts, strict=True):
                self._read(helper.make_node("Gather", [name, prefix], [part], axis=0))
            inner = helper.make_node("Scan", parts, [f"{prefix}/{o}" for o in node.output if o])
            for attribute in node.attribute:
                inner.attribute.add().CopyFrom(attribute)
                if attribute.name == "directions":
                    inner.attribute[-1].name = "scan_input_directions"
            self._scan(inner, parts)
            batches.append(list(inner.output))
        if not batches:
            raise ModelError("a scan of no batches", *label(node))
        for rows, new in zip(zip(*batches, strict=True), filter(None, node.output), strict=True):
            for one in stacked(list(rows), new, values.versions.get("", 1)):
                self._read(one)

    def _scan(self, node: onnx.NodeProto, given: list[str]) -> None:
        """Unroll a scan: each iteration reads slices of its last inputs and writes rows of its last
        outputs."""
        told = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        body, count = attribute_graph(node, "body"), told["num_scan_inputs"]
        states, xs = given[: len(given) - count], given[len(given) - count :]
        shapes = [self.values.shape(n) for n in xs]
        axes = [a % len(s) for a, s in zip(told.get("scan_input_axes", [0] * count), shapes,
                                           strict=True)]  # fmt: skip
        back = told.get("scan_input_directions", [0] * count)
        rounds = shapes[0][axes[0]]
        if not 0 < rounds <= LONGEST:
            raise ModelError(f"a scan of {rounds} rounds, not 1 to {LONGEST}", *label(node))
        outputs = len(node.output) - len(states)
        rows: list[list[str]] = [[] for _ in range(outputs)]
        for i in range(rounds):
            prefix, parts = f"{first_output(node)}/{i}/", []
            for k, (name, axis) in enumerate(zip(xs, axes, strict=True)):
                place = rounds - 1 - i if back[k] else i
                self.values.know(f"{prefix}at{k}", np.array(place, np.int64))
                parts.append(f"{prefix}slice{k}")
                self._read(
                    helper.make_node("Gather", [name, f"{prefix}at{k}"], [parts[-1]], axis=axis)
                )
            pairs = zip((v.name for v in body.input), [*states, *parts], strict=True)
            found = self._inline(body, prefix, dict(pairs))
            states = found[: len(states)]
            for row, part in zip(rows, found[len(states) :], strict=True):
                row.append(part)
        for old, new in zip(states, node.output, strict=False):
            if new:
                self.values.rename(old, new)
        axes = told.get("scan_output_axes", [0] * outputs)
        back = told.get("scan_output_directions", [0] * outputs)
        for k, new in enumerate(node.output[len(states) :]):
            row = rows[k][::-1] if back[k] else rows[k]
            axis = axes[k] % (len(self.values.shape(row[0])) + 1)
            for inner in stacked(row, new, self.values.versions.get("", 1), axis) if new else ():
                self._read(inner)


def label(node: onnx.NodeProto) -> tuple[str, str]:
    return operator(node), node.name or first_output(node)


def dtype_of(name: str, kind: onnx.TypeProto) -> np.dtype[Any]:
    if not kind.tensor_type.elem_type:
        raise ModelError(f"{name} has no dtype")
    return np.dtype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type))
