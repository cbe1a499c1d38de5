"""Random mixes of everything that changes what a device holds, compared with numpy."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import USAGE, isolated, open_device

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]

FULL = os.environ.get("PYKERNELS_TEST_FULL", "") not in ("", "0")
STEPS = 2000 if FULL else 250
KEPT, RECENT = 24, 8
NDArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Pair: TypeAlias = tuple[pk.Tensor, NDArray]
# What a launch does to the arrays; a program does it again at each replay.
Effect: TypeAlias = Callable[[], None]


class Mix:
    """Tensors, the arrays that they must equal, and programs. Views of both share their memory.

    Args:
        alone: has this mix the device for itself? Only then may it set budgets.
    """

    def __init__(self, dev: pk.Device, seed: int, alone: bool = True) -> None:
        self.dev, self.alone = dev, alone
        self.rng = np.random.default_rng(seed)
        self.pairs: list[Pair] = []
        self.programs: list[tuple[Any, list[Effect], pk.Tensor | None, NDArray | None]] = []
        self.recent: list[tuple[Callable[[], None], Effect]] = []
        self.effects: list[Effect] | None = None  # of the program that is captured
        self.left_out = False  # did a launch have an index out of range?
        self.scopes = contextlib.ExitStack()

    # -- picking ------------------------------------------------------------------------------

    def number(self, below: int) -> int:
        return int(self.rng.integers(below))

    def array(self, shape: tuple[int, ...], dtype: str = "float32") -> NDArray:
        return self.rng.integers(0, 100, shape).astype(dtype)

    def pick(self, dtype: str | None = None) -> Pair:
        found = [p for p in self.pairs if dtype is None or p[0].dtype == dtype]
        if not found:
            self.new(dtype or "float32")
            found = self.pairs[-1:]
        return found[self.number(len(found))]

    def alike(self, pair: Pair) -> Pair:
        """Another view of the same shape and dtype; of the same memory if there is one."""
        t, _ = pair
        found = [p for p in self.pairs if p[0].shape == t.shape and p[0].dtype == t.dtype]
        return found[self.number(len(found))]

    # -- tensors ------------------------------------------------------------------------------

    def new(self, dtype: str | None = None) -> None:
        rows, cols = ((1 + self.number(9), 1 + self.number(70)), (260, 300))[self.number(12) == 0]
        dtype = dtype or ("float32", "float32", "uint8", "float16")[self.number(4)]
        a = self.array((rows, cols), dtype)
        if self.effects is None and self.number(3):
            t = self.dev.tensor(a)
        else:
            t = self.dev.empty(a.shape, a.dtype)
            a[:] = 3
            self.launch(lambda: pk.kernels.fill(t, 3), lambda: a.fill(3))
        self.pairs.append((t, a))

    def foreign(self) -> None:
        a = self.array((4, 16))
        buffer = self.dev.wgpu_device.create_buffer(size=1024, usage=USAGE)
        t = pk.Tensor.from_buffer(buffer, a.shape, "float32", offset=64, device=self.dev)
        t.write(a)
        self.pairs.append((t, a))

    def handed_out(self) -> None:
        t, a = self.pick()
        buffer = t.buffer
        if t.contiguous and t._offset == 0 and t.size:
            again = pk.Tensor.from_buffer(buffer, t.shape, t.dtype, device=self.dev)
            self.pairs.append((again, a))

    def view(self) -> None:
        t, a = self.pick()
        kind = self.number(4)
        if kind == 0:
            self.pairs.append((t.T, a.T))
        elif kind == 1 and t.contiguous and a.flags.c_contiguous:
            self.pairs.append((t.reshape(-1), a.reshape(-1)))
        elif t.size:
            first, step = self.number(t.shape[0]), 1 + self.number(2)
            cut = slice(first, first + 1 + self.number(t.shape[0]), step)
            self.pairs.append((t[cut], a[cut]))
            if kind == 2 and t.ndim == 2:
                self.pairs.append((t[:, 1:], a[:, 1:]))
                self.pairs.append((t[:, :-1], a[:, :-1]))

    def drop(self) -> None:
        if self.pairs:
            del self.pairs[self.number(len(self.pairs))]

    # -- launches -----------------------------------------------------------------------------

    def launch(self, call: Callable[[], None], effect: Effect) -> None:
        call()
        if self.effects is None:
            effect()
        else:
            self.effects.append(effect)
        self.recent = [*self.recent[-RECENT:], (call, effect)]

    def again(self) -> None:
        """A call that is known, on what may have moved meanwhile."""
        if self.recent:
            call, effect = self.recent[self.number(len(self.recent))]
            self.launch(call, effect)

    def cpy(self) -> None:
        x, a = source = self.pick()
        y, b = self.alike(source)
        for _ in range(1 + self.number(4)):  # again: slots that the call keeps
            self.launch(lambda: pk.kernels.cpy(x, y), lambda: np.copyto(b, a.copy()))

    def add(self) -> None:
        x, a = first = self.pick("float32")
        (y, b), (z, c) = self.alike(first), self.alike(first)

        def effect() -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                c[...] = a + b

        for _ in range(1 + self.number(4)):
            self.launch(lambda: pk.kernels.add(x, y, z), effect)

    def fill(self) -> None:
        """Numbers that change where slots may be kept; their sum tells each of them."""
        t, a = self.pick("float32")
        z, c = self.alike((t, a))

        def effect() -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                c[...] = c + a

        for value in self.rng.integers(0, 3, 1 + self.number(8)).tolist():
            self.launch(partial(pk.kernels.fill, t, value), partial(a.fill, value))
            self.launch(lambda: pk.kernels.add(z, t, z), effect)

    def shift(self) -> None:
        """Within one buffer, by way of scratch."""
        x, a = self.pick("float32")
        if x.ndim == 2:
            y, z, b, c = x[:, 1:], x[:, :-1], a[:, 1:], a[:, :-1]
            self.launch(lambda: pk.kernels.cpy(y, z), lambda: np.copyto(c, b.copy()))

    def new_result(self) -> None:
        x, a = self.pick("float32")
        y = pk.neg(x)
        b = np.zeros(a.shape, "f4")
        self.pairs.append((y, b))
        self.launch(lambda: pk.kernels.neg(x, y), lambda: np.copyto(b, -a))

    def rows(self) -> None:
        """Checked indices; one of them may be out of range, then its row stays as it is."""
        if self.effects is not None:
            return
        a = self.array((5, 8))
        index = self.rng.integers(0, 5, 6).astype("int32")
        bad = self.number(8) == 0
        index[3] = 77 if bad else index[3]
        got = self.dev.zeros((6, 8))
        pk.kernels.get_rows(self.dev.tensor(a), self.dev.tensor(index), got)
        self.left_out |= bad
        self.pairs.append((got, np.where((index < 5)[:, None], a[index % 5], np.float32(0))))

    def write(self) -> None:
        t, a = self.pick()
        new = self.array(a.shape, t.dtype)
        t.write(new)
        a[...] = new

    # -- the device ---------------------------------------------------------------------------

    def check(self, pair: Pair) -> None:
        t, a = pair
        try:
            got = t.numpy()
        except pk.IndexRangeError:
            assert self.left_out or not self.alone
            self.left_out = False
            got = t.numpy()
        np.testing.assert_array_equal(got, a)

    def read(self) -> None:
        self.check(self.pick())

    def sync(self) -> None:
        with contextlib.suppress(pk.IndexRangeError):
            self.dev.sync()

    def budget(self) -> None:
        if self.alone:
            stats = self.dev.memory_stats()
            more = 4096 * self.number(40)
            self.dev.set_memory_budget((None, stats.current + more)[self.number(2)])

    def scope(self) -> None:
        """Begin a batch or a profile, or end all."""
        kind = self.number(4)
        if kind == 0:
            self.scopes.enter_context(self.dev.batch())
        elif kind == 1 and self.alone:
            self.scopes.enter_context(self.dev.profile())
        else:
            with contextlib.suppress(pk.IndexRangeError):
                self.scopes.close()

    # -- programs -----------------------------------------------------------------------------

    def capture(self) -> None:
        """A few launches that run later; what they make is known when they have run."""
        x, a = self.pick("float32")
        own = self.dev.tensor(a) if x.size else None  # an input that others may replace
        cell = np.array(a)
        known = len(self.pairs)
        self.effects = []
        try:
            with self.dev.capture(**({"x": own} if own is not None else {})) as program:
                if own is not None:
                    out, result = pk.add(own, own), np.zeros(a.shape, "f4")

                    def twice() -> None:
                        with np.errstate(over="ignore", invalid="ignore"):
                            np.add(cell, cell, out=result)

                    self.effects.append(twice)
                    self.pairs.append((out, result))
                for _ in range(1 + self.number(6)):
                    self.one(self.LAUNCHES)
        except pk.OutOfMemoryError:
            self.effects = None
            del self.pairs[known:]
            raise
        self.programs.append((program, self.effects, own, cell))
        self.effects = None
        self._replay(self.programs[-1])  # what is new has no content before

    def replay(self) -> None:
        if self.programs:
            chosen = self.programs[self.number(len(self.programs))]
            for _ in range(1 + self.number(3)):
                self._replay(chosen)

    def _replay(self, chosen: Any) -> None:
        program, effects, own, cell = chosen
        if own is not None and self.number(3) == 0:
            before, other = cell.copy(), self.array(cell.shape)
            program(x=self.dev.tensor(other))
            cell[...] = other
            for effect in effects:
                effect()
            cell[...] = before
            return
        program()
        for effect in effects:
            effect()

    def forget(self) -> None:
        if self.programs:
            del self.programs[self.number(len(self.programs))]

    def into_a_pass(self) -> None:
        encoder = self.dev.wgpu_device.create_command_encoder()
        compute_pass = encoder.begin_compute_pass()
        try:
            with self.dev.record(compute_pass):
                for _ in range(1 + self.number(4)):
                    self.one(self.LAUNCHES[:-1])
        finally:
            compute_pass.end()
            self.dev.wgpu_device.queue.submit([encoder.finish()])

    # -- running ------------------------------------------------------------------------------

    LAUNCHES = (cpy, add, fill, shift, new_result, new)
    RULES = (
        *LAUNCHES, *LAUNCHES, again, again, again, view, view, write, write, read, read, rows,
        drop, drop, foreign, handed_out, sync, budget, scope, capture, replay, replay, replay,
        forget, into_a_pass,
        lambda self: self.dev.trim(), lambda self: self.dev.flush(),
    )  # fmt: skip

    def one(self, rules: Any) -> None:
        rules[self.number(len(rules))](self)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            try:
                self.one(self.RULES)
            except pk.OutOfMemoryError:
                self.dev.set_memory_budget(None)
            while len(self.pairs) > KEPT:
                self.drop()
            while len(self.programs) > 4:
                self.forget()
        with contextlib.suppress(pk.IndexRangeError):
            self.scopes.close()
        for pair in self.pairs:
            self.check(pair)
        self.recent.clear()


@pytest.mark.parametrize("seed", range(8 if FULL else 2))
@isolated
def test_a_mix(seed: int) -> None:
    dev = open_device()
    Mix(dev, seed).run(STEPS)
    dev.set_memory_budget(None)
    gc.collect()  # errors that were caught have frames, and those have tensors
    stats = dev.memory_stats()
    assert stats.current == 0 and stats.live_buffers == 0


@isolated
def test_mixes_in_threads_of_one_device() -> None:
    dev = open_device()
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            Mix(dev, seed, alone=False).run(STEPS // 2)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(100 + i,), daemon=True) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(50)
        assert not t.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
