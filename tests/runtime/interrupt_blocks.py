"""More of what is interrupted: context managers, programs, what frees memory, and the end."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

import pykernels as pk
from tests.runtime._helpers import open_device, raw_buffer
from tests.runtime.interrupt_scenarios import Chain, Functional, Scenario, Skip, numbers

# -- blocks ---------------------------------------------------------------------------------------


class Batch(Chain):
    def run(self) -> None:
        with self.dev.batch():
            super().run()


class Record(Chain):
    """Into a pass of the caller's, who ends it and submits it whatever happened."""

    def prepare(self) -> None:
        super().prepare()
        self.begin_pass()

    def warm(self) -> None:
        self.begin_pass()
        super().warm()

    def begin_pass(self) -> None:
        self.encoder: Any = self.dev.wgpu_device.create_command_encoder()
        self.compute_pass = self.encoder.begin_compute_pass()

    def run(self) -> None:
        with self.dev.record(self.compute_pass):
            super().run()

    def finish(self) -> None:
        if self.encoder is not None:
            self.compute_pass.end()
            self.dev.wgpu_device.queue.submit([self.encoder.finish()])
            self.encoder = None

    def drop(self) -> None:
        super().drop()
        self.encoder = self.compute_pass = None


class Profile(Chain):
    """A profile ends with its block, whatever happened in it."""

    batches = False

    def setup(self) -> None:
        super().setup()
        self.profile: Any = None

    def run(self) -> None:
        with self.dev.profile(batches=self.batches) as p:
            self.profile = p
            super().run()

    def check(self, whole: bool) -> None:
        super().check(whole)
        if self.profile is not None:
            count = len(self.profile.records)
            assert count == (1 if self.batches else 4) or not whole
            pk.kernels.fill(self.y[0], 9)
            self.dev.sync()
            assert len(self.profile.records) == count, "launches after the block are profiled"
        assert self.dev._context.recorder.timer is None, "the profile is still there"

    def drop(self) -> None:
        super().drop()
        self.profile = None


class ProfileBatches(Profile):
    batches = True


# -- capture --------------------------------------------------------------------------------------


class Capture(Chain):
    """Calls are recorded into a program, which then runs."""

    def setup(self) -> None:
        super().setup()
        if not hasattr(pk.Device, "capture"):
            raise Skip("devices have no capture")
        self.program: Any = None

    def run(self) -> None:
        with self.dev.capture() as program:  # type: ignore[attr-defined]
            super().run()
        self.program = program
        program()

    def check(self, whole: bool) -> None:
        super().check(whole)
        with self.dev.capture() as program:  # type: ignore[attr-defined]  # none is left open
            super().run()
        program()
        super().check(True)

    def drop(self) -> None:
        super().drop()
        self.program = None


class CaptureTemporaries(Capture):
    """Tensors made inside belong to the program, and scratch does."""

    def setup(self) -> None:
        super().setup()
        self.outputs.clear()
        self.x, self.y = self.dev.tensor(numbers(2, 30_000)), []
        self.z = self.output((2, 30_000))

    def run(self) -> None:
        with self.dev.capture() as program:  # type: ignore[attr-defined]
            pk.kernels.neg(pk.softmax(self.x), self.z)
        self.program = program
        program()

    def check(self, whole: bool) -> None:
        Scenario.check(self, whole)


class Replay(Capture):
    """A program that is there already."""

    def prepare(self) -> None:
        self.drop()
        if self.program is None:
            with self.dev.capture() as self.program:  # type: ignore[attr-defined]
                Chain.run(self)
        super().prepare()

    def run(self) -> None:
        self.program()

    def check(self, whole: bool) -> None:
        Scenario.check(self, whole)

    def drop(self) -> None:
        self.result = None


class ReplayWhole(Replay):
    """On a device that has nothing to do: one submit of what was encoded ahead."""

    fresh = True

    def prepare(self) -> None:
        super().prepare()
        for _ in range(2):
            self.program()
            self.dev.sync()
        Scenario.prepare(self)


class ReplayDue(Replay):
    """Every call of it ends a batch."""

    def run(self) -> None:
        self.dev._context.recorder.pace.due = 0.0
        self.program()


class ReplayInputs(Scenario):
    """With another tensor in place of the one that was captured."""

    def setup(self) -> None:
        if not hasattr(pk.Device, "capture"):
            raise Skip("devices have no capture")
        self.x, self.other = self.dev.tensor(numbers(4, 16)), self.dev.tensor(-numbers(4, 16))
        self.y = self.output((4, 16))
        with self.dev.capture(x=self.x) as self.program:  # type: ignore[attr-defined]
            pk.kernels.softmax(self.x, self.y)

    def run(self) -> None:
        self.program(x=self.other)


class HandOver(Scenario):
    """A program whose last run, of a thread that has ended, nobody has read: what that found wrong
    is told once, and never as this run's."""

    def setup(self) -> None:
        self.x, self.y = self.dev.tensor(numbers(8, 16)), self.output((4, 16))
        self.index = self.dev.tensor(np.array([3, 1, 7, 0], "i4"))
        self.bad = self.dev.tensor(np.array([3, 1, 8, 0], "i4"))
        self.z = self.dev.zeros((4, 16))
        with self.dev.capture(index=self.index, y=self.y) as self.program:
            pk.kernels.get_rows(self.x, self.index, self.y)

    def prepare(self) -> None:
        super().prepare()
        self.reported = 0
        run = threading.Thread(target=lambda: self.program(index=self.bad, y=self.z))
        run.start()
        run.join()

    def run(self) -> None:
        self.program()

    def finish(self) -> None:
        for _ in range(2):
            try:
                self.dev.sync()
            except pk.IndexRangeError as e:
                assert "which has ended" in str(e)
                self.reported += 1

    def check(self, whole: bool) -> None:
        super().check(whole)
        assert self.reported == 1, f"the index was reported {self.reported} times"


# -- memory, and the end --------------------------------------------------------------------------


class Trim(Functional):
    """With something to free, and work that uses it."""

    def prepare(self) -> None:
        super().prepare()
        for n in (100, 1000, 5000):
            self.dev.zeros(n)

    def run(self) -> None:
        self.result = pk.softmax(self.x)
        self.dev.trim()


class _Budgeted(Scenario, register=False):
    """Under a byte budget, with nothing pooled: a new buffer is promised before it is made."""

    def prepare(self) -> None:
        super().prepare()
        self.dev.trim()
        self.dev.set_memory_budget(64 << 20)

    def drop(self) -> None:
        super().drop()
        self.dev.set_memory_budget(None)


class BudgetLaunch(_Budgeted, Functional):
    """One kernel."""


class BudgetCall(_Budgeted, Functional):
    """The launches of a call are held until it ends."""

    def run(self) -> None:
        self.result = pk.median(self.x)


class BudgetCapture(_Budgeted, CaptureTemporaries):
    """The memory of a program."""


class Adopt(Scenario):
    """A buffer of the caller's."""

    def prepare(self) -> None:
        self.buffer = raw_buffer(self.dev.wgpu_device, 256)

    def run(self) -> None:
        t = pk.Tensor.from_buffer(self.buffer, (4, 16), "float32", device=self.dev)
        pk.kernels.fill(t, 3)
        self.result = t


class Close(Scenario):
    """The end of a device of its own, whose work waits."""

    fresh = True

    def prepare(self) -> None:
        self.other: Any = open_device()
        self.x = self.other.tensor(numbers(4, 16))
        self.y: Any = self.other.zeros((4, 16))
        pk.kernels.neg(self.x, self.y)

    def run(self) -> None:
        self.other.close()

    def check(self, whole: bool) -> None:
        closed = False
        try:
            np.testing.assert_array_equal(self.y.numpy(), -self.x.numpy())
        except pk.DeviceLostError:
            closed = True
        assert closed or not whole, "a closed device works"
        thread = threading.Thread(target=self.other.close, daemon=True)
        thread.start()
        thread.join(5)
        assert not thread.is_alive(), "another thread waits for the lock"
        for call in (self.y.numpy, self.other.sync, lambda: pk.kernels.neg(self.x, self.y)):
            try:
                call()
            except pk.DeviceLostError:
                continue
            raise AssertionError("a closed device works")

    def drop(self) -> None:
        self.other = self.x = self.y = None
