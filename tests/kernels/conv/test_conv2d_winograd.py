"""conv2d of 3 x 3 taps by Winograd's transforms: every text, its bound, and when it is taken."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force, with_forced
from pykernels.kernels import conv2d
from pykernels.plans.conv import conv2d as plans
from pykernels.plans.conv.select import ConvChoice
from pykernels.plans.conv.select_winograd import TILES
from pykernels.reference.conv import conv2d as reference
from pykernels.reference.conv import window_budget, winograd_size
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View
from pykernels.tuning import named
from tests.harness import Array, assert_same_bits, random_form
from tests.kernels.conv.conv_calls import F16, F32, KINDS, Call, ConvCalls, Sizes
from tests.kernels.conv.test_conv2d_parts import small
from tests.kernels.conv.test_conv2d_rules import LARGE, view

gpu = pytest.mark.gpu
NAMES = ["winograd_pack", "winograd_output"]


class WinogradCalls(ConvCalls):
    """Convolutions whose errors are bounded by the sizes that the transforms see."""

    side = 2

    def size(self, c: Call, x: Array, w: Array, options: dict[str, Any]) -> Array:
        padding, layout = options["padding"], options["layout"]
        if c.op == "conv2d_backward_input":
            padding = tuple(2 - p for p in padding)
            w = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
        return winograd_size(x, w, self.side, padding=padding, layout=layout)


def calls_of(dev: pk.Device, body: str, seed: int = 0) -> WinogradCalls:
    found = WinogradCalls(dev, seed)
    found.side = TILES[body]
    return found


# -- every text -----------------------------------------------------------------------------------

# Images around the sizes of tiles; channels around vectors of four.
SIZES = [
    Sizes((8, 8), c=8, o=9, padding=(1, 1, 1, 1)), Sizes((6, 5), c=3, o=4, padding=(0, 2, 3, 1)),
    Sizes((3, 3), n=1, c=1, o=1), Sizes((7, 9), n=3, c=5, o=7, padding=(1, 1, 1, 1)),
    Sizes((1, 14), c=4, o=5, padding=(1, 1, 0, 0)),
]  # fmt: skip


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("body", TILES)
def test_images_around_the_tiles(dev: pk.Device, body: str, kinds: tuple[str, str, str]) -> None:
    """Small integers go through the smaller tile's transforms without an error."""
    calls = calls_of(dev, body)
    exact = (False, True) if body == "winograd/2" else (False,)
    for s, layout, sure in itertools.product(SIZES, ("NCHW", "NHWC"), exact):
        calls.add(replace(s, layout=layout), kinds=kinds, exact=sure)
    for s in SIZES[:2]:
        for bias, residual, activation in ((F32, F16, "relu"), (F16, F32, "gelu")):
            calls.add(
                s, kinds=kinds, bias=bias, residual=residual, activation=activation, scale=-0.25
            )
        form: dict[str, Any] = {n: random_form(calls.rng, 4, repeats=n != "dst_form")
                for n in ("x_form", "w_form", "dst_form", "residual_form")}  # fmt: skip
        calls.add(s, kinds=kinds, residual=F32, **form)
    with force(dev, ConvChoice(body)):
        calls.check(body)


@gpu
@pytest.mark.parametrize("body", TILES)
def test_rows_of_tiles_are_vectors_of_dst(dev: pk.Device, body: str) -> None:
    calls = calls_of(dev, body)
    for image in ((6, 8), (6, 7)):
        calls.add(Sizes(image, c=3, o=5, padding=(1, 1, 1, 1)), residual=F32)
    with force(dev, ConvChoice(body)):
        calls.check(body)
    texts = [key for name, key, _ in dev._context.pipelines._pipelines if name == "winograd_output"]
    for vec in (1, TILES[body]):
        assert any(f"M={TILES[body]}" in key and f"DV={vec}" in key for key in texts)


@gpu
@pytest.mark.parametrize("body", TILES)
def test_gradient_by_the_image(dev: pk.Device, body: str) -> None:
    """Its windows have the taps in reverse: negative steps of the weights."""
    calls = calls_of(dev, body)
    for layout, padding in (("NCHW", (1, 1, 1, 1)), ("NHWC", (0, 2, 1, 0))):
        s = Sizes((6, 5), c=5, o=3, padding=padding, layout=layout)
        calls.add(s, "conv2d_backward_input", exact=body == "winograd/2")
    with force(dev, ConvChoice(body)):
        calls.check(body)
    assert {*NAMES} <= {name for name, *_ in dev._context.pipelines._pipelines}


@gpu
@pytest.mark.parametrize("near", (0, 8192))
def test_tensors_in_one_buffer(dev: pk.Device, near: int) -> None:
    calls = calls_of(dev, "winograd/2")
    s = Sizes((6, 5), c=3, o=9, padding=(1, 1, 1, 1))
    calls.add(s, exact=True, bias=F32, residual=F32, buffer="one", near=near)
    with force(dev, ConvChoice("winograd/2")):
        calls.check()


@gpu
def test_residual_is_dst(dev: pk.Device) -> None:
    s = Sizes((6, 5), c=3, o=9, padding=(1, 1, 1, 1))
    rng = np.random.default_rng(0)
    x, w, y = (rng.integers(-3, 4, shape).astype(np.float32) for shape in (s.x, s.w, s.y))
    dst = dev.tensor(y)
    with force(dev, ConvChoice("winograd/2")):
        conv2d(dev.tensor(x), dev.tensor(w), dst, residual=dst, **s.options)
    assert_same_bits(dst.numpy(), reference(x, w, None, y, **s.options).astype(np.float32))


# -- the bound ------------------------------------------------------------------------------------


def numbers(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    found = rng.standard_normal(shape)
    if kind == "of one sign":
        found = np.abs(found)
    elif kind == "of a wide range":
        found *= np.exp2(rng.uniform(-30, 30, shape))
    return found.astype(np.float32)


@gpu
@pytest.mark.parametrize("kind", ["normal", "of one sign", "of a wide range"])
@pytest.mark.parametrize("body", TILES)
def test_errors(dev: pk.Device, body: str, kind: str) -> None:
    """All are within the bound of the transforms. Numbers of one size are within conv2d's own bound
    away from the edges, too; one pixel of 2^30 drowns its tile's others, so that it must be asked
    for."""
    rng = np.random.default_rng(0)
    x, w = numbers(kind, rng, (2, 64, 13, 14)), numbers(kind, rng, (16, 64, 3, 3))
    dst = dev.empty((2, 16, 13, 14))
    with force(dev, ConvChoice(body)):
        conv2d(dev.tensor(x), dev.tensor(w), dst, padding=1)
    error = np.abs(dst.numpy() - reference(x, w, padding=1))
    own = window_budget(winograd_size(x, w, TILES[body], padding=1), 9 * 64)
    plain = window_budget(reference(np.abs(x), np.abs(w), padding=1), 9 * 64)
    assert (error <= own).all()
    inside = (slice(None), slice(None), slice(1, -1), slice(1, -1))
    assert (error <= plain)[inside].all() == (kind != "of a wide range")


def test_norms_of_the_transforms() -> None:
    """What the documentation says of the bound: its share of 9 C max |x| max |w|."""
    for side, share in ((2, 7.11), (4, 83.5)):
        x, w = np.ones((1, 1, side + 2, side + 2)), np.ones((1, 1, 3, 3))
        assert winograd_size(x, w, side).max() / 9 == pytest.approx(share, rel=1e-3)


# -- when it is taken -----------------------------------------------------------------------------


def names(x: View, w: View, dst: View, caps: Caps = LARGE, **options: Any) -> list[str]:
    found = plans.plan(caps, Scratch(), x, w, None, None, dst, padding=1, **options)
    return [step.body.name for step in found]


def test_only_if_asked_for_on_devices_whose_table_has_it() -> None:
    x, w = view((8, 128, 28, 28)), view((128, 128, 3, 3))
    asked = names(x, w, x, precision="fast")
    assert (asked[0], asked[-1]) == tuple(NAMES)
    for precision in (None, "high"):
        assert not {*NAMES} & {*names(x, w, x, precision=precision)}
    for table in ("generic-large", "generic-laptop", "generic-small", "software"):
        caps = replace(LARGE, tuning=named(table))
        assert not {*NAMES} & {*names(x, w, x, caps, precision="fast")}
    half = [v.with_layout(v.shape, [s // 2 for s in v.strides], pk.dtypes.DTYPES[F16])
            for v in (x, w)]  # fmt: skip
    assert not {*NAMES} & {*names(half[0], half[1], half[0], LARGE, precision="fast")}


@pytest.mark.parametrize("body", TILES)
def test_calls_that_it_cannot_serve_take_the_planned_body(body: str) -> None:
    """Other steps and groups, and transformed tensors that are too large."""
    forced = with_forced(LARGE, ConvChoice(body))
    x, w, half = view((2, 64, 28, 28)), view((64, 64, 3, 3)), view((2, 64, 14, 14))
    assert names(x, w, x, forced)[0] == NAMES[0]
    assert names(x, w, half, forced, stride=2) == names(x, w, half, stride=2)
    groups = view((64, 32, 3, 3))
    assert names(x, groups, x, forced, groups=2) == names(x, groups, x, groups=2)
    scratch = Scratch()
    plans.plan(forced, scratch, x, w, None, None, x, padding=1)
    tight = replace(forced, max_binding=max(scratch.sizes))  # without what alignment takes
    assert not {*NAMES} & {*names(x, w, x, tight)}
    large = view((64, 64, 128, 128))  # 256 MiB are what the table allows
    assert names(large, w, large, forced) == names(large, w, large)


@gpu
def test_parts(dev: pk.Device) -> None:
    """Images that are cut so that transforms fit, or by another body where they never do."""
    calls = calls_of(dev, "winograd/2")
    calls.add(Sizes((6, 5), n=4, c=6, o=8, padding=(1, 1, 1, 1)), exact=True, bias=F32)
    for nbytes in (2048, 8192):
        with force(dev, ConvChoice("winograd/2")), small(dev, nbytes):
            calls.check()
