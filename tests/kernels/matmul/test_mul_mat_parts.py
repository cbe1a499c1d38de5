"""mul_mat in parts, where a tensor, or a temporary of the plan, is larger than one binding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.kernels import mul_mat
from pykernels.plans.matmul import mul_mat as plans
from pykernels.plans.matmul.select import GemmChoice
from pykernels.steps import Scratch
from tests.harness import Form, caps, random_form
from tests.kernels.matmul.mul_mat_calls import (
    F16,
    F32,
    K_RUNS,
    KINDS,
    NOTHING_RUNS,
    OTHERS,
    ROWS_RUN,
    GemmCalls,
)
from tests.kernels.matmul.test_matmul import LARGE, view

gpu = pytest.mark.gpu


def small(dev: pk.Device, nbytes: int) -> Any:
    """The device with bindings of so many bytes, and what aligning their beginning takes."""
    return caps(dev, max_binding=dev._context.caps.alignment + nbytes)


@gpu
@pytest.mark.parametrize("kinds", KINDS + OTHERS, ids="-".join)
@pytest.mark.sample
def test_rows_columns_and_batches(dev: pk.Device, kinds: tuple[str, str, str]) -> None:
    """Bias and residual are cut along with dst, and each matrix of a serves its own of b."""
    calls = GemmCalls(dev)
    rng = calls.rng
    shapes = (
        ((30, 16), (3, 70, 16)), ((300, 16), (20, 16)), ((2, 30, 16), (6, 40, 16)),
        ((200, 20), (3, 20)), ((3, 20), (200, 20)), ((2, 1, 9, 8), (2, 3, 50, 8)),
    )  # fmt: skip
    for a, b in shapes:
        whole = (*b[:-1], a[-2])
        for form in (K_RUNS, ROWS_RUN, NOTHING_RUNS):
            lead = len(b) - len(form.order)
            form = replace(form, order=(*range(lead), *(lead + i for i in form.order)))
            own = form if len(a) == len(b) else Form()
            more: dict[str, Any] = {"exact": True, "a_form": own, "b_form": form, "scale": 2.0}
            bias = rng.integers(-9, 9, whole[-1:]).astype(F32)
            residual = rng.integers(-9, 9, (*whole[:-1], 1)).astype(F16)
            calls.add(a, b, kinds, bias=bias, residual=residual, dst_form=form, **more)
            residual = rng.integers(-9, 9, whole).astype(F32)
            calls.add(a, b, kinds, residual=residual, activation="relu", **more)
    with small(dev, 4000):
        calls.check()


@gpu
@pytest.mark.parametrize("body", ("gemm_tile", "mul_mat/32", "gemv"))
@pytest.mark.parametrize("splits", (1, 3))
@pytest.mark.sample
def test_bodies(dev: pk.Device, body: str, splits: int) -> None:
    calls = GemmCalls(dev)
    rows = 5 if body == "gemv" else 70
    for kinds in (KINDS[0], KINDS[2], OTHERS[0]):
        calls.add((3, 150, 64), (3, rows, 64), kinds, exact=True)
        calls.add((150, 64), (rows, 64), kinds, exact=True, a_form=ROWS_RUN, b_form=ROWS_RUN)
    with force(dev, GemmChoice(body, splits)), small(dev, 30_000):
        calls.check()


@gpu
def test_sums_of_nothing_and_of_long_rows(dev: pk.Device) -> None:
    calls = GemmCalls(dev)
    bias = calls.rng.integers(-9, 9, 50).astype(F32)
    calls.add((50, 0), (2, 30, 0), exact=True, bias=bias, activation="relu")
    calls.add((3, 900), (5, 900), exact=True)
    calls.add((3, 900), (5, 900), KINDS[2], exact=True)
    with small(dev, 4000):
        calls.check()


@gpu
def test_fast_in_parts(dev: pk.Device) -> None:
    if not dev._context.caps.f16:
        pytest.skip("no f16")
    calls = GemmCalls(dev)
    calls.add((150, 64), (3, 70, 64), exact=True, precision="fast")
    calls.add((150, 64), (300, 64), OTHERS[0], exact=True, precision="fast")
    with force(dev, GemmChoice("gemm_tile")), small(dev, 30_000):
        calls.check()


@gpu
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sample
def test_random_parts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = GemmCalls(dev, seed)
    for _ in range(6):
        lead = tuple(int(n) for n in rng.choice([1, 2, 3], rng.integers(0, 4)))
        own = tuple(n if rng.random() < 0.5 else 1 for n in lead)
        m, n, k = (int(v) for v in rng.choice([1, 3, 20, 33, 90], 3))
        a, b = (*own, m, k), (*lead, n, k)
        forms = {
            name: random_form(rng, len(shape), repeats=name != "dst_form")
            for name, shape in (("a_form", a), ("b_form", b), ("dst_form", (*lead, n, m)))
        }
        bias = rng.normal(0, 1, (*lead, n, m)).astype(F32)
        calls.add(a, b, KINDS[int(rng.integers(4))], bias=bias, **forms)  # type: ignore[arg-type]
    with small(dev, int(rng.integers(20_000, 40_000))):
        calls.check()


@gpu
def test_one_row_that_no_binding_holds(dev: pk.Device) -> None:
    a, b = dev.ones((2, 1500)), dev.ones((3, 1500))
    with (
        caps(dev, max_binding=4096),
        pytest.raises(pk.LimitError, match=r"\[mul_mat\] a spans 6000 bytes in a part that"),
    ):
        mul_mat(a, b, dev.zeros((3, 2)))


@gpu
@pytest.mark.crowd
def test_more_than_one_binding(dev: pk.Device) -> None:
    """141 MB, where 128 MiB are what a phone or lavapipe binds."""
    a, b = dev.rand((2, 64), seed=1), dev.rand((550_000, 64), seed=2)
    got = pk.matmul(b, a.T, residual=dev.ones(2)).numpy()
    np.testing.assert_allclose(got, b.numpy() @ a.numpy().T + 1, rtol=1e-4)


# -- plans, without a GPU -------------------------------------------------------------------------


def test_what_fits_is_planned_whole() -> None:
    for a, b in (((4096, 4096), (4096, 4096)), ((9, 64), (100, 33, 64)), ((8, 999), (5, 999))):
        dst = view((*b[:-1], a[0]))
        largest = max(v.nbytes for v in (view(a), view(b), dst))

        def steps(limit: int) -> list[Any]:
            limited = replace(LARGE, max_binding=limit)
            found = plans.plan(limited, Scratch(), view(a), view(b), None, None, dst)  # noqa: B023
            return [(s.body.name, s.groups, s.values) for s in found]

        assert steps(4 * largest) == steps(1 << 31)
        assert len(steps(largest // 16 * 16 - 16)) > len(steps(1 << 31))
