"""Pools and their gradients against the reference: every body, any layout, special values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.dtypes import DTYPES
from pykernels.plans.pool import max_pool2d as plans
from pykernels.plans.pool.windows import output_size
from pykernels.reference import pool as reference
from pykernels.steps import Caps, Scratch
from pykernels.tensors.layout import View
from pykernels.tuning import named
from tests.harness import Case, Form, assert_close, assert_same, caps, forms, random_form

Array = np.ndarray[Any, Any]
gpu = pytest.mark.gpu

# The usual windows, which have a body, and any others: apart, unlike, with gaps, of one element.
USUAL: list[dict[str, Any]] = [
    {"kernel": 2},
    {"kernel": 3, "stride": 2, "padding": 1},
    {"kernel": 3, "stride": 2},
    {"kernel": 3, "stride": 1, "padding": 1},
]
OTHERS: list[dict[str, Any]] = [
    {"kernel": 5, "stride": 1, "padding": 2},
    {"kernel": (2, 3), "stride": (3, 1), "padding": (1, 0)},
    {"kernel": 3, "stride": 2, "padding": (0, 1)},
    {"kernel": 2, "padding": 1},
    {"kernel": 1, "stride": 2},
    {"kernel": (3, 2), "stride": (2, 3), "padding": (2, 1), "dilation": (2, 3)},
    {"kernel": 2, "stride": 1, "padding": 2, "dilation": 4},
]
# Vectors of columns, of channels, neither; the last one has windows that are rounded up past them.
SIZES = ((2, 3, 8, 12), (1, 4, 7, 9), (2, 2, 5, 4))
CONTIGUOUS = Form()
LAST = Form(order=(0, 2, 3, 1))  # channels are neighbours


def pair(windows: dict[str, Any], name: str, default: Any) -> Any:
    value = windows.get(name, default)
    return value if isinstance(value, tuple) else (value, value)


def result_shape(x: tuple[int, ...], windows: dict[str, Any], ceil: bool) -> tuple[int, ...]:
    k, p, d = (pair(windows, *v) for v in (("kernel", 1), ("padding", 0), ("dilation", 1)))
    s = pair(windows, "stride", k)
    sizes = [output_size(x[2 + a], k[a], s[a], p[a], d[a], ceil) for a in range(2)]
    return (*x[:2], *sizes)


def beyond_half(windows: dict[str, Any]) -> bool:
    """Is there more padding than half of a window? Means take it, maxima do not."""
    k, p, d = (pair(windows, *v) for v in (("kernel", 1), ("padding", 0), ("dilation", 1)))
    return any(2 * p[a] > d[a] * (k[a] - 1) + 1 for a in range(2))


def small_windows(axes: int, top: int) -> Iterator[tuple[tuple[int, ...], dict[str, Any], bool]]:
    """Images and windows of all small sizes: of one row, or with as many rows as columns."""
    for size, k, d, s in product(*(range(1, n + 1) for n in (top, top, 2, 2))):
        for p, ceil in product(range(k + 1 if d == 1 else k), (False, True)):
            windows = {"kernel": k, "stride": s, "padding": p, "dilation": d}
            x = (1, 2, size, size)
            if axes == 1:
                x = (1, 2, 1, size)
                both = {n: (int(n != "padding"), v) for n, v in windows.items()}
                windows = dict[str, Any](both)
            if not ceil or result_shape(x, windows, True) != result_shape(x, windows, False):
                yield x, windows, ceil


class Calls:
    """Pools of one dtype and their gradients, in one case."""

    def __init__(self, dev: pk.Device, dtype: str) -> None:
        if dtype == "float16" and "shader-f16" not in dev.features:
            pytest.skip("computed by the texts of float32")
        self.case, self.dtype = Case(dev), dtype
        self.calls: list[Any] = []
        self.wants: list[Any] = []

    def add(
        self, shape: tuple[int, ...], windows: dict[str, Any] | tuple[int, int],
        x_form: Form = CONTIGUOUS, dst_form: Form = CONTIGUOUS, *, ceil: bool = False,
    ) -> None:  # fmt: skip
        """All pools of these windows, or those that divide images into so many; images are laid out
        by x_form, results by dst_form."""
        adaptive = isinstance(windows, tuple)
        options: dict[str, Any] = {} if isinstance(windows, tuple) else windows
        out = result_shape(shape, options, ceil)
        if isinstance(windows, tuple):
            out = (*shape[:2], *windows)
        if min(out) < 1:
            return
        name = "adaptive_{}_pool2d" if adaptive else "{}_pool2d"
        x = self.case.rng.integers(-9, 10, shape).astype(self.dtype)
        dy = self.case.rng.integers(-9, 10, out).astype(self.dtype)
        if not beyond_half(options):
            largest, index = getattr(reference, name.format("max"))(x, out, index=dy, **options)
            self._maxima(name.format("max"), x, dy, index, largest, options, x_form, dst_form)
        if options.get("dilation", 1) != 1:
            return
        options = {k: v for k, v in options.items() if k != "dilation"}
        for extra in ({}, {"count_include_pad": False}, {"divisor_override": -3})[
            : 1 if adaptive else 3
        ]:
            self._means(name.format("avg"), x, dy, {**options, **extra}, x_form, dst_form)

    def _maxima(
        self, name: str, x: Array, dy: Array, index: Array, largest: Array, options: Any,
        x_form: Form, dst_form: Form,
    ) -> None:  # fmt: skip
        case, dtype = self.case, self.dtype
        found = [case.output(dy.shape, dtype, dst_form, buffer="outputs") for _ in range(2)]
        at = case.output(dy.shape, "int32", dst_form, buffer="positions")
        dx = case.output(x.shape, dtype, x_form, buffer="outputs")
        ins = [case.input(a, f, buffer="inputs")
               for a, f in ((x, x_form), (dy, dst_form), (index, dst_form))]  # fmt: skip
        run, back = getattr(kernels, name), getattr(kernels, f"{name}_backward")

        def call() -> None:
            run(ins[0].tensor, found[0].tensor, **options)
            run(ins[0].tensor, found[1].tensor, index=at.tensor, **options)
            back(ins[1].tensor, ins[2].tensor, dx.tensor, **options)

        gradient = getattr(reference, f"{name}_backward")(dy, index, x.shape, **options)
        self.calls.append(call)
        told = f"{name} {x.shape} {options}"
        self.wants += [
            (o, w, None, told) for o, w in zip((*found, at), (largest, largest, index), strict=True)
        ]
        bound = getattr(reference, f"{name}_backward_budget")(dy, index, x.shape, **options)
        self.wants.append((dx, gradient, bound, f"{name}_backward {x.shape} {options}"))

    def _means(
        self, name: str, x: Array, dy: Array, options: Any, x_form: Form, dst_form: Form
    ) -> None:
        case = self.case
        outs = [(dy.shape, dst_form), (x.shape, x_form)]
        dst, dx = (case.output(s, self.dtype, f, buffer="outputs") for s, f in outs)
        tx, tdy = (case.input(a, f, buffer="inputs") for a, f in ((x, x_form), (dy, dst_form)))

        def call() -> None:
            getattr(kernels, name)(tx.tensor, dst.tensor, **options)
            getattr(kernels, f"{name}_backward")(tdy.tensor, dx.tensor, **options)

        self.calls.append(call)
        for got, a, op in ((dst, x, name), (dx, dy, f"{name}_backward")):
            want = getattr(reference, op)(a, got.shape, **options)
            bound = getattr(reference, f"{op}_budget")(a, got.shape, **options)
            self.wants.append((got, want, bound, f"{op} {x.shape} {options}"))

    def check(self) -> None:
        self.case.build()
        got = self.case.run(lambda: [call() for call in self.calls])
        outputs = [o for o in self.case.operands if o.output]
        for o, want, bound, told in self.wants:
            found = got[outputs.index(o)]
            if bound is None:
                assert_same(found, want, told)
            else:
                assert_close(found, want, bound, told)


@gpu
@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_windows_of_one_size(dev: pk.Device, dtype: str) -> None:
    calls = Calls(dev, dtype)
    for i, windows in enumerate(USUAL):
        for j, shape in enumerate(SIZES):
            calls.add(shape, windows, ceil=(i + j) % 2 == 1)
        calls.add(SIZES[0], windows, Form(phase=1))
    for i, windows in enumerate(OTHERS):
        calls.add(SIZES[i % 3], windows, ceil=i % 2 == 1)
        calls.add(SIZES[i % 2], windows, LAST, LAST)
    calls.check()


@gpu
@pytest.mark.parametrize(("axes", "top"), ((1, 4), (2, 3)))
def test_all_small_windows(dev: pk.Device, axes: int, top: int) -> None:
    """Also such that reach beyond the image, begin in its padding, or have gaps."""
    calls = Calls(dev, "float32")
    for shape, windows, ceil in small_windows(axes, top):
        calls.add(shape, windows, ceil=ceil)
    calls.check()


@gpu
@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_windows_that_divide_images(dev: pk.Device, dtype: str) -> None:
    calls = Calls(dev, dtype)
    for shape in SIZES[:2]:
        for i, out in enumerate(((1, 1), (4, 6), (3, 4), (5, 1), shape[2:], (9, 13))):
            calls.add(shape, out, *((LAST, LAST) if i in (2, 3) else ()))
    calls.check()


@gpu
def test_any_layout(dev: pk.Device) -> None:
    calls, rng = Calls(dev, "float32"), np.random.default_rng(3)
    shape = (2, 4, 6, 8)
    images, results = list(forms(4, repeats=False).values()), [Form(), LAST]
    for i, form in enumerate(images):
        calls.add(shape, USUAL[i % 4], form, results[i % 2])
        calls.add(shape, USUAL[i % 4], results[i % 2], form)
        calls.add(shape, OTHERS[i % len(OTHERS)], form, results[i % 2])
    for i in range(6):
        pair = [random_form(rng, 4, repeats=False) for _ in range(2)]
        calls.add(shape, (USUAL + OTHERS)[2 * i], *pair, ceil=True)
    calls.add(shape, (1, 1), LAST, LAST)
    calls.check()


@gpu
@pytest.mark.crowd
def test_a_long_grid_folds(dev: pk.Device) -> None:
    x = dev.rand((3, 5, 20, 24), seed=6)
    for windows in (USUAL[1], OTHERS[0]):
        out = result_shape(x.shape, windows, False)
        found = []
        for most in (1, dev._context.caps.max_groups):
            dst, dx = dev.empty(out), dev.empty(x.shape)
            with caps(dev, max_groups=most):
                kernels.avg_pool2d(x, dst, **windows)
                kernels.avg_pool2d_backward(dst, dx, **windows)
            found.append((dst.numpy(), dx.numpy()))
        for folded, plain in zip(*found, strict=True):
            assert_same(folded, plain, f"{windows}")


@gpu
def test_parts(dev: pk.Device) -> None:
    """Images, and channels of one, where a binding holds a few."""
    with caps(dev, max_binding=dev._context.caps.alignment + 4096):
        calls = Calls(dev, "float32")
        for shape in ((9, 2, 12, 16), (1, 11, 12, 16)):
            for windows in (USUAL[1], OTHERS[0], (5, 6), (1, 1)):
                calls.add(shape, windows)
        calls.check()


@gpu
@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_maxima_of_special_values(dev: pk.Device, dtype: str) -> None:
    """NaN of both signs wins, -inf loses to nothing but is found, and zeros are equal."""
    rng = np.random.default_rng(4)
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0], dtype)
    x = rng.choice(special, (3, 4, 8, 12), p=(0.02, 0.02, 0.05, 0.5, 0.2, 0.11, 0.1))
    x[0] = -np.inf
    t = dev.tensor(x)
    for windows in (*USUAL, *OTHERS, None):
        out = (*x.shape[:2], 1, 1) if windows is None else result_shape(x.shape, windows, False)
        options = windows or {"kernel": (8, 12)}
        want = reference.max_pool2d(x, out, index=x, **options)
        dst, index = dev.empty(out, dtype), dev.empty(out, "int32")  # type: ignore[arg-type]
        kernels.max_pool2d(t, dst, index=index, **options)
        assert_same(dst.numpy(), want[0], f"{options}")
        assert_same(index.numpy(), want[1], f"positions {options}")
        kernels.max_pool2d(t, dst, **options)
        assert_same(dst.numpy(), want[0], f"{options}")


@gpu
def test_zeros_of_both_signs_are_equal(dev: pk.Device) -> None:
    x = np.array([[-0.0, 0.0, 0.0, -0.0]], np.float32).reshape(1, 1, 2, 2)
    for options, count in (({"kernel": 2}, 1), ({"kernel": 2, "padding": 1, "stride": 1}, 9)):
        index = dev.empty((1, 1, count // 3 or 1, count // 3 or 1), "int32")
        dst = dev.empty(index.shape)
        kernels.max_pool2d(dev.tensor(x), dst, index=index, **options)  # type: ignore[arg-type]
        assert index.numpy().reshape(-1).tolist() in ([0], [0, 0, 1, 0, 0, 1, 2, 2, 3])


# -- the reference, without a GPU -----------------------------------------------------------------


def test_gradients_are_those_of_the_reference() -> None:
    """Of the sum of dy times the pool, along a direction: differences in float64."""
    rng = np.random.default_rng(5)
    x, along = rng.normal(size=(2, 2, 7, 8)), rng.normal(size=(2, 2, 7, 8))
    checks: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
        (f"{kind}_pool2d", result_shape(x.shape, w, True), w)
        for w in USUAL + OTHERS
        for kind in (("max",) if "dilation" in w else ("max", "avg"))
    ]
    checks += [(f"adaptive_{kind}_pool2d", (2, 2, *out), {})
               for out in ((1, 1), (3, 5), (9, 8)) for kind in ("max", "avg")]  # fmt: skip
    for name, shape, options in checks:
        pool, dy = getattr(reference, name), rng.normal(size=shape)
        at = (pool(x, shape, index=dy, **options)[1],) if "max" in name else ()
        gradient = getattr(reference, f"{name}_backward")(dy, *at, x.shape, **options)
        ends = [np.where(np.isfinite(y), y, 0) for y in
                (pool(x + step * along, shape, **options) for step in (1e-6, -1e-6))]  # fmt: skip
        difference = ((ends[0] - ends[1]) * dy).sum() / 2e-6
        assert abs(difference - (gradient * along).sum()) < 1e-6, f"{name} {options}"


# -- plans, without a GPU -------------------------------------------------------------------------


LARGE = Caps(True, False, 256, 256, 16384, 1 << 30, 65535, named("generic-large"))


def view(slot: int, shape: tuple[int, ...], last: bool) -> View:
    strides = (Form(order=(0, 2, 3, 1)) if last else Form()).strides(shape, 4)
    return View(slot, DTYPES["float32"], shape, strides, 0)


def test_usual_windows_take_blocks() -> None:
    """Vectors where rows of the image and of the result are whole vectors, else single loads."""

    def body(shape: tuple[int, ...], last: bool = False, **windows: Any) -> tuple[str, int]:
        views = []
        for i, sizes in enumerate((shape, result_shape(shape, windows, False))):
            views.append(view(i, sizes, last))
        (step,) = plans.plan(LARGE, Scratch(), views[0], None, views[1], **windows)
        return step.body.name, dict(zip(step.body.axes, step.axes, strict=True))["V"]  # type: ignore[return-value]

    assert body((16, 64, 112, 112), kernel=3, stride=2, padding=1) == ("pool_block", 4)
    assert body((16, 64, 112, 112), kernel=2) == ("pool_block", 4)
    assert body((16, 64, 55, 55), kernel=3, stride=2) == ("pool_block", 1)
    assert body((16, 64, 112, 112), last=True, kernel=3, stride=2) == ("pool_windows", 4)
    assert body((16, 63, 112, 112), last=True, kernel=3, stride=2) == ("pool_windows", 1)
    assert body((16, 64, 112, 112), kernel=5, stride=2) == ("pool_windows", 1)
