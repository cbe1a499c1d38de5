"""bincount_weights: sums of weights, few bins and many."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import bincount_weights
from pykernels.reference import sort as reference
from tests.harness import Case, Form, assert_close, assert_same_bits, random_form

pytestmark = pytest.mark.gpu

BINS = (1, 7, 2048, 2049, 5000)


@pytest.mark.parametrize("dtype", ("int32", "uint32"))
def test_bincount_weights_matches_reference(dev: pk.Device, dtype: str) -> None:
    case = Case(dev)
    calls = []
    for bins in BINS:
        for n in (1, 2049, 5000):
            x = np.minimum(case.rng.integers(0, bins, n), case.rng.integers(0, bins, n))
            given = case.input(x.astype(dtype), random_form(case.rng, 1, repeats=False), buffer="x")
            weights = case.rng.normal(1, 1, n).astype(np.float32)
            w = case.input(weights, Form(steps=(-1,), phase=1), buffer="w")
            dst = case.output((bins,), "float32", Form(steps=(2,), phase=1), buffer="dst")
            calls.append((given, w, dst))
    case.build()
    arrays = [tuple(o.array.copy() for o in call) for call in calls]

    def run() -> None:
        for x, w, dst in calls:
            bincount_weights(x.tensor, w.tensor, dst.tensor)

    for got, a in zip(case.run(run), arrays, strict=True):
        assert_close(got, reference.bincount_weights(*a), reference.bincount_weights_budget(*a))


def test_few_bins_are_few_passes(dev: pk.Device) -> None:
    """The sort looks at the bits that numbers of bins have, and at nothing on the host."""
    x, w = dev.zeros(100_000, "int32"), dev.ones(100_000)
    counts = {}
    for bins in (9, 300, 70_000):
        with dev.profile() as p, dev.batch():
            pk.bincount(x, w, length=bins)
        counts[bins] = len(p.records)
    assert counts == {9: 4, 300: 8, 70_000: 12}  # two for each four bits, and two


def test_bincount_weights_gives_the_same_bits_again(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x = dev.tensor(rng.integers(0, 9, 20000).astype(np.int32))
    weights = dev.tensor(rng.normal(0, 1, 20000).astype(np.float32))
    first = pk.bincount(x, weights).numpy()
    for _ in range(2):
        assert_same_bits(pk.bincount(x, weights).numpy(), first)
