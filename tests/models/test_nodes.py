"""Each operation of the walker in graphs of one node, or one for a chain, beside onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import pykernels as pk
from pykernels.onnx import ModelError
from pykernels.onnx.checking import compare, made_up
from pykernels.onnx.fusion import fuse
from pykernels.onnx.graph import Graph
from pykernels.onnx.program import Program
from pykernels.onnx.reader import load
from pykernels.onnx.shapes import input_shapes

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.gpu


def weights(*shape: int, seed: int = 0, kind: str = "f4") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def model(
    op: str, *inputs: Any, opset: int = 18, outputs: int | tuple[str, ...] = 1, **attributes: Any
) -> onnx.ModelProto:
    """One node: shapes are inputs that the run gets, arrays constants, None is not there. A dtype
    in front of a shape is that of the input. `outputs`: how many, or their names, "" for none."""
    names, values, constants = [], [], []
    for i, given in enumerate(inputs):
        names.append("" if given is None else f"x{i}")
        if isinstance(given, (np.ndarray, np.generic)):
            constants.append(numpy_helper.from_array(np.asarray(given), f"x{i}"))
        elif given is not None:
            kind, shape = (given[0], given[1:]) if isinstance(given[0], str) else ("f4", given)
            number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            values.append(helper.make_tensor_value_info(f"x{i}", number, shape))
    found = [f"y{i}" for i in range(outputs)] if isinstance(outputs, int) else list(outputs)
    node = helper.make_node(op, names, found, **attributes)
    graph = helper.make_graph(
        [node], "one", values, [onnx.ValueInfoProto(name=n) for n in found if n], constants
    )
    return finished(graph, opset)


def finished(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    made = helper.make_model(
        graph, opset_imports=[helper.make_operatorsetid("", opset)], ir_version=9
    )
    return onnx.shape_inference.infer_shapes(made)


def check(proto: onnx.ModelProto, dev: pk.Device, **given: Array) -> Graph:
    """Outputs, node by node and fused."""
    inputs = made_up(proto, input_shapes(proto, {n: v.shape for n, v in given.items()}))
    inputs.update(given)
    graph = load(proto)
    fused = fuse(graph)
    for difference in compare(proto, Program(fused, dev), inputs):
        assert difference.fits, str(difference)
    return fused


X = (2, 4, 6, 5)
CASES = {
    "Conv_signal": model("Conv", (2, 4, 9), weights(6, 2, 3), weights(6), group=2, strides=[2],
                         pads=[2, 1]),
    "Conv_same": model("Conv", X, weights(3, 4, 3, 2), auto_pad="SAME_LOWER", strides=[2, 1]),
    "Conv_weights": model("Conv", X, (3, 4, 3, 3), dilations=[2, 1], pads=[2, 0, 1, 1]),
    "ConvTranspose": model("ConvTranspose", X, weights(4, 3, 3, 2), weights(6), group=2,
                           strides=[2, 3], pads=[1, 0, 0, 1], output_padding=[1, 0]),
    "ConvTranspose_signal": model("ConvTranspose", (2, 4, 5), weights(4, 3, 4), strides=[2]),
    "MaxPool": model("MaxPool", X, kernel_shape=[3, 2], strides=[2, 1], pads=[2, 0, 0, 1]),
    "MaxPool_ceil": model("MaxPool", X, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "MaxPool_signal": model("MaxPool", (2, 4, 9), kernel_shape=[3], dilations=[2]),
    "AveragePool": model("AveragePool", X, kernel_shape=[3, 3], strides=[2, 1],
                         pads=[0, 1, 2, 1]),
    "AveragePool_counted": model("AveragePool", X, kernel_shape=[3, 2], pads=[2, 0, 1, 0],
                                 count_include_pad=1),
    "AveragePool_inside": model("AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "MaxPool_behind": model("MaxPool", X, opset=22, kernel_shape=[3, 3], strides=[3, 3],
                            pads=[0, 0, 2, 2], ceil_mode=1),
    "AveragePool_behind": model("AveragePool", X, opset=22, kernel_shape=[3, 3], strides=[3, 3],
                                pads=[0, 0, 2, 2], ceil_mode=1),
    "GlobalAveragePool": model("GlobalAveragePool", X),
    "GlobalMaxPool": model("GlobalMaxPool", X),
    "LRN": model("LRN", X, size=3, alpha=0.5),
    "MatMul": model("MatMul", (2, 3, 4), (4, 5)),
    "Gemm": model("Gemm", (4, 3), weights(5, 4), weights(3, 1), transA=1, transB=1, alpha=0.5,
                  beta=2.0),
    "Einsum": model("Einsum", (2, 3, 4), (2, 5, 4), equation="bij, bkj -> bik"),
    "LSTM": model("LSTM", (3, 2, 4), weights(2, 20, 4), weights(2, 20, 5), weights(2, 40), None,
                  (2, 2, 5), (2, 2, 5), outputs=3, hidden_size=5, direction="bidirectional"),
    "LSTM_state": model("LSTM", (3, 2, 4), weights(1, 20, 4), weights(1, 20, 5), hidden_size=5,
                        outputs=("", "h", "c")),
    "LSTM_cell": model("LSTM", (3, 2, 4), weights(1, 20, 4), weights(1, 20, 5), hidden_size=5,
                       outputs=("", "", "c")),
    "Shrink_9": model("Shrink", (3, 4), opset=9, bias=0.1, lambd=0.4),
    "MeanVarianceNormalization_9": model("MeanVarianceNormalization", X, opset=9),
    "MeanVarianceNormalization_13": model("MeanVarianceNormalization", X, opset=13, axes=[1, 2]),
    "LSTM_reverse": model("LSTM", (3, 2, 4), weights(1, 20, 4), weights(1, 20, 5),
                          hidden_size=5, direction="reverse"),
    "BatchNormalization": model("BatchNormalization", X, weights(4), weights(4, seed=1),
                                weights(4, seed=2), abs(weights(4)) + 0.1),
    "BatchNormalization_given": model("BatchNormalization", X, (4,), (4,), (4,),
                                      abs(weights(4)) + 0.1),
    "InstanceNormalization": model("InstanceNormalization", X, weights(4), weights(4, seed=1)),
    "LayerNormalization": model("LayerNormalization", X, weights(6, 5), weights(6, 5, seed=1),
                                axis=2),
    "GroupNormalization": model("GroupNormalization", X, weights(4), weights(4, seed=1),
                                num_groups=2, opset=21),
    "Softmax_11": model("Softmax", (2, 3, 4), axis=1, opset=11),
    "Softmax_13": model("Softmax", (2, 3, 4), axis=1),
    "LogSoftmax": model("LogSoftmax", (2, 3, 4)),
    "ArgMax": model("ArgMax", X, axis=1, keepdims=0),
    "ArgMin": model("ArgMin", X, axis=-1),
    "CumSum": model("CumSum", (3, 4), ints(1).reshape(()), reverse=1),
    "TopK": model("TopK", (3, 7), ints(3), outputs=2, largest=0),
    "ReduceSum_11": model("ReduceSum", X, axes=[1, -1], keepdims=0, opset=11),
    "ReduceMean_all": model("ReduceMean", X),
    "ReduceSumSquare_none": model("ReduceSumSquare", X, ints(), noop_with_empty_axes=1),
    "ReduceMax_none": model("ReduceMax", X, ints(), noop_with_empty_axes=1),
    "Reshape": model("Reshape", X, ints(0, -1, 3)),
    "Flatten": model("Flatten", X, axis=-2),
    "Transpose": model("Transpose", X, perm=[2, 0, 3, 1]),
    "Transpose_all": model("Transpose", X),
    "Squeeze": model("Squeeze", (1, 3, 1, 2), ints(2)),
    "Squeeze_11": model("Squeeze", (1, 3, 1, 2), opset=11),
    "Unsqueeze": model("Unsqueeze", (3, 2), ints(0, -1)),
    "Expand": model("Expand", (3, 1), ints(2, 1, 4)),
    "Concat": model("Concat", (2, 3), (2, 1), weights(2, 2), axis=-1),
    "Split": model("Split", (2, 7), ints(3, 4), outputs=2, axis=1),
    "Split_parts": model("Split", (7, 2), outputs=3, num_outputs=3),
    "Slice": model("Slice", X, ints(5, -4, 1), ints(-99, 99, 3), ints(2, -1, 1), ints(-2, 3, 1)),
    "Slice_backwards": model("Slice", X, ints(-99, 99), ints(-99, -99), ints(2, 3), ints(-1, -2)),
    "Slice_9": model("Slice", X, starts=[1], ends=[-1], axes=[2], opset=9),
    "Gather": model("Gather", X, ints(3, -1, 0, 0).reshape(2, 2), axis=1),
    "Gather_one": model("Gather", X, np.array(-2), axis=2),
    "Gather_given": model("Gather", (6, 3), ("i8", 2, 3)),
    "GatherElements": model("GatherElements", (3, 4), ints(0, -1, 3, 2).reshape(2, 2), axis=1),
    "ScatterElements": model("ScatterElements", (3, 4), ints(2, -1).reshape(1, 2), (1, 2), axis=1),
    "ScatterElements_add": model("ScatterElements", (3, 4), ints(2, 2).reshape(1, 2), (1, 2),
                                 axis=1, reduction="add"),
    "Pad": model("Pad", X, ints(0, 0, 1, 2, 0, 1, -1, 0), np.array(2.5, "f4")),
    "Pad_axes": model("Pad", X, ints(2, 1), None, ints(-1), mode="reflect"),
    "Pad_edge": model("Pad", X, ints(0, 0, 1, 1, 0, 0, 2, 0), mode="edge"),
    "Tile": model("Tile", (2, 3), ints(2, 3)),
    "Trilu": model("Trilu", (3, 4), np.array(1), upper=0),
    "OneHot": model("OneHot", ("i8", 2, 3), ints(10), np.float32([0.5, 3]), axis=1),
    "OneHot_of_no_place": model("OneHot", ("i8", 2, 3), ints(4), np.float32([0.5, 3])),
    "Dropout_mask": model("Dropout", (2, 3), outputs=2),
    "DepthToSpace": model("DepthToSpace", (1, 8, 2, 3), blocksize=2),
    "DepthToSpace_CRD": model("DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="CRD"),
    "SpaceToDepth": model("SpaceToDepth", (1, 2, 4, 6), blocksize=2),
    "Resize": model("Resize", X, None, np.float32([1, 1, 1.5, 2]), mode="linear"),
    "Resize_sizes": model("Resize", X, None, None, ints(2, 4, 4, 9), mode="cubic",
                          coordinate_transformation_mode="align_corners"),
    "Resize_antialias": model("Resize", (1, 2, 9, 8), None, None, ints(1, 2, 4, 3), mode="linear",
                              antialias=1, exclude_outside=1),
    "Resize_antialias_cubic": model("Resize", (1, 2, 9, 8), None, None, ints(1, 2, 4, 3),
                                    mode="cubic", antialias=1, exclude_outside=1,
                                    cubic_coeff_a=-0.5),
    "Resize_10": model("Resize", X, np.float32([1, 1, 2, 2]), opset=10),
    "Upsample": model("Upsample", X, np.float32([1, 1, 2, 2]), opset=9),
    "Cast_half": model("Cast", X, to=10),
    "Cast_bytes": model("Cast", ("i4", 2, 3), to=2),
    # Those that ONNX defines by others.
    "MeanVarianceNormalization": model("MeanVarianceNormalization", X, axes=[0, 2, 3]),
    "MeanVarianceNormalization_usual": model("MeanVarianceNormalization", X),
    "RMSNormalization": model("RMSNormalization", X, weights(5), opset=23),
    "Shrink": model("Shrink", X, lambd=0.5, bias=0.25),
    "Attention": model("Attention", (2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8), opset=23),
    "CastLike": model("CastLike", ("i4", 2, 3), np.float32([1])),
}  # fmt: skip
for _name in ("Sum", "Mean", "Max", "Min", "Prod", "LogSumExp", "SumSquare", "L1", "L2"):
    CASES[f"Reduce{_name}"] = model(f"Reduce{_name}", X, ints(1, -1))


@pytest.mark.parametrize("name", CASES)
def test_an_operation_is_as_in_onnxruntime(name: str, dev: pk.Device) -> None:
    check(CASES[name], dev)


# Lines "NAME OP INPUTS", of INPUTS and numbers, which are constants. A chain adds up those called t
# and makes one expression or a few.
CHAINS = {
    "floats": (
        "t0 Abs a", "t1 Neg a", "t2 Exp a", "t3 Log b", "t4 Sqrt b", "t5 Reciprocal b",
        "t6 Pow b a", "t7 Pow a 2.0", "t8 Sub a 1.5", "t9 Mul a c", "t10 Div a b", "t11 Add a c",
    ),
    "rounded": (
        "t0 Floor a", "t1 Ceil a", "t2 Round a", "t3 Sign a", "t4 Max a b c", "t5 Min a c",
        "t6 Sum a b c", "t7 Mean a b c", "t8 Clip a -0.5 0.75", "t9 Mod a b fmod=1",
    ),
    "trigonometry": (
        "t0 Sin a", "t1 Cos a", "t2 Tan u", "t3 Asin u", "t4 Acos u", "t5 Atan a", "t6 Sinh u",
        "t7 Cosh u", "t8 Asinh a", "t9 Atanh u", "t10 Acosh v", "t11 Tanh a",
    ),
    "activations": (
        "t0 Relu a", "t1 Sigmoid a", "t2 LeakyRelu a alpha=0.2", "t3 Elu a alpha=0.5", "t4 Selu a",
        "t5 Celu a alpha=2.0", "t6 Softplus a", "t7 Softsign a", "t8 HardSigmoid a alpha=0.3",
        "t9 HardSwish a", "t10 Erf a",
    ),
    "more activations": (
        "t0 Mish a", "t1 ThresholdedRelu a alpha=0.5", "t2 PRelu a c", "t3 Gelu a",
        "t4 Gelu a approximate=tanh",
    ),
    "comparisons": (
        "p0 Greater a c", "p1 Less a c", "p2 GreaterOrEqual a 0.5", "p3 LessOrEqual a c",
        "p4 Equal i j", "p5 And p0 p2", "p6 Or p1 p4", "p7 Xor p3 p4", "p8 Not p6",
        "t0 Where p5 a b", "t1 Where p7 a c", "t2 Where p8 b c",
    ),
    "integers": (
        "k0 Div i j", "k1 Mod i j", "k2 Add k0 k1", "k3 Sub k2 i", "k4 Mul k3 i", "k5 Max k4 j",
        "t0 Cast k5 to=1",
    ),
    "bits": (
        "u0 BitwiseAnd m n", "u1 BitwiseOr m n", "u2 BitwiseXor u0 u1", "u3 BitwiseNot u2",
        "u4 BitShift u3 n direction=RIGHT", "t0 Cast u4 to=1",
    ),
}  # fmt: skip
INPUTS = {
    "a": weights(4, 8) * 2, "b": abs(weights(4, 8, seed=1)) + 0.2, "c": weights(8, seed=2),
    "u": np.clip(weights(4, 8, seed=3) / 3, -0.9, 0.9), "v": abs(weights(4, 8)) + 1.1,
    "i": np.random.default_rng(4).integers(-20, 20, (4, 8)),
    "j": np.random.default_rng(5).integers(1, 7, (8,)),
    "m": np.random.default_rng(6).integers(0, 2**20, (4, 8)).astype(np.uint32),
    "n": np.random.default_rng(7).integers(0, 9, (8,)).astype(np.uint32),
}  # fmt: skip


def written(
    lines: tuple[str, ...], output: str, inputs: dict[str, Array], weights: dict[str, Array]
) -> onnx.ModelProto:
    """The nodes that lines "NAME OP INPUTS ATTRIBUTES" describe; numbers are constants."""
    nodes, constants, used = [], dict(weights), set()
    for line in lines:
        name, op, *operands = line.split()
        given = dict(o.split("=") for o in operands if "=" in o)
        attributes: dict[str, Any] = {}
        for key, v in given.items():
            value = float(v) if "." in v else int(v) if re.fullmatch(r"-?\d+", v) else v
            attributes[key] = [value] if key == "axes" else value
        names = [o for o in operands if "=" not in o]
        used |= {n for n in names if n in inputs}
        constants |= {n: np.array(float(n), "f4") for n in names if re.fullmatch(r"-?[\d.]+", n)}
        nodes.append(helper.make_node(op, names, [name], **attributes))
    values = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(inputs[n].dtype), inputs[n].shape
        )
        for n in sorted(used)
    ]
    y = helper.make_tensor_value_info(output, 1, None)
    tensors = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    return finished(helper.make_graph(nodes, "written", values, [y], tensors), 17)


def chained(lines: tuple[str, ...]) -> onnx.ModelProto:
    """A chain of CHAINS, with its sum."""
    sums = [line.split()[0] for line in lines if line.startswith("t")]
    proto = written((*lines, f"y Sum {' '.join(sums)}"), "y", INPUTS, {})
    proto.opset_import[0].version = 20
    return proto


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_expression(name: str, dev: pk.Device) -> None:
    proto = chained(CHAINS[name])
    given = {v.name: INPUTS[v.name] for v in proto.graph.input}
    graph = check(proto, dev, **given)
    assert {n.op for n in graph.nodes} == {"Elementwise"}
    assert len(graph.nodes) <= 3


MEANS = ("mean ReduceMean a axes=-1", "d Sub a mean")
ROOT = ("var ReduceMean p axes=-1", "e Add var 0.001", "s Sqrt e", "unit Div d s")
# Several nodes, what they become, and an attribute of the last one.
FUSED: dict[str, tuple[tuple[str, ...], list[str], tuple[str, Any]]] = {
    "layer norm": ((*MEANS, "p Pow d 2.0", *ROOT, "w Mul unit wide", "y Add w more"),
                   ["LayerNormalization"], ("axis", -1)),
    "layer norm of products": ((*MEANS, "p Mul d d", *ROOT, "w Mul wide unit", "y Relu w"),
                               ["LayerNormalization", "Elementwise"], ("text", "relu(x0)")),
    "no layer norm": ((*MEANS, "p Pow d 3.0", "q Abs p", "var ReduceMean q axes=-1",
                       "e Add var 0.1", "s Sqrt e", "y Div d s"),
                      2 * ["ReduceMean", "Elementwise", "Elementwise"],
                      ("text", "(x0 / x1)")),
    "logits": (("q Mul a 0.5", "r Mul square 3.0", "x MatMul q r", "y Div x 1.5"),
               ["MatMul"], ("scale", 1.0)),
    "gelu": (("x MatMul a square", "g Div x 1.4142135", "f Erf g", "o Add f 1.0", "p Mul x o",
              "y Mul p 0.5"), ["MatMul"], ("activation", "gelu")),
    "gelu by tanh": (("x Gemm a square more", "cube Pow x 3.0", "k Mul cube 0.044715", "l Add x k",
                      "h Mul l 0.7978845608", "t Tanh h", "o Add 1.0 t", "p Mul x o",
                      "y Mul p 0.5"), ["Gemm"], ("activation", "gelu_tanh")),
    "two products": (("p Gemm a square more transB=1", "q Gemm b square wide", "s Add p q",
                      "y Relu s"), ["Gemm", "Gemm"], ("activation", "relu")),
    "no activation": (("x MatMul a square", "t Tanh x", "y Mul t x"), ["MatMul", "Elementwise"],
                      ("text", "(tanh(x0) * x0)")),
    # Equal to an activation, or to a factor, but for large numbers.
    "a bound": (("x MatMul a square", "y Clip x 0.0 10.0"), ["MatMul", "Elementwise"],
                ("text", "minimum(maximum(x0, 0.0), 10.0)")),
    "two bounds": (("x MatMul a square", "y Clip x -90.0 90.0"), ["MatMul", "Elementwise"],
                   ("text", "minimum(maximum(x0, (-90.0)), 90.0)")),
    "truth": (("x MatMul a square", "g Greater x 0.5", "r Not g", "y Where r 1.0 0.25"),
              ["MatMul", "Elementwise"], ("text", "where((not (x0 > 0.5)), 1.0, 0.25)")),
    "used twice": (("x MatMul a square", "r Relu x", "y Add r x"), ["MatMul", "Elementwise"],
                   ("text", "(relu(x0) + x0)")),
}  # fmt: skip
SQUARE = {"wide": weights(8), "more": weights(8, seed=1)}


@pytest.mark.parametrize("name", FUSED)
def test_several_nodes_become_one(name: str, dev: pk.Device) -> None:
    lines, ops, (key, value) = FUSED[name]
    # A right operand that is no constant: weights would take the factors.
    square = weights(8, 8, seed=2)
    given = INPUTS | ({"square": square} if name == "logits" else {})
    constants = SQUARE | ({} if name == "logits" else {"square": square})
    proto = written(lines, "y", given, constants)
    graph = check(proto, dev, **{v.name: given[v.name] for v in proto.graph.input})
    assert [n.op for n in graph.nodes] == ops
    assert graph.nodes[-1].attributes[key] == value


@pytest.mark.parametrize("image", ((6, 4, 4), (6, 5)), ids=("image", "signal"))
def test_a_convolution_adds(image: tuple[int, ...], dev: pk.Device) -> None:
    """What is as large as its result, whatever its windows and groups are."""
    c, *size = image
    given = {"x": weights(2, *image), "r": weights(2, 4, *size, seed=1)}
    w = weights(4, c // 2, *(3 for _ in size), seed=2)
    lines = ("p Conv x w b auto_pad=SAME_UPPER group=2", "s Add r p", "y Relu s")
    proto = written(lines, "y", given, {"w": w, "b": weights(4)})
    graph = check(proto, dev, **given)
    assert [n.op for n in graph.nodes] == ["Conv"]
    assert graph.nodes[0].inputs[3] == "r"


@pytest.mark.parametrize("op", ("DepthToSpace", "SpaceToDepth"))
@pytest.mark.parametrize("mode", ("DCR", "CRD"))
def test_blocks_go_to_channels_by_either_order(op: str, mode: str, dev: pk.Device) -> None:
    """SpaceToDepth has a mode from version 28 on, which onnxruntime does not know: by numpy."""
    shape = (2, 8, 4, 6)
    x = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    n, c, h, w = shape
    if op == "DepthToSpace":
        cut, axes = ((n, 2, 2, c // 4, h, w), (0, 3, 4, 1, 5, 2))
        if mode == "CRD":
            cut, axes = ((n, c // 4, 2, 2, h, w), (0, 1, 4, 2, 5, 3))
        want = x.reshape(cut).transpose(axes).reshape(n, c // 4, 2 * h, 2 * w)
    else:
        axes = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
        want = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(axes)
        want = want.reshape(n, 4 * c, h // 2, w // 2)
    opset = 28 if op == "SpaceToDepth" else 18
    proto = model(op, shape, opset=opset, blocksize=2, mode=mode)
    got = Program(fuse(load(proto)), dev).run({"x0": x})
    np.testing.assert_array_equal(got["y0"], want)


def test_nodes_in_any_order(dev: pk.Device) -> None:
    """Also where a branch names a value that a later node computes."""
    nodes = [
        helper.make_node("Add", ["b", "c"], ["d"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Exp", ["b"], ["c"]),
        helper.make_node("Neg", ["x"], ["a"]),
    ]
    graph = helper.make_graph(
        nodes, "mixed", [helper.make_tensor_value_info("x", 1, (3, 4))],
        [helper.make_tensor_value_info("d", 1, (3, 4))],
    )  # fmt: skip
    sets = [helper.make_operatorsetid("", 18)]
    x = np.linspace(-2, 2, 12, dtype="f4").reshape(3, 4)
    got = Program(fuse(load(helper.make_model(graph, opset_imports=sets))), dev).run({"x": x})
    b = np.maximum(-x, 0)
    np.testing.assert_allclose(got["d"], b + np.exp(b), rtol=1e-5)
    nodes.append(helper.make_node("Add", ["d", "e"], ["f"]))
    nodes.append(helper.make_node("Relu", ["f"], ["e"]))
    circle = helper.make_graph(nodes, "circle", graph.input, graph.output)
    with pytest.raises(ModelError, match="nodes that need each other's results: f, e"):
        load(helper.make_model(circle, opset_imports=sets))


def test_what_is_no_number(dev: pk.Device) -> None:
    x = np.float32([1, -np.inf, np.nan, np.inf, 0])
    for op, attributes in (("IsNaN", {}), ("IsInf", {}), ("IsInf", {"detect_negative": 0})):
        check(model(op, (5,), **attributes), dev, x0=x)


@pytest.mark.parametrize(
    ("proto", "told"),
    [
        (
            model("MaxPool", X, kernel_shape=[2, 2], pads=[1, 0, 0, 0], outputs=2),
            "indices of other",
        ),
        (model("Conv", (1, 2, 3, 3, 3, 3), weights(2, 2, 2, 2, 2, 2)), "4 axes of space"),
        (model("Multinomial", (3, 3)), "missing operations: Multinomial"),
        (model("NonZero", (3, 3)), "the shape of its result depends on values"),
        (model("LRN", X, size=2), "an even size"),
        (model("GroupNormalization", X, weights(2), weights(2), num_groups=2), "deprecated"),
    ],
)
def test_what_is_missing_has_a_name(proto: onnx.ModelProto, told: str, dev: pk.Device) -> None:
    inputs = made_up(proto, input_shapes(proto, {}))
    with pytest.raises(ModelError, match=told):
        Program(fuse(load(proto)), dev).run(inputs)
