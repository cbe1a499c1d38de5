"""Operations beyond those of tests/models/test_nodes.py, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pykernels as pk
from pykernels.onnx.checking import compare, made_up
from pykernels.onnx.fusion import fuse
from pykernels.onnx.operators import ENTRIES, RULES
from pykernels.onnx.program import Program
from pykernels.onnx.reader import load
from pykernels.onnx.shapes import input_shapes
from tests.models.test_nodes import CASES as SIMPLE
from tests.models.test_nodes import CHAINS, Array, check, ints, model, weights

pytestmark = pytest.mark.gpu

X, VOLUME = (2, 4, 6, 5), (2, 2, 5, 6, 4)


def some(kind: str, *shape: int, seed: int = 0) -> Array:
    """Integers of all values that a dtype of bytes has."""
    limits = np.iinfo(kind)
    rng = np.random.default_rng(seed)
    return rng.integers(limits.min, limits.max + 1, shape).astype(kind)


def gru(**options: object) -> onnx.ModelProto:
    """A GRU over 5 steps for batches of 3."""
    return model(
        "GRU", (5, 3, 4), weights(1, 18, 4), weights(1, 18, 6, seed=1), weights(1, 36, seed=2),
        hidden_size=6, outputs=2, **options,
    )  # fmt: skip


SIDES = (weights(2, 6, 4), weights(2, 6, 6, seed=1), weights(2, 12, seed=2))
GRID = np.random.default_rng(3).uniform(-1.2, 1.2, (2, 3, 4, 2)).astype("f4")
CASES = {
    "MaxPool_indices": model("MaxPool", X, kernel_shape=[2, 3], strides=[2, 1], pads=[0, 1, 0, 1],
                             outputs=2),
    "MaxPool_indices_columns": model("MaxPool", X, kernel_shape=[2, 2], storage_order=1, outputs=2),
    "MaxPool_volume": model("MaxPool", VOLUME, kernel_shape=[3, 2, 2], strides=[2, 1, 2],
                            pads=[1, 0, 0, 1, 1, 0]),
    "AveragePool_volume": model("AveragePool", VOLUME, kernel_shape=[3, 2, 2], strides=[2, 1, 2],
                                pads=[1, 0, 1, 1, 1, 0]),
    "AveragePool_gaps": model("AveragePool", X, kernel_shape=[2, 2], dilations=[2, 1],
                              pads=[1, 1, 1, 1], opset=19),
    "AveragePool_up": model("AveragePool", X, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1,
                            pads=[1, 1, 1, 1], count_include_pad=1, opset=19),
    "LpPool": model("LpPool", X, kernel_shape=[2, 3], strides=[1, 2], p=3),
    "GlobalLpPool": model("GlobalLpPool", X, p=2),
    "MaxUnpool": model("MaxUnpool", (1, 1, 2, 2), ints(5, 7, 13, 15).reshape(1, 1, 2, 2),
                       kernel_shape=[2, 2], strides=[2, 2]),
    "Col2Im": model("Col2Im", (2, 12, 16), ints(5, 4), ints(2, 2), pads=[0, 1, 0, 0]),
    "GridSample": model("GridSample", X, GRID, opset=16, align_corners=1),
    "GridSample_nearest": model("GridSample", X, GRID, opset=16, mode="nearest",
                                padding_mode="border"),
    "GridSample_volume": model("GridSample", (1, 2, 3, 4, 3),
                               np.random.default_rng(3).uniform(-1.2, 1.2, (1, 2, 2, 3, 3))
                               .astype("f4"), opset=20, padding_mode="reflection"),
    "GridSample_cubic": model("GridSample", X, GRID, opset=20, mode="cubic",
                              padding_mode="border"),
    "ConvTranspose_volume": model("ConvTranspose", VOLUME, weights(2, 3, 2, 3, 2), weights(3),
                                  strides=[2, 1, 3], pads=[0, 1, 0, 1, 0, 1],
                                  output_padding=[1, 0, 0]),
    "Conv_volume": model("Conv", VOLUME, weights(4, 1, 2, 3, 2), weights(4), group=2,
                         strides=[2, 1, 1], pads=[1, 0, 1, 0, 1, 0], dilations=[1, 2, 1]),
    "ConvTranspose_shape": model("ConvTranspose", X, weights(4, 3, 3, 3), strides=[2, 2],
                                 output_shape=[12, 11]),
    "ConvTranspose_same": model("ConvTranspose", X, weights(4, 3, 3, 3), strides=[2, 2],
                                auto_pad="SAME_UPPER"),
    "CumSum_exclusive": model("CumSum", (3, 5), np.array(1), exclusive=1, reverse=1),
    "Hardmax": model("Hardmax", X, axis=1),
    "Hardmax_old": model("Hardmax", X, axis=2, opset=11),
    "LpNormalization": model("LpNormalization", X, axis=1, p=1),
    "LpNormalization_2": model("LpNormalization", X, axis=-1),
    "EyeLike": model("EyeLike", (3, 5), k=1, dtype=7),
    "GatherND": model("GatherND", X, ints(0, 3, 1, 1, 0, -1).reshape(2, 1, 3)),
    "GatherND_batch": model("GatherND", X, ints(0, 3, 1, 2).reshape(2, 2, 1), batch_dims=1),
    "ScatterND": model("ScatterND", (4, 3, 2), ints(0, 2, 3, 1).reshape(2, 2), (2, 2)),
    "ScatterND_add": model("ScatterND", (4, 3), ints(1, 3, 1).reshape(3, 1), (3, 3),
                           reduction="add", opset=16),
    "ScatterND_least": model("ScatterND", (4, 3), ints(1, 3, 1).reshape(3, 1), (3, 3),
                             reduction="min", opset=18),
    "ScatterElements_most": model("ScatterElements", (5, 4), ints(1, 0, 1, -1, 2, 1).reshape(3, 2),
                                  (3, 2), reduction="max", opset=18),
    "ScatterElements_product": model("ScatterElements", (3, 4),
                                     ints(1, 0, 1, -1, 2, 1).reshape(3, 2), (3, 2), axis=1,
                                     reduction="mul", opset=18),
    "Scatter": model("Scatter", (3, 3), ints(1, 0, 2, 0, 2, 1).reshape(2, 3), (2, 3), opset=9),
    "ReverseSequence": model("ReverseSequence", (5, 3, 2), ints(1, 5, 3), time_axis=0,
                             batch_axis=1),
    "BatchNormalization_trained": model("BatchNormalization", X, weights(4), weights(4), weights(4),
                                        np.abs(weights(4)), training_mode=1, opset=15,
                                        outputs=3),
    "LayerNormalization_all": model("LayerNormalization", X, weights(6, 5), weights(6, 5), axis=2,
                                    outputs=3),
    "ArgMax_last": model("ArgMax", ("f4", 3, 4), axis=1, select_last_index=1),
    "Det": model("Det", (3, 3)), "Det_batches": model("Det", (2, 3, 12, 12), opset=11),
    "Einsum_one": model("Einsum", (3, 3, 2), equation="iij->j"),
    "Resize_odd": model("Resize", X, None, np.float32([1, 1, 1.3, 0.7]), mode="linear"),
    "Resize_cubic": model("Resize", X, None, np.float32([1, 1, 1.7, 2]), mode="cubic",
                          cubic_coeff_a=-0.5, exclude_outside=1),
    "Resize_volume": model("Resize", VOLUME, None, np.float32([1, 1, 2, 1.5, 1]), mode="linear"),
    "Resize_region": model("Resize", X, np.float32([0, 0, 0.2, 0.1, 1, 1, 0.8, 1.3]), None,
                           ints(2, 4, 4, 7), coordinate_transformation_mode="tf_crop_and_resize",
                           mode="linear", extrapolation_value=2.5),
    "Resize_smooth": model("Resize", X, None, np.float32([1, 1, 0.6, 0.5]), mode="linear",
                           antialias=1),
    "DFT": model("DFT", (2, 6, 3, 1), onesided=1, opset=17),
    "DFT_inverse": model("DFT", (2, 6, 3, 2), np.array(8, np.int64), axis=2, inverse=1, opset=17),
    "STFT": model("STFT", (2, 40, 1), ints(6)[0], np.abs(weights(10)), ints(10)[0], opset=17),
    "GRU": gru(),
    "GRU_before": gru(linear_before_reset=1, direction="reverse"),
    "GRU_lengths": model("GRU", (5, 3, 4), weights(1, 18, 4), weights(1, 18, 6, seed=1), None,
                         np.int32([2, 5, 3]), (1, 3, 6), hidden_size=6, outputs=2),
    "RNN": model("RNN", (5, 3, 4), *SIDES, hidden_size=6, direction="bidirectional", outputs=2,
                 activations=["Relu", "Affine"], activation_alpha=[0.5], activation_beta=[0.1]),
    "LSTM_peepholes": model("LSTM", (4, 3, 4), weights(1, 24, 4), weights(1, 24, 6, seed=1),
                            weights(1, 48, seed=2), None, None, None, weights(1, 18, seed=3),
                            hidden_size=6, outputs=3, clip=0.75),
    "LSTM_peepholes_alone": model("LSTM", (4, 3, 4), weights(1, 24, 4), weights(1, 24, 6, seed=1),
                                  weights(1, 48, seed=2), None, None, None, weights(1, 18, seed=3),
                                  hidden_size=6, outputs=3),
    "RoiAlign": model("RoiAlign", (2, 3, 9, 8), np.float32([[0.3, 0.6, 5.2, 4.1], [2, 1, 9, 11]]),
                      np.array([1, 0]), output_height=2, output_width=3, sampling_ratio=2,
                      spatial_scale=0.75, opset=16),
    "DeformConv": model("DeformConv", (1, 4, 6, 5), weights(2, 4, 3, 3), weights(1, 18, 6, 5),
                        weights(2), None, pads=[1, 1, 1, 1], opset=19),
    "QuantizeLinear": model("QuantizeLinear", (40, 50), np.float32(0.031), np.uint8(7)),
    "QuantizeLinear_axis": model("QuantizeLinear", X, np.float32([0.1, 0.2, 0.03, 0.04]),
                                 np.int8([-3, 0, 4, 100]), axis=1),
    "QuantizeLinear_block": model("QuantizeLinear", (4, 6), np.float32([[0.1, 0.2]] * 4), None,
                                  axis=1, block_size=3, output_dtype=3, opset=21),
    "DequantizeLinear": model("DequantizeLinear", ("u1", 5, 9), np.float32(0.07), np.uint8(131)),
    "DequantizeLinear_axis": model("DequantizeLinear", ("i1", 3, 9), np.float32([0.1, 2, 3]),
                                   np.int8([-3, 5, 0]), axis=0),
    "DequantizeLinear_sums": model("DequantizeLinear", ("i4", 3, 9), np.float32(1e-3)),
    "DynamicQuantizeLinear": model("DynamicQuantizeLinear", (30, 20), outputs=3),
    "MatMulInteger": model("MatMulInteger", ("u1", 2, 5, 300), some("i1", 300, 7), np.uint8(131),
                           some("i1", 7, seed=1)),
    "MatMulInteger_rows": model("MatMulInteger", ("u1", 5, 70), some("u1", 70, 6), np.uint8(3)),
    "ConvInteger": model("ConvInteger", ("u1", 2, 4, 6, 5), some("u1", 6, 4, 3, 3), np.uint8(131),
                         np.uint8(120), pads=[1, 0, 1, 2], strides=[2, 1]),
    "QLinearMatMul": model(
        "QLinearMatMul", ("u1", 5, 64), np.float32(0.02), np.uint8(120), some("i1", 64, 6),
        np.float32([0.01, 0.02, 0.03, 0.04, 0.05, 0.06]), np.zeros(6, "i1"), np.float32(0.3),
        np.uint8(99), opset=10,
    ),
    "QLinearConv": model(
        "QLinearConv", ("u1", 2, 4, 6, 5), np.float32(0.02), np.uint8(120), some("i1", 6, 2, 3, 3),
        np.float32([0.01, 0.02, 0.03, 0.04, 0.05, 0.06]), np.zeros(6, "i1"), np.float32(0.1),
        np.uint8(99), np.int32([5, -900, 30, 4, 0, 77]), group=2, pads=[1, 1, 1, 1],
    ),
}  # fmt: skip
# What onnxruntime does not have: ONNX's own suite has these, and PRelu of version 6.
ELSEWHERE = {
    "BitCast", "CumProd", "PRelu", "ReduceLogSum", "SimplifiedLayerNormalization", "TensorScatter",
}  # fmt: skip
RANDOM = {"RandomNormalLike", "RandomUniformLike"}


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_as_in_onnxruntime(name: str, dev: pk.Device) -> None:
    check(CASES[name], dev)


def test_every_operation_is_here() -> None:
    """In a case above or of test_nodes.py, or in a chain."""
    tried = {n.op_type for p in (*CASES.values(), *SIMPLE.values()) for n in p.graph.node}
    known = {name for name in ENTRIES if "." not in name}
    assert known - tried == ELSEWHERE | RANDOM
    chained = {line.split()[1] for chain in CHAINS.values() for line in chain}
    assert RULES.keys() - chained == {"Affine", "IsInf", "IsNaN", "Swish"}


@pytest.mark.parametrize("kind", ["Normal", "Uniform"])
def test_random_numbers_are_those_of_the_attributes(kind: str, dev: pk.Device) -> None:
    options = {"mean": 3.0, "scale": 2.0} if kind == "Normal" else {"low": 1.0, "high": 5.0}
    proto = model(f"Random{kind}Like", (100, 100), **options)
    program = Program(fuse(load(proto)), dev)
    inputs = made_up(proto, input_shapes(proto, {}))
    first, second, third = (program.run(inputs)["y0"] for _ in range(3))
    assert abs(first.mean() - 3) < 0.1
    assert abs(first.std() - (2 if kind == "Normal" else 4 / 12**0.5)) < 0.1
    assert not np.array_equal(first, second) and not np.array_equal(second, third)


def test_dropout_in_training(dev: pk.Device) -> None:
    proto = model("Dropout", (100, 100), np.float32(0.25), np.array(True), outputs=2)
    x = np.ones((100, 100), "f4")
    program = Program(fuse(load(proto)), dev)
    first, second = program.run({"x0": x}), program.run({"x0": x})
    assert abs(first["y1"].mean() - 0.75) < 0.03
    np.testing.assert_allclose(first["y0"], np.where(first["y1"], x / 0.75, 0), rtol=1e-6)
    assert not np.array_equal(first["y1"], second["y1"])


def test_bytes_are_multiplied_exactly(dev: pk.Device) -> None:
    """Sums beyond 2^24, which float32 would round."""
    proto = model("MatMulInteger", ("u1", 3, 3000), some("u1", 3000, 5))
    x = some("u1", 3, 3000, seed=9)
    got = Program(fuse(load(proto)), dev).run({"x0": x})["y0"]
    want = x.astype(np.int64) @ some("u1", 3000, 5).astype(np.int64)
    assert want.max() > 1 << 24
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["conv", "matmul"])
def test_a_dynamically_quantised_chain(kind: str, dev: pk.Device) -> None:
    """As onnxruntime's tools write it: the border of the convolution is a value of the run."""
    node = helper.make_node
    if kind == "conv":
        name, shape, w = "ConvInteger", (1, 3, 7, 6), some("i1", 4, 3, 3, 3)
        options = {"pads": [1, 1, 1, 1]}
    else:
        name, shape, w, options = "MatMulInteger", (4, 9), some("i1", 9, 5), {}
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node(name, ["q", "w", "z"], ["i"], **options),
        node("Cast", ["i"], ["f"], to=1),
        node("Mul", ["f", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "dynamic", [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    sets = [helper.make_operatorsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=sets, ir_version=9)
    inputs = made_up(proto, input_shapes(proto, {}))
    (found,) = compare(proto, Program(fuse(load(proto)), dev), inputs)
    assert found.fits, str(found)


@pytest.mark.parametrize("length", [7, 8, 150, 151])
def test_one_side_of_a_transform_becomes_a_signal(dev: pk.Device, length: int) -> None:
    half = weights(2, length // 2 + 1, 2)
    proto = model("DFT", half.shape, np.array(length), axis=1, inverse=1, onesided=1, opset=17)
    want = np.fft.irfft(half[..., 0] + 1j * half[..., 1], length, axis=1)[..., None]
    np.testing.assert_allclose(pk.onnx.load(proto, device=dev)(x0=half)["y0"], want, atol=1e-5)
