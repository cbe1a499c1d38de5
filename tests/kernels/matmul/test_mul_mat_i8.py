"""mul_mat_i8: every body at its edges, extremes and wraps, splits, factors, layouts, parts."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.forcing import force
from pykernels.kernels import mul_mat_i8
from pykernels.plans.matmul import mul_mat_i8 as plans
from pykernels.plans.matmul.select import GemmShape
from pykernels.plans.matmul.select_i8 import (
    BYTES,
    PACKED,
    ROWS_RUN,
    TILES,
    WORDS,
    Int8Choice,
    choose,
    tile_load,
)
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named
from tests.harness import Form, caps, forms, random_form
from tests.kernels.matmul.int8_calls import I8, KINDS, OUTS, U8, Int8Calls

gpu = pytest.mark.gpu
K_FORM, ROWS_FORM, ANY_FORM = Form(), Form(order=(1, 0)), Form(phase=1, gap=1)
FORMS = {"k": K_FORM, "rows": ROWS_FORM, "any": ANY_FORM}


# -- every text -----------------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tile", TILES)
def test_tiles_at_their_edges(dev: pk.Device, tile: str, kind: str, out: str) -> None:
    """Rows, columns and k around the sizes of the tile, and one tile of many bands."""
    edge = TILES[tile].BM
    calls = Int8Calls(dev)
    sizes = ((1, 1, 64), (edge, edge, 128), (edge - 4, edge + 4, 40), (edge + 1, edge - 1, 65),
             (2 * edge + 4, 9, 72), (12, edge * 9 + 8, 8), (3, 2 * edge + 1, 63))  # fmt: skip
    for (m, n, k), loads in itertools.product(sizes, itertools.product(FORMS, FORMS)):
        a_form, b_form = (FORMS[name] for name in loads)
        calls.add((m, k), (n, k), kind, out, a_form=a_form, b_form=b_form)
    calls.add((2, edge + 4, 48), (2, 24, 48), kind, out)
    with force(dev, Int8Choice(tile)):
        calls.check(tile)


@gpu
def test_the_large_tile_at_its_edges(dev: pk.Device) -> None:
    """Few texts of many, and always: k as the row of either operand, vectors of dst and not."""
    calls = Int8Calls(dev)
    for m, n, k in ((64, 64, 32), (68, 60, 33), (60, 132, 100), (4, 64, 7), (132, 12, 31)):
        calls.add((m, k), (n, k), a_form=ROWS_FORM)
        calls.add((m, k), (n, k), a_form=ROWS_FORM, b_form=ROWS_FORM)
        calls.add((m, k), (n, k), a_form=ROWS_FORM, dst_form=Form(phase=1))
    with force(dev, Int8Choice("mul_mat_i8/64")):
        calls.check()


@gpu
@pytest.mark.parametrize("loads", [*itertools.product(FORMS, FORMS)], ids="-".join)
def test_every_length_of_k(dev: pk.Device, loads: tuple[str, str]) -> None:
    """From 1 to a tile and beyond: what lies behind k counts in no sum."""
    a_form, b_form = (FORMS[name] for name in loads)
    calls = Int8Calls(dev)
    for k in (*range(1, 12), 15, 16, 17, 31, 33, 62, 63, 64, 65, 66, 127, 128, 129, 200):
        calls.add((36, k), (20, k), a_form=a_form, b_form=b_form)
        calls.add((20, k), (3, k), a_form=a_form, b_form=b_form)
    calls.check()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", ((1,), (2, 5, 8)), ids=("one", "some"))
def test_narrow_products(dev: pk.Device, rows: tuple[int, ...], kind: str, out: str) -> None:
    calls = Int8Calls(dev)
    for n, load in itertools.product(rows, FORMS):
        sizes = ((1, 5), (3, 300), (4, 64), (63, 1024), (64, 9), (1028, 4), (500, 260), (132, 4112))
        for cols, k in sizes:
            calls.add((cols, k), (n, k), kind, out, a_form=FORMS[load])
            calls.add((n, k), (cols, k), kind, out, b_form=FORMS[load], a_form=ANY_FORM)
    calls.check()


# -- numbers --------------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("kind", KINDS)
def test_extremes_and_wraps(dev: pk.Device, kind: str) -> None:
    """The largest products, K of 5,000; and sums that pass 2^31 and 2^32."""
    calls = Int8Calls(dev)
    info = np.iinfo(kind)
    for x, y in itertools.product((info.min, info.max), repeat=2):
        for (m, n), k in (((36, 12), 5000), ((20, 2), 5000), ((9, 9), 140_000), ((40, 1), 70_001)):
            a, b = np.full((m, k), x, kind), np.full((n, k), y, kind)
            calls.add(a, b, kind)
    calls.add(a, b, kind, "float32", extras={})  # what wrapped is a factor's, too
    calls.check()


@gpu
def test_factors_of_any_size(dev: pk.Device) -> None:
    """Tiny and huge factors, and what they cancel to; zeros, infinities and NaN stay in a row."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, s).astype(I8) for s in ((20, 40), (12, 40)))
    rows = rng.normal(0, 1, 20).astype(np.float32) * np.float32(1e-30)
    cols = rng.normal(0, 1, 12).astype(np.float32) * np.float32(1e30)
    calls = Int8Calls(dev)
    calls.add(a, b, out="float32", extras={"a_scale": rows, "b_scale": cols})
    calls.add(a, b[:3], out="float32", extras={"a_scale": rows, "b_scale": cols[:3]})
    calls.check()
    rows[:3] = 0.0, np.inf, np.nan
    dst = dev.empty((12, 20))
    mul_mat_i8(dev.tensor(np.ones_like(a)), dev.tensor(np.ones_like(b)), dst,
               a_scale=dev.tensor(rows))  # fmt: skip
    got = dst.numpy()
    assert (got[:, 0] == 0).all()
    assert np.isposinf(got[:, 1]).all()
    assert np.isnan(got[:, 2]).all()
    assert np.isfinite(got[:, 3:]).all()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("body", (*TILES, "gemv_i8"))
@pytest.mark.parametrize("splits", (1, 3))
def test_shapes_of_factors_and_bias(dev: pk.Device, body: str, splits: int) -> None:
    calls = Int8Calls(dev)
    n, rng = 5 if body == "gemv_i8" else 21, calls.rng
    shapes = (((36,), (n,), (n, 36)), ((2, 1), (1,), (36,)), ((), (2, n), (n, 1)),
              ((2, 36), (), (1, 1, 1)), ((1, 36), (2, 1), (2, n, 36)), (None, (n,), ()),
              ((36,), None, None))  # fmt: skip
    for given, out in itertools.product(shapes, ("float32", "float16")):
        kinds = (np.float32, np.float32, np.float16)
        extras = {
            name: (rng.normal(0, 0.01, s) if name != "bias" else rng.normal(0, 9, s)).astype(dtype)
            for name, s, dtype in zip(("a_scale", "b_scale", "bias"), given, kinds, strict=True)
            if s is not None
        }
        for dst_form in (Form(), Form(order=(0, 2, 1))):
            calls.add((2, 36, 200), (2, n, 200), out=out, extras=extras, dst_form=dst_form)
    with force(dev, Int8Choice(body, splits)):
        calls.check(f"{body} {splits}")


# -- splits, layouts, parts -----------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("body", (*TILES, "gemv_i8"))
def test_splits_of_k(dev: pk.Device, body: str) -> None:
    n = 4 if body == "gemv_i8" else 20
    for splits in (2, 5, 64):
        calls = Int8Calls(dev)
        for k, form in itertools.product((16, 17, 130, 1000), (K_FORM, ROWS_FORM)):
            calls.add((40, k), (n, k), a_form=form, b_form=form)
            calls.add((3, 36, k), (3, n, k), out="float16", a_form=replace(form, order=()))
        with force(dev, Int8Choice(body, splits)):
            calls.check(f"{splits} splits")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_any_layout(dev: pk.Device, form: str) -> None:
    layout = forms(3, repeats=True)[form]
    calls = Int8Calls(dev)
    for m, n, k in ((36, 20, 24), (33, 17, 9), (40, 2, 64), (3, 50, 12)):
        calls.add((2, m, k), (2, n, k), a_form=layout)
        calls.add((2, m, k), (2, n, k), b_form=layout)
        if "repeat" not in form:
            calls.add((2, m, k), (2, n, k), dst_form=layout)
            calls.add((2, m, k), (2, n, k), a_form=layout, b_form=layout, dst_form=layout)
    calls.check()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("seed", range(8))
def test_random_calls(dev: pk.Device, seed: int) -> None:
    """Any sizes, layouts, batches and dtypes; every other time on a device with small bindings."""
    calls = Int8Calls(dev, seed)
    rng = calls.rng
    for _ in range(8):
        m, n, k = (int(rng.choice([1, 2, 7, 8, 16, 33, 64, 100])) for _ in range(3))
        lead = tuple(int(v) for v in rng.integers(1, 4, int(rng.integers(0, 4))))
        a_lead = tuple(v if rng.random() < 0.7 else 1 for v in lead)
        layouts = {
            f"{name}_form": random_form(rng, len(lead) + 2, repeats=name != "dst")
            for name in ("a", "b", "dst")
        }
        calls.add((*a_lead, m, k), (*lead, n, k), str(rng.choice(KINDS)), str(rng.choice(OUTS)),
                  **layouts)  # fmt: skip
    if seed % 2:
        with small(dev, int(rng.integers(30_000, 60_000))):
            calls.check()
    else:
        calls.check()


@gpu
def test_batches(dev: pk.Device) -> None:
    """Neighbouring matrices of b share one of a, as in ggml; more axes than a launch has; several
    products become one where they can."""
    calls = Int8Calls(dev)
    for a_lead, b_lead in (((2,), (6,)), ((1, 3), (4, 6)), ((2, 1), (4, 3)), ((3,), (5, 3)),
                           ((), (2, 2)), ((2, 2, 2, 2), (4, 4, 4, 4))):  # fmt: skip
        calls.add((*a_lead, 12, 20), (*b_lead, 10, 20))
        calls.add((*a_lead, 12, 20), (*b_lead, 1, 20), out="float32")
    # One row in each batch, and factors of columns that differ between batches.
    factors = {"a_scale": calls.rng.normal(0, 1, (3, 9)).astype(np.float32)}
    calls.add((9, 20), (3, 1, 20), out="float32", extras=factors)
    factors = {"b_scale": calls.rng.normal(0, 1, (3, 9)).astype(np.float32)}
    calls.add((3, 1, 20), (3, 9, 20), out="float32", extras=factors)
    apart = Form(steps=(1, 1, 1, 1, 1, 1, 1), gap=3)
    calls.add((2, 1, 2, 1, 2, 9, 8), (2, 3, 2, 2, 2, 10, 8), a_form=apart, b_form=apart)
    calls.check()


@gpu
def test_no_k_and_nothing_to_write(dev: pk.Device) -> None:
    calls = Int8Calls(dev)
    calls.add((5, 0), (7, 0))
    calls.add((2, 5, 0), (4, 7, 0), out="float16", dst_form=Form(phase=1))
    for batch, m, n in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        calls.add((batch, m, 5), (batch, n, 5))
        calls.add((batch, m, 5), (batch, n, 5), out="float32")
    calls.check()


def small(dev: pk.Device, nbytes: int) -> Any:
    """The device with bindings of so many bytes, and what aligning their beginning takes."""
    return caps(dev, max_binding=dev._context.caps.alignment + nbytes)


@gpu
def test_in_parts(dev: pk.Device) -> None:
    """Rows, columns and batches are cut, with factors and bias; temporaries too."""
    calls = Int8Calls(dev)
    for a, b in (((90, 16), (3, 120, 16)), ((2, 30, 40), (6, 60, 40)), ((900, 24), (3, 24)),
                 ((300, 21), (20, 21))):  # fmt: skip
        for form, out in ((K_FORM, "int32"), (ROWS_FORM, "float32")):
            lead = len(b) - 2
            order = (*range(lead), *(lead + i for i in form.order))
            calls.add(a, b, out=out, b_form=replace(form, order=order))
    with small(dev, 4000):
        calls.check()
    calls = Int8Calls(dev)
    calls.add((70, 200), (60, 200), out="float16")
    with small(dev, 30_000), force(dev, Int8Choice("mul_mat_i8/32", 3)):
        calls.check()


@gpu
def test_without_native_halves_and_in_one_buffer(dev: pk.Device) -> None:
    calls = Int8Calls(dev)
    for n in (3, 36):
        calls.add((40, 20), (n, 20), out="float16", dst_form=Form(phase=1))
    with caps(dev, f16=False):
        calls.check()
    calls = Int8Calls(dev)
    for m, n, k in ((36, 20, 24), (33, 17, 9), (50, 2, 33), (64, 1, 64)):
        a, b = calls.bytes((m, k), I8), calls.bytes((n, k), I8)
        ins = {x: calls.case.input(v, buffer="one", near=0) for x, v in (("a", a), ("b", b))}
        calls.calls.append((ins, calls.case.output((n, m), "int32", buffer="one", near=0)))
    calls.check()


@pytest.mark.crowd
@gpu
def test_a_folded_grid(dev: pk.Device) -> None:
    calls = Int8Calls(dev)
    calls.add((40, 16), (33, 16))
    with caps(dev, max_groups=2):
        calls.check()


# -- errors ---------------------------------------------------------------------------------------


@gpu
def test_mul_mat_i8_rejects(dev: pk.Device) -> None:
    a, b = dev.ones((2, 3, 4), I8), dev.ones((2, 5, 4), I8)
    dst, real = dev.zeros((2, 5, 3), "int32"), dev.zeros((2, 5, 3))

    def refused(error: type[Exception], text: str, *tensors: pk.Tensor, **options: Any) -> None:
        with pytest.raises(error, match=r"\[mul_mat_i8\] " + text):
            mul_mat_i8(*tensors, **options)

    refused(pk.ShapeError, "a and b must agree in their last axis, k", a, dev.ones((2, 5, 3), I8),
            dst)  # fmt: skip
    refused(pk.ShapeError, r"dst must have shape \(2, 5, 3\) but", a, b, dev.zeros((3, 5), "int32"))
    refused(pk.ShapeError, "the batch axes of a must divide", dev.ones((3, 3, 4), I8), b, dst)
    refused(pk.ShapeError, "b must have two or more axes", a, dev.ones((4,), I8), dst)
    refused(pk.ShapeError, r"a_scale must broadcast to \(2, 3\) but has shape \(5,\)", a, b, real,
            a_scale=dev.ones(5))  # fmt: skip
    refused(pk.ShapeError, r"b_scale must broadcast to \(2, 5\) but has shape \(3,\)", a, b, real,
            b_scale=dev.ones(3))  # fmt: skip
    refused(pk.ShapeError, "bias must broadcast to", a, b, real, bias=dev.ones(5))
    for name in ("a_scale", "b_scale", "bias"):
        refused(pk.DTypeError, f"{name} needs a dst of float32 or float16 but dst is int32", a, b,
                dst, **{name: dev.ones(1)})  # fmt: skip
    refused(pk.DTypeError, "b must have the dtype of a", a, dev.ones((2, 5, 4), U8), dst)
    refused(pk.DTypeError, "a must be int8 or uint8 but is int32", dev.ones((2, 3, 4), "int32"), b,
            dst)  # fmt: skip
    refused(pk.DTypeError, "a_scale must be float32", a, b, real, a_scale=dev.ones(3, "float16"))
    assert not dst.numpy().any()
    assert not real.numpy().any()


# -- choices, without a GPU -----------------------------------------------------------------------

LARGE = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535, named("nvidia-h200"))
SMALL = Caps(False, False, 256, 256, 16384, 1 << 27, 65535, named("generic-small"))


def test_choices() -> None:
    bodies = [choose(LARGE, GemmShape(1, n, n, n)) for n in (4096, 1024, 100, 8)]
    assert [c.body for c in bodies] == ["mul_mat_i8/64"] * 2 + ["mul_mat_i8/32", "gemv_i8"]
    assert bodies[0].splits == 1
    assert choose(LARGE, GemmShape(1, 64, 64, 1 << 16)).splits > 16
    # A decode step is one dispatch where k runs along the weights, as in torch's.
    assert choose(LARGE, GemmShape(1, 1, 4096, 4096)) == Int8Choice("gemv_i8", 1)
    assert choose(LARGE, GemmShape(1, 1, 4096, 4096, along_k=False)).splits > 1
    for n in (9, 100, 4096):
        assert choose(SMALL, GemmShape(1, n, n, n)).body == "mul_mat_i8/32"


def view(shape: tuple[int, ...], strides: tuple[int, ...] = (), offset: int = 0) -> View:
    return View(0, DTYPES[I8], shape, strides or contiguous_strides(shape, 1), offset)


def test_loads_by_cost() -> None:
    """Words of k as they are; rows that run along memory where a copy costs more; bytes only in
    small products."""
    t, square = LARGE.tuning, (4096, 4096)
    large, little = GemmShape(1, 4096, 4096, 4096), GemmShape(1, 40, 40, 64)
    narrow = GemmShape(1, 64, 4096, 4096)

    def load(s: GemmShape, body: str, v: View) -> int:
        return tile_load(t, s, f"mul_mat_i8/{body}", v)

    assert load(large, "64", view(square)) == WORDS
    assert load(large, "64", view(square, offset=4)) == WORDS
    assert load(large, "64", view(square, offset=2)) == PACKED
    assert load(large, "64", view((4095, 4095))) == PACKED
    assert load(large, "64", view((4095, 4095), (4096, 1))) == WORDS
    assert load(large, "64", view(square, (1, 4096))) == PACKED
    assert load(narrow, "64", view(square, (1, 4096))) == ROWS_RUN
    assert load(little, "32", view((40, 61))) == BYTES
    assert load(little, "32", view((40, 64))) == WORDS
    assert load(GemmShape(1, 40, 40, 1 << 24), "32", view((40, 61))) == PACKED


def test_plans() -> None:
    def steps(a: View, b: View, dst: tuple[int, ...]) -> list[tuple[str, int]]:
        out = View(1, DTYPES["int32"], dst, contiguous_strides(dst, 4), 0)
        found = plans.plan(LARGE, Scratch(), a, b, None, None, None, out)
        return [(s.body.name, s.groups) for s in found]

    square = view((4096, 4096))
    assert steps(square, square, (4096, 4096)) == [("mul_mat_i8", 64 * 64)]
    assert steps(square, view((1, 4096)), (1, 4096)) == [("gemv_i8", 512)]
    assert steps(square, view((8, 4, 4096)), (8, 4, 4096))[-1][0] == "splitk_reduce_i8"  # one of 32
    assert len(steps(square, view((4096, 4095)).with_layout((4096, 4096), (4095, 1)),
                     (4096, 4096))) == 2  # a copy  # fmt: skip
