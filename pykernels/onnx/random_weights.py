"""Replaces the weights of a file by random weights, as an untrained network has them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from .graph import Array

__all__ = ["randomize"]


def randomize(model: onnx.ModelProto, seed: int = 0) -> None:
    """Replace every float weight: matrices and kernels by normal numbers with a variance of 2 /
    inputs (He 2015), factors and variances of batch norms by numbers from 0.5 to 1.5, biases and
    means by small numbers."""
    graph = model.graph
    rng = np.random.default_rng(seed)
    shapes = {t.name: tuple(t.dims) for t in graph.initializer if t.data_type == 1}
    sizes = {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.data_type == 7}
    made = [n for n in graph.node if n.op_type == "ConstantOfShape" and n.input[0] in sizes]
    shapes |= {n.output[0]: tuple(int(s) for s in sizes[n.input[0]]) for n in made}
    roles = _roles(graph)
    weights = {name: _draw(rng, shape, *roles.get(name, ("", 0))) for name, shape in shapes.items()}
    kept = [t for t in graph.initializer if t.name not in weights]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    nodes = [n for n in graph.node if n not in made]
    del graph.node[:]
    graph.node.extend(nodes)


def _roles(graph: onnx.GraphProto) -> dict[str, tuple[str, int]]:
    """The role of each value: the operation of the node that reads it, and the number of the
    input."""
    same = {n.output[0]: n.input[0] for n in graph.node if n.op_type in ("Unsqueeze", "Reshape")}
    found: dict[str, tuple[str, int]] = {}
    for node in graph.node:
        if node.op_type in ("Unsqueeze", "Reshape"):
            continue
        for i, name in enumerate(node.input):
            transposed = any(a.name == "transB" and a.i for a in node.attribute)
            kind = "GemmT" if transposed else node.op_type
            found[same.get(name, name)] = found[name] = kind, i
    return found


def _draw(rng: np.random.Generator, shape: tuple[int, ...], op: str, place: int) -> Array:
    if len(shape) > 1:
        inputs = shape[0] if op in ("Gemm", "MatMul") else int(np.prod(shape[1:]))
        values = rng.standard_normal(shape) * np.sqrt(2 / inputs)
    elif (op == "BatchNormalization" and place in (1, 4)) or op == "Mul":
        values = rng.uniform(0.5, 1.5, shape)
    else:
        values = 0.1 * rng.standard_normal(shape)
    found: Array = values.astype(np.float32)
    return found
