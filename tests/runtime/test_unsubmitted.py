"""Command buffers that are never submitted: wgpu keeps their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime.recorder import MANY_AHEAD

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


class Counting:
    """The raw calls of an engine. `waiting`: how many command buffers were finished and not
    submitted."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.waiting = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lib, name)

    def wgpuCommandEncoderFinish(self, *args: Any) -> Any:
        self.waiting += 1
        return self._lib.wgpuCommandEncoderFinish(*args)

    def wgpuQueueSubmit(self, queue: Any, count: int, buffers: Any) -> None:
        self.waiting -= count
        self._lib.wgpuQueueSubmit(queue, count, buffers)


@pytest.fixture
def raw(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> Counting:
    dev.sync()
    engine = dev._context.engine
    raw = Counting(engine.lib)
    monkeypatch.setattr(engine, "lib", raw)
    return raw


def test_calls_and_reads_submit_what_they_encode(dev: pk.Device, raw: Counting) -> None:
    x = dev.tensor(np.arange(8, dtype="f4"))
    for _ in range(3):
        with dev.capture() as program:
            y = pk.neg(x)
        program()
        assert (y.numpy() == -x.numpy()).all()
        index = dev.tensor(np.array([1, 0], "i4"))
        assert pk.embedding(x.reshape(4, 2), index).numpy().tolist() == [[2, 3], [0, 1]]
    dev.sync()
    assert raw.waiting == 0


def test_inputs_that_are_forgotten_leave_few_command_buffers(dev: pk.Device, raw: Counting) -> None:
    """Ever new inputs, each three times: a program encoded in advance for each of them would stay.
    A program that runs often enough is encoded in advance all the same."""
    dev._context.recorder.ahead = 0
    x, y = dev.zeros(8), dev.zeros(8)
    with dev.capture(x=x) as program:
        pk.kernels.neg(x, y)
    inputs = [dev.tensor(np.full(8, i, "f4")) for i in range(10 * MANY_AHEAD)]
    for i, t in enumerate(inputs):
        for _ in range(3):
            program(x=t)
            dev.sync()
        assert (y.numpy() == -i).all()
    assert raw.waiting <= 2 * MANY_AHEAD
    del t, inputs
    base = program._recording.base
    for _ in range(64):
        program()
        dev.sync()
    assert base.encoded is not None
    assert raw.waiting <= 2 * MANY_AHEAD
