"""Buffers that pykernels and its caller both use: the caller's own queue calls and ours come in the
order in which they are made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import raw_buffer, unpaced

pytestmark = pytest.mark.gpu

DOUBLE = """
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) { data[id.x] *= 2.0; }
"""
SHAPE = (4, 16)


class Shared:
    """A tensor on a buffer that its caller uses by calls of the engine's own Python API."""

    def __init__(self, dev: pk.Device, how: str) -> None:
        self.raw = dev.wgpu_device
        if how == "adopted":
            self.buffer = raw_buffer(self.raw, 256)
            self.tensor = pk.Tensor.from_buffer(self.buffer, SHAPE, "float32", device=dev)
        else:
            self.tensor = dev.empty(SHAPE)
            self.buffer = self.tensor.buffer
        code = self.raw.create_shader_module(code=DOUBLE)
        self.pipeline = self.raw.create_compute_pipeline(
            layout="auto", compute={"module": code, "entry_point": "main"}
        )
        self.group = self.raw.create_bind_group(
            layout=self.pipeline.get_bind_group_layout(0),
            entries=[{"binding": 0, "resource": {"buffer": self.buffer, "offset": 0, "size": 256}}],
        )

    def write(self, value: float) -> None:
        self.raw.queue.write_buffer(self.buffer, 0, np.full(SHAPE, value, "f4"))

    def read(self) -> Any:
        return np.frombuffer(self.raw.queue.read_buffer(self.buffer, 0, 256), "f4")

    def double(self) -> None:
        encoder = self.raw.create_command_encoder()
        compute_pass = encoder.begin_compute_pass()
        compute_pass.set_pipeline(self.pipeline)
        compute_pass.set_bind_group(0, self.group)
        compute_pass.dispatch_workgroups(1)
        compute_pass.end()
        self.raw.queue.submit([encoder.finish()])


@pytest.fixture(params=["adopted", "exposed"])
def shared(
    dev: pk.Device, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Shared:
    unpaced(dev, monkeypatch)  # nothing is submitted just because a batch is due
    return Shared(dev, request.param)


def test_the_callers_write_does_not_overtake_a_launch_that_reads(shared: Shared) -> None:
    for i in range(8):
        shared.write(i)
        y = shared.tensor + 0
        shared.write(-1)
        assert (y.numpy() == i).all()


def test_the_callers_read_sees_a_launch_that_writes(shared: Shared) -> None:
    for i in range(8):
        pk.kernels.fill(shared.tensor, i)
        assert (shared.read() == i).all()
        shared.tensor[1:, ::2] = i + 100  # a strided view
        assert (shared.read().reshape(SHAPE)[1:, ::2] == i + 100).all()


def test_the_callers_dispatches_and_ours_take_turns(shared: Shared) -> None:
    t, want = shared.tensor, 1.0
    pk.kernels.fill(t, 1)
    for _ in range(6):
        shared.double()
        pk.kernels.add(t, t, t)
        want *= 4
    y = t + 1
    shared.double()
    assert (y.numpy() == want + 1).all() and (t.numpy() == 2 * want).all()


def test_what_others_need_goes_along(dev: pk.Device, shared: Shared) -> None:
    """The launches before, on buffers of our own, that a shared buffer is computed from."""
    x = dev.full(SHAPE, 3)
    pk.kernels.cpy(pk.square(x + 1), shared.tensor)
    assert (shared.read() == 16).all()


def test_a_program_on_a_shared_buffer(dev: pk.Device, shared: Shared) -> None:
    x, y = dev.full(SHAPE, 5), dev.empty(SHAPE)
    with dev.capture() as program:
        pk.kernels.add(shared.tensor, x, y)
        pk.kernels.add(y, y, shared.tensor)
    for _ in range(4):
        shared.write(1)
        pk.kernels.fill(x, 5)  # recorded: the program cannot go ahead in a submit of its own
        program()
        assert (shared.read() == 12).all()
        program()
        shared.write(0)
        assert (y.numpy() == 17).all()


def test_a_batch_holds_them_back_until_it_is_flushed(dev: pk.Device, shared: Shared) -> None:
    before = dev.submits
    with dev.batch():
        pk.kernels.fill(shared.tensor, 1)
        pk.kernels.fill(shared.tensor, 2)
        assert dev.submits == before
        dev.flush()
        assert (shared.read() == 2).all()
        pk.kernels.fill(shared.tensor, 3)
    assert (shared.read() == 3).all()
    with dev.profile(batches=True):  # which times what happens without it
        pk.kernels.fill(shared.tensor, 4)
        assert (shared.read() == 4).all()


def test_a_pass_and_a_capture_are_their_callers(dev: pk.Device, shared: Shared) -> None:
    before = dev.submits
    encoder = shared.raw.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    pk.kernels.fill(shared.tensor, 1)
    with dev.record(compute_pass):
        pk.kernels.fill(shared.tensor, 2)
    assert (shared.read() == 1).all()
    compute_pass.end()
    shared.raw.queue.submit([encoder.finish()])
    assert (shared.read() == 2).all()
    with dev.capture() as program:
        pk.kernels.fill(shared.tensor, 3)
    assert (shared.read() == 2).all() and dev.submits == before + 1
    program()
    assert (shared.read() == 3).all()


@pytest.mark.parametrize("calls", [1, 40])
def test_our_own_buffers_are_batched_as_before(dev: pk.Device, shared: Shared, calls: int) -> None:
    x, y = dev.full(SHAPE, 1), dev.empty(SHAPE)
    pk.kernels.add(x, x, y)
    dev.flush()
    before = dev.submits
    for _ in range(calls):
        pk.kernels.add(x, x, y)
    assert dev.submits == before


def test_single_launches_of_shared_buffers_leave_the_batches_of_others_small(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that is behind gets larger batches: not because of submits that held one launch."""
    recorder, how = dev._context.recorder, Shared(dev, "adopted")
    dev.sync()
    monkeypatch.setattr(recorder._completion, "idle", lambda: False)
    monkeypatch.setattr(recorder.pace, "_clock", lambda: 0.0)  # nothing is learned of its speed
    due = recorder.pace.due
    for _ in range(12):
        pk.kernels.fill(how.tensor, 1)
    assert recorder.pace.due == due


def test_the_smallest_buffer(dev: pk.Device) -> None:
    buffer = dev.wgpu_device.create_buffer(size=4, usage=0x80 | 0x04 | 0x08)
    x = pk.Tensor.from_buffer(buffer, (1,), "float32", device=dev)
    pk.kernels.fill(x, value=3.0)
    assert x.item() == 3.0
