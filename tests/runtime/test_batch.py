"""Batches, recording into a pass of the caller's, sharing a device with raw wgpu code."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime import pace, recorder
from pykernels.runtime.bound import MAX_LAUNCHES
from tests.runtime._helpers import (
    check_works,
    encode_too_much,
    isolated,
    open_device,
    raw_buffer,
    raw_device,
    softmax,
    unpaced,
)

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]

DOUBLE = """
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < 64u) { data[id.x] = data[id.x] * 2.0; }
}
"""


def pass_on(raw: Any) -> tuple[Any, Any]:
    encoder = raw.create_command_encoder()
    return encoder, encoder.begin_compute_pass()


def submit(raw: Any, encoder: Any, compute_pass: Any) -> None:
    compute_pass.end()
    raw.queue.submit([encoder.finish()])


def test_a_chain_of_a_hundred_launches(dev: pk.Device) -> None:
    a = np.random.default_rng(0).standard_normal((4, 33)).astype("f4")
    t, expected = dev.tensor(a), a.astype("f8")
    dev.sync()
    before = dev.submits
    with dev.batch():
        for _ in range(100):
            t = pk.softmax(t)
            expected = softmax(expected)
    assert 1 <= dev.submits - before <= 4
    np.testing.assert_allclose(t.numpy(), expected, rtol=1e-4)


def test_more_launches_than_slots(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    unpaced(dev, monkeypatch)
    count = 2 * MAX_LAUNCHES + 100
    x = dev.zeros((count, 4))
    dev.sync()
    before = dev.submits
    with dev.batch():
        for i in range(count):
            pk.kernels.fill(x[i], float(i))
    assert dev.submits - before == 3
    np.testing.assert_array_equal(
        x.numpy(), np.repeat(np.arange(count, dtype="f4"), 4).reshape(-1, 4)
    )


@pytest.mark.parametrize("name", ("cpy", "mul_mat"))
def test_a_batch_is_bounded(dev: pk.Device, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By the bytes that its launches bind, and by the operations that their specs count."""
    x, y, out = (dev.ones((64, 64)) for _ in range(3))
    calls = {
        "cpy": lambda: pk.kernels.cpy(x, out),
        "mul_mat": lambda: pk.kernels.mul_mat(x, y, out),
    }
    each = {"cpy": pace.work(2 * x.nbytes, 0), "mul_mat": pace.work(3 * x.nbytes, 2 * 64**3)}
    dev.sync()
    unpaced(dev, monkeypatch, most=2.5 * each[name])
    before = dev.submits
    with dev.batch():
        for _ in range(10):  # a batch is full with three
            calls[name]()
    assert dev.submits - before == 4


def test_nested_batches_and_exceptions(dev: pk.Device) -> None:
    x = dev.full((4, 16), 1)
    with pytest.raises(KeyError), dev.batch():
        y = pk.softmax(x)
        with dev.batch():
            z = x.copy()
        raise KeyError
    assert (y.numpy() == 1 / 16).all() and (z.numpy() == 1).all()
    with pytest.raises(pk.ShapeError), dev.batch():
        z = pk.softmax(y)
        pk.kernels.softmax(x, dev.empty((3, 3)))
    assert (z.numpy() == 1 / 16).all()  # the refused call took nothing with it
    check_works(dev)


def test_refused_calls_change_nothing(dev: pk.Device) -> None:
    x = dev.full((4, 16), 2)
    calls: list[tuple[type[Exception], Any]] = [
        (pk.ShapeError, lambda: pk.kernels.softmax(x, dev.empty((4, 15)))),
        (pk.DTypeError, lambda: pk.kernels.softmax(x, dev.empty((4, 16), "int32"))),
        (pk.DTypeError, lambda: pk.kernels.softmax(x, None)),  # type: ignore[arg-type]
        (pk.DTypeError, lambda: pk.kernels.softmax(x, np.zeros((4, 16))))  ,  # type: ignore[arg-type]
        (pk.ArgumentError, lambda: pk.kernels.softmax(x, x, scale="a")),  # type: ignore[arg-type]
        (pk.ArgumentError, lambda: pk.kernels.softmax(x, x, scale=None)),  # type: ignore[arg-type]
        (pk.ArgumentError, lambda: pk.kernels.softmax(x, x, scale=1e300)),
        (pk.AliasError, lambda: pk.kernels.softmax(x, x[:1].broadcast_to((4, 16)))),
        (pk.ShapeError, lambda: pk.kernels.cpy(x, dev.empty(3))),
        (pk.ArgumentError, lambda: pk.kernels.fill(dev.empty(3, "uint8"), 256)),
    ]  # fmt: skip
    with dev.batch():
        for error, call in calls:
            with pytest.raises(error):
                call()
    assert (x.numpy() == 2).all()
    check_works(dev)


def test_a_finish_that_fails_is_reported_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    dev = open_device()
    x = dev.full((4, 16), 1)
    dev.sync()
    serial = dev._context.recorder.serial
    pk.kernels.fill(x, 5)
    with monkeypatch.context() as m:
        m.setattr(recorder, "encode", encode_too_much)
        with pytest.raises(pk.BufferStateError, match=r"\[submit\]"):
            dev.flush()
    assert dev._context.recorder.serial == serial + 1
    assert (x.numpy() == 1).all()
    with dev.profile() as p:
        pk.softmax(x)
        with monkeypatch.context() as m:
            m.setattr(recorder, "encode", encode_too_much)
            with pytest.raises(pk.BufferStateError):
                dev.flush()
        pk.softmax(x)
    assert len(p.records) == 1
    assert p.records[0].start == 0
    check_works(dev)
    dev.close()


# -- the caller's pass ----------------------------------------------------------------------------


def test_record_into_a_pass(dev: pk.Device) -> None:
    raw = dev.wgpu_device
    a = np.random.default_rng(1).standard_normal((4, 16)).astype("f4")
    x, filled = dev.tensor(a), dev.zeros((600, 4))
    dev.sync()
    encoder, compute_pass = pass_on(raw)
    before = dev.submits
    with dev.record(compute_pass):
        y = pk.softmax(x)
        for i in range(600):  # more than one chunk of params
            pk.kernels.fill(filled[i], float(i))
        z = pk.softmax(pk.softmax(y))
    assert dev.submits == before
    w = x.copy()  # outside: the device's own batch
    assert (w.numpy() == a).all()  # a read that does not wait for the pass
    with pytest.raises(pk.BufferStateError, match="not ended"):
        filled.numpy()
    submit(raw, encoder, compute_pass)
    np.testing.assert_allclose(y.numpy(), softmax(a), rtol=1e-5)
    np.testing.assert_allclose(z.numpy(), softmax(softmax(softmax(a))), rtol=1e-5)
    np.testing.assert_array_equal(filled.numpy()[:, 3], np.arange(600))
    np.testing.assert_array_equal(w.numpy(), a)


def test_a_recorded_call_is_whole_at_once(dev: pk.Device) -> None:
    """A caller may submit after an interrupt: what the pass holds must have its params by then."""
    x, y, none = dev.zeros((4, 16)), dev.zeros((4, 16)), dev.zeros((0, 16))
    dev.sync()
    encoder, compute_pass = pass_on(dev.wgpu_device)
    with dev.record(compute_pass):
        pk.kernels.fill(x, 3.0)
        pk.kernels.softmax(none, dev.zeros((0, 16)))
        pk.kernels.softmax(x, y)
        submit(dev.wgpu_device, encoder, compute_pass)
    np.testing.assert_array_equal(x.numpy(), 3)
    np.testing.assert_array_equal(y.numpy(), 1 / 16)


@isolated
def test_two_recordings_that_are_submitted_late() -> None:
    """Nothing that they use may be used again before they run: params, scratch, temporaries."""
    dev = open_device()
    raw = dev.wgpu_device
    rng = np.random.default_rng(2)
    a, long = (
        rng.standard_normal((2, 30_000)).astype("f4"),
        rng.standard_normal((4, 9)).astype("f4"),
    )
    outs, passes = [], []
    for scale in (1.0, 2.0):
        encoder, compute_pass = pass_on(raw)
        x, t = dev.tensor(a), dev.tensor(long)
        y, z = dev.empty(a.shape), dev.empty(long.shape)
        with dev.record(compute_pass):
            pk.kernels.softmax(x, y, scale=scale)  # scratch
            pk.kernels.softmax(pk.softmax(t), z, scale=scale)  # a temporary
        compute_pass.end()
        outs.append((y, z))
        passes.append(encoder)
        del x, t
        for i in range(20):  # what would take the buffers
            pk.softmax(dev.full(a.shape, i)).numpy()
            pk.softmax(dev.full(long.shape, i))
        gc.collect()
        dev.trim()
    raw.queue.submit([e.finish() for e in passes])
    for scale, (y, z) in zip((1.0, 2.0), outs, strict=True):
        np.testing.assert_allclose(y.numpy(), softmax(a * scale), rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(z.numpy(), softmax(softmax(long) * scale), rtol=1e-5)


def test_record_beside_the_callers_own_commands(dev: pk.Device) -> None:
    raw = dev.wgpu_device
    buffer = raw_buffer(raw)
    t = pk.Tensor.from_buffer(buffer, (4, 16), "float32", device=dev)
    t.write(np.ones((4, 16), "f4"))
    module = raw.create_shader_module(code=DOUBLE)
    pipeline = raw.create_compute_pipeline(
        layout="auto", compute={"module": module, "entry_point": "main"}
    )
    group = raw.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[{"binding": 0, "resource": {"buffer": buffer, "offset": 0, "size": 256}}],
    )
    encoder, compute_pass = pass_on(raw)
    with dev.record(compute_pass):
        pk.kernels.softmax(t, t)
        compute_pass.set_pipeline(pipeline)
        compute_pass.set_bind_group(0, group)
        compute_pass.dispatch_workgroups(1)
        pk.kernels.softmax(t, t, scale=16)  # the same pipeline as before
    submit(raw, encoder, compute_pass)
    np.testing.assert_allclose(t.numpy(), 1 / 16, rtol=1e-6)
    # A kernel, then a raw pass over the same buffer, then a kernel.
    pk.kernels.fill(t, 3)
    dev.flush()
    encoder, compute_pass = pass_on(raw)
    compute_pass.set_pipeline(pipeline)
    compute_pass.set_bind_group(0, group)
    compute_pass.dispatch_workgroups(1)
    submit(raw, encoder, compute_pass)
    assert (t.copy().numpy() == 6).all()


def test_record_refuses(dev: pk.Device) -> None:
    raw = dev.wgpu_device
    x = dev.full((4, 16), 1)
    other_encoder, other_pass = pass_on(raw_device())
    encoder, compute_pass = pass_on(raw)
    for wrong in (other_pass, encoder, None):
        with pytest.raises(pk.BufferStateError), dev.record(wrong):
            raise AssertionError
    with pytest.raises(KeyError), dev.record(compute_pass):
        y = pk.softmax(x)
        raise KeyError
    submit(raw, encoder, compute_pass)
    assert (y.numpy() == 1 / 16).all()
    ended_encoder, ended_pass = pass_on(raw)
    ended_pass.end()
    for ended in (compute_pass, ended_pass):  # submitted, and not even finished
        with pytest.raises(pk.BufferStateError, match="has ended"), dev.record(ended):
            raise AssertionError
    ended_encoder.finish()  # nothing was recorded into it
    other_pass.end()
    other_encoder.finish()
    check_works(dev)


def test_a_plain_device_of_others_needs_no_feature() -> None:
    dev = pk.Device.from_wgpu(raw_device())
    a = np.random.default_rng(0).standard_normal((5, 40)).astype("f2")
    assert "shader-f16" not in dev.features
    y = pk.softmax(dev.tensor(a))
    assert y.dtype == "float16"
    np.testing.assert_allclose(y.numpy(), softmax(a.astype("f8")), rtol=2e-3, atol=1e-6)
    with dev.profile() as p:
        pk.softmax(dev.zeros((4, 16)))
    assert p.clock == "wall" and p.wall > 0
    assert "wall time only" in p.table()
    check_works(dev)
    dev.close()
    dev.wgpu_device.create_buffer(size=16, usage=8)  # still theirs


def test_a_pass_on_memory_that_another_thread_let_go(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that thread recorded runs before, though the pass is submitted before its batch."""
    x = dev.full((777, 31), 5)
    dev.trim()
    raw = dev.wgpu_device
    encoder, compute_pass = pass_on(raw)
    unpaced(dev, monkeypatch)

    def work() -> None:
        dev.full(x.shape, 7)  # recorded, and its block is free again

    with dev.record(compute_pass):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        y = dev.empty(x.shape)
        pk.kernels.cpy(x, y)
    submit(raw, encoder, compute_pass)
    assert (y.numpy() == 5).all()
