"""Convolutions of halves on matrix units, emulated where there are none: every text, any arguments,
splits, exactness, and the choice."""

from __future__ import annotations

import importlib
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated.bodies import implicit_gemm_mma
from pykernels.dtypes import dtype_of
from pykernels.forcing import force, with_forced
from pykernels.kernels import conv2d, conv2d_backward_weight
from pykernels.plans.conv import matrix
from pykernels.plans.conv.conv2d import plan
from pykernels.plans.conv.conv2d_backward_input import plan as plan_input
from pykernels.plans.conv.conv2d_backward_weight import plan as plan_weight
from pykernels.plans.conv.select import ConvChoice
from pykernels.plans.conv.select_mma import TILES, TILES_WEIGHT
from pykernels.plans.conv.select_weight import WeightGradChoice
from pykernels.plans.matmul.select import GemmChoice
from pykernels.reference.conv import conv2d as reference
from pykernels.reference.conv import conv2d_backward_weight as weight_reference
from pykernels.reference.conv import (
    conv2d_backward_weight_budget,
    conv2d_budget,
    window_budget,
)
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View, contiguous_layout
from pykernels.tuning import named
from tests.conftest import FULL
from tests.emulation import UNITS, emulated
from tests.harness import Form, assert_close, random_form
from tests.kernels.conv.conv_calls import F16, F32, ConvCalls, Sizes, random_sizes
from tests.kernels.conv.test_conv2d_backward_weight import Call, check

gpu = pytest.mark.gpu
by_weight_plan = importlib.import_module("pykernels.plans.conv.conv2d_backward_weight")
OPS = ("conv2d", "conv2d_backward_input", "conv_transpose2d")
SMALL, SMALL_WEIGHT = "implicit_gemm_mma/32x32", "conv_weight_mma/32x32"
HALVES = {F16: (F16, F16, F16), F32: (F16, F16, F32)}


@pytest.fixture
def units(dev: pk.Device) -> Any:
    """A device whose plans see matrix units."""
    if "shader-f16" not in dev.features:
        pytest.skip("halves are f32 here before a plan sees them")
    # Convolutions that are products are tested elsewhere.
    with (
        emulated(dev, "implicit_gemm_mma", "conv_weight_mma"),
        force(dev, GemmChoice("mul_mat/32")),
    ):
        yield dev


def _affordable(dev: pk.Device, tile: str) -> None:
    matrix = dev._context.caps.matrix
    if not tile.endswith("/32x32") and matrix is not None and matrix.dialect == "emulated":
        pytest.skip("software drivers take minutes to compile large tiles emulated")


# -- every text -----------------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("dst", (F32, F16))
@pytest.mark.parametrize("layout", ("NCHW", "NHWC"))
@pytest.mark.parametrize("tile", TILES)
def test_tile_at_its_edges(units: pk.Device, tile: str, layout: str, dst: str) -> None:
    """Channels and pixels around the sizes of the tile."""
    _affordable(units, tile)
    own = TILES[tile]
    rows, cols = max(own.BM, own.BN), max(own.BM, own.BN)
    calls = ConvCalls(units)
    shapes = (
        (rows, (8, cols // 8)), (rows + 4, (cols + 1, 1)), (rows - 1, (1, cols - 1)),
        (3, (2, 3)), (8, (6, 12)),
    )  # fmt: skip
    for (o, image), c in zip(shapes, (32, 5, 40, 64, 8), strict=True):
        for exact in (True, False):
            s = Sizes(image, (3, 3), 2, c, o, padding=(1, 1, 2, 1), layout=layout)
            calls.add(s, kinds=HALVES[dst], exact=exact, bias=F16 if exact else "")
    s = Sizes((9, 8), (2, 3), 3, 16, 8, 2, (2, 1), (0, 3, 1, 0), (1, 2), layout)
    calls.add(s, kinds=HALVES[dst], activation="silu", scale=0.5, bias=F32)
    with force(units, ConvChoice(tile)):
        calls.check(f"{tile} {layout}")


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("tile", TILES_WEIGHT)
def test_weight_at_the_edges_of_a_tile(units: pk.Device, tile: str) -> None:
    _affordable(units, tile)
    own = TILES_WEIGHT[tile]
    calls = [
        Call(c=c, o=o, n=n, image=image, kernel=kernel, stride=stride, layout=layout, groups=groups,
             dtypes=HALVES[dst], padding=(0, 1, 1, 0))
        for layout, dst in (("NCHW", F32), ("NHWC", F16))
        for c, o, n, image, kernel, stride, groups in (
            (own.BN // 2, own.BM, 1, (5, 8), (2, 2), 1, 1),
            (5, own.BM + 1, 2, (9, 8), (3, 3), 1, 1),
            (own.BN + 4, own.BM - 1, 2, (4, 4), (1, 1), 1, 1),
            (16, 8, 3, (9, 7), (3, 2), (2, 1), 2),
            (1, 1, 1, (2, 2), (1, 1), 1, 3),
        )
    ]  # fmt: skip
    for splits in (1, 3):
        with force(units, WeightGradChoice(tile, splits)):
            check(units, calls)
            check(units, calls, real=True)


# -- any arguments --------------------------------------------------------------------------------


@gpu
@pytest.mark.parametrize("seed", range(16 if FULL else 2))
def test_random_arguments(units: pk.Device, seed: int) -> None:
    """Sets of arguments for all four kernels, any layout of the tensors."""
    calls, weights = ConvCalls(units, seed), []
    rng = calls.rng
    for i in range(10):
        s = random_sizes(rng)
        kinds = HALVES[F32 if rng.random() < 0.5 else F16]
        form = {
            f"{name}_form": random_form(rng, 4, repeats=name != "dst")
            for name in ("x", "w", "dst")
            if rng.random() < 0.4
        }
        for op in OPS:
            if op == "conv_transpose2d" and min(calls.transposed(s, (0, 0))) < 1:
                continue
            bias = str(rng.choice(["", F32, F16])) if op != "conv2d_backward_input" else ""
            calls.add(s, op, kinds, exact=i % 2 == 0, bias=bias, **form)
        forms = tuple(random_form(rng, 4, repeats=n < 2) for n in range(3))
        weights.append(
            Call(s.n, s.c, s.o, s.image, s.kernel, s.stride, s.padding, s.dilation, s.groups,
                 s.layout, kinds, forms)  # type: ignore[arg-type]
        )  # fmt: skip
    splits = 1 + seed % 2
    with force(units, ConvChoice(SMALL, splits), WeightGradChoice(SMALL_WEIGHT, splits)):
        calls.check(f"seed {seed}")
        check(units, weights, seed=seed)


@gpu
def test_splits_and_epilogues(units: pk.Device) -> None:
    for splits in (1, 2, 5):
        calls = ConvCalls(units)
        for layout, c in itertools.product(("NCHW", "NHWC"), (3, 40)):
            s = Sizes((6, 6), c=c, o=12, padding=(1, 1, 1, 1), layout=layout)
            calls.add(s, kinds=HALVES[F32], exact=True)
            calls.add(s, "conv2d_backward_input", HALVES[F16], exact=True)
            calls.add(s, kinds=HALVES[F16], exact=True, bias=F32, residual=F16, activation="relu")
            calls.add(replace(s, stride=(2, 1)), kinds=HALVES[F32], residual=F32, scale=0.5,
                      residual_form=Form(steps=(1, 2, -1, 1), phase=1))  # fmt: skip
            bias = Form(steps=(-2,))
            calls.add(replace(s, groups=2), kinds=HALVES[F16], bias=F16, bias_form=bias, scale=0.5,
                      activation="gelu")  # fmt: skip
        with force(units, ConvChoice(SMALL, splits)):
            calls.check(f"{splits} splits")


@gpu
def test_images_that_are_read_as_they_are(units: pk.Device) -> None:
    """Channels in whole units next to each other and no padding: nothing of the image is packed."""
    x, w = (
        units.rand((2, 7, 9, 32), "float16", seed=1),
        units.rand((8, 32, 3, 3), "float16", seed=2),
    )
    dst = units.empty((2, 5, 7, 8), "float16")
    with force(units, ConvChoice(SMALL)):
        conv2d(x, w, dst, layout="NHWC")
    want = reference(x.numpy(), w.numpy(), layout="NHWC")
    size = reference(np.abs(x.numpy()), np.abs(w.numpy()), layout="NHWC")
    bound = window_budget(size, 288, layout="NHWC") + 2.0**-11 * np.abs(want)
    assert (np.abs(dst.numpy() - want) <= bound).all()
    given = with_forced(CAPS, ConvChoice(SMALL))
    views = (_view(0, 2, 7, 9, 32), _view(1, 8, 32, 3, 3), None, None, _view(2, 2, 5, 7, 8))
    steps = plan(given, Scratch(), *views, layout="NHWC")  # type: ignore[arg-type]
    assert [step.body.name for step in steps] == ["conv_units", "implicit_gemm_mma"]


@gpu
@pytest.mark.parametrize("splits", (1, 2))
def test_what_is_read_as_it_is_lies_anyhow(units: pk.Device, splits: int) -> None:
    """Rows and columns backwards, gaps between pixels and between taps: channels run."""
    last = (0, 2, 3, 1)
    images = [
        {"x_form": Form(steps=(1, rows, columns, 1), gap=gap)}
        for rows, columns, gap in ((-1, 1, 0), (1, -1, 0), (-2, -1, 32))
    ]
    weights = [
        {"w_form": Form(last, steps, gap)}
        for steps, gap in (((1, 1, 1, 1), 32), ((1, 1, -1, -1), 0), ((1, 1, -1, 1), 0),
                           ((1, 1, 1, 2), 8), ((-1, 1, 0, 1), 0))
    ]  # fmt: skip
    calls = ConvCalls(units)
    for c, form in itertools.product((32, 64), images + weights):
        s = Sizes((5, 6), (2, 3), 2, c, 8, layout="NHWC", dilation=(2, 1))
        calls.add(s, kinds=HALVES[F32], exact=True, **form)
    by_weight = [
        Call(c=32, o=8, image=(5, 6), kernel=(2, 3), padding=0, layout="NHWC", dtypes=HALVES[F32],
             forms=(Form(), form["x_form"], Form()))
        for form in images
    ]  # fmt: skip
    with force(units, ConvChoice(SMALL, splits), WeightGradChoice(SMALL_WEIGHT, splits)):
        calls.check()
        check(units, by_weight)


@gpu
def test_a_large_value_stays_in_its_windows(units: pk.Device) -> None:
    x = np.ones((2, 16, 5, 5), np.float16)
    x[:, :, 0, 0] = np.nan
    x[1, :, 4, 4] = np.inf
    w = np.ones((9, 16, 3, 3), np.float16)
    want = reference(x, w, padding=2)
    dst = units.empty(want.shape)
    with force(units, ConvChoice(SMALL)):
        conv2d(units.tensor(x), units.tensor(w), dst, padding=2)
    np.testing.assert_array_equal(dst.numpy(), want.astype(np.float32))


@gpu
def test_weight_keeps_infinities(units: pk.Device) -> None:
    """What fills up a tile is zero in both operands: no infinity is multiplied with it."""
    dst = units.empty((32, 32, 1, 1))
    for which, pixel in itertools.product((0, 1), (0, 2)):
        given = [np.ones((1, 32, 3, 3), np.float16) for _ in range(2)]
        given[which][0, 2, pixel, pixel] = np.inf
        want = np.full(dst.shape, 9.0)
        want[(slice(None), 2) if which else 2] = np.inf
        with force(units, WeightGradChoice(SMALL_WEIGHT)):
            conv2d_backward_weight(*map(units.tensor, given), dst)  # type: ignore[arg-type]
        np.testing.assert_array_equal(dst.numpy(), want)


@gpu
def test_numbers_of_one_sign_need_slices(units: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The units cut what they add: whole sums miss the bound, and slices keep it."""
    rng = np.random.default_rng(3)
    x, w = (rng.uniform(0.5, 1, s).astype(np.float16) for s in ((1, 912, 4, 8), (32, 912, 3, 3)))
    want = reference(x, w)
    gate = window_budget(want, 9 * 912)
    dy, image = (rng.uniform(0.5, 1, (2, 8, 64, 64)).astype(np.float16) for _ in range(2))
    shape = (8, 8, 1, 1)
    want_w = weight_reference(dy, image, shape)
    gate_w = conv2d_backward_weight_budget(dy, image, shape)

    def worst(*more: object) -> tuple[float, float]:
        dst, dw = units.empty(want.shape), units.empty(shape)
        with force(units, ConvChoice(SMALL), WeightGradChoice(SMALL_WEIGHT), *more):
            conv2d(units.tensor(x), units.tensor(w), dst, precision="high")
            conv2d_backward_weight(units.tensor(dy), units.tensor(image), dw)
        found = ((dst, want, gate), (dw, want_w, gate_w))
        forward, by_weight = ((np.abs(t.numpy() - v) / g).max() for t, v, g in found)
        return float(forward), float(by_weight)

    assert max(worst()) < 1
    for module in (matrix, by_weight_plan):
        monkeypatch.setattr(module, "longest_sum", lambda *_: 1 << 20)
    assert min(worst(GemmChoice("mul_mat/64"))) > 1  # other choices: plans are made again


@gpu
def test_precision_says_how_sums_are_bounded(units: pk.Device) -> None:
    """Numbers of one sign: "fast" leaves the bound of None and "high", and keeps its own."""
    rng = np.random.default_rng(4)
    x, w = (rng.uniform(0.5, 1, s).astype(np.float16) for s in ((1, 912, 4, 8), (32, 912, 3, 3)))
    want = reference(x, w)
    found: dict[str | None, Any] = {}
    with force(units, ConvChoice(SMALL)):
        for precision in (None, "high", "fast"):
            given = [units.tensor(t) for t in (x, w)]
            out = units.empty(want.shape)
            found[precision] = pk.conv2d(*given, precision=precision, out=out).numpy()  # type: ignore[call-overload]
    np.testing.assert_array_equal(found[None], found["high"])
    error = np.abs(found["fast"] - want)
    assert (np.abs(found["high"] - want) <= window_budget(want, 9 * 912)).all()
    assert (error > window_budget(want, 9 * 912)).any()
    assert (error <= window_budget(want, 9 * 912, in_one_piece=True)).all()


# -- the choice -----------------------------------------------------------------------------------

CAPS = Caps(
    True, True, 256, 1024, 49152, (1 << 31) - 4, 65535, named("nvidia-h200"),
    matrix=replace(UNITS, dialect="subgroup_matrix"),
)  # fmt: skip


def _view(slot: int, *shape: int, dtype: str = F16) -> View:
    found = contiguous_layout(shape, dtype_of(dtype))
    return View(slot, found.dtype, found.shape, found.strides, 0)


def _bodies(n: int, c: int, h: int, o: int, k: int = 3, given: Caps = CAPS, dtype: str = F16,
            **options: Any) -> list[list[str]]:  # fmt: skip
    """The bodies of the forward call and of both gradients."""
    pad = {"padding": k // 2, **options}
    x, w = _view(0, n, c, h, h, dtype=dtype), _view(1, o, c // options.get("groups", 1), k, k,
                                                    dtype=dtype)  # fmt: skip
    y = _view(2, n, o, h, h, dtype=dtype)
    found = [
        plan(given, Scratch(), x, w, None, None, y, **pad),
        plan_input(given, Scratch(), y, w, x, **pad),
        plan_weight(given, Scratch(), y, x, w, **pad),
    ]
    return [[step.body.name for step in steps] for steps in found]


@gpu
def test_halves_in_one_piece_stay_within_their_bound(units: pk.Device) -> None:
    """Of one sign: by default a float16 result may lose what one piece loses; "high" keeps the
    bound of float32 results."""
    rng = np.random.default_rng(5)
    x, w = (rng.uniform(0.05, 0.1, s).astype(F16) for s in ((1, 912, 4, 8), (32, 912, 3, 3)))
    want = reference(x, w)
    found = {}
    with force(units, ConvChoice(SMALL)):
        for precision in (None, "high", "fast"):
            out = units.empty(want.shape, "float16")
            conv2d(units.tensor(x), units.tensor(w), out, precision=precision)  # type: ignore[arg-type]
            found[precision] = out.numpy()
    np.testing.assert_array_equal(found[None], found["fast"])
    assert (found[None] != found["high"]).any()
    for precision, got in found.items():
        bound = conv2d_budget(x, w, precision=precision, dtype=np.dtype(F16))
        assert_close(got, want, bound, str(precision))


@pytest.mark.parametrize("dst", (F16, F32))
@pytest.mark.parametrize("k", (1, 3))
def test_sums_in_one_piece(k: int, dst: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of float16 take them by default, those of float32 with "fast" only; gradients of
    windows that are no products never do."""
    slices: list[int] = []
    make = implicit_gemm_mma.step

    def noted(*views: Any, **params: Any) -> Any:
        slices.append(params["slice"])
        return make(*views, **params)

    monkeypatch.setattr(implicit_gemm_mma, "step", noted)
    x, w, y = (
        _view(0, 4, 512, 32, 32), _view(1, 512, 512, k, k), _view(2, 4, 512, 32, 32, dtype=dst)
    )  # fmt: skip
    one = {}
    for precision in (None, "high", "fast"):
        steps = plan(CAPS, Scratch(), x, w, None, None, y, padding=k // 2, precision=precision)
        step = next(s for s in steps if s.body.name in ("implicit_gemm_mma", "gemm_mma"))
        axes = dict(zip(step.body.axes, step.axes, strict=True))
        one[precision] = not axes["SLICES"] if k == 1 else slices[-1] >= 9 * 512
    assert one == {None: dst == F16, "high": False, "fast": True}
    if k > 1:
        slices.clear()
        plan_input(CAPS, Scratch(), _view(0, 4, 512, 32, 32), w, y, padding=1)
        assert slices
        assert max(slices) < 9 * 512


def test_precision_of_other_devices_changes_nothing() -> None:
    """No operand of a convolution is rounded."""
    for k, dtype in ((1, F16), (1, F32), (3, F16)):
        x, w, y = (
            _view(i, *s, dtype=dtype)
            for i, s in enumerate(((4, 512, 32, 32), (512, 512, k, k), (4, 512, 32, 32)))
        )
        plain = replace(CAPS, matrix=None)
        given = plain if dtype == F16 else CAPS
        texts = {
            tuple((s.body.name, s.axes) for s in plan(
                given, Scratch(), x, w, None, None, y, padding=k // 2, precision=precision
            ))
            for precision in (None, "high", "fast")
        }  # fmt: skip
        assert len(texts) == 1


def test_choose() -> None:
    for n, c, h in ((16, 64, 56), (16, 256, 14), (1, 320, 64)):
        forward, by_input, by_weight = _bodies(n, c, h, c)
        assert "implicit_gemm_mma" in forward
        assert "implicit_gemm_mma" in by_input
        assert "conv_weight_mma" in by_weight
        assert _bodies(n, c, h, c, dtype=F32) == _bodies(
            n, c, h, c, dtype=F32, given=replace(CAPS, matrix=None)
        )
    first = _bodies(16, 3, 224, 64, 7)[:2]
    deep, few = _bodies(16, 144, 56, 144, groups=144), _bodies(1, 8, 4, 8)
    without = _bodies(1, 320, 64, 320, given=replace(CAPS, matrix=None))
    for bodies in (*first, *deep, *few, *without):
        assert not {"implicit_gemm_mma", "conv_weight_mma"} & {*bodies}
