"""What would end the process, or hang it: each case raises a documented error instead."""

from __future__ import annotations

import gc
import os
import sys
import textwrap
import time
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import (
    ENGINE,
    USAGE,
    alone,
    check_works,
    isolated,
    open_device,
    raw_buffer,
    raw_device,
    run_isolated,
)

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


def foreign(usage: int = USAGE, nbytes: int = 1024) -> tuple[pk.Device, Any, pk.Tensor]:
    """A device and a buffer that the caller owns, and a tensor of zeros on it."""
    raw = raw_device()
    dev = pk.Device.from_wgpu(raw)
    buffer = raw_buffer(raw, nbytes, usage)
    return dev, buffer, pk.Tensor.from_buffer(buffer, (4, 16), "float32")


# -- buffers of others ----------------------------------------------------------------------------


@isolated
def test_buffer_destroyed_before_and_after_a_launch() -> None:
    dev, buffer, t = foreign()
    x = dev.full((4, 16), 1)
    y = dev.empty((4, 16))
    pk.kernels.cpy(x, y)
    buffer.destroy()
    with pytest.raises(pk.BufferStateError, match="destroyed"):
        pk.kernels.cpy(t, x)
    with pytest.raises(pk.BufferStateError, match="destroyed"):
        pk.kernels.softmax(x, t)
    assert (y.numpy() == 1).all()  # recorded before, in the same batch
    assert (x.numpy() == 1).all()
    check_works(dev)
    # Between launch and flush: the batch is lost.
    buffer = raw_buffer(dev.wgpu_device)
    t = pk.Tensor.from_buffer(buffer, (4, 16), "float32")
    with dev.batch():  # else it is submitted at once
        pk.kernels.cpy(t, x)
        buffer.destroy()
        with pytest.raises(pk.BufferStateError, match="destroyed"):
            dev.flush()
    assert (x.numpy() == 1).all()
    dev.flush()
    check_works(dev)


@isolated
def test_buffer_destroyed_before_read_and_write() -> None:
    dev, buffer, t = foreign()
    buffer.destroy()
    data = np.ones((4, 16), "f4")
    for _ in range(3):
        with pytest.raises(pk.BufferStateError, match="destroyed"):
            t.numpy()
        with pytest.raises(pk.BufferStateError, match="destroyed"):
            t.write(data)
        with pytest.raises(pk.BufferStateError, match="destroyed"):
            t[1:, 1:].write(data[1:, 1:])
        with pytest.raises(pk.BufferStateError, match="destroyed"):
            pk.softmax(t)
        gc.collect()  # a failed write_buffer of Dawn's ends the process here
    check_works(dev)


@isolated
def test_mapped_buffer() -> None:
    dev, _, t = foreign()
    raw = dev.wgpu_device
    mapped = raw_buffer(raw, mapped_at_creation=True)
    with pytest.raises(pk.BufferStateError, match="mapped"):
        pk.Tensor.from_buffer(mapped, 4, "float32")
    mapped.unmap()
    m = pk.Tensor.from_buffer(mapped, (4, 16), "float32")
    with dev.batch():  # else it is submitted at once
        pk.kernels.cpy(t, m)
        mapped._map_state = "mapped"  # as map_async does; wgpu needs a feature for STORAGE
        data = np.ones((4, 16), "f4")
        for use in (dev.flush, m.numpy, lambda: m.write(data), lambda: pk.softmax(m)):
            with pytest.raises(pk.BufferStateError, match="mapped"):
                use()
            gc.collect()
    mapped._map_state = "unmapped"
    assert (m.numpy() == 0).all()
    check_works(dev)


@isolated
def test_buffer_of_another_device_or_engine() -> None:
    dev, buffer, t = foreign()
    other = open_device()
    with pytest.raises(pk.BufferStateError, match="another device"):
        pk.Tensor.from_buffer(buffer, 4, "float32", device=other)
    with pytest.raises(pk.BufferStateError, match="two devices"):
        pk.kernels.cpy(t, other.zeros((4, 16)))
    with pytest.raises(pk.BufferStateError, match="two devices"):
        pk.kernels.cpy(other.zeros((4, 16)), t)
    with pytest.raises(pk.DTypeError, match="GPUBuffer"):
        pk.Tensor.from_buffer(np.zeros(4), 4, "float32")
    with pytest.raises(pk.NoAdapterError):
        pk.Device.from_wgpu(buffer)
    second = pk.Device(engine="dawn" if ENGINE == "wgpu" else "wgpu") if _both() else None
    if second is not None:
        with pytest.raises(pk.DTypeError, match="GPUBuffer of"):
            pk.Tensor.from_buffer(buffer, 4, "float32", device=second)
        check_works(second)
    check_works(dev)
    check_works(other)


def _both() -> bool:
    """Dawn refuses an old lavapipe, so the second engine may find no adapter."""
    try:
        return all(pk.list_adapters(name) for name in ("wgpu", "dawn"))  # type: ignore[arg-type]
    except pk.NoAdapterError:
        return False


@isolated
def test_usage_flags_and_odd_sizes() -> None:
    raw = raw_device()
    dev = pk.Device.from_wgpu(raw)
    with pytest.raises(pk.BufferStateError, match="STORAGE"):
        pk.Tensor.from_buffer(raw_buffer(raw, usage=0x0C), 4, "float32")
    t = pk.Tensor.from_buffer(raw_buffer(raw, usage=0x80), (4, 16), "float32")
    data = np.ones((4, 16), "f4")
    with pytest.raises(pk.BufferStateError, match="COPY_SRC"):
        t.numpy()
    with pytest.raises(pk.BufferStateError, match="COPY_DST"):
        t.write(data)
    gc.collect()
    pk.kernels.cpy(dev.tensor(data), t)  # kernels need none of them
    np.testing.assert_array_equal(t.copy().numpy(), data)
    for nbytes in (0, 1, 2, 3):
        with pytest.raises(pk.BufferStateError, match="4 bytes"):
            pk.Tensor.from_buffer(raw_buffer(raw, nbytes), 0, "uint8")
    rng = np.random.default_rng(0)
    for nbytes in (4, 12, 30, 36, 1021, 1052):
        buffer = raw_buffer(raw, nbytes)
        whole = nbytes // 4 * 4
        t = pk.Tensor.from_buffer(buffer, whole, "uint8")
        data = rng.integers(0, 255, whole).astype("u1")
        t.write(data)
        t[1::2].write(data[1::2])
        np.testing.assert_array_equal(t.numpy(), data)
        x = pk.Tensor.from_buffer(buffer, (1, whole // 4), "float32")
        x.write(np.zeros((1, whole // 4), "f4"))
        pk.kernels.softmax(x, x)  # in place, up to the last word
        np.testing.assert_allclose(x.numpy(), 4 / whole, rtol=1e-5)
        with pytest.raises(pk.ShapeError, match="leave the buffer"):
            pk.Tensor.from_buffer(buffer, nbytes + 1, "uint8")
        with pytest.raises(pk.ShapeError, match="leave the buffer"):
            pk.Tensor.from_buffer(buffer, 4, "uint8", offset=nbytes - 3)
        with pytest.raises(pk.ShapeError, match="leave the buffer"):
            pk.Tensor.from_buffer(buffer, 2, "uint8", strides=(-1,))
        if nbytes % 4:
            with pytest.raises(pk.LimitError, match="no multiple of 4"):
                pk.Tensor.from_buffer(buffer, nbytes, "uint8")
    with pytest.raises(pk.ShapeError, match="multiple of the item size"):
        pk.Tensor.from_buffer(buffer, 1, "float32", offset=2)
    check_works(dev)


@isolated
def test_buffer_of_a_tensor_destroyed_by_a_caller() -> None:
    dev = open_device()
    t, x = dev.zeros((4, 16)), dev.zeros((4, 16))
    pk.kernels.cpy(t, x)
    pk.kernels.cpy(t, x)  # the bind group is known now
    t.buffer.destroy()
    with pytest.raises(pk.BufferStateError, match="destroyed"):
        pk.kernels.cpy(t, x)
    with pytest.raises(pk.BufferStateError, match="destroyed"):
        t.numpy()
    late = dev.zeros((4, 16))
    buffer = late.buffer
    with dev.batch():  # else it is submitted at once
        pk.kernels.cpy(late, x)
        buffer.destroy()
        with pytest.raises(pk.BufferStateError, match="destroyed"):
            dev.flush()
    del t, late, buffer
    for _ in range(4):  # nor does the pool hand it out again
        check_works(dev)


# -- the end of a device --------------------------------------------------------------------------


@isolated
def test_closed_device() -> None:
    dev = open_device()
    t = dev.zeros((4, 16))
    pk.softmax(t)
    dev.close()
    dev.close()
    uses = [
        dev.flush, dev.sync, dev.trim, t.numpy, t.copy, lambda: pk.softmax(t),
        lambda: dev.tensor([1.0]), lambda: dev.zeros(3), lambda: t.write(np.zeros((4, 16), "f4")),
        lambda: dev.batch().__enter__(), lambda: dev.profile().__enter__(), lambda: t[0, 0].item(),
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(pk.DeviceLostError, match="closed"):
            use()
    assert "closed" in repr(t)
    repr(dev), dev.info, dev.memory_stats(), t[1:].shape, t.T
    with open_device() as another:
        check_works(another)
    assert another._context.dead
    for block in (pk.Device.batch, pk.Device.profile):
        dev = open_device()
        with pytest.raises(pk.DeviceLostError), block(dev):
            pk.softmax(dev.zeros((4, 16)))
            dev.close()


@isolated
def test_device_destroyed_by_its_owner_with_work_in_flight() -> None:
    dev, buffer, t = foreign()
    x = dev.zeros((4, 16))
    y = pk.softmax(x)
    dev.wgpu_device.destroy()
    data = np.ones((4, 16), "f4")
    uses = [
        dev.flush, dev.sync, y.numpy, lambda: pk.softmax(t), lambda: t.write(data),
        lambda: pk.softmax(dev.tensor(data)), dev.sync, lambda: pk.Device.from_wgpu(raw).sync(),
        lambda: pk.Tensor.from_buffer(buffer, 4, "float32").numpy(), lambda: x.write(data),
        lambda: dev.empty(1 << 20), lambda: pk.log_softmax(t.T), t.numpy,
    ]  # fmt: skip
    raw = dev.wgpu_device
    for use in uses:
        with pytest.raises(pk.DeviceLostError):
            use()
        gc.collect()
    dev.trim()
    dev.close()
    with pytest.raises(pk.DeviceLostError):
        pk.Device.from_wgpu(raw)
    check_works(open_device())


@isolated
def test_device_destroyed_in_the_middle_of_a_wait() -> None:
    """The wait ends, and mapped memory is not asked for: that would end the process. (Destroying
    from another thread between our last check and the call still does: a race that only the owner
    can avoid.)"""
    dev = open_device()
    context = dev._context
    for _ in range(50):
        pk.softmax(dev.zeros((64, 1024)))
    steps = context.transfers.submit_read(context.null, 0, 4, lambda at, data: None, None)
    signal = next(steps)
    dev.wgpu_device.destroy()
    context.engine.signals.wait(dev.wgpu_device._internal, signal, 0.0)
    with pytest.raises(pk.DeviceLostError):
        next(steps, None)
    check_works(open_device())


def test_interpreter_exit_with_work_in_flight() -> None:
    code = """
        import numpy as np, pykernels as pk
        from tests.runtime._helpers import open_device, raw_device, raw_buffer
        dev = open_device()
        kept = [pk.softmax(dev.tensor(np.ones((512, 512), "f4"))) for _ in range(20)]
        second = pk.Device.from_wgpu(raw_device())
        t = pk.Tensor.from_buffer(raw_buffer(second.wgpu_device), 64, "float32")
        second.batch().__enter__()
        pk.softmax(t)
        dev.flush()
        pk.softmax(kept[0])
        print("end")
        """
    done = run_isolated(textwrap.dedent(code))
    assert done.stdout == "end\n"
    assert done.stderr == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@alone
def test_fork_with_a_live_device() -> None:
    dev = open_device()
    t = dev.tensor(np.ones((4, 16), "f4"))
    pk.softmax(t)  # recorded, not submitted
    handed_out = dev.ones(3)
    _ = handed_out.buffer
    child = os.fork()
    if child == 0:
        uses = [
            t.numpy, dev.sync, dev.flush, lambda: pk.softmax(t), lambda: dev.zeros(3),
            open_device, lambda: pk.softmax(np.ones((2, 2), "f4")),
            lambda: pk.list_adapters(ENGINE), lambda: pk.Device.from_wgpu(dev.wgpu_device),
        ]  # fmt: skip
        for use in uses:
            try:
                use()
            except pk.DeviceLostError:
                continue
            except pk.NoAdapterError:  # wgpu's default device, in the column of the other engine
                continue
            os._exit(3)
        live = dev.memory_stats().live_buffers
        del handed_out
        gc.collect()
        if dev.memory_stats().live_buffers != live:  # it would have been released here
            os._exit(4)
        dev.close()
        del t, dev
        gc.collect()
        sys.exit(0)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.02)
    else:
        os.kill(child, 9)
        raise AssertionError("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    check_works(dev)


# -- memory ---------------------------------------------------------------------------------------


@isolated
def test_more_memory_than_there_is() -> None:
    dev = open_device()
    keep = dev.tensor(np.arange(100, dtype="f4"))
    largest = dev.limits["max-buffer-size"]
    for shape in ((largest + 1,), (1 << 40, 1 << 40), (1 << 62,), (3, 1 << 61, 5)):
        with pytest.raises(pk.OutOfMemoryError):
            dev.empty(shape, "uint8")
    for shape in (-1, (2, -3), 1.5, "ab", (2.0,), None):
        with pytest.raises(pk.ShapeError):
            dev.empty(shape)  # type: ignore[arg-type]
    huge = np.broadcast_to(np.float32(1), (largest // 4 + 1,))
    dev.set_memory_budget(1 << 20)
    with pytest.raises(pk.OutOfMemoryError, match="budget"):
        dev.tensor(np.zeros(1 << 20, "f4"))
    with pytest.raises(pk.ArgumentError):
        dev.set_memory_budget(-1)
    assert huge.nbytes > largest
    np.testing.assert_array_equal(keep.numpy(), np.arange(100))
    check_works(dev)


@isolated
def test_driver_out_of_memory_trims_and_tries_again() -> None:
    dev = open_device()
    raw, engine = dev.wgpu_device, dev._context.engine
    create, failures = raw.create_buffer, 0
    if ENGINE == "dawn":
        error = engine.module.GPUOutOfMemoryError("no room")
    else:
        error = engine.module.GPUError("Validation Error: Not enough memory left.")

    def fails(**options: Any) -> Any:
        nonlocal failures
        if failures > 0:
            failures -= 1
            raise error
        return create(**options)

    raw.create_buffer = fails
    del_me = dev.zeros(1000)
    del del_me
    assert dev.memory_stats().pooled > 0
    failures = 1
    t = dev.zeros(100_000)
    assert dev.memory_stats().pooled == 0
    failures = 2
    used = dev.memory_stats().current
    with pytest.raises(pk.OutOfMemoryError, match=f"more .* {used} are in use and 0 pooled, and"):
        dev.zeros(200_000)
    failures = 2
    with pytest.raises(pk.OutOfMemoryError):
        dev.tensor(np.zeros(300_000, "f4"))
    failures = 2
    with pytest.raises(pk.OutOfMemoryError):
        t.numpy()  # no room for the readback buffer
    assert dev.memory_stats().live_buffers == 1
    assert (t.numpy() == 0).all()
    check_works(dev)
