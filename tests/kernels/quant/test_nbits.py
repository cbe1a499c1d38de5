"""Weights as ONNX's MatMulNBits has them: numbers, types, packing and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import quant as reference
from pykernels.tensors.nbits import blocks_of
from tests.harness import Array, assert_close
from tests.kernels.quant.quant_calls import same

gpu = pytest.mark.gpu


def arrays(
    n: int, k: int, bits: int, block: int, scale: str, zero: str | None, seed: int = 0
) -> tuple[dict[str, Any], Array]:
    """Arguments of from_nbits, and the numbers by ONNX's definition: (q - zero point) * scale."""
    rng = np.random.default_rng(seed)
    count = -(-k // block)
    q = rng.integers(0, 1 << bits, (n, count * block))
    scales = rng.normal(0, 1, (n, count)).astype(scale)
    data = _packed(q, bits).reshape(n, count, -1)
    given: dict[str, Any] = {"data": data, "scales": scales}
    z = np.full((n, count), 1 << (bits - 1), "f4")
    if zero == "u1":
        z = rng.integers(0, 1 << bits, (n, count)).astype("f4")
        given["zero_points"] = _packed(z.astype("i8"), bits)
    elif zero is not None:
        z = rng.uniform(0, 1 << bits, (n, count)).astype(zero).astype("f4")
        given["zero_points"] = z.astype(zero)
    d, z = (np.repeat(v.astype("f4"), block, 1) for v in (scales, z))
    return given, ((q.astype("f4") - z) * d)[:, :k]


def _packed(q: Array, bits: int) -> Array:
    """Bytes of rows; the first of two numbers in the lower half."""
    if bits == 8:
        return q.astype("u1")
    even = np.pad(q, ((0, 0), (0, q.shape[1] % 2)))
    return (even[:, ::2] | even[:, 1::2] << 4).astype("u1")


CASES = [
    (4, 32, "f2", None, "q4_0"), (8, 128, "f2", None, "q8_0"), (4, 32, "f2", "u1", "nbits4"),
    (4, 64, "f2", "u1", "nbits4"), (8, 32, "f2", "u1", "nbits8"), (4, 16, "f2", "u1", "nbits4_16"),
    (8, 16, "f4", None, "nbits8_16"), (4, 128, "f4", "f4", "nbits4_16"),
    (8, 256, "f2", "f2", "nbits8_16"),
]  # fmt: skip


@gpu
@pytest.mark.parametrize(("bits", "block", "scale", "zero", "name"), CASES)
def test_numbers_are_those_of_onnx(
    dev: pk.Device, bits: int, block: int, scale: str, zero: str | None, name: str
) -> None:
    """In every bit; the last block of a row may be longer than the row."""
    for n, k in ((5, 256), (2, 96)):
        given, want = arrays(n, k, bits, block, scale, zero)
        q = pk.QTensor.from_nbits(**given, shape=(n, k), bits=bits, block=block, device=dev)
        assert q.type == name and q.shape == (n, k)
        assert same(q.numpy(), want)
        x = np.random.default_rng(1).normal(size=(3, k)).astype("f4")
        exact = x.astype("f8") @ want.T.astype("f8")
        product: Any = pk.linear(x, q)
        size = np.abs(x).astype("f8") @ np.abs(want).T
        assert_close(product.numpy(), exact, size * (k**0.5 + 4) * 2.0**-23)


def test_scales_of_float32_that_are_halves_take_fewer_bytes() -> None:
    for zero, name in ((None, "q4_0"), ("u1", "nbits4")):
        given, want = arrays(3, 64, 4, 32, "f2", zero)
        given["scales"] = given["scales"].astype("f4")
        found = blocks_of(**{"zero_points": None} | given, shape=(3, 64), bits=4, block=32)
        assert found.type == name
        assert same(reference.dequantized(name, found.rows), want)
    given["scales"][0, 0] = 1e6
    assert blocks_of(**given, shape=(3, 64), bits=4, block=32).type == "nbits4_16"


def test_products_are_those_of_onnxruntime() -> None:
    """The order of numbers in bytes, beside the operator itself."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    for bits, block, zero in ((4, 32, "u1"), (4, 16, None), (8, 64, "u1")):
        given, want = arrays(8, 96 if block < 64 else 128, bits, block, "f4", zero)
        k = want.shape[1]
        names = [n for n in ("data", "scales", "zero_points") if n in given]
        helper = onnx.helper
        node = helper.make_node(
            "MatMulNBits", ["x", *names], ["y"], domain="com.microsoft", K=k, N=8, bits=bits,
            block_size=block,
        )  # fmt: skip
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info("x", 1, (k, k))],
            [helper.make_tensor_value_info("y", 1, (k, 8))],
            [onnx.numpy_helper.from_array(given[n].reshape(-1) if n != "data" else given[n], n)
             for n in names],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        session = runtime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (got,) = session.run(None, {"x": np.eye(k, dtype="f4")})
        assert_close(got, want.T.astype("f8"), np.full(got.shape, 1e-6) * np.abs(want).max())


def test_wrong_arguments_are_told() -> None:
    given, _ = arrays(4, 64, 4, 32, "f2", "u1")
    changes: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"bits": 2}, pk.ArgumentError, "bits must be 4 or 8 but is 2"),
        ({"block": 24}, pk.ArgumentError, "block must be a power of two from 16 on"),
        ({"shape": (4, 48)}, pk.ShapeError, "k a multiple of 32"),
        ({"shape": (5, 64)}, pk.ShapeError, "data must have 160 bytes but has 128"),
        ({"scales": given["scales"][:3]}, pk.ShapeError, "scales must have 4 x 2 elements"),
        ({"scales": given["scales"].astype("i4")}, pk.DTypeError, "scales must be float32 or"),
        ({"zero_points": given["zero_points"][:2]}, pk.ShapeError, "must have 4 x 1 bytes"),
        ({"data": given["data"].astype("i8")}, pk.DTypeError, "data must be uint8 but is int64"),
    ]
    for change, error, text in changes:
        call: Callable[..., Any] = pk.QTensor.from_nbits
        with pytest.raises(error, match=rf"\[from_nbits\] .*{text}"):
            call(**{**given, "shape": (4, 64), "bits": 4, "block": 32, **change})
