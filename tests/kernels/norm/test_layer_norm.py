"""layer_norm, rms_norm and l2_norm: rows of all lengths, far from 0, in any layout and in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from tests.harness import Form, assert_close, caps, forms, random_form
from tests.kernels.norm.norm_calls import DTYPES, NormCalls, rows

pytestmark = pytest.mark.gpu

COLS = (1, 3, 4, 16, 17, 64, 65, 256, 260, 1024, 1025, 4096, 4100, 5003, 16384, 16388)


def add_all(
    calls: NormCalls, shape: tuple[int, ...], dtype: str, form: Form | None = None,
    out: Form | None = None, **options: Any,
) -> None:  # fmt: skip
    """One call of each norm, with all that it takes."""
    rng = calls.rng
    x, cols = rows(rng, shape, dtype), shape[-1:]
    w = rng.normal(1, 0.5, cols).astype("float32")
    b = rng.normal(0, 1, cols).astype("float32")
    spread = {"x": form, "residual": form, "summed": out, "dst": out}
    given = {n: f for n, f in spread.items() if f is not None}
    calls.add("layer_norm", {"x": x, "weight": w, "bias": b}, {"dst": shape}, forms=given)
    both = {"x": x, "residual": rows(rng, shape, dtype)}
    calls.add("add_rms_norm", {**both, "weight": w}, {"summed": shape, "dst": shape}, forms=given)
    calls.add("add_layer_norm", {**both, "bias": b}, {"summed": shape, "dst": shape}, forms=given)
    calls.add("l2_norm", {"x": x}, {"dst": shape}, forms=given, **options)


@pytest.mark.sample
@pytest.mark.parametrize("cols", COLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm_matches_reference(dev: pk.Device, dtype: str, cols: int) -> None:
    calls = NormCalls(dev, cols)
    add_all(calls, (37 if cols < 1000 else 2, cols), dtype)
    add_all(calls, (1, cols), dtype, Form(phase=1), Form(phase=1))
    calls.check()


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_layer_norm_in_any_layout(dev: pk.Device, form: str, dtype: str) -> None:
    calls = NormCalls(dev)
    layout = forms(3, repeats=True)[form]
    for shape in ((4, 5, 6), (2, 3, 100), (1, 2, 1100), (0, 2, 3), (2, 3, 0)):
        add_all(calls, shape, dtype, layout, None if "repeat" in form else layout)
    calls.check()


def test_layer_norm_random_layouts(dev: pk.Device) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        calls = NormCalls(dev, seed)
        for _ in range(3):
            ndim = int(rng.integers(1, 6))
            shape = (*rng.integers(1, 5, ndim - 1).tolist(), int(rng.choice([4, 37, 260])))
            some = [random_form(rng, ndim, repeats=i == 0) for i in range(2)]
            add_all(calls, shape, str(rng.choice(DTYPES)), *some)
        calls.check()


@pytest.mark.parametrize("cols", (8, 300, 5001))
def test_layer_norm_in_place_and_without_native_halves(dev: pk.Device, cols: int) -> None:
    for f16 in {dev._context.caps.f16, False}:
        with caps(dev, f16=f16):
            calls = NormCalls(dev)
            for dtype in DTYPES:
                x = rows(calls.rng, (5, cols), dtype)
                calls.add("layer_norm", {"x": x}, {"dst": x.shape}, in_place="x")
                calls.add("l2_norm", {"x": x}, {"dst": x.shape}, in_place="x", eps=0.5)
                add_all(calls, (3, cols), dtype, eps=1e-3)
            calls.check()


def test_add_norms_write_the_sum_over_the_residual(dev: pk.Device) -> None:
    for cols in (6, 300, 17000):
        x, r = (np.random.default_rng(i).normal(0, 1, (3, cols)).astype("f4") for i in (0, 1))
        residual, dst = dev.tensor(r), dev.empty(x.shape, "float32")
        kernels.add_rms_norm(dev.tensor(x), residual, residual, dst)
        assert (residual.numpy() == x + r).all()
        s = (x + r).astype(np.float64)
        np.testing.assert_allclose(dst.numpy(), s / np.sqrt((s * s).mean(-1, keepdims=True)), 2e-5)


def test_layer_norm_in_parts(dev: pk.Device) -> None:
    """Tensors larger than one binding, rows and a row."""
    with caps(dev, max_binding=dev._context.caps.alignment + 8192):
        calls = NormCalls(dev)
        for shape in ((70, 36), (2, 3, 20, 33), (2, 2, 2, 2, 2, 2, 5)):
            far = Form(order=tuple(range(len(shape)))[::-1], phase=1)
            for form in (Form(), Form(phase=1, gap=3), far):
                add_all(calls, shape, "float32", form, form)
        calls.check()
        x = rows(np.random.default_rng(0), (2, 5000), "float32")
        calls = NormCalls(dev)
        calls.add("layer_norm", {"x": x}, {"dst": x.shape})
        calls.check()


@pytest.mark.crowd
def test_layer_norm_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=1):
        calls = NormCalls(dev)
        add_all(calls, (41, 20), "float32")
        calls.check()


def test_layer_norm_of_a_row_far_from_0(dev: pk.Device) -> None:
    """As good as its numbers are: 1e4 + normal(0, 1), in registers and in pieces."""
    for cols in (768, 4096, 40000):
        x = (1e4 + np.random.default_rng(0).normal(0, 1, (4, cols))).astype("f4")
        exact = x.astype(np.float64)
        exact = (exact - exact.mean(-1, keepdims=True)) / exact.std(-1, keepdims=True)
        got = pk.layer_norm(dev.tensor(x), cols, eps=0.0).numpy()
        assert_close(got, exact, 8 * 2.0**-24 * (1 + np.abs(exact)), str(cols))
    # A mean whose rounding is as large as the deviation: numbers of 2^23 and 2^23 + 1.
    x = (2.0**23 + np.random.default_rng(0).integers(0, 2, (4, 768))).astype("f4")
    exact = x.astype(np.float64) - x.mean(-1, keepdims=True, dtype=np.float64)
    got = pk.layer_norm(dev.tensor(x), 768, eps=0.0).numpy()
    np.testing.assert_allclose(got, exact / exact.std(-1, keepdims=True), 1e-4)


@pytest.mark.parametrize("bad", (np.nan, np.inf))
def test_layer_norm_of_what_is_not_finite(dev: pk.Device, bad: float) -> None:
    """It spoils its own row, and no other."""
    for cols in (5, 64, 17000):
        x = np.ones((3, cols), "f4") * np.arange(cols, dtype="f4")
        x[1, 2] = bad
        t = dev.tensor(x)
        for got in (pk.layer_norm(t, cols), pk.rms_norm(t, cols), pk.l2_norm(t)):
            finite = np.isfinite(got.numpy()).all(-1)
            assert finite[[0, 2]].all() and not finite[1]


def test_layer_norm_gives_the_same_bits_again(dev: pk.Device) -> None:
    x = dev.tensor(rows(np.random.default_rng(0), (9, 20000), "float32"))
    first, second = (pk.layer_norm(x, 20000).numpy() for _ in range(2))
    assert (first == second).all()


def test_layer_norm_rejects(dev: pk.Device) -> None:
    x, dst = dev.ones((3, 4)), dev.zeros((3, 4))
    w = dev.ones(3)
    with pytest.raises(pk.ShapeError, match=r"\[layer_norm\] weight must have shape \(4,\)"):
        kernels.layer_norm(x, dst, weight=w)
    with pytest.raises(
        pk.DTypeError, match=r"\[layer_norm\] x must be float32, float16 or bfloat16"
    ):
        kernels.layer_norm(dev.zeros((3, 4), "int32"), dst)
    with pytest.raises(pk.DTypeError, match=r"\[rms_norm\] dst must .* dtype"):
        kernels.rms_norm(x, dev.zeros((3, 4), "float16"))
    with pytest.raises(pk.DTypeError, match=r"\[add_rms_norm\] residual must have the dtype of x"):
        kernels.add_rms_norm(x, dev.ones((3, 4), "float16"), dev.zeros((3, 4)), dst)
    with pytest.raises(pk.ArgumentError, match=r"\[l2_norm\] eps must be 0 or more"):
        kernels.l2_norm(x, dst, eps=-1.0)
    assert not dst.numpy().any()
