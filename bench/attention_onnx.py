"""ONNX Runtime's WebGPU provider on the cases of bench.attention, where it is installed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from bench.onnx_session import modules, run_time, start

__all__ = ["onnx_time"]


def onnx_time(
    batch: int, heads: int, queries: int, keys: int, depth: int, dtype: str,
    lengths: tuple[int, int] = (2, 8), rounds: int = 2,
) -> float:  # fmt: skip
    """Seconds of one MultiHeadAttention. A run has a cost of its own (submits, transfers), so this
    is the difference of two chains of calls, each one's output the next one's q; one element is
    read back. Skipped where the provider is not there or hands the work on."""
    short, long = (_session(batch, heads, queries, keys, depth, dtype, n) for n in lengths)
    spent = [min(run_time(s) for _ in range(rounds)) for s in (short, long)]
    return (spent[1] - spent[0]) / (lengths[1] - lengths[0])


def _session(
    batch: int, heads: int, queries: int, keys: int, depth: int, dtype: str, n: int
) -> Any:
    onnx, ort = modules()
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
    return start(onnx, ort, graph)
