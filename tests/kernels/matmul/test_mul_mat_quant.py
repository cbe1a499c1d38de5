"""mul_mat_quant: every type and body, layouts, epilogues, parts, and what linear and matmul do with
a QTensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from codegen.build import variants_of
from pykernels.forcing import force
from pykernels.plans.matmul.mul_mat_quant import plan
from pykernels.plans.matmul.select_quant import QuantChoice, QuantShape, candidates, choose
from pykernels.plans.quant.types import TYPES, planes, type_of
from pykernels.reference.quant import dequantized
from pykernels.steps import Caps, Scratch
from tests.checkout import ROOT
from tests.emulation import UNITS, emulated
from tests.harness import Form, assert_close, caps
from tests.kernels.matmul.quant_calls import (
    CAPS,
    QuantCalls,
    budget,
    planes_of,
    reference,
    view_of,
)

F32, F16 = "float32", "float16"
gpu = pytest.mark.gpu
MMA = QuantChoice("gemm_mma_quant/32x32")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("quant", TYPES)
def test_types(dev: pk.Device, quant: str) -> None:
    """One row and a tile of each type; K of one block, of several, and odd numbers of columns."""
    block = TYPES[quant].block
    calls = QuantCalls(dev)
    calls.add(quant, (1, block), 5)
    calls.add(quant, (1, 416 if block == 32 else 768), 37)
    calls.add(quant, (9, 2 * block), 66)
    calls.check(quant)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("quant", ("q4_0", "q8_0", "q6_k"))
def test_rows(dev: pk.Device, quant: str) -> None:
    """Rows around what bodies hold, from one to more than a tile, and both dtypes."""
    block = TYPES[quant].block
    calls = QuantCalls(dev)
    halves = "shader-f16" in dev.features
    sizes = [(1, 8), (2, 33), (4, 130), (5, 3), (8, 64), (9, 1), (31, 65), (33, 64), (65, 70)]
    for rows, cols in sizes:
        calls.add(quant, (rows, block), cols)
        if halves and rows in (1, 4, 8, 9, 65):
            calls.add(quant, (rows, 2 * block), cols, F16, F16)
            calls.add(quant, (rows, 2 * block), cols, F16, F32)
            calls.add(quant, (rows, block), cols, F32, F16)
    calls.check()


@gpu
def test_layouts_and_epilogues(dev: pk.Device) -> None:
    """Strides, offsets and gaps of b and dst, batches, bias, residual, scale and activation."""
    rng = np.random.default_rng(1)
    forms = (Form(phase=1), Form(gap=4, phase=4), Form(order=(1, 0)), Form(steps=(-1, 1), phase=3))
    calls = QuantCalls(dev)
    for rows in (3, 40):
        for form in forms:
            calls.add("q4_0", (rows, 96), 24, b_form=form)
            calls.add("q4_0", (rows, 96), 24, dst_form=form)
        bias = rng.normal(0, 1, 24).astype(F32)
        residual = rng.normal(0, 1, (rows, 24)).astype(F16)
        calls.add("q4_0", (rows, 64), 24, bias=bias, residual=residual, activation="relu")
        calls.add("q4_0", (rows, 64), 24, bias=residual[:, :1], scale=0.25, activation="silu")
        calls.add("q4_0", (2, rows, 64), 24, b_form=Form(order=(1, 0, 2)))
        calls.add("q4_0", (2, 2, rows, 64), 20, b_form=Form(gap=4), bias=bias[:20])
    calls.check()


@gpu
def test_splits_and_weights_as_floats(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    bias = rng.normal(0, 1, 40).astype(F32)
    for choice in (QuantChoice("gemm_quant/32x64", 3), QuantChoice("mul_mat")):
        calls = QuantCalls(dev)
        calls.add("q8_0", (20, 224), 40, bias=bias, scale=0.5, activation="relu")
        calls.add("q4_k", (20, 512), 40, residual=bias[None])
        with force(dev, choice):
            calls.check(choice.body)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("quant", ("q4_0", "q8_0", "q4_k", "q6_k", "nbits4", "nbits8_16"))
def test_matrix_units(dev: pk.Device, quant: str) -> None:
    """Emulated where there are none. b is f16, or is rounded to it by precision="fast"; halves that
    are f32 before a plan sees them are rounded again, which changes nothing."""
    block = TYPES[quant].block
    rng = np.random.default_rng(3)
    bias = rng.normal(0, 1, 36).astype(F32)
    for splits in (1, 2):
        calls = QuantCalls(dev)
        own = {"precision": "fast", "rounded": True}
        calls.add(quant, (9, 2 * block), 36, bias=bias, activation="relu", **own)
        if splits == 1:
            calls.add(quant, (40, block), 68, F16, dst_form=Form(phase=1), **own)
        with emulated(dev, "gemm_mma_quant"):
            if dev._context.caps.matrix is not UNITS:  # real ones have no such tile
                calls.check(quant)
                continue
            with force(dev, MMA._replace(splits=splits)):
                calls.check(quant)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("quant", TYPES)
def test_a_row_of_bytes(dev: pk.Device, quant: str) -> None:
    """What precision="fast" allows of one row, within its own bound."""
    block = TYPES[quant].block
    calls = QuantCalls(dev)
    bias = np.arange(37, dtype=F32)
    calls.add(quant, (1, 416 if block == 32 else 768), 37, bias=bias, precision="fast")
    if quant == "q4_0":
        calls.add(quant, (1, 64), 12, F16, precision="fast")
        calls.add(quant, (1, 64), 12, b_form=Form(phase=1), scale=0.5, precision="fast")
    with force(dev, QuantChoice("gemv_quant_i8")):
        calls.check(quant)


@gpu
@pytest.mark.sample
def test_planes_and_dst_in_one_buffer(dev: pk.Device) -> None:
    """Bodies that bind the planes as read-only take copies of planes in dst's buffer."""
    rng = np.random.default_rng(5)
    found = planes_of(rng, "q4_0", 37, 416)
    b = dev.tensor(rng.standard_normal((1, 416)).astype(F32))
    room = dev.zeros(1 << 16, "uint8").buffer
    near, end = {}, 256
    for name, plane in found.items():
        near[name] = pk.Tensor.from_buffer(room, plane.shape, "uint32", offset=end, device=dev)
        near[name].write(plane)
        end = -(-(end + plane.nbytes) // 256) * 256
    shared = pk.Tensor.from_buffer(room, (1, 37), F32, offset=end, device=dev)
    apart, dst = {n: dev.tensor(p) for n, p in found.items()}, dev.empty((1, 37), F32)
    with force(dev, QuantChoice("gemv_quant_i8")):
        for planes_, out in ((near, shared), (apart, dst)):
            pk.kernels.mul_mat_quant(**planes_, b=b, dst=out, quant="q4_0", precision="fast")
    assert np.array_equal(shared.numpy(), dst.numpy()) and dst.numpy().any()


HALVES = tuple([name for name, kind in TYPES.items() if kind.halves])


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("quant", HALVES)
def test_rows_of_halves(dev: pk.Device, quant: str) -> None:
    """Packed products of one to eight rows; odd columns and groups, epilogues, both dtypes."""
    if "shader-f16" not in dev.features:
        pytest.skip("the device has no f16")
    block = TYPES[quant].block
    calls = QuantCalls(dev)
    bias = np.arange(37, dtype=F32)
    calls.add(quant, (1, 416 if block == 32 else 768), 37, F16, bias=bias, activation="relu")
    calls.add(quant, (3, 3 * block), 70, F16, F16, b_form=Form(phase=1), scale=0.5)
    calls.add(quant, (2, 3, block), 5, F16, b_form=Form(order=(1, 0, 2)), residual=bias[:5])
    calls.check(quant)


@gpu
def test_sums_of_halves_that_are_too_large(dev: pk.Device) -> None:
    """Products of eight numbers that no half holds are summed in f32."""
    if "shader-f16" not in dev.features:
        pytest.skip("the device has no f16")
    for quant in ("q8_0", "q4_k"):
        rng = np.random.default_rng(5)
        k = 1024
        given = {n: dev.tensor(v) for n, v in planes_of(rng, quant, 40, k).items()}
        b = rng.normal(0, 1, (3, k)).astype(F16)
        b[1, 512:] = 60000
        dst = dev.empty((3, 40))
        pk.kernels.mul_mat_quant(**given, b=dev.tensor(b), dst=dst, quant=quant)
        arrays = {n: t.numpy() for n, t in given.items()}
        want = reference(**arrays, b=b, shape=(3, 40), quant=quant)
        allowed = budget(**arrays, b=b, shape=(3, 40), quant=quant)
        assert_close(dst.numpy(), want, allowed, quant)


def test_types_in_packed_halves() -> None:
    """The types that say so are those that the body has."""
    assert {dict(v.axes)["TYPE"] for v in variants_of(ROOT, "gemv_quant_half")} == set(HALVES)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("quant", HALVES)
def test_few_rows_on_matrix_units(dev: pk.Device, quant: str) -> None:
    """Groups that are no whole rounds of subgroups, splits of K, and odd rows."""
    block = TYPES[quant].block
    rng = np.random.default_rng(3)
    bias = rng.normal(0, 1, 68).astype(F32)
    for splits in (1, 2):
        calls = QuantCalls(dev)
        own = {"precision": "fast", "rounded": True}
        k = (11 if block == 32 else 3) * block
        calls.add(quant, (13, k), 68, bias=bias, activation="relu", **own)
        if splits == 1:
            form = Form(order=(1, 0, 2))
            calls.add(quant, (2, 4, block), 8, b_form=form, scale=0.5, **own)
        with emulated(dev, "gemm_mma_quant_few"):
            held = "emulated" if dev._context.caps.matrix is UNITS else "16"
            with force(dev, QuantChoice(f"gemm_mma_quant_few/{held}", splits)):
                calls.check(f"{quant} {splits}")


@gpu
def test_columns_that_matrix_units_cannot_store(dev: pk.Device) -> None:
    calls = QuantCalls(dev)
    calls.add("q4_0", (33, 32), 35, precision="fast")
    with emulated(dev, "gemm_mma_quant"):
        calls.check()


@gpu
def test_parts_above_one_binding(dev: pk.Device) -> None:
    """Planes that no binding holds are multiplied in parts of k; rows and columns in others."""
    for quant, k in (("q4_0", 2048), ("q5_k", 2048)):
        calls = QuantCalls(dev)
        bias = np.arange(40, dtype=F32)
        for rows in (2, 20):
            calls.add(quant, (rows, k), 40, bias=bias, scale=0.5, activation="relu")
        with caps(dev, max_binding=16384):
            calls.check(quant)
    calls = QuantCalls(dev)
    calls.add("q4_0", (300, 32), 160, bias=np.arange(160, dtype=F32))
    with caps(dev, max_binding=65536):
        calls.check("dst")


@gpu
def test_linear_and_matmul_of_a_qtensor(dev: pk.Device) -> None:
    rng = np.random.default_rng(4)
    raw = rng.integers(32, 48, (24, 2 * 18), dtype=np.uint8)
    q: Any = pk.QTensor.from_bytes(raw.tobytes(), (24, 64), "q4_0", dev)
    w = dequantized("q4_0", raw).astype(np.float64)
    b = rng.normal(0, 1, 24).astype(F32)
    allowed = 1e-5
    for lead in ((), (3,), (2, 5), (0,)):
        x = rng.normal(0, 1, (*lead, 64)).astype(F32)
        want = x.astype(np.float64) @ w.T
        for given in (x, dev.tensor(x)):
            got: Any = pk.linear(given, q, b, activation="relu")
            assert isinstance(got, pk.Tensor)
            assert_close(got.numpy(), np.maximum(want + b, 0), np.full(want.shape, allowed))
            product: Any = given @ q.T
            assert isinstance(product, pk.Tensor)
            assert_close(product.numpy(), want, np.full(want.shape, allowed))
        residual = dev.tensor(np.broadcast_to(b, want.shape).copy())
        got = pk.matmul(dev.tensor(x), q.T, bias=b, residual=residual, scale=0.5, out=residual)
        assert got is residual
        assert_close(got.numpy(), 0.5 * want + 2 * b, np.full(want.shape, allowed))


def test_linear_and_matmul_reject(dev: pk.Device) -> None:
    q: Any = pk.quantize(dev.zeros((24, 64)), "q4_0")
    x = dev.zeros((3, 64))
    unknown: Any = "no"
    calls: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: pk.linear(x[:, :32], q), pk.ShapeError, r"\[linear\] x must be \(..., 64\)"),
        (lambda: pk.linear(x, q.T), pk.ShapeError, r"\[linear\] w must be \(n, k\)"),
        (lambda: pk.linear(x, q, dev.zeros(3)), pk.ShapeError, r"\[linear\] b must have shape"),
        (lambda: pk.linear(x, q, 3), pk.DTypeError, r"\[linear\] b must be a pykernels.Tensor"),
        (lambda: pk.matmul(x, q), pk.ShapeError, r"\[matmul\] a QTensor takes part as b"),
        (lambda: pk.matmul(q, x), pk.ShapeError, r"\[matmul\] a QTensor takes part as b"),
        (lambda: pk.matmul(x, q.T, bias=dev.zeros(5)), pk.ShapeError, "bias must broadcast"),
        (lambda: pk.linear(x.astype("int32"), q), pk.DTypeError, r"\[linear\] x must be float32"),
        (lambda: pk.linear(x, q, out=dev.zeros((3, 24), "int32")), pk.DTypeError, "float32"),
        (lambda: pk.linear(x, q, precision=unknown), pk.ArgumentError, "precision"),
    ]
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
    low, scales = q.low, q.scales
    dst = dev.zeros((3, 24))
    with pytest.raises(pk.ArgumentError, match="type must be one of"):
        pk.kernels.mul_mat_quant(low, scales, x, dst, quant="q4")
    with pytest.raises(pk.ShapeError, match="low of q8_0"):
        pk.kernels.mul_mat_quant(low, scales, x, dst, quant="q8_0")


def test_choose() -> None:
    def chosen(rows: int, halves: bool = True, caps: Caps = CAPS, packed: bool = False) -> str:
        return choose(
            caps, QuantShape(1, rows, 4096, 4096, halves, True, False, packed, packed)
        ).body

    plain = replace(CAPS, matrix=None)
    assert chosen(1) == chosen(8) == chosen(1, caps=replace(CAPS, f16=False), packed=True)
    assert chosen(1) == "gemv_quant" and chosen(1, packed=True) == "gemv_quant_half"
    assert chosen(8, caps=plain, packed=True) == chosen(8, packed=True) == "gemv_quant_half"
    assert chosen(9, packed=True) == chosen(16, packed=True) == "gemm_mma_quant_few/16"
    assert chosen(17, packed=True) == chosen(32, packed=True) == "gemm_mma_quant/32x128"
    rounded = QuantShape(1, 4, 4096, 4096, True, True, packed=True)  # b is float32
    assert choose(CAPS, rounded).body == "gemm_mma_quant_few/16"
    assert choose(CAPS, rounded._replace(rows=3)).body == "gemv_quant"
    assert chosen(33, packed=True) == "gemm_mma_quant/128x128"
    assert chosen(9) == chosen(32) == "gemm_mma_quant/32x128"
    assert chosen(33) == chosen(4096) == "gemm_mma_quant/128x128"
    assert chosen(9, caps=plain) == chosen(32, False) == "gemm_quant/32x64"
    assert chosen(64, caps=plain) == "gemm_quant/64x64"
    assert chosen(512, caps=plain) == chosen(512, False) == "mul_mat"
    large = QuantShape(1, 1, 16384, 16384, True, True)
    assert choose(CAPS, large).body == "gemv_quant"
    assert choose(CAPS, large._replace(fast=True)).body == "gemv_quant_i8"
    assert choose(CAPS, large._replace(fast=True, cols=64)).body == "gemv_quant"
    excluded = [c for c in candidates(plain, QuantShape(1, 9, 64, 64)) if c.why]
    assert {c.choice.body.split("/")[0] for c in excluded} == {
        "gemv_quant", "gemv_quant_half", "gemv_quant_i8", "gemm_mma_quant", "gemm_mma_quant_few",
        "mul_mat",
    }  # fmt: skip


def test_plan_copies_nothing_that_can_be_read() -> None:
    """One dispatch for one row and for a prefill on matrix units."""
    low, scales, _ = planes("test", type_of("test", "q4_0"), (4096, 4096))
    for rows, want in ((1, ["gemv_quant_half"]), (4096, ["gemm_mma_quant"])):
        steps = plan(
            CAPS, Scratch(), view_of(low, "uint32", 0), view_of(scales, "uint32", 1), None,
            view_of((rows, 4096), F16, 2), None, None, view_of((rows, 4096), F16, 3),
        )  # fmt: skip
        assert [s.body.name for s in steps] == want
