"""im2col and col2im (unfold and fold): any windows, any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference.resize import col2im, col2im_budget, im2col
from tests.harness import (
    Case,
    Form,
    assert_close,
    assert_same_bits,
    caps,
    forms,
    random_form,
    values,
)

pytestmark = pytest.mark.gpu

# overlapping, apart, equal, with common factors, as wide as the image
WINDOWS: list[dict[str, Any]] = [
    {"kernel": 3, "padding": 1},
    {"kernel": (2, 3), "stride": (2, 1)},
    {"kernel": 2, "stride": 3, "padding": (0, 2)},
    {"kernel": (3, 2), "stride": (4, 2), "padding": 2, "dilation": (2, 3)},
    {"kernel": 3, "stride": 6, "padding": 3, "dilation": 4},
    {"kernel": 5, "padding": 3},
    {"kernel": (6, 8)},
    {"kernel": 1, "stride": 2},
]
SIZE = (2, 3, 6, 8)
Calls = list[tuple[dict[str, Any], Form, Form]]


def check_im2col(dev: pk.Device, dtype: str, calls: Calls) -> None:
    case = Case(dev)
    views = []
    for windows, x_form, dst_form in calls:
        x = case.input(values(case.rng, dtype, SIZE), x_form, buffer="inputs")
        shape = im2col(np.zeros(SIZE), **windows).shape
        views.append((x, case.output(shape, dtype, dst_form, buffer="outputs")))
    case.build()

    def run() -> None:
        for (x, dst), (windows, *_) in zip(views, calls, strict=True):
            kernels.im2col(x.tensor, dst.tensor, **windows)

    for got, (x, _), (windows, *_) in zip(case.run(run), views, calls, strict=True):
        assert_same_bits(got, im2col(x.array, **windows), str(windows))


def check_col2im(dev: pk.Device, dtype: str, calls: Calls) -> None:
    case = Case(dev)
    views = []
    for windows, x_form, dst_form in calls:
        shape = im2col(np.zeros(SIZE), **windows).shape
        x = case.input(case.rng.uniform(-4, 4, shape).astype(dtype), x_form, buffer="inputs")
        views.append((x, case.output(SIZE, dtype, dst_form, buffer="outputs")))
    case.build()

    def run() -> None:
        for (x, dst), (windows, *_) in zip(views, calls, strict=True):
            kernels.col2im(x.tensor, dst.tensor, **windows)

    for got, (x, dst), (windows, *_) in zip(case.run(run), views, calls, strict=True):
        want = col2im(x.array, dst.shape, **windows)
        assert_close(got, want, col2im_budget(x.array, dst.shape, **windows), str(windows))


@pytest.mark.parametrize("dtype", ("float32", "float16", "uint8", "bool", "bfloat16"))
def test_im2col_matches_reference(dev: pk.Device, dtype: str) -> None:
    check_im2col(dev, dtype, [(w, Form(), Form(phase=p)) for w in WINDOWS for p in (0, 1)])


@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_col2im_matches_reference(dev: pk.Device, dtype: str) -> None:
    check_col2im(dev, dtype, [(w, Form(), Form(phase=p)) for w in WINDOWS for p in (0, 1)])


@pytest.mark.parametrize("check", (check_im2col, check_col2im))
def test_windows_any_layout(dev: pk.Device, check: Any) -> None:
    rng = np.random.default_rng(2)
    ins = list(forms(3 if check is check_col2im else 4, repeats=True).values())
    outs = list(forms(4 if check is check_col2im else 3, repeats=False).values())
    calls = [(WINDOWS[i % 3], f, Form()) for i, f in enumerate(ins)]
    calls += [(WINDOWS[i % 3], Form(), f) for i, f in enumerate(outs)]
    axes = (3, 4) if check is check_col2im else (4, 3)
    for i in range(6):
        pair = random_form(rng, axes[0], repeats=True), random_form(rng, axes[1], repeats=False)
        calls.append((WINDOWS[i], *pair))
    check(dev, "float32", calls)


@pytest.mark.crowd
@pytest.mark.parametrize("check", (check_im2col, check_col2im))
def test_windows_fold_a_long_grid(dev: pk.Device, check: Any) -> None:
    with caps(dev, max_groups=2):
        check(dev, "float32", [(WINDOWS[0], Form(), Form())])


def test_unfold_and_fold(dev: pk.Device) -> None:
    x = dev.rand((2, 3, 6, 8), seed=5)
    columns = pk.unfold(x, (2, 4), stride=(2, 4))
    assert columns.shape == (2, 24, 6)
    assert_same_bits(pk.fold(columns, (6, 8), (2, 4), stride=(2, 4)).numpy(), x.numpy())
    single = pk.unfold(x[0].numpy(), 3, padding=1)
    assert_same_bits(single, im2col(x.numpy()[:1], 3, padding=1)[0])
    counts = pk.fold(pk.unfold(np.ones((1, 1, 3, 3), np.float32), 3, padding=1), 3, 3, padding=1)
    assert counts.tolist() == [[[[4, 6, 4], [6, 9, 6], [4, 6, 4]]]]
    assert pk.fold(columns[0], (6, 8), (2, 4), stride=(2, 4)).shape == (3, 6, 8)
    assert pk.unfold(dev.zeros((0, 3, 4, 4)), 2).shape == (0, 12, 9)


def test_windows_reject(dev: pk.Device) -> None:
    x, columns = dev.zeros((1, 2, 4, 4)), dev.zeros((1, 8, 9))
    whole, longs = columns.astype("int32"), dev.zeros(x.shape, "int64")
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.unfold(x, 5), pk.ShapeError, r"\[unfold\] the image with its padding"),
        (lambda: pk.unfold(x[:, :, 2:], 3), pk.ShapeError, "the image with its padding"),
        (lambda: pk.unfold(x, 0), pk.ArgumentError, r"\[unfold\] kernel must be .* of 1 or"),
        (lambda: pk.unfold(x, 2, stride=(1, 2, 3)), pk.ArgumentError, "stride must be one or two"),
        (lambda: pk.unfold(x, 2, padding=-1), pk.ArgumentError, "padding must be"),
        (lambda: pk.unfold(x[0, 0], 2), pk.ShapeError, r"\(N, C, H, W\)"),
        (lambda: kernels.im2col(longs, whole, kernel=2), pk.DTypeError, "int64"),
        (lambda: pk.fold(columns, 4, 3), pk.ShapeError, "multiple of 9 taps"),
        (lambda: pk.fold(columns, 5, 2), pk.ShapeError, "columns of images"),
        (lambda: kernels.im2col(x, columns, kernel=2, stride=2), pk.ShapeError, "columns of"),
        (lambda: kernels.im2col(x, whole, kernel=2), pk.DTypeError, "dtype of x, float32"),
        (lambda: kernels.im2col(x, columns, kernel="2"), pk.ArgumentError, "kernel must be one or"),  # type: ignore[arg-type]
        (lambda: kernels.col2im(x, x, kernel=2), pk.ShapeError, "x must have axes"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
