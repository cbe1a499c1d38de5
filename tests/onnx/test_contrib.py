"""Operations of the domain com.microsoft beside onnxruntime, which defines them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pykernels as pk
from pykernels.onnx import ModelError
from pykernels.onnx.checking import compare, made_up
from pykernels.onnx.definitions_contrib import DEFINED
from pykernels.onnx.fusion import fuse
from pykernels.onnx.operators import ENTRIES
from pykernels.onnx.program import Program
from pykernels.onnx.reader import load
from pykernels.onnx.shapes import input_shapes
from tests.models.test_nodes import Array, weights

pytestmark = pytest.mark.gpu
DOMAIN = "com.microsoft"
X = (2, 5, 8)


def model(op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    """One node: tuples are shapes of inputs, arrays constants, None is not there."""
    names, values, constants = [], [], []
    for i, given in enumerate(inputs):
        names.append("" if given is None else f"x{i}")
        if isinstance(given, (np.ndarray, np.generic)):
            constants.append(numpy_helper.from_array(np.asarray(given), f"x{i}"))
        elif given is not None:
            kind, shape = (given[0], given[1:]) if isinstance(given[0], str) else ("f4", given)
            number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            values.append(helper.make_tensor_value_info(f"x{i}", number, shape))
    found = [f"y{i}" if i in (0, 3) or outputs < 4 else "" for i in range(outputs)]
    node = helper.make_node(op, names, found, domain=DOMAIN, **attributes)
    results = [onnx.ValueInfoProto(name=n) for n in found if n]
    graph = helper.make_graph([node], "one", values, results, constants)
    sets = [helper.make_operatorsetid("", 17), helper.make_operatorsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


def bytes_of(kind: str, *shape: int) -> Array:
    limits = np.iinfo(kind)
    return np.random.default_rng(5).integers(limits.min, limits.max + 1, shape).astype(kind)


NORM = (weights(8, seed=1), weights(8, seed=2), weights(8, seed=3))
MASK = np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
Q = [(np.float32(s), np.uint8(z)) for s, z in ((0.031, 2), (0.27, 7), (0.11, 3))]


def angles(half: int) -> tuple[Array, ...]:
    """Cosines and sines of 12 places."""
    at = np.outer(np.arange(12), 0.5 ** np.arange(half))
    return np.cos(at).astype("f4"), np.sin(at).astype("f4")


def grouped(
    length: int, before: int, ends: tuple[int, ...], *, packed: bool = False, **attributes: Any
) -> onnx.ModelProto:
    """4 heads that share 2 heads of keys and values."""
    count = len(ends)
    inputs: list[Any] = [(count, length, 64), (count, length, 32), (count, length, 32)]
    if packed:
        inputs = [(count, length, 128), None, None]
    past = [(count, 2, before, 16)] * 2 if before else [None, None]
    total = np.array(max(ends) + 1, np.int32)
    return model(
        "GroupQueryAttention", *inputs, *past, np.int32(ends), total,
        *(angles(8) if attributes.get("do_rotary") else ()), outputs=3, num_heads=4, kv_num_heads=2,
        **attributes,
    )  # fmt: skip


def mixed(order: Array) -> Array:
    """Groups of columns, out of order."""
    return np.random.default_rng(6).permutation(order).astype("i4")


def bits(
    n: int, k: int, block: int, width: int = 4, zeros: Array | None = None,
    bias: Array | None = None, order: Array | None = None,
) -> onnx.ModelProto:  # fmt: skip
    """A product with weights of a few bits, of two matrices of rows."""
    count = -(-k // block)
    data = bytes_of("u1", n, count, block * width // 8)
    scales = np.abs(weights(n, count)) / 9
    return model(
        "MatMulNBits",
        (2, 3, k),
        data,
        scales,
        zeros,
        order,
        bias,
        K=k,
        N=n,
        bits=width,
        block_size=block,
    )


CASES = {
    "Gelu": model("Gelu", X),
    "FastGelu": model("FastGelu", X),
    "FastGelu_bias": model("FastGelu", X, NORM[0]),
    "BiasGelu": model("BiasGelu", X, NORM[0]),
    "QuickGelu": model("QuickGelu", X, alpha=1.5),
    "SkipLayerNormalization": model("SkipLayerNormalization", X, X, *NORM, epsilon=1e-3),
    "SkipLayerNormalization_sum": model("SkipLayerNormalization", X, X, NORM[0], outputs=4),
    "SkipSimplifiedLayerNormalization": model("SkipSimplifiedLayerNormalization", X, X, NORM[0],
                                              NORM[2], outputs=4),
    "EmbedLayerNormalization": model(
        "EmbedLayerNormalization", ("i4", 2, 5), np.int32([[0, 0, 1, 1, 0]] * 2), weights(10, 8),
        weights(6, 8, seed=1), weights(2, 8, seed=2), *NORM[:2], MASK, outputs=3,
    ),
    "FusedMatMul": model("FusedMatMul", (2, 6, 5), (2, 7, 6), transA=1, transB=1, alpha=0.25),
    "MatMulIntegerToFloat": model(
        "MatMulIntegerToFloat", ("u1", 5, 64), bytes_of("i1", 64, 7), np.float32(0.02),
        weights(7), np.uint8(7), None, weights(7, seed=4),
    ),
    "DynamicQuantizeMatMul": model("DynamicQuantizeMatMul", (5, 64), bytes_of("i1", 64, 7),
                                   np.float32(0.02), None, weights(7)),
    "QLinearAdd": model("QLinearAdd", ("u1", 3, 5, 7), *Q[0], ("u1", 5, 1), *Q[1], *Q[2]),
    "QLinearMul": model("QLinearMul", ("u1", 3, 5, 7), *Q[0], ("u1", 5, 1), *Q[1], *Q[2]),
    "QLinearSigmoid": model("QLinearSigmoid", ("u1", 30, 50), *Q[0], np.float32(1 / 256),
                            np.uint8(0)),
    "QLinearLeakyRelu": model("QLinearLeakyRelu", ("u1", 30, 50), *Q[0], *Q[2], alpha=0.3),
    "QGemm": model("QGemm", ("u1", 9, 6), *Q[0], bytes_of("i1", 7, 9), np.float32(0.02),
                   np.int8(3), np.int32([5, -900, 30, 4, 0, 77, 1]), np.float32(0.6), np.uint8(120),
                   transA=1, transB=1),
    "QGemm_float": model("QGemm", ("u1", 6, 9), *Q[0], bytes_of("i1", 9, 7), np.float32(0.02),
                         np.int8(0)),
    "Attention": model("Attention", X, weights(8, 24), weights(24), num_heads=2),
    "Attention_mask": model("Attention", X, weights(8, 24), weights(24), MASK, num_heads=2),
    "Attention_causal": model("Attention", X, weights(8, 24), weights(24), None, num_heads=4,
                              unidirectional=1),
    "RotaryEmbedding": model("RotaryEmbedding", (2, 3, 16), np.array([[0, 1, 2], [3, 1, 0]]),
                             *angles(4)),
    "RotaryEmbedding_part": model("RotaryEmbedding", (2, 3, 24), np.array([2]), *angles(4),
                                  num_heads=2, rotary_embedding_dim=8),
    "RotaryEmbedding_pairs": model("RotaryEmbedding", (2, 2, 3, 8),
                                   np.array([[0, 1, 2], [3, 1, 0]]),
                                   *angles(4), interleaved=1),
    "GroupQueryAttention": grouped(3, 0, (2, 2)),
    "GroupQueryAttention_next": grouped(1, 5, (5, 5)),
    "GroupQueryAttention_uneven": grouped(1, 6, (5, 3), do_rotary=1),
    "GroupQueryAttention_room": grouped(1, 9, (5, 3), do_rotary=1, rotary_interleaved=1),
    "GroupQueryAttention_packed": grouped(4, 0, (3, 3), packed=True, do_rotary=1),
    "GroupQueryAttention_window": grouped(1, 6, (6, 4), local_window_size=3, scale=0.2),
    "GroupQueryAttention_prompt_window": grouped(7, 0, (6, 6), local_window_size=3, softcap=5.0),
    "GroupQueryAttention_prompt_room": grouped(3, 5, (2, 2)),
    "GroupQueryAttention_one": grouped(2, 4, (5,), do_rotary=1),
    "MultiHeadAttention": model("MultiHeadAttention", X, X, X, num_heads=2, scale=0.3),
    "MultiHeadAttention_bias": model("MultiHeadAttention", (2, 5, 8), (2, 3, 8), (2, 3, 8),
                                     weights(24), num_heads=2),
    "MultiHeadAttention_past": model("MultiHeadAttention", (2, 1, 8), (2, 1, 8), (2, 1, 8), None,
                                     None, None, (2, 2, 3, 4), (2, 2, 3, 4), num_heads=2,
                                     outputs=3),
    "Attention_past": model("Attention", X, weights(8, 24), weights(24), None, (2, 2, 2, 3, 4),
                            num_heads=2, unidirectional=1, outputs=2),
    "FusedConv": model("FusedConv", (1, 3, 6, 5), weights(4, 3, 3, 3), weights(4), (1, 4, 4, 3),
                       activation="LeakyRelu", activation_params=[0.3]),
    "FusedConv_clip": model("FusedConv", (1, 3, 6, 5), weights(4, 3, 3, 3), pads=[1, 1, 1, 1],
                            activation="Clip", activation_params=[0.0, 2.0]),
    "FusedGemm": model("FusedGemm", (5, 8), weights(8, 3), weights(3), activation="Relu"),
    "QLinearAveragePool": model("QLinearAveragePool", ("u1", 1, 3, 6, 5), *Q[0], *Q[2],
                                kernel_shape=[2, 2]),
    "QLinearGlobalAveragePool": model("QLinearGlobalAveragePool", ("u1", 1, 3, 6, 5), *Q[0], *Q[2]),
    "QLinearSoftmax": model("QLinearSoftmax", ("u1", 3, 9), *Q[0], np.float32(1 / 256), np.uint8(0),
                            axis=-1, opset=13),
    "QLinearConcat": model("QLinearConcat", *Q[0], ("u1", 2, 3), *Q[1], ("u1", 2, 4), *Q[2],
                           axis=1),
    "QLinearWhere": model("QLinearWhere", ("?", 3, 1), ("u1", 3, 4), *Q[1], ("u1", 4), *Q[2],
                          *Q[0]),
    "MatMulNBits": bits(48, 64, 32),
    "MatMulNBits_zeros": bits(48, 64, 16, zeros=bytes_of("u1", 48, 2)),
    "MatMulNBits_bytes": bits(24, 64, 32, 8, zeros=bytes_of("u1", 24, 2)),
    "MatMulNBits_odd": bits(8, 40, 16, bias=weights(8)),
    "MatMulNBits_order": bits(48, 64, 16, order=mixed(np.arange(64) // 16)),
    "MatMulNBits_groups": bits(24, 64, 16, order=mixed(np.arange(64) % 5 % 4)),
    "MatMulNBits_order_odd": bits(8, 48, 16, order=mixed(np.arange(48) // 16)),
    "GatherBlockQuantized": model("GatherBlockQuantized", bytes_of("u1", 10, 24), ("i8", 3, 2),
                                  weights(10, 3), bytes_of("u1", 10, 2), block_size=16,
                                  quantize_axis=1),
    "GatherBlockQuantized_signed": model(
        "GatherBlockQuantized", bytes_of("i1", 10, 32).astype(ml_dtypes.int4), np.array([[3, -1]]),
        weights(10, 2), block_size=16, quantize_axis=1),
    "MultiHeadAttention_added": model("MultiHeadAttention", X, X, X, None, None,
                                      weights(1, 2, 5, 5), num_heads=2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_as_in_onnxruntime(name: str, dev: pk.Device) -> None:
    proto = CASES[name]
    inputs = made_up(proto, input_shapes(proto, {}))
    program = Program(fuse(load(proto)), dev)
    for _ in range(2):  # the second run is captured
        for found in compare(proto, program, inputs):
            assert found.fits, str(found)


@pytest.mark.parametrize(("width", "whole"), [(4, True), (4, False), (8, True)])
def test_zero_points_of_mixed_groups(dev: pk.Device, width: int, whole: bool) -> None:
    """By the definition: onnxruntime 1.32 computes other numbers for groups in order, too, if there
    are zero points, and none for bytes."""
    order = mixed(np.arange(64) // 16 if whole else np.arange(64) % 5 % 4)
    zeros = bytes_of("u1", 24, 4 * width // 8)
    proto = bits(24, 64, 16, width, zeros=zeros, order=order)
    weights_ = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    data, scales = (weights_[n] for n in list(proto.graph.node[0].input)[1:3])

    def numbers(packed: Array) -> Array:
        rows = packed.reshape(24, -1)
        return rows if width == 8 else np.stack([rows & 15, rows >> 4], -1).reshape(24, -1)

    w = (numbers(data) - numbers(zeros).astype("f8")[:, order]) * scales[:, order]
    inputs = made_up(proto, input_shapes(proto, {}))
    (x,) = inputs.values()
    (y,) = Program(fuse(load(proto)), dev).run(inputs).values()
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-4, atol=1e-4 * np.abs(w).max())


def test_every_operation_is_here() -> None:
    tried = {f"{DOMAIN}.{p.graph.node[0].op_type}" for p in CASES.values()}
    known = {n for n in ENTRIES if n.startswith(DOMAIN)} | {f"{DOMAIN}.{n}" for n in DEFINED}
    assert known == tried


@pytest.mark.parametrize(
    ("proto", "told"),
    [
        (model("LongformerAttention", X, X, X), "this operation is missing"),
        (model("Attention", X, weights(8, 24), weights(24), num_heads=2, do_rotary=1),
         "or rotary positions"),
        (model("MultiHeadAttention", (2, 5, 2, 3, 4), num_heads=2), "an input is missing"),
        (model("FusedMatMul", (2, 3), (2, 3)), "do not fit each other"),
    ],
)  # fmt: skip
def test_what_is_missing_has_a_name(proto: onnx.ModelProto, told: str, dev: pk.Device) -> None:
    inputs = made_up(proto, input_shapes(proto, {}))
    with pytest.raises(ModelError, match=told) as error:
        Program(fuse(load(proto)), dev).run(inputs)
    assert error.value.operator.startswith(DOMAIN)
