"""ONNX Runtime's WebGPU provider on a convolution of bench/conv2d.py: seconds of one call.

A run has costs of its own (submits, transfers), so the time is that of models of two lengths,
subtracted. Where the output can be the input again, a model is a chain of convolutions. Where it
cannot, every convolution has the same input and one element of each output is added up; the time of
these small operations, from a model that has no convolutions, is subtracted too.
"""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from pykernels.bench.run import Skipped

if TYPE_CHECKING:
    from bench.conv2d import Case

__all__ = ["ort_time"]

SHORT, SPAN = 2, 0.03  # convolutions of the short model; seconds that the long one takes more


def ort_time(c: Case, about: float) -> float:
    """Seconds of one call; `about` is a guess of it. Skipped if there is no such provider."""
    try:
        onnx, ort = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    except ImportError as e:
        raise Skipped(f"{e.name} is not installed") from None
    if "WebGpuExecutionProvider" not in ort.get_available_providers():
        raise Skipped("this onnxruntime has no WebGPU provider")
    if c.back or c.layout != "NCHW":
        raise Skipped("measured for conv2d on NCHW")
    more = min(max(round(SPAN / about), 8), 200)
    chain = c.x_shape == c.y_shape

    def each(convolves: bool) -> float:
        short, long = (_session(onnx, ort, c, n, chain, convolves) for n in (SHORT, SHORT + more))
        return min(_run(long) - _run(short) for _ in range(5)) / more

    return each(True) - (0.0 if chain else each(False))


def _run(session: Any) -> float:
    started = time.perf_counter()
    session.run(None, {})
    return time.perf_counter() - started


def _session(onnx: Any, ort: Any, c: Case, length: int, chain: bool, convolves: bool) -> Any:
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    rng = np.random.default_rng(0)
    w_shape = (c.o, c.c // c.groups, c.k, c.k)
    arrays = {
        "x": rng.random(c.x_shape, np.float32).astype(c.dtype),
        # A long chain stays finite.
        "w": (rng.random(w_shape, np.float32) / np.prod(w_shape[1:])).astype(c.dtype),
        "zeros": np.zeros(4, np.int64), "ones": np.ones(4, np.int64),
    }  # fmt: skip
    edge, stride = c.options["padding"], c.options["stride"]
    attributes = {
        "pads": [edge] * 4, "strides": [stride] * 2, "group": c.groups, "kernel_shape": [c.k] * 2,
    }  # fmt: skip
    nodes, last, total = [], "x", ""
    for i in range(length):
        made = last
        if convolves:
            made = f"v{i}"
            nodes.append(
                helper.make_node("Conv", [last if chain else "x", "w"], [made], **attributes)
            )
        if chain:
            last = made
            continue
        nodes.append(helper.make_node("Slice", [made, "zeros", "ones"], [f"s{i}"]))
        if total:
            nodes.append(helper.make_node("Add", [total, f"s{i}"], [f"t{i}"]))
        total = f"t{i}" if total else f"s{i}"
    if chain:
        nodes.append(helper.make_node("Slice", [last, "zeros", "ones"], ["s"]))
        total = "s"
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(c.dtype))
    output = helper.make_tensor_value_info(total, kind, [1] * 4)
    initial = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "conv", [], [output], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = min(model.ir_version, 10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["WebGpuExecutionProvider"]
    )
    if session.get_providers()[0] != "WebGpuExecutionProvider":
        raise Skipped("ONNX Runtime fell back to another provider")
    session.run(None, {})
    return session
