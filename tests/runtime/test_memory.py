"""The pool and its statistics, counted against a book of the test's own; leaks."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench.facts import resident
from pykernels.runtime.budget import UNUSED
from pykernels.runtime.buffers import Buffers
from pykernels.runtime.engine import get_engine
from pykernels.runtime.memory import MemoryStats
from tests.runtime._helpers import ENGINE, check_works, open_device, raw_buffer

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


class Book:
    """What the statistics must say."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.free: dict[int, int] = {}
        self.peak = self.hits = self.misses = 0

    def take(self, tensor: pk.Tensor) -> None:
        size = tensor._block.size
        if self.free.get(size):
            self.free[size] -= 1
            self.hits += 1
        else:
            self.misses += 1
        self.live[id(tensor)] = size
        self.peak = max(self.peak, self.current + self.pooled)

    def drop(self, tensor: pk.Tensor) -> None:
        size = self.live.pop(id(tensor))
        self.free[size] = self.free.get(size, 0) + 1

    @property
    def current(self) -> int:
        return sum(self.live.values())

    @property
    def pooled(self) -> int:
        return sum(size * n for size, n in self.free.items())

    def check(self, dev: pk.Device) -> None:
        stats = dev.memory_stats()
        assert stats == MemoryStats(
            self.current, self.peak, self.pooled, len(self.live), sum(self.free.values()),
            self.hits, self.misses, None, stats.internal,
        )  # fmt: skip


def test_statistics_are_exact() -> None:
    rng = np.random.default_rng(5)
    book = Book()
    with open_device() as dev:
        book.check(dev)
        tensors: list[pk.Tensor] = []
        for i in range(400):
            step = rng.integers(6)
            if step < 2 or not tensors:
                n = int(rng.integers(1, 5000))
                t = dev.tensor(np.zeros(n, "f4")) if step else dev.empty(n, "int16")
                tensors.append(t)
                book.take(t)
                assert t._block.size >= t.nbytes
                del t
            elif step == 2:
                gone = tensors.pop(int(rng.integers(len(tensors))))
                book.drop(gone)
                del gone
            elif step == 3:
                view = tensors[-1][1:]  # a view keeps the buffer
                book.check(dev)
                del view
            elif step == 4:
                source = tensors[int(rng.integers(len(tensors)))]
                copy = source.copy()
                tensors.append(copy)
                book.take(copy)
                del copy, source
            elif i % 7 == 0:
                assert dev.trim() == book.pooled
                book.free.clear()
            book.check(dev)
        tensors.clear()
        gc.collect()
        stats = dev.memory_stats()
        assert (stats.current, stats.live_buffers) == (0, 0)
        assert stats.peak == book.peak


def test_scratch_is_counted_and_comes_back() -> None:
    with open_device() as dev:
        x = dev.rand((2, 100_000), seed=0)  # long rows: two passes with scratch
        y = dev.empty(x.shape)
        dev.sync()
        before = dev.memory_stats()
        pk.kernels.softmax(x, y)
        after = dev.memory_stats()
        assert after.current == before.current
        assert after.pooled > before.pooled
        assert after.peak >= after.current + after.pooled
        pk.kernels.softmax(x, y)
        again = dev.memory_stats()
        assert again.pooled == after.pooled and again.misses == after.misses
        np.testing.assert_allclose(y.numpy().sum(-1), 1, rtol=1e-4)


def test_a_buffer_that_was_handed_out_is_not_used_again(dev: pk.Device) -> None:
    t = dev.full(1000, 5)
    buffer = t.buffer
    before = dev.memory_stats()
    del t
    after = dev.memory_stats()
    assert after.live_buffers == before.live_buffers - 1
    assert after.pooled == before.pooled
    for _ in range(5):
        dev.zeros(1000)
    again = pk.Tensor.from_buffer(buffer, 1000, "float32", device=dev)
    assert (again.numpy() == 5).all()


def test_what_is_freed_is_what_was_not_used_for_long() -> None:
    """Free blocks are not in the order of their last use: a program marks its blocks ahead."""
    dev = open_device()
    pool = dev._context.pool
    first, second = dev.empty(3000, "uint8"), dev.empty(3000, "uint8")
    old, used = first._block, second._block
    del first, second
    dev.memory_stats()
    assert pool._free[used.size] == [used, old]
    used.mark = pool.serial + 2 * UNUSED
    pool.serial += UNUSED + 1
    pool._tidy()
    assert pool._free[used.size] == [used]
    again = dev.tensor(np.full(3000, 7, "uint8"))
    assert again._block is used and (again.numpy() == 7).all()


def test_a_loop_gets_the_same_blocks_in_each_turn() -> None:
    """So its launches find their bind groups, in whatever order it lets go of its tensors."""
    order = np.random.default_rng(3).permutation(12)
    with open_device() as dev:
        x = dev.ones(1000)
        turns = []
        for _ in range(6):
            made = [x + 1.0 for _ in range(12)]
            turns.append([t._block.number for t in made])
            for i in order:
                made[i] = made[i] * 2.0
                turns[-1].append(made[i]._block.number)
            x + 3.0  # is let go of at once
            made.sort(key=lambda t: t._block.number)
            del made[3:9]
            made.clear()
        assert turns[2] == turns[3] == turns[4] == turns[5]


def test_free_memory_of_another_size_is_used_before_more_is_made() -> None:
    with open_device() as dev:
        t = dev.empty(4_000_000, "uint8")
        block, before = t._block, dev.memory_stats()
        del t
        near = dev.empty(1_100_000, "uint8")
        assert near._block is block
        stats = dev.memory_stats()
        assert (stats.peak, stats.misses) == (before.peak, before.misses)
        del near
        dev.memory_stats()  # takes back what was let go of
        small = dev.empty(900_000, "uint8")
        assert small._block is not block
        again = dev.empty(4_000_000, "uint8")
        assert again._block is block


def test_tensors_in_a_cycle_that_is_collected(dev: pk.Device) -> None:
    """The finaliser of a buffer must not run before its block is back in the pool."""
    for _ in range(3):
        cycle: list[Any] = [dev.tensor(np.ones(3000, "f4")), dev.zeros(3000)]
        cycle.append(cycle)
        del cycle
        gc.collect()
        assert dev.memory_stats().pooled_buffers >= 2
        a, b = dev.tensor(np.ones(3000, "f4")), dev.zeros(3000)
        assert (a.numpy() == 1).all() and (b.numpy() == 0).all()
        del a, b


def native_objects() -> dict[str, int]:
    """Live objects inside wgpu; Python's own objects of the other engine."""
    if ENGINE == "wgpu":
        from wgpu.backends.wgpu_native._helpers import generate_report

        return {k: v["kept"] for k, v in generate_report()["hub"].items()}
    from wgpudawn._diagnostics import diagnostics

    return dict(diagnostics.object_counts.tracker.counts)


def test_thousands_of_launches_leak_nothing() -> None:
    with open_device() as dev:
        whole, long = dev.rand((4200, 16), seed=0), dev.rand((1, 40_000), seed=0)
        dst = dev.empty((16, 16))
        buffer = raw_buffer(dev.wgpu_device)
        foreign = pk.Tensor.from_buffer(buffer, (16, 16), "float32", device=dev)
        counts = []
        for round_ in range(3):
            for i in range(0, 4096, 2):
                pk.kernels.softmax(whole[i : i + 16], dst)
                if i % 256 == 0:
                    pk.kernels.softmax(dst, foreign)
                    pk.kernels.softmax(long, long)  # in several passes, with scratch
                    pk.softmax(whole[i : i + 3 + round_]).numpy()
            dev.sync()
            dev.trim()
            gc.collect()
            counts.append(native_objects())
        assert counts[1] == counts[2]
        assert len(dev._context.plans) < 100
        stats = dev.memory_stats()
        assert (stats.live_buffers, stats.pooled) == (3, 0)
        kept = {whole._block, long._block, dst._block}  # calls that name others are forgotten
        assert all(kept.issuperset(c.blocks) for c in dev._context.calls.entries.values())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_runs_of_a_program_keep_no_memory_of_the_process(dev: pk.Device) -> None:
    """Each of these runs submits a command buffer of its own; llvmpipe kept 90 KB for each that was
    made and never submitted."""
    x, y = dev.zeros(64), dev.zeros(64)
    with dev.capture() as program:
        pk.kernels.neg(x, y)

    def after(runs: int) -> int:
        for _ in range(runs):
            program()
            dev.sync()
        gc.collect()
        return resident()

    after(50)
    before = after(50)
    assert after(400) - before < 9_000_000


def test_caches_are_bounded(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    from pykernels.runtime import bound as calls
    from pykernels.runtime import launch

    monkeypatch.setattr(launch, "MAX_PLANS", 16)
    monkeypatch.setattr(calls.Calls, "LIMIT", 8)
    whole = dev.rand((4, 64), seed=0)
    for i in range(40):
        y = pk.softmax(whole[:, : i + 1]).numpy()
        np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-5)
        assert len(dev._context.plans) <= 16
        assert len(dev._context.calls.entries) <= 8
    check_works(dev)


def test_nothing_keeps_a_buffer_alive() -> None:
    with open_device() as dev:
        t, u = dev.rand((4, 64), seed=0), dev.rand((4, 64), seed=0)
        foreign_buffer = raw_buffer(dev.wgpu_device)
        foreign = pk.Tensor.from_buffer(foreign_buffer, (4, 64), "float32", device=dev)
        for x in (t, u, foreign, t, u, foreign):
            pk.kernels.softmax(x, x)
        refs = [weakref.ref(o) for o in (t._block.buffer, u.buffer, foreign_buffer)]
        dev.sync()
        del t, u, x, foreign, foreign_buffer
        gc.collect()
        dev.memory_stats()
        assert refs[1]() is None and refs[2]() is None
        assert not dev._context.adopted
        dev.trim()
        assert refs[0]() is None


def test_a_device_that_is_let_go_is_freed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "pykernels"):
        dev = open_device()
        pk.softmax(dev.rand((4, 64), seed=0)).numpy()
        refs = [weakref.ref(dev), weakref.ref(dev.wgpu_device)]
        del dev
        gc.collect()
        assert [r() for r in refs] == [None, None]
    # A handler that keeps what it is given, as caplog's does, keeps no device with it.
    assert any("opened" in r.getMessage() for r in caplog.records)


def test_one_device_for_each_gpudevice() -> None:
    raw = get_engine(ENGINE).module.gpu.request_adapter_sync().request_device_sync()
    dev = pk.Device.from_wgpu(raw)
    a = pk.Tensor.from_buffer(raw_buffer(raw), 4, "float32")
    b = pk.Tensor.from_buffer(raw_buffer(raw), 4, "float32")
    assert a.device is b.device is dev is pk.Device.from_wgpu(raw)
    pk.kernels.cpy(a, b)
    dev.close()
    assert pk.Device.from_wgpu(raw) is not dev
    check_works(pk.Device.from_wgpu(raw))


def test_a_buffer_that_was_handed_out_comes_back_as_what_it_is(dev: pk.Device) -> None:
    a = np.arange(16, dtype="f4")
    x, y = dev.tensor(a), dev.empty((16,))
    again = pk.Tensor.from_buffer(x.buffer, (16,), "float32", device=dev)
    with dev.batch():
        pk.kernels.cpy(x, y)
        again.write(a + 1)  # behind the launch
    np.testing.assert_array_equal(y.numpy(), a)
    pk.kernels.add(x, y, again)  # one buffer, read and written
    np.testing.assert_array_equal(x.numpy(), 2 * a + 1)


@pytest.mark.parametrize(("most", "largest"), [(1 << 28, 1 << 28), (1000, 992), (15, 0)])
def test_the_largest_buffer_is_a_multiple_of_16(most: int, largest: int) -> None:
    assert Buffers(get_engine(ENGINE), None, most, threading.RLock()).largest == largest
