"""The budget is a cap of tensors, programs and pool together; the pool gives back what is old."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime import budget
from pykernels.runtime.bound import MAX_LAUNCHES
from tests.runtime._helpers import check_works, isolated, open_device, run_isolated

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]
MIB = 1 << 20


def held(dev: pk.Device) -> int:
    """What the budget counts."""
    stats = dev.memory_stats()
    return stats.current + stats.pooled


@isolated
def test_budget() -> None:
    with open_device() as dev:
        dev.set_memory_budget(1 << 20)
        a = dev.zeros(100_000)
        b = dev.empty(100_000)
        used = dev.memory_stats().current
        told = f"458752 more .* {used} are in use and 0 pooled, and the budget is {1 << 20}"
        with pytest.raises(pk.OutOfMemoryError, match=told):
            dev.empty(100_000)
        pk.kernels.cpy(a, b)  # recorded: making room must submit it before it destroys `b`
        del b
        c = dev.empty(60_000, "int32")  # the pooled buffer of another class makes room
        d = dev.empty(20_000)
        assert dev.memory_stats().budget == 1 << 20
        assert dev.memory_stats().current <= 1 << 20
        assert (a.numpy() == 0).all()
        del c, d
        dev.set_memory_budget(None)
        dev.empty(1 << 20)
        check_works(dev)


def test_a_lower_budget_trims_and_stays() -> None:
    with open_device() as dev:
        burst = [dev.empty(MIB, "uint8") for _ in range(16)]
        del burst
        dev.set_memory_budget(4 * MIB)
        assert held(dev) <= 4 * MIB
        kept = [dev.empty(MIB, "uint8") for _ in range(4)]
        with pytest.raises(pk.OutOfMemoryError, match=f"{4 * MIB} are in use and 0 pooled"):
            dev.empty(MIB, "uint8")
        del kept
        assert dev.trim() == 4 * MIB


def test_a_budget_below_what_is_in_use() -> None:
    """It is accepted, and nothing grows: no tensor, no scratch, no pool."""
    with open_device() as dev:
        kept = [dev.zeros(MIB // 4) for _ in range(4)]
        long = dev.rand((2, 100_000))
        y = dev.empty(long.shape)
        dev.set_memory_budget(2 * MIB)
        used = dev.memory_stats().current
        for _ in range(3):
            with pytest.raises(pk.OutOfMemoryError):
                dev.empty(1)
            with pytest.raises(pk.OutOfMemoryError):
                pk.kernels.softmax(long, y)  # with scratch
            with pytest.raises(pk.OutOfMemoryError):
                pk.softmax(long)
            assert dev.memory_stats().current == used and held(dev) == used
        pk.kernels.neg(kept[0], kept[1])  # without
        assert (kept[1].numpy() == 0).all()
        kept.pop()
        with pytest.raises(pk.OutOfMemoryError):
            dev.zeros(MIB // 4)
        assert held(dev) == used - MIB
        dev.set_memory_budget(None)
        check_works(dev)


def test_temporaries_of_a_call_are_summed() -> None:
    """All of them fit, or none is taken."""
    with open_device() as dev:
        x = dev.rand((1, 1 << 20))
        y = dev.empty(x.shape)
        pk.kernels.cumsum(x, y)
        scratch = dev.memory_stats().pooled_buffers
        needed = dev.trim()
        assert scratch > 1, "the case has several temporaries"
        dev._context.forget_calls()
        used = held(dev)
        dev.set_memory_budget(used + needed - 1)
        with pytest.raises(pk.OutOfMemoryError, match=f"{needed} more .* {used} are in use"):
            pk.kernels.cumsum(x, y)
        with pytest.raises(pk.OutOfMemoryError), dev.capture():
            pk.kernels.cumsum(x, y)
        assert held(dev) == used
        dev.set_memory_budget(used + needed)
        pk.kernels.cumsum(x, y)
        np.testing.assert_allclose(y.numpy(), np.cumsum(x.numpy(), -1, "f8"), rtol=1e-4)


def test_programs_count() -> None:
    with open_device() as dev:
        x = dev.rand((64, 256))
        before = dev.memory_stats().current
        with dev.capture() as program:
            y = pk.softmax(pk.softmax(x))
        assert program.nbytes == dev.memory_stats().current - before >= 2 * y.nbytes
        dev.set_memory_budget(held(dev))
        with pytest.raises(pk.OutOfMemoryError), dev.capture():
            pk.softmax(x)
        program()
        np.testing.assert_allclose(y.numpy().sum(-1), 1, rtol=1e-5)
        del program, y
        dev.empty(x.shape)


def test_room_is_made_by_those_let_go_first_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_device() as dev:
        pool, waits = dev._context.pool, list[object]()
        wait = pool.wait
        monkeypatch.setattr(pool, "wait", lambda: waits.append(wait()))
        x, y = dev.rand((4, 64)), dev.empty((4, 64))
        pk.kernels.softmax(x, y)
        first, second = dev.empty(MIB, "uint8"), dev.empty(2 * MIB, "uint8")
        dev.set_memory_budget(held(dev))
        del first
        dev.memory_stats()
        dev.flush()
        pk.kernels.softmax(x, y)
        dev.flush()
        del second
        dev.memory_stats()
        third = dev.empty(MIB // 2, "uint8")
        assert waits == [True]
        assert dev.memory_stats().pooled == 2 * MIB, "the older one of 1 MiB was enough"
        assert dev._context.calls.entries, "calls on tensors that live are kept"
        hits = dev.memory_stats().hits
        dev.empty(2 * MIB, "uint8")
        assert dev.memory_stats().hits == hits + 1 and len(waits) == 1
        del third


def test_the_pool_gives_back_what_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "UNUSED", 20)
    monkeypatch.setattr(budget, "SWEEP", 4)
    with open_device() as dev:
        x, y = dev.rand((4, 64)), dev.empty((4, 64))
        long, out = dev.rand((2, 100_000)), dev.empty((2, 100_000))
        pk.kernels.softmax(x, y)
        pk.kernels.softmax(long, out)  # with scratch
        burst = [dev.empty(MIB, "uint8") for _ in range(8)]
        pk.kernels.fill(burst[0], value=1)
        del burst
        assert dev.memory_stats().pooled > 8 * MIB
        dev._context.pool._sweep_at = 0
        [first] = [c for c in dev._context.calls.entries.values() if x._block in c.blocks][-1:]
        for i in range(60):
            pk.kernels.softmax(x, y)
            if i == 10:
                assert dev.memory_stats().pooled > 8 * MIB
            y.numpy() if i % 2 else dev.flush()
        assert dev.memory_stats().pooled == 0
        assert first in dev._context.calls.entries.values(), "the launch path stays warm"
        pk.kernels.softmax(long, out)
        np.testing.assert_allclose(out.numpy().sum(-1), 1, rtol=1e-4)
        check_works(dev)


def test_slots_of_forgotten_calls_are_used_again() -> None:
    """A loop whose tensors come and go keeps its params in slots of its own for ever."""
    with open_device() as dev:
        x = dev.rand((4, 64))
        params = dev._context.recorder.params
        for round_ in range(6):
            for i in range(400):
                y = dev.empty((4, 64))
                z = dev.empty((4 + i, 64))
                for _ in range(2):  # in two batches: the second gives each call a slot
                    pk.kernels.neg(x, y)
                    pk.kernels.fill(z, value=float(i))
                    dev.flush()
                if i % 100 == 0:
                    assert (z.numpy() == i).all()
                    np.testing.assert_array_equal(y.numpy(), -x.numpy())
            del y, z
            dev.trim()
            kept = params._next - MAX_LAUNCHES
            if round_ == 0:
                first = kept
        # Where batches end is a matter of time, too, and some calls keep slots by it or do not.
        assert 100 < first and kept < 2 * first


@pytest.mark.parametrize("value", [True, -1, 1.5, "1"])
def test_what_is_no_budget(dev: pk.Device, value: Any) -> None:
    with pytest.raises(pk.ArgumentError, match="budget"):
        dev.set_memory_budget(value)
    assert dev.memory_stats().budget is None


def test_the_budget_of_the_environment() -> None:
    code = """
        from tests.runtime._helpers import open_device
        import pykernels as pk
        try:
            dev = open_device()
        except pk.ArgumentError as e:
            print(e)
        else:
            print(dev.memory_stats().budget)
        """
    code = "\n".join(line.strip() if "import" in line else line[8:] for line in code.split("\n"))
    assert run_isolated(code, PYKERNELS_MEMORY_BUDGET="1048576").stdout == "1048576\n"
    assert "must be bytes but is '1G'" in run_isolated(code, PYKERNELS_MEMORY_BUDGET="1G").stdout


def test_internal_buffers_are_told(dev: pk.Device) -> None:
    before = dev.memory_stats().internal
    assert before > 0
    with dev.capture() as program:
        pk.kernels.fill(dev.empty(4), value=1.0)
    assert dev.memory_stats().internal > before
    del program
    dev.memory_stats()
    assert dev.memory_stats().internal == before
