"""conv2d with a residual: every body, what broadcasts, any layout, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.kernels import conv2d
from pykernels.plans.conv import conv2d as plans
from pykernels.plans.conv.select import SMALLEST, ConvChoice
from pykernels.reference.conv import conv2d as reference
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View
from tests.harness import Form, assert_same_bits, forms, random_form
from tests.kernels.conv.conv_calls import F16, F32, KINDS, ConvCalls, Sizes, random_sizes
from tests.kernels.conv.test_conv2d_parts import GROUPS, IMAGES, WEIGHTS, WIDE, small
from tests.kernels.conv.test_conv2d_rules import LARGE, view

gpu = pytest.mark.gpu

KEEPS = (1, 1, 1, 1)
# The choice of a body, and a convolution that it takes.
BODIES: dict[str, tuple[ConvChoice | None, Sizes]] = {
    "any": (ConvChoice(SMALLEST, pack=False), Sizes((6, 5), c=3, o=9, groups=2)),
    "packed": (ConvChoice(SMALLEST, pack=True), Sizes((6, 5), c=20, o=9, padding=(1, 0, 2, 1))),
    "taps": (ConvChoice(SMALLEST, pack=True), Sizes((6, 5), c=16, o=9, stride=(2, 1))),
    "vec": (ConvChoice(SMALLEST, pack=True), Sizes((6, 5), c=16, o=8, layout="NHWC")),
    "splits": (ConvChoice(SMALLEST, 3), Sizes((6, 5), c=20, o=9, groups=2, layout="NHWC")),
    "3x3": (ConvChoice("implicit_gemm_3x3/64x96", pack=True), Sizes((4, 8), o=8, padding=KEEPS)),
    "3x3 splits": (
        ConvChoice("implicit_gemm_3x3/64x96", 2, pack=True), Sizes((10, 6), o=8, padding=KEEPS),
    ),
    "stem": (ConvChoice("conv_stem/16x128"), Sizes((9, 12), c=3, o=9, padding=KEEPS)),
    "stem last": (ConvChoice("conv_stem/16x128"), Sizes((9, 11), c=3, o=12, layout="NHWC")),
    "direct": (ConvChoice("conv_direct"), Sizes((6, 5), c=2, o=3, groups=2, dilation=(1, 2))),
    "direct last": (ConvChoice("conv_direct"), Sizes((6, 5), c=3, o=1, layout="NHWC")),
    "depthwise": (None, Sizes((6, 8), c=1, o=1, groups=12, padding=KEEPS)),
    "depthwise last": (
        None, Sizes((6, 5), c=1, o=1, groups=12, padding=(0, 1, 2, 0), layout="NHWC"),
    ),
    "product": (None, Sizes((4, 6), (1, 1), n=1, c=8, o=12)),
    "product images": (None, Sizes((16, 32), (1, 1), c=4, o=5)),
    "product last": (None, Sizes((4, 6), (1, 1), n=3, c=8, o=12, layout="NHWC")),
    "product groups": (None, Sizes((4, 6), (1, 1), n=1, c=8, o=5, groups=3)),
}  # fmt: skip


def broadcasts(s: Sizes) -> list[tuple[int, ...]]:
    """Of one number, an image, a channel, an image's channel, a row and a column."""
    n, c = s.n, s.groups * s.o
    rows, cols = s.out
    kinds = ((1, 1, 1, 1), (n, 1, 1, 1), (1, c, 1, 1), (n, c, 1, 1), (1, 1, rows, 1),
             (n, c, 1, cols), (1, c, rows, cols))  # fmt: skip
    order = (0, 1, 2, 3) if s.layout == "NCHW" else (0, 2, 3, 1)
    found = [tuple(kind[a] for a in order) for kind in kinds]
    return [*found, (), found[2][1:]]


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", [k for k in KINDS if k != (F32, F16, F16)], ids="-".join)
@pytest.mark.parametrize("body", BODIES)
def test_bodies(dev: pk.Device, body: str, kinds: tuple[str, str, str]) -> None:
    choice, s = BODIES[body]
    if "stem" in body and kinds[0] != kinds[1]:
        pytest.skip("this body takes weights of the image's dtype")
    calls = ConvCalls(dev)
    other = F16 if kinds[2] == F32 else F32
    calls.add(s, kinds=kinds, exact=True, residual=kinds[2])
    calls.add(s, kinds=kinds, residual=other, residual_form=Form(phase=3))
    calls.add(s, kinds=kinds, exact=True, residual=other, bias=F16, scale=0.5, activation="relu")
    calls.add(s, kinds=kinds, residual=F16, bias=F32, scale=-0.25, activation="gelu")
    if kinds == KINDS[0]:
        for shape in broadcasts(s):
            calls.add(s, kinds=kinds, exact=True, residual=F16, residual_shape=shape)
    with force(dev, *([choice] if choice else [])):
        calls.check(body)
        y = view(s.y)
        made = names(view(s.x), view(s.w), y, y, dev._context.caps, **s.options)
    if "product" in body:
        assert not any("conv" in name or "implicit" in name for name in made)
    else:
        wanted = {
            "3x3": "implicit_gemm_3x3", "stem": "conv_stem", "direct": "conv_direct",
            "depthwise": "conv_depthwise",
        }.get(body.split()[0], "implicit_gemm")  # fmt: skip
        assert made[-2:] == [wanted, "splitk_reduce"]


@gpu
def test_products_of_each_image(dev: pk.Device) -> None:
    """Pixels of all images that do not lie evenly, and pixels of an image that do not."""
    calls = ConvCalls(dev)
    s = Sizes((16, 32), (1, 1), n=2, c=6, o=5)
    for shape in ((2, 1, 1, 1), (2, 5, 1, 1), (5, 16, 1), (1, 1, 32), (2, 5, 16, 32)):
        calls.add(s, exact=True, residual=F32, residual_shape=shape)
        calls.add(replace(s, n=1), exact=True, residual=F16, residual_shape=(1, *shape[1:]))
    calls.add(s, exact=True, residual=F32, residual_form=Form(order=(1, 0, 2, 3), phase=1))
    calls.add(s, exact=True, residual=F32, residual_form=Form(gap=3))
    calls.check()


@gpu
@pytest.mark.parametrize("name", forms(4, repeats=True))
def test_layouts(dev: pk.Device, name: str) -> None:
    calls = ConvCalls(dev)
    form = forms(4, repeats=True)[name]
    for layout in ("NCHW", "NHWC"):
        s = Sizes((6, 5), c=3, o=8, layout=layout)
        product = replace(s, kernel=(1, 1))
        for one in (s, product):
            calls.add(one, exact=True, residual=F32, residual_form=form)
            dst = forms(4, repeats=False).get(name)
            calls.add(one, kinds=KINDS[1], exact=True, residual=F16, dst_form=dst)
    with force(dev, ConvChoice(SMALLEST)):
        calls.check(name)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("seed", range(8))
def test_random_arguments(dev: pk.Device, seed: int) -> None:
    calls = ConvCalls(dev, seed)
    rng = calls.rng
    for i in range(10):
        s = random_sizes(rng)
        shape = tuple(n if rng.random() < 0.7 else 1 for n in s.y)[int(rng.integers(0, 3)) :]
        given: dict[str, Any] = {
            "bias": str(rng.choice(["", F32, F16])), "residual": str(rng.choice([F32, F16])),
            "residual_shape": shape,
            "residual_form": random_form(rng, len(shape), repeats=True),
        }  # fmt: skip
        for name in ("x", "w", "dst"):
            if rng.random() < 0.4:
                given[f"{name}_form"] = random_form(rng, 4, repeats=name != "dst")
        kinds = KINDS[int(rng.integers(0, 3))]
        calls.add(s, kinds=kinds, exact=i % 2 == 0, **given)
    choice = ConvChoice(SMALLEST, 1 + seed % 2)
    with force(dev, *([choice] if seed % 4 else [])):
        calls.check(f"seed {seed}")


@gpu
@pytest.mark.parametrize("near", (0, 8192))
def test_tensors_in_one_buffer(dev: pk.Device, near: int) -> None:
    calls = ConvCalls(dev)
    for s in (Sizes((6, 5), c=3, o=9), Sizes((6, 4), (1, 1), c=8, o=8)):
        calls.add(s, exact=True, bias=F32, residual=F32, buffer="one", near=near)
        calls.check()
        calls = ConvCalls(dev)


@gpu
@pytest.mark.parametrize("name", ["splits", "3x3", "stem", "direct", "depthwise", "product"])
def test_residual_is_dst(dev: pk.Device, name: str) -> None:
    choice, s = BODIES[name]
    rng = np.random.default_rng(0)
    x, w, y = (rng.integers(-3, 4, shape).astype(np.float32) for shape in (s.x, s.w, s.y))
    for half in (False, True):
        x, w, y = (v.astype(F16) if half else v for v in (x, w, y))
        dst = dev.tensor(y)
        with force(dev, *([choice] if choice else [])):
            conv2d(dev.tensor(x), dev.tensor(w), dst, residual=dst, **s.options)
            want = reference(x, w, None, y, **s.options)
            assert_same_bits(dst.numpy(), want.astype(y.dtype))
            if s.layout == "NCHW":
                # Another part of dst's memory: each image gets that of the one before it.
                dst = dev.tensor(np.concatenate([y, y]))
                conv2d(dev.tensor(x), dev.tensor(w), dst[1 : s.n + 1], residual=dst[: s.n],
                       **s.options)  # fmt: skip
                assert_same_bits(dst.numpy()[1 : s.n + 1], want.astype(y.dtype))


@gpu
@pytest.mark.parametrize("name", BODIES)
def test_sums_are_rounded_once(dev: pk.Device, name: str) -> None:
    """2049 is no float16: 2049 + 1 is 2050, rounded first it would be 2048."""
    if "shader-f16" not in dev.features:
        pytest.skip("sums are float32 here until they are copied")
    choice, s = BODIES[name]
    x, w = np.full(s.x, 683, np.float16), np.zeros(s.w, np.float16)
    w[:, 0, s.kernel[0] // 2, s.kernel[1] // 2] = 3
    dst = dev.empty(s.y, F16)
    with force(dev, *([choice] if choice else [])):
        conv2d(dev.tensor(x), dev.tensor(w), dst, residual=dev.ones((), F16), **s.options)
    want = reference(x, w, None, np.ones((), F16), **s.options)
    assert 2050 in want
    assert_same_bits(dst.numpy(), want.astype(F16))


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", KINDS[:2], ids="-".join)
@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
def test_parts(dev: pk.Device, layout: str, kinds: tuple[str, str, str]) -> None:
    """Images, groups and channels of a residual are cut with those of dst."""
    calls = ConvCalls(dev)
    apart = layout == "NCHW"
    for s in IMAGES + WEIGHTS + apart * (GROUPS + WIDE):
        s = replace(s, layout=layout)
        more: dict[str, Any] = {"exact": True, "residual": kinds[2], "bias": F32}
        calls.add(s, kinds=kinds, activation="relu", **more)
        for shape in broadcasts(s)[:4]:
            calls.add(s, kinds=kinds, residual_shape=shape, **more)
    with small(dev, 4096):
        calls.check()


@gpu
def test_residual_alone_is_larger_than_a_binding(dev: pk.Device) -> None:
    calls = ConvCalls(dev)
    for s in (Sizes((5, 5), n=2, o=4), Sizes((5, 5), (1, 1), n=2, o=4),
              Sizes((5, 5), n=2, c=1, o=2, groups=3)):  # fmt: skip
        calls.add(s, exact=True, residual=F32, residual_form=Form(steps=(1, 1, 9, 1), gap=3))
        calls.add(s, exact=True, residual=F32, residual_form=Form(order=(2, 3, 1, 0), gap=40))
    # One group of an image: of halves it fits, of float32 it must be cut.
    s = Sizes((22, 22), n=1, c=1, o=4, groups=2)
    calls.add(s, kinds=KINDS[1], exact=True, residual=F32)
    with small(dev, 4096):
        calls.check()


@gpu
def test_empty(dev: pk.Device) -> None:
    residual = np.arange(-8, 8, dtype=np.float32).reshape(1, 4, 2, 2)
    bias = np.array([1, 2, 3, 4], np.float32)
    want = np.maximum(residual + bias[:, None, None], 0)
    x, w = dev.empty((1, 0, 4, 4)), dev.empty((4, 0, 3, 3))
    got = pk.conv2d(x, w, dev.tensor(bias), residual=dev.tensor(residual), activation="relu")
    assert_same_bits(got.numpy(), want)
    none = dev.empty((0, 3, 4, 4)), dev.ones((4, 3, 3, 3))
    for shape in ((0, 4, 2, 2), (4, 1, 1)):
        assert pk.conv2d(*none, residual=dev.ones(shape)).shape == (0, 4, 2, 2)


# -- torch's rules, and what is refused -----------------------------------------------------------


@gpu
def test_functional(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x, w, y, z = (
        rng.integers(-3, 4, s).astype(np.float32)
        for s in ((2, 6, 7, 8), (4, 3, 3, 3), (2, 4, 7, 8), (4, 1, 1))
    )
    more: Any = {"padding": 1, "groups": 2}
    tensors = dev.tensor(x), dev.tensor(w)
    for added in (y, z, y[1], np.full((), 2, np.float32)):
        want = reference(x, w, None, added, **more).astype(np.float32)
        for _ in range(2):  # known the second time
            got = pk.conv2d(*tensors, residual=dev.tensor(added), **more)
            assert_same_bits(got.numpy(), want)
        assert_same_bits(pk.conv2d(x, w, residual=added, **more), want)
        if added.ndim < 4:
            got = pk.conv2d(tensors[0][1], w, residual=added, **more)
            assert_same_bits(got.numpy(), want[1])
    plain = pk.conv2d(*tensors, **more).numpy()
    assert_same_bits(plain, reference(x, w, **more).astype(np.float32))
    last = pk.conv2d(tensors[0].transpose(0, 2, 3, 1), w, residual=y.transpose(0, 2, 3, 1),
                     layout="NHWC", **more)  # fmt: skip
    want = reference(x, w, None, y, **more).astype(np.float32)
    assert_same_bits(last.numpy(), np.ascontiguousarray(want.transpose(0, 2, 3, 1)))
    out = dev.tensor(y)
    assert pk.conv2d(*tensors, residual=out, out=out, **more) is out
    assert_same_bits(out.numpy(), want)


@gpu
def test_signals(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x, w, y = (rng.integers(-3, 4, s).astype(np.float32) for s in ((2, 3, 9), (4, 3, 3), (2, 4, 9)))
    want = reference(x[:, :, None], w[:, :, None], padding=(0, 1))[:, :, 0] + y
    got = pk.conv1d(dev.tensor(x), w, padding=1, residual=y)
    assert_same_bits(got.numpy(), want.astype(np.float32))
    one = pk.conv1d(dev.tensor(x)[1], w, padding=1, residual=dev.tensor(y)[1])
    assert_same_bits(one.numpy(), want[1].astype(np.float32))
    with pytest.raises(
        pk.ShapeError, match=r"\[conv1d\] residual must broadcast to \(2, 4, 9\) bu"
    ):
        pk.conv1d(x, w, padding=1, residual=y[:, :, :8])


@gpu
def test_rejects(dev: pk.Device) -> None:
    x, w, dst = dev.ones((2, 6, 5, 7)), dev.ones((4, 6, 3, 3)), dev.zeros((2, 4, 3, 5))
    for shape in ((2, 4, 3, 4), (3, 4, 3, 5), (4,), (1, 2, 4, 3, 5), (0, 4, 3, 5)):
        text = rf"\[conv2d\] residual must broadcast to \(2, 4, 3, 5\) but has shape \({shape[0]},"
        with pytest.raises(pk.ShapeError, match=text):
            conv2d(x, w, dst, residual=dev.ones(shape))
        with pytest.raises(pk.ShapeError, match=text):
            pk.conv2d(x, w, residual=dev.ones(shape))
    last = x.transpose(0, 2, 3, 1), w, dst.transpose(0, 2, 3, 1)
    with pytest.raises(pk.ShapeError, match=r"residual must broadcast to \(2, 3, 5, 4\) but has"):
        conv2d(*last, residual=dst, layout="NHWC")
    with pytest.raises(pk.ShapeError, match=r"residual must broadcast to \(4, 3, 5\) but has"):
        pk.conv2d(x[0], w, residual=dst[:1])
    for call in (lambda r: conv2d(x, w, dst, residual=r), lambda r: pk.conv2d(x, w, residual=r)):
        with pytest.raises(
            pk.DTypeError, match=r"\[conv2d\] residual must be float32, float16 or bfloat16"
        ):
            call(dev.ones((2, 4, 3, 5), "int32"))
    assert not dst.numpy().any()


# -- plans, without a GPU -------------------------------------------------------------------------


def names(
    x: View, w: View, dst: View, residual: View | None, caps: Caps = LARGE, **options: Any
) -> list[str]:
    found = plans.plan(caps, Scratch(), x, w, None, residual, dst, **options)
    return [step.body.name for step in found]


def test_steps() -> None:
    """A product adds the residual by itself, other bodies leave it to the step of splits."""
    x = view((8, 64, 56, 56))
    wide, one, three = view((8, 256, 56, 56)), view((256, 64, 1, 1)), view((64, 64, 3, 3))
    assert names(x, one, wide, wide) == names(x, one, wide, None) == ["gemm_tile"]
    assert names(x, one, wide, view((256, 1, 1))) == ["gemm_tile"]
    plain = names(x, three, x, None, padding=1)
    assert "splitk_reduce" not in plain
    assert names(x, three, x, x, padding=1) == [*plain, "splitk_reduce"]
    each = view((64, 1, 3, 3))
    deep = names(x, each, x, x, padding=1, groups=64)
    assert deep == ["conv_depthwise", "splitk_reduce"]
    last = view((8, 64, 56, 56), last=True)
    deep = names(last, each, last, last, padding=1, groups=64)
    assert deep == ["conv_pack", "conv_depthwise", "splitk_reduce"]
    image, first, out = view((8, 3, 224, 224)), view((64, 3, 7, 7)), view((8, 64, 112, 112))
    stem = names(image, first, out, out, padding=3, stride=2)
    assert stem == ["conv_stem", "splitk_reduce"]
    # Splits are finished by one step as it is.
    small, deep_w = view((16, 256, 14, 14)), view((256, 256, 3, 3))
    split = names(small, deep_w, small, None, padding=1)
    assert split[-1] == "splitk_reduce"
    assert names(small, deep_w, small, small, padding=1) == split
    # One row of a residual for all: pixels of the product do not lie evenly.
    assert names(x, one, wide, view((1, 56)))[-1] == "splitk_reduce"
