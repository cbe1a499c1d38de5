"""softmax_backward: the gradient within the budget of its sum, in any layout and in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
import pykernels.kernels
from pykernels.reference.softmax import softmax
from pykernels.reference.softmax import softmax_backward as reference
from tests.harness import Array, Case, Form, assert_close, caps, forms, random_form, sum_budget

pytestmark = pytest.mark.gpu

DTYPES = ("float32", "float16")
COLS = (1, 2, 3, 4, 5, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025,
        4097, 16385, 70001)  # fmt: skip


def backward(y: pk.Tensor, dy: pk.Tensor, dst: pk.Tensor, scale: float = 1.0) -> None:
    pykernels.kernels.softmax_backward(y, dy, dst, scale=scale)


def gradients(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    """The result of a softmax, and what comes back from behind it."""
    y = softmax(rng.normal(0, 3, shape)) if 0 not in shape else np.zeros(shape)
    return y.astype(dtype), rng.normal(0, 2, shape).astype(dtype)


def budget(y: Array, dy: Array, scale: float = 1.0) -> Array:
    """|y| times what the sum and the difference may cost, and the rounding of the products."""
    a, b = np.asarray(y, np.float64), np.asarray(dy, np.float64)
    once = np.abs(a) * (sum_budget(a * b) + 2.0**-23 * 2 * np.abs(b)) + 2.0**-126
    return abs(scale) * once + (scale != 1) * 2.0**-23 * np.abs(reference(y, dy, scale=scale))


class SoftmaxGradCalls:
    """Many calls in one case, each checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0, **options: Any) -> None:
        self.case = Case(dev, seed, **options)
        self.rng = self.case.rng
        self.calls: list[tuple[Any, Any, Any, float]] = []

    def add(
        self, shape: tuple[int, ...], dtype: str, y_form: Form | None = None,
        dy_form: Form | None = None, dst_form: Form | None = None, *, in_place: bool = False,
        scale: float = 1.0,
    ) -> None:  # fmt: skip
        y, dy = gradients(self.rng, shape, dtype)
        first = self.case.input(y, y_form, buffer="y")
        if in_place:
            second = dst = self.case.in_place(dy, dy_form, buffer="dst")
        else:
            second = self.case.input(dy, dy_form, buffer="dy")
            dst = self.case.output(shape, dtype, dst_form, buffer="dst")
        self.calls.append((first, second, dst, scale))

    def check(self) -> None:
        self.case.build()
        before = [(y.array.copy(), dy.array.copy()) for y, dy, *_ in self.calls]
        results = self.case.run(
            lambda: [backward(y.tensor, dy.tensor, dst.tensor, s) for y, dy, dst, s in self.calls]
        )
        for got, (y, dy), (first, _, dst, s) in zip(results, before, self.calls, strict=True):
            want = reference(y, dy, scale=s)
            what = f"{dst.dtype} {dst.shape} {first.strides} -> {dst.strides} {s}"
            assert_close(got, want, budget(y, dy, s), what)


@pytest.mark.sample
@pytest.mark.parametrize("cols", COLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_backward_matches_reference(dev: pk.Device, dtype: str, cols: int) -> None:
    calls = SoftmaxGradCalls(dev, cols)
    for rows in (1, 19) if cols < 5000 else (2,):
        for phase in (0, 1):
            form = Form(phase=phase)
            calls.add((rows, cols), dtype, form, form, form)
            calls.add((rows, cols), dtype, form, form, in_place=True)
    calls.check()


@pytest.mark.parametrize("scale", (0.125, -3.0, 0.0, 0.1))
def test_softmax_backward_scales(dev: pk.Device, scale: float) -> None:
    """The gradient of softmax(x * scale), as ggml has it."""
    calls = SoftmaxGradCalls(dev)
    for dtype in DTYPES:
        for cols in (6, 200, 5000, 20000):
            calls.add((3, cols), dtype, scale=scale)
            calls.add((3, cols), dtype, Form(phase=1), scale=scale, in_place=True)
    calls.check()


def test_softmax_backward_is_the_gradient_with_a_scale(dev: pk.Device) -> None:
    """Against differences of the float64 reference."""
    rng = np.random.default_rng(0)
    x, dy, step = rng.normal(0, 1, (5, 6)), rng.normal(0, 1, (5, 6)).astype(np.float32), 1e-6
    want = np.zeros((5, 6))
    for j in range(6):
        moved = step * (np.arange(6) == j)
        difference = softmax(x + moved, scale=0.7) - softmax(x - moved, scale=0.7)
        want[:, j] = (difference * dy).sum(-1) / (2 * step)
    y = softmax(x, scale=0.7).astype(np.float32)
    got = pk.softmax_backward(dev.tensor(y), dev.tensor(dy), scale=0.7)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_backward_in_parts(dev: pk.Device, dtype: str) -> None:
    """Tensors larger than one binding, in any layout and in place."""
    with caps(dev, max_binding=dev._context.caps.alignment + 2048):
        calls = SoftmaxGradCalls(dev)
        for shape in ((70, 36), (2, 3, 20, 33)):
            far = Form(order=tuple(range(len(shape)))[::-1], phase=1)
            for form in (Form(), Form(phase=1, gap=3), far):
                calls.add(shape, dtype, form, dst_form=form, scale=0.5)
                calls.add(shape, dtype, None, form)
                calls.add(shape, dtype, form, form, in_place=True)
        calls.add((2, 3, 2, 3, 2, 3, 2, 9), dtype)
        calls.check()


@pytest.mark.parametrize("cols", (7, 300, 5000))
def test_softmax_backward_without_native_halves(dev: pk.Device, cols: int) -> None:
    with caps(dev, f16=False):
        calls = SoftmaxGradCalls(dev)
        calls.add((5, cols), "float16", Form(phase=1))
        calls.add((5, cols), "float16", Form(steps=(-1, 2)), in_place=True)
        calls.check()


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_softmax_backward_in_any_layout(dev: pk.Device, form: str, dtype: str) -> None:
    calls = SoftmaxGradCalls(dev)
    layout = forms(3, repeats=True)[form]
    for shape in ((4, 5, 6), (2, 33, 130), (1, 1, 1), (1, 3, 1200), (0, 2, 3), (2, 3, 0)):
        calls.add(shape, dtype, y_form=layout)
        calls.add(shape, dtype, dy_form=layout)
        if "repeat" not in form:
            calls.add(shape, dtype, dst_form=layout)
            calls.add(shape, dtype, dy_form=layout, in_place=True)
    calls.check()


@pytest.mark.parametrize("seed", range(6))
def test_softmax_backward_random_layouts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = SoftmaxGradCalls(dev, seed)
    for _ in range(8):
        ndim = int(rng.integers(1, 5))
        lead = tuple(int(n) for n in rng.integers(1, 5, ndim - 1))
        shape = (*lead, int(rng.choice([1, 4, 12, 37, 260, 1100])))
        some = [random_form(rng, ndim, repeats=False) for _ in range(3)]
        calls.add(shape, str(rng.choice(DTYPES)), *some, in_place=bool(rng.random() < 0.3))
    calls.check()


@pytest.mark.parametrize("how", ("dy", "y", "one buffer", "overlap"))
def test_softmax_backward_within_one_buffer(dev: pk.Device, how: str) -> None:
    """dst in the place of dy or of y, beside both, and across both."""
    for dtype in DTYPES:
        for cols in (5, 64, 1500):
            case = Case(dev)
            y, dy = gradients(case.rng, (6, cols), dtype)
            a = (case.in_place if how == "y" else case.input)(y, buffer="one")
            b = (case.in_place if how == "dy" else case.input)(dy, buffer="one", near=0)
            dst = {"y": a, "dy": b}.get(how)
            if dst is None:
                where: dict[str, Any] = {"buffer": "one", "near": 0}
                if how == "overlap":
                    where = {"over": a, "delta": a.end - a.start - 8}
                dst = case.output((6, cols), dtype, **where)
            case.build()
            got = case.run(lambda t=(a, b, dst): backward(*(o.tensor for o in t)))[0]  # type: ignore[misc]
            assert_close(got, reference(y, dy), budget(y, dy), f"{how} {dtype} {cols}")


@pytest.mark.crowd
def test_softmax_backward_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=1):
        calls = SoftmaxGradCalls(dev)
        calls.add((41, 7), "float32")
        calls.check()


def test_softmax_backward_rejects(dev: pk.Device) -> None:
    y, dst = dev.ones((3, 4)), dev.zeros((3, 4))
    with pytest.raises(pk.ShapeError, match=r"\[softmax_backward\] dy .* shape of y, \(3, 4\)"):
        backward(y, dev.ones((4, 3)), dst)
    with pytest.raises(pk.ShapeError, match=r"\[softmax_backward\] dst .* shape of y, \(3, 4\)"):
        backward(y, y, dev.ones(4))
    with pytest.raises(pk.DTypeError, match=r"\[softmax_backward\] dy must have the dtype of y"):
        backward(y, dev.ones((3, 4), "float16"), dst)
    with pytest.raises(
        pk.DTypeError, match=r"\[softmax_backward\] y must be float32, float16 or bfloat16"
    ):
        backward(dev.zeros((3, 4), "int32"), y, dst)
    with pytest.raises(pk.AliasError, match=r"\[softmax_backward\] dst is broadcast"):
        backward(y, y, dev.ones(4).broadcast_to((3, 4)))
    assert not dst.numpy().any()
