"""softmax: masks, ALiBi slopes, sinks, and what -inf, +inf and NaN mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.softmax import softmax as reference
from tests.harness import Case, Form, assert_close
from tests.kernels.softmax.softmax_calls import DTYPES, SoftmaxCalls, budget, logits, run_softmax

pytestmark = pytest.mark.gpu

INF, NAN = np.inf, np.nan

# -- masks, heads, sinks --------------------------------------------------------------------------

MASK_SHAPES = ((), (1,), (40,), (6, 1), (6, 40), (1, 1, 6, 40), (4, 6, 40), (3, 4, 6, 40),
               (3, 1, 6, 40), (2, 6, 40), (1, 2, 1, 40), (3, 2, 6, 40), (3, 40),
               (4, 2, 40))  # fmt: skip


@pytest.mark.sample
@pytest.mark.parametrize("mask_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
def test_softmax_mask_repeats(
    dev: pk.Device, shape: tuple[int, ...], dtype: str, mask_dtype: str
) -> None:
    """numpy's rules for axes of size 1 and missing ones, modulo for divisors."""
    calls = SoftmaxCalls(dev)
    for mask_form in (Form(), Form(phase=1), Form(gap=3)):
        mask = calls.rng.normal(0, 3, shape).astype(mask_dtype)
        mask[calls.rng.random(shape) < 0.3] = -INF
        x = logits(calls.rng, (3, 4, 6, 40), dtype)
        calls.add(x, mask, mask_form=mask_form, scale=0.3)
        calls.add(x, mask, mask_form=mask_form, max_bias=8.0, log=True)
    calls.check()


@pytest.mark.parametrize("heads", (1, 2, 3, 4, 6, 8, 12, 16, 20))
def test_softmax_alibi(dev: pk.Device, heads: int) -> None:
    calls = SoftmaxCalls(dev, heads)
    for cols in (7, 64, 1500):
        distance = -np.abs(np.arange(cols) - np.arange(3)[:, None])
        for max_bias in (8.0, 1.5, 0.0):
            x = logits(calls.rng, (2, heads, 3, cols), "float32")
            calls.add(x, distance.astype(np.float32), max_bias=max_bias)
    calls.add(x[0, 0], distance.astype(np.float16), max_bias=8.0)  # no head axis: one head
    calls.check()


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_sinks(dev: pk.Device, dtype: str) -> None:
    calls = SoftmaxCalls(dev)
    sinks = np.float32([-INF, -5.0, 0.0, 3.0, 30.0, 1000.0])
    for cols in (4, 33, 700, 5000, 17001):
        x = (logits(calls.rng, (2, 6, 2, cols), dtype) / 8).astype(dtype)
        mask = np.where(calls.rng.random((2, cols)) < 0.5, -INF, 0.25).astype(np.float32)
        calls.add(x, None, sinks)
        calls.add(x, mask, sinks, sinks_form=Form(steps=(2,), phase=1), max_bias=4.0)
        calls.add(x, mask, sinks, sinks_form=Form(steps=(-1,)), log=True)
        calls.add(x[0, 0], None, sinks[3:4])  # below three axes: one head
    calls.check()


# -- the rules ------------------------------------------------------------------------------------

BIG = float(np.finfo(np.float32).max)
# x, mask, sink, softmax, log_softmax; None in x or mask is an ordinary key; 4 columns.
RULES: dict[str, tuple[list[float], list[float] | None, float | None, Any, Any]] = {
    "minus infinity weighs nothing": ([0, -INF, 0, -INF], None, None, [0.5, 0, 0.5, 0], None),
    "all minus infinity": ([-INF] * 4, None, None, NAN, NAN),
    "infinity": ([0, INF, 0, 0], None, None, NAN, NAN),
    "not a number": ([0, NAN, 0, 0], None, None, NAN, NAN),
    "one key": ([-INF, -INF, 7, -INF], None, None, [0, 0, 1, 0], [-INF, -INF, 0, -INF]),
    "huge": ([BIG, -BIG, BIG, -BIG], None, None, [0.5, 0, 0.5, 0], None),
    "all at the bottom": ([-BIG] * 4, None, None, 0.25, None),
    "masked": ([1, 2, 1, 3], [0, -INF, 0, -INF], None, [0.5, 0, 0.5, 0], None),
    "a masked key hides its x": ([NAN, INF, 1, -INF], [-INF, -INF, 0, -INF], None,
                                 [0, 0, 1, 0], [-INF, -INF, 0, -INF]),
    "no key": ([1, NAN, INF, 2], [-INF] * 4, None, 0.0, -INF),
    "allowed keys are all minus infinity": ([-INF, 5, -INF, 5], [0, -INF, 0, -INF], None, NAN, NAN),
    "an allowed key is not a number": ([NAN, 5, 1, 5], [0, -INF, 0, -INF], None, NAN, NAN),
    "a mask that is not a number": ([0, 0, 0, 0], [0, NAN, 0, 0], None, NAN, NAN),
    "a mask of infinity": ([0, 0, 0, 0], [0, INF, 0, 0], None, NAN, NAN),
    "a sink takes its share": ([0, 0, 0, -INF], None, 0.0, [0.25, 0.25, 0.25, 0], None),
    "a sink of minus infinity is none": ([0, 0, -INF, -INF], None, -INF, [0.5, 0.5, 0, 0], None),
    "a sink counts beside minus infinity": ([-INF] * 4, None, 1.0, 0.0, -INF),
    "nothing counts": ([-INF] * 4, None, -INF, NAN, NAN),
    "no key but a sink": ([1, 2, NAN, INF], [-INF] * 4, 2.0, 0.0, -INF),
    "no key and no sink": ([1, 2, NAN, INF], [-INF] * 4, -INF, 0.0, -INF),
    "a sink that is not a number": ([1, 2, 3, 4], None, NAN, NAN, NAN),
    "a sink of infinity": ([1, 2, 3, 4], None, INF, NAN, NAN),
}  # fmt: skip


@pytest.mark.parametrize("cols", (4, 5, 130, 1000, 5001, 16400, 40000))
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.sample
def test_softmax_rules(dev: pk.Device, rule: str, cols: int) -> None:
    """Each rule with its four columns among others that weigh nothing."""
    x4, mask4, sink, want4, want_log = RULES[rule]
    rng = np.random.default_rng(cols)
    at = np.sort(rng.permutation(cols)[:4])
    filler = -BIG if rule == "all at the bottom" else -INF
    x = np.full((3, 2, cols), filler, np.float32)
    x[..., at] = x4
    mask = None
    if mask4 is not None:
        # The others are skipped; what they hold must not matter.
        mask = np.full(cols, -INF, np.float32)
        mask[at] = mask4
        x[..., np.setdiff1d(np.arange(cols), at)] = NAN
    sinks = None if sink is None else np.full(3, sink, np.float32)
    if rule == "all at the bottom":
        want4 = 1 / cols
    for log, want in ((False, want4), (True, want_log)):
        case = Case(dev)
        ins = [None if a is None else case.input(a) for a in (x, mask, sinks)]
        dst = case.output(x.shape, "float32")
        case.build()
        tensors = [o and o.tensor for o in ins]
        got = case.run(
            lambda log=log, t=tensors, dst=dst: run_softmax(  # type: ignore[misc]
                t[0], dst.tensor, mask=t[1], sinks=t[2], log=log
            )
        )[0]
        exact = reference(x, mask, sinks, log=log)
        if want is not None:
            full = np.broadcast_to(want, 4)
            assert_close(exact[..., at], np.broadcast_to(full, (3, 2, 4)), np.float64(1e-12), "ref")
        assert_close(got, exact, budget(exact, x, mask, log=log), rule)


@pytest.mark.sample
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_rows_do_not_touch_each_other(dev: pk.Device, dtype: str) -> None:
    """A row of NaN, one of -inf and ordinary ones side by side in one workgroup."""
    calls = SoftmaxCalls(dev)
    for cols in (3, 8, 30, 120, 1000, 4100, 17000):
        x = logits(calls.rng, (19, cols), dtype)
        x[1, cols // 2] = NAN
        x[4] = -INF
        x[7, 0] = INF
        x[11, : cols - 1] = -INF
        mask = np.zeros((19, cols), np.float32)
        mask[13] = -INF
        mask[17, ::2] = -INF
        calls.add(x)
        calls.add(x, mask)
        calls.add(x, mask, log=True)
    calls.check()
