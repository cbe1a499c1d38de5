"""Many threads on one device, and what belongs to one thread only."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.contract import PARAMS_BYTES
from pykernels.runtime import bound as calls
from pykernels.runtime.engine import get_engine
from tests.runtime._helpers import ENGINE, check_works, isolated, open_device, raw_device

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


def in_threads(n: int, work: Any) -> None:
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(200)
        assert not t.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


@isolated
def test_eight_threads_on_one_device() -> None:
    dev = open_device()
    dev.set_memory_budget(6 << 20)  # so that some threads trim while others launch

    def work(i: int) -> None:
        rng = np.random.default_rng(i)
        for round_ in range(12):
            x = rng.standard_normal((8, 64 + i)).astype("f4")
            y = x.copy()
            with dev.batch():
                t = dev.tensor(x)
                for _ in range(6):
                    out = dev.empty(t.shape)
                    pk.kernels.softmax(t, out)
                    t = out
                    e = np.exp(y - y.max(-1, keepdims=True))
                    y = (e / e.sum(-1, keepdims=True)).astype("f4")
                if round_ % 3 == 0:
                    dev.empty(int(rng.integers(1, 60_000)))
                np.testing.assert_allclose(t.numpy(), y, rtol=1e-4)
            t.write(x)
            np.testing.assert_array_equal(t[1:, ::3].numpy(), x[1:, ::3])
            if round_ % 4 == 0:
                dev.trim()

    in_threads(8, work)
    stats = dev.memory_stats()
    assert stats.current == 0 and stats.live_buffers == 0
    check_works(dev)


@isolated
def test_threads_beside_a_recording_and_a_profile() -> None:
    dev = open_device()
    raw = dev.wgpu_device
    x = dev.tensor(np.ones((4, 16), "f4"))
    encoder = raw.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()

    def work(i: int) -> None:
        for _ in range(10):
            np.testing.assert_array_equal(pk.softmax(x).numpy(), np.full((4, 16), 1 / 16, "f4"))

    with dev.record(compute_pass):
        y = pk.softmax(x)
        in_threads(4, work)  # they neither wait for the block nor get into its pass
    compute_pass.end()
    raw.queue.submit([encoder.finish()])
    assert (y.numpy() == 1 / 16).all()
    with dev.profile() as p:
        in_threads(4, work)
    assert len(p.records) == 40
    check_works(dev)


@pytest.mark.skipif(ENGINE != "dawn", reason="devices of wgpu work on every thread")
@isolated
def test_a_device_of_others_without_synchronisation_stays_on_its_thread() -> None:
    dev = pk.Device.from_wgpu(raw_device())
    t = dev.zeros((4, 16))
    refused: list[int] = []

    def work(i: int) -> None:
        for use in (dev.flush, t.numpy, lambda: pk.softmax(t), lambda: dev.zeros(3), dev.close):
            try:
                use()
            except pk.FeatureError:
                refused.append(i)

    in_threads(1, work)
    assert len(refused) == 5
    assert "closed" not in repr(t)
    check_works(dev)


@isolated
def test_closed_while_others_read() -> None:
    dev = open_device()
    x = dev.ones((8 << 20,))
    x.numpy()

    def work(i: int) -> None:
        if i == 0:
            time.sleep(0.3)
            dev.close()
            return
        with pytest.raises(pk.DeviceLostError):
            while True:
                x.numpy()

    in_threads(4, work)


def test_two_devices_at_once_have_right_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_known_offsets", {})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(4, lambda i: calls._offsets(get_engine(ENGINE), 4096))
    finally:
        sys.setswitchinterval(interval)
    found = calls._offsets(get_engine(ENGINE), 4096)
    assert [o[0] for o in found] == [PARAMS_BYTES * i for i in range(len(found))]
