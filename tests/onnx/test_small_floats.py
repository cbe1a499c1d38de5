"""Floats of 4 to 8 bits: conversions are those of onnx's definition, for every value and around
each number at which the result changes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import pykernels as pk
from pykernels.onnx.graph import SMALL_FLOATS
from tests.models.test_nodes import Array, weights

pytestmark = pytest.mark.gpu
MODES = [(kind, "") for kind in SMALL_FLOATS if kind != "float8_e8m0fnu"]
MODES += [("float8_e8m0fnu", mode) for mode in ("up", "down", "nearest")]


def number_of(kind: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(getattr(ml_dtypes, kind))))


def numbers(kind: str) -> Array:
    """All values, the middles between neighbours, and the numbers next to these; random numbers,
    infinities and NaN. The smallest 2^-100: a GPU may take smaller ones as zeros."""
    codes = np.arange(1 << SMALL_FLOATS[kind], dtype=np.uint8)
    values = codes.view(getattr(ml_dtypes, kind)).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    at = np.concatenate([values, (values[1:] + values[:-1].astype("f8")) / 2]).astype(np.float32)
    at = np.concatenate([at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf), -at])
    spread = (weights(2000, seed=1) * np.exp2(weights(2000, seed=2) * 12)).astype("f4")
    found = np.concatenate([at, spread, np.float32([np.inf, -np.inf, np.nan, 3e38, -3e38])])
    return found[~((np.abs(found) < 2.0**-100) & (found != 0))]


def model(
    op: str, x: Array, kind: str, opset: int, *more: str, **options: object
) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    node = helper.make_node(op, ["x", *more], ["y"], **options)
    graph = helper.make_graph(
        [node], "small", [value("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [value("y", number_of(kind), x.shape)],
        [numpy_helper.from_array(np.float32(0.75), "scale"),
         numpy_helper.from_array(np.zeros((), getattr(ml_dtypes, kind)), "zero")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_operatorsetid("", opset)])


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize(("kind", "mode"), MODES)
def test_conversions_are_exact(dev: pk.Device, kind: str, mode: str, saturate: int) -> None:
    x = numbers(kind)
    options = {"round_mode": mode} if mode else {}
    proto = model("Cast", x, kind, 28, to=number_of(kind), saturate=saturate, **options)
    for given in (x, np.float16(np.clip(x, -65504, 65504))):
        proto.graph.input[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(
            given.dtype
        )
        (want,) = ReferenceEvaluator(proto).run(None, {"x": given})
        got = pk.onnx.load(proto, device=dev)(x=given)["y"]
        assert got.dtype == want.dtype == getattr(ml_dtypes, kind)
        np.testing.assert_array_equal(got.astype("f4"), want.astype("f4"))


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_quantised_numbers_come_back(dev: pk.Device, kind: str) -> None:
    x = (weights(300) * 9).astype("f4")
    proto = model("QuantizeLinear", x, kind, 28, "scale", "zero")
    (want,) = ReferenceEvaluator(proto).run(None, {"x": x})
    got = pk.onnx.load(proto, device=dev)(x=x)["y"]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype("f4"), want.astype("f4"))
    back = model("DequantizeLinear", got, "float8_e5m2", 28, "scale", "zero")
    back.graph.output[0].type.tensor_type.elem_type = 1
    back.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.zeros((), got.dtype), "zero"))
    np.testing.assert_array_equal(
        pk.onnx.load(back, device=dev)(x=got)["y"], got.astype("f4") * np.float32(0.75)
    )
