"""Compares results with onnxruntime's results for the same inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx

from pykernels.device import Device, Tensor

from .errors import ModelError, blamed
from .fusion import as_expressions, fuse
from .graph import Array, Graph
from .program import Program, to_device
from .shapes import described, graph_inputs
from .stages import Stages

# the largest allowed differences, relative to the norm and to the largest value
NORM, LARGEST = 1e-4, 1e-3


class Difference(NamedTuple):
    """The difference of a value from onnxruntime's value, relative to onnxruntime's value."""

    name: str
    op: str
    norm: float
    largest: float

    @property
    def fits(self) -> bool:
        return self.norm <= NORM and self.largest <= LARGEST

    def __str__(self) -> str:
        verdict = "" if self.fits else "  TOO LARGE"
        return (
            f"{self.name:<40.40} {self.op:<20} {self.norm:9.2e} of the norm, "
            f"{self.largest:9.2e} of the largest{verdict}"
        )


def difference(name: str, op: str, ours: Array, theirs: Array) -> Difference:
    """The difference of two values. Integers and numbers that are not finite must be equal."""
    if ours.shape != theirs.shape:
        return Difference(name, op, np.inf, np.inf)
    if theirs.dtype.kind != "f":
        wrong = 0.0 if np.array_equal(ours, theirs) else np.inf
        return Difference(name, op, wrong, wrong)
    finite = np.isfinite(theirs)
    if not np.array_equal(ours[~finite], theirs[~finite], equal_nan=True):
        return Difference(name, op, np.inf, np.inf)
    a, b = (v[finite].astype(np.float64) for v in (ours, theirs))
    error, norm = np.linalg.norm(a - b), np.linalg.norm(b)
    if not error:
        return Difference(name, op, 0.0, 0.0)
    most = np.abs(b).max()
    with np.errstate(divide="ignore"):
        return Difference(name, op, float(error / norm), float(np.abs(a - b).max() / most))


class Reference:
    """A model in onnxruntime, on the CPU. With `spinning`, its threads spin while they wait, which
    is faster on idle cores, and takes ten times the processor's time of a small network."""

    def __init__(
        self, model: onnx.ModelProto, *, optimized: bool = True, spinning: bool = False
    ) -> None:
        try:
            import onnxruntime
        except ModuleNotFoundError as e:
            raise ModelError(f"{e.name} is missing: pip install onnxruntime") from e
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if not spinning:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if not optimized:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        outputs = [o.name for o in self._session.get_outputs()]
        feeds = {i.name: inputs[i.name] for i in self._session.get_inputs()}
        results: list[Any] = list(self._session.run(outputs, feeds))
        return dict(zip(outputs, results, strict=True))


def with_inner_values(graph: Graph) -> onnx.ModelProto:
    """The nodes of a graph as a model with the outputs of all nodes."""

    def described(name: str) -> onnx.ValueInfoProto:
        kind = onnx.helper.np_dtype_to_tensor_dtype(graph.dtypes[name])
        return onnx.helper.make_tensor_value_info(name, kind, graph.shapes[name])

    used = {n for node in graph.nodes for n in node.inputs}
    body = onnx.helper.make_graph(
        [n.proto for n in graph.nodes if n.proto is not None], "nodes",
        [described(n) for n in graph.inputs],
        [described(o) for n in graph.nodes for o in n.outputs if o],
        [onnx.numpy_helper.from_array(a, n) for n, a in graph.constants.items() if n in used],
    )  # fmt: skip
    sets = [onnx.helper.make_operatorsetid(d, v) for d, v in graph.versions.items()]
    return onnx.helper.make_model(body, opset_imports=sets, ir_version=10)


def made_up(model: onnx.ModelProto, shapes: Mapping[str, Any], seed: int = 0) -> dict[str, Array]:
    """Random inputs of these shapes: normal numbers, or integers from 0 to 9."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for value in described(graph_inputs(model)):
        if value.name not in shapes:
            continue
        shape = tuple(shapes[value.name])
        if value.dtype == "unknown":
            raise ModelError(f"input {value.name} has no dtype")
        with blamed("input", value.name):
            kind = np.dtype(value.dtype)
            if kind.kind == "f":
                found[value.name] = rng.standard_normal(shape).astype(kind)
            else:
                most = 2 if kind.kind == "b" else 10
                found[value.name] = rng.integers(0, most, shape).astype(kind)
    return found


def compare(
    model: onnx.ModelProto, program: Program | Stages, inputs: Mapping[str, Array]
) -> list[Difference]:
    """The difference of each output."""
    theirs, ours = Reference(model).run(inputs), program.run(inputs)
    return [difference(n, "output", array, theirs[n]) for n, array in ours.items()]


def trace(
    model: onnx.ModelProto, graph: Graph, device: Device, inputs: Mapping[str, Array]
) -> Iterator[Difference]:
    """The difference of each node's outputs, for the nodes of the file and for the fused nodes.
    Each node is computed from onnxruntime's values of its inputs, so that errors do not add up."""
    single, fused = as_expressions(graph), fuse(graph)
    theirs = {**inputs, **Reference(with_inner_values(graph), optimized=False).run(inputs)}
    alone = {n.outputs[0]: n.inputs for n in single.nodes}
    hidden: dict[str, Tensor] = {}  # parts of sums that were split; the file has no such values
    for part in (single, fused):
        program = Program(part, device)
        for node in part.nodes:
            if part is fused and alone[node.outputs[0]] == node.inputs:
                continue  # skip a node that was not fused
            values = {n: device.tensor(to_device(theirs[n], n)) for n in node.inputs if n in theirs}
            values.update({n: hidden[n] for n in node.inputs if n in hidden})
            for name, tensor in program.step(node, values).items():
                if name not in theirs:
                    hidden[name] = tensor
                    continue
                ours = tensor.numpy().astype(part.dtypes[name], copy=False)
                op = node.attributes.get("text", node.op)
                yield difference(name, op, ours, theirs[name])
