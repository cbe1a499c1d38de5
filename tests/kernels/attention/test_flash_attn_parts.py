"""flash_attn in parts, where a tensor, or a temporary of the plan, is larger than one binding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.kernels import flash_attn
from pykernels.plans.attention.flash_attn import plan
from pykernels.reference.attention import attention
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View, contiguous_strides
from pykernels.tuning import named
from tests.harness import Form, caps
from tests.kernels.attention.attention_calls import F16, F32, AttentionCalls
from tests.kernels.attention.test_flash_attn import random_call

gpu = pytest.mark.gpu
# (B, H, S, D) in memory as (B, S, H, D), and others.
TOKENS_FIRST, BATCH_LAST = Form(order=(0, 2, 1, 3)), Form(order=(2, 1, 0, 3), gap=4, phase=4)


def small(dev: pk.Device, nbytes: int) -> Any:
    """The device with bindings of so many bytes, and what aligning their beginning takes."""
    limit = dev._context.caps.alignment + nbytes
    return caps(dev, max_binding=limit, tuning=named("generic-small"))


@gpu
@pytest.mark.parametrize("s", (2, 20))
@pytest.mark.parametrize("form", (Form(), TOKENS_FIRST, BATCH_LAST), ids=("bhsd", "bshd", "shbd"))
@pytest.mark.sample
def test_batches_and_heads(dev: pk.Device, s: int, form: Form) -> None:
    """Masks of every kind, sinks, slopes, lengths and lse go with what they belong to."""
    calls = AttentionCalls(dev)
    lay = dict.fromkeys("qkv", form) | {"dst": Form(order=form.order)}
    for h, hkv in ((4, 2), (6, 1)):
        heads, sizes = (2, h, hkv), (s, 36)
        sinks = calls.values((h,))
        for shape in ((2, h, s, 36), (h, 1, 36), (2, 1, s, 1), (36,)):
            mask = calls.mask(shape, F32)
            calls.add(heads, sizes, (16, 20), mask=mask, sinks=sinks, max_bias=8.0, forms=lay)
        mask = calls.mask((1, h, s, 36), "bool")
        calls.add(heads, sizes, (16, 12), mask=mask, lengths=[36, 17], causal=True, forms=lay)
        calls.add(heads, sizes, (16, 12), lengths=[5, 0], lse=False, window=(9, 3), forms=lay)
        calls.add(heads, sizes, (24, 16), F16, sinks=sinks, softcap=3.0, forms=lay)
    with small(dev, 4096):
        calls.check()


@gpu
@pytest.mark.parametrize("limit", (4096, 6000))
def test_queries(dev: pk.Device, limit: int) -> None:
    """The rows of one mask, or of one head, are too many: the band of keys moves with them."""
    calls = AttentionCalls(dev)
    for s, t in ((60, 36), (70, 50)):
        for rules in (
            {"causal": True}, {"causal": "top-left"}, {"window": (9, 3)}, {"window": (None, 0)},
            {"causal": True, "window": (4, None)}, {},
        ):  # fmt: skip
            mask = calls.mask((s, t), F32, 0.1)
            keys_apart = {"mask": Form(order=(1, 0))}
            calls.add((1, 2, 1), (s, t), (16, 16), mask=mask, max_bias=8.0, **rules)
            calls.add((2, 1, 1), (s, t), (16, 16), mask=mask, forms=keys_apart, **rules)
            calls.add((2, 1, 1), (s, t), (16, 20), mask=mask, lengths=[t, t - 9], **rules)
        calls.add((1, 2, 2), (200, t), (16, 16), causal=True)
    with small(dev, limit):
        calls.check()


@gpu
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sample
def test_random_parts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = AttentionCalls(dev, seed)
    for _ in range(6):
        random_call(calls, rng)
    with small(dev, int(rng.integers(60_000, 200_000))):
        calls.check()


@gpu
def test_one_buffer_for_everything(dev: pk.Device) -> None:
    calls = AttentionCalls(dev)
    names = ("q", "k", "v", "mask", "lse", "dst")
    mask = calls.mask((2, 4, 20, 36), F32)
    calls.add((2, 4, 2), (20, 36), (16, 16), mask=mask, buffers=dict.fromkeys(names, "all"))
    with small(dev, 4096):
        calls.check()


@gpu
def test_results_that_lie_between_each_other(dev: pk.Device) -> None:
    calls = AttentionCalls(dev)
    for form in (Form(order=(3, 2, 1, 0)), Form(order=(2, 3, 0, 1), gap=1)):
        calls.add((2, 4, 2), (20, 36), (16, 16), forms={"q": form, "v": form, "dst": form})
    with small(dev, 4096):
        calls.check()


@gpu
def test_one_head_that_no_binding_holds(dev: pk.Device) -> None:
    q, k = dev.ones((1, 1, 2, 16)), dev.ones((1, 1, 80, 16))
    with (
        caps(dev, max_binding=4096),
        pytest.raises(pk.LimitError, match=r"\[flash_attn\] k spans 5120 bytes in a part that"),
    ):
        flash_attn(q, k, k, dev.zeros((1, 1, 2, 16)))


@gpu
@pytest.mark.crowd
def test_more_than_one_binding(dev: pk.Device) -> None:
    """Keys of 134 MB, where 128 MiB are what a phone or lavapipe binds."""
    q, k, v = (dev.rand((2, 8, n, d), seed=n) for n, d in ((1, 256), (8200, 256), (8200, 4)))
    got = pk.flash_attn(q, k, v).numpy()
    want = attention(q.numpy(), k.numpy(), v.numpy()).o
    np.testing.assert_allclose(got, want, rtol=1e-4)


# -- plans, without a GPU -------------------------------------------------------------------------

CAPS = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535, named("nvidia-h200"))


def steps(limit: int, heads: int = 32, s: int = 4096, dtype: str = F32) -> list[Step]:
    dt = DTYPES[dtype]

    def view(slot: int, *shape: int) -> View:
        return View(slot, dt, shape, contiguous_strides(shape, dt.itemsize), 0)

    caps = Caps(*[limit if f == "max_binding" else getattr(CAPS, f) for f in Caps.__slots__])
    q, k = view(0, 1, heads, s, 128), view(1, 1, heads, 4096, 128)
    return plan(caps, Scratch(), q, k, k, None, None, None, None, view(3, 1, heads, s, 128))


def test_what_fits_is_planned_whole() -> None:
    for heads, s in ((32, 4096), (32, 1), (3, 1000)):
        whole, nbytes = steps(1 << 31, heads, s), heads * max(s, 4096) * 128 * 4
        fitting, cut = steps(2 * nbytes, heads, s), steps(nbytes - 1, heads, s)
        assert [(s.body.name, s.groups, s.values) for s in fitting] == [
            (s.body.name, s.groups, s.values) for s in whole
        ]
        assert len(cut) > len(whole)
