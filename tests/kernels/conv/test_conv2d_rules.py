"""conv2d and conv_transpose2d: epilogues, what is refused, torch's rules, choices of the plans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated.ops import ACTIVATIONS
from pykernels.dtypes import DTYPES
from pykernels.forcing import force
from pykernels.kernels import conv2d, conv2d_backward_input, conv_transpose2d
from pykernels.plans.conv import conv2d as conv2d_plans
from pykernels.plans.conv import conv2d_backward_input as back_plans
from pykernels.plans.conv import select
from pykernels.plans.conv.geometry import geometry
from pykernels.plans.conv.select import SMALLEST, TILES_3X3, ConvChoice, ConvShape, choose
from pykernels.reference.conv import conv2d as reference
from pykernels.reference.conv import conv2d_backward_input as gradient
from pykernels.reference.conv import conv_transpose2d as transposed
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named
from tests.harness import Form, assert_same_bits
from tests.kernels.conv.conv_calls import F16, F32, ConvCalls, Sizes

gpu = pytest.mark.gpu

# -- epilogue, special values ---------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogue(dev: pk.Device, activation: str | None) -> None:
    for body, splits in ((SMALLEST, 1), (SMALLEST, 3), ("conv_direct", 1)):
        calls = ConvCalls(dev)
        for bias, form in ((F32, None), (F16, Form(phase=1)), (F32, Form(steps=(-2,)))):
            s = Sizes((6, 5), c=20, o=9, groups=2)
            calls.add(s, bias=bias, bias_form=form, scale=-0.25, activation=activation)
        with force(dev, ConvChoice(body, splits)):
            calls.check(body)


@gpu
def test_a_large_value_stays_in_its_windows(dev: pk.Device) -> None:
    """What lies outside the image is not multiplied, not even by zero."""
    x = np.ones((2, 16, 5, 5), np.float32)
    x[:, :, 0, 0] = np.nan
    x[1, :, 4, 4] = np.inf
    w = np.ones((9, 16, 3, 3), np.float32)
    want = reference(x, w, padding=2)
    assert np.isfinite(want).sum() > 500
    for body, pack, last in ((SMALLEST, False, False), (SMALLEST, True, False),
                             (SMALLEST, True, True), ("conv_direct", False, False)):  # fmt: skip
        given = dev.tensor(x)
        if last:
            given = given.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)
        dst = dev.empty(want.shape)
        with force(dev, ConvChoice(body, pack=pack)):
            conv2d(given, dev.tensor(w), dst, padding=2)
        np.testing.assert_array_equal(dst.numpy(), want.astype(np.float32))


@gpu
def test_a_large_value_in_a_first_layer(dev: pk.Device) -> None:
    """The same by the bodies for few channels, whose last stage is not full."""
    x = np.ones((2, 3, 9, 21), np.float32)
    x[:, :, 0, 0] = np.nan
    x[1, 2, 8, 20] = np.inf
    w = np.ones((5, 3, 3, 3), np.float32)
    want = reference(x, w, stride=2, padding=(1, 2, 3, 2))
    made = dev.empty(want.shape)
    with force(dev, ConvChoice("conv_stem/16x128")):
        conv2d(dev.tensor(x), dev.tensor(w), made, stride=2, padding=(1, 2, 3, 2))
    np.testing.assert_array_equal(made.numpy(), want.astype(np.float32))
    y = np.ones((2, 5, 5, 11), np.float32)
    y[0, 0, 0, 0] = np.nan
    y[1, 4, 4, 10] = np.inf
    want = gradient(y, w, x.shape, stride=2, padding=1)
    made = dev.empty(want.shape)
    with force(dev, ConvChoice("conv_few_outputs")):
        conv2d_backward_input(dev.tensor(y), dev.tensor(w), made, stride=2, padding=1)
    np.testing.assert_array_equal(made.numpy(), want.astype(np.float32))


@gpu
def test_the_same_bits_again(dev: pk.Device) -> None:
    x, w = dev.rand((2, 40, 9, 9), seed=1), dev.rand((40, 40, 3, 3), seed=2)
    results = []
    for _ in range(3):
        dst = dev.empty((2, 40, 9, 9))
        with force(dev, ConvChoice(SMALLEST, 4)):
            conv2d(x, w, dst, padding=1)
        results.append(dst.numpy())
    assert_same_bits(results[1], results[0])
    assert_same_bits(results[2], results[0])


# -- what is refused ------------------------------------------------------------------------------


@gpu
def test_conv2d_rejects(dev: pk.Device) -> None:
    x, w, dst = dev.ones((2, 6, 5, 7)), dev.ones((4, 3, 3, 3)), dev.zeros((2, 4, 3, 5))

    def refused(error: type[Exception], text: str, *tensors: pk.Tensor, **options: Any) -> None:
        with pytest.raises(error, match=r"\[conv2d\] " + text):
            conv2d(*(tensors or (x, w, dst)), **{"groups": 2, **options})

    refused(pk.ShapeError, r"groups must divide the channels of x, 6, but is 4", groups=4)
    refused(pk.ShapeError, r"w must have 6 / 1 channels of x .* shape \(4, 3, 3, 3\)", groups=1)
    refused(pk.ArgumentError, "groups must be a positive integer but is 0", groups=0)
    refused(pk.ArgumentError, r"stride must be .* but is \(1, 0\)", stride=(1, 0))
    refused(pk.ArgumentError, "dilation must hold integers but is 1.5", dilation=1.5)
    refused(pk.ArgumentError, r"padding must be .* but is \(1, 2, 3\)", padding=(1, 2, 3))
    refused(pk.ArgumentError, r"padding must be .* but is -1", padding=-1)
    refused(pk.ArgumentError, r"padding must be .* but is 'full'", padding="full")
    refused(pk.ArgumentError, r"padding 'same' needs stride 1", padding="same", stride=2)
    refused(pk.ArgumentError, "activation must be one of .* 'tanh'", activation="tanh")
    refused(pk.ArgumentError, "precision must be None, 'fast' or 'high' but", precision="split")
    refused(pk.ArgumentError, "layout must be .* but is 'CHWN'", layout="CHWN")
    refused(pk.ShapeError, r"the padded image .* \(9, 9\), but is \(5, 7\)", dilation=4)
    refused(pk.ShapeError, r"dst must have shape \(2, 4, 5, 7\) but", padding=1)
    refused(pk.ShapeError, r"x must have four axes \(N, C, H, W\)", dev.ones((6, 5, 7)), w, dst)
    refused(pk.ShapeError, r"w must have four axes", x, dev.ones((4, 3, 3)), dst)
    refused(pk.ShapeError, r"bias must have shape \(4,\) but", bias=dev.ones((2,)))
    refused(
        pk.DTypeError,
        "x must be float32, float16 or bfloat16",
        dev.ones((2, 6, 5, 7), "int32"),
        w,
        dst,
    )
    refused(pk.AliasError, "dst is broadcast", x, w, dev.ones((2, 4, 1, 5)).broadcast_to(dst.shape))
    with pytest.raises(pk.ShapeError, match=r"\[conv2d\] dst must have shape \(2, 3, 5, 4\) but"):
        conv2d(x.transpose(0, 2, 3, 1), w, dst, groups=2, layout="NHWC")
    assert not dst.numpy().any()


@gpu
def test_gradient_and_transpose_reject(dev: pk.Device) -> None:
    y, w, x = dev.ones((2, 4, 3, 5)), dev.ones((4, 6, 3, 3)), dev.zeros((2, 6, 5, 7))
    with pytest.raises(pk.ShapeError, match=r"\[conv2d_backward_input\] dy must have shape"):
        conv2d_backward_input(y, w, x, padding=1)
    with pytest.raises(pk.ShapeError, match=r"\[conv2d_backward_input\] w must have 6 / 1"):
        conv2d_backward_input(y, dev.ones((4, 3, 3, 3)), x)
    with pytest.raises(
        pk.ShapeError, match=r"\[conv_transpose2d\] dst must have .* \(2, 6, 3, 5\)"
    ):
        conv_transpose2d(y, w, x, padding=1)
    with pytest.raises(pk.ArgumentError, match="output_padding must be less than stride"):
        conv_transpose2d(y, w, x, output_padding=1)
    with pytest.raises(pk.ArgumentError, match="padding must be integers but is 'same'"):
        conv_transpose2d(y, w, x, padding="same")  # type: ignore[arg-type]
    with pytest.raises(pk.ShapeError, match=r"the output must have one row and column or more"):
        conv_transpose2d(y, w, x, padding=4)
    with pytest.raises(pk.ShapeError, match="w must have a row for each channel of x, 4"):
        conv_transpose2d(y, dev.ones((5, 6, 3, 3)), x)
    assert not x.numpy().any()


# -- torch's rules --------------------------------------------------------------------------------


@gpu
def test_functional_arguments(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 6, 7, 8)).astype(np.float32)
    w = rng.integers(-3, 4, (4, 3, 3, 2)).astype(np.float32)
    b = rng.integers(-3, 4, 4).astype(np.float32)
    want = reference(x, w, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
    tensors = dev.tensor(x), dev.tensor(w), dev.tensor(b)
    with force(dev, ConvChoice(SMALLEST)):
        got = pk.conv2d(*tensors, [2, 1], (1, 0), [1, 2], 2)
        assert isinstance(got, pk.Tensor)
        assert_same_bits(got.numpy(), want.astype(np.float32))
        one = pk.conv2d(tensors[0][1], w, b, (2, 1), (1, 0), (1, 2), 2)
        assert_same_bits(one.numpy(), want[1].astype(np.float32))
        last = pk.conv2d(tensors[0].transpose(0, 2, 3, 1), w, padding=[1], groups=2, layout="NHWC")
        plain = reference(x, w, padding=1, groups=2).astype(np.float32)
        assert_same_bits(last.numpy(), np.ascontiguousarray(plain.transpose(0, 2, 3, 1)))
        same = pk.conv2d(tensors[0], w, padding="same", groups=2, activation="relu")
        assert_same_bits(
            same.numpy(),
            reference(x, w, padding="same", groups=2, activation="relu").astype(np.float32),
        )
        out = dev.empty(plain.shape, F16)
        assert pk.conv2d(tensors[0], w, padding=1, groups=2, out=out) is out
        assert_same_bits(out.numpy(), plain.astype(np.float16))
    assert isinstance(pk.conv2d(x, w, groups=2), np.ndarray)
    assert pk.conv2d(tensors[0].astype(F16), tensors[1].astype(F16), groups=2).dtype == F16


@gpu
def test_functional_transpose(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 4, 5, 6)).astype(np.float32)
    w = rng.integers(-3, 4, (4, 3, 3, 2)).astype(np.float32)
    b = rng.integers(-3, 4, 6).astype(np.float32)
    # torch's order: output_padding, groups, dilation.
    args: Any = (2, (1, 0), (1, 0), 2, 1)
    want = transposed(x, w, b, stride=2, padding=(1, 0), output_padding=(1, 0), groups=2)
    with force(dev, ConvChoice(SMALLEST)):
        got = pk.conv_transpose2d(dev.tensor(x), w, b, *args)
        assert_same_bits(got.numpy(), want.astype(np.float32))
        one = pk.conv_transpose2d(dev.tensor(x)[0], w, b, *args)
        assert_same_bits(one.numpy(), want[0].astype(np.float32))


@gpu
def test_functional_rejects(dev: pk.Device) -> None:
    x, w = dev.ones((2, 6, 5, 7)), dev.ones((4, 3, 3, 3))
    with pytest.raises(pk.ShapeError, match=r"\[conv2d\] x must have the axes .*shape \(5, 7\)"):
        pk.conv2d(dev.ones((5, 7)), w)
    with pytest.raises(pk.DTypeError, match=r"\[conv2d\] out must be .* but is int32"):
        pk.conv2d(x, w, groups=2, out=dev.zeros((2, 4, 3, 5), "int32"))
    with pytest.raises(pk.ShapeError, match=r"\[conv2d\] out must have shape \(2, 4, 3, 5\)"):
        pk.conv2d(x, w, groups=2, out=dev.zeros((2, 4, 3, 3)))
    with pytest.raises(pk.DTypeError, match=r"\[conv2d\] w must be .* but is int32"):
        pk.conv2d(x, np.ones((4, 3, 3, 3), "i4"), groups=2)
    with pytest.raises(pk.ArgumentError, match=r"\[conv2d\] stride must be .* \(1, 2, 3\)"):
        pk.conv2d(x, w, stride=[1, 2, 3], groups=2)
    with pytest.raises(pk.ArgumentError, match=r"\[conv_transpose2d\] layout must be"):
        pk.conv_transpose2d(x, w, layout="HWC")  # type: ignore[call-overload]
    with pytest.raises(pk.ArgumentError, match=r"\[conv_transpose2d\] groups must be a positive"):
        pk.conv_transpose2d(x, dev.ones((6, 3, 3, 3)), groups=0)


# -- choices, without a GPU -----------------------------------------------------------------------

LARGE = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535, named("nvidia-h200"))
SMALL = Caps(False, False, 256, 256, 16384, 1 << 27, 65535, named("generic-small"))


def test_choices() -> None:
    assert choose(LARGE, ConvShape(1, 512, 4096 * 16, 4608)).body == "implicit_gemm/128x128"
    assert choose(LARGE, ConvShape(1, 64, 16 * 56 * 56, 576)).body == "implicit_gemm/64x128"
    assert choose(LARGE, ConvShape(1, 256, 16 * 14 * 14, 2304)).splits > 1
    assert choose(LARGE, ConvShape(128, 1, 16 * 56 * 56, 9)).body == "conv_direct"
    for rows in (9, 64, 512):
        assert choose(SMALL, ConvShape(1, rows, 1000, 576)).body == SMALLEST


def view(shape: tuple[int, ...], last: bool = False) -> View:
    """Images or weights; with channels last in memory if asked."""
    strides = contiguous_strides(shape, 4)
    if last:
        _, c, h, w = shape
        strides = (h * w * c * 4, 4, w * c * 4, c * 4)
    return View(0, DTYPES[F32], shape, strides, 0)


def forms_of(
    x: View, w: View, dst: View, caps: Caps = LARGE, **options: Any
) -> list[tuple[str, ...]]:
    """Body of each step, and the form of a tile (of the direct body: is it the 3 x 3 one)."""
    found = conv2d_plans.plan(caps, Scratch(), x, w, None, None, dst, **options)
    return [(s.body.name, *(str(a) for a in s.axes[4:5])) for s in found]


def names_of(*args: Any, **options: Any) -> list[str]:
    return [name for name, *_ in forms_of(*args, **options)]


def test_plans() -> None:
    x, w = view((16, 64, 56, 56)), view((64, 64, 3, 3))
    names = names_of(x, w, x, padding=1)
    assert names == ["conv_pack", "implicit_gemm_3x3"]
    large = view((64, 64, 56, 56)), w, view((64, 64, 28, 28))
    assert ("implicit_gemm", "taps") in forms_of(*large, padding=1, stride=2)
    last = view((16, 64, 56, 56), last=True)
    assert ("implicit_gemm", "vec") in forms_of(last, w, x, padding=1)
    # Few operations: the weights stay where they are.
    image, kernel, out = view((1, 13, 56, 56)), view((64, 13, 5, 5)), view((1, 64, 28, 28))
    assert forms_of(image, kernel, out, padding=2, stride=2) == [("implicit_gemm", "any")]
    one = view((128, 64, 1, 1))
    assert forms_of(x, one, view((16, 128, 56, 56)))[0][0] == "gemm_tile"
    deep = view((16, 128, 56, 56))
    each = view((128, 1, 3, 3))
    assert names_of(deep, each, deep, padding=1, groups=128) == ["conv_depthwise"]
    turned = view((16, 128, 56, 56), last=True)
    assert names_of(turned, each, turned, padding=1, groups=128) == [
        "conv_pack", "conv_depthwise",
    ]  # fmt: skip
    odd, even = view((16, 128, 57, 57)), view((16, 128, 29, 29))
    assert forms_of(odd, each, odd, padding=1, groups=128) == [("conv_direct", "True")]
    assert names_of(odd, each, even, padding=1, groups=128, stride=2) == ["conv_direct"]


@pytest.mark.parametrize("caps", (LARGE, SMALL))
def test_plans_of_first_layers(caps: Caps) -> None:
    """Few input channels and a known window; the gradient of three channels with step 2."""
    for n in (1, 16):
        tile = "16x128" if n == 1 and caps is LARGE else "32x128"  # too few of those for 132 units
        image, w, out = view((n, 3, 224, 224)), view((64, 3, 7, 7)), view((n, 64, 112, 112))
        found = conv2d_plans.plan(caps, Scratch(), image, w, None, None, out, padding=3, stride=2)
        assert [(s.body.name, s.axes[2]) for s in found] == [("conv_stem", f"{tile}_k7s2")]
        back = back_plans.plan(caps, Scratch(), out, w, image, padding=3, stride=2)
        assert [s.body.name for s in back] == ["conv_few_outputs"]
        # Not with these: other dtypes of the weights, windows, steps, residues.
        half = replace(w, dtype=DTYPES[F16], strides=contiguous_strides(w.shape, 2))
        cases: list[tuple[View, dict[str, Any]]] = [
            (half, {"padding": 3, "stride": 2}), (view((64, 3, 6, 6)), {"padding": 3, "stride": 2}),
            (w, {"padding": 3, "stride": (2, 3)}), (w, {"padding": 6, "stride": 2, "dilation": 2}),
        ]  # fmt: skip
        for other, options in cases:
            more = options.get("dilation", 1)
            kernel = other.shape[2], other.shape[3]
            g = geometry("conv2d", kernel, options["stride"], options["padding"], more)
            y = view((n, 64, *g.output("conv2d", (224, 224))))
            there = conv2d_plans.plan(caps, Scratch(), image, other, None, None, y, **options)
            again = back_plans.plan(caps, Scratch(), y, other, image, **options)
            assert not {s.body.name for s in (*there, *again)} & {"conv_stem", "conv_few_outputs"}
    small = view((1, 3, 33, 33)), view((64, 3, 7, 7)), None, None, view((1, 64, 17, 17))
    found = conv2d_plans.plan(caps, Scratch(), *small, padding=3, stride=2)
    assert [s.body.name for s in found] == ["implicit_gemm"]  # blocks would be mostly empty
    even = view((1, 64, 113, 113))
    found = back_plans.plan(caps, Scratch(), even, view((64, 3, 4, 4)), view((1, 3, 224, 224)),
                            padding=2, stride=2)  # fmt: skip
    assert len(found) >= 4


def test_splits_fit_one_binding() -> None:
    x, w = view((16, 256, 14, 14)), view((256, 256, 3, 3))
    assert ("splitk_reduce",) in [f[:1] for f in forms_of(x, w, x, padding=1)]
    narrow = replace(LARGE, max_binding=2 * x.nbytes - 1)
    assert ("splitk_reduce",) not in [f[:1] for f in forms_of(x, w, x, narrow, padding=1)]


def test_cost_of_a_choice_grows_with_the_work() -> None:
    t = named("nvidia-h200")
    for body in ("implicit_gemm/64x128", "implicit_gemm/128x128", SMALLEST, *TILES_3X3):
        few, many = (
            select._seconds(t, ConvShape(1, 256, n, 2304), body, 1) for n in (1 << 14, 1 << 18)
        )
        assert 8 * few < many < 32 * few
