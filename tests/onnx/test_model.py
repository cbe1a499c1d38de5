"""`pk.onnx.load`, models and sessions: what they take and give, and how they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import pykernels as pk
from pykernels.onnx import ModelError
from pykernels.onnx import reader as onnx_reader
from pykernels.onnx.program import Program

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.gpu
value, node = helper.make_tensor_value_info, helper.make_node
WEIGHT = np.random.default_rng(0).standard_normal((3, 4)).astype("f4")


def finished(graph: onnx.GraphProto, version: int = 18, **more: Any) -> onnx.ModelProto:
    sets = [helper.make_operatorsetid("", version)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9, **more)


def linear() -> onnx.ModelProto:
    """y = relu(x w + 1), with an open first dimension."""
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "one"], ["s"]),
             node("Relu", ["s"], ["y"])]  # fmt: skip
    constants = [numpy_helper.from_array(WEIGHT, "w"),
                 numpy_helper.from_array(np.float32(1), "one")]  # fmt: skip
    graph = helper.make_graph(
        nodes, "linear", [value("x", 1, ["n", 3])], [value("y", 1, ["n", 4])], constants
    )
    proto = finished(graph)
    helper.set_model_props(proto, {"author": "nobody"})
    return proto


def wanted(x: Array) -> Array:
    return np.maximum(x @ WEIGHT + 1, 0)


def x_of(rows: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, 3)).astype("f4")


def test_arrays_give_arrays_and_tensors_give_tensors(dev: pk.Device) -> None:
    model = pk.onnx.load(linear(), device=dev)
    assert model.inputs == (("x", ("n", 3), "float32"),)
    assert model.outputs == (("y", ("n", 4), "float32"),)
    assert model.metadata == {"author": "nobody"}
    for seed in range(3):  # the second call replays
        found = model(x=x_of(5, seed))
        assert list(found) == ["y"] and isinstance(found["y"], np.ndarray)
        np.testing.assert_allclose(found["y"], wanted(x_of(5, seed)), rtol=1e-5)
    first = model(x=dev.tensor(x_of(5, 1)))["y"]
    second = model({"x": dev.tensor(x_of(5, 2))})["y"]
    assert isinstance(first, pk.Tensor)
    np.testing.assert_allclose(first.numpy(), wanted(x_of(5, 1)), rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), wanted(x_of(5, 2)), rtol=1e-5)


def test_each_shape_has_a_program_and_the_budget_bounds_them(dev: pk.Device) -> None:
    model = pk.onnx.load(linear(), device=dev)
    model(x=x_of(1))
    weights = model._constants.nbytes
    for rows in (1, 2, 7, 2):
        np.testing.assert_allclose(model(x=x_of(rows))["y"], wanted(x_of(rows)), rtol=1e-5)
    assert len(model) == 3
    assert model._constants.nbytes == weights >= WEIGHT.nbytes  # uploaded once
    tight = pk.onnx.load(linear(), device=dev, budget=1)
    for rows in (1, 2, 1):
        np.testing.assert_allclose(tight(x=x_of(rows))["y"], wanted(x_of(rows)), rtol=1e-5)
        assert len(tight) == 1


def test_the_least_recently_used_program_goes(dev: pk.Device) -> None:
    model = pk.onnx.load(linear(), device=dev)
    model(x=x_of(6))
    model.budget = 2 * sum(p.nbytes for p in model._programs.values())
    for rows in (5, 6, 4):  # the program for 5 rows is the oldest at the end
        model(x=x_of(rows))
    assert [key[0][0][1] for key in model._programs] == [(6, 3), (4, 3)]


def test_an_input_that_says_what_is_computed(dev: pk.Device) -> None:
    graph = helper.make_graph(
        [node("Reshape", ["x", "shape"], ["r"]), node("Neg", ["r"], ["y"])], "reshape",
        [value("x", 1, [2, 3]), value("shape", 7, [2])], [value("y", 1, None)],
    )  # fmt: skip
    model = pk.onnx.load(finished(graph), device=dev)
    x = x_of(2)
    for shape in ([3, 2], [1, -1], [3, 2]):
        found = model(x=x, shape=np.array(shape))["y"]
        np.testing.assert_array_equal(found, -x.reshape(shape))
    assert len(model) == 2
    found = model(x=dev.tensor(x), shape=dev.tensor(np.array([6, 1], np.int32)))["y"]
    np.testing.assert_array_equal(found.numpy(), -x.reshape(6, 1))


def test_a_session_is_used_as_onnxruntimes(dev: pk.Device) -> None:
    data = linear().SerializeToString()
    ours = pk.onnx.InferenceSession(data, providers=["CUDAExecutionProvider"], device=dev)
    theirs = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for a, b in ((ours.get_inputs(), theirs.get_inputs()),
                 (ours.get_outputs(), theirs.get_outputs())):  # fmt: skip
        assert [(v.name, v.shape, v.type) for v in a] == [(v.name, v.shape, v.type) for v in b]
    for names in (None, ["y"]):
        (a,), (b,) = (s.run(names, {"x": x_of(4)}) for s in (ours, theirs))
        np.testing.assert_allclose(a, b, rtol=1e-5)
    with pytest.raises(ModelError, match="there is no output z: outputs are y"):
        ours.run(["z"], {"x": x_of(4)})


def test_a_profile(dev: pk.Device) -> None:
    model = pk.onnx.load(linear(), device=dev)
    assert "gem" in model.profile(x=x_of(3)).table() or "mul" in model.profile(x=x_of(3)).table()


def test_what_a_call_refuses(dev: pk.Device) -> None:
    model = pk.onnx.load(linear(), device=dev)
    for given, told in (
        ({}, "input x is missing"),
        ({"x": x_of(2), "z": 1}, "there is no input z: inputs are x"),
        ({"x": np.zeros((2, 5), "f4")}, r"input x has shape \['n', 3\], not \[2, 5\]"),
        ({"x": np.array(["a"])}, "input x has dtype"),
        ({"x": [[1], [2, 3]]}, "input x: "),
        ({"x": np.zeros((2, 3), "c8")}, "input x has dtype complex64, not float32"),
        ({"x": None}, "input x has dtype object, not float32"),
    ):
        with pytest.raises(ModelError, match=told):
            model(given)
    assert model(x=x_of(2).astype("f8"))["y"].dtype == np.float32


def test_an_error_names_its_node(dev: pk.Device) -> None:
    proto = linear()
    proto.graph.node[0].name = "product"
    proto.graph.initializer[0].dims[:] = [4, 3]
    with pytest.raises(ModelError, match=r"^\[MatMul product\] ") as told:
        pk.onnx.load(proto, device=dev)(x=x_of(2))
    assert (told.value.operator, told.value.node) == ("MatMul", "product")
    assert isinstance(told.value, (pk.PyKernelsError, ValueError))


def test_closed_files_are_checked_when_they_are_loaded(dev: pk.Device) -> None:
    graph = helper.make_graph(
        [node("Multinomial", ["x"], ["y"])],
        "drawn",
        [value("x", 1, [3, 3])],
        [value("y", 6, [3, 1])],
    )
    with pytest.raises(ModelError, match=r"\[Multinomial y\] missing operations: Mul"):
        pk.onnx.load(finished(graph), device=dev)
    graph.input[0].CopyFrom(value("x", 1, ["n", "n"]))
    model = pk.onnx.load(finished(graph), device=dev)
    with pytest.raises(ModelError, match="Multinomial"):
        pk.onnx.load(finished(graph), device=dev, shapes={"x": (3, 3)})
    with pytest.raises(ModelError, match="Multinomial"):
        model(x=np.eye(3, dtype="f4"))


def test_an_index_out_of_range_is_an_error_of_the_call(dev: pk.Device) -> None:
    graph = helper.make_graph(
        [node("Gather", ["x", "i"], ["y"])], "gather",
        [value("x", 1, [4, 3]), value("i", 7, [2])], [value("y", 1, None)],
    )  # fmt: skip
    model = pk.onnx.load(finished(graph), device=dev)
    np.testing.assert_array_equal(model(x=x_of(4), i=np.array([-1, 2]))["y"], x_of(4)[[-1, 2]])
    with pytest.raises(ModelError, match=r"\[output y\] .* index must be in \[0, 4\) but is 4"):
        model(x=x_of(4), i=np.array([0, 4]))
    with pytest.raises(ModelError, match="more than 32 bits"):
        model(x=x_of(4), i=np.array([0, 1 << 40]))


def test_functions_of_a_file(dev: pk.Device) -> None:
    """With an attribute, and one function that calls the other."""
    sets = [helper.make_operatorsetid("", 18), helper.make_operatorsetid("mine", 1)]
    inner = helper.make_function(
        "mine", "Bend", ["a"], ["b"], [node("LeakyRelu", ["a"], ["t"]), node("Neg", ["t"], ["b"])],
        sets[:1], ["alpha"],
    )  # fmt: skip
    reference = inner.node[0].attribute.add()
    reference.name, reference.ref_attr_name = "alpha", "alpha"
    reference.type = onnx.AttributeProto.FLOAT
    outer = helper.make_function(
        "mine", "Twice", ["a"], ["b"],
        [node("Bend", ["a"], ["t"], domain="mine", alpha=0.5),
         node("Bend", ["t"], ["b"], domain="mine", alpha=0.25)], sets,
    )  # fmt: skip
    graph = helper.make_graph(
        [node("Twice", ["x"], ["y"], domain="mine")], "calls", [value("x", 1, [2, 3])],
        [value("y", 1, None)],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=sets, ir_version=9, functions=[outer, inner])
    x = x_of(2)
    first = -np.where(x < 0, 0.5 * x, x)
    want = -np.where(first < 0, 0.25 * first, first)
    np.testing.assert_allclose(pk.onnx.load(proto, device=dev)(x=x)["y"], want, rtol=1e-6)


@pytest.mark.parametrize("yes", [True, False])
def test_names_that_two_branches_use(yes: bool, dev: pk.Device) -> None:
    """Constants and values inside both, and one inside a branch of a branch."""
    bodies = []
    for op, number in (("Add", 2.0), ("Mul", 3.0)):
        constant = [numpy_helper.from_array(np.float32(number), "c")]
        deep = [
            helper.make_graph([node(op, ["x", "c"], ["t"])], "deep", [], [value("t", 1, None)],
                              [numpy_helper.from_array(np.float32(number + 1), "c")])
            for _ in range(2)
        ]  # fmt: skip
        inside = [
            node(op, ["x", "c"], ["t"]),
            node("If", ["yes"], ["u"], then_branch=deep[0], else_branch=deep[1]),
            node("Sub", ["t", "u"], ["out"]),
        ]
        bodies.append(helper.make_graph(inside, "body", [], [value("out", 1, None)], constant))
    graph = helper.make_graph(
        [node("If", ["yes"], ["y"], then_branch=bodies[0], else_branch=bodies[1])], "both",
        [value("x", 1, [2, 3])], [value("y", 1, None)],
        [numpy_helper.from_array(np.array(yes), "yes")],
    )  # fmt: skip
    x = x_of(2)
    want = -np.ones_like(x) if yes else -x
    got = pk.onnx.load(finished(graph), device=dev)(x=x)["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_outputs_that_are_inputs_constants_or_there_twice(dev: pk.Device) -> None:
    nodes = [
        node("Identity", ["x"], ["same"]), node("Split", ["x"], ["a", "", ], axis=0, num_outputs=2),
        node("Constant", [], ["five"], value_int=5), node("Neg", ["a"], ["n"]),
        node("Identity", ["n"], ["again"]), node("Shape", ["x"], ["size"]),
        node("NonZero", ["unused"], ["nobody"]),
    ]  # fmt: skip
    names = ("same", "five", "n", "again", "size", "x")
    graph = helper.make_graph(
        nodes, "odd", [value("x", 1, [2, 3])], [onnx.ValueInfoProto(name=n) for n in names],
        [numpy_helper.from_array(np.ones(3, "f4"), "unused")],
    )  # fmt: skip
    x = x_of(2)
    found = pk.onnx.load(finished(graph), device=dev)(x=x)
    want = {"same": x, "five": 5, "n": -x[:1], "again": -x[:1], "size": [2, 3], "x": x}
    assert list(found) == list(names)
    for name, array in want.items():
        np.testing.assert_array_equal(found[name], array)
    assert found["size"].dtype == np.int64


def test_a_file_in_float16_has_sums_in_float32(dev: pk.Device) -> None:
    """4,096 times 1, which float16 cannot count behind 2,048 ones by one."""
    ones = np.ones((4096, 2), "f2")
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], ["y"])], "half", [value("x", TensorProto.FLOAT16, [1, 4096])],
        [value("y", TensorProto.FLOAT16, None)], [numpy_helper.from_array(ones, "w")],
    )  # fmt: skip
    found = pk.onnx.load(finished(graph), device=dev)(x=np.ones((1, 4096), "f2"))["y"]
    assert found.dtype == np.float16 and (found == 4096).all()


def test_a_loop_and_its_rows(dev: pk.Device) -> None:
    """As many rounds as an input says."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["s", "s"], ["t"]),
         node("Identity", ["t"], ["row"])],
        "body", [value("i", 7, []), value("go", 9, []), value("s", 1, [2])],
        [value("on", 9, []), value("t", 1, [2]), value("row", 1, [2])],
    )  # fmt: skip
    graph = helper.make_graph(
        [node("Loop", ["count", "", "x"], ["y", "rows"], body=body)], "loop",
        [value("x", 1, [2]), value("count", 7, [])], [value("y", 1, [2]), value("rows", 1, None)],
    )  # fmt: skip
    model = pk.onnx.load(finished(graph), device=dev)
    x = np.float32([1, -3])
    for rounds in (3, 1):
        found = model(x=x, count=np.array(rounds))
        np.testing.assert_array_equal(found["y"], x * 2**rounds)
        np.testing.assert_array_equal(found["rows"], [x * 2 ** (i + 1) for i in range(rounds)])
    with pytest.raises(ModelError, match="a loop of more than 1024 rounds"):
        model(x=x, count=np.array(1 << 50))


def test_the_first_call_compiles_in_a_capture(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes are walked once, where captures compile on threads; arrays that entries keep (the
    places of a Resize) are uploaded behind it. Weights of a few bits are uploaded by a first
    walk."""
    walks: list[bool] = []
    walk = Program._walk

    def counted(program: Program) -> Any:
        walks.append(program.graph.nodes[0].later is not None)
        return walk(program)

    monkeypatch.setattr(Program, "_walk", counted)
    sizes = numpy_helper.from_array(np.array([4, 3]), "sizes")
    graph = helper.make_graph(
        [node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest", axes=[0, 1])], "kept",
        [value("x", 1, [2, 3])], [value("y", 1, None)], [sizes],
    )  # fmt: skip
    x = x_of(2)
    found = pk.onnx.load(finished(graph, 18), device=dev)(x=x)["y"]
    np.testing.assert_array_equal(found, x.repeat(2, 0))
    assert walks == [True]
    bits = node("MatMulNBits", ["a", "q", "s"], ["y"], domain="com.microsoft", K=32, N=1, bits=4,
                block_size=32)  # fmt: skip
    constants = [numpy_helper.from_array(np.full((1, 1, 16), 0x99, "u1"), "q"),
                 numpy_helper.from_array(np.float32([[0.5]]), "s")]  # fmt: skip
    graph = helper.make_graph([bits], "bits", [value("a", 1, [2, 32])], [value("y", 1, None)],
                              constants)  # fmt: skip
    proto = finished(graph)
    proto.opset_import.append(helper.make_operatorsetid("com.microsoft", 1))
    found = pk.onnx.load(proto, device=dev)(a=np.ones((2, 32), "f4"))["y"]
    np.testing.assert_array_equal(found, [[16.0], [16.0]])
    assert walks == [True, True, False, True]


def test_a_backend_of_onnx(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pk.onnx.Backend, "device", dev)
    assert pk.onnx.Backend.supports_device("CPU") and not pk.onnx.Backend.supports_device("CUDA")
    (y,) = pk.onnx.Backend.run_model(linear(), [x_of(2)])
    np.testing.assert_allclose(y, wanted(x_of(2)), rtol=1e-5)


# -- files ----------------------------------------------------------------------------------------


def saved(folder: Path) -> onnx.ModelProto:
    """A model whose weight is in a file beside it."""
    proto = linear()
    onnx.save(proto, folder / "m.onnx", save_as_external_data=True, location="m.bin",
              size_threshold=0)  # fmt: skip
    return onnx.load(folder / "m.onnx", load_external_data=False)


def test_weights_in_another_file(dev: pk.Device, tmp_path: Path) -> None:
    saved(tmp_path)
    for path in (tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        found = pk.onnx.load(path, device=dev)(x=x_of(2))["y"]
        np.testing.assert_allclose(found, wanted(x_of(2)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["above", "absolute", "link", "cut", "missing", "negative"])
def test_data_lies_in_the_models_folder(kind: str, dev: pk.Device, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    proto = saved(folder)
    data, secret = folder / "m.bin", tmp_path / "secret.bin"
    secret.write_bytes(data.read_bytes())
    told = {e.key: e for e in proto.graph.initializer[0].external_data}
    if kind == "link":
        data.unlink()
        data.symlink_to(secret)
    elif kind == "cut":
        data.write_bytes(data.read_bytes()[:20])
    elif kind == "missing":
        data.unlink()
    elif kind == "negative":
        told["offset"].value = "-4"
    else:
        told["location"].value = "../secret.bin" if kind == "above" else str(secret)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=r"\[constant w\] its data is "):
        pk.onnx.load(folder / "m.onnx", device=dev)


def test_what_is_no_file(dev: pk.Device, tmp_path: Path) -> None:
    whole = linear().SerializeToString()
    for name, data in (("none", b""), ("text", b"hello world " * 9), ("cut", whole[:-30])):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelError):
            pk.onnx.load(tmp_path / name, device=dev)
    with pytest.raises(ModelError, match="is no file"):
        pk.onnx.load(tmp_path / "nothing.onnx", device=dev)
    with pytest.raises(ModelError):
        pk.onnx.InferenceSession(b"\x08\x09nothing", device=dev)


def test_without_the_package_onnx() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import pykernels as pk\n"
        "assert 'onnx' in dir(pk) and pk.onnx.ModelError\n"
        "try:\n    pk.onnx.load('file.onnx')\nexcept ImportError as e:\n    print(e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(pk.__file__).parents[1])},
    )  # fmt: skip
    assert done.stdout == "onnx is missing: pip install onnx\n"


def test_a_lost_device_is_no_fault_of_the_file(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise pk.DeviceLostError("gone")

    model = pk.onnx.load(linear(), device=dev)
    model(x=x_of(2))
    monkeypatch.setattr(pk.Tensor, "write", lost)
    with pytest.raises(pk.DeviceLostError):
        model(x=x_of(2))


def test_the_reader_keeps_arrays_of_the_file() -> None:
    kept: dict[str, Array] = {}
    first = onnx_reader.load(linear(), {"x": (1, 3)}, constants=kept)
    second = onnx_reader.load(linear(), {"x": (2, 3)}, constants=kept)
    assert first.constants["w"] is second.constants["w"] is kept["w"]
