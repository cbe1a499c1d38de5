"""Gradients of layer_norm, rms_norm and l2_norm: rows of all lengths, many rows, any layout."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.forcing import choice, force
from pykernels.reference import norm as reference
from tests.harness import Form, caps, forms
from tests.kernels.norm.norm_calls import DTYPES, NormCalls, rows

pytestmark = pytest.mark.gpu

COLS = (1, 3, 4, 16, 17, 64, 65, 256, 260, 1024, 1028, 4096, 4100, 5003, 16384, 16388)


def add_all(
    calls: NormCalls, shape: tuple[int, ...], dtype: str, form: Form | None = None,
    out: Form | None = None, in_place: str = "",
) -> None:  # fmt: skip
    """One call of each gradient, with all that it takes or little of it."""
    rng = calls.rng
    x, cols = rows(rng, shape, dtype), shape[-1:]
    dy, ds = (rng.normal(0, 1, shape).astype(dtype) for _ in range(2))
    w = rng.normal(1, 0.5, cols).astype("float32")
    spread = {"x": form, "dy": form, "ds": form, "dst": out}
    given = {n: f for n, f in spread.items() if f is not None}
    both, sums = {"dy": dy, "x": x}, {"dweight": cols, "dbias": cols, "dst": shape}
    kept = {"dweight": "float32", "dbias": dtype}
    calls.add(
        "layer_norm_backward", {**both, "weight": w, "ds": ds}, sums, forms=given, dtypes=kept,
        in_place=in_place,
    )  # fmt: skip
    some = {"dweight": cols, "dst": shape}
    calls.add("rms_norm_backward", {**both, "weight": w}, some, forms=given, in_place=in_place)
    calls.add("rms_norm_backward", {**both, "ds": ds}, {"dst": shape}, forms=given)
    calls.add("l2_norm_backward", both, {"dst": shape}, forms=given, in_place=in_place)


@pytest.mark.sample
@pytest.mark.parametrize("cols", COLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm_backward_matches_reference(dev: pk.Device, dtype: str, cols: int) -> None:
    calls = NormCalls(dev, cols)
    add_all(calls, (301 if cols < 100 else 19 if cols < 2000 else 3, cols), dtype)
    add_all(calls, (2, cols), dtype, Form(phase=1), Form(phase=1))
    calls.check()


@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_layer_norm_backward_in_any_layout(dev: pk.Device, form: str) -> None:
    calls = NormCalls(dev)
    layout = forms(3, repeats=True)[form]
    for dtype in DTYPES:
        for shape in ((4, 5, 6), (2, 3, 100), (1, 2, 1100), (0, 2, 3), (2, 3, 0)):
            add_all(calls, shape, dtype, layout, None if "repeat" in form else layout)
    calls.check()


@pytest.mark.parametrize("groups", (1, 2))
def test_layer_norm_backward_shares_many_rows(dev: pk.Device, groups: int) -> None:
    """More rows than workgroups: each takes several, and adds up what they give."""
    with force(dev, choice("layer_norm_backward", groups=groups)), force(dev, tuning="software"):
        calls = NormCalls(dev)
        add_all(calls, (1700, 20), "float32")
        add_all(calls, (301, 1024), "float32")
        calls.check()


@pytest.mark.parametrize("cols", (8, 300, 5001, 17000))
def test_layer_norm_backward_in_place_and_without_native_halves(dev: pk.Device, cols: int) -> None:
    for f16 in {dev._context.caps.f16, False}:
        with caps(dev, f16=f16):
            calls = NormCalls(dev)
            for dtype in DTYPES:
                add_all(calls, (5, cols), dtype, in_place="dy")
            calls.check()


def test_layer_norm_backward_in_parts(dev: pk.Device) -> None:
    """Tensors larger than one binding."""
    with caps(dev, max_binding=dev._context.caps.alignment + 8192):
        calls = NormCalls(dev)
        for shape in ((70, 36), (2, 3, 20, 33)):
            far = Form(order=tuple(range(len(shape)))[::-1], phase=1)
            for form in (Form(), Form(phase=1, gap=3), far):
                add_all(calls, shape, "float32", form, form)
        calls.check()


def test_l2_norm_backward_of_short_rows(dev: pk.Device) -> None:
    """Rows that are shorter than eps are divided by eps, and so is what comes back."""
    x = np.array([[0.0, 0.0, 0.0], [0.1, 0.2, 0.1], [3.0, 4.0, 0.0]], "f4")
    dy = np.arange(9, dtype="f4").reshape(3, 3)
    got = pk.l2_norm_backward(dev.tensor(dy), dev.tensor(x), eps=0.5).numpy()
    np.testing.assert_allclose(got, reference.l2_norm_backward(dy, x, eps=0.5), 1e-5)
    assert (got[0] == dy[0] * 2).all()


def test_l2_norm_backward_of_a_row_as_long_as_eps(dev: pk.Device) -> None:
    """Its derivative is that of longer rows: eps bounds only what is shorter."""
    dy, x = np.array([[1, 2]], "f4"), np.array([[3, 4]], "f4")
    want = [[-0.064, 0.048]]  # n is x / 5, and n * dy sums to 2.2
    np.testing.assert_allclose(reference.l2_norm_backward(dy, x, eps=5.0), want, 1e-12)
    got = pk.l2_norm_backward(dev.tensor(dy), dev.tensor(x), eps=5.0).numpy()
    np.testing.assert_allclose(got, want, 1e-5)
    long = np.zeros((1, 20000), "f4")  # not in registers
    long[0, [0, 19999]] = 3, 4
    got = pk.l2_norm_backward(dev.tensor(long), dev.tensor(long), eps=5.0).numpy()
    assert np.abs(got).max() < 1e-6  # the gradient has no part along x


def test_l2_norm_backward_without_axes(dev: pk.Device) -> None:
    """One number is a row of one, whose norm does not change its sign: the gradient is zero."""
    dst = dev.ones(())
    kernels.l2_norm_backward(dev.tensor(np.float32(2.0)), dev.tensor(np.float32(3.0)), dst)
    assert dst.shape == () and dst.item() == 0.0


def test_layer_norm_backward_gives_the_same_bits_again(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    for shape in ((2000, 48), (40, 16384)):
        dy, x = (dev.tensor(rng.normal(0, 1, shape).astype("f4")) for _ in range(2))
        w = dev.ones(shape[-1:])
        found = [pk.layer_norm_backward(dy, x, shape[-1], w) for _ in range(2)]
        for first, second in zip(*found, strict=True):
            assert (first.numpy() == second.numpy()).all()


def test_layer_norm_backward_rejects(dev: pk.Device) -> None:
    x, dst = dev.ones((3, 4)), dev.zeros((3, 4))
    with pytest.raises(pk.ShapeError, match=r"\[layer_norm_backward\] dbias must have shape \(4,"):
        kernels.layer_norm_backward(x, x, dst, dbias=dev.zeros(3))
    with pytest.raises(pk.DTypeError, match=r"\[rms_norm_backward\] x must have the dtype of dy"):
        kernels.rms_norm_backward(x, dev.ones((3, 4), "float16"), dst)
    with pytest.raises(pk.ShapeError, match=r"\[l2_norm_backward\] x .* shape of dy"):
        kernels.l2_norm_backward(x, dev.ones((4, 3)), dst)
    assert not dst.numpy().any()
