"""Networks between QuantizeLinear and DequantizeLinear, as onnxruntime's tools write them: products
of the integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import pykernels as pk
from pykernels.onnx.checking import Reference
from pykernels.onnx.fusion import fuse
from pykernels.onnx.reader import load
from tests.onnx.test_networks import Array, Network, value

pytestmark = pytest.mark.gpu


class Quantized(Network):
    """A convolution with Relu, one without, a product and a layer, all of bytes."""

    def quantized(self, x: str, scale: float, zero: Array) -> str:
        args = self.constant(np.float32(scale)), self.constant(zero)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *args), *args)

    def bytes_of(self, *shape: int, scales: Any = 0.02, axis: int = 0) -> str:
        data = self.constant(self.rng.integers(-127, 128, shape).astype("i1"))
        scale = self.constant(np.float32(scales))
        zero = self.constant(np.zeros(np.shape(scales), "i1"))
        return self.add("DequantizeLinear", data, scale, zero, axis=axis)

    def bias_of(self, count: int, scales: Any) -> str:
        data = self.constant(self.rng.integers(-900, 900, count).astype("i4"))
        return self.add("DequantizeLinear", data, self.constant(np.float32(scales)), axis=0)

    def built(self) -> onnx.ModelProto:
        channels = np.float32([0.01, 0.02, 0.015, 0.03, 0.01, 0.02])
        y = self.quantized("x", 0.03, np.uint8(120))
        y = self.add("Conv", y, self.bytes_of(6, 3, 3, 3, scales=channels),
                     self.bias_of(6, np.float32(0.03) * channels), pads=[1, 1, 1, 1])  # fmt: skip
        y = self.quantized(self.add("Relu", y), 0.2, np.uint8(0))
        y = self.add("Conv", y, self.bytes_of(4, 3, 1, 1), group=2)
        y = self.quantized(y, 1.5, np.int8(5))
        y = self.add("Reshape", y, self.constant(np.array([2, 4, 30])))
        y = self.quantized(y, 1.5, np.int8(5))
        y = self.quantized(self.add("MatMul", y, self.bytes_of(30, 5)), 9.0, np.uint8(128))
        y = self.quantized(self.add("Reshape", y, self.constant(np.array([2, 20]))), 9.0,
                           np.uint8(128))  # fmt: skip
        scales = np.float32([0.01, 0.03, 0.02])
        y = self.add("Gemm", y, self.bytes_of(3, 20, scales=scales),
                     self.bias_of(3, np.float32(9) * scales), transB=1)  # fmt: skip
        y = self.quantized(y, 6.0, np.uint8(99))
        return self.finished([value("x", 1, [2, 3, 6, 5])], [value(y, 1, [2, 3])])


def test_products_between_quantised_values_are_of_integers(dev: pk.Device) -> None:
    proto = Quantized(7).built()
    kinds = [n.op for n in fuse(load(proto)).nodes]
    assert [k for k in kinds if k.startswith(("QLinear", "com.microsoft.Q"))] == [
        "QLinearConv", "QLinearConv", "QLinearMatMul", "com.microsoft.QGemm",
    ]  # fmt: skip
    assert not {"Conv", "MatMul", "Gemm", "Relu"} & set(kinds)
    model = pk.onnx.load(proto, device=dev)
    equal = 0
    for seed in range(4):
        x = {"x": np.random.default_rng(seed).standard_normal((2, 3, 6, 5)).astype("f4")}
        (want,), (found,) = Reference(proto, optimized=False).run(x).values(), model(x).values()
        # A value between two integers may go to either in any layer.
        assert np.abs(found - want).max() <= 6.0
        equal += int((found == want).sum())
    assert equal >= 20  # of 24


@pytest.mark.parametrize("change", ["bias", "relu", "used", "scales"])
def test_what_is_no_product_of_integers_stays(dev: pk.Device, change: str) -> None:
    """A bias of another scale, a Relu below which there are bytes, floats that something else
    reads, scales along another axis."""
    n = Quantized(3)
    x = n.quantized("x", 0.1, np.uint8(100))
    axis, scales = (1, [0.1, 0.2, 0.3, 0.4]) if change == "scales" else (0, 0.2)
    w = n.bytes_of(2, 4, 1, 1, scales=scales, axis=axis)
    y = n.add("Conv", x, w, *([n.bias_of(2, 0.5)] if change == "bias" else []))
    other = y
    if change == "relu":
        y = n.add("Relu", y)
    z = n.quantized(y, 2.0, np.uint8(30))
    outputs = [value(z, 1, [1, 2, 3, 3])]
    if change == "used":
        outputs.append(value(other, 1, [1, 2, 3, 3]))
    proto = n.finished([value("x", 1, [1, 4, 3, 3])], outputs)
    assert "QLinearConv" not in [node.op for node in fuse(load(proto)).nodes]
    given = {"x": np.random.default_rng(0).standard_normal((1, 4, 3, 3)).astype("f4")}
    want, found = (
        Reference(proto, optimized=False).run(given),
        pk.onnx.load(proto, device=dev)(given),
    )
    np.testing.assert_allclose(found[z], want[z], atol=2.0)


def test_a_graph_that_is_read_again_is_not_changed() -> None:
    """Fusing writes to a copy."""
    graph = load(Quantized(7).built())
    before = [n.op for n in graph.nodes], set(graph.constants)
    fuse(graph)
    assert ([n.op for n in graph.nodes], set(graph.constants)) == before


def moved() -> onnx.ModelProto:
    """Products between pairs with movements on both sides, as exporters of attention write them."""
    n = Quantized(5)
    y = n.quantized("x", 0.03, np.uint8(120))  # (2, 6, 8)
    w = n.add("Transpose", n.bytes_of(8, 8), perm=[1, 0])
    heads = n.constant(np.array([2, 6, 2, 4]))
    parts = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1]):
        part = n.add("MatMul", y, w)
        part = n.add("Transpose", n.add("Reshape", part, heads), perm=perm)
        parts.append(n.quantized(part, 1.1, np.int8(3)))
    scores = n.add("Transpose", n.quantized(n.add("MatMul", *parts), 90.0, np.int8(0)),
                   perm=[0, 2, 1, 3])  # fmt: skip
    z = n.quantized(n.add("Reshape", scores, n.constant(np.array([2, 72]))), 90.0, np.int8(0))
    last = n.quantized(n.add("Gemm", z, n.bytes_of(3, 72), transB=1), 400.0, np.uint8(100))
    return n.finished([value("x", 1, [2, 6, 8])], [value(last, 1, [2, 3])])


def test_products_find_their_bytes_beyond_movements(dev: pk.Device) -> None:
    proto = moved()
    kinds = [n.op for n in fuse(load(proto)).nodes]
    assert not {"MatMul", "Gemm"} & set(kinds)
    assert kinds.count("QLinearMatMul") == 3 and kinds.count("com.microsoft.QGemm") == 1
    assert kinds.count("QuantizeLinear") == 1 and kinds.count("DequantizeLinear") == 1
    model = pk.onnx.load(proto, device=dev)
    for seed in range(3):
        x = {"x": np.random.default_rng(seed).standard_normal((2, 6, 8)).astype("f4")}
        (want,), (found,) = Reference(proto, optimized=False).run(x).values(), model(x).values()
        # A value between two integers may go to either in any layer.
        assert np.abs(found - want).max() <= 400.0
        assert (found == want).mean() >= 0.5


@pytest.mark.parametrize("case", ["scales", "output", "used"])
def test_movements_of_other_values_stay(dev: pk.Device, case: str) -> None:
    """A scale for each channel, a moved float and a moved byte that are outputs, a movement that
    something else reads."""
    n = Quantized(6)
    if case == "scales":
        y = n.bytes_of(4, 6, scales=[0.1, 0.2, 0.3, 0.4])
        y = n.add("Mul", n.add("Transpose", y, perm=[1, 0]), "x")
        outputs = [value(y, 1, [6, 4])]
    else:
        y = n.quantized("x", 0.05, np.uint8(110))
        y = n.add("Transpose", y, perm=[1, 0])
        again = n.add("QuantizeLinear", y, n.constant(np.float32(0.05)), n.constant(np.uint8(110)))
        outputs = [value(again, 2, [4, 6])]
        if case == "used":
            outputs.append(value(y, 1, [4, 6]))
    proto = n.finished([value("x", 1, [6, 4])], outputs)
    x = {"x": np.random.default_rng(1).standard_normal((6, 4)).astype("f4")}
    want, found = (
        Reference(proto, optimized=False).run(x),
        pk.onnx.load(proto, device=dev)(x),
    )
    for name, array in want.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6)
