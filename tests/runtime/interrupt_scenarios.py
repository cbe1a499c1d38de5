"""What is interrupted: each scenario with the state before it and what may be seen after it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.runtime import observe
from pykernels.runtime.scopes import innermost

__all__ = ["SCENARIOS", "Scenario", "Skip"]

Array = np.ndarray[Any, Any]
SCENARIOS: dict[str, Callable[[pk.Device], Scenario]] = {}


class Skip(Exception):
    """This device or version has nothing to interrupt here."""


class Scenario:
    """Calls, and the tensors that they write in this order.

    `fresh`: nothing is recorded when it begins. A run may leave something in `result`. `reported`
    counts the errors of indices out of range, in the run and behind it.
    """

    fresh = False
    reported = 0

    def __init__(self, dev: pk.Device) -> None:
        self.dev = dev
        self.result: Any = None
        self.outputs: list[tuple[pk.Tensor, Array]] = []  # with what they hold before
        self.setup()
        self.prepare()
        self.run()
        self.finish()
        self.after = [t.numpy() for t, _ in self.outputs]
        for (_, before), after in zip(self.outputs, self.after, strict=True):
            assert not (before == after).any(), "each element must change"
        self.expected = self.value()
        self.drop()

    def __init_subclass__(cls, register: bool = True) -> None:
        if register:
            SCENARIOS[cls.__name__] = cls

    def output(self, shape: tuple[int, ...]) -> pk.Tensor:
        """A tensor that a run writes."""
        before = np.full(shape, -77, "f4")
        t = self.dev.tensor(before)
        self.outputs.append((t, before))
        return t

    def setup(self) -> None:
        """Make the tensors, once."""

    def prepare(self) -> None:
        """Before each run."""
        self.warm()
        for t, before in self.outputs:
            t.write(before)

    def warm(self) -> None:
        """Fill the caches: the run meets calls that were seen before."""
        self.run()
        self.finish()
        self.drop()

    def run(self) -> None:
        """What is interrupted."""
        raise NotImplementedError

    def finish(self) -> None:
        """What the caller does after a run, interrupted or not."""

    def value(self) -> Any:
        """What a run left in `result`, on the host."""
        return self.result.numpy() if isinstance(self.result, pk.Tensor) else self.result

    def check(self, whole: bool) -> None:
        """Each output is as before or as after, the first ones first; all after a whole run."""
        self.finish()
        seen = ""
        for i, (t, before) in enumerate(self.outputs):
            a = t.numpy()
            is_before, is_after = np.array_equal(a, before), np.array_equal(a, self.after[i])
            assert is_before or is_after, f"output {i} is neither: {np.unique(a)[:6]}"
            seen += "a" if is_after else "b"
        assert "ba" not in seen, f"a later output is there without an earlier one: {seen}"
        assert not whole or "b" not in seen, f"a call had no effect: {seen}"
        if whole or self.result is not None:
            np.testing.assert_array_equal(self.value(), self.expected)

    def drop(self) -> None:
        """Let go of what a run made."""
        self.result = None


def numbers(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("f4")


# -- launches -------------------------------------------------------------------------------------


class Launch(Scenario):
    """A call that was seen before."""

    def setup(self) -> None:
        self.x, self.y = self.dev.tensor(numbers(4, 16)), self.output((4, 16))

    def run(self) -> None:
        pk.kernels.softmax(self.x, self.y)


class TapedLaunch(Launch):
    """A tape records it: its gradient is right, or it says that it is not known."""

    def prepare(self) -> None:
        self.tape = pk.Tape()
        super().prepare()
        self.tape = pk.Tape()

    def run(self) -> None:
        with self.tape:
            pk.kernels.softmax(self.x, self.y)

    def check(self, whole: bool) -> None:
        super().check(whole)
        assert whole or observe.recording_tapes() in ([], [self.tape])
        written = np.array_equal(self.y.numpy(), self.after[0])
        try:
            [got] = self.tape.gradient(self.y, [self.x], numbers(4, 16))
        except pk.TapeError as e:
            assert not whole and "interrupted" in str(e)
        except pk.ArgumentError:
            assert not written, "a call was not recorded"
        else:
            y, dy = self.after[0].astype("f8"), numbers(4, 16)
            want = y * (dy - (y * dy).sum(-1, keepdims=True))
            np.testing.assert_allclose(got.numpy(), want, atol=1e-5)

    def drop(self) -> None:
        super().drop()
        del self.tape
        with pk.Tape():  # another one can be had
            pass
        assert not observe.live


class TapeGradient(Scenario):
    """Behind a gradient, interrupted or not, writes are seen again."""

    def setup(self) -> None:
        self.x = self.dev.tensor(numbers(4, 16))

    def prepare(self) -> None:
        self.tape = pk.Tape()
        with self.tape:
            self.y = pk.exp(self.x)
        self.warm()

    def run(self) -> None:
        [self.result] = self.tape.gradient(self.y, [self.x], 1.0)

    def check(self, whole: bool) -> None:
        super().check(whole)
        assert innermost() is None
        pk.kernels.fill(self.y, 0)  # is seen
        try:
            self.tape.gradient(self.y, [self.x], 1.0)
        except (pk.TapeError, pk.ArgumentError):
            return
        raise AssertionError("a write behind a gradient was missed")


class FreshLaunch(Launch):
    """The first one of a batch."""

    fresh = True


class SecondLaunch(Launch):
    """The second one with the same scalars: the call gets params of its own."""

    def prepare(self) -> None:
        self.dev._context.forget_bind_groups()
        super().prepare()


class DueLaunch(Launch):
    """The last one of a batch, which it submits."""

    def run(self) -> None:
        self.dev._context.recorder.pace.due = 1.0
        pk.kernels.softmax(self.x, self.y)


class ColdLaunch(Launch):
    """A call whose plan is not known: all but its pipeline is made again."""

    def prepare(self) -> None:
        super().prepare()
        self.dev._context.forget_calls()


class CompileLaunch(ColdLaunch):
    """Its pipeline, too."""

    def prepare(self) -> None:
        super().prepare()
        known = self.dev._context.pipelines._pipelines
        for key in [k for k in known if k[0].startswith("softmax")]:
            del known[key]


class CopiedViews(Launch):
    """The plan is known, the views are new each time."""

    def run(self) -> None:
        y = self.y[:, ::-1]
        pk.kernels.softmax(self.x, y)


class ScratchLaunch(Launch):
    """Two dispatches with scratch between them."""

    def setup(self) -> None:
        self.x, self.y = self.dev.tensor(numbers(2, 30_000)), self.output((2, 30_000))


class ColdScratchLaunch(ScratchLaunch):
    def prepare(self) -> None:
        super().prepare()
        self.dev._context.forget_calls()


class OverlapLaunch(Scenario):
    """The input lies over the output: it is copied first."""

    def setup(self) -> None:
        self.t = self.output((9, 16))

    def prepare(self) -> None:
        super().prepare()
        self.t[::8].write(numbers(2, 16))

    def run(self) -> None:
        pk.kernels.softmax(self.t[:8], self.t[1:])

    def check(self, whole: bool) -> None:
        rows = self.t[1:].numpy()
        done = np.array_equal(rows, self.after[0][1:])
        before = numbers(2, 16)[1:]
        kept = (rows[:7] == -77).all() and np.array_equal(rows[7:], before)
        assert done or (kept and not whole), "the copied call happened in part"


class WatchLaunch(Scenario):
    """A call that takes a slot for indices out of range."""

    def setup(self) -> None:
        self.x, self.y = self.dev.tensor(numbers(8, 16)), self.output((4, 16))
        self.index = self.dev.tensor(np.array([3, 1, 7, 0], "i4"))

    def run(self) -> None:
        pk.kernels.get_rows(self.x, self.index, self.y)


class Chain(Scenario):
    """Calls of several kernels, and their order."""

    def setup(self) -> None:
        self.x = self.dev.tensor(numbers(4, 16))
        self.y = [self.output((4, 16)) for _ in range(4)]

    def run(self) -> None:
        a, b, c, d = self.y
        pk.kernels.softmax(self.x, a)
        pk.kernels.neg(a, b)
        pk.kernels.fill(c, 5)
        pk.kernels.add(b, c, d)


class Functional(Scenario):
    """The output is allocated."""

    def setup(self) -> None:
        self.x = self.dev.tensor(numbers(4, 16))

    def run(self) -> None:
        self.result = pk.softmax(self.x)


# -- reads and writes -----------------------------------------------------------------------------


class Read(Launch):
    def run(self) -> None:
        pk.kernels.softmax(self.x, self.y)
        self.result = self.y.numpy()


class ReadItem(Launch):
    def run(self) -> None:
        pk.kernels.softmax(self.x, self.y)
        self.result = self.y[0, 0].item()


class ReadAgain(Scenario):
    """Nothing is recorded."""

    fresh = True

    def setup(self) -> None:
        self.x = self.dev.tensor(numbers(64, 64))

    def run(self) -> None:
        self.result = self.x.numpy()


class ReadStrided(ReadAgain):
    """Through a copy on the device."""

    fresh = False

    def run(self) -> None:
        self.result = self.x[::8, ::8].numpy()


class ReadInto(ReadAgain):
    """Into an array of the caller's."""

    def setup(self) -> None:
        super().setup()
        if "out" not in inspect.signature(pk.Tensor.numpy).parameters:
            raise Skip("numpy has no out")
        self.array = np.zeros((64, 64), "f4")

    def run(self) -> None:
        self.result = self.x.numpy(out=self.array)  # type: ignore[call-arg]


class Sync(Launch):
    def run(self) -> None:
        pk.kernels.softmax(self.x, self.y)
        self.dev.sync()


class Flush(Launch):
    def run(self) -> None:
        pk.kernels.softmax(self.x, self.y)
        self.dev.flush()


class WatchSync(WatchLaunch):
    """A page of faults is looked at."""

    def run(self) -> None:
        pk.kernels.get_rows(self.x, self.index, self.y)
        self.dev.sync()


class FaultSync(WatchLaunch):
    """An index is out of range: it is reported once, by the run or by what follows."""

    def setup(self) -> None:
        super().setup()
        self.bad = self.dev.tensor(np.array([3, 1, 8, 0], "i4"))
        self.z = self.dev.zeros((4, 16))

    def prepare(self) -> None:
        super().prepare()
        self.dev.sync()
        self.reported = 0
        pk.kernels.get_rows(self.x, self.bad, self.z)

    def warm(self) -> None:
        pass

    def run(self) -> None:
        try:
            pk.kernels.get_rows(self.x, self.index, self.y)
            self.dev.sync()
        except pk.IndexRangeError:
            self.reported += 1
        except KeyboardInterrupt as e:
            self.reported += isinstance(e.__context__, pk.IndexRangeError)
            raise

    def finish(self) -> None:
        for _ in range(2):
            try:
                self.dev.sync()
            except pk.IndexRangeError:
                self.reported += 1

    def check(self, whole: bool) -> None:
        super().check(whole)
        assert self.reported == 1, f"the index was reported {self.reported} times"


class Upload(Scenario):
    def setup(self) -> None:
        self.a = numbers(8, 8)

    def run(self) -> None:
        self.result = self.dev.tensor(self.a)


class FreshUpload(Upload):
    """Into a new buffer."""

    fresh = True

    def prepare(self) -> None:
        self.dev.trim()


class Create(Scenario):
    """A filled tensor, beside one that is let go."""

    def run(self) -> None:
        self.dev.empty((5, 7))
        self.result = self.dev.full((5, 7), 3)


class Write(Scenario):
    """Behind a recorded launch that reads the tensor."""

    shape = (8, 8)

    def setup(self) -> None:
        self.x, self.a = self.output(self.shape), numbers(*self.shape)
        self.y = self.output(self.shape)

    def run(self) -> None:
        pk.kernels.neg(self.x, self.y)
        self.x.write(self.a)

    def check(self, whole: bool) -> None:
        x, y = self.x.numpy(), self.y.numpy()
        ran, written = bool((y == 77).all()), np.array_equal(x, self.a)
        assert ran or (y == -77).all(), "half a launch"
        assert written or (x == -77).all(), "half a write"
        assert ran >= written, "the write came before the launch, or without it"
        assert not whole or written, "no effect"


class WriteStaged(Write):
    """Through a staging buffer that is kept."""

    shape = (1024, 2048)


class WriteStrided(Scenario):
    """Through a copy on the device."""

    def setup(self) -> None:
        self.x, self.a = self.output((8, 8)), numbers(8, 8)

    def run(self) -> None:
        self.x[::-1].write(self.a)
