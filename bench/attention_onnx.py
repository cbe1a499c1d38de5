"""ONNX Runtime's WebGPU provider on the cases of bench.attention, where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import time
from typing import Any

import numpy as np

__all__ = ["HAVE_ONNX", "onnx_time"]

HAVE_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
PROVIDER = "WebGpuExecutionProvider"


def onnx_time(
    batch: int, heads: int, queries: int, keys: int, depth: int, dtype: str,
    lengths: tuple[int, int] = (2, 8), rounds: int = 2,
) -> float:  # fmt: skip
    """Seconds of one MultiHeadAttention. A run has a cost of its own (submits, transfers), so this
    is the difference of two chains of calls, each one's output the next one's q; one element is
    read back. RuntimeError where the provider is not there or hands the work to the processor."""
    short, long = (_session(batch, heads, queries, keys, depth, dtype, n) for n in lengths)
    spent = [min(_run(s) for _ in range(rounds)) for s in (short, long)]
    return (spent[1] - spent[0]) / (lengths[1] - lengths[0])


def _run(session: Any) -> float:
    started = time.perf_counter()
    session.run(None, {})
    return time.perf_counter() - started


def _session(
    batch: int, heads: int, queries: int, keys: int, depth: int, dtype: str, n: int
) -> Any:
    onnx, ort = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    if PROVIDER not in ort.get_available_providers():
        raise RuntimeError("this onnxruntime has no WebGPU provider")
    helper, keep = onnx.helper, onnx.numpy_helper.from_array
    rng = np.random.default_rng(0)
    initial = [
        keep(rng.standard_normal((batch, length, heads * depth), np.float32).astype(dtype), name)
        for name, length in (("q", queries), ("k", keys), ("v", keys))
    ]
    for name, value in (("zeros", 0), ("ones", 1)):
        initial.append(keep(np.full(3, value, np.int64), name))
    names = ["q", *(f"o{i}" for i in range(n))]
    nodes = [
        helper.make_node(
            "MultiHeadAttention", [before, "k", "v"], [after], domain="com.microsoft",
            num_heads=heads,
        )
        for before, after in itertools.pairwise(names)
    ]  # fmt: skip
    nodes.append(helper.make_node("Slice", [names[-1], "zeros", "ones"], ["first"]))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    out = helper.make_tensor_value_info("first", kind, [1, 1, 1])
    graph = helper.make_graph(nodes, "attention", [], [out], initial)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains)
    model.ir_version = min(model.ir_version, 10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=[PROVIDER])
    session.run(None, {})
    return session
