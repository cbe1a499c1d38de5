"""ONNX Runtime on WebGPU as an optional peer: chains of nodes, sessions, the time of a run."""

from __future__ import annotations

import importlib
import itertools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from .case import Case, Loaded, Operand
from .clock import Calls
from .peers import host_array
from .run import Peer, Skipped

__all__ = ["Node", "modules", "onnx_peer", "opened", "run_time", "start"]

Array = np.ndarray[Any, Any]
PROVIDER = "WebGpuExecutionProvider"
MOST_MODEL = 160 << 20  # most bytes of a model file; larger files take ten seconds or more to load


@dataclass(frozen=True)
class Node:
    """One ONNX operation with its inputs in order. In a chain, `flow` names the input that is the
    output of the node before it."""

    op: str
    flow: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    scale: float = 1.0  # factor of the other inputs, which keeps the numbers of a long chain finite
    domain: str = ""
    # converts the operand to the operation's layout
    arrange: Callable[[str, Array], Array] = lambda name, a: a


def onnx_peer(f: Callable[[Case], Node]) -> Peer:
    """A peer: ONNX Runtime's WebGPU provider. A run has costs of its own (submits, transfers), so
    the time of a node is the difference between two chains of different lengths, divided by the
    difference of the lengths. Only the first element is read back. The output of one node is
    compared with our kernel's on the same numbers."""

    def ready(loaded: Loaded) -> Calls:
        onnx, ort = modules()
        node, case = f(loaded.case), loaded.case
        flow, out = case.tensors[node.flow], case.output
        if (flow.shape, flow.dtype) != (out.shape, out.dtype):
            raise Skipped("its output cannot be its next input")
        if sum(case.tensors[n].nbytes for n in node.inputs) > MOST_MODEL:
            raise Skipped("its inputs are too large for a model file")
        arrays = {n: _input(case.tensors[n], i, node) for i, n in enumerate(node.inputs)}
        chain = partial(_session, onnx, ort, case, node, arrays)
        _compare(loaded, node, arrays, chain(1, whole=True).run(None, {})[0])
        short = chain(4)
        more = min(max(math.ceil(0.03 / max(run_time(short) / 4, 1e-7)), 4), 200)
        long = chain(4 + more)

        def sample(n: int) -> float:
            spent = run_time(long)
            return max(spent - run_time(short), 0.01 * spent) / more * n

        return Calls(sample, "wall")

    return ready


def _input(o: Operand, seed: int, node: Node) -> Array:
    """The numbers of an operand; floats of inputs other than `flow` are multiplied by `scale`."""
    found = host_array(o, seed)
    small = seed != node.inputs.index(node.flow) and found.dtype.kind == "f"
    return (found * node.scale).astype(found.dtype) if small else found


def _compare(loaded: Loaded, node: Node, arrays: Mapping[str, Array], got: Array) -> None:
    """Compare the outputs, to make sure that both compute the same operation. In half precision a
    sum may be wrong by a few per cent."""
    tensors = loaded.sets[0]
    for name, array in arrays.items():
        tensors[name].write(np.ascontiguousarray(array))
    loaded.call(**tensors, **loaded.case.args)
    out = loaded.outputs[-1]
    want = node.arrange(out, tensors[out].numpy()).astype(np.float32)
    error, size = np.abs(got.astype(np.float32) - want).max(), np.abs(want).max()
    if not error <= (0.05 if got.dtype == np.float16 else 1e-3) * size:
        raise Skipped(f"its output is wrong on this device, by {error / size:.0%}")


def _session(
    onnx: Any, ort: Any, case: Case, node: Node, arrays: Mapping[str, Array], length: int,
    whole: bool = False,
) -> Any:  # fmt: skip
    """A session with `length` nodes in a chain. Its result is one element, or, with `whole`, all
    elements."""
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    given = {n: np.ascontiguousarray(node.arrange(n, a)) for n, a in arrays.items()}
    initial = [numpy_helper.from_array(a, n) for n, a in given.items()]
    rank = given[node.flow].ndim
    names = [node.flow, *(f"v{i}" for i in range(length))]
    nodes = [
        helper.make_node(
            node.op, [before if n == node.flow else n for n in node.inputs], [after],
            domain=node.domain, **node.attributes,
        )
        for before, after in itertools.pairwise(names)
    ]  # fmt: skip
    if not whole:
        for name, value in (("zeros", 0), ("ones", 1)):
            initial.append(numpy_helper.from_array(np.full(rank, value, np.int64), name))
        nodes.append(helper.make_node("Slice", [names[-1], "zeros", "ones"], ["first"]))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(case.output.dtype))
    size = list(given[node.flow].shape) if whole else [1] * rank
    last = helper.make_tensor_value_info(nodes[-1].output[0], kind, size)
    graph = helper.make_graph(nodes, case.kernel, [], [last], initial)
    return start(onnx, ort, graph)


def modules() -> tuple[Any, Any]:
    """onnx and onnxruntime. Raises Skipped with the reason if the packages or the provider are
    missing."""
    try:
        onnx, ort = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    except ImportError as e:
        raise Skipped(f"{e.name} is not installed") from None
    if PROVIDER not in ort.get_available_providers():
        raise Skipped("this onnxruntime has no WebGPU provider")
    return onnx, ort


def start(onnx: Any, ort: Any, graph: Any) -> Any:
    """A session that has run the graph once, without optimizations."""
    sets = [onnx.helper.make_opsetid(d, v) for d, v in (("", 17), ("com.microsoft", 1))]
    model = onnx.helper.make_model(graph, opset_imports=sets)
    model.ir_version = min(model.ir_version, 10)
    return opened(ort, model.SerializeToString(), {}, optimized=False)


def opened(ort: Any, model: bytes, feeds: Mapping[str, Array], *, optimized: bool) -> Any:
    """A session that has run once. If `optimized`, ONNX Runtime may also run nodes on the CPU, as
    it does by default. Raises Skipped with the reason if the model does not run."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    levels = ort.GraphOptimizationLevel
    if optimized:
        options.graph_optimization_level = levels.ORT_ENABLE_ALL
    else:
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        session = ort.InferenceSession(model, options, providers=[PROVIDER], enable_fallback=0)
        session.run(None, feeds)
    except Exception as e:
        # catches all errors, because the exceptions of ONNX Runtime have no common base class
        raise Skipped(f"ONNX Runtime: {str(e).splitlines()[0]}") from None
    if session.get_providers()[0] != PROVIDER:
        raise Skipped("ONNX Runtime fell back to another provider")
    return session


def run_time(session: Any) -> float:
    """Seconds of one run, transfers included."""
    started = time.perf_counter()
    session.run(None, {})
    return time.perf_counter() - started
