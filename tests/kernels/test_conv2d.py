"""conv2d: every body and tile on all shapes it may be chosen for, and the rules."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.kernels import conv2d, conv2d_backward_input, conv_transpose2d
from pykernels.layout import View, contiguous_strides
from pykernels.plan import Caps, Scratch
from pykernels.plans import _windows as plans
from pykernels.plans import conv2d as conv2d_plans
from pykernels.plans._windows import Shape
from pykernels.reference.conv2d import conv2d as reference
from tests.conftest import FULL
from tests.harness import Form, assert_same_bits, caps, forms, random_form
from tests.kernels.conv_calls import F16, F32, KINDS, Calls, Sizes, forced, random_sizes

gpu = pytest.mark.gpu
OPS = ("conv2d", "conv2d_backward_input", "conv_transpose2d")

# -- every text -----------------------------------------------------------------------------------

# Channels, whether weights are repacked, layout: what a tile loads, and how.
LOADS = {
    "any": (3, False, "NCHW"), "packed": (20, True, "NCHW"), "taps": (32, True, "NCHW"),
    "vec": (48, True, "NHWC"),
}  # fmt: skip


@gpu
@pytest.mark.sample(0.07)
@pytest.mark.parametrize("kinds", KINDS[:3], ids="-".join)
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("tile", plans.TILES)
def test_tile_at_its_edges(
    dev: pk.Device, tile: str, load: str, kinds: tuple[str, str, str]
) -> None:
    """Channels and pixels around the sizes of the tile."""
    rows, cols, _ = plans.TILES[tile]
    c, pack, layout = LOADS[load]
    if load == "any":
        kinds = (kinds[0], F32, kinds[2])
    calls = Calls(dev)
    shapes = ((rows, (8, cols // 8)), (rows + 1, (cols + 1, 1)), (rows - 1, (1, cols - 1)))
    for (o, image), exact in itertools.product((*shapes, (3, (2, 3))), (True, False)):
        s = Sizes(image, (3, 3), 1, c, o, padding=(1, 1, 1, 1), layout=layout)
        calls.add(s, kinds=kinds, exact=exact)
    for o in (5, 8):
        s = Sizes((9, 7), (2, 3), 3, c, o, 2, (2, 1), (0, 3, 1, 0), (1, 2), layout)
        calls.add(s, kinds=kinds)
    with forced(dev, tile, pack=pack):
        calls.check(f"{tile} {load}")


@gpu
@pytest.mark.parametrize("kinds", KINDS[: 3 if FULL else 1], ids="-".join)
@pytest.mark.parametrize("slices", (1, 3))
def test_rows_of_three_taps(dev: pk.Device, slices: int, kinds: tuple[str, str, str]) -> None:
    """The form for windows that keep the width of rows of four pixels."""
    calls = Calls(dev)
    for c, o, image, rows in (
        (8, 64, (4, 32), 3), (24, 8, (1, 124), 1), (8, 72, (5, 52), 2),
        (16, 8, (7, 4), 5), (8, 72, (10, 14), 3), (16, 8, (2, 2), 3),
    ):  # fmt: skip
        s = Sizes(image, (rows, 3), 2, c, o, 2, padding=(rows - 1, 1, 1, 1))
        for op in OPS[:2]:
            calls.add(s, op, kinds, exact=c == 8, x_form=Form(phase=8))
    with forced(dev, "64x128" if slices == 1 else "64x64", slices, pack=True):
        calls.check()
    for vec in (2, 4):
        assert any(f"FORM=row AV={vec}" in key for _, key in dev._pipelines._pipelines)


@gpu
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("o", (1, 3, 6))
def test_direct(dev: pk.Device, o: int, kinds: tuple[str, str, str]) -> None:
    calls = Calls(dev)
    for layout in ("NCHW", "NHWC"):
        for exact in (True, False):
            calls.add(Sizes((17, 19), n=3, c=2, o=o, groups=2, layout=layout), "conv2d", kinds,
                      exact=exact, bias=kinds[2])  # fmt: skip
            calls.add(Sizes((9, 8), (5, 2), 1, 1, o, 7, (2, 3), (4, 0, 1, 2), (1, 3), layout),
                      "conv2d", kinds, exact=exact)  # fmt: skip
            calls.add(Sizes((10, 9), n=2, c=2, o=o, groups=3, padding=(3, 1, 0, 4), layout=layout),
                      "conv2d", kinds, exact=exact)  # fmt: skip
    with forced(dev, "direct"):
        calls.check()


@gpu
@pytest.mark.sample(0.4)
@pytest.mark.parametrize("slices", (2, 5, 40))
def test_slices_of_the_sums(dev: pk.Device, slices: int) -> None:
    calls = Calls(dev)
    for c in (3, 20, 64):
        for layout in ("NCHW", "NHWC"):
            s = Sizes((6, 5), c=c, o=9, padding=(1, 1, 1, 1), layout=layout)
            calls.add(s, exact=True)
            calls.add(replace(s, groups=2), bias=F16, scale=0.5, activation="relu")
    with forced(dev, "32x32", slices):
        calls.check()


@gpu
def test_other_dtypes(dev: pk.Device) -> None:
    """Sums that no text stores as they are go through scratch."""
    calls = Calls(dev)
    for kinds in KINDS:
        calls.add(Sizes((6, 5), o=9, padding=(1, 1, 1, 1)), kinds=kinds, bias=F32)
        calls.add(Sizes((6, 5), (1, 1), o=9), kinds=kinds, bias=F16)
    with forced(dev, "32x32"):
        calls.check()


@gpu
def test_without_native_halves(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        calls = Calls(dev)
        for op in OPS:
            calls.add(Sizes((6, 5), o=9, stride=(2, 1)), op, (F16, F16, F16), x_form=Form(phase=1))
        calls.check()


# -- any arguments --------------------------------------------------------------------------------

BODIES = (("32x32", False), ("32x32", True), ("direct", False))
# What the random sets of the long runs also use.
MORE = (*BODIES, *((tile, pack) for tile in plans.TILES for pack in (False, True)))


@gpu
@pytest.mark.parametrize("seed", range(64 if FULL else 2))
def test_random_arguments(dev: pk.Device, seed: int) -> None:
    """Ten sets of arguments for each of the three kernels, any layout of the tensors."""
    body, pack = (MORE if FULL else BODIES)[seed % len(MORE if FULL else BODIES)]
    calls = Calls(dev, seed)
    rng = calls.rng
    for i in range(10):
        s = random_sizes(rng)
        form = {
            f"{name}_form": random_form(rng, 4, repeats=name != "dst")
            for name in ("x", "w", "dst")
            if rng.random() < 0.4
        }
        kinds = KINDS[int(rng.integers(len(KINDS)))] if FULL else KINDS[0]
        for op in OPS:
            if op == "conv_transpose2d" and min(calls.transposed(s, (0, 0))) < 1:
                continue
            bias = str(rng.choice(["", F32, F16])) if op != "conv2d_backward_input" else ""
            calls.add(s, op, kinds, exact=i % 2 == 0, bias=bias, **form)
    with forced(dev, body, pack=pack):
        calls.check(f"{body} {pack}")


@gpu
@pytest.mark.parametrize("seed", range(20 if FULL else 1))
def test_the_gradient_is_the_adjoint(dev: pk.Device, seed: int) -> None:
    """<conv(x), y> = <x, backward_input(y)>, in integers that every sum holds exactly."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        s = random_sizes(rng)
        x, w, y = (rng.integers(-2, 3, shape).astype(np.float32) for shape in (s.x, s.w, s.y))
        made, back = dev.empty(s.y), dev.empty(s.x)
        with forced(dev, "32x32"):
            options = s.options
            conv2d(dev.tensor(x), dev.tensor(w), made, **options)
            conv2d_backward_input(dev.tensor(y), dev.tensor(w), back, **options)
        left = (made.numpy().astype(np.int64) * y.astype(np.int64)).sum()
        right = (x.astype(np.int64) * back.numpy().astype(np.int64)).sum()
        assert left == right, s


# -- layouts --------------------------------------------------------------------------------------


@gpu
@pytest.mark.sample(0.4)
@pytest.mark.parametrize("form", forms(4, repeats=True))
def test_any_layout(dev: pk.Device, form: str) -> None:
    layout = forms(4, repeats=True)[form]
    calls = Calls(dev)
    for op, c, layouts in itertools.product(OPS[:2], (3, 16), ("NCHW", "NHWC")):
        s = Sizes((6, 7), (3, 2), c=c, o=9, stride=(1, 2), padding=(1, 0, 1, 1), layout=layouts)
        calls.add(s, op, x_form=layout)
        calls.add(s, op, w_form=layout)
        if "repeat" not in form:
            calls.add(s, op, x_form=layout, w_form=layout, dst_form=layout)
    with forced(dev, "32x32"):
        calls.check()


@gpu
@pytest.mark.parametrize("near", (0, 8192))
@pytest.mark.parametrize("op", OPS)
def test_operands_in_one_buffer(dev: pk.Device, op: str, near: int) -> None:
    for s in (Sizes((6, 5), o=9), Sizes((6, 5), (1, 1), n=1, c=16, o=12), Sizes((5, 5), o=2)):
        calls = Calls(dev)
        bias = F32 if op != "conv2d_backward_input" else ""
        calls.add(s, op, bias=bias, buffer="one", near=near)
        with forced(dev, "direct" if s.o == 2 else "32x32"):
            calls.check()


@gpu
def test_convolution_over_its_own_image(dev: pk.Device) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, 5, 6, 6)).astype(np.float32)
    w = np.random.default_rng(1).integers(-3, 4, (5, 5, 3, 3)).astype(np.float32)
    t = dev.tensor(x)
    conv2d(t, dev.tensor(w), t, padding=1)
    assert_same_bits(t.numpy(), reference(x, w, padding=1).astype(np.float32))


# -- grids, sizes ---------------------------------------------------------------------------------


@gpu
def test_a_long_grid_folds(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        for body in ("32x32", "direct"):
            calls = Calls(dev)
            calls.add(Sizes((16, 9), o=40, padding=(1, 1, 1, 1)), exact=True)
            calls.add(Sizes((16, 9), o=3, groups=6, stride=(2, 2)), exact=True)
            with forced(dev, body), caps(dev, max_groups=2):
                calls.check()


@gpu
def test_more_images_times_channels_than_a_grid_axis(dev: pk.Device) -> None:
    calls = Calls(dev)
    calls.add(Sizes((2, 2), (2, 2), 3, 1, 1, 23_000, padding=(1, 0, 0, 0)), exact=True)
    calls.add(Sizes((2, 1), (1, 1), 70_001, 1, 9, stride=(2, 1)), exact=True)
    with caps(dev):
        calls.check()


@gpu
def test_one_by_one(dev: pk.Device) -> None:
    """As products where pixels lie evenly, as convolutions where not."""
    calls = Calls(dev)
    for layout, groups, n in itertools.product(("NCHW", "NHWC"), (1, 2), (1, 3)):
        for image in ((5, 4), (16, 33)):
            s = Sizes(image, (1, 1), n, 12, 20, groups, layout=layout)
            calls.add(s, bias=F32, activation="silu")
            calls.add(s, "conv2d_backward_input", exact=True)
            calls.add(replace(s, stride=(2, 2)), exact=True)
    with forced(dev, "32x32"):
        calls.check()


@gpu
@pytest.mark.parametrize("op", OPS)
def test_nothing_to_sum_or_write(dev: pk.Device, op: str) -> None:
    calls = Calls(dev)
    bias = F32 if op != "conv2d_backward_input" else ""
    for n, c, o in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        calls.add(Sizes((5, 4), n=n, c=c, o=o), op, bias=bias, exact=True)
    calls.check()


@gpu
def test_residues_without_taps(dev: pk.Device) -> None:
    """A stride larger than the kernel: most pixels of the gradient meet no window."""
    calls = Calls(dev)
    for stride, kernel in (((5, 4), (2, 3)), ((3, 100), (1, 1)), ((6, 6), (3, 3))):
        s = Sizes((13, 11), kernel, stride=stride, dilation=(2, 3))
        calls.add(s, "conv2d_backward_input", exact=True)
        calls.add(s, "conv_transpose2d", bias=F32, activation="relu")
        if stride[0] == 5:
            calls.add(s, "conv_transpose2d", output_padding=(4, 1), exact=True)
    calls.check()


# -- epilogue, special values ---------------------------------------------------------------------


@gpu
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("activation", plans.mul_mat.ACTIVATIONS)
def test_epilogue(dev: pk.Device, activation: str | None) -> None:
    for body, slices in (("32x32", 1), ("32x32", 3), ("direct", 1)):
        calls = Calls(dev)
        for bias, form in ((F32, None), (F16, Form(phase=1)), (F32, Form(steps=(-2,)))):
            s = Sizes((6, 5), c=20, o=9, groups=2)
            calls.add(s, bias=bias, bias_form=form, scale=-0.25, activation=activation)
        with forced(dev, body, slices):
            calls.check(body)


@gpu
def test_a_large_value_stays_in_its_windows(dev: pk.Device) -> None:
    """What lies outside of the image is not multiplied, not even by zero."""
    x = np.ones((2, 16, 5, 5), np.float32)
    x[:, :, 0, 0] = np.nan
    x[1, :, 4, 4] = np.inf
    w = np.ones((9, 16, 3, 3), np.float32)
    want = reference(x, w, padding=2)
    assert np.isfinite(want).sum() > 500
    for body, pack, last in (("32x32", False, False), ("32x32", True, False),
                             ("32x32", True, True), ("direct", False, False)):  # fmt: skip
        given = dev.tensor(x)
        if last:
            given = given.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2)
        dst = dev.empty(want.shape)
        with forced(dev, body, pack=pack):
            conv2d(given, dev.tensor(w), dst, padding=2)
        np.testing.assert_array_equal(dst.numpy(), want.astype(np.float32))


@gpu
def test_the_same_bits_again(dev: pk.Device) -> None:
    x, w = dev.rand((2, 40, 9, 9), seed=1), dev.rand((40, 40, 3, 3), seed=2)
    results = []
    for _ in range(3):
        dst = dev.empty((2, 40, 9, 9))
        with forced(dev, "32x32", 4):
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
    refused(pk.ArgumentError, r"dilation must be .* but is 1.5", dilation=1.5)
    refused(pk.ArgumentError, r"padding must be .* but is \(1, 2, 3\)", padding=(1, 2, 3))
    refused(pk.ArgumentError, r"padding must be .* but is -1", padding=-1)
    refused(pk.ArgumentError, r"padding must be .* but is 'full'", padding="full")
    refused(pk.ArgumentError, r"padding 'same' needs stride 1", padding="same", stride=2)
    refused(pk.ArgumentError, "activation must be one of .* 'tanh'", activation="tanh")
    refused(pk.ArgumentError, "layout must be .* but is 'CHWN'", layout="CHWN")
    refused(pk.ShapeError, r"the padded image .* \(9, 9\), but is \(5, 7\)", dilation=4)
    refused(pk.ShapeError, r"dst must have shape \(2, 4, 5, 7\) but", padding=1)
    refused(pk.ShapeError, r"x must have four axes \(N, C, H, W\)", dev.ones((6, 5, 7)), w, dst)
    refused(pk.ShapeError, r"w must have four axes", x, dev.ones((4, 3, 3)), dst)
    refused(pk.ShapeError, r"bias must have shape \(4,\) but", bias=dev.ones((2,)))
    refused(pk.DTypeError, "x must be float32 or float16", dev.ones((2, 6, 5, 7), "int32"), w, dst)
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
    with forced(dev, "32x32"):
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
    from pykernels.reference.conv_transpose2d import conv_transpose2d as transposed

    want = transposed(x, w, b, stride=2, padding=(1, 0), output_padding=(1, 0), groups=2)
    with forced(dev, "32x32"):
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
    with pytest.raises(pk.DTypeError, match=r"\[conv2d\] w must be .* but is float64"):
        pk.conv2d(x, np.ones((4, 3, 3, 3)), groups=2)
    with pytest.raises(pk.ArgumentError, match=r"\[conv2d\] stride must be .* \(1, 2, 3\)"):
        pk.conv2d(x, w, stride=[1, 2, 3], groups=2)
    with pytest.raises(pk.ArgumentError, match=r"\[conv_transpose2d\] layout must be"):
        pk.conv_transpose2d(x, w, layout="HWC")  # type: ignore[call-overload]
    with pytest.raises(pk.ArgumentError, match=r"\[conv_transpose2d\] groups must be a positive"):
        pk.conv_transpose2d(x, dev.ones((6, 3, 3, 3)), groups=0)


# -- choices, without a GPU -----------------------------------------------------------------------

LARGE = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535)
SMALL = Caps(False, False, 256, 256, 16384, 1 << 27, 65535)


def test_choices() -> None:
    assert plans.choose(LARGE, Shape(1, 512, 4096 * 16, 4608)).body == "128x128"
    assert plans.choose(LARGE, Shape(1, 64, 16 * 56 * 56, 576)).body == "64x128"
    assert plans.choose(LARGE, Shape(1, 256, 16 * 14 * 14, 2304)).slices > 1
    assert plans.choose(LARGE, Shape(128, 1, 16 * 56 * 56, 9)).body == "direct"
    for rows in (9, 64, 512):
        assert plans.choose(SMALL, Shape(1, rows, 1000, 576)).body == "32x32"


def view(shape: tuple[int, ...], last: bool = False) -> View:
    """Images or weights; with channels last in memory if asked."""
    strides = contiguous_strides(shape, 4)
    if last:
        _, c, h, w = shape
        strides = (h * w * c * 4, 4, w * c * 4, c * 4)
    return View(0, DTYPES[F32], shape, strides, 0)


def forms_of(x: View, w: View, dst: View, **options: Any) -> list[tuple[str, ...]]:
    """Body of each step, and the form of a tile (of the direct body: is it the 3 x 3 one)."""
    found = conv2d_plans.plan(LARGE, Scratch(), x, w, None, dst, **options)
    return [(s.body.name, *(str(a) for a in s.axes[4:5])) for s in found]


def test_plans() -> None:
    x, w = view((16, 64, 56, 56)), view((64, 64, 3, 3))
    names = [name for name, *_ in forms_of(x, w, x, padding=1)]
    assert names[-1] == "conv2d_tile"
    assert names[0] == "conv2d_pack"
    assert ("conv2d_tile", "row") in forms_of(x, w, x, padding=1)
    large = view((64, 64, 56, 56)), w, view((64, 64, 28, 28))
    assert ("conv2d_tile", "taps") in forms_of(*large, padding=1, stride=2)
    last = view((16, 64, 56, 56), last=True)
    assert ("conv2d_tile", "vec") in forms_of(last, w, x, padding=1)
    # Few operations: the weights stay where they are.
    image, kernel, out = view((1, 3, 224, 224)), view((64, 3, 7, 7)), view((1, 64, 112, 112))
    assert forms_of(image, kernel, out, padding=3, stride=2) == [("conv2d_tile", "any")]
    one = view((128, 64, 1, 1))
    assert forms_of(x, one, view((16, 128, 56, 56)))[0][0] == "mul_mat"
    deep = view((16, 128, 56, 56))
    assert forms_of(deep, view((128, 1, 3, 3)), deep, padding=1, groups=128) == [
        ("conv2d_direct", "True")
    ]


def test_cost_of_a_choice_grows_with_the_work() -> None:
    for tile in plans.TILES:
        few, many = (plans._seconds(Shape(1, 256, n, 2304), tile, 1) for n in (1 << 14, 1 << 18))
        assert 8 * few < many < 32 * few
