"""resize, interpolate and pixel_shuffle: corner rules, layouts, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference.resize import resize as reference
from pykernels.reference.resize import resize_budget as budget
from tests.harness import Case, Form, assert_close, assert_same_bits, caps, forms, random_form

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
# Up, down, both, to and from one pixel, and a ratio whose halves are exact.
SIZES = (((5, 7), (10, 21)), ((9, 8), (4, 3)), ((3, 11), (7, 4)), ((4, 6), (1, 1)),
         ((1, 1), (3, 5)), ((4, 4), (2, 8)))  # fmt: skip


def check(
    dev: pk.Device, dtype: str, mode: str,
    calls: list[tuple[tuple[int, ...], tuple[int, ...], Form, Form, dict[str, str]]],
) -> None:  # fmt: skip
    """Several calls in one case: shapes, layouts and options of each."""
    case = Case(dev)
    views = []
    for shape, out, x_form, dst_form, _ in calls:
        values = case.rng.uniform(-4, 4, shape).astype(dtype)
        x = case.input(values, x_form, buffer="inputs")
        views.append((x, case.output(out, dtype, dst_form, buffer="outputs")))
    case.build()

    def run() -> None:
        for (x, dst), (*_, options) in zip(views, calls, strict=True):
            kernels.resize(x.tensor, dst.tensor, mode=mode, **options)  # type: ignore[arg-type]

    for got, (x, dst), (*_, options) in zip(case.run(run), views, calls, strict=True):
        want = reference(x.array, dst.shape, mode, **options)
        what = f"{mode} {x.shape} to {dst.shape} {options}"
        if mode == "nearest":
            assert_same_bits(got, want.astype(dtype), what)
        else:
            assert_close(got, want, budget(x.array, dst.shape, mode, **options), what)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("mode", MODES)
def test_resize_matches_reference(dev: pk.Device, mode: str, dtype: str) -> None:
    rules = [{"coordinates": c} for c in COORDINATES]
    if mode == "nearest":
        rules = [{**r, "nearest": n} for r in rules for n in NEAREST]
    some = (Form(), Form(phase=1))
    calls = [
        ((2, *size), (2, *out), some[i % 2], some[j % 2], rule)
        for i, (size, out) in enumerate(SIZES)
        for j, rule in enumerate(rules)
    ]
    check(dev, dtype, mode, calls)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
def test_resize_any_layout(dev: pk.Device, mode: str) -> None:
    rng = np.random.default_rng(1)
    ins, outs = list(forms(3, repeats=True).values()), list(forms(3, repeats=False).values())
    calls: list[Any] = [((3, 4, 5), (3, 6, 8), f, Form(), {}) for f in ins]
    calls += [((3, 4, 5), (3, 7, 3), Form(), f, {}) for f in outs]
    for _ in range(4):
        forms5 = random_form(rng, 5, repeats=True), random_form(rng, 5, repeats=False)
        calls.append(((2, 1, 3, 4, 3), (2, 1, 3, 5, 9), *forms5, {}))
    calls.append(((4, 6), (5, 9), Form(), Form(), {}))
    channels_last = Form(order=(0, 2, 3, 1))
    calls.append(((2, 3, 4, 5), (2, 3, 8, 11), channels_last, channels_last, {}))
    check(dev, "float32", mode, calls)


@pytest.mark.gpu
@pytest.mark.crowd
def test_resize_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        check(dev, "float32", "linear", [((2, 9, 9), (2, 40, 41), Form(), Form(), {})])


# arange(6).reshape(1, 1, 2, 3) to (3, 4) by the formulas in the docs of torch.nn.functional.
TORCH = {
    ("bilinear", False): [[0, 0.625, 1.375, 2], [1.5, 2.125, 2.875, 3.5], [3, 3.625, 4.375, 5]],
    ("bilinear", True): [[0, 2 / 3, 4 / 3, 2], [1.5, 13 / 6, 17 / 6, 3.5], [3, 11 / 3, 13 / 3, 5]],
    ("nearest", False): [[0, 0, 1, 2], [0, 0, 1, 2], [3, 3, 4, 5]],
    ("nearest-exact", False): [[0, 1, 1, 2], [3, 4, 4, 5], [3, 4, 4, 5]],
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize(("mode", "aligned"), TORCH)
def test_interpolate_has_torchs_corners(dev: pk.Device, mode: str, aligned: bool) -> None:
    x = dev.tensor(np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3))
    got = pk.interpolate(x, (3, 4), mode=mode, align_corners=aligned).numpy()[0, 0]
    assert np.abs(got - np.array(TORCH[mode, aligned])).max() < 1e-6


@pytest.mark.gpu
def test_interpolate_sizes(dev: pk.Device) -> None:
    x = dev.rand((2, 3, 5, 7), seed=1)
    for factor, size in ((2, (10, 14)), ((1.5, 0.5), (7, 3))):
        got = pk.interpolate(x, scale_factor=factor, mode="bicubic")
        assert_same_bits(got.numpy(), pk.interpolate(x, size, mode="bicubic").numpy())
    signal = pk.interpolate(x[0], 11, mode="linear", align_corners=True)
    image = pk.resize(x[0][:, :, None], (1, 11), coordinates="align_corners")
    assert_same_bits(signal.numpy(), image.numpy()[:, :, 0])
    half = dev.rand((1, 4, 4), "float16")
    out = dev.empty((1, 8, 8), "float16")
    assert pk.resize(half, 8, out=out) is out and pk.resize(half.numpy(), (2, 3)).shape == (1, 2, 3)
    assert pk.resize(dev.zeros((0, 4, 4)), 8).shape == (0, 8, 8)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ("float32", "float16", "uint8"))
def test_pixel_shuffle(dev: pk.Device, dtype: str) -> None:
    """torch's definition by indices, and back."""
    x = np.random.default_rng(0).integers(0, 99, (2, 12, 3, 5)).astype(dtype)
    r = 2
    want = np.empty((2, 3, 6, 10), dtype)
    for c, h, w in np.ndindex(want.shape[1:]):
        want[:, c, h, w] = x[:, c * r * r + (h % r) * r + w % r, h // r, w // r]
    t = dev.tensor(x)
    assert_same_bits(pk.pixel_shuffle(t, r).numpy(), want)
    assert_same_bits(pk.pixel_unshuffle(pk.pixel_shuffle(t, r), r).numpy(), x)
    wide = dev.zeros((2, 3, 6, 20), dtype)  # type: ignore[arg-type]
    view = wide[..., ::2]
    assert pk.pixel_shuffle(t[:, :, ::-1], r, out=view) is view
    turned = pk.pixel_shuffle(np.ascontiguousarray(x[:, :, ::-1]), r)
    assert_same_bits(view.numpy(), turned)
    assert not wide[..., 1::2].numpy().any()


@pytest.mark.gpu
def test_resize_rejects(dev: pk.Device) -> None:
    x = dev.zeros((2, 3, 4, 4))
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.resize(x, 8, "area"), pk.ArgumentError, "mode must be one of nearest"),  # type: ignore[arg-type]
        (lambda: pk.resize(x, 8, coordinates="x"), pk.ArgumentError, "coordinates must be"),  # type: ignore[arg-type]
        (lambda: pk.resize(x, 8, nearest=1), pk.ArgumentError, "nearest must be"),  # type: ignore[arg-type]
        (lambda: pk.resize(x, (1, 2, 3)), pk.ArgumentError, "size must be an integer or two"),
        (lambda: pk.resize(x, -1), pk.ShapeError, "sizes must be"),
        (lambda: pk.resize(dev.zeros(3), 8), pk.ShapeError, "two or more axes"),
        (lambda: pk.resize(dev.zeros((2, 0, 3)), 8), pk.ShapeError, "must have pixels"),
        (lambda: pk.resize(dev.zeros((2, 2), "int32"), 8), pk.DTypeError, "float32 or float16"),
        (lambda: pk.resize(dev.zeros((1, 65537)), (1, 65536), "nearest"), pk.LimitError, "32 bits"),
        (lambda: kernels.resize(x, dev.zeros((3, 2, 8, 8))), pk.ShapeError, "all but the last two"),
        (lambda: pk.interpolate(x), pk.ArgumentError, "either size or scale_factor"),
        (lambda: pk.interpolate(x, 3, 2.0), pk.ArgumentError, "either size or scale_factor"),
        (lambda: pk.interpolate(x, scale_factor=0), pk.ArgumentError, "above 0"),
        (lambda: pk.interpolate(x, (3,)), pk.ArgumentError, "2 axes to resize"),
        (lambda: pk.interpolate(x, 3, mode="linear"), pk.ShapeError, "3 axes for linear"),
        (lambda: pk.interpolate(x, 3, mode="area"), pk.ArgumentError, "mode must be one of"),
        (lambda: pk.interpolate(x, 3, align_corners=True), pk.ArgumentError, "align_corners goes"),
        (lambda: pk.pixel_shuffle(x, 2), pk.ShapeError, "multiple of 4 but are 3"),
        (lambda: pk.pixel_shuffle(x, 0), pk.ArgumentError, "from 1 up"),
        (lambda: pk.pixel_unshuffle(x, 3), pk.ShapeError, "multiples of 3"),
        (lambda: pk.pixel_unshuffle(x[0, 0], 2), pk.ShapeError, r"\(..., C, H, W\)"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
