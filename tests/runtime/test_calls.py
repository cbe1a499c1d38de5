"""One prepared call: temporaries in place of arguments, handles, and what times the dispatches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels._generated.kernels.cpy import KERNEL as CPY
from pykernels._generated.kernels.softmax import KERNEL as SOFTMAX
from pykernels.runtime import launch
from pykernels.runtime.handle import Handle
from pykernels.tensors.layout import contiguous_strides, layout
from tests.harness import assert_same_bits, caps
from tests.runtime._helpers import check_works, softmax

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(3)


def bodies(dev: pk.Device, call: Any) -> list[str]:
    """The bodies that a call dispatches, in order."""
    with dev.profile() as p:
        call()
    return [r.kernel for r in p.records]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels of all launches that were not in the cache of calls."""
    found: list[str] = []
    slow = launch._launch_slow

    def counted(context: Any, key: Any, tensors: Any, scalars: Any, known: Any) -> Any:
        if known is None:
            found.append(key[0].name)
        return slow(context, key, tensors, scalars, known)

    monkeypatch.setattr(launch, "_launch_slow", counted)
    return found


# -- temporaries in place of arguments ------------------------------------------------------------


def test_an_overlapping_input_is_copied_in_the_same_call(
    dev: pk.Device, launches: list[str]
) -> None:
    """Rows 0 to 3 are read, rows 2 to 5 are written."""
    values = RNG.standard_normal((8, 128), np.float32)
    memory = dev.tensor(values)
    x, dst = memory[0:4], memory[2:6]
    plans = dict(dev._context.plans)
    for i in range(3):
        memory.write(values)
        found = bodies(dev, lambda: pk.kernels.softmax(x, dst))
        assert found == ["cpy_bytes", "softmax"], i
        apart = dev.empty(x.shape)
        pk.kernels.softmax(dev.tensor(values)[0:4], apart)
        assert_same_bits(dst.numpy(), apart.numpy())
        assert_same_bits(memory[0:2].numpy(), values[0:2])
        assert_same_bits(memory[6:].numpy(), values[6:])
    assert set(launches) == {"softmax"}  # no launch of cpy
    added = [p for key, p in dev._context.plans.items() if key not in plans]
    assert sorted(len(p.dispatches) for p in added) == [1, 2]  # apart, and with the copy
    copied = max(added, key=lambda p: len(p.dispatches))
    assert [d.op for d in copied.dispatches] == ["cpy", "softmax"]
    assert len(copied.scratch) == 1


def test_broadcast_inputs_are_copied_once_per_element(dev: pk.Device) -> None:
    """y repeats one row of dst's memory: the temporary holds the row, not the repeats."""
    values = RNG.random((6, 64), np.float32)
    memory, dy = dev.tensor(values), dev.rand((4, 64), seed=0)
    y = memory[2:3].broadcast_to((4, 64))
    pk.kernels.softmax_backward(y, dy, memory[1:5])
    want = values[2] * (dy.numpy() - (dy.numpy() * values[2]).sum(-1, keepdims=True))
    np.testing.assert_allclose(memory[1:5].numpy(), want, rtol=1e-4, atol=1e-5)
    prepared = list(dev._context.plans.values())[-1]
    assert [d.op for d in prepared.dispatches] == ["cpy", "softmax_backward"]
    assert prepared.scratch[0] < 3 * 256


def test_float16_is_computed_in_float32_where_there_is_none(
    dev: pk.Device, launches: list[str]
) -> None:
    values = RNG.standard_normal((4, 96)).astype(np.float16)
    x, dst = dev.tensor(values), dev.empty((4, 96), "float16")
    with caps(dev, f16=False):
        found = bodies(dev, lambda: pk.kernels.softmax(x, dst))
        assert found == ["cpy_cast", "softmax", "cpy_cast"]
        assert launches == ["softmax"]
        (prepared,) = dev._context.plans.values()
    assert [d.op for d in prepared.dispatches] == ["cpy", "softmax", "cpy"]
    assert [d.label for d in prepared.dispatches if "f16" in d.label.partition(" ")[2]] == []
    want = softmax(values).astype(np.float16)
    np.testing.assert_allclose(dst.numpy(), want, rtol=2e-3, atol=1e-6)


def test_outputs_with_touching_windows_are_copied_back(dev: pk.Device, launches: list[str]) -> None:
    """lse and dst lie 16 bytes apart: bindings of both would overlap."""
    q, k, v = (dev.rand((1, 2, 8, 32), seed=i) for i in range(3))
    memory = dev.zeros(1 + 16 + 4 + 512 + 1)
    lse = memory[1:17].reshape(1, 2, 8)
    dst = memory[21:533].reshape(1, 2, 8, 32)
    apart, apart_lse = dev.empty(dst.shape), dev.empty(lse.shape)
    pk.kernels.flash_attn(q, k, v, apart, lse=apart_lse)
    launches.clear()
    found = bodies(dev, lambda: pk.kernels.flash_attn(q, k, v, dst, lse=lse))
    assert launches == ["flash_attn"]
    assert found[0].startswith("cpy") and found[-1].startswith("cpy")
    assert not any(name.startswith("cpy") for name in found[1:-1])
    np.testing.assert_allclose(dst.numpy(), apart.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(lse.numpy(), apart_lse.numpy(), rtol=1e-5, atol=1e-6)
    assert memory.numpy()[[0, 17, 18, 19, 20, 533]].tolist() == [0] * 6


def test_outputs_that_share_elements_are_refused_without_float16_too(dev: pk.Device) -> None:
    q, k, v = (dev.zeros((1, 2, 8, 32), "float16") for _ in range(3))
    grads = [dev.zeros((1, 2, 8, 32), "float16") for _ in range(3)]
    lse = dev.zeros((1, 2, 8))
    for f16 in (dev._context.caps.f16, False):
        with caps(dev, f16=f16), pytest.raises(pk.AliasError, match="share elements"):
            pk.kernels.flash_attn_backward(q, k, v, q, lse, q, grads[0], grads[1], grads[0])


def test_an_error_leaves_no_copies_behind(dev: pk.Device) -> None:
    """The plan raises after an input was replaced: nothing is recorded, nothing is kept."""
    x, dst = (dev.zeros((4, 4096), "float16") for _ in range(2))
    dev.sync()
    recorder, before = dev._context.recorder, dev.memory_stats().current
    with caps(dev, f16=False, max_binding=4096):
        with pytest.raises(pk.LimitError, match=r"\[softmax\]"):
            pk.kernels.softmax(x, dst)
        assert not dev._context.plans
    assert not recorder._queue and not recorder.params.used
    assert dev.memory_stats().current == before
    check_works(dev)


def test_temporaries_are_the_scratch_of_all_calls(dev: pk.Device, launches: list[str]) -> None:
    values = RNG.standard_normal((8, 128), np.float32)
    memory, larger = dev.tensor(values), dev.rand((64, 1024), seed=0)
    dev.trim()
    start = dev.memory_stats()
    pk.kernels.softmax(memory[0:4], memory[2:6])
    before = dev.memory_stats()
    assert before.current == start.current and before.pooled > start.pooled == 0
    launches.clear()
    for _ in range(20):
        pk.kernels.softmax(memory[0:4], memory[2:6])
    assert launches == []  # in the cache
    assert dev.memory_stats() == before
    pk.kernels.softmax(larger[0:32], larger[16:48])  # the scratch grows: known calls are forgotten
    grown = dev.memory_stats()
    assert grown.current == start.current
    assert grown.pooled_buffers == 2 and grown.pooled > before.pooled
    memory.write(values)
    pk.kernels.softmax(memory[0:4], memory[2:6])
    assert launches == ["softmax", "softmax"]
    np.testing.assert_allclose(memory[2:6].numpy(), softmax(values[0:4]), rtol=1e-5, atol=1e-7)
    pooled = dev.memory_stats().pooled
    assert dev.trim() == pooled > 0 and dev.memory_stats().pooled == 0
    pk.kernels.softmax(memory[0:4], memory[2:6])
    dev.set_memory_budget(dev.memory_stats().current + dev.memory_stats().pooled)
    try:
        with pytest.raises(pk.OutOfMemoryError, match="budget"):
            pk.kernels.softmax(larger[0:32], larger[16:48])
    finally:
        dev.set_memory_budget(None)
    check_works(dev)


def test_copies_in_a_pass_of_a_caller(dev: pk.Device) -> None:
    values = RNG.standard_normal((8, 128), np.float32)
    memory = dev.tensor(values)
    encoder = dev.wgpu_device.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    with dev.record(compute_pass):
        pk.kernels.softmax(memory[0:4], memory[2:6])
    compute_pass.end()
    dev.wgpu_device.queue.submit([encoder.finish()])
    np.testing.assert_allclose(memory[2:6].numpy(), softmax(values[0:4]), rtol=1e-5, atol=1e-7)


# -- handles --------------------------------------------------------------------------------------


def test_launches_need_handles_only(dev: pk.Device) -> None:
    context = dev._context
    values = RNG.standard_normal((4, 96), np.float32)
    x = dev.tensor(values)
    handle = Handle(context, context.allocate(x.nbytes), 0, x._layout)
    out = Handle(context, context.allocate(x.nbytes), 0, x._layout)
    launch.run(CPY, (x, handle))
    launch.run(SOFTMAX, (handle, None, None, out), (1.0, 0.0, False))
    raw = context.transfers.read(out._block, 0, x.nbytes)
    np.testing.assert_allclose(
        np.frombuffer(raw, np.float32).reshape(4, 96), softmax(values), rtol=1e-5, atol=1e-7
    )


def test_keys_have_the_phase_and_locations_the_offset(dev: pk.Device) -> None:
    align = dev._context.caps.alignment
    memory = dev.zeros(4 * align)
    a, b, c = memory[4:8], memory[4 + align : 8 + align], memory[5:9]
    assert a._key == b._key != c._key
    assert len({t._location for t in (a, b, c)}) == 3
    assert a._location == memory[4:8]._location
    lay = layout((4,), contiguous_strides((4,), 4), a._layout.dtype)
    assert Handle(dev._context, memory._storage, 16, lay)._location == a._location


def test_what_is_no_tensor_is_named(dev: pk.Device) -> None:
    with pytest.raises(pk.DTypeError, match=r"\[cpy\] dst must be a pykernels.Tensor but is list"):
        launch.run(CPY, (dev.zeros(3), []))  # type: ignore[arg-type]


# -- timers ---------------------------------------------------------------------------------------


class FakeTimer:
    """Writes down what a recorder tells it."""

    def __init__(self, dev: pk.Device, batches: bool) -> None:
        self.batches = batches
        self.done: list[FakeBatch] = []
        self.null = dev._context.engine.ffi.NULL

    def batch(self) -> FakeBatch:
        return FakeBatch(self.null)


class FakeBatch:
    def __init__(self, null: Any) -> None:
        self.null = null
        self.begun: list[list[tuple[str, int]]] = []
        self.resolved = 0

    def begin(self, notes: Any) -> Any:
        assert all(host > 0 for _, _, host in notes)
        self.begun.append([(label.partition(" ")[0], nbytes) for label, nbytes, _ in notes])
        return self.null

    def resolve(self, raw_encoder: Any) -> None:
        assert raw_encoder != self.null
        self.resolved += 1


@pytest.mark.parametrize("batches", (False, True))
def test_a_recorder_takes_any_timer(dev: pk.Device, batches: bool) -> None:
    x, y = dev.zeros((4, 64)), dev.zeros((4, 64))
    dev.sync()
    timer = FakeTimer(dev, batches)
    dev._context.recorder.timer = timer
    try:
        pk.kernels.cpy(x, y)
        pk.kernels.softmax(y, y)
        assert not timer.done
        dev.flush()
    finally:
        dev._context.recorder.timer = None
    copied = ("cpy_bytes", 2 * x.nbytes)
    in_place = ("softmax", x.nbytes + 16)  # one binding; 16 for a mask not given
    (batch,) = timer.done
    assert batch.begun == ([[copied, in_place]] if batches else [[copied], [in_place]])
    assert batch.resolved == 1
    pk.kernels.cpy(x, y)
    dev.flush()
    assert len(timer.done) == 1


def test_params_that_a_batch_finds_again_are_those_of_its_launches(dev: pk.Device) -> None:
    """Launches of one or more dispatches, with indices and without, in an order of its own in each
    batch: they take slots of params that other launches had, or the same ones again."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4, 8), np.float32)
    long = rng.standard_normal((1, 5000), np.float32)
    x, y = dev.tensor(rows), dev.tensor(long)
    few, many, picked = dev.empty((4, 8)), dev.empty((1, 5000)), dev.empty((2, 8))
    index = [dev.tensor(np.array(i, np.int32)) for i in ((0, 3), (2, 1))]

    def of(values: np.ndarray, scale: float) -> np.ndarray:
        e = np.exp(scale * (values - values.max(-1, keepdims=True)))
        return np.asarray(e / e.sum(-1, keepdims=True))

    def launch(which: int) -> tuple[pk.Tensor, np.ndarray]:
        scale = (1.0, 0.5)[which % 2]
        if which < 2:
            pk.kernels.softmax(x, few, scale=scale)
            return few.copy(), of(rows, scale)
        if which < 4:
            pk.kernels.softmax(y, many, scale=scale)
            return many.copy(), of(long, scale)
        pk.kernels.get_rows(x, index[which % 2], picked)
        return picked.copy(), rows[[(0, 3), (2, 1)][which % 2], :]

    orders = [rng.integers(0, 6, 8) for _ in range(4)]
    for batch in (0, 0, 1, 0, 2, 2, 1, 3, 0):
        with dev.batch():
            found = [launch(int(which)) for which in orders[batch]]
        for got, want in found:
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-7)


def test_a_launch_in_the_slot_of_an_earlier_batch_reports_as_itself(dev: pk.Device) -> None:
    x, index = dev.zeros((4, 8)), dev.tensor(np.array([0, 3], np.int32))
    out = dev.empty((2, 8))
    dev.sync()
    pk.kernels.get_rows(x, index, out)
    dev.flush()
    index.write(np.array([0, 4], np.int32))
    pk.kernels.get_rows(x, index, out)
    with pytest.raises(pk.IndexRangeError, match="checked launch 2 since"):
        dev.sync()
