"""softmax in parts: tensors larger than one binding, and axes that a mask cuts into too many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import softmax
from pykernels.reference.softmax import softmax as reference
from tests.harness import Form, assert_close, caps, random_form
from tests.kernels.softmax.softmax_calls import DTYPES, SoftmaxCalls, budget, logits
from tests.kernels.softmax.test_softmax import in_one_buffer

pytestmark = pytest.mark.gpu


def small(dev: pk.Device, nbytes: int) -> Any:
    """The device with bindings of so many bytes, and what aligning their beginning takes."""
    return caps(dev, max_binding=dev._context.caps.alignment + nbytes)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_in_parts(dev: pk.Device, dtype: str) -> None:
    """Heads, rows and batches are cut, with masks that repeat along any of them."""
    with small(dev, 2048):
        calls = SoftmaxCalls(dev)
        shape = (2, 6, 8, 36)
        x = logits(calls.rng, shape, dtype)
        sinks = calls.rng.normal(0, 3, 6).astype(np.float32)
        orders = (Form(), Form(order=(2, 0, 1, 3), phase=1), Form(order=(1, 2, 0, 3), gap=4))
        for form in orders:
            calls.add(x, x_form=form, dst_form=Form(phase=1), log=form.gap > 0)
            calls.add(x, None, sinks, dst_form=form, scale=0.5)
            for keep in (
                shape,
                (2, 3, 4, 36),
                (2, 2, 1, 36),
                (6, 8, 1),
                (1, 1, 1, 36),
                (1, 6, 4, 36),
            ):
                mask = calls.rng.normal(0, 1, keep).astype(np.float32)
                calls.add(x, mask, sinks, x_form=form, mask_form=Form(gap=3), max_bias=8.0)
        calls.check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_long_rows_in_parts(dev: pk.Device, dtype: str) -> None:
    with small(dev, 40_000):
        calls = SoftmaxCalls(dev)
        for shape in ((3, 2, 2, 9000), (7, 9000)):
            x = logits(calls.rng, shape, dtype)
            mask = calls.rng.normal(0, 1, (*shape[:-2], 1, 9000)).astype(np.float32)
            sinks = calls.rng.normal(0, 3, shape[-3] if len(shape) > 2 else 1).astype(np.float32)
            calls.add(x, mask, sinks, max_bias=8.0)
            calls.add(x, dst_form=Form(phase=1), log=True)
        calls.check()


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_in_parts_over_far_columns(dev: pk.Device, dtype: str) -> None:
    """One row alone reaches through the whole tensor: x, mask and dst are copied together."""
    with small(dev, 8192):
        calls = SoftmaxCalls(dev)
        for shape in ((70, 90), (5, 30, 90), (9, 1500)):
            order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
            x = logits(calls.rng, shape, dtype)
            mask = calls.rng.normal(0, 1, shape).astype(np.float32)
            apart = Form(order=order, phase=1)
            turned = Form(order=tuple(range(len(shape)))[::-1])
            calls.add(x, x_form=apart, dst_form=turned)
            calls.add(x, mask, x_form=turned, mask_form=apart, dst_form=Form(gap=1))
            calls.add(x, mask[..., :1, :], mask_form=turned, dst_form=apart)
        calls.check()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ("in place", "in place, mask", "apart", "touching", "over"))
def test_softmax_in_parts_within_one_buffer(dev: pk.Device, how: str, dtype: str) -> None:
    """Each part has its own binding mode; what overlaps otherwise is copied first."""
    rng = np.random.default_rng(7)
    with small(dev, 2048):
        for shape in ((40, 36), (2, 3, 20, 33)):
            x = logits(rng, shape, dtype)
            mask = rng.normal(0, 1, shape).astype(dtype) if "mask" in how else None
            forms = (
                Form(phase=1),
                Form(order=(1, 0)) if len(shape) == 2 else Form(order=(2, 0, 1, 3)),
            )
            for form in forms:
                delta = 8 if how == "over" else 0
                in_one_buffer(dev, x, mask, how, form, form, delta)


def test_softmax_in_place_is_cut_without_copies(dev: pk.Device) -> None:
    x = logits(np.random.default_rng(0), (64, 36), "float32")
    with small(dev, 2400):
        t = dev.tensor(x)
        with dev.profile() as profile:
            softmax(t, t)
        labels = [record.label for record in profile.records]
        assert len(labels) == 4 and all("mode=merged" in label for label in labels), labels
        y = dev.zeros((128, 36))
        y[::2].write(x)
        with dev.profile() as profile:
            softmax(y[::2], y[1::2])
        labels = [record.label for record in profile.records]
        assert len(labels) == 8 and all("mode=merged" in label for label in labels), labels


def test_softmax_copies_what_no_part_can_bind(dev: pk.Device) -> None:
    """Each of x and dst fits a binding, but not what lies between their ends."""
    x = logits(np.random.default_rng(0), (2, 10, 36), "float32")
    t = dev.zeros((4, 10, 36))
    t[::2].write(x)
    with small(dev, 4 * 36 * 32), dev.profile() as profile:
        softmax(t[::2], t[1::2])
    assert [r.label.split()[0] for r in profile.records] == ["cpy", "softmax"]
    want = reference(x)
    assert_close(t[1::2].numpy(), want, budget(want, x))
    assert (t[::2].numpy() == x).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sample
def test_softmax_random_parts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with small(dev, int(rng.integers(4000, 20000))):
        calls = SoftmaxCalls(dev, seed)
        for _ in range(8):
            ndim = int(rng.integers(2, 6))
            shape = (
                *(int(n) for n in rng.choice([1, 2, 4, 6], ndim - 1)),
                int(rng.choice([7, 36])),
            )
            x = logits(rng, shape, "float32")
            own = (int(rng.choice([d for d in (1, 2, 3, 6) if n % d == 0])) for n in shape[:-1])
            mask = rng.normal(0, 1, (*own, shape[-1])).astype(np.float32)
            sinks = rng.normal(0, 1, shape[-3] if ndim >= 3 else 1).astype(np.float32)
            calls.add(
                x, mask, sinks, x_form=random_form(rng, ndim, repeats=True),
                mask_form=random_form(rng, ndim, repeats=False),
                dst_form=random_form(rng, ndim, repeats=False), max_bias=8.0,
            )  # fmt: skip
        calls.check()


@pytest.mark.parametrize("log", (False, True))
def test_softmax_mask_repeats_along_many_axes(dev: pk.Device, log: bool) -> None:
    """Each axis that repeats by modulo is two, more than an index space has."""
    calls = SoftmaxCalls(dev)
    for shape, own in (
        ((3, 4, 4, 7, 7), (3, 2, 2, 1, 7)), ((4, 4, 4, 6, 5), (2, 2, 2, 3, 1)),
        ((4, 6, 4, 6, 5), (2, 3, 2, 2, 5)), ((2, 1, 3, 1, 2, 3, 2, 4), (2, 1, 1, 1, 2, 1, 2, 4)),
    ):  # fmt: skip
        x = logits(calls.rng, shape, "float32")
        mask = calls.rng.normal(0, 1, own).astype(np.float32)
        sinks = calls.rng.normal(0, 1, shape[-3]).astype(np.float32)
        calls.add(x, mask, log=log)
        calls.add(x, mask, sinks, max_bias=8.0, log=log)
    calls.check()


def test_softmax_of_a_row_that_no_binding_holds(dev: pk.Device) -> None:
    with small(dev, 2048):
        x = dev.ones((3, 2000))
        with pytest.raises(pk.LimitError, match=r"\[softmax\] dst has parts of 8000 bytes"):
            softmax(x, dev.zeros((3, 2000)))
    dev.sync()


@pytest.mark.crowd
def test_softmax_of_more_than_one_binding(dev: pk.Device) -> None:
    """144 MB, where 128 MiB are what a phone or lavapipe binds."""
    x = np.random.default_rng(0).integers(-3, 4, (6000, 6000), np.int8).astype(np.float32)
    t = dev.tensor(x)
    softmax(t, t)
    got = t.numpy()
    rows = [0, 2943, 2944, 2945, 3000, 5999]  # around the cut, and at the ends
    want = reference(x[rows])
    assert_close(got[rows], want, budget(want, x[rows]))
    assert (np.abs(got.sum(-1) - 1) < 1e-4).all()
