"""softmax and log_softmax: values within the budget, sizes, layouts, shared buffers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import softmax
from pykernels.reference.softmax import softmax as reference
from tests.harness import (
    Array,
    Case,
    Form,
    assert_close,
    assert_same_bits,
    caps,
    forms,
    random_form,
)
from tests.kernels.softmax.softmax_calls import DTYPES, SoftmaxCalls, budget, logits

pytestmark = [pytest.mark.gpu, pytest.mark.sample]

COLS = (1, 2, 3, 4, 5, 16, 17, 31, 32, 33, 64, 65, 127, 128, 129, 256, 257, 511, 512, 513, 1023,
        1024, 1025, 4095, 4096, 4097, 16383, 16384, 16385, 50003)  # fmt: skip


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cols", COLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_matches_reference(dev: pk.Device, dtype: str, cols: int) -> None:
    calls = SoftmaxCalls(dev, cols)
    for rows in (1, 37) if cols < 2000 else (2,):
        for phase in (0, 1):
            x = logits(calls.rng, (rows, cols), dtype)
            for log in (False, True):
                calls.add(x, x_form=Form(phase=phase), log=log)
    calls.check()


@pytest.mark.parametrize("cols", (5, 33, 128, 1025, 20000))
def test_softmax_without_native_halves(dev: pk.Device, cols: int) -> None:
    with caps(dev, f16=False):
        calls = SoftmaxCalls(dev, cols)
        for form in (Form(), Form(phase=1), Form(steps=(-1, 2), phase=1)):
            calls.add(logits(calls.rng, (7, cols), "float16"), x_form=form, dst_form=form)
            mask = calls.rng.normal(0, 2, (7, cols)).astype(np.float16)
            calls.add(logits(calls.rng, (7, cols), "float32"), mask, mask_form=form)
        calls.check()


@pytest.mark.parametrize("scale", (0.125, -1.0, 0.0, 3.5))
def test_softmax_scales(dev: pk.Device, scale: float) -> None:
    calls = SoftmaxCalls(dev)
    for cols in (6, 200, 1500):
        x = calls.rng.normal(0, 10, (5, cols)).astype(np.float32)
        calls.add(x, scale=scale)
        calls.add(x, scale=scale, log=True)
    calls.check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_gives_the_same_bits_again(dev: pk.Device, dtype: str) -> None:
    for cols in (9, 300, 5000, 17000):
        x = dev.tensor(logits(np.random.default_rng(cols), (9, cols), dtype))
        results = []
        for _ in range(3):  # the second and third call find a cached plan and bind group
            dst = dev.empty(x.shape, dtype)  # type: ignore[arg-type]
            softmax(x, dst)
            results.append(dst.numpy())
        assert_same_bits(results[1], results[0])
        assert_same_bits(results[2], results[0])


# -- layouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", forms(3, repeats=True))
@pytest.mark.sample
def test_softmax_from_any_layout(dev: pk.Device, form: str, dtype: str) -> None:
    calls = SoftmaxCalls(dev)
    layout = forms(3, repeats=True)[form]
    for shape in ((4, 5, 6), (3, 2, 64), (2, 33, 130), (2, 1, 1), (1, 3, 1200), (0, 2, 3)):
        x = logits(calls.rng, shape, dtype)
        calls.add(x, x_form=layout)
        if "repeat" not in form:
            calls.add(x, dst_form=layout)
        calls.add(x, calls.rng.normal(0, 1, shape).astype(np.float32), mask_form=layout)
    calls.check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_over_far_columns(dev: pk.Device, dtype: str) -> None:
    """Columns further apart than rows: through a transpose where the rows are long."""
    calls = SoftmaxCalls(dev)
    for shape in ((40, 1030), (33, 5000), (3, 9, 1500), (9, 17000)):
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        x = logits(calls.rng, shape, dtype)
        mask = calls.rng.normal(0, 1, shape).astype(np.float32)
        apart = Form(order=order, phase=1)
        calls.add(x, x_form=apart, dst_form=apart)
        calls.add(x, mask, x_form=apart, mask_form=apart, dst_form=Form(order=order, gap=1))
        calls.add(x, mask[..., :1, :], x_form=Form(order=order, steps=(-1,) * len(shape)))
    calls.check()


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.sample
def test_softmax_random_layouts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = SoftmaxCalls(dev, seed)
    for _ in range(8):
        ndim = int(rng.integers(1, 5))
        lead = tuple(int(n) for n in rng.integers(1, 5, ndim - 1))
        cols = int(rng.choice([1, 3, 4, 12, 36, 100, 260, 1100, 4500]))
        shape = (*lead, cols)
        x = logits(rng, shape, str(rng.choice(DTYPES)))
        mask = None
        if rng.random() < 0.6:
            keep = tuple(n if rng.random() < 0.7 else 1 for n in shape)
            mask = rng.normal(0, 1, keep).astype(str(rng.choice(DTYPES)))
        heads = shape[-3] if ndim >= 3 else 1
        sinks = rng.normal(0, 1, heads).astype(np.float32) if rng.random() < 0.3 else None
        calls.add(
            x, mask, sinks, x_form=random_form(rng, ndim, repeats=True),
            mask_form=random_form(rng, ndim, repeats=False),
            dst_form=random_form(rng, ndim, repeats=False), max_bias=float(rng.choice([0.0, 8.0])),
        )  # fmt: skip
    calls.check()


@pytest.mark.parametrize("tail", (0, 4, 12))
def test_softmax_at_the_end_of_a_buffer(dev: pk.Device, tail: int) -> None:
    for dtype in DTYPES:
        for shape in ((3, 5), (1, 8), (7, 33), (2, 1025)):
            x = logits(np.random.default_rng(0), shape, dtype)
            calls = SoftmaxCalls(dev, tail=tail)
            calls.add(x)
            calls.check()
            case = Case(dev, tail=tail)
            both = case.in_place(x)
            case.build()
            got = case.run(lambda t=both: softmax(t.tensor, t.tensor))[0]  # type: ignore[misc]
            assert_close(got, reference(x), budget(reference(x), x), f"in place {dtype} {shape}")


@pytest.mark.crowd
def test_softmax_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        calls = SoftmaxCalls(dev)
        calls.add(logits(calls.rng, (70, 7), "float32"))
        calls.check()


@pytest.mark.crowd
def test_softmax_of_more_than_65535_workgroups(dev: pk.Device) -> None:
    rows = 65536 * 32 + 5  # 32 rows in a workgroup
    x = np.random.default_rng(0).integers(-3, 4, (rows, 2)).astype(np.float32)
    t = dev.tensor(x)
    softmax(t, t)
    want = reference(x)
    assert_close(t.numpy(), want, budget(want, x))


def test_softmax_of_one_number(dev: pk.Device) -> None:
    """An array without axes is a row of one, as in torch."""
    calls = SoftmaxCalls(dev)
    mask, sinks = np.array([0.5, -np.inf], np.float32), np.array([0.25], np.float32)
    for x in np.array([3.0, -np.inf, np.nan], np.float32):
        for log in (False, True):
            calls.add(np.array(x), log=log)
            calls.add(np.array(x), np.array(mask[0]), sinks, log=log)
            calls.add(np.array(x), mask[1:].reshape(()), log=log)
    calls.check()
    x = np.array(3.0, np.float32)
    for given in (x, dev.tensor(x)):
        for axis in (0, -1):
            assert float(pk.softmax(given, axis)) == 1.0
            assert float(pk.log_softmax(given, axis)) == 0.0
            assert float(pk.softmax_backward(given, given, axis)) == -18.0
            assert pk.softmax(given, axis).shape == ()
        assert float(pk.softmax(given, dim=0)) == 1.0
        with pytest.raises(pk.ShapeError, match=r"\[softmax\] axis 1 does not exist in shape \(\)"):
            pk.softmax(given, 1)


@pytest.mark.parametrize("shape", ((0,), (0, 5), (5, 0), (2, 0, 3), (3, 2, 0)), ids=str)
def test_softmax_of_nothing(dev: pk.Device, shape: tuple[int, ...]) -> None:
    calls = SoftmaxCalls(dev)
    calls.add(np.zeros(shape, np.float32))
    calls.add(np.zeros(shape, np.float16), np.zeros(shape, np.float16), max_bias=8.0)
    calls.check()


# -- one buffer -----------------------------------------------------------------------------------


def _place(starts: list[int] | None, name: str, **where: Any) -> dict[str, Any]:
    if starts is None:
        return {"buffer": "one", **where}
    return {"buffer": name, "start": starts.pop(0)}


def in_one_buffer(
    dev: pk.Device, x: Array, mask: Array | None, how: str, x_form: Form, dst_form: Form,
    delta: int = 0,
) -> None:  # fmt: skip
    """softmax with its tensors in one buffer gives what it gives at the same bytes of separate
    ones, bit for bit; where views overlap, x is copied first, with its strides and its phase."""
    found: list[Array] = []
    starts: list[int] = []
    for together in (True, False):
        case = Case(dev, seed=2)
        place = partial(_place, None if together else starts)

        near = {"near": 0} if "touching" in how else {}
        m = case.input(mask, **place("mask")) if mask is not None else None
        if "in place" in how and together:
            d = s = case.in_place(x, x_form, **place("x", **near))
        else:
            s = case.input(x, x_form, **place("x", **near))
            over = {"buffer": None, "over": s, "delta": delta} if "over" in how else near
            d = case.output(x.shape, x.dtype.name, dst_form, **place("dst", **over))
        starts += [o.start for o in (m, s, d) if o is not None and together]
        case.build()
        got = case.run(lambda: softmax(s.tensor, d.tensor, mask=m and m.tensor, scale=0.5))[0]  # noqa: B023
        found.append(got)
    what = f"{how} {delta} {x.shape} {x_form} {dst_form}"
    assert_same_bits(found[0], found[1], what)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "how", ("in place", "in place, mask", "apart", "touching", "apart, mask", "touching, mask",
            "over", "over, mask")
)  # fmt: skip
def test_softmax_within_one_buffer(dev: pk.Device, how: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    item = np.dtype(dtype).itemsize
    for shape in ((5, 12), (3, 33), (2, 1024), (2, 2050)):
        for x_form in (Form(), Form(phase=1), Form(order=(1, 0)), Form(gap=8, steps=(-1, 1))):
            x = logits(rng, shape, dtype)
            mask = rng.normal(0, 1, shape).astype(dtype) if "mask" in how else None
            # In the destination's bytes: a later element, an earlier one, the next row, itself.
            row = abs(x_form.strides(shape, item)[0])
            for delta in (item, -3 * item, row, 0) if "over" in how else (0,):
                dst_form = Form() if "over" in how and delta == item else x_form
                in_one_buffer(dev, x, mask, how, x_form, dst_form, delta)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_between_interleaved_views(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(3)
    item = np.dtype(dtype).itemsize
    for cols in (5, 64, 1030):
        for form, delta in ((Form(steps=(1, 2)), item), (Form(gap=cols), cols * item)):
            in_one_buffer(dev, logits(rng, (6, cols), dtype), None, "over", form, form, delta)


# -- refusals -------------------------------------------------------------------------------------


def test_softmax_rejects(dev: pk.Device) -> None:
    x, dst = dev.ones((2, 3, 4)), dev.zeros((2, 3, 4))

    def refused(error: type[Exception], parts: str, *tensors: Any, **options: Any) -> None:
        with pytest.raises(error, match=r"\[softmax\] " + parts):
            softmax(*tensors, **options)

    refused(pk.ShapeError, r"dst must have the shape of x, \(2, 3, 4\), .* \(2, 4, 3\)", x,
            dev.zeros((2, 4, 3)))  # fmt: skip
    refused(pk.DTypeError, "dst must have the dtype of x, float32, but is float16", x,
            dev.zeros((2, 3, 4), "float16"))  # fmt: skip
    refused(pk.DTypeError, "x must be .* or bfloat16 but is int32", dev.zeros(4, "int32"), dst)
    for given, name in (
        (np.zeros(3), "numpy.ndarray"),
        (type("Tensor", (), {"__module__": "torch"})(), "torch.Tensor"),
    ):
        refused(pk.DTypeError, f"x must be a pykernels.Tensor but is {name}", given, dst)
    refused(pk.AliasError, "dst is broadcast or overlaps itself", x,
            dev.zeros((1, 3, 4)).broadcast_to((2, 3, 4)))  # fmt: skip
    for shape in ((3,), (2, 4), (5, 3, 4), (2, 2, 3, 4), (2, 3, 2), (4, 3, 4), (0, 3, 4)):
        refused(pk.ShapeError, r"mask must broadcast to \(2, 3, 4\) but has shape \(\d", x, dst,
                mask=dev.zeros(shape))  # fmt: skip
    refused(pk.DTypeError, "mask must be float32, float16 or bfloat16 but is uint8", x, dst,
            mask=dev.zeros(4, "uint8"))  # fmt: skip
    refused(pk.ShapeError, r"sinks must have shape \(2,\) but has \(3,\)", x, dst,
            sinks=dev.zeros(3))  # fmt: skip
    refused(pk.DTypeError, "sinks must be float32 but is float16", x, dst,
            sinks=dev.zeros(2, "float16"))  # fmt: skip
    refused(pk.ArgumentError, "scale must be a real number but is '1'", x, dst, scale="1")
    assert not dst.numpy().any()
