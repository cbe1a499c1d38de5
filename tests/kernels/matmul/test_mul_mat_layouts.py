"""mul_mat on operands of any layout, repeated, in one buffer."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import mul_mat
from pykernels.reference.matmul import mul_mat as reference
from pykernels.reference.matmul import mul_mat_budget as budget
from tests.harness import (
    Case,
    Form,
    assert_close,
    assert_same_bits,
    forms,
    random_form,
)
from tests.kernels.matmul.mul_mat_calls import (
    F16,
    F32,
    KINDS,
    GemmCalls,
)

gpu = pytest.mark.gpu


# -- layouts --------------------------------------------------------------------------------------


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_any_layout(dev: pk.Device, form: str) -> None:
    layout = forms(3, repeats=True)[form]
    calls = GemmCalls(dev)
    for m, n, k in ((36, 20, 24), (33, 17, 9), (40, 2, 64), (3, 50, 12)):
        calls.add((2, m, k), (2, n, k), a_form=layout)
        calls.add((2, m, k), (2, n, k), b_form=layout)
        if "repeat" not in form:
            calls.add((2, m, k), (2, n, k), dst_form=layout)
            calls.add((2, m, k), (2, n, k), a_form=layout, b_form=layout, dst_form=layout)
        calls.add((2, m, k), (2, n, k), residual=calls.values((2, n, m), F32, False),
                  extra_form=layout)  # fmt: skip
    calls.check()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("seed", range(10))
def test_random_layouts(dev: pk.Device, seed: int) -> None:
    calls = GemmCalls(dev, seed)
    rng = calls.rng
    for _ in range(8):
        m, n, k = (int(rng.choice([1, 2, 7, 8, 16, 33, 64, 100])) for _ in range(3))
        lead = tuple(int(v) for v in rng.integers(1, 4, int(rng.integers(0, 4))))
        a_lead = tuple(v if rng.random() < 0.7 else 1 for v in lead)
        calls.add(
            (*a_lead, m, k), (*lead, n, k), KINDS[int(rng.integers(len(KINDS)))],
            a_form=random_form(rng, len(lead) + 2, repeats=True),
            b_form=random_form(rng, len(lead) + 2, repeats=True),
            dst_form=random_form(rng, len(lead) + 2, repeats=False),
            bias=calls.values((m,), F16, False) if rng.random() < 0.3 else None,
        )  # fmt: skip
    calls.check()


@gpu
def test_batches_of_a_repeat(dev: pk.Device) -> None:
    """As in ggml: neighbouring matrices of b share one of a."""
    calls = GemmCalls(dev)
    for a_lead, b_lead in (((2,), (6,)), ((1, 3), (4, 6)), ((2, 1), (4, 3)), ((3,), (5, 3)),
                           ((), (2, 2)), ((2, 2, 2, 2), (4, 4, 4, 4))):  # fmt: skip
        calls.add((*a_lead, 12, 20), (*b_lead, 10, 20), exact=True)
        calls.add((*a_lead, 12, 20), (*b_lead, 1, 20), bias=calls.values((12,), F32, False))
    calls.check()


@gpu
def test_more_batch_axes_than_a_launch_has(dev: pk.Device) -> None:
    calls = GemmCalls(dev)
    apart = Form(steps=(1, 1, 1, 1, 1, 1, 1), gap=3)
    calls.add((2, 1, 2, 1, 2, 9, 8), (2, 3, 2, 2, 2, 10, 8), a_form=apart, b_form=apart, exact=True)
    calls.check()


@gpu
@pytest.mark.parametrize("near", (0, 8192))
def test_operands_in_one_buffer(dev: pk.Device, near: int) -> None:
    for m, n, k in ((36, 20, 24), (33, 17, 9), (50, 2, 33), (64, 1, 64)):
        case = Case(dev)
        values = [case.rng.normal(0, 1, s).astype(np.float32) for s in ((m, k), (n, k), (n, m))]
        a, b, extra = (case.input(v, buffer="one", near=near) for v in values)
        dst = case.output((n, m), F32, buffer="one", near=near)
        case.build()
        got = case.run(lambda: mul_mat(a.tensor, b.tensor, dst.tensor, residual=extra.tensor))[0]  # noqa: B023
        assert_close(got, reference(values[0], values[1], None, values[2]),
                     budget(values[0], values[1], None, values[2]), f"{m} {n} {k}")  # fmt: skip


@gpu
def test_a_product_over_its_own_operand(dev: pk.Device) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (12, 12)).astype(np.float32)
    t = dev.tensor(x)
    mul_mat(t, t, t)
    assert_same_bits(t.numpy(), x @ x.T)
    mul_mat(dev.tensor(x), dev.tensor(x), t, residual=t)
    assert_same_bits(t.numpy(), 2 * (x @ x.T))
