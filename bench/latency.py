"""Measures calls, reads and syncs by the host's clock, and compares them with GPU time and raw
calls.

    python -m bench.latency [--engine dawn] [--adapter NAME] [--only TEXT] [--small] [--save F.json]
    python -m bench.latency --functions     host time of functions, beside a bound

Times are medians over rounds. A round measures all columns in turn, each as a loop of calls with
one sync at the end:

GPU     timestamps around whole batches of calls
raw     the same dispatches in as many submits, by raw calls, with bind groups made beforehand; for
        a read, a path written by hand; for a write, a copy into mapped memory; for a call with
        numpy arrays, an upload, a call and a read
wall    our calls, by the host's clock
torch   torch's eager calls, by the same clock (cudnn.benchmark on, TF32 off), if torch has a GPU
record  host time of a call inside `batch()`, without and with the submit of the batch
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pykernels as pk
from bench import prices
from bench.chain import LARGE, SMALL, Chain
from bench.facts import check_softmax, first_calls, memory, threads
from bench.raw import RawLoop, RawRead, RawWrite, recorded, waiter
from pykernels.bench.case import CheckFailed, Loaded, load
from pykernels.bench.cases import peers, problem
from pykernels.bench.clock import GpuSample, HostSample, Sample
from pykernels.bench.peers import Skipped, cuda_loop, cuda_torch
from pykernels.bench.report import meta

MOST = 4096  # most calls in a loop
FULL = 1000  # smallest number of dispatches in a batch

# For each row: name, kernel, shape of the problem, shape on a software driver, dtype.
KERNELS: list[tuple[str, str, tuple[int, ...], tuple[int, ...], str]] = [
    ("softmax (8, 128)", "softmax", (8, 128), (8, 128), "float32"),
    ("mul_mat 256^3", "mul_mat", (256, 256, 256), (32, 32, 32), "float32"),
    ("decode T = 1,000 f16", "flash_attn", (1, 32, 8, 1, 1000, 128), (1, 4, 2, 1, 40, 16),
     "float16"),
    ("softmax 1 x 128,256", "softmax", (1, 128256), (1, 5000), "float32"),
    ("bmm 384 x (128, 128, 64)", "mul_mat", (384, 128, 128, 64), (3, 16, 16, 8), "float32"),
    ("conv (16, 64, 56, 56) 3x3", "conv2d", (16, 64, 56, 56, 64, 3, 3, 1, 1),
     (1, 4, 8, 8, 4, 3, 3, 1, 1), "float32"),
]  # fmt: skip
READS = [("4 B", 4, 4), ("1 MiB", 1 << 20, 1 << 12), ("64 MiB", 64 << 20, 1 << 14)]
SHARED = "softmax (8, 128), shared"
USAGE = 0x80 | 0x04 | 0x08  # STORAGE | COPY_SRC | COPY_DST
ARRAYS = [("(8, 128)", (8, 128), (8, 128)), ("(1024, 1024)", (1024, 1024), (16, 64))]


@dataclass(frozen=True)
class Effort:
    """The effort of a measurement: rounds of each row, seconds of a loop, and seconds of warm-up
    before a row."""

    rounds: int
    loop: float
    warm: float


@dataclass
class Row:
    """The seconds of a call in each round, and the reason if torch has no times, else ""."""

    name: str
    calls: int = 0  # calls of a loop
    dispatches: int = 0  # dispatches of a call
    submits: int = 0  # submits of a loop
    gpu: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    torch: list[float] = field(default_factory=list)
    record: list[float] = field(default_factory=list)
    batch: list[float] = field(default_factory=list)
    skipped: str = ""

    @property
    def ratio(self) -> float:
        """The wall-clock time, divided by the GPU time or by the raw loop's time, whichever is
        larger."""
        bound = max(median(self.gpu), median(self.raw))
        return median(self.wall) / bound if bound else 0.0


def median(times: Sequence[float]) -> float:
    """The median; 0 for an empty list."""
    return statistics.median(times) if times else 0.0


class Bench:
    """The rows and facts of one device."""

    def __init__(self, dev: pk.Device, small: bool, only: str) -> None:
        self.dev, self.small, self.only = dev, small, only
        self.effort = Effort(2, 2e-3, 0.0) if small else Effort(7, 2e-2, 0.3)
        self.rows: list[Row] = []
        self.facts: dict[str, Any] = {}
        self.torch: Any = None
        try:
            self.torch, self.no_torch = cuda_torch(), ""
        except Skipped as e:
            self.no_torch = str(e)

    def run(self) -> None:
        """Measure the rows whose names contain `only`."""
        for name, part in self._parts():
            if self.only in name:
                print(f"{time.strftime('%X')} {name}", file=sys.stderr, flush=True)
                part()

    def _parts(self) -> Iterator[tuple[str, Callable[[], None]]]:
        # Memory is measured first, because then the process is smallest and caches are empty.
        yield "memory", partial(self._fact, "memory", memory)
        yield "first calls", partial(self._fact, "first calls", first_calls)
        for name, kernel, shape, cut, dtype in KERNELS:
            case = problem(kernel, cut if self.small else shape, dtype)
            yield name, partial(self.kernel, name, case)
        yield "pk.softmax (8, 128)", self.functional
        yield SHARED, self.shared
        # Calls with numpy arrays run on the default device, whose engine is wgpu.
        for name, shape, cut in ARRAYS if self.dev.engine == "wgpu" else ():
            yield f"numpy {name}", partial(self.arrays, name, cut if self.small else shape)
        for name, nbytes, few in READS:
            yield f"read {name}", partial(self.read, name, few if self.small else nbytes)
        for name, nbytes, few in READS:
            yield f"write {name}", partial(self.write, name, few if self.small else nbytes)
        yield "sync", self.sync
        yield "threads", partial(self._fact, "threads", threads)
        yield "chain", self.chain

    def _fact(self, name: str, find: Callable[[pk.Device, bool], dict[str, Any]]) -> None:
        self.facts[name] = find(self.dev, self.small)

    # -- rows -------------------------------------------------------------------------------------

    def kernel(self, name: str, case: Any) -> None:
        """A call of layer one."""
        loaded = load(self.dev, case)
        loaded.check()
        torch, why = self._peer(loaded)
        output = loaded.sets[0][loaded.outputs[-1]]
        self._measure(Row(name, skipped=why), loaded, torch, output)

    def functional(self) -> None:
        """A call of layer two, which allocates its output."""
        x = self.dev.rand((8, 128), seed=0)
        check_softmax(x.numpy(), pk.softmax(x).numpy())
        torch = None
        if self.torch:
            given = self.torch.rand((8, 128), device="cuda")
            torch = cuda_loop(self.torch, lambda: self.torch.softmax(given, -1))
        row = Row("pk.softmax (8, 128)", skipped=self.no_torch)
        self._measure(row, lambda: pk.softmax(x), torch, None)

    def shared(self) -> None:
        """A call of layer one on a shared buffer: each of these calls submits."""
        x, size = self.dev.rand((8, 128)), 4 * 8 * 128
        buffer = self.dev.wgpu_device.create_buffer(size=size, usage=USAGE)
        y = pk.Tensor.from_buffer(buffer, (8, 128), "float32", device=self.dev)
        pk.kernels.softmax(x, y)
        check_softmax(x.numpy(), y.numpy())
        row = Row(SHARED, skipped="none of torch's buffers is shared")
        self._measure(row, lambda: pk.kernels.softmax(x, y), None, y, timed=False)

    def _peer(self, loaded: Loaded) -> tuple[Sample | None, str]:
        """torch's loop of the same calls, or the reason why there is none."""
        try:
            return peers()[loaded.case.kernel]["torch"](loaded).loop, ""
        except Skipped as e:
            return None, str(e)

    def _measure(
        self, row: Row, call: Callable[[], object], torch: Sample | None, output: pk.Tensor | None,
        timed: bool = True,
    ) -> None:  # fmt: skip
        """Measure all columns in turn, and GPU time if `timed`. `output` is the output of the call,
        if known."""
        dev, effort = self.dev, self.effort
        ours, gpu, raw = HostSample(dev, call), GpuSample(dev, call), RawLoop(dev, call)
        commands = recorded(dev, call)
        dev.sync()
        if output is not None:
            want = output.numpy()
            output.write(np.zeros_like(want))
            raw.repeat(commands, 1, 1)
            if not np.array_equal(want, output.numpy()):
                raise CheckFailed(f"[{row.name}] the raw loop gives other bits")
        row.dispatches, row.calls = len(commands), self._calls(ours)
        inside = max(min(row.calls, FULL // row.dispatches), 1)
        for _ in range(effort.rounds):
            before = dev.submits
            row.wall.append(ours(row.calls) / row.calls)
            row.submits = dev.submits - before
            row.raw.append(raw(row.calls, row.submits) / row.calls)
            if torch is not None:
                row.torch.append(torch(row.calls) / row.calls)
            if timed and gpu.clock == "timestamps":
                row.gpu.append(gpu(row.calls) / row.calls)
            record, batch = self._record(call, inside)
            row.record.append(record / inside)
            row.batch.append(batch / inside)
        self.rows.append(row)

    def _calls(self, loop: Sample) -> int:
        """The number of calls in a loop; also warms the device up."""
        ends, n = time.perf_counter() + self.effort.warm, 1
        while True:
            spent = loop(n)
            wanted = math.ceil(n * self.effort.loop / spent)
            if time.perf_counter() >= ends and wanted <= 2 * n:
                return min(wanted, MOST)
            n = max(min(wanted, 8 * n, MOST), 1)
            if n == MOST and time.perf_counter() >= ends:
                return n

    def _record(self, call: Callable[[], object], n: int) -> tuple[float, float]:
        """Host seconds of n calls inside a batch, without and with the batch's submit."""
        self.dev.sync()
        with self.dev.batch():
            started = time.perf_counter()
            for _ in range(n):
                call()
            recorded = time.perf_counter()
        ended = time.perf_counter()
        self.dev.sync()
        return recorded - started, ended - started

    def _alternate(self, name: str, wall: Any, raw: Any, torch: Any) -> None:
        """A row for functions that wait for the device in every call."""

        def loop(call: Callable[[], object], n: int) -> float:
            started = time.perf_counter()
            for _ in range(n):
                call()
            return time.perf_counter() - started

        row = Row(name, skipped=self.no_torch)
        row.calls = self._calls(lambda n: loop(wall, n))
        for _ in range(self.effort.rounds):
            for times, call in ((row.wall, wall), (row.raw, raw), (row.torch, torch)):
                if call is not None:
                    times.append(loop(call, row.calls) / row.calls)
        self.rows.append(row)

    def arrays(self, name: str, shape: tuple[int, ...]) -> None:
        """A row: a call with numpy arrays, beside an upload, a call and a read."""
        x = np.random.default_rng(0).random(shape, np.float32)
        check_softmax(x, pk.softmax(x))
        dev = pk.default_device()
        dst = dev.empty(shape)

        def parts() -> Any:
            pk.kernels.softmax(dev.tensor(x), dst)
            return dst.numpy()

        def torch() -> Any:
            return self.torch.softmax(self.torch.from_numpy(x).cuda(), -1).cpu().numpy()

        other = torch if self.torch else None
        self._alternate(f"numpy in and out {name}", lambda: pk.softmax(x), parts, other)

    def read(self, name: str, nbytes: int) -> None:
        """A row: a read into a new array, and a read into an existing array."""
        t = self.dev.rand((nbytes // 4,), seed=0)
        want, hand = t.numpy(), RawRead(self.dev, t)
        room = np.empty_like(want)
        if not np.array_equal(hand(room), want):
            raise CheckFailed(f"[read {name}] the path by hand reads something else")
        new = there = None
        if self.torch:
            given = self.torch.from_numpy(want).cuda()
            new, there = given.cpu, partial(self.torch.from_numpy(room).copy_, given)
        self._alternate(f"read {name}, new array", t.numpy, hand, new)
        if "out" in inspect.signature(t.numpy).parameters:
            ours: Any = t.numpy
            self._alternate(
                f"read {name}, in place", partial(ours, out=room), partial(hand, room), there
            )

    def write(self, name: str, nbytes: int) -> None:
        """A row: a write and a sync, beside a copy into memory that is mapped already."""
        t, hand = self.dev.empty((nbytes // 4,)), RawWrite(self.dev, nbytes)
        x = np.random.default_rng(0).random((nbytes // 4,), np.float32)

        def wall() -> None:
            t.write(x)
            self.dev.sync()

        def copy() -> None:
            target.copy_(source)
            self.torch.cuda.synchronize()

        if self.torch:
            source, target = self.torch.from_numpy(x), self.torch.empty(x.shape, device="cuda")
        try:
            torch = copy if self.torch else None
            self._alternate(f"write {name}", wall, partial(hand, x), torch)
        finally:
            hand.close()
        if not np.array_equal(t.numpy(), x):
            raise CheckFailed(f"[write {name}] the tensor holds something else")

    def sync(self) -> None:
        """A row: a sync without pending work."""
        torch = self.torch.cuda.synchronize if self.torch else None
        self._alternate("sync", self.dev.sync, waiter(self.dev), torch)

    def chain(self) -> None:
        """Rows: a decoding step with its read, as calls and captured, beside the raw loop without
        the read."""
        dev = self.dev
        chain = Chain(dev, SMALL if self.small else LARGE)
        want = chain.check()
        ways: dict[str, Callable[[], object]] = {"chain": chain}
        capture = getattr(dev, "capture", None)
        if capture is not None:
            with capture() as program:
                chain()
            ways["chain, captured"] = program
        launch, step = chain.torch(self.torch) if self.torch else (None, None)
        for name, way in ways.items():
            chain.same(want, way, name)
            torch = cuda_loop(self.torch, launch) if launch else None
            self._measure(Row(name, skipped=self.no_torch), way, torch, chain.result)

            def read(way: Callable[[], object] = way) -> Any:
                way()
                return chain.result.numpy()

            before = dev.submits
            read()
            submits = dev.submits - before
            self._alternate(f"{name}, read at the end", read, None, step)
            self.rows[-1].submits = submits


# -- words ----------------------------------------------------------------------------------------

HEAD = ("us", "GPU", "raw", "wall", "wall/max", "torch", "record", "+submit", "calls", "submits")


def table(bench: Bench) -> Iterator[str]:
    """The rows as a short table for people."""
    width = max(len(r.name) for r in bench.rows) if bench.rows else 0
    yield f"{HEAD[0]:<{width}}" + "".join(f"{h:>10}" for h in HEAD[1:])
    for r in bench.rows:
        times = [_us(r.gpu), _us(r.raw), _us(r.wall), f"{r.ratio:.2f}" if r.raw else "-"]
        times += [_us(r.torch), _us(r.record), _us(r.batch), f"{r.calls}", f"{r.submits or '-'}"]
        yield f"{r.name:<{width}}" + "".join(f"{t:>10}" for t in times)
    reasons = {r.skipped for r in bench.rows if r.skipped}
    yield from (f"torch: {why}" for why in sorted(reasons))
    by_name = {r.name: r for r in bench.rows}
    one, two = (by_name.get(n) for n in ("softmax (8, 128)", "pk.softmax (8, 128)"))
    if one and two:
        yield f"pk.softmax takes {median(two.wall) / median(one.wall):.2f} times layer one"
    facts = bench.facts
    if "first calls" in facts:
        parts = dict(facts["first calls"])
        shape = parts.pop("shape")
        told = ", ".join(f"{k} {t * 1e3:.1f}" for k, t in parts.items())
        yield f"first call of a process, ms: {told}; of a shape: {shape * 1e6:.0f} us"
    if "threads" in facts:
        one_us, eight_us = (facts["threads"][k] * 1e6 for k in ("1", "8"))
        yield f"a call from one thread {one_us:.1f} us, from eight {eight_us:.1f} us"
    if "memory" in facts:
        m = facts["memory"]
        yield (
            f"after {m['calls']:,} calls: resident {m['resident'] / 2**20:.1f} MiB "
            f"({(m['resident'] - m['resident before']) / 2**20:+.1f} since each shape's "
            f"first), current {m['current']:,} B, pooled {m['pooled']:,} B, "
            f"{m['live_buffers'] + m['pooled_buffers']} buffers, {m['misses']} made"
        )


def _us(times: Sequence[float]) -> str:
    return f"{median(times) * 1e6:.1f}" if times else "-"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.latency")
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--adapter", help="a part of its name")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains it")
    parser.add_argument("--small", action="store_true", help="for a software driver")
    parser.add_argument("--functions", action="store_true", help="what functions cost the host")
    parser.add_argument("--rounds", type=int, default=prices.ROUNDS, help="of --functions")
    parser.add_argument("--save", type=Path, metavar="F.json", help="all readings")
    args = parser.parse_args()
    dev = pk.Device(args.adapter, engine=args.engine)
    if args.functions:
        print(f"{dev!r}")
        print("\n".join(prices.table([*prices.prices(dev, args.only, args.rounds)])))
        return
    bench = Bench(dev, args.small, args.only)
    bench.run()
    found = meta([dev], "python -m bench.latency " + " ".join(sys.argv[1:]))
    if args.save:
        rows = [asdict(r) | {"ratio": r.ratio} for r in bench.rows]
        text = json.dumps({"meta": found, "rows": rows, "facts": bench.facts}, indent=1)
        args.save.parent.mkdir(parents=True, exist_ok=True)
        args.save.write_text(text + "\n", encoding="utf-8")
    cut = ", sizes cut" if args.small else ""
    print(f"{dev!r}, driver {found['driver']}{cut}")
    print("\n".join(table(bench)))


if __name__ == "__main__":
    main()
