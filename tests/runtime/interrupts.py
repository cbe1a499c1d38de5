"""Interrupts at every place where CPython looks for signals, and what must be true after each.

CPython looks after calls of C code, at the start of a function and at jumps backwards. A trace
function stops before each such instruction in the frames of interest, and sends the signal of
Ctrl-C from inside one instruction of its own (`[*map(..)]` is no place where CPython looks, and it
ends with no call): the interpreter then raises KeyboardInterrupt where it would for a real one.
Before a return it is sent, too: it comes out behind the call, where that is one of C code.
"""

from __future__ import annotations

import contextlib
import dis
import gc
import os
import signal
import sys
import threading
import traceback
from _thread import interrupt_main
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

import numpy as np

import pykernels as pk
from tests.runtime._helpers import open_device
from tests.runtime.interrupt_scenarios import Scenario

__all__ = ["Bench", "Frames", "Injector", "Unraisable", "attempt"]

# Whose frames: those of pykernels (and of contextlib, under its context managers), or those of the
# engine's Python package where pykernels calls it.
Frames = Literal["own", "engine"]
OWN = str(Path(pk.__file__).parent) + os.sep
SCENES = tuple(str(p) for p in Path(__file__).parent.glob("interrupt_*.py"))
_LOOKS = ("CALL", "JUMP_BACKWARD", "RETURN_", "YIELD_VALUE")
_LOOKS_NOT = ("CALL_INTRINSIC", "RETURN_GENERATOR", "JUMP_BACKWARD_NO_INTERRUPT")


# -- injection ------------------------------------------------------------------------------------


class Unraisable:
    """The hook for what finalisers raised, as text: what it is called with keeps the frames of the
    interrupted call, and their tensors."""

    def __init__(self) -> None:
        self.interrupts: list[str] = []  # swallowed, as CPython does it
        self.errors: list[str] = []

    def __call__(self, what: Any) -> None:
        told = f"{what.exc_type.__name__} in {what.object!r}"
        if issubclass(what.exc_type, KeyboardInterrupt):
            self.interrupts.append(told)
        elif "GPUObjectBase.__del__" not in told:  # of one whose construction was interrupted
            self.errors.append(told)


class Injector:
    """Runs work with one interrupt, at the k-th place of those that `count` finds."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._stops: dict[CodeType, dict[int, str] | None] = {}
        self._at = 0
        self._target = -1
        self._seen: list[str] | None = None
        self.sent = False
        self.unraisable = Unraisable()

    def count(self, work: Callable[[], None]) -> list[str]:
        """The places of an undisturbed run."""
        self._seen = []
        found, error = self._seen, self.run(work, -1)
        self._seen = None
        assert error is None, error
        return found

    def run(self, work: Callable[[], None], k: int) -> str | None:
        """What came out of `work`: None if it ended well, the interrupt's place, or an error."""
        self._at, self._target = 0, k
        self.sent = False
        self.unraisable = Unraisable()
        hook, sys.unraisablehook = sys.unraisablehook, self.unraisable
        try:
            sys.settrace(self._trace)
            try:
                work()
            finally:
                sys.settrace(None)
        except KeyboardInterrupt as e:
            last = traceback.extract_tb(e.__traceback__)[-1]
            return f"interrupt {_place(last.filename)}:{last.lineno} {last.name}"
        except BaseException:
            return traceback.format_exc()
        finally:
            sys.unraisablehook = hook
        return None

    def _stops_of(self, code: CodeType) -> dict[int, str] | None:
        """The instructions of interest by their offsets; None for frames that are of none."""
        file = code.co_filename
        if file in SCENES:
            inside = code.co_name == "run"
        elif self._frames == "own":
            inside = file.startswith(OWN) or file == contextlib.__file__
        else:
            inside = f"{os.sep}wgpu{os.sep}" in file or f"{os.sep}wgpudawn{os.sep}" in file
        if not inside:
            return None
        return {
            i.offset: i.opname
            for i in dis.get_instructions(code)
            if i.opname.startswith(_LOOKS) and not i.opname.startswith(_LOOKS_NOT)
        }

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code not in self._stops:
            self._stops[code] = self._stops_of(code)
        if self._stops[code] is None:
            return None
        frame.f_trace = self._local  # before the next line: CPython 3.13 wants it so
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        i, self._at = self._at, self._at + 1
        if self._seen is not None:
            self._seen.append(f"{_place(code.co_filename)}:{frame.f_lineno} {code.co_name} start")
        if i == self._target:
            self.sent = True
            sys.settrace(None)
            [*map(interrupt_main, (signal.SIGINT,))]
            return None
        return self._local

    def _local(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event != "opcode":
            return self._local
        code = frame.f_code
        name = self._stops[code].get(frame.f_lasti)  # type: ignore[union-attr]
        if name is None:
            return self._local
        i, self._at = self._at, self._at + 1
        if self._seen is not None:
            self._seen.append(f"{_place(code.co_filename)}:{frame.f_lineno} {code.co_name} {name}")
        if i == self._target:
            self.sent = True
            sys.settrace(None)  # else the next event of the trace would be such a place
            [*map(interrupt_main, (signal.SIGINT,))]
            return None
        return self._local


def _place(file: str) -> str:
    return "/".join(Path(file).parts[-2:])


# -- what must be true afterwards -----------------------------------------------------------------


class Canary:
    """A chain of launches, each of another kernel than the one before and into a row of its own,
    whose bits are known; no two chains in turn have the same."""

    FIRST = ("cpy", "add")  # no scenario ends with one of these
    KERNELS = ("cpy", "fill", "softmax", "add")

    def __init__(self, dev: pk.Device) -> None:
        rng = np.random.default_rng(1)
        self._host = rng.standard_normal((2, 4, 16)).astype("f4")
        self._x = [dev.tensor(x) for x in self._host]
        self._rows = dev.zeros((9, 4, 16))
        self._softmax = [pk.softmax(x).numpy() for x in self._x]
        self._expected = np.zeros((9, 4, 16), "f4")
        self._round = 0

    def launch(self, kernel: str, row: int) -> None:
        """One launch."""
        a, b = self._x[:: 1 - 2 * (self._round % 2)]
        host = self._host[self._round % 2]
        out = self._rows[row]
        if kernel == "cpy":
            pk.kernels.cpy(a, out)
            self._expected[row] = host
        elif kernel == "fill":
            pk.kernels.fill(out, float(self._round))
            self._expected[row] = self._round
        elif kernel == "softmax":
            pk.kernels.softmax(a, out)
            self._expected[row] = self._softmax[self._round % 2]
        else:
            pk.kernels.add(a, b if self._round % 2 else a, out)
            self._expected[row] = host + self._host[0] if self._round % 2 else host + host

    def begin(self, k: int) -> None:
        """The kernel that the chain will begin with: the batch has its pipeline, then."""
        self._round += 1
        self.launch(self.FIRST[k % 2], 8)

    def chain(self, k: int) -> None:
        """Two launches of each kernel."""
        at = self.KERNELS.index(self.FIRST[k % 2])
        for row in range(8):
            self.launch(self.KERNELS[(at + row) % 4], row)

    def check(self) -> None:
        rows = self._rows.numpy()
        for i in range(9):
            a, e = rows[i], self._expected[i]
            assert np.array_equal(a, e), f"canary {i} is {a.flat[0]} in place of {e.flat[0]}"


class Bench:
    """A device, and the checks around one interrupted run on it."""

    def __init__(self) -> None:
        self.dev = open_device()
        self._canary = Canary(self.dev)
        self._earlier = self.dev.zeros((4, 16))
        self._number = 0
        self._others = self.dev.full((4, 16), 3), self.dev.zeros((4, 16))
        self._canary.begin(0)
        self._canary.chain(0)
        pk.kernels.neg(*self._others)
        self.dev.sync()
        gc.collect()
        gc.freeze()  # a collection after each run looks at what is new only

    def begin(self, scenario: Scenario, k: int) -> None:
        """The state that a run begins in."""
        scenario.prepare()
        if scenario.fresh:
            self._canary.begin(k)
            self.dev.sync()
        else:
            # In the batch stands a launch that must not be lost, and then the kernel that the
            # chain will begin with: its pipeline is the one that the pass has.
            self._number = k % 4096 + 1
            pk.kernels.fill(self._earlier, float(self._number))
            self._canary.begin(k)
        gc.collect()
        self._stats = self.dev.memory_stats()

    def check(self, scenario: Scenario, k: int, whole: bool) -> None:
        """What must be true after a run, interrupted or not (`whole`)."""
        dev = self.dev
        self._canary.chain(k)
        self._other_thread(scenario, k)
        try:
            self.dev.sync()
        except pk.IndexRangeError:  # the next read would raise it
            scenario.reported += 1
        self._canary.check()
        if not scenario.fresh:
            assert (self._earlier.numpy() == self._number).all(), "an earlier launch is lost"
        scenario.check(whole)
        scenario.drop()
        gc.collect()
        self._check_memory()
        self.begin(scenario, k)
        scenario.run()
        self._canary.chain(k)
        self._canary.check()
        scenario.check(True)
        scenario.drop()
        gc.collect()
        self._check_memory()
        freed, pooled = dev.memory_stats().pooled, dev.trim()
        assert freed == pooled, f"trim freed {freed} of {pooled} pooled bytes"
        stats = dev.memory_stats()
        assert (stats.pooled, stats.pooled_buffers) == (0, 0), f"after trim: {stats}"

    def _check_memory(self) -> None:
        before, after = self._stats, self.dev.memory_stats()
        assert (after.current, after.live_buffers) == (before.current, before.live_buffers), (
            f"memory: {before} before, {after} after"
        )
        assert after.peak >= after.current + after.pooled, f"memory: {after}"

    def _other_thread(self, scenario: Scenario, k: int) -> None:
        """A call and a read on another thread go through at once."""
        x, y = self._others
        wrong: list[str] = []

        def call() -> None:
            try:
                pk.kernels.fill(x, float(k))
                pk.kernels.neg(x, y)
                found = y.numpy()  # what waits is of the main thread
                if not (found == -k).all():
                    wrong.append("wrong result on another thread")
            except BaseException as e:
                wrong.append(f"on another thread: {type(e).__name__}: {e}")

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(5)
        assert not thread.is_alive(), "another thread waits for the lock"
        assert not wrong, wrong[0]


def attempt(bench: Bench, scenario: Scenario, injector: Injector, k: int) -> dict[str, Any]:
    """One run with an interrupt at boundary k: what came out, and what is wrong then."""
    answer: dict[str, Any] = {"k": k, "out": "", "wrong": ""}
    try:
        bench.begin(scenario, k)
        out = injector.run(scenario.run, k)
        swallowed, errors = injector.unraisable.interrupts, injector.unraisable.errors
        answer["out"] = out or ("swallowed by a finaliser" if swallowed else "nothing")
        assert out or swallowed or not injector.sent, "the interrupt is lost"
        assert not errors, errors
        if out is not None and not out.startswith("interrupt "):
            raise AssertionError(f"in place of the interrupt: {out}")
        bench.check(scenario, k, whole=out is None)
    except BaseException as e:
        answer["wrong"] = f"{type(e).__name__}: {e}"
        answer["trace"] = traceback.format_exc()
    return answer
