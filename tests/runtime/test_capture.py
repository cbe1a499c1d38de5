"""Captured programs: replays, inputs, memory, faults, and what is refused."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import (
    check_works,
    isolated,
    open_device,
    raw_buffer,
    softmax,
    unpaced,
)

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]

RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


def test_a_replay_computes_what_the_calls_do(dev: pk.Device) -> None:
    """Cold and cached calls, several dispatches, scratch, views, tensors made inside: all bits."""
    x, w, long = (
        dev.tensor(normal(4, 96)),
        dev.tensor(normal(32, 96)),
        dev.tensor(normal(1, 70_000)),
    )
    out, rows = dev.zeros((4, 32)), dev.zeros((1, 70_000))

    def chain() -> pk.Tensor:
        y = pk.softmax(x)
        y = pk.softmax(y[:, ::2].copy())
        pk.kernels.mul_mat(w, x, out)
        pk.kernels.softmax(out, out)  # in place
        pk.kernels.softmax(long, rows)  # scratch
        pk.kernels.softmax(rows, rows)
        return y

    with dev.capture() as program:
        inside = chain()
    assert len(program) >= 9
    assert (out.numpy() == 0).all()  # nothing has run
    for values in (normal(4, 96), normal(4, 96)):
        x.write(values)
        program()
        found = [t.numpy() for t in (inside, out, rows)]
        expected = [t.numpy() for t in (chain(), out, rows)]
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    check_works(dev)


def test_replays_are_in_order_with_calls(dev: pk.Device) -> None:
    x, y = dev.zeros((4, 16)), dev.zeros((4, 16))
    with dev.capture() as program:
        pk.kernels.add(x, y, x)
    pk.kernels.fill(y, 1.0)
    for _ in range(3):
        program()
    pk.kernels.fill(y, 10.0)
    program()
    assert (x.numpy() == 13).all()
    y.write(np.full((4, 16), 100, "f4"))
    program()
    y.write(np.zeros((4, 16), "f4"))  # after the replay that is recorded
    assert (x.numpy() == 113).all()


def test_scalars_are_frozen(dev: pk.Device) -> None:
    x, scale = dev.tensor(normal(4, 16)), [2.0]
    y = dev.zeros(x.shape)
    with dev.capture() as program:
        pk.kernels.softmax(x, y, scale=scale[0])
    scale[0] = 3.0
    program()
    np.testing.assert_allclose(y.numpy(), softmax(2 * x.numpy()), rtol=1e-5, atol=1e-7)


def test_long_programs_and_many_replays(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """More dispatches than one batch and one page of params hold; a whole replay in any case."""
    x, one = dev.zeros((2500, 4)), dev.ones(4)
    with dev.capture() as program:
        for i in range(2500):
            pk.kernels.add(x[i], one, x[i])
    unpaced(dev, monkeypatch)
    dev.sync()
    before = dev.submits
    with dev.batch():
        pk.kernels.fill(one, 2.0)
        program()
        program()
    assert dev.submits - before == 5  # 5,001 dispatches
    assert (x.numpy() == 4).all()


def test_an_idle_device_gets_a_replay_in_one_submit(dev: pk.Device) -> None:
    """From the second time on, the commands were encoded while the replay before ran. Whatever
    stands in the queue, or asks for batches or profiles, comes in order."""
    x, z = dev.zeros((40, 64)), dev.tensor(normal(40, 64))
    with dev.capture(z=z) as program:
        for i in range(40):
            pk.kernels.add(x[i], z[i], x[i])
    want = np.zeros((40, 64), "f4")

    def replay(submits: int | None, other: pk.Tensor | None = None) -> None:
        nonlocal want
        before = dev.submits
        program(**({} if other is None else {"z": other}))
        want = want + (z if other is None else other).numpy()
        assert submits is None or dev.submits - before >= submits
        assert (x.numpy() == want).all()

    replay(None)
    for _ in range(3):
        before = dev.submits
        program()
        assert dev.submits - before == 1  # the whole of it, and nothing is left for a read
        assert not dev._context.recorder._queue
        want = want + z.numpy()
        assert (x.numpy() == want).all()
    other = dev.tensor(normal(40, 64))
    for given in (other, None, other, other, None):
        replay(1, given)
    pk.kernels.fill(x, 2.0)
    want = np.full((40, 64), 2, "f4")
    replay(None)
    with dev.batch():
        before = dev.submits
        program()
        assert dev.submits == before
    with dev.profile() as p:
        program()
    assert len(p.records) == 40
    want = want + z.numpy() + z.numpy()
    assert (x.numpy() == want).all()
    for _ in range(50):  # on a device that may be busy or not
        program()
        want = want + z.numpy()
    assert (x.numpy() == want).all()


@isolated
def test_a_replay_that_was_encoded_ahead_and_a_lost_device() -> None:
    dev = open_device()
    x, y = dev.tensor(normal(4, 16)), dev.zeros((4, 16))
    with dev.capture() as program:
        pk.kernels.softmax(x, y)
    for _ in range(3):
        program()
        dev.sync()
    dev.wgpu_device.destroy()
    with pytest.raises(pk.DeviceLostError):
        program()
        dev.sync()
    check_works(open_device())


def test_inputs_may_be_replaced(dev: pk.Device) -> None:
    values = [normal(4, 64) for _ in range(4)]
    x, w = dev.tensor(values[0]), dev.tensor(normal(8, 32))
    y, z = dev.zeros((4, 64)), dev.zeros((4, 8))
    with dev.capture(x=x, y=y) as program:
        pk.kernels.softmax(x, y)
        pk.kernels.mul_mat(w, x[:, 32:], z)
    whole = dev.zeros((8, 64))
    for a, out in ((values[1], dev.zeros((4, 64))), (values[2], whole[4:])):
        program(x=dev.tensor(a), y=out)
        np.testing.assert_allclose(out.numpy(), softmax(a), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(z.numpy(), a[:, 32:] @ w.numpy().T, rtol=1e-4, atol=1e-4)
    assert (y.numpy() == 0).all() and (whole[:4].numpy() == 0).all()
    program()
    np.testing.assert_allclose(y.numpy(), softmax(values[0]), rtol=1e-5, atol=1e-7)
    dev.trim()
    program(x=dev.tensor(values[3]))
    np.testing.assert_allclose(y.numpy(), softmax(values[3]), rtol=1e-5, atol=1e-7)


def test_inputs_that_do_not_fit_are_refused(dev: pk.Device) -> None:
    memory = dev.tensor(normal(16, 64))
    x, y, shared = dev.tensor(normal(4, 64)), dev.zeros((4, 64)), memory[0:4]
    with dev.capture(x=x, y=y, shared=shared) as program:
        pk.kernels.softmax(x, y)
        pk.kernels.softmax(memory[8:12], memory[8:12])
        pk.kernels.softmax(shared, shared)
    program()
    found = y.numpy()
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (pk.ArgumentError, "no input 'z'", {"z": x}),
        (pk.DTypeError, "must be a pykernels.Tensor but is ndarray", {"x": found}),
        (pk.ArgumentError, "dtype, shape, strides", {"x": dev.zeros((4, 65))}),
        (pk.ArgumentError, "dtype, shape, strides", {"x": dev.zeros((4, 64), "int32")}),
        (pk.ArgumentError, "dtype, shape, strides", {"x": dev.zeros((64, 4)).T}),
        (pk.ArgumentError, "dtype, shape, strides", {"x": dev.zeros(257)[1:].reshape(4, 64)}),
        (pk.ArgumentError, "shares its buffer", {"x": y}),
        (pk.ArgumentError, "shares its buffer", {"x": memory[4:8]}),
        (pk.ArgumentError, "shares its buffer", {"shared": dev.zeros((4, 64))}),
    ]
    for error, match, inputs in wrong:
        with pytest.raises(error, match=match):
            program(**inputs)
    both = dev.zeros((4, 64))
    with pytest.raises(pk.ArgumentError, match="shares its buffer"):
        program(x=both, y=both)
    program()
    np.testing.assert_array_equal(y.numpy(), found)


def test_memory_belongs_to_the_program(dev: pk.Device) -> None:
    gc.collect()
    dev.trim()
    start = dev.memory_stats()
    x = dev.tensor(normal(64, 1024))
    with dev.capture() as program:
        y = pk.softmax(x)
        z = pk.softmax(pk.softmax(y))  # one temporary
    size = x.nbytes
    assert dev.memory_stats().current - start.current == 4 * size
    del x, y
    gc.collect()
    dev.trim()
    others = [dev.full((64, 1024), 5) for _ in range(8)]  # must not get the program's memory
    assert dev.memory_stats().current - start.current == 12 * size
    program()
    assert all((t.numpy() == 5).all() for t in others)
    found = z.numpy()
    assert np.allclose(found.sum(1), 1, atol=1e-4)
    del program, others
    gc.collect()
    assert dev.memory_stats().current - start.current == size  # z is its user's
    np.testing.assert_array_equal(z.numpy(), found)
    del z
    gc.collect()
    assert dev.memory_stats().current == start.current


def test_what_a_program_kept_is_counted_no_more_when_it_is_gone(dev: pk.Device) -> None:
    gc.collect()
    start = dev.memory_stats()
    x, y = dev.zeros((4, 16)), dev.zeros((4, 16))
    with dev.capture() as program:
        pk.kernels.softmax(x, y)
    del x, y
    assert dev.memory_stats().live_buffers - start.live_buffers == 2  # the program's
    del program
    assert dev.memory_stats().live_buffers == start.live_buffers


def test_faults_are_reported_for_each_replay(dev: pk.Device) -> None:
    rows, index = dev.tensor(normal(8, 4)), dev.tensor(np.array([1, 2], np.int32))
    out = dev.zeros((2, 4))
    with dev.capture() as program:
        pk.kernels.get_rows(rows, index, out)
        pk.kernels.softmax(out, out)
        pk.kernels.get_rows(rows, index, out)
    program()
    dev.sync()
    index.write(np.array([1, 9], np.int32))
    for _ in range(2):
        program()
        with pytest.raises(pk.IndexRangeError, match=r"is 9 at position \(1,\).*of the program"):
            dev.sync()
        dev.sync()
    program()
    del program
    gc.collect()
    with pytest.raises(pk.IndexRangeError, match="after it that failed: 1"):
        out.numpy()
    dev.memory_stats()  # notices that the program is gone
    dev.sync()
    assert dev._context.faults._programs == []


def test_what_a_capture_refuses(dev: pk.Device) -> None:
    x, y = dev.tensor(normal(4, 16)), dev.zeros((4, 16))
    before = y.numpy()
    with dev.capture() as other:
        pk.kernels.softmax(x, y)
    encoder = dev.wgpu_device.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    with dev.capture() as program:
        for call in (
            x.numpy, lambda: x.write(before), lambda: dev.tensor(before), dev.sync, other,
            lambda: pk.softmax(before, out=y), lambda: dev.capture().__enter__(),
            lambda: dev.record(compute_pass).__enter__(),
            lambda: dev.profile().__enter__(), lambda: program(), dev.close,
        ):  # fmt: skip
            with pytest.raises(pk.BufferStateError, match="capture"):
                call()  # type: ignore[operator]
        with pytest.raises(pk.ShapeError):
            pk.kernels.softmax(x, dev.empty((3, 3)))
        pk.kernels.softmax(x, y)
    with dev.record(compute_pass), pytest.raises(pk.BufferStateError, match="recorded pass"):
        program()
    compute_pass.end()
    assert (y.numpy() == before).all()
    program()
    np.testing.assert_allclose(y.numpy(), softmax(x.numpy()), rtol=1e-5, atol=1e-7)
    with pytest.raises(KeyError), dev.capture() as broken:
        pk.kernels.softmax(x, y)
        raise KeyError
    with pytest.raises(pk.BufferStateError, match="not captured to its end"):
        broken()
    check_works(dev)


def test_other_threads_are_not_captured(dev: pk.Device) -> None:
    x, y = dev.tensor(normal(4, 16)), dev.zeros((4, 16))
    found: list[Any] = []
    with dev.capture() as program:
        thread = threading.Thread(target=lambda: found.append(pk.softmax(x).numpy()))
        thread.start()
        pk.kernels.softmax(x, y)
        thread.join(30)
    np.testing.assert_allclose(found[0], softmax(x.numpy()), rtol=1e-5, atol=1e-7)
    assert len(program) == 1
    threads = [threading.Thread(target=program) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    np.testing.assert_allclose(y.numpy(), softmax(x.numpy()), rtol=1e-5, atol=1e-7)


def test_foreign_buffers_and_closed_devices() -> None:
    dev = open_device()
    buffer = raw_buffer(dev.wgpu_device)
    foreign = pk.Tensor.from_buffer(buffer, (4, 16), "float32", device=dev)
    y = dev.zeros((4, 16))
    with dev.capture() as program:
        pk.kernels.fill(foreign, 2.0)
        pk.kernels.softmax(foreign, y)
    for _ in range(3):
        program()
        assert (y.numpy() == 1 / 16).all()
    buffer.destroy()
    with pytest.raises(pk.BufferStateError):
        program()
    check_works(dev)
    dev.close()
    with pytest.raises(pk.DeviceLostError):
        program()
    assert "dispatches" in repr(program)


def test_a_program_in_a_profile(dev: pk.Device) -> None:
    x, y = dev.tensor(normal(4, 16)), dev.zeros((4, 16))
    with dev.capture() as program:
        pk.kernels.softmax(x, y)
        pk.kernels.fill(x, 1.0)
    with dev.profile() as p:
        pk.kernels.cpy(y, y[:, ::-1].copy())
        program()
    names = [r.kernel for r in p.records]
    assert names[-2:] == ["softmax", "memset"] and len(names) == 4


def test_an_input_beside_another_tensor_of_the_program(dev: pk.Device) -> None:
    """The captured tensor may come again; another place of its buffer may not."""
    room = dev.tensor(np.arange(128, dtype=np.float32))
    x, other = room[:4], room[64:68]  # 256 bytes apart
    with dev.capture(x=x) as program:
        y = pk.add(x, other)
    program(x=x)
    assert y.numpy().tolist() == [64, 66, 68, 70]
    with pytest.raises(pk.ArgumentError, match="x shares its buffer with another tensor"):
        program(x=other)
    program()
    assert y.numpy().tolist() == [64, 66, 68, 70]
