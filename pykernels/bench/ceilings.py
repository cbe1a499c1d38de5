"""The ceilings of a device: fill, copy, multiply-adds in f32 and f16, and a launch.

Each ceiling is the best of several simple programs, which are warmed up like the cases and checked.
On a software driver the host's caches matter, so shaders measure fill and copy at several sizes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from pykernels import kernels
from pykernels.contract import GRID_MAX
from pykernels.device import Device, Tensor
from pykernels.errors import PyKernelsError

from .case import last_cache
from .clock import Effort, Sample, Timing, Tracker, measure
from .program import GROUP_ID, Program

__all__ = ["Ceilings", "ceilings", "movement", "movement_by_size"]

SIZES = [n << 20 for n in (1, 4, 16, 64, 256)]  # bytes of a call on a software driver
LONG = 0.02  # seconds of a dispatch of multiply-adds on a software driver
# readings at each size; the fastest counts, because other programs only make readings slower
READINGS = 9

TimeOf = Callable[[Sample], Timing]

# An invocation handles several vectors (vec4), which are one workgroup apart; the fastest number of
# vectors depends on the engine.
_FILL = """
@group(0) @binding(0) var<storage, read_write> dst: array<vec4<u32>>;
{group_id}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let i = group_id(w) * {step}u + li;
  {body}
}}
"""
_COPY = "@group(0) @binding(1) var<storage, read> src: array<vec4<u32>>;" + _FILL
_FMA = """
{enable}
@group(0) @binding(0) var<storage, read> given: array<f32>;
@group(0) @binding(1) var<storage, read_write> found: array<f32>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {{
  let a = {a};
  let b = {b};
  let start = given[8];
  {begin}
  for (var i = 0u; i < {rounds}u; i++) {{
    {body}
  }}
  let total = {total};
  found[w.x * 256u + li] = f32(total.x + total.y + total.z + total.w) / {sums}.0;
}}
"""
_TICK = """
@group(0) @binding(0) var<storage, read_write> count: array<u32>;
@compute @workgroup_size(1) fn main() { count[0] += 1u; }
"""


@dataclass(frozen=True)
class Ceilings:
    """Bytes and operations per second, and the seconds of a launch; 0 for something that the device
    cannot do."""

    fill: float
    copy: float
    fma32: float
    fma16: float
    launch_gpu: float  # GPU seconds of a nearly empty dispatch that follows another
    launch_host: float  # the host's seconds for recording and submitting one dispatch
    ways: dict[str, float]  # bytes per second of each way to fill or copy
    # On a software driver, rates by size: "fill cold", "fill hot", "copy cold" and "copy hot" are
    # bytes per second, by the number of bytes of a call; "fma32" is operations per second, by the
    # number of operations of a dispatch.
    sizes: dict[str, dict[int, float]] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Ceilings:
        sizes = record.get("sizes", {})
        numbers = {k: {int(n): rate for n, rate in v.items()} for k, v in sizes.items()}
        return cls(**{**record, "sizes": numbers})

    def limit(
        self, nbytes: int, operations: int, writes_only: bool, state: str = "cold", around: int = 0
    ) -> float:
        """The least seconds of a call: the time of its bytes at the speed of a copy (or fill), or
        the time of its operations at the speed of f32 multiply-adds if that is longer. If there
        are rates by size, a cold call has the rate for its own bytes. Other calls have the rate for
        the bytes of all sets that calls use in turn (`around`)."""
        kind = "fill" if writes_only else "copy"
        rate: float = getattr(self, kind)
        found = self.sizes.get(f"{kind} {'cold' if state == 'cold' else 'hot'}")
        if found:
            rate = _between(found, nbytes if state == "cold" else max(nbytes, around))
        return max(nbytes / rate, operations / self.fma32)


def _between(rates: Mapping[int, float], size: int) -> float:
    """The rate at a size, interpolated between measured rates along the logarithm of the size."""
    known = sorted(rates)
    size = min(max(size, known[0]), known[-1])
    at = [math.log(n) for n in known]
    return float(np.interp(math.log(size), at, [rates[n] for n in known]))


def ceilings(
    dev: Device, effort: Effort, nbytes: int = 1 << 30, caches: Sequence[str] = ("cold",)
) -> tuple[Ceilings, Tracker]:
    """Measure the ceilings on buffers of up to `nbytes`, and make a tracker of the device's clock.
    `caches`: the states of the host's caches to measure on a software driver."""
    slow = dev.info["type"] == "CPU"
    fma32, probe = _best_fma(dev, "f32", slow, partial(measure, effort=effort))
    warm = min(probe(1) for _ in range(5))
    tracker = Tracker(lambda: probe(1), warm)
    time_of = partial(measure, effort=effort, tracker=tracker)
    fma16 = _best_fma(dev, "f16", slow, time_of)[0] if "shader-f16" in dev.features else 0.0
    often = partial(measure, effort=replace(effort, rounds=READINGS, blocks=1), tracker=tracker)
    sizes = movement_by_size(dev, nbytes, often, caches) if slow else {}
    ways = {} if slow else movement(dev, nbytes, time_of)
    tick = time_of(Program(dev, _TICK, [[dev.zeros(1, "uint32")]], 1)).seconds
    if slow:
        ways = {f"{k}, {max(v)} bytes": v[max(v)] for k, v in sizes.items()}
        # The probe is the fastest program and takes `warm` seconds, so fma32 * warm is the number
        # of its operations.
        sizes["fma32"] = {int(fma32 * warm): fma32}
    best = {k: max(v for n, v in ways.items() if n.startswith(k)) for k in ("fill", "copy")}
    host = _launch_host(dev)
    tracker.verdict()
    return Ceilings(best["fill"], best["copy"], fma32, fma16, tick, host, ways, sizes), tracker


def movement(dev: Device, nbytes: int, time_of: TimeOf) -> dict[str, float]:
    """The bytes per second of several ways to fill and to copy."""
    nbytes = min(nbytes, dev.limits["max-storage-buffer-binding-size"]) // 65536 * 65536
    src, dst = dev.empty(nbytes, "uint8"), dev.zeros(nbytes, "uint8")
    kernels.memset(src, 0xAB)
    ways: dict[str, float] = {}
    for vecs in (1, 4):
        ways[f"fill, {vecs} vec4"] = nbytes / time_of(_fill(dev, dst, vecs)).seconds
        _expect(dst, 0x07, "fill")
    for vecs in (1, 4):
        ways[f"copy, {vecs} vec4"] = 2 * nbytes / time_of(_copy(dev, src, dst, vecs)).seconds
        _expect(dst, 0xAB, "copy")
        kernels.memset(dst, 0)
    ways["copy, the driver's"] = 2 * nbytes / time_of(_driver_copy(dev, src, dst)).seconds
    _expect(dst, 0xAB, "driver's copy")
    return ways


def movement_by_size(
    dev: Device, nbytes: int, time_of: TimeOf, caches: Sequence[str]
) -> dict[str, dict[int, float]]:
    """Bytes per second of fill and copy by shaders, for each number of bytes of a call. Cold calls
    use two or more sets of buffers, together larger than the last cache; hot calls use one set."""
    most = dev.limits["max-storage-buffer-binding-size"]
    found: dict[str, dict[int, float]] = {}
    for size in [n for n in SIZES if n <= nbytes] or [nbytes // 65536 * 65536]:
        for kind, each in (("fill", size), ("copy", size // 2)):
            if each > most:
                continue
            rotated = max(2, -(-2 * last_cache(dev) // size))
            # The hot rate is always measured: calls whose sets fit into the caches need it.
            for state in ("cold", "hot") if "cold" in caches else ("hot",):
                count = rotated if state == "cold" else 1
                seconds = _moving(dev, kind, each, count, time_of)
                found.setdefault(f"{kind} {state}", {})[size] = size / seconds
    return found


def _moving(dev: Device, kind: str, each: int, count: int, time_of: TimeOf) -> float:
    """The fastest reading, in seconds, with `count` new sets of buffers of `each` bytes."""
    make, tensors = (_fill_sets, 1) if kind == "fill" else (_copy_sets, 2)
    sets = [[dev.zeros(each, "uint8") for _ in range(tensors)] for _ in range(count)]
    seconds = min(time_of(make(dev, sets, 4)).rounds)
    del sets
    dev.trim()  # otherwise the pool keeps twice the bytes of the cache for each size
    return seconds


def _expect(t: Tensor, byte: int, what: str) -> None:
    if not (t[::4093].numpy() == byte).all():
        raise PyKernelsError(f"[ceilings] the {what} wrote wrong bytes")


def _fill(dev: Device, dst: Tensor, vecs: int) -> Program:
    return _fill_sets(dev, [[dst]], vecs)


def _fill_sets(dev: Device, sets: Sequence[Sequence[Tensor]], vecs: int) -> Program:
    lines = (f"dst[i + {256 * k}u] = vec4<u32>(0x07070707u);" for k in range(vecs))
    code = _FILL.format(group_id=GROUP_ID, step=256 * vecs, body="\n  ".join(lines))
    return Program(dev, code, sets, sets[0][0].nbytes // (4096 * vecs))


def _copy(dev: Device, src: Tensor, dst: Tensor, vecs: int) -> Program:
    return _copy_sets(dev, [[dst, src]], vecs)


def _copy_sets(dev: Device, sets: Sequence[Sequence[Tensor]], vecs: int) -> Program:
    lines = [f"let v{k} = src[i + {256 * k}u];" for k in range(vecs)]
    lines += [f"dst[i + {256 * k}u] = v{k};" for k in range(vecs)]
    code = _COPY.format(group_id=GROUP_ID, step=256 * vecs, body="\n  ".join(lines))
    return Program(dev, code, sets, sets[0][0].nbytes // (4096 * vecs))


def _driver_copy(dev: Device, src: Tensor, dst: Tensor) -> Sample:
    """The driver's copy, by the host's clock: the difference between the times of a long and a
    short chain of copies."""
    raw, nbytes = dev.wgpu_device, dst.nbytes
    a, b = src._block.buffer, dst._block.buffer
    dev.flush()

    def chain(n: int) -> float:
        encoder = raw.create_command_encoder()
        for _ in range(n):
            encoder.copy_buffer_to_buffer(a, 0, b, 0, nbytes)
        started = time.perf_counter()
        raw.queue.submit([encoder.finish()])
        dev.sync()
        return time.perf_counter() - started

    def sample(n: int) -> float:
        short, long = chain(2 * n), chain(12 * n)
        return max(long - short, 0.1 * long) / 10

    return sample


def _best_fma(dev: Device, t: str, slow: bool, time_of: TimeOf) -> tuple[float, Program]:
    """Operations per second, and the fastest program."""
    found: dict[float, Program] = {}
    for sums, steps in ((8, 4),) if slow else ((8, 4), (8, 16), (8, 32)):
        rounds, groups = (4, 64) if slow else (256, 4096)
        program = _fma(dev, t, sums, steps, rounds, groups)
        if slow:
            least = min(program(1) for _ in range(5))
            groups = min(math.ceil(groups * LONG / least * 1.25), GRID_MAX)
            program = _fma(dev, t, sums, steps, rounds, groups)
        done = 2 * 4 * sums * steps * rounds * groups * 256
        found[done / time_of(program).seconds] = program
    return max(found), found[max(found)]


def _fma(dev: Device, t: str, sums: int, steps: int, rounds: int, groups: int) -> Program:
    """A program that repeats x -> b - x: after an even number of steps x has its old value."""
    begin = "\n  ".join(f"var x{k} = vec4<{t}>({t}(start + {k}.0));" for k in range(sums))
    body = "\n    ".join(f"x{k} = fma(x{k}, a, b);" for _ in range(steps) for k in range(sums))
    # On one NVIDIA H200, a splatted operand halves the rate of packed f16 but makes f32 20 %
    # faster.
    splat = t == "f32"
    a, b = (
        f"vec4<{t}>({', '.join(f'{t}(given[{at + (0 if splat else k)}])' for k in range(4))})"
        for at in (0, 4)
    )
    code = _FMA.format(
        a=a, b=b,
        enable="enable f16;" if t == "f16" else "", t=t, begin=begin, rounds=rounds, body=body,
        total=" + ".join(f"x{k}" for k in range(sums)), sums=4 * sums,
    )  # fmt: skip
    given = dev.tensor(np.array([-1.0] * 4 + [1.0] * 4 + [3.0], np.float32))
    found = dev.zeros(groups * 256)
    program = Program(dev, code, [[given, found]], groups)
    program(1)
    want = 3.0 + (sums - 1) / 2
    if not (found.numpy() == want).all():
        raise PyKernelsError(f"[ceilings] the results of {t} multiply-adds are wrong")
    return program


def _launch_host(dev: Device) -> float:
    """Seconds of the host for one launch of a kernel, submits included."""
    t = dev.zeros(64)
    best = float("inf")
    for _ in range(5):
        dev.sync()
        started = time.perf_counter()
        for _ in range(512):
            kernels.fill(t, 1.0)
        dev.flush()
        best = min(best, (time.perf_counter() - started) / 512)
    dev.sync()
    return best
