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
from onnx import helper

import pykernels as pk
from pykernels.onnx import ModelError
from pykernels.onnx.checking import difference, made_up
from pykernels.onnx.operators import ENTRIES, RULES
from pykernels.onnx.shapes import input_shapes
from tests.onnx.fuzz_networks import networks
from tests.onnx.fuzz_peer import Peer

Array = np.ndarray[Any, Any]
Mutation = Callable[[onnx.ModelProto, random.Random], None]
BUDGET = 256 << 20  # bytes that a changed size may ask for


class Outcome(NamedTuple):
    """What became of a file: refused, right, unchecked, wrong or crashed."""

    verdict: str
    told: str


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
    node.op_type = rng.choice([*names, "NoSuch", "NonZero", "Unique", "Multinomial"])


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
    for name, value in want.items():
        ours, theirs = (v if isinstance(v, list) else [v] for v in (found[name], value))
        if len(ours) != len(theirs):
            return Outcome("wrong", f"{name} has {len(ours)} elements, not {len(theirs)}")
        for mine, its in zip(ours, theirs, strict=True):
            away = difference(name, "output", mine, its)
            both = mine.shape == its.shape and its.dtype.kind == "f"
            if both and not away.fits and not np.isfinite(away.norm) and _is_huge(model):
                return Outcome("unchecked", "sums that overflow in one order and not in another")
            if not away.fits:
                return Outcome("wrong", str(away))
    return Outcome("right", "")


def _is_huge(model: onnx.ModelProto) -> bool:
    """True if a constant is near the largest number of float32."""
    arrays = (
        np.frombuffer(t.raw_data[: len(t.raw_data) // 4 * 4], np.float32)
        for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT
    )  # fmt: skip
    with np.errstate(invalid="ignore"):
        return any(bool((np.abs(a[np.isfinite(a)]) > 1e30).any()) for a in arrays)


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
