"""A service for some time: threads and tasks with requests of all kinds on one device.

    python -m tests.runtime.soak [--minutes 10] [--seed 1]     on PYKERNELS_TEST_COLUMN

Some requests are faulty: an index is out of range, the device refuses a buffer, a block ends with
an exception, or a task is cancelled. Each must raise its own error; all others must have their
answer. At the end nothing may be left, and the memory of the process may not have grown. Exit
status 1 if a count is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np

import pykernels as pk
from pykernels.runtime import launch, owners
from tests.runtime._helpers import open_device, refusal, softmax
from tests.runtime.resident import Resident

__all__ = ["Counts", "soak"]

THREADS, TASKS = 8, 50
ROWS, WIDTH = 64, 32
BUDGET = 24 << 20
# The shapes of the requests `shapes`. They are more than the caches of plans and calls hold here,
# so both are emptied again and again, and a run of minutes is as long for them as one of days.
SHAPES = [
    (rows, cols) for cols in random.Random(0).sample(range(1, 3000), 200) for rows in range(1, 41)
]
PLANS, CALLS = 1024, 512
# the fault of a tenth of the requests, by kind
WRONG = {"eager": "index", "program": "index", "capture": "exception", "tape": "exception"}


class Planned(Exception):
    """Ends a block of a capture or a tape."""


@dataclass
class Counts:
    """What happened."""

    requests: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)  # by the kind of fault
    wrong: list[str] = field(default_factory=list)  # answers
    misattributed: list[str] = field(default_factory=list)  # errors
    leaked: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)  # MB of the process at equal intervals

    def __str__(self) -> str:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in sorted(self.requests.items()))
        faults = ", ".join(f"{n:,} {fault}" for fault, n in sorted(self.raised.items()))
        samples = " ".join(f"{mb:.0f}" for mb in self.memory) or "not known on this platform"
        lines = [
            f"{self.requests.total():,} requests ({kinds})",
            f"{self.raised.total():,} raised ({faults})",
            f"MB of the process: {samples}",
        ]
        for name in ("wrong", "misattributed", "leaked"):
            found: list[str] = getattr(self, name)
            lines.append(f"{name}: {len(found)} {found[:3] if found else ''}".rstrip())
        return "\n".join(lines)

    @property
    def good(self) -> bool:
        return not (self.wrong or self.misattributed or self.leaked)


@dataclass(frozen=True)
class Request:
    """One request.

    `fault`: "index" (its index is out of range by `number`), "exception", "cancelled", or "" for a
    good request. `refused` counts the buffers that the device refused to it.
    """

    kind: str
    number: int
    fault: str
    index: Any
    values: Any
    shape: tuple[int, int]
    refused: list[int] = field(default_factory=list)


class Service:
    """One device, tables, and programs that everybody shares."""

    KINDS = ("eager", "program", "capture", "tape", "shapes")
    FAULTS = ("index", "exception", "cancelled", "memory")

    def __init__(self, dev: pk.Device, seed: int) -> None:
        self.dev, self.seed, self.counts = dev, seed, Counts()
        self.host = np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype("f4")
        self.table = dev.tensor(self.host)
        self.answers = softmax(self.host)
        self.programs: list[tuple[int, Any]] = []
        for n in (3, 7):
            index, out = dev.zeros(n, "int32"), dev.zeros((n, WIDTH))
            with dev.capture(index=index, out=out) as program:
                pk.kernels.softmax(pk.embedding(self.table, index), out)
            self.programs.append((n, program))
        self._lock = threading.Lock()
        self._serving: ContextVar[Request | None] = ContextVar("serving", default=None)

    def request(self, rng: random.Random) -> Request:
        kind = rng.choice(self.KINDS)
        n = self.programs[rng.randrange(2)][0] if kind == "program" else rng.randint(2, 40)
        number = rng.randrange(10_000, 1_000_000_000)
        index = np.array([rng.randrange(ROWS) for _ in range(n)], "i4")
        fault = WRONG.get(kind, "") if rng.random() < 0.1 else ""
        if fault == "index":
            index[rng.randrange(n)] = number
        values = np.random.default_rng(number).standard_normal(8).astype("f4")
        return Request(kind, number, fault, index, values, rng.choice(SHAPES))

    def judge(self, request: Request, got: Any) -> None:
        """An answer, or the error."""
        counts, told = self.counts, f"{request.kind} {request.number}: "
        fault = "memory" if request.refused else request.fault
        with self._lock:
            counts.requests[request.kind] += 1
            if not isinstance(got, BaseException):
                if fault not in ("", "cancelled"):  # it may have an answer before it is cancelled
                    counts.misattributed.append(f"{told}has an answer in spite of {fault}")
                elif not np.allclose(got, self.expected(request), rtol=1e-4, atol=1e-5):
                    counts.wrong.append(told + "another answer")
            elif fault and self.is_own(request, got, fault):
                counts.raised[fault] += 1
            elif isinstance(got, pk.IndexRangeError | pk.OutOfMemoryError | Planned):
                counts.misattributed.append(told + str(got))
            else:
                counts.wrong.append(told + repr(got))

    def is_own(self, request: Request, got: BaseException, fault: str) -> bool:
        """True if a request with this fault must raise this error."""
        if fault == "index":
            alone = "launches after it" not in str(got)
            named = f"is {request.number} at" in str(got)
            return isinstance(got, pk.IndexRangeError) and named and alone
        if fault == "exception":
            return isinstance(got, Planned) and got.args == (request.number,)
        if request.fault == "cancelled" and isinstance(got, asyncio.CancelledError):
            return True
        return fault == "memory" and isinstance(got, pk.OutOfMemoryError)

    @contextmanager
    def refusals(self, rng: random.Random) -> Iterator[None]:
        """Inside, the device refuses some buffers, and once more after the pool was given back: to
        requests without another fault, since an error would hide that one."""
        raw = self.dev.wgpu_device
        create = raw.create_buffer

        def refusing(**options: Any) -> Any:
            request = self._serving.get()
            if request is not None and request.fault in ("", "cancelled"):
                once_more = len(request.refused) % 2
                if once_more or rng.random() < 0.02:
                    request.refused.append(options["size"])
                    raise refusal(self.dev)
            return create(**options)

        raw.create_buffer = refusing
        try:
            yield
        finally:
            del raw.create_buffer

    def expected(self, request: Request) -> Any:
        if request.kind in ("eager", "program"):
            return self.answers[request.index]
        if request.kind == "shapes":
            return softmax(self.given(request))
        x = request.values
        return 3 * x * x if request.kind == "tape" else -(x + x)

    def given(self, request: Request) -> Any:
        rng = np.random.default_rng(request.number)
        return rng.standard_normal(request.shape).astype("f4")

    # -- the parts of a request ------------------------------------------------------------------

    def launch(self, request: Request) -> pk.Tensor:
        """What needs no block: the answer on the device."""
        dev = self.dev
        self._serving.set(request)  # a thread of a pool does not know it yet
        if request.kind == "shapes":
            return pk.softmax(dev.tensor(self.given(request)))
        index = dev.tensor(request.index)
        if request.kind == "eager":
            return pk.softmax(pk.embedding(self.table, index))
        out = dev.empty((len(request.index), WIDTH))
        program = next(p for n, p in self.programs if n == len(request.index))
        program(index=index, out=out)
        return out

    def serve(self, request: Request) -> Any:
        """A whole request in this thread."""
        self._serving.set(request)
        if request.kind not in ("capture", "tape"):
            return self.launch(request).numpy()
        x = self.dev.tensor(request.values)
        if request.kind == "tape":
            with pk.Tape() as tape:
                loss = pk.sum(x * x * x)
                self.interfere(request)
            return tape.gradient(loss, [x])[0].numpy()
        with self.dev.capture() as program:
            y = pk.neg(pk.add(x, x))
            self.interfere(request)
        program()
        return y.numpy()

    async def serve_async(self, request: Request, pool: ThreadPoolExecutor) -> Any:
        """A whole request in this task, whose parts others run between."""
        loop = asyncio.get_running_loop()
        self._serving.set(request)
        if request.kind not in ("capture", "tape"):
            way = request.number % 4
            if way == 0:
                y = self.launch(request)
            elif way == 1:
                y = await loop.run_in_executor(pool, self.launch, request)
            elif way == 2:
                y = await asyncio.to_thread(self.launch, request)
            else:
                with self.dev.checked():
                    y = await asyncio.to_thread(self.launch, request)
                    return await asyncio.to_thread(y.numpy)
            await asyncio.sleep(0)
            return await y.numpy_async()
        x = self.dev.tensor(request.values)
        if request.kind == "tape":
            with pk.Tape() as tape:
                y = x * x
                await asyncio.sleep(0)
                self.interfere(request)
                loss = pk.sum(y * x)
            return await tape.gradient(loss, [x])[0].numpy_async()
        with self.dev.capture() as program:
            y = pk.add(x, x)
            await asyncio.sleep(0)
            self.interfere(request)
            y = pk.neg(y)
        program()
        return await y.numpy_async()

    def interfere(self, request: Request) -> None:
        """End a block of a request that is to end so."""
        if request.fault == "exception":
            raise Planned(request.number)

    # -- who makes them --------------------------------------------------------------------------

    def thread(self, number: int, until: float) -> None:
        rng = random.Random(self.seed + number)
        while time.monotonic() < until:
            request = self.request(rng)
            try:
                got = self.serve(request)
            except Exception as e:
                got = e
            self.judge(request, got)

    async def tasks(self, until: float) -> None:
        """New tasks all the time, so many at once."""
        rng, few = random.Random(self.seed - 1), asyncio.Semaphore(TASKS)
        loop = asyncio.get_running_loop()

        async def one(request: Request) -> None:
            try:
                got = await self.serve_async(request, pool)
            except (Exception, asyncio.CancelledError) as e:
                got = e
            finally:
                few.release()
            self.judge(request, got)

        with ThreadPoolExecutor(4) as pool:
            async with asyncio.TaskGroup() as group:
                while time.monotonic() < until:
                    await few.acquire()
                    request = self.request(rng)
                    if not request.fault and rng.random() < 0.1:
                        request = replace(request, fault="cancelled")
                    task = group.create_task(one(request))
                    if request.fault == "cancelled":
                        loop.call_later(rng.choice((0.0, 0.005, 0.05)), task.cancel)


def soak(seconds: float, seed: int = 1) -> Counts:
    """Requests for so many seconds on a device of the column; what is left behind is counted."""
    dev = open_device()
    dev.set_memory_budget(BUDGET)
    dev._context.calls.LIMIT = CALLS
    service = Service(dev, seed)
    for kind in service.KINDS:  # the caches that a first call fills
        rng = random.Random(seed)
        requests = iter(functools.partial(service.request, rng), None)
        service.serve(next(r for r in requests if r.kind == kind and not r.fault))
    gc.collect()
    before = dev.memory_stats()
    until = time.monotonic() + seconds
    few_plans = patch.object(launch, "MAX_PLANS", PLANS)
    with Resident(seconds) as resident, service.refusals(random.Random(seed)), few_plans:
        with ThreadPoolExecutor(THREADS) as pool:
            working = [pool.submit(service.thread, i, until) for i in range(THREADS)]
            asyncio.run(service.tasks(until))
            for work in working:
                work.result()
    service.counts.memory = resident.samples
    leaked = service.counts.leaked
    leaked += resident.grown()
    try:
        dev.sync()
    except pk.IndexRangeError as e:
        service.counts.misattributed.append(f"to nobody: {e}")
    gc.collect()
    after, faults = dev.memory_stats(), dev._context.faults
    if (after.current, after.live_buffers) != (before.current, before.live_buffers):
        leaked.append(f"memory: {before}, then {after}")
    if after.current + after.pooled > BUDGET:
        leaked.append(f"beyond the budget: {after}")
    if faults.open or faults.aside or faults._found or faults.waiting():
        leaked.append("faults")
    if dev._context.scopes or len(owners._tasks):
        leaked.append("blocks or tasks")
    dev.close()
    return service.counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.runtime.soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    counts = soak(60 * args.minutes, args.seed)
    print(counts)
    sys.exit(not counts.good)


if __name__ == "__main__":
    main()
