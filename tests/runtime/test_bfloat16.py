"""How the launcher converts bfloat16: layouts, rounding, shared memory, captures, tapes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from tests.harness import Case, Form, assert_same_bits, caps, forms

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.gpu

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(35)


def normal(*shape: int) -> Array:
    """Random numbers of bfloat16."""
    found: Array = RNG.standard_normal(shape).astype(ml_dtypes.bfloat16)
    return found


def wide(t: pk.Tensor) -> pk.Tensor:
    return t.astype("float32")


# -- layouts, neighbours ----------------------------------------------------------------------


@pytest.mark.parametrize("form", forms(2, repeats=False).items(), ids=lambda f: f[0])
def test_layouts(dev: pk.Device, form: tuple[str, Form]) -> None:
    """Any layout of inputs and outputs, at odd elements; nothing beside the output changes."""
    for rows, cols in ((3, 5), (17, 33), (1, 1), (7, 128)):
        case = Case(dev)
        x, w = case.input(normal(rows, cols), form[1]), case.input(normal(cols), Form(phase=3))
        dst = case.output((rows, cols), "bfloat16", form[1])
        case.build()
        [got] = case.run(
            lambda x=x, w=w, dst=dst: kernels.rms_norm(
                x.tensor, dst.tensor, weight=w.tensor, eps=1e-5
            )
        )
        exact = x.array.astype("f8")
        exact = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-5) * w.array.astype("f8")
        assert (np.abs(got.astype("f8") - exact) <= 2.0**-8 * np.abs(exact) * 1.001).all()


def test_inputs_that_repeat_stay_small(dev: pk.Device) -> None:
    """An input that repeats is converted once, not once for each place."""
    a, b = dev.tensor(normal(64, 64)), dev.tensor(normal(64, 8, 64))
    same = pk.matmul(wide(b), wide(a)).astype("bfloat16").numpy()
    assert_same_bits(pk.matmul(b, a).numpy(), same)
    row = dev.tensor(normal(4096)).broadcast_to((4096, 4096))
    before = dev.memory_stats().peak
    assert pk.sum(row, axis=1).shape == (4096,)
    assert dev.memory_stats().peak - before < 4096 * 4096  # all elements in float32: 4 times that


def test_empty_and_single(dev: pk.Device) -> None:
    empty, none = dev.zeros((0, 5), "bfloat16"), dev.zeros((2, 0), "bfloat16")
    assert pk.softmax(empty).shape == (0, 5)
    assert pk.matmul(empty, dev.zeros((5, 3), "bfloat16")).dtype == "bfloat16"
    assert not pk.matmul(none, dev.zeros((0, 3), "bfloat16")).numpy().any()
    one = pk.softmax(dev.ones((), "bfloat16"))
    assert one.shape == () and float(one.astype("float32").numpy()) == 1.0


# -- rounding -------------------------------------------------------------------------------------


def test_results_are_rounded_to_nearest_even(dev: pk.Device) -> None:
    """Ties to even, overflow to infinity, NaN stays; bfloat16 operands are exact in float32."""
    high = np.array([1, 1.0078125, -1, -1.0078125, 3e38, -3e38, np.nan, np.inf], "f4")
    low = np.array([2**-8, 2**-8, -(2**-8), -(2**-8), 3e38, -3e38, 1, 1], "f4")
    a, b = (dev.tensor(x.astype(ml_dtypes.bfloat16)) for x in (high, low))
    with np.errstate(over="ignore"):
        want = (high + low).astype(ml_dtypes.bfloat16)
    for got in (pk.add(a, b), a + b, pk.elementwise("a + b", a=a, b=b)):
        assert got.dtype == "bfloat16"
        np.testing.assert_array_equal(got.numpy().astype("f4"), want.astype("f4"))
    assert want[:4].astype("f4").tolist() == [1, 1.015625, -1, -1.015625]  # both ties to even
    ones = dev.ones((1, 2), "bfloat16")
    for i in range(4):  # a product of sums, in one tile
        pair = dev.tensor(np.array([[high[i]], [low[i]]], ml_dtypes.bfloat16))
        assert pk.matmul(ones, pair).numpy()[0, 0] == want[i]


def test_sums_are_float32(dev: pk.Device) -> None:
    """257 ones: bfloat16 would stop at 256."""
    x = dev.ones((4, 4097), "bfloat16")
    assert pk.sum(x, axis=1).numpy().astype("f4").tolist() == [4096.0] * 4
    assert pk.sum(x, axis=1, out=dev.zeros(4)).numpy().tolist() == [4097.0] * 4
    assert pk.matmul(x, x.T, out=dev.zeros((4, 4))).numpy().tolist() == [[4097.0] * 4] * 4


# -- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["float32", "float16"])
def test_mixed_dtypes_give_float32(dev: pk.Device, other: pk.DTypeName) -> None:
    a, b = dev.tensor(normal(9, 33)), dev.tensor(normal(33, 17)).astype(other)
    w = dev.tensor(normal(2, 3, 3, 3)).astype(other)
    image = dev.tensor(normal(1, 3, 9, 9))
    for got, want in (
        (pk.matmul(a, b), pk.matmul(wide(a), wide(b))),
        (pk.linear(a, b.T), pk.linear(wide(a), wide(b.T))),
        (pk.einsum("ij,jk->ik", a, b), pk.einsum("ij,jk->ik", wide(a), wide(b))),
        (pk.conv2d(image, w), pk.conv2d(wide(image), wide(w))),
        (a + b[:, :1].T, wide(a) + wide(b[:, :1].T)),
    ):
        assert got.dtype == "float32"
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-5)


def test_out_has_any_float_dtype(dev: pk.Device) -> None:
    a, b = dev.tensor(normal(9, 33)), dev.tensor(normal(17, 33))
    halves = a.astype("float16"), b.astype("float16")
    assert pk.linear(*halves, out=dev.zeros((9, 17), "bfloat16")).dtype == "bfloat16"
    for dtype in ("float32", "float16", "bfloat16"):
        out = dev.zeros((9, 34), dtype)[:, 1::2]
        assert pk.linear(a, b, out=out) is out
        want = pk.linear(wide(a), wide(b)).astype(dtype)
        np.testing.assert_allclose(wide(out).numpy(), wide(want).numpy(), rtol=2e-3, atol=1e-3)


def test_errors_name_bfloat16(dev: pk.Device) -> None:
    x, whole = dev.zeros((4, 4), "bfloat16"), dev.zeros((4, 4), "int32")
    allowed = "float32, float16 or bfloat16 but is int32"
    for call in (
        lambda: pk.softmax(whole), lambda: pk.matmul(x, whole), lambda: kernels.softmax(whole, x),
        lambda: pk.matmul(x, x, out=whole), lambda: pk.layer_norm(whole, 4),
    ):  # fmt: skip
        with pytest.raises(pk.DTypeError, match=allowed):
            call()
    with pytest.raises(pk.DTypeError, match="b must have the dtype of a, bfloat16"):
        pk.solve_triangular(x, dev.zeros((4, 4)), upper=True)
    with pytest.raises(pk.DTypeError, match="out must be bfloat16 but is float16"):
        pk.softmax(x, out=dev.zeros((4, 4), "float16"))
    with pytest.raises(pk.DTypeError, match="sinks must be float32 but is bfloat16"):
        pk.softmax(x, sinks=dev.zeros(1, "bfloat16"))
    with pytest.raises(pk.DTypeError, match="bfloat16"):
        pk.autocast("bfloat16")
    answer = pk.supports(pk.matmul, pk.Meta((4, 4), "bfloat16"), pk.Meta((4, 4), "bfloat16"))
    assert answer is True


# -- memory that is shared ------------------------------------------------------------------------


def test_in_place_and_overlapping(dev: pk.Device) -> None:
    x = dev.tensor(normal(6, 64))
    want = pk.softmax(wide(x)).astype("bfloat16").numpy()
    kernels.softmax(x, x)
    assert_same_bits(x.numpy(), want)
    line = dev.tensor(normal(4, 65))
    a, out = line[:, :64], line[:, 1:]  # the output overlaps the input by one element
    want = pk.gelu(wide(a)).astype("bfloat16").numpy()
    first = line.numpy()[:, 0]
    pk.gelu(a, out=out)
    assert_same_bits(out.numpy(), want)
    assert_same_bits(line.numpy()[:, 0], first)


def test_matmul_into_its_operand(dev: pk.Device) -> None:
    a = dev.tensor(normal(8, 8))
    want = pk.matmul(wide(a), wide(a).T).astype("bfloat16").numpy()
    pk.matmul(a, a.T, out=a)
    assert_same_bits(a.numpy(), want)


def test_outputs_that_are_updated(dev: pk.Device) -> None:
    """A parameter and a cache keep what the call does not write."""
    param, grad = dev.tensor(normal(5, 7)), dev.tensor(normal(5, 7))
    copy, states = wide(param), [dev.zeros((5, 7)) for _ in range(4)]
    pk.adamw_step(param, grad, states[0], states[1], 1)
    pk.adamw_step(copy, wide(grad), states[2], states[3], 1)
    assert_same_bits(param.numpy(), copy.astype("bfloat16").numpy())
    assert_same_bits(states[0].numpy(), states[2].numpy())
    many, places = dev.tensor(normal(1, 4, 2, 32)), dev.tensor(np.array([5, 2], "i4"))
    cache = dev.tensor(normal(1, 2, 8, 32))
    before, alike = cache.numpy(), wide(cache)
    queries = pk.rope_append(many, places, cache)
    expected = pk.rope_append(wide(many), places, alike)
    assert_same_bits(queries.numpy(), expected.astype("bfloat16").numpy())
    assert_same_bits(cache.numpy(), alike.astype("bfloat16").numpy())
    rest = [0, 1, 3, 4, 6, 7]
    assert_same_bits(cache.numpy()[:, :, rest], before[:, :, rest])


def test_rows_that_no_index_names_stay(dev: pk.Device) -> None:
    """Without `check` an index out of range leaves its row; with it the error comes as usual."""
    q = pk.quantize(dev.rand((6, 64), seed=0), "q8_0")
    index = dev.tensor(np.array([1, 9, 3], "i4"))
    out = dev.full((3, 64), 7.0, "bfloat16")
    q.rows(index, check=False, out=out)
    assert (out.numpy()[1] == 7).all()
    assert_same_bits(out.numpy()[[0, 2]], q.dequantize("bfloat16").numpy()[[1, 3]])
    q.rows(index, out=out)
    with pytest.raises(pk.IndexRangeError, match="rows"):
        out.numpy()


def test_what_skipped_indices_would_write_stays(dev: pk.Device) -> None:
    """The temporary in the place of `out` begins as its copy."""
    out = dev.full((2, 2, 8), 7.0, "bfloat16")
    experts = np.array([[0, 2], [1, 3]], "i4")
    with pytest.raises(pk.IndexRangeError, match="ids"):
        pk.expert_linear(dev.ones((2, 32)), dev.ones((3, 8, 32)), experts, out=out).numpy()
    assert (out.numpy() == np.float32([32, 32, 32, 7]).reshape(2, 2, 1)).all()

    pixels = dev.full((2, 1, 2, 2), 7.0, "bfloat16")
    boxes, image = dev.tensor(np.float32([[0, 0, 4, 4]] * 2)), np.array([0, 2], "i4")
    with pytest.raises(pk.IndexRangeError, match="index"):
        pk.roi_align(dev.ones((2, 1, 4, 4), "bfloat16"), boxes, image, 2, out=pixels).numpy()
    assert (pixels.numpy()[:, 0, 0, 0] == [1, 7]).all()


# -- ways to run ----------------------------------------------------------------------------------


def test_batches_captures_and_profiles(dev: pk.Device) -> None:
    x, w = dev.tensor(normal(5, 64)), dev.tensor(normal(64, 64))

    def chain(x: pk.Tensor, w: pk.Tensor) -> pk.Tensor:
        return pk.softmax(pk.linear(pk.rms_norm(x, 64, eps=1e-6), w, activation="silu"))

    want = chain(x, w).numpy()
    with dev.batch():
        inside = chain(x, w)
    assert_same_bits(inside.numpy(), want)
    with dev.capture() as program:
        captured = chain(x, w)
    for values in (normal(5, 64), normal(5, 64)):
        x.write(values)
        program()
        assert_same_bits(captured.numpy(), chain(x, w).numpy())
    with dev.profile() as p:
        chain(x, w)
    names = [r.label.split()[0] for r in p.records]
    assert sum(n.startswith("cpy") for n in names) == 7  # of three calls: four inputs, results
    assert any("softmax" in n for n in names)


def test_a_known_call_is_one_launch(dev: pk.Device) -> None:
    """Calls on the same views come from the caches, and give the same bits."""
    x, y = dev.tensor(normal(33, 65)), dev.tensor(normal(33, 65))
    first = (x * y).numpy()
    for _ in range(3):
        assert_same_bits((x * y).numpy(), first)
    x.write(normal(33, 65))
    assert_same_bits((x * y).numpy(), (wide(x) * wide(y)).astype("bfloat16").numpy())


def test_training_a_layer(dev: pk.Device) -> None:
    """A loss of bfloat16 falls, and the tape keeps no float32 copies."""
    x, y = dev.tensor(normal(64, 32)), dev.tensor(normal(64, 8))
    w = dev.tensor(normal(8, 32) * ml_dtypes.bfloat16(0.1))
    optimizer, losses = pk.AdamW([w], lr=0.02), []
    for _ in range(25):
        with pk.Tape() as tape:
            loss = pk.mse_loss(pk.linear(x, w), y)
        gradient = tape.gradient(loss, w)
        assert gradient.dtype == loss.dtype == "bfloat16"
        optimizer.step([gradient])
        losses.append(float(wide(loss).numpy()))
    assert losses[-1] < 0.8 * losses[0]


def test_devices_without_f16(dev: pk.Device) -> None:
    x, w = dev.tensor(normal(9, 64)), dev.tensor(normal(17, 64))
    want = pk.linear(x, w).numpy(), pk.softmax(x).numpy(), pk.gelu(x).numpy()
    with caps(dev, f16=False):
        got = pk.linear(x, w).numpy(), pk.softmax(x).numpy(), pk.gelu(x).numpy()
        mixed = pk.linear(x, w.astype("float16"))
        assert mixed.dtype == "float32"
    for a, b in zip(got, want, strict=True):
        assert_same_bits(a, b)


# -- weights of files -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["q4_0", "q8_0", "q4_1", "q6_k"])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_quantised_products(dev: pk.Device, name: Any, rows: int) -> None:
    if name == "q6_k":
        blocks = np.random.default_rng(0).integers(0, 256, (48, 210), np.uint8)
        blocks[:, 208:] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
        q = pk.QTensor.from_bytes(blocks.tobytes(), (48, 256), name, device=dev)
    else:
        q = pk.quantize(dev.rand((48, 256), seed=0), name)
    x, bias = dev.tensor(normal(rows, 256)), dev.tensor(normal(48))
    got = pk.linear(x, q, bias)
    exact = wide(x).numpy().astype("f8") @ q.numpy().astype("f8").T + bias.numpy().astype("f8")
    size = np.abs(wide(x).numpy().astype("f8")) @ np.abs(q.numpy().astype("f8")).T + 4
    assert got.dtype == "bfloat16"
    error = np.abs(got.numpy().astype("f8") - exact)
    assert (error <= 2.0**-8 * np.abs(exact) + 1e-5 * size).all()


def test_caches_in_blocks(dev: pk.Device) -> None:
    """Keys and values are quantised from bfloat16, and attention reads them."""
    q, k = dev.tensor(normal(1, 4, 3, 64)), dev.tensor(normal(1, 2, 3, 64))
    cache = pk.QTensor.zeros((1, 2, 8, 64), "q8_0", device=dev)
    same = pk.QTensor.zeros((1, 2, 8, 64), "q8_0", device=dev)
    index = dev.tensor(np.array([0, 1, 2], "i4"))
    pk.set_rows(k, index, cache)
    pk.set_rows(wide(k), index, same)
    assert_same_bits(cache.numpy(), same.numpy())
    got, want = pk.flash_attn(q, cache, cache), pk.flash_attn(wide(q), same, same)
    assert got.dtype == "bfloat16"
    assert_same_bits(got.numpy(), want.astype("bfloat16").numpy())
