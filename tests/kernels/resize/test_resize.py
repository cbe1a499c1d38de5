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
    calls: list[tuple[tuple[int, ...], tuple[int, ...], Form, Form, dict[str, Any]]],
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
@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("mode", ("linear", "cubic"))
def test_antialias_matches_reference(dev: pk.Device, mode: str, dtype: str) -> None:
    sizes = (*SIZES, ((31, 8), (2, 3)), ((2, 100), (3, 9)), ((40, 5), (7, 5)))
    some = (Form(), Form(phase=1))
    calls = [
        ((2, *size), (2, *out), some[i % 2], some[j % 2], {"coordinates": c, "antialias": True})
        for i, (size, out) in enumerate(sizes)
        for j, c in enumerate(COORDINATES)
    ]
    check(dev, dtype, mode, calls)


@pytest.mark.gpu
def test_antialias_any_layout(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    ins, outs = list(forms(3, repeats=True).values()), list(forms(3, repeats=False).values())
    smooth = {"antialias": True}
    calls: list[Any] = [((3, 7, 9), (3, 6, 4), f, Form(), smooth) for f in ins]
    calls += [((3, 9, 5), (3, 4, 6), Form(), f, smooth) for f in outs]
    for _ in range(4):
        forms5 = random_form(rng, 5, repeats=True), random_form(rng, 5, repeats=False)
        calls.append(((2, 1, 3, 9, 7), (2, 1, 3, 4, 2), *forms5, smooth))
    calls.append(((8, 6), (3, 5), Form(), Form(), smooth))
    channels_last = Form(order=(0, 2, 3, 1))
    calls.append(((2, 3, 9, 8), (2, 3, 4, 3), channels_last, channels_last, smooth))
    check(dev, "float32", "cubic", calls)


def _plain_filter(image: Any, rows: int, cols: int, mode: str) -> Any:
    """The formula of PIL and torch, a loop for each pixel of the result, in float64."""

    def weights(size: int, out: int, i: int) -> list[tuple[int, float]]:
        scale = max(size / out, 1.0)
        support = scale * (1 if mode == "linear" else 2)
        center = (i + 0.5) * size / out
        first = max(int(center - support + 0.5), 0)
        last = min(int(center + support + 0.5), size)
        found = []
        for k in range(first, last):
            d = abs((k - center + 0.5) / scale)
            if mode == "linear":
                w = max(1 - d, 0.0)
            elif d < 1:
                w = 1.5 * d**3 - 2.5 * d**2 + 1
            else:
                w = -0.5 * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0
            found.append((k, w))
        total = sum(w for _, w in found)
        return [(k, w / total) for k, w in found]

    height, width = image.shape
    out = np.zeros((rows, cols))
    for r, c in np.ndindex(out.shape):
        for y, wy in weights(height, rows, r):
            for x, wx in weights(width, cols, c):
                out[r, c] += wy * wx * float(image[y, x])
    return out


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ("linear", "cubic"))
def test_antialias_has_the_filter_of_pil(dev: pk.Device, mode: Any) -> None:
    image = np.random.default_rng(3).uniform(0, 255, (13, 22)).astype(np.float32)
    torchs = "bilinear" if mode == "linear" else "bicubic"
    for rows, cols in ((5, 7), (20, 4), (1, 1), (26, 44)):
        want = _plain_filter(image, rows, cols, mode)
        got = pk.resize(dev.tensor(image), (rows, cols), mode, antialias=True)
        assert np.abs(got.numpy() - want).max() < 255 * 1e-5
        same = pk.interpolate(
            dev.tensor(image[None, None]), (rows, cols), mode=torchs, antialias=True
        )
        assert_same_bits(same.numpy()[0, 0], got.numpy())
    photo = np.rint(image).astype(np.uint8)
    want = np.clip(_plain_filter(photo, 5, 7, mode), 0, 255)
    found = pk.resize(photo[:, :, None], (5, 7), mode, antialias=True, layout="hwc")[:, :, 0]
    assert found.dtype == np.uint8 and np.abs(found - want).max() < 0.5001  # type: ignore[union-attr]


@pytest.mark.gpu
def test_antialias_sees_no_pixels_beyond_its_filter(dev: pk.Device) -> None:
    """A NaN and an inf spoil the pixels near them only."""
    image = np.ones((12, 12), np.float32)
    image[1, 1], image[10, 10] = np.nan, np.inf
    got = pk.resize(dev.tensor(image), 6, antialias=True).numpy()
    spoilt = ~np.isfinite(got)
    near = np.zeros((6, 6), bool)
    near[:2, :2] = near[-2:, -2:] = True
    np.testing.assert_array_equal(spoilt, near)


def _plain_area(image: Any, rows: int, cols: int) -> Any:
    height, width = image.shape
    out = np.zeros((rows, cols))
    for r, c in np.ndindex(out.shape):
        ys = slice(r * height // rows, -(-(r + 1) * height // rows))
        xs = slice(c * width // cols, -(-(c + 1) * width // cols))
        out[r, c] = image[ys, xs].astype(np.float64).mean()
    return out


@pytest.mark.gpu
def test_area_is_the_mean_of_windows(dev: pk.Device) -> None:
    rng = np.random.default_rng(4)
    images = rng.integers(0, 256, (2, 3, 2, 13, 10), np.uint8)
    for size in ((4, 5), (13, 3), (20, 23), (1, 1)):
        want = np.array([_plain_area(i, *size) for i in images.reshape(-1, 13, 10)])
        want = want.reshape(2, 3, 2, *size)
        for given, full in ((images, want), (images[0], want[0]), (images[0, 0, 0], want[0, 0, 0])):
            t = dev.tensor(given.astype(np.float32))
            assert np.abs(pk.resize(t, size, "area").numpy() - full).max() < 255 * 1e-5
            found = pk.resize(dev.tensor(given), size, "area").numpy()
            assert found.dtype == np.uint8 and np.abs(found - full).max() < 0.5001
        last = np.moveaxis(images[0], 1, -1)
        found = pk.resize(dev.tensor(last), size, "area", layout="hwc").numpy()
        assert_same_bits(np.moveaxis(found, -1, 1), pk.resize(images[0], size, "area"))
        wide = dev.zeros((2, 3, 2, size[0], 2 * size[1]))
        view = wide[..., ::2]
        t = dev.tensor(images.astype(np.float32))
        assert pk.resize(t, size, "area", out=view) is view
        assert np.abs(view.numpy() - want).max() < 255 * 1e-5
        assert not wide[..., 1::2].numpy().any()
        torchs = pk.interpolate(t[0], size, mode="area")
        assert np.abs(torchs.numpy() - want[0]).max() < 255 * 1e-5
    for empty in ((0, 4, 4), (2, 2, 0, 4, 4)):
        assert pk.resize(dev.zeros(empty), 3, "area").shape == (*empty[:-2], 3, 3)
    signal = pk.interpolate(t[0, :, 0, 0:1], 4, mode="area").numpy()
    first = np.array([_plain_area(i[0, 0:1], 1, 4) for i in images[0]])
    assert np.abs(signal - first).max() < 255 * 1e-5


@pytest.mark.gpu
@pytest.mark.crowd
def test_resize_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        check(dev, "float32", "linear", [((2, 9, 9), (2, 40, 41), Form(), Form(), {})])
        smooth = {"antialias": True}
        check(dev, "float32", "linear", [((2, 9, 90), (2, 40, 41), Form(), Form(), smooth)])


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
    half = dev.rand((1, 4, 4), "float16", seed=0)
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
        (lambda: pk.resize(x, 8, "lanczos"), pk.ArgumentError, "linear, cubic, area but is"),  # type: ignore[arg-type]
        (lambda: pk.resize(x, 8, np.array(["a", "b"])), pk.ArgumentError, "mode must be one of"),  # type: ignore[arg-type]
        (lambda: kernels.resize(x, x, mode="area"), pk.ArgumentError, "mode must be one of"),  # type: ignore[arg-type]
        (lambda: pk.resize(x, 8, "nearest", antialias=True), pk.ArgumentError, "antialias goes"),
        (lambda: pk.resize(x, 8, antialias=1.5), pk.ArgumentError, "antialias must be"),  # type: ignore[arg-type]
        (lambda: pk.resize(x, 8, "area", antialias=True), pk.ArgumentError, "takes no coordinates"),
        (lambda: pk.resize(x, 8, "area", coordinates="asymmetric"), pk.ArgumentError, "area takes"),
        (lambda: pk.resize(x, 0, "area"), pk.ShapeError, "must have rows and columns"),
        (lambda: pk.resize(dev.zeros((2, 0, 3)), 8, antialias=True), pk.ShapeError, "have pixels"),
        (lambda: pk.resize(x, 8, coordinates="x"), pk.ArgumentError, "coordinates must be"),  # type: ignore[arg-type]
        (lambda: pk.resize(x, 8, nearest=1), pk.ArgumentError, "nearest must be"),  # type: ignore[arg-type]
        (lambda: pk.resize(x, (1, 2, 3, 4)), pk.ArgumentError, "size must be an integer or two"),
        (lambda: pk.resize(x, -1), pk.ShapeError, "sizes must be"),
        (lambda: pk.resize(dev.zeros(3), 8), pk.ShapeError, "2 or more axes"),
        (lambda: pk.resize(dev.zeros((2, 0, 3)), 8), pk.ShapeError, "must have pixels"),
        (lambda: pk.resize(dev.zeros((2, 2), "int32"), 8), pk.DTypeError, "x must be float32"),
        (lambda: pk.resize(dev.zeros((1, 65537)), (1, 65536), "nearest"), pk.LimitError, "32 bits"),
        (lambda: kernels.resize(x, dev.zeros((3, 2, 8, 8))), pk.ShapeError, "all but the last two"),
        (lambda: pk.interpolate(x), pk.ArgumentError, "either size or scale_factor"),
        (lambda: pk.interpolate(x, 3, 2.0), pk.ArgumentError, "either size or scale_factor"),
        (lambda: pk.interpolate(x, scale_factor=0), pk.ArgumentError, "above 0"),
        (lambda: pk.interpolate(x, (3,)), pk.ArgumentError, "2 axes to resize"),
        (lambda: pk.interpolate(x, 3, mode="linear"), pk.ShapeError, "3 axes for linear"),
        (lambda: pk.interpolate(x, 3, mode="cubic"), pk.ArgumentError, "mode must be one of"),
        (lambda: pk.interpolate(x, 3, antialias=True), pk.ArgumentError, "mode is .nearest"),
        (lambda: pk.interpolate(x, 3, mode="area", antialias=True),
         pk.ArgumentError, "mode is .area"),
        (lambda: pk.interpolate(x[0], 3, mode="linear", antialias=True),
         pk.ArgumentError, "mode is .linear"),
        (lambda: pk.interpolate(x, 3, mode="bilinear", align_corners=True, antialias=True),
         pk.ArgumentError, "align_corners=False"),
        (lambda: pk.interpolate(x, 3, mode="area", align_corners=True),
         pk.ArgumentError, "linear or cubic"),
        (lambda: pk.interpolate(x, 3, align_corners=True), pk.ArgumentError, "align_corners needs"),
        (lambda: pk.pixel_shuffle(x, 2), pk.ShapeError, "multiple of 4 but are 3"),
        (lambda: pk.pixel_shuffle(x, 0), pk.ArgumentError, "1 or more"),
        (lambda: pk.pixel_unshuffle(x, 3), pk.ShapeError, "multiples of 3"),
        (lambda: pk.pixel_unshuffle(x[0, 0], 2), pk.ShapeError, r"\(..., C, H, W\)"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ("nearest", "linear", "cubic"))
def test_resize_of_pictures(dev: pk.Device, mode: Any) -> None:
    """Channels last, and bytes: rounded to nearest even from what float32 images give."""
    rng = np.random.default_rng(7)
    picture = rng.integers(0, 256, (2, 9, 7, 3), np.uint8)
    values = np.moveaxis(picture.astype(np.float32), -1, -3)
    want = np.moveaxis(pk.resize(values, (5, 11), mode), -3, -1)
    found = pk.resize(picture.astype(np.float32), (5, 11), mode, layout="hwc")
    assert_same_bits(found, np.ascontiguousarray(want))
    data = np.clip(np.rint(want), 0, 255).astype(np.uint8)
    assert_same_bits(pk.resize(picture, (5, 11), mode, layout="hwc"), data)
    out = dev.zeros((2, 5, 11, 3), "uint8")
    assert pk.resize(dev.tensor(picture), (5, 11), mode, layout="hwc", out=out) is out
    assert_same_bits(out.numpy(), data)
    assert_same_bits(pk.resize(picture[0, :, :, 0], (5, 11), mode), data[0, :, :, 0])
    for rgb in (picture, picture[0]):
        with pytest.raises(pk.ArgumentError, match="looks like an image with its channels last"):
            pk.resize(rgb, 3)
        assert pk.resize(rgb, 3, layout="chw").shape == (*rgb.shape[:-2], 3, 3)
    assert pk.resize(picture[:, :3], 3).shape == (2, 3, 3, 3)  # three channels, seven rows
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.resize(picture[0, 0], 3, layout="hwc"), pk.ShapeError, "3 or more axes"),
        (lambda: pk.resize(picture, 3, layout="hw"), pk.ArgumentError, "layout must be chw or hwc"),  # type: ignore[call-overload]
        (lambda: pk.resize(picture.astype("int32"), 3), pk.DTypeError, "or uint8 but is int32"),
    ]
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
