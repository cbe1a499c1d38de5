"""A decoder with a cache, a state-space block and a network of 1,000 nodes, made here, beside
onnxruntime."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pykernels as pk
from pykernels.onnx.checking import Reference
from tests.onnx.test_networks import Array, Network, check, value

pytestmark = pytest.mark.gpu


class Decoder(Network):
    """Two layers of a decoder as onnxruntime's exporter writes them: 4 heads that share 2 of keys
    and values, rotary positions, a gated product."""

    width, heads, groups, layers = 64, 4, 2, 2

    def built(self) -> onnx.ModelProto:
        kind = TensorProto.FLOAT
        at = np.outer(np.arange(32), 100.0 ** -(np.arange(8) / 8))
        cos, sin = (self.constant(f(at).astype("f4")) for f in (np.cos, np.sin))
        one = self.constant(np.array([1]))
        ends = self.add("Sub", self.add("ReduceSum", "mask", one, keepdims=0), one)
        ends = self.add("Cast", ends, to=TensorProto.INT32)
        total = self.add("Gather", self.add("Shape", "mask"), self.constant(np.array(1)))
        total = self.add("Cast", total, to=TensorProto.INT32)
        x = self.add("Gather", self.weight(50, self.width), "ids")
        inputs = [value("ids", 7, ["n", "t"]), value("mask", 7, ["n", "all"])]
        outputs = [value("logits", kind, ["n", "t", 50])]
        skip = ""
        for layer in range(self.layers):
            past = [f"past{layer}.{name}" for name in ("key", "value")]
            new = [f"new{layer}.{name}" for name in ("key", "value")]
            inputs += [value(n, kind, ["n", self.groups, "before", 16]) for n in past]
            outputs += [value(n, kind, ["n", self.groups, "all", 16]) for n in new]
            x, skip = self._normed(x, skip)
            q, k, v = (
                self.add("MatMul", x, self.weight(self.width, n)) for n in (self.width, 32, 32)
            )
            self.nodes.append(helper.make_node(
                "GroupQueryAttention", [q, k, v, *past, ends, total, cos, sin],
                [f"attended{layer}", *new], domain="com.microsoft", num_heads=self.heads,
                kv_num_heads=self.groups, do_rotary=1,
            ))  # fmt: skip
            x = self.add("MatMul", f"attended{layer}", self.weight(self.width, self.width))
            x, skip = self._normed(x, skip)
            gate, up = (self.add("MatMul", x, self.weight(self.width, 96)) for _ in range(2))
            gate = self.add("Mul", gate, self.add("Sigmoid", gate))
            x = self.add("MatMul", self.add("Mul", gate, up), self.weight(96, self.width))
        x, _ = self._normed(x, skip)
        last = helper.make_node("MatMul", [x, self.weight(self.width, 50)], ["logits"])
        self.nodes.append(last)
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.weights)
        sets = [helper.make_operatorsetid("", 17), helper.make_operatorsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=9)

    def _normed(self, x: str, skip: str) -> tuple[str, str]:
        """The norm of x and what came before, and their sum."""
        weight, number = self.weight(self.width), len(self.nodes)
        if not skip:
            return self.add("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=1e-5), x
        y, total = f"norm{number}", f"sum{number}"
        self.nodes.append(helper.make_node(
            "SkipSimplifiedLayerNormalization", [x, skip, weight], [y, "", "", total],
            domain="com.microsoft", epsilon=1e-5,
        ))  # fmt: skip
        return y, total


def test_a_decoder_with_a_cache(dev: pk.Device) -> None:
    """A prompt and three more tokens, whose cache stays on the device."""
    proto = Decoder().built()
    model, theirs = pk.onnx.load(proto, device=dev), Reference(proto)
    names = [v.name for v in model.inputs[2:]]
    ids = np.random.default_rng(0).integers(0, 50, (2, 8))
    empty = np.zeros((2, 2, 0, 16), "f4")
    cache: dict[str, Any] = dict.fromkeys(names, empty)
    past: dict[str, Array] = dict.fromkeys(names, empty)
    done = 0
    for count in (5, 1, 1, 1):
        given = {"ids": ids[:, done : done + count], "mask": np.ones((2, done + count), np.int64)}
        want = theirs.run({**given, **past})
        found = model({n: dev.tensor(a.astype("i4")) for n, a in given.items()} | cache)
        for name, array in want.items():
            np.testing.assert_allclose(found[name].numpy(), array, rtol=1e-3, atol=1e-4)
        cache = {n: found[n.replace("past", "new")] for n in names}
        past = {n: want[n.replace("past", "new")] for n in names}
        done += count


def test_a_mamba_block(dev: pk.Device) -> None:
    """A gated state-space layer (Gu and Dao 2023), as exporters write it: a short convolution of
    each channel and a Scan over time."""
    n, width, state = Network(3), 8, 4
    inner = n.add("MatMul", "x", n.weight(width, 2 * width))
    n.nodes.append(helper.make_node("Split", [inner], ["main", "gate"], axis=2))
    y = n.add("Transpose", "main", perm=[0, 2, 1])
    y = n.add("Conv", y, n.weight(width, 1, 4), n.weight(width), group=width, pads=[3, 0])
    y = n.add("Transpose", n.add("Mul", y, n.add("Sigmoid", y)), perm=[2, 0, 1])  # (T, N, D)
    step = n.add("Softplus", n.add("Add", n.add("MatMul", y, n.weight(width, width)),
                                   n.weight(width)))  # fmt: skip
    b, c = (n.add("MatMul", y, n.weight(width, state)) for _ in range(2))
    a = n.constant(-np.exp(n.rng.standard_normal((width, state))).astype("f4"))
    two, one = n.constant(np.array([2])), n.constant(np.array([1]))
    node = helper.make_node
    body = helper.make_graph(
        [
            node("Unsqueeze", ["dt", two], ["dt2"]), node("Mul", ["dt2", a], ["da"]),
            node("Exp", ["da"], ["decay"]), node("Mul", ["decay", "h"], ["old"]),
            node("Mul", ["dt", "u"], ["du"]), node("Unsqueeze", ["du", two], ["du2"]),
            node("Unsqueeze", ["bt", one], ["b2"]), node("Mul", ["du2", "b2"], ["new"]),
            node("Add", ["old", "new"], ["next"]), node("Unsqueeze", ["ct", two], ["c2"]),
            node("MatMul", ["next", "c2"], ["row"]), node("Squeeze", ["row", two], ["out"]),
        ],
        "step",
        [value("h", 1, [2, width, state])]
        + [value(m, 1, [2, s]) for m, s in (("u", width), ("dt", width), ("bt", state),
                                            ("ct", state))],
        [value("next", 1, None), value("out", 1, None)],
    )  # fmt: skip
    zeros = n.constant(np.zeros((2, width, state), "f4"))
    n.nodes.append(
        node("Scan", [zeros, y, step, b, c], ["state", "rows"], body=body, num_scan_inputs=4)
    )
    y = n.add("Add", "rows", n.add("Mul", y, n.weight(width)))
    y = n.add("Mul", n.add("Transpose", y, perm=[1, 0, 2]),
              n.add("Mul", "gate", n.add("Sigmoid", "gate")))  # fmt: skip
    y = n.add("MatMul", y, n.weight(width, width))
    proto = n.finished(
        [value("x", 1, [2, "t", width])],
        [value(y, 1, [2, "t", width]), value("state", 1, [2, width, state])],
    )
    model = pk.onnx.load(proto, device=dev)
    for length in (12, 5):
        x = {"x": np.random.default_rng(length).standard_normal((2, length, width)).astype("f4")}
        check(proto, x, model(x), 1e-5)


def test_a_network_of_1000_nodes_in_float16_out_of_order(dev: pk.Device) -> None:
    """Down and up with norms and gates, skips kept, as U-Nets for pictures are."""
    n, channels = Network(kind="f2"), 8

    def block(x: str) -> str:
        y = n.add("InstanceNormalization", x, n.weight(channels), n.weight(channels))
        y = n.add("Mul", y, n.add("Sigmoid", y))
        y = n.add("Conv", y, n.weight(channels, channels, 3, 3), n.weight(channels),
                  pads=[1, 1, 1, 1])  # fmt: skip
        mean = n.add("GlobalAveragePool", y)
        gate = n.add("Sigmoid", n.add("Conv", mean, n.weight(channels, channels, 1, 1)))
        return n.add("Mul", n.add("Add", x, n.add("Mul", y, gate)), n.number(0.7))

    x, kept = "x", []
    for _ in range(2):
        for _ in range(28):
            x = block(x)
        kept.append(x)
        x = n.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    for skip in kept[::-1]:
        x = n.add("ConvTranspose", x, n.weight(channels, channels, 2, 2), strides=[2, 2])
        x = n.add("Conv", n.add("Concat", x, skip, axis=1), n.weight(channels, 2 * channels, 1, 1))
        for _ in range(28):
            x = block(x)
    half = TensorProto.FLOAT16
    proto = n.finished([value("x", half, [1, 8, 8, 12])], [value(x, half, [1, 8, 8, 12])])
    inputs = {"x": np.random.default_rng(1).standard_normal((1, 8, 8, 12)).astype("f2")}
    nodes = list(proto.graph.node)
    assert len(nodes) >= 1000
    random.Random(0).shuffle(nodes)
    mixed = onnx.ModelProto()
    mixed.CopyFrom(proto)
    del mixed.graph.node[:]
    mixed.graph.node.extend(nodes)
    check(proto, inputs, pk.onnx.load(mixed, device=dev)(inputs), 2e-2)
