"""Stores the programs of a network in one file. Their graphs are folded and fused already, so
loading need not do this again."""

from __future__ import annotations

import base64
import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .errors import ModelError, blamed
from .graph import Array, Graph, Node
from .shapes import Value

__all__ = ["Saved", "read_plan", "write_plan"]

FORMAT = "pykernels.onnx plan 2"
Key = tuple[Any, ...]


@dataclass
class Saved:
    """A plan: inputs and outputs of a network, and a graph for each key of shapes."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    metadata: dict[str, str]
    graphs: dict[Key, Graph]


def write_plan(path: str | Path, saved: Saved) -> None:
    """Write a zip file with a table (plan.json) and the bytes of the constants; equal constants are
    stored once."""
    arrays: dict[bytes, str] = {}

    def stored(array: Array) -> dict[str, Any]:
        data = array.tobytes()
        name = arrays.setdefault(data, f"constants/{len(arrays)}")
        return {"file": name, "dtype": array.dtype.name, "shape": list(array.shape)}

    table = {
        "format": FORMAT, "inputs": saved.inputs, "outputs": saved.outputs,
        "metadata": saved.metadata,
        "graphs": [_written(key, graph, stored) for key, graph in saved.graphs.items()],
    }  # fmt: skip
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("plan.json", json.dumps(table))
        for data, name in arrays.items():
            file.writestr(name, data)


def _written(key: Key, graph: Graph, stored: Any) -> dict[str, Any]:
    shapes, told = key
    nodes = [
        {
            "op": n.op, "inputs": n.inputs, "outputs": n.outputs, "version": n.version,
            "name": n.name, "dtypes": n.dtypes,
            "attributes": {k: _plain(n, v) for k, v in n.attributes.items()},
        }
        for n in graph.nodes
    ]  # fmt: skip
    used = {i for n in graph.nodes for i in n.inputs} | set(graph.outputs.values())
    return {
        "key": [shapes, [[n, base64.b64encode(v).decode()] for n, v in told]], "nodes": nodes,
        "inputs": graph.inputs, "outputs": graph.outputs, "versions": graph.versions,
        "shapes": graph.shapes, "dtypes": {n: d.name for n, d in graph.dtypes.items()},
        "constants": {n: stored(a) for n, a in graph.constants.items() if n in used},
        "pinned": graph.pinned, "lists": graph.lists,
    }  # fmt: skip


def _plain(node: Node, value: Any) -> Any:
    """An attribute as a value for JSON."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        return [_plain(node, v) for v in value]
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    raise ModelError(f"attributes of {type(value).__name__} have no place in a plan", node.op,
                     node.label)  # fmt: skip


def read_plan(path: str | Path) -> Saved:
    """Read a file of `write_plan`.

    Raises:
        ModelError: The file is no plan, or it is damaged.
    """
    try:
        with blamed(), zipfile.ZipFile(path) as file:
            table = json.loads(file.read("plan.json"))
            if table["format"] != FORMAT:
                raise ModelError(f"a plan of another format: {table['format']!r:.60}")
            arrays: dict[str, bytes] = {}
            graphs = dict(_graph(row, file, arrays) for row in table["graphs"])
            sides = [
                tuple(Value(n, None if s is None else tuple(s), d) for n, s, d in table[side])
                for side in ("inputs", "outputs")
            ]
            metadata = {str(k): str(v) for k, v in table["metadata"].items()}
            return Saved(sides[0], sides[1], metadata, graphs)
    except ModelError as e:
        raise ModelError(f"{path} is no plan that can be read: {e.reason}") from e


def _graph(
    row: Mapping[str, Any], file: zipfile.ZipFile, arrays: dict[str, bytes]
) -> tuple[Key, Graph]:
    shapes, told = row["key"]
    key = (
        tuple((n, tuple(s)) for n, s in shapes),
        tuple((n, base64.b64decode(v)) for n, v in told),
    )
    constants = {}
    for name, known in row["constants"].items():
        if known["file"] not in arrays:
            arrays[known["file"]] = file.read(known["file"])
        dtype, shape = _dtype(known["dtype"]), tuple(known["shape"])
        data = arrays[known["file"]]
        if len(data) != math.prod(shape) * dtype.itemsize:
            raise ModelError(f"the constant {name} has {len(data)} bytes")
        constants[name] = np.frombuffer(data, dtype).reshape(shape)
    nodes = [
        Node(
            n["op"], n["inputs"], n["outputs"],
            {k: _attribute(v) for k, v in n["attributes"].items()}, n["version"], n["name"],
            None, tuple(n["dtypes"]),
        )
        for n in row["nodes"]
    ]  # fmt: skip
    graph = Graph(
        nodes, row["inputs"], row["outputs"], constants,
        {n: tuple(s) for n, s in row["shapes"].items()},
        {n: _dtype(d) for n, d in row["dtypes"].items()}, row["versions"], tuple(row["pinned"]),
        row["lists"],
    )  # fmt: skip
    return key, graph


def _attribute(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["bytes"])
    return [_attribute(v) for v in value] if isinstance(value, list) else value


def _dtype(name: str) -> np.dtype[Any]:
    """The dtype of this name: a dtype of numpy, or a dtype that onnx adds."""
    found = np.sctypeDict.get(name) or getattr(ml_dtypes, name, None)
    if found is None:
        raise ModelError(f"an unknown dtype: {name!r:.60}")
    return np.dtype(found)
