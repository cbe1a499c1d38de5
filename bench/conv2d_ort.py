"""ONNX Runtime's WebGPU provider on a convolution of bench/conv2d.py: seconds of one call.

A run has costs of its own (submits, transfers), so the time is that of models of two lengths,
subtracted. Where the output can be the input again, a model is a chain of convolutions. Where it
cannot, every convolution has the same input and one element of each output is added up; the time of
these small operations, from a model that has no convolutions, is subtracted too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bench.onnx_session import modules, run_time, start
from pykernels.bench.run import Skipped

if TYPE_CHECKING:
    from bench.conv2d import Case

__all__ = ["ort_time"]

SHORT, SPAN = 2, 0.03  # convolutions of the short model; seconds that the long one takes more


def ort_time(c: Case, about: float) -> float:
    """Seconds of one call; `about` is a guess of it. Skipped if there is no such provider."""
    onnx, ort = modules()
    if c.back or c.layout != "NCHW":
        raise Skipped("measured for conv2d on NCHW")
    more = min(max(round(SPAN / about), 8), 200)
    chain = c.x_shape == c.y_shape

    def each(convolves: bool) -> float:
        short, long = (_session(onnx, ort, c, n, chain, convolves) for n in (SHORT, SHORT + more))
        return min(run_time(long) - run_time(short) for _ in range(5)) / more

    return each(True) - (0.0 if chain else each(False))


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
    return start(onnx, ort, graph)
