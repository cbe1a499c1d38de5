"""A driver without memory at each allocation of some scenarios; the command runs all of them."""

from __future__ import annotations

import pytest

import pykernels as pk
from tests.proofs import allocation_faults
from tests.proofs.allocation_faults import OWN, Layers, sweep
from tests.runtime.interrupts import Bench

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["Create", "CaptureTemporaries", "BudgetCapture", *OWN])
def test_a_refused_buffer_loses_nothing(name: str) -> None:
    count, wrong = sweep(Bench(), name)
    assert count
    assert not wrong, wrong[0]


def test_a_lost_launch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(Layers, register=False):
        def run(self) -> None:
            try:
                super().run()
            except pk.OutOfMemoryError:
                self.result = None  # and goes on as if nothing had been

    monkeypatch.setitem(allocation_faults.ALL, "Forgetful", Forgetful)
    _, wrong = sweep(Bench(), "Forgetful")
    assert wrong
