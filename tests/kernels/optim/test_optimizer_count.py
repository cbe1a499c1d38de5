"""optimizer_count: numbers of the next step, for early and late ones, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.plans.optim.optimizer_count import RULES
from pykernels.reference import optim as reference
from tests.harness import assert_close, assert_same_bits

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("rule", RULES)
def test_optimizer_count_matches_reference(dev: pk.Device, rule: str) -> None:
    for steps in (0, 1, 2, 10, 1000, 10**6):
        given, numbers = np.array([steps], np.int32), reference.some_settings()
        wide = dev.zeros(31)
        settings = wide[1:31:2]  # numbers apart
        settings[...] = dev.tensor(numbers)
        count = dev.tensor(given)
        kernels.optimizer_count(count, settings, rule=rule)
        want, bound = (
            f(given, numbers, rule=rule)
            for f in (reference.optimizer_count, reference.optimizer_count_budget)
        )
        assert count.item() == steps + 1
        assert_close(settings.numpy(), want[1], bound[1], f"{rule} {steps}")
        assert not wide[::2].numpy().any()
        before = settings.numpy()
        kernels.optimizer_count(count, settings, skip=dev.ones(1, "uint32"), rule=rule)
        assert count.item() == steps + 1
        assert_same_bits(settings.numpy(), before)


def test_optimizer_count_rejects(dev: pk.Device) -> None:
    count, settings = dev.zeros(1, "int32"), dev.zeros(15)
    with pytest.raises(pk.ArgumentError, match="there is no rule 'lion': there are adagrad"):
        kernels.optimizer_count(count, settings, rule="lion")
    with pytest.raises(pk.ShapeError, match="count must have one element"):
        kernels.optimizer_count(dev.zeros(2, "int32"), settings)
    with pytest.raises(pk.ShapeError, match="settings must have shape"):
        kernels.optimizer_count(count, dev.zeros(14))
    assert count.item() == 0
