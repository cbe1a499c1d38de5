"""A device that is lost at each encoder of some scenarios; the command runs all of them."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from tests.proofs import device_losses
from tests.proofs.allocation_faults import Layers
from tests.proofs.device_losses import sweep

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["Launch", "Replay", "ReadStrided", "Layers", "Orders"])
def test_a_lost_device_is_told(name: str) -> None:
    count, wrong = sweep(name)
    assert count
    assert not wrong, wrong[0]


def test_a_swallowed_loss_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Layers, register=False):
        def value(self) -> object:
            try:
                return super().value()
            except pk.DeviceLostError:
                return np.zeros(80, "f4")

    monkeypatch.setitem(device_losses.ALL, "Silent", Silent)
    _, wrong = sweep("Silent")
    assert wrong
