"""ONNX Runtime on WebGPU, optional: its modules, a graph as a session, the time of a run."""

from __future__ import annotations

import importlib
import time
from typing import Any

from pykernels.bench.run import Skipped

__all__ = ["modules", "run_time", "start"]

PROVIDER = "WebGpuExecutionProvider"


def modules() -> tuple[Any, Any]:
    """onnx and onnxruntime. Skipped, with the reason, where they or the provider are missing."""
    try:
        onnx, ort = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    except ImportError as e:
        raise Skipped(f"{e.name} is not installed") from None
    if PROVIDER not in ort.get_available_providers():
        raise Skipped("this onnxruntime has no WebGPU provider")
    return onnx, ort


def start(onnx: Any, ort: Any, graph: Any) -> Any:
    """A session of the graph as it is written (no optimizations), after its first run."""
    sets = [onnx.helper.make_opsetid(d, v) for d, v in (("", 17), ("com.microsoft", 1))]
    model = onnx.helper.make_model(graph, opset_imports=sets)
    model.ir_version = min(model.ir_version, 10)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=[PROVIDER])
        session.run(None, {})
    except Exception as e:  # its exceptions have no base of their own
        raise Skipped(f"ONNX Runtime: {str(e).splitlines()[0]}") from None
    if session.get_providers()[0] != PROVIDER:
        raise Skipped("ONNX Runtime fell back to another provider")
    return session


def run_time(session: Any) -> float:
    """Seconds of one run, transfers included."""
    started = time.perf_counter()
    session.run(None, {})
    return time.perf_counter() - started
