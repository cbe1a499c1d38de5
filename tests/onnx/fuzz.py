"""Files that are wrong in one to three places: each must end in a ModelError or in right numbers.

    python -m tests.onnx.fuzz [--count 5000] [--seed 0] [--verbose]

Types, ranks, attributes, links, names, versions and bytes of small networks are changed. Where a
changed file runs, onnxruntime computes it too, if it takes the file.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import random
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

import pykernels as pk
from pykernels.onnx import ModelError
from pykernels.onnx.checking import difference, made_up
from pykernels.onnx.operators import ENTRIES, RULES
from pykernels.onnx.shapes import input_shapes
from tests.onnx.fuzz_peer import Peer

Array = np.ndarray[Any, Any]
Mutation = Callable[[onnx.ModelProto, random.Random], None]
BUDGET = 256 << 20  # bytes that a changed size may ask for


class Outcome(NamedTuple):
    """What became of a file: refused, right, unchecked, wrong or crashed."""

    verdict: str
    told: str


# -- networks -------------------------------------------------------------------------------------


def _model(
    nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, ...]], outputs: list[str],
    constants: dict[str, Array], version: int = 17,
) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(
        nodes, "network",
        [helper.make_tensor_value_info(n, 1, s) for n, s in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    sets = [helper.make_operatorsetid("", version)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


def networks() -> list[onnx.ModelProto]:
    """Small networks: images, attention, a recurrent layer, indices, branches, bytes."""
    rng, node = np.random.default_rng(0), helper.make_node

    def w(*shape: int) -> Array:
        return rng.standard_normal(shape).astype("f4")

    def ints(*values: int) -> Array:
        return np.array(values, np.int64)

    images = _model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1]),
            node("BatchNormalization", ["c", "s", "b", "b", "s"], ["n"], epsilon=1e-3),
            node("Relu", ["n"], ["r"]),
            node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("GlobalAveragePool", ["p"], ["g"]),
            node("Flatten", ["g"], ["f"], axis=1),
            node("Gemm", ["f", "v", "b"], ["y"], transB=1, alpha=0.5),
        ],
        {"x": (1, 3, 6, 6)}, ["y"],
        {"w": w(4, 3, 3, 3), "s": np.abs(w(4)) + 0.5, "b": w(4), "v": w(4, 4)},
    )  # fmt: skip
    attention = _model(
        [
            node("MatMul", ["x", "w"], ["q"]),
            node("Reshape", ["q", "shape"], ["h"]),
            node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]),
            node("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]),
            node("MatMul", ["t", "k"], ["s"]),
            node("Softmax", ["s"], ["a"], axis=-1),
            node("MatMul", ["a", "t"], ["o"]),
            node("ReduceMean", ["o"], ["y"], axes=[1], keepdims=0),
        ],
        {"x": (1, 5, 8)}, ["y"], {"w": w(8, 8), "shape": ints(0, 0, 2, 4)},
    )  # fmt: skip
    layer = _model(
        [
            node("LSTM", ["x", "w", "r", "b"], ["z", "h", ""], hidden_size=3),
            node("Squeeze", ["z", "axes"], ["s"]),
            node("LayerNormalization", ["s", "g"], ["n"], axis=-1),
            node("Concat", ["n", "n"], ["y"], axis=2),
        ],
        {"x": (4, 2, 5)}, ["y", "h"],
        {"w": w(1, 12, 5), "r": w(1, 12, 3), "b": w(1, 24), "axes": ints(1), "g": w(3)},
    )  # fmt: skip
    indices = _model(
        [
            node("Gather", ["x", "i"], ["g"], axis=1),
            node("Slice", ["g", "first", "last", "axes"], ["s"]),
            node("Pad", ["s", "pads"], ["p"], mode="constant"),
            node("Split", ["p"], ["a", "b"], axis=0),
            node("Where", ["mask", "a", "b"], ["w"]),
            node("TopK", ["w", "k"], ["v", "at"], axis=-1),
            node("CumSum", ["v", "axis"], ["y"]),
        ],
        {"x": (4, 6)}, ["y", "at"],
        {"i": ints(0, 2, 5, -1), "first": ints(0), "last": ints(3), "axes": ints(1),
         "pads": ints(0, 1, 0, 1), "mask": np.array([True, False, True, True, False]),
         "k": ints(3), "axis": np.array(1, np.int64)},
    )  # fmt: skip
    return [images, attention, layer, indices, _control(w), _bytes(rng), _boxes(w), _cached(w)]


def _control(w: Callable[..., Array]) -> onnx.ModelProto:
    """A branch and a loop."""
    node, value = helper.make_node, helper.make_tensor_value_info
    bodies = []
    for name, op in (("then", "Exp"), ("else", "Neg")):
        inner = [node(op, ["x"], ["t"]), node("Add", ["t", "c"], [f"{name}_y"])]
        constant = [numpy_helper.from_array(w(3), "c")]
        bodies.append(helper.make_graph(inner, name, [], [value(f"{name}_y", 1, None)], constant))
    body = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("Mul", ["s", "half"], ["t"]),
         node("Add", ["t", "y0"], ["u"]), node("Identity", ["u"], ["row"])],
        "body", [value("i", 7, []), value("go", 9, []), value("s", 1, [2, 3])],
        [value("go_on", 9, []), value("u", 1, None), value("row", 1, None)],
        [numpy_helper.from_array(np.float32(0.5), "half")],
    )  # fmt: skip
    return _model(
        [
            node("If", ["yes"], ["y0"], then_branch=bodies[0], else_branch=bodies[1]),
            node("Loop", ["count", "yes", "y0"], ["y", "rows"], body=body),
        ],
        {"x": (2, 3)}, ["y", "rows"],
        {"yes": np.array(True), "count": np.array(3, np.int64)},
    )  # fmt: skip


def _bytes(rng: np.random.Generator) -> onnx.ModelProto:
    """A quantised product and convolution."""
    node = helper.make_node
    return _model(
        [
            node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
            node("ConvInteger", ["q", "w", "z"], ["c"], pads=[1, 1, 1, 1]),
            node("Cast", ["c"], ["f"], to=1),
            node("Mul", ["f", "s"], ["m"]),
            node("QuantizeLinear", ["m", "scale", "zero"], ["b"]),
            node("DequantizeLinear", ["b", "scale", "zero"], ["y"]),
        ],
        {"x": (1, 2, 4, 4)}, ["y", "c"],
        {"w": rng.integers(-9, 9, (3, 2, 3, 3)).astype("i1"), "scale": np.array(0.7, "f4"),
         "zero": np.array(3, "i1")},
    )  # fmt: skip


def _boxes(w: Callable[..., Array]) -> onnx.ModelProto:
    """Boxes of which some stay, and a branch by a value of the device."""
    node, value = helper.make_node, helper.make_tensor_value_info
    bodies = [
        helper.make_graph([node(op, ["s"], [f"{op}_s"])], op, [], [value(f"{op}_s", 1, None)])
        for op in ("Abs", "Neg")
    ]
    return _model(
        [
            node("MatMul", ["x", "w"], ["b"]), node("MatMul", ["v", "x"], ["s"]),
            node("ReduceMax", ["s"], ["m"], keepdims=0), node("Greater", ["m", "least"], ["big"]),
            node("If", ["big"], ["t"], then_branch=bodies[0], else_branch=bodies[1]),
            node("Transpose", ["t"], ["u"], perm=[0, 2, 1]), node("Slice", ["u", "0", "1", "1"],
                                                                  ["one"]),
            node("NonMaxSuppression", ["b", "one", "most", "overlap", "least"], ["kept"]),
            node("Gather", ["kept", "two"], ["at"], axis=1), node("Gather", ["b", "at"], ["y"],
                                                                  axis=1),
        ],
        {"x": (1, 6, 6)}, ["y", "kept"],
        {"w": w(6, 4), "v": w(6, 6), "least": np.array(0.2, "f4"), "most": np.array([3]),
         "overlap": np.array([0.4], "f4"), "two": np.array(2), "0": np.array([0]),
         "1": np.array([1])},
    )  # fmt: skip


def _cached(w: Callable[..., Array]) -> onnx.ModelProto:
    """Heads that share keys and values with a cache, and a fused norm."""
    node = helper.make_node
    given = {"num_heads": 2, "kv_num_heads": 1, "domain": "com.microsoft"}
    model = _model(
        [
            node("SkipSimplifiedLayerNormalization", ["x", "x", "g"], ["n"], epsilon=1e-5,
                 domain="com.microsoft"),
            node("MatMul", ["n", "w"], ["q"]), node("MatMul", ["n", "v"], ["k"]),
            node("GroupQueryAttention", ["q", "k", "k", "past", "past", "ends", "total"],
                 ["y", "keys", "values"], **given),
        ],
        {"x": (2, 1, 8), "past": (2, 1, 3, 8)}, ["y", "keys"],
        {"g": w(8), "w": w(8, 16), "v": w(8, 8), "ends": np.int32([3, 2]),
         "total": np.array(4, np.int32)},
    )  # fmt: skip
    model.opset_import.append(helper.make_operatorsetid("com.microsoft", 1))
    return model


# -- changes --------------------------------------------------------------------------------------


def _any_node(model: onnx.ModelProto, rng: random.Random) -> onnx.NodeProto:
    nodes = list(model.graph.node)
    for node in model.graph.node:
        nodes += [n for a in node.attribute for n in a.g.node]
    return rng.choice(nodes)


def change_type(model: onnx.ModelProto, rng: random.Random) -> None:
    kind = rng.randrange(0, 28)
    if rng.random() < 0.5 and model.graph.initializer:
        rng.choice(model.graph.initializer).data_type = kind
    else:
        rng.choice(model.graph.input).type.tensor_type.elem_type = kind


def change_shape(model: onnx.ModelProto, rng: random.Random) -> None:
    size = rng.choice([-1, 0, 1, 2, 3, 7, 1 << 20, 1 << 40])
    if rng.random() < 0.5 and model.graph.initializer:
        tensor = rng.choice(model.graph.initializer)
        if tensor.dims and rng.random() < 0.6:
            tensor.dims[rng.randrange(len(tensor.dims))] = size
        elif tensor.dims and rng.random() < 0.5:
            del tensor.dims[-1]
        else:
            tensor.dims.append(size)
        return
    dims = rng.choice(model.graph.input).type.tensor_type.shape.dim
    if dims and rng.random() < 0.6:
        rng.choice(dims).dim_value = size
    elif dims and rng.random() < 0.5:
        del dims[-1]
    else:
        dims.add().dim_value = size


def change_constant(model: onnx.ModelProto, rng: random.Random) -> None:
    """Other numbers of the same dtype and shape."""
    tensors = [t for t in model.graph.initializer if t.raw_data]
    if tensors:
        tensor = rng.choice(tensors)
        data = bytearray(tensor.raw_data)
        data[rng.randrange(len(data))] = rng.randrange(256)
        tensor.raw_data = bytes(data)


def change_attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _any_node(model, rng)
    if not node.attribute or rng.random() < 0.2:
        name = rng.choice(["axis", "to", "pads", "group", "perm", "keepdims", "alpha", "direction"])
        node.attribute.append(helper.make_attribute(name, rng.choice([-9, 3, 2.5, "x", [1, 2]])))
        return
    i = rng.randrange(len(node.attribute))
    attribute = node.attribute[i]
    if rng.random() < 0.25:
        del node.attribute[i]
    elif attribute.ints and rng.random() < 0.8:
        if rng.random() < 0.5:
            place = rng.randrange(len(attribute.ints))
            attribute.ints[place] = rng.choice([-3, -1, 0, 1, 2, 5, 1 << 33])
        else:
            del attribute.ints[-1]
    elif attribute.type == onnx.AttributeProto.INT and rng.random() < 0.8:
        attribute.i = rng.choice([-5, -1, 0, 1, 2, 4, 99, 1 << 40])
    else:
        attribute.CopyFrom(helper.make_attribute(attribute.name, rng.choice([7, "no", [0.5]])))


def change_link(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _any_node(model, rng)
    names = ["", "nothing", *(t.name for t in model.graph.initializer)]
    names += [o for n in model.graph.node for o in n.output] + ["x"]
    if not node.input or rng.random() < 0.15:
        node.input.append(rng.choice(names))
    elif rng.random() < 0.2:
        del node.input[-1]
    else:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)


def change_output(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _any_node(model, rng)
    if rng.random() < 0.3:
        node.output.append(rng.choice(["", "more", "x"]))
    elif node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(["", "x", "other", "y"])


def change_operation(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _any_node(model, rng)
    names = sorted(n for n in (*ENTRIES, *RULES) if "." not in n)
    node.op_type = rng.choice([*names, "NoSuch", "NonZero", "Unique", "Det"])


def change_domain(model: onnx.ModelProto, rng: random.Random) -> None:
    _any_node(model, rng).domain = rng.choice(["ai.onnx", "com.microsoft", "ai.onnx.ml", "none"])


def change_order(model: onnx.ModelProto, rng: random.Random) -> None:
    nodes = list(model.graph.node)
    rng.shuffle(nodes)
    if rng.random() < 0.3:
        del nodes[-1]
    elif rng.random() < 0.3:
        nodes.append(nodes[0])
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def change_version(model: onnx.ModelProto, rng: random.Random) -> None:
    if rng.random() < 0.1:
        del model.opset_import[:]
    else:
        model.opset_import[0].version = rng.choice([0, 1, 6, 9, 11, 13, 18, 21, 25, 99])


def change_bytes(model: onnx.ModelProto, rng: random.Random) -> None:
    data = bytearray(model.SerializeToString())
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    with contextlib.suppress(DecodeError):
        model.CopyFrom(onnx.ModelProto.FromString(bytes(data)))


CHANGES: list[Mutation] = [
    change_type, change_shape, change_constant, change_attribute, change_attribute, change_link,
    change_link, change_output, change_operation, change_domain, change_order, change_version,
    change_bytes,
]  # fmt: skip


def changed(seed: int, bases: list[onnx.ModelProto]) -> onnx.ModelProto:
    """The file of a seed."""
    rng = random.Random(seed)
    model = onnx.ModelProto()
    model.CopyFrom(rng.choice(bases))
    for _ in range(rng.randrange(1, 4)):
        with contextlib.suppress(IndexError, ValueError):
            rng.choice(CHANGES)(model, rng)
    return model


# -- runs -----------------------------------------------------------------------------------------


def outcome(model: onnx.ModelProto, dev: pk.Device, peer: Peer) -> Outcome:
    """Run a file, and compare what it gives."""
    try:
        shapes = input_shapes(model, {})
        if sum(float(np.prod([float(n) for n in s])) for s in shapes.values()) > 1 << 22:
            return Outcome("refused", "inputs too large to make")
        inputs = made_up(model, shapes)
        found = pk.onnx.load(model, device=dev)(inputs)
    except ModelError as e:
        return Outcome("refused", str(e))
    except Exception:
        return Outcome("crashed", traceback.format_exc())
    if any(not a.size for a in inputs.values()) and "ReduceMean" in str(model.graph.node):
        return Outcome("unchecked", "the mean of no numbers, which ONNX does not define")
    want = peer(model.SerializeToString(), inputs)
    if isinstance(want, str):
        return Outcome("unchecked", want)
    for name, array in want.items():
        away = difference(name, "output", found[name], array)
        if not away.fits:
            return Outcome("wrong", str(away))
    return Outcome("right", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    bases, counts = networks(), collections.Counter[str]()
    with pk.Device() as dev, contextlib.closing(Peer()) as peer:
        dev.set_memory_budget(BUDGET)
        for seed in range(args.seed, args.seed + args.count):
            found = outcome(changed(seed, bases), dev, peer)
            counts[found.verdict] += 1
            if counts.total() % 500 == 0:
                print(counts.total(), dict(counts), file=sys.stderr, flush=True)
            if found.verdict in ("wrong", "crashed") or args.verbose:
                print(seed, *found, flush=True)
    print(dict(counts))
    if counts["crashed"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
