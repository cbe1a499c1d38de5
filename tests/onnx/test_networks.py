"""Networks as exporters and tools write them, made here, beside onnxruntime."""

from __future__ import annotations

import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pykernels as pk
from pykernels.onnx.checking import Reference, difference

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.gpu
value = helper.make_tensor_value_info


class Network:
    """Nodes and weights as they are added."""

    def __init__(self, seed: int = 0, kind: str = "f4") -> None:
        self.rng, self.kind = np.random.default_rng(seed), kind
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, array: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        inner = int(np.prod(shape[:-1] if len(shape) == 2 else shape[1:])) or 1
        return self.constant((self.rng.standard_normal(shape) / inner**0.5).astype(self.kind))

    def number(self, x: float) -> str:
        return self.constant(np.array(x, self.kind))

    def finished(
        self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
    ) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        sets = [helper.make_operatorsetid("", 17)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=9)
        onnx.checker.check_model(model)
        return model


def encoder(width: int = 32, heads: int = 4, layers: int = 2) -> onnx.ModelProto:
    """A BERT-like encoder: ids and a mask of open sizes, GELU by erf."""
    n = Network()
    mask = n.add("Cast", "mask", to=1)
    mask = n.add("Unsqueeze", mask, n.constant(np.array([1, 2])))
    mask = n.add("Mul", n.add("Sub", n.number(1), mask), n.number(-1e4))
    x = n.add("Gather", n.weight(50, width), "ids")
    shape = n.constant(np.array([0, 0, heads, width // heads]))
    for _ in range(layers):
        parts = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            part = n.add("Add", n.add("MatMul", x, n.weight(width, width)), n.weight(width))
            parts.append(n.add("Transpose", n.add("Reshape", part, shape), perm=perm))
        scores = n.add("Mul", n.add("MatMul", *parts[:2]), n.number((width // heads) ** -0.5))
        chances = n.add("Softmax", n.add("Add", scores, mask), axis=-1)
        y = n.add("Transpose", n.add("MatMul", chances, parts[2]), perm=[0, 2, 1, 3])
        y = n.add("Reshape", y, n.constant(np.array([0, 0, width])))
        y = n.add("MatMul", y, n.weight(width, width))
        x = n.add("LayerNormalization", n.add("Add", x, y), n.weight(width), n.weight(width))
        y = n.add("Add", n.add("MatMul", x, n.weight(width, 4 * width)), n.weight(4 * width))
        erf = n.add("Erf", n.add("Div", y, n.number(2**0.5)))
        y = n.add("Mul", n.add("Mul", y, n.add("Add", erf, n.number(1))), n.number(0.5))
        y = n.add("MatMul", y, n.weight(4 * width, width))
        x = n.add("LayerNormalization", n.add("Add", x, y), n.weight(width), n.weight(width))
    return n.finished(
        [value("ids", 7, ["n", "t"]), value("mask", 7, ["n", "t"])],
        [value(x, 1, ["n", "t", width])],
    )


def sentences(rows: int, words: int) -> dict[str, Array]:
    ids = np.random.default_rng(rows).integers(0, 50, (rows, words))
    mask = (np.arange(words) < words - np.arange(rows)[:, None]).astype(np.int64)
    return {"ids": ids, "mask": mask}


def check(model: onnx.ModelProto, inputs: dict[str, Array], found: dict[str, Array],
          norm: float) -> None:  # fmt: skip
    for name, want in Reference(model).run(inputs).items():
        away = difference(name, "output", found[name], want)
        assert away.norm <= norm, str(away)


def test_an_encoder_with_open_sizes(dev: pk.Device) -> None:
    proto = encoder()
    model = pk.onnx.load(proto, device=dev)
    for rows, words in ((2, 5), (1, 9), (2, 5)):
        inputs = sentences(rows, words)
        check(proto, inputs, model(inputs), 1e-5)
    assert len(model) == 2


def test_an_encoder_with_dynamic_bytes(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As onnxruntime's tool quantises it. Values between two integers may go to either."""
    # A module of the tool has the name of an example that other tests import.
    monkeypatch.delitem(sys.modules, "onnx_model", raising=False)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if Path(p).name != "examples"])
    with warnings.catch_warnings(action="ignore"):
        quantization = pytest.importorskip("onnxruntime.quantization")
        onnx.save(encoder(), tmp_path / "float.onnx")
        quantization.quantize_dynamic(tmp_path / "float.onnx", tmp_path / "bytes.onnx")
    sys.modules.pop("onnx_model", None)
    proto = onnx.load(tmp_path / "bytes.onnx")
    kinds = [node.op_type for node in proto.graph.node]
    assert kinds.count("MatMulInteger") >= 12 and "DynamicQuantizeLinear" in kinds
    inputs = sentences(2, 6)
    check(proto, inputs, pk.onnx.load(proto, device=dev)(inputs), 5e-3)


def test_a_network_in_float16_whose_nodes_are_mixed(dev: pk.Device) -> None:
    """Down and up again, with what was there added, as U-Nets are."""
    n = Network(kind="f2")
    x, kept, channels = "x", [], 4
    for _ in range(3):
        pads = [1, 1, 1, 1]
        x = n.add("Relu", n.add("Conv", x, n.weight(channels, channels, 3, 3), pads=pads))
        kept.append(x)
        x = n.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for skip in kept[::-1]:
        x = n.add("ConvTranspose", x, n.weight(channels, channels, 2, 2), strides=[2, 2])
        x = n.add("Concat", x, skip, axis=1)
        x = n.add("Conv", x, n.weight(channels, 2 * channels, 1, 1))
        x = n.add("Mul", x, n.add("Sigmoid", x))
    half = TensorProto.FLOAT16
    proto = n.finished([value("x", half, [1, 4, 16, 24])], [value(x, half, [1, 4, 16, 24])])
    inputs = {"x": np.random.default_rng(1).standard_normal((1, 4, 16, 24)).astype("f2")}
    mixed = onnx.ModelProto()
    mixed.CopyFrom(proto)
    nodes = list(proto.graph.node)
    random.Random(0).shuffle(nodes)
    del mixed.graph.node[:]
    mixed.graph.node.extend(nodes)
    found = pk.onnx.load(mixed, device=dev)(inputs)
    assert found[x].dtype == np.float16
    check(proto, inputs, found, 2e-3)


def test_a_gru_that_gets_its_state_back(dev: pk.Device) -> None:
    """A stream in pieces, whose state stays on the device, as in one run."""
    n = Network()
    w, r, b = n.weight(1, 18, 4), n.weight(1, 18, 6), n.weight(1, 36)
    n.nodes.append(helper.make_node("GRU", ["x", w, r, b, "", "h"], ["y", "next"], hidden_size=6,
                                    linear_before_reset=1))  # fmt: skip
    proto = n.finished(
        [value("x", 1, ["t", 1, 4]), value("h", 1, [1, 1, 6])],
        [value("y", 1, ["t", 1, 1, 6]), value("next", 1, [1, 1, 6])],
    )
    x = np.random.default_rng(2).standard_normal((8, 1, 4)).astype("f4")
    want = Reference(proto).run({"x": x, "h": np.zeros((1, 1, 6), "f4")})
    model, state, rows = pk.onnx.load(proto, device=dev), dev.zeros((1, 1, 6)), []
    for i in range(0, 8, 2):
        found = model(x=x[i : i + 2], h=state)
        state = found["next"]
        rows.append(found["y"].numpy())
    np.testing.assert_allclose(np.concatenate(rows), want["y"], rtol=1e-4, atol=1e-5)
    assert len(model) == 1
