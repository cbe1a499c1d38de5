"""A file in memory: nodes in order, the shapes and dtypes of values, constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

Array = np.ndarray[Any, Any]
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# Floats of few bits, with the number of their bits.
SMALL_FLOATS = {
    "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4,
}  # fmt: skip
# For dtypes that kernels do not have, the dtypes that replace them on a device.
_STORED = {
    "int64": "int32", "uint64": "uint32", "float64": "float32", "int4": "int8", "uint4": "uint8",
    "int2": "int8", "uint2": "uint8", **dict.fromkeys(SMALL_FLOATS, "float32"),
}  # fmt: skip


def stored_name(name: str) -> Any:
    """The dtype of values on a device: 64 bits become 32 bits, integers of 2 and 4
    bits become 8, floats of 4 to 8 bits become 32."""
    return _STORED.get(name, name)


def stored(dtype: np.dtype[Any]) -> Any:
    """The same as `stored_name`, for a dtype of numpy."""
    return stored_name(np.dtype(dtype).name)


@dataclass(eq=False)
class Node:
    """One operation; "" stands for an input or output that is missing."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    version: int = 0  # version of the operator set that the node uses
    name: str = ""
    proto: onnx.NodeProto | None = None  # the node of the file, with the names of `inputs`
    dtypes: tuple[str, ...] = ()  # dtypes of the outputs in the file
    kept: dict[str, Any] = field(default_factory=dict)  # tensors that the node's entry has uploaded
    # tensors that all programs share
    shared: dict[tuple[str, ...], Any] = field(default_factory=dict)
    device: Any = None  # the device that the node runs on
    # in a capture: tensors, and the arrays to write to them later
    later: list[tuple[Any, Array]] | None = None

    @property
    def label(self) -> str:
        """The node's name in errors: its own name, or else the name of its first output."""
        return self.name or next((n for n in self.outputs if n), "")


@dataclass(eq=False)
class Graph:
    """Nodes in an order in which they can run.

    `outputs` maps names of the file to values. `shapes` and `dtypes` have an entry for every value.
    `constants` are the values that are known before anything runs.
    """

    nodes: list[Node]
    inputs: list[str]
    outputs: dict[str, str]
    constants: dict[str, Array]
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, np.dtype[Any]]
    versions: dict[str, int]  # versions of the operator sets
    pinned: tuple[str, ...] = ()  # inputs whose values this graph contains as constants
    lists: dict[str, Any] = field(default_factory=dict)  # outputs that are no tensors; see lists.py

    def uses(self) -> dict[str, int]:
        """For each value, how often it is an input of a node or an output of the graph."""
        counts = dict.fromkeys(self.outputs.values(), 1)
        for node in self.nodes:
            for name in node.inputs:
                counts[name] = counts.get(name, 0) + 1
        return counts
