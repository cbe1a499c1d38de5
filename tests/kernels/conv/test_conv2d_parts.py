"""Sums over windows in parts: some images, groups or output channels at a time, where a tensor, or
a temporary of the plan, is larger than one binding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.kernels import conv2d, conv2d_backward_input
from pykernels.plans.conv import conv2d as plans
from pykernels.plans.conv.select import SMALLEST, ConvChoice
from pykernels.reference.conv import conv2d as reference
from pykernels.steps import Scratch
from tests.harness import Form, caps
from tests.kernels.conv.conv_calls import F16, F32, KINDS, ConvCalls, Sizes
from tests.kernels.conv.test_conv2d_rules import LARGE, view

gpu = pytest.mark.gpu
OPS = ("conv2d", "conv2d_backward_input", "conv_transpose2d")
IMAGES = (
    Sizes((6, 7), n=8, groups=2, padding=(1, 1, 1, 1)),
    Sizes((12, 12), n=5, c=4, o=5, stride=(2, 2), padding=(1, 1, 1, 1)),
    Sizes((8, 8), (1, 1), n=9, c=8, o=10),  # a product
)
GROUPS = (
    Sizes((16, 16), c=2, o=2, groups=6, stride=(2, 1)),
    Sizes((16, 16), c=1, o=1, groups=12, padding=(1, 1, 1, 1)),  # each channel by itself
    Sizes((5, 5), n=1, c=12, o=3, groups=4),
)
WIDE = Sizes((20, 20), c=2, o=9), Sizes((8, 8), (1, 1), n=4, c=8, o=30)
DEEP = Sizes((20, 20), c=9, o=2), Sizes((8, 8), (1, 1), n=4, c=30, o=8)
WEIGHTS = (Sizes((5, 5), n=1, c=20, o=12),)


def small(dev: pk.Device, nbytes: int) -> Any:
    """The device with bindings of so many bytes, and what aligning their beginning takes."""
    return caps(dev, max_binding=dev._context.caps.alignment + nbytes)


@gpu
@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
@pytest.mark.parametrize("kinds", KINDS[:2], ids="-".join)
@pytest.mark.sample
def test_images_groups_and_channels(
    dev: pk.Device, kinds: tuple[str, str, str], layout: str
) -> None:
    calls = ConvCalls(dev)
    apart = layout == "NCHW"  # else one image's groups and channels lie between each other
    bias: dict[str, Any] = {"bias": F32, "bias_form": Form(steps=(-2,)), "activation": "relu"}
    for s in IMAGES + WEIGHTS + apart * (GROUPS + WIDE):
        s = replace(s, layout=layout)
        calls.add(s, "conv2d", kinds, exact=True, scale=2.0, **bias)
    for s in IMAGES + WEIGHTS + apart * (GROUPS + DEEP):
        s = replace(s, layout=layout)
        calls.add(s, "conv2d_backward_input", kinds, exact=True)
        calls.add(s, "conv_transpose2d", kinds, exact=True, **bias)
    with small(dev, 4096):
        calls.check()


@gpu
def test_channels_of_groups_that_lie_between_each_other(dev: pk.Device) -> None:
    """The weights' output channels reach further than their groups: groups are cut first."""
    calls = ConvCalls(dev)
    s = Sizes((4, 1), (3, 5), c=16, o=5, groups=3, padding=(1, 1, 2, 2))
    for op in OPS[1:]:
        more = {"bias": F32} if op == "conv_transpose2d" else {}
        calls.add(s, op, exact=True, w_form=Form(order=(1, 3, 2, 0), steps=(-2, 1, 1, 1)), **more)
        wide = replace(s, c=40, o=2, groups=2)
        calls.add(wide, op, exact=True, w_form=Form(order=(1, 0, 2, 3)), **more)
    with small(dev, 6000):
        calls.check()


@gpu
def test_groups_that_no_binding_holds(dev: pk.Device) -> None:
    """A group of one image is larger than a binding: its output channels are cut."""
    calls = ConvCalls(dev)
    calls.add(replace(WIDE[0], groups=2), "conv2d", exact=True, bias=F32)
    calls.add(replace(DEEP[0], groups=2), "conv2d_backward_input", exact=True)
    with small(dev, 4096):
        calls.check()


@gpu
def test_temporaries(dev: pk.Device) -> None:
    """Sums in float32 of a float16 result, of several splits, and weights that are repacked."""
    calls = ConvCalls(dev)
    for op in OPS:
        for s in (IMAGES[0], WEIGHTS[0], Sizes((7, 7), n=2, c=10, o=10)):
            calls.add(s, op, (F32, F16, F16), exact=True)
    with force(dev, ConvChoice(SMALLEST, 2, pack=True)), small(dev, 4096):
        calls.check()


@gpu
def test_images_that_lie_between_each_other(dev: pk.Device) -> None:
    """An image, or a channel of one, reaches through the whole tensor: it goes through a copy."""
    calls = ConvCalls(dev)
    for order in ((1, 2, 3, 0), (2, 3, 1, 0)):
        calls.add(IMAGES[0], exact=True, x_form=Form(order=order, gap=1))
        calls.add(IMAGES[0], exact=True, dst_form=Form(order=order, gap=1))
    calls.add(replace(WIDE[0], layout="NHWC"), exact=True, bias=F32)
    calls.add(replace(DEEP[0], layout="NHWC"), "conv2d_backward_input", exact=True)
    with small(dev, 4096):
        calls.check()


@gpu
def test_one_image_that_no_binding_holds(dev: pk.Device) -> None:
    x, w = dev.ones((2, 1, 40, 40)), dev.ones((1, 1, 3, 3))
    with (
        caps(dev, max_binding=4096),
        pytest.raises(pk.LimitError, match=r"\[conv2d\] .* spans \d+ bytes in a part that"),
    ):
        conv2d(x, w, dev.zeros((2, 1, 38, 38)))
    with (
        caps(dev, max_binding=4096),
        pytest.raises(
            pk.LimitError, match=r"\[conv2d_backward_input\] (dst|dy) spans \d+ bytes in"
        ),
    ):
        conv2d_backward_input(dev.zeros((2, 1, 38, 38)), w, x)


@gpu
@pytest.mark.crowd
def test_more_than_one_binding(dev: pk.Device) -> None:
    """143 MB, where 128 MiB are what a phone or lavapipe binds."""
    x, w = dev.rand((68, 2, 512, 512), seed=1), dev.rand((1, 2, 3, 3), seed=2)
    got = pk.conv2d(x, w, stride=8).numpy()
    for i in (0, 63, 64, 67):
        want = reference(x[i : i + 1].numpy(), w.numpy(), stride=8)
        np.testing.assert_allclose(got[i : i + 1], want, rtol=1e-5)


# -- plans, without a GPU -------------------------------------------------------------------------


def test_what_fits_is_planned_whole() -> None:
    for x, w in (((16, 64, 56, 56), (64, 64, 3, 3)), ((8, 3, 64, 64), (16, 3, 7, 7))):
        tensors = view(x), view(w), None, None, view((x[0], w[0], *x[2:]))
        largest = max(t.nbytes for t in tensors if t is not None)

        def steps(limit: int) -> list[Any]:
            limited = replace(LARGE, max_binding=limit)
            found = plans.plan(limited, Scratch(), *tensors, padding=w[2] // 2)  # noqa: B023
            return [(s.body.name, s.groups, s.values) for s in found]

        assert steps(4 * largest) == steps(1 << 31)
        assert len(steps(largest // 16 * 16 - 16)) > len(steps(1 << 31))
