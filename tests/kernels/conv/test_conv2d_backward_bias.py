"""conv2d_backward_bias: sums over images and pixels."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import conv2d_backward_bias
from pykernels.reference.conv import conv2d_backward_bias as reference
from tests.harness import Array, Case, Form, assert_close, assert_same_bits

pytestmark = pytest.mark.gpu

LAST = (0, 2, 3, 1)
# N, O, OH, OW
SHAPES = (
    (2, 3, 5, 8), (1, 1, 1, 1), (3, 70, 7, 7), (2, 33, 1, 9), (40, 5, 1, 1), (1, 2, 130, 130),
    (5, 31, 6, 4),
)  # fmt: skip


def axes(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    return shape if layout == "NCHW" else tuple(shape[a] for a in LAST)


def check(
    dev: pk.Device, cases: list[tuple[Array, str, str, Form, Form]], real: bool = False
) -> None:
    """(dy, layout, dtype of dst, forms) each; all run at once."""
    case = Case(dev)
    given = [
        (case.input(dy, f, buffer="dy"), case.output((channels(dy, y),), d, g, buffer="dst"), y)
        for dy, y, d, f, g in cases
    ]
    case.build()
    want = [(reference(a.array, layout=y), reference(abs(a.array), layout=y)) for a, _, y in given]
    results = case.run(
        lambda: [conv2d_backward_bias(a.tensor, d.tensor, layout=y) for a, d, y in given]  # type: ignore[arg-type]
    )
    outputs = [o for o in case.operands if o.output]
    for (a, d, _), (sums, sizes) in zip(given, want, strict=True):
        got = results[outputs.index(d)]
        count = a.array.size / max(len(sums), 1)
        if real:
            assert_close(got, sums, 2.0**-23 * (np.sqrt(count) + 4) * sizes, f"{a.shape}")
        else:
            assert_same_bits(got + 0, sums.astype(got.dtype) + 0, f"{a.shape} {a.strides}")


def channels(dy: Array, layout: str) -> int:
    return dy.shape[1] if layout == "NCHW" else dy.shape[3]


def integers(shape: tuple[int, ...], layout: str, dtype: str = "f4") -> Array:
    return np.random.default_rng(0).integers(-9, 10, axes(shape, layout)).astype(dtype)


@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_bias_of_any_layout(dev: pk.Device, layout: str) -> None:
    forms = (
        Form(), Form(phase=1), Form(gap=4, phase=4), Form(gap=1), Form(order=LAST),
        Form(steps=(-1, -1, -1, -1)), Form(steps=(0, 1, 1, 1)), Form(steps=(1, 1, 2, 1)),
        Form(order=(3, 1, 0, 2), phase=2),
    )  # fmt: skip
    check(dev, [
        (integers(shape, layout), layout, "float32", f, (Form(), Form(steps=(-2,), phase=1))[i % 2])
        for shape in SHAPES for i, f in enumerate(forms)
    ])  # fmt: skip


@pytest.mark.parametrize("dst", ("float32", "float16"))
def test_bias_of_halves(dev: pk.Device, dst: str) -> None:
    check(dev, [
        (integers(shape, layout, dtype), layout, dst, Form(phase=phase), Form(phase=1))
        for shape in SHAPES for layout in ("NCHW", "NHWC") for dtype in ("f2", "f4")
        for phase in (0, 1) if not (dtype == "f4" and dst == "float16" and phase)
    ])  # fmt: skip


def test_bias_within_the_budget(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    cases = []
    for shape in ((4, 3, 201, 200), (2, 40, 60, 61)):
        for layout in ("NCHW", "NHWC"):
            dy = (rng.standard_normal(axes(shape, layout)) + 3).astype("f4")
            cases.append((dy, layout, "float32", Form(), Form()))
    check(dev, cases, real=True)


def test_bias_of_nothing_and_scaled(dev: pk.Device) -> None:
    dst = dev.full(3, 7)
    conv2d_backward_bias(dev.zeros((0, 3, 4, 4)), dst)
    assert (dst.numpy() == 0).all()
    conv2d_backward_bias(dev.zeros((2, 0, 4, 4)), dev.zeros(0))
    for side in (3, 90):
        conv2d_backward_bias(dev.ones((2, 3, side, side)), dst, scale=0.25)
        assert (dst.numpy() == side * side / 2).all()


def test_bias_rejects(dev: pk.Device) -> None:
    dy, dst = dev.zeros((2, 3, 4, 5)), dev.zeros(3)
    for error, match, args in (
        (pk.ShapeError, r"dst must have shape \(3,\) but has shape \(4,\)", (dy, dev.zeros(4))),
        (pk.ShapeError, r"dy must have four axes", (dy[0], dst)),
        (pk.DTypeError, r"dy must be float32, float16 or bfloat16 but is int32",
         (dev.zeros((1, 3, 1, 1), "int32"), dst)),
    ):  # fmt: skip
        with pytest.raises(error, match=rf"\[conv2d_backward_bias\] .*{match}"):
            conv2d_backward_bias(*args)
    with pytest.raises(pk.ArgumentError, match=r"layout must be"):
        conv2d_backward_bias(dy, dst, layout="CNHW")  # type: ignore[arg-type]
