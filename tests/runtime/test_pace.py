"""When batches are submitted: sizes as a pure function, what is learned of a device, submits."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime import pace
from pykernels.runtime.pace import FIRST, LONGEST, SLOW_UNIT, STEADY, Pace, next_size, work


def test_sizes_double_and_stay_while_the_device_keeps_up() -> None:
    size, sizes = FIRST, []
    for _ in range(8):
        sizes.append(size)
        size = next_size(size, idle=True)
    assert sizes == [8, 16, 32, 64, 128, 128, 128, 128] and STEADY == 128
    for _ in range(3):
        size = next_size(size, idle=False)
    assert size == 8 * STEADY  # the device is behind: fewer submits
    assert next_size(size, idle=True) == 4 * STEADY
    assert next_size(STEADY + 1, idle=True) == STEADY


def test_work_counts_bytes_and_operations() -> None:
    assert work(8 << 20, 0) == work(0, 125_000_000) == 1
    assert work(16 << 20, 250_000_000) == 4


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_bound_follows_the_time_that_batches_took() -> None:
    clock = Clock()
    paced = Pace(clock)
    assert paced.most == LONGEST / SLOW_UNIT
    for _ in range(12):  # a fast device: 1,000 units in 2.5 ms
        paced.submitted(1000, idle=True)
        clock.now += 2.5e-3
    assert paced.most == pytest.approx(pace.MAX_WORK)
    paced.submitted(100, idle=True)
    clock.now += 1.0
    paced.submitted(100, idle=False)  # 100 units are not done after a second
    assert paced.most == pytest.approx(LONGEST / 0.01)
    before = paced.most
    clock.now += 10.0  # nobody looked: it may have been done long ago
    paced.submitted(1, idle=True)
    assert paced.most == before
    clock.now += 1e-3
    paced.waited()
    paced.submitted(1, idle=True)
    assert paced.most == 2 * before  # at most twice what it was


def test_a_stall_after_next_to_no_work_splits_no_batch() -> None:
    clock = Clock()
    paced = Pace(clock)
    paced.submitted(1e-4, idle=True)  # one small launch
    clock.now += 0.02  # and a machine that has other things to do
    paced.submitted(1e-4, idle=False)
    assert paced.most > 1  # 10,000 such launches


def test_a_pause_starts_with_small_batches_again() -> None:
    paced = Pace(Clock())
    for _ in range(5):
        paced.submitted(0, idle=False)
    assert paced.due == 32 * FIRST
    paced.waited()
    assert paced.due == FIRST


@pytest.mark.gpu
def test_launches_are_submitted_while_more_are_recorded(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = dev._context.recorder
    monkeypatch.setattr(recorder._completion, "idle", lambda: True)
    monkeypatch.setattr(recorder.pace, "most", 1e9)
    monkeypatch.setattr(recorder.pace, "_unit", 1e-12)
    x, y = dev.rand((4, 16), seed=0), dev.empty((4, 16))
    dev.sync()
    before, ends = dev.submits, []
    for i in range(300):
        pk.kernels.softmax(x, y)
        if dev.submits - before > len(ends):
            ends.append(i + 1)
    assert ends == [8, 24, 56, 120, 248]
    dev.sync()
    before = dev.submits
    with dev.batch():
        for _ in range(300):
            pk.kernels.softmax(x, y)
    assert dev.submits - before == 1
    dev.sync()
    before = dev.submits
    big = dev.rand((256, 256), seed=0)
    out = dev.empty((256, 256))
    monkeypatch.setattr(pace, "UNIT_OPERATIONS", 1000)  # as if it kept the device busy
    pk.kernels.mul_mat(big, big, out)
    assert dev.submits - before == 1  # at once
    np.testing.assert_allclose(out.numpy(), big.numpy() @ big.numpy().T, rtol=1e-4, atol=1e-4)
