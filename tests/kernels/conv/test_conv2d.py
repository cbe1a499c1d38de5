"""conv2d: every body and tile on all shapes it may be chosen for, and the rules."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated.bodies import conv_stem
from pykernels.forcing import force
from pykernels.kernels import conv2d, conv2d_backward_input
from pykernels.plans.conv.select import SMALLEST, STEM_TILES, TILES, TILES_3X3, ConvChoice
from pykernels.reference.conv import conv2d as reference
from tests.conftest import FULL
from tests.harness import Form, assert_same_bits, caps, forms, random_form
from tests.kernels.conv.conv_calls import F16, F32, KINDS, ConvCalls, Sizes, random_sizes

gpu = pytest.mark.gpu
OPS = ("conv2d", "conv2d_backward_input", "conv_transpose2d")

# -- every text -----------------------------------------------------------------------------------

ANY_ONLY = "implicit_gemm/64x32"
# Channels, whether weights are repacked, layout: what a tile loads, and how.
LOADS = {
    "any": (3, False, "NCHW"), "packed": (20, True, "NCHW"), "taps": (32, True, "NCHW"),
    "vec": (48, True, "NHWC"),
}  # fmt: skip


def random_forms(rng: np.random.Generator) -> dict[str, Form]:
    """Any layout of each tensor of a call."""
    return {f"{n}_form": random_form(rng, 4, repeats=n != "dst") for n in ("x", "w", "dst")}


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", KINDS[:3], ids="-".join)
@pytest.mark.parametrize(
    ("tile", "load"),
    [(t, n) for n in LOADS for t in TILES if n in ("any", "packed") or t != ANY_ONLY],
)
def test_tile_at_its_edges(
    dev: pk.Device, tile: str, load: str, kinds: tuple[str, str, str]
) -> None:
    """Channels and pixels around the sizes of the tile."""
    rows, cols = TILES[tile][:2]
    c, pack, layout = LOADS[load]
    if load == "any":
        kinds = (kinds[0], F32, kinds[2])
    calls = ConvCalls(dev)
    shapes = ((rows, (8, cols // 8)), (rows + 1, (cols + 1, 1)), (rows - 1, (1, cols - 1)))
    for (o, image), exact in itertools.product((*shapes, (3, (2, 3))), (True, False)):
        s = Sizes(image, (3, 3), 1, c, o, padding=(1, 1, 2, 1), layout=layout)
        calls.add(s, kinds=kinds, exact=exact)
    for o in (5, 8):
        s = Sizes((9, 7), (2, 3), 3, c, o, 2, (2, 1), (0, 3, 1, 0), (1, 2), layout)
        calls.add(s, kinds=kinds)
    with force(dev, ConvChoice(tile, pack=pack)):
        calls.check(f"{tile} {load}")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", KINDS[:3], ids="-".join)
@pytest.mark.parametrize("splits", (1, 3))
@pytest.mark.parametrize("tile", TILES_3X3)
def test_rows_of_three_taps(
    dev: pk.Device, tile: str, splits: int, kinds: tuple[str, str, str]
) -> None:
    """The body for windows of 3 x 3 that keep the width of the image."""
    calls = ConvCalls(dev)
    for c, o, image, rows in (
        (3, 64, (4, 32), (1, 1)), (5, 72, (5, 52), (2, 0)), (4, 8, (7, 4), (0, 1)),
        (1, 8, (1, 124), (2, 1)), (8, 72, (10, 14), (1, 1)), (3, 8, (2, 2), (2, 2)),
    ):  # fmt: skip
        s = Sizes(image, (3, 3), 3, c, o, 2, padding=(*rows, 1, 1))
        for op in OPS[:2]:
            calls.add(s, op, kinds, exact=c == 3, x_form=Form(phase=8))
        down = replace(s, stride=(2, 1), dilation=(3, 1), padding=(3, 4, 1, 1))
        calls.add(down, "conv2d", kinds, bias=F32, activation="gelu" if c == 5 else "relu")
    with force(dev, ConvChoice(tile, splits, pack=True)):
        calls.check()
    for vec in (2, 4):
        assert any(
            name == "implicit_gemm_3x3" and f"AV={vec}" in key
            for name, key, _ in dev._context.pipelines._pipelines
        )


STEM_WINDOWS = sorted({f"{c.K}/{c.S}" for c in conv_stem.CONFIGS.values()})
SAME = [KINDS[0], KINDS[1], KINDS[4]]  # weights of the image's dtype


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", SAME, ids="-".join)
@pytest.mark.parametrize("window", STEM_WINDOWS)
@pytest.mark.parametrize("tile", STEM_TILES)
def test_first_layers(dev: pk.Device, tile: str, window: str, kinds: tuple[str, str, str]) -> None:
    """The body for few input channels: sizes around its tile, any views."""
    k, step = (int(v) for v in window.split("/"))
    rows = STEM_TILES[tile][0]
    calls = ConvCalls(dev)
    edges = ((0, 0, 0, 0), (k // 2,) * 4, (1, k - 1, k + 1, 2))
    for i, (c, o, out) in enumerate((
        (3, rows, (8, 16)), (1, rows + 1, (9, 20)), (2, rows - 1, (7, 12)), (4, 5, (1, 1)),
        (5, 2 * rows, (3, 17)), (8, 1, (17, 15)),
    )):  # fmt: skip
        padding = edges[i % 3] if min(out) > 1 else edges[0]
        size = [
            max((out[a] - 1) * step + k - sum(padding[2 * a : 2 * a + 2]), 1) + i % step
            for a in (0, 1)
        ]
        s = Sizes((size[0], size[1]), (k, k), 2, c, o, 1 + i % 2, (step, step), padding)
        calls.add(s, kinds=kinds, exact=i % 3 == 0)
        calls.add(s, kinds=kinds, bias=F16, activation="gelu" if i % 2 else "relu", scale=0.5)
        form = random_forms(calls.rng)
        calls.add(s, kinds=kinds, exact=True, **form)
        calls.add(replace(s, layout="NHWC"), kinds=kinds)
    with force(dev, ConvChoice(tile)):
        calls.check(f"{tile} {window}")
    for dv, last in ((1, False), (4, False), (4, True)):
        key = (f"_k{k}s{step}", f"DV={dv}", f"LAST={last}")
        found = [k for name, k, _ in dev._context.pipelines._pipelines if name == "conv_stem"]
        assert any(all(part in k for part in key) for k in found)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", SAME, ids="-".join)
@pytest.mark.parametrize("k", (3, 4, 7))
def test_three_channels_by_step_two(dev: pk.Device, k: int, kinds: tuple[str, str, str]) -> None:
    """The body that has all residues of the gradient at once."""
    calls = ConvCalls(dev)
    for i, (o, image, padding) in enumerate((
        (8, (16, 32), (1, 1, 1, 1)), (1, (17, 36), (1, 0, 3, 2)), (5, (15, 31), (3, 3, 1, 4)),
        (3, (k - 1, k), (1, 0, 1, 0)), (9, (33, 8), (5, 1, 5, 2)),
    )):  # fmt: skip
        s = Sizes(image, (k, k), 2, 3, o, 1 + i % 2, (2, 2), padding)
        calls.add(s, "conv2d_backward_input", kinds, exact=i % 2 == 0)
        calls.add(s, "conv_transpose2d", kinds, bias=F16, activation="relu", scale=0.5)
        calls.add(s, "conv_transpose2d", kinds, output_padding=(1, 0), exact=True)
        form = random_forms(calls.rng)
        calls.add(s, "conv2d_backward_input", kinds, exact=True, **form)
        calls.add(replace(s, layout="NHWC"), "conv2d_backward_input", kinds)
    with force(dev, ConvChoice("conv_few_outputs")):
        calls.check(str(k))
    for dv in (1, 4):
        key = (f"KERNEL=taps{k}", f"DV={dv}")
        found = [
            k for name, k, _ in dev._context.pipelines._pipelines if name == "conv_few_outputs"
        ]
        assert any(all(part in k for part in key) for k in found)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("o", (1, 3, 6))
def test_direct(dev: pk.Device, o: int, kinds: tuple[str, str, str]) -> None:
    calls = ConvCalls(dev)
    for layout in ("NCHW", "NHWC"):
        for exact in (True, False):
            calls.add(Sizes((17, 19), n=3, c=2, o=o, groups=2, layout=layout), "conv2d", kinds,
                      exact=exact, bias=kinds[2])  # fmt: skip
            calls.add(Sizes((9, 8), (5, 2), 1, 1, o, 7, (2, 3), (4, 0, 1, 2), (1, 3), layout),
                      "conv2d", kinds, exact=exact)  # fmt: skip
            calls.add(Sizes((10, 9), n=2, c=2, o=o, groups=3, padding=(3, 1, 0, 4), layout=layout),
                      "conv2d", kinds, exact=exact)  # fmt: skip
    with force(dev, ConvChoice("conv_direct")):
        calls.check()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_depthwise(dev: pk.Device, kinds: tuple[str, str, str]) -> None:
    """One channel in each group and 3 x 3 taps, in vectors of pixels or of channels."""
    calls = ConvCalls(dev)
    for layout in ("NCHW", "NHWC"):
        for groups, image, padding in (
            (8, (9, 12), (1, 1, 1, 1)), (20, (5, 8), (1, 0, 1, 1)), (4, (1, 4), (1, 1, 1, 1)),
            (12, (7, 5), (0, 3, 2, 0)),
        ):  # fmt: skip
            s = Sizes(image, n=2, c=1, o=1, groups=groups, padding=padding, layout=layout)
            calls.add(s, kinds=kinds, exact=groups == 8)
            calls.add(s, kinds=kinds, bias=F16, activation="relu")
            calls.add(s, "conv2d_backward_input", kinds, exact=groups == 8)
    calls.check()
    for form in ("rows", "channels"):
        key = f"FORM={form}"
        found = [k for name, k, _ in dev._context.pipelines._pipelines if name == "conv_depthwise"]
        assert any(key in k for k in found)


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("splits", (2, 5, 40))
def test_splits_of_the_sums(dev: pk.Device, splits: int) -> None:
    calls = ConvCalls(dev)
    for c in (3, 20, 64):
        for layout in ("NCHW", "NHWC"):
            s = Sizes((6, 5), c=c, o=9, padding=(1, 1, 1, 1), layout=layout)
            calls.add(s, exact=True)
            calls.add(replace(s, groups=2), bias=F16, scale=0.5, activation="relu")
    with force(dev, ConvChoice(SMALLEST, splits)):
        calls.check()


@gpu
def test_other_dtypes(dev: pk.Device) -> None:
    """Sums that no text stores as they are go through scratch."""
    calls = ConvCalls(dev)
    for kinds in KINDS:
        calls.add(Sizes((6, 5), o=9, padding=(1, 1, 1, 1)), kinds=kinds, bias=F32)
        calls.add(Sizes((6, 5), (1, 1), o=9), kinds=kinds, bias=F16)
    with force(dev, ConvChoice(SMALLEST)):
        calls.check()


@gpu
def test_without_native_halves(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        calls = ConvCalls(dev)
        for op in OPS:
            calls.add(Sizes((6, 5), o=9, stride=(2, 1)), op, (F16, F16, F16), x_form=Form(phase=1))
        calls.check()


# -- any arguments --------------------------------------------------------------------------------

BODIES = ((SMALLEST, False), (SMALLEST, True), ("conv_direct", False))
# What the random sets of the long runs also use.
MORE = (*BODIES, *((t, pack) for t in TILES if t != ANY_ONLY for pack in (False, True)))


@gpu
@pytest.mark.parametrize("seed", range(64 if FULL else 2))
def test_random_arguments(dev: pk.Device, seed: int) -> None:
    """Ten sets of arguments for each of the three kernels, any layout of the tensors."""
    body, pack = (MORE if FULL else BODIES)[seed % len(MORE if FULL else BODIES)]
    calls = ConvCalls(dev, seed)
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
    with force(dev, ConvChoice(body, pack=pack)):
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
        with force(dev, ConvChoice(SMALLEST)):
            options = s.options
            conv2d(dev.tensor(x), dev.tensor(w), made, **options)
            conv2d_backward_input(dev.tensor(y), dev.tensor(w), back, **options)
        left = (made.numpy().astype(np.int64) * y.astype(np.int64)).sum()
        right = (x.astype(np.int64) * back.numpy().astype(np.int64)).sum()
        assert left == right, s


# -- layouts --------------------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("form", forms(4, repeats=True))
def test_any_layout(dev: pk.Device, form: str) -> None:
    layout = forms(4, repeats=True)[form]
    calls = ConvCalls(dev)
    for op, c, layouts in itertools.product(OPS[:2], (3, 16), ("NCHW", "NHWC")):
        s = Sizes((6, 7), (3, 2), c=c, o=9, stride=(1, 2), padding=(1, 0, 1, 1), layout=layouts)
        calls.add(s, op, x_form=layout)
        calls.add(s, op, w_form=layout)
        if "repeat" not in form:
            calls.add(s, op, x_form=layout, w_form=layout, dst_form=layout)
    with force(dev, ConvChoice(SMALLEST)):
        calls.check()


@gpu
@pytest.mark.parametrize("near", (0, 8192))
@pytest.mark.parametrize("op", OPS)
def test_operands_in_one_buffer(dev: pk.Device, op: str, near: int) -> None:
    for s in (Sizes((6, 5), o=9), Sizes((6, 5), (1, 1), n=1, c=16, o=12), Sizes((5, 5), o=2)):
        calls = ConvCalls(dev)
        bias = F32 if op != "conv2d_backward_input" else ""
        calls.add(s, op, bias=bias, buffer="one", near=near)
        with force(dev, ConvChoice("conv_direct" if s.o == 2 else SMALLEST)):
            calls.check()


@gpu
def test_convolution_over_its_own_image(dev: pk.Device) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, 5, 6, 6)).astype(np.float32)
    w = np.random.default_rng(1).integers(-3, 4, (5, 5, 3, 3)).astype(np.float32)
    t = dev.tensor(x)
    conv2d(t, dev.tensor(w), t, padding=1)
    assert_same_bits(t.numpy(), reference(x, w, padding=1).astype(np.float32))


# -- grids, sizes ---------------------------------------------------------------------------------


@pytest.mark.crowd
@gpu
def test_a_long_grid_folds(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        for body in (SMALLEST, "conv_direct"):
            calls = ConvCalls(dev)
            calls.add(Sizes((16, 9), o=40, padding=(1, 1, 1, 1)), exact=True)
            calls.add(Sizes((16, 9), o=3, groups=6, stride=(2, 2)), exact=True)
            with force(dev, ConvChoice(body)), caps(dev, max_groups=2):
                calls.check()


@gpu
def test_more_images_times_channels_than_a_grid_axis(dev: pk.Device) -> None:
    calls = ConvCalls(dev)
    calls.add(Sizes((2, 2), (2, 2), 3, 1, 1, 23_000, padding=(1, 0, 0, 0)), exact=True)
    calls.add(Sizes((2, 1), (1, 1), 70_001, 1, 9, stride=(2, 1)), exact=True)
    with caps(dev):
        calls.check()


@gpu
def test_one_by_one(dev: pk.Device) -> None:
    """As products where pixels lie evenly, as convolutions where not."""
    calls = ConvCalls(dev)
    for layout, groups, n in itertools.product(("NCHW", "NHWC"), (1, 2), (1, 3)):
        for image in ((5, 4), (16, 33)):
            s = Sizes(image, (1, 1), n, 12, 20, groups, layout=layout)
            calls.add(s, bias=F32, activation="silu")
            calls.add(s, "conv2d_backward_input", exact=True)
            calls.add(replace(s, stride=(2, 2)), exact=True)
    with force(dev, ConvChoice(SMALLEST)):
        calls.check()


@gpu
@pytest.mark.parametrize("op", OPS)
def test_nothing_to_sum_or_write(dev: pk.Device, op: str) -> None:
    calls = ConvCalls(dev)
    bias = F32 if op != "conv2d_backward_input" else ""
    for n, c, o in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        calls.add(Sizes((5, 4), n=n, c=c, o=o), op, bias=bias, exact=True)
    calls.check()


@gpu
def test_residues_without_taps(dev: pk.Device) -> None:
    """A stride larger than the kernel: most pixels of the gradient meet no window."""
    calls = ConvCalls(dev)
    for stride, kernel in (((5, 4), (2, 3)), ((3, 100), (1, 1)), ((6, 6), (3, 3))):
        s = Sizes((13, 11), kernel, stride=stride, dilation=(2, 3))
        calls.add(s, "conv2d_backward_input", exact=True)
        calls.add(s, "conv_transpose2d", bias=F32, activation="relu")
        if stride[0] == 5:
            calls.add(s, "conv_transpose2d", output_padding=(4, 1), exact=True)
    calls.check()
