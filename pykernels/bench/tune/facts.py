"""Measures a device: multiprocessors, copies, the cost of a dispatch, and the rates of tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pykernels import kernels
from pykernels.bench.ceilings import _fma
from pykernels.bench.clock import GpuSample
from pykernels.bench.program import Program
from pykernels.device import Device
from pykernels.plans.conv.select import TILES_3X3, ConvChoice
from pykernels.plans.matmul import select_mma
from pykernels.plans.matmul.select import MMA, TILES, GemmChoice

from .meter import EXPECTED, Meter
from .problems import Problem

__all__ = ["Wave", "copy_rate", "dispatch_cost", "probe", "residence", "tile_wave", "units"]

GROUPS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)  # timed numbers of workgroups per multiprocessor
MOST_RESIDENT = 8
MOST_UNITS = 1024
# Bytes; larger sizes are skipped if a dispatch becomes long, or on a software driver.
COPIED = (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 25, 1 << 28)
SLOW_COPIED = 1 << 22
PROBED = (2, 512)  # workgroups of the probe on an unknown device, and on a large one
STEADY = 5e-4  # seconds of a timed product of tiles


class Wave(NamedTuple):
    """The speed of a tile: the operations per second of a full device, the time of a wave with n
    workgroups on each multiprocessor, and the cost of starting a workgroup, expressed as an
    addition to K."""

    rate: float
    partial_wave: tuple[float, ...]
    start_k: int


def probe(dev: Device) -> Program:
    """A program of multiply-adds whose time shows the device's clock. It takes about a millisecond
    on a large device; a smaller device gets only as many workgroups as take a millisecond."""
    groups, most = PROBED
    while True:
        program = _fma(dev, "f32", 8, 4, 64, groups)
        seconds = min(program(1) for _ in range(2))
        if groups >= most or seconds > 1e-3:
            return program
        groups = min(4 * groups, most)


def units(meter: Meter) -> int | None:
    """The number of multiprocessors, found by workgroups that only compute: one workgroup more
    than multiprocessors doubles the time. Returns None if the times have no such steps, as on a
    CPU."""
    dev = meter.dev
    if meter.slow:
        return None
    rounds = 64

    def seconds(groups: int) -> float:
        program = _fma(dev, "f32", 8, 4, rounds, groups)
        program(2)
        return min(program(2) / 2 for _ in range(5))

    while seconds(1) < 1e-4 and rounds < 1 << 14:
        rounds *= 4
    found = meter.kept.get("units", lambda: steps(seconds))
    return int(found) if found else None


def steps(seconds: Callable[[int], float]) -> float | None:
    """The largest number of workgroups that take as long as a single workgroup; None if there is no
    second step of the same length."""
    one, high = seconds(1), 2
    while seconds(high) < 1.6 * one:
        high *= 2
        if high > MOST_UNITS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if seconds(middle) < 1.5 * one:
            low = middle
        else:
            high = middle
    second = seconds(2 * low)
    third = seconds(2 * low + max(low // 8, 1))
    return float(low) if second < 2.5 * one < third else None


def copy_rate(meter: Meter) -> float | None:
    """Bytes per second that cpy reads and writes when it transposes."""

    def measure() -> float:
        rate = 0.0
        for nbytes in COPIED:
            if (rate and 2 * nbytes / rate > EXPECTED) or (meter.slow and nbytes > SLOW_COPIED):
                break
            side = int(math.sqrt(nbytes // 4)) // 64 * 64
            if 4 * side * side > meter.dev.limits["max-storage-buffer-binding-size"]:
                break
            src, dst = (meter.dev.zeros((side, side)) for _ in range(2))
            call = _call(src.permute(1, 0), dst)
            rate = max(rate, 8 * side * side / meter.time(GpuSample(meter.dev, call)))
        return rate

    return meter.kept.get("copy", measure)


def _call(src: Any, dst: Any) -> Callable[[], object]:
    return lambda: kernels.cpy(src, dst)


def dispatch_cost(meter: Meter) -> float | None:
    """Seconds of one more dispatch that depends on the dispatch before it."""

    def measure() -> float:
        t = meter.dev.zeros(64)
        return meter.time(GpuSample(meter.dev, lambda: kernels.add(t, t, t)))

    return meter.kept.get("dispatch", measure)


def residence(times: Sequence[tuple[int, float]]) -> tuple[float, ...]:
    """The times of partial waves, as shares of a full wave: (0, .., 1), with entry n for n
    workgroups at the same time on each multiprocessor. They are fitted to the measured times."""
    known = dict(times)
    best: tuple[float, ...] = (0.0, 1.0)
    least = math.inf
    for resident in range(1, MOST_RESIDENT + 1):
        if resident not in known or 2 * resident > max(known):
            break
        full = known[resident]
        # A partial wave cannot take more time than a full wave, so such a reading is corrected.
        partial = (0.0, *(min(known[n] / full, 1.0) for n in range(1, resident)), 1.0)
        off = [
            abs(math.log(t / ((n // resident + partial[n % resident]) * full)))
            for n, t in known.items() if n > resident
        ]  # fmt: skip
        error = sum(off) / len(off)
        if error < least - 0.01:
            best, least = partial, error
    return tuple(round(p, 2) for p in best)


def tile_wave(meter: Meter, body: str, units: int) -> Wave | None:
    """The speed of a tile, from timed products with several numbers of workgroups and two values of
    K."""
    depth = 512
    one = _tiles(meter, body, units, 1, depth)
    if one is None:
        return None
    while one < STEADY / 8 and depth < 4096:
        depth *= 2
        one = _tiles(meter, body, units, 1, depth) or one
    times = [(n, t) for n in GROUPS if (t := _tiles(meter, body, units, n, depth)) is not None]
    if len(times) < len(GROUPS):
        return None
    rows, cols = _sides(body)
    last, seconds = times[-1]
    short = _tiles(meter, body, units, last, depth // 2)
    start = 48
    if short is not None and short < seconds:  # the time that does not depend on K
        start = round(min(max(depth * (2 * short - seconds) / (2 * (seconds - short)), 8), 256))
    wave = residence(times)
    work = 2 * rows * cols * (depth + start) * last * units
    return Wave(float(f"{work / seconds:.3g}"), wave, start)


def _sides(body: str) -> tuple[int, int]:
    name, _, tile = body.partition("/")
    if name == MMA:
        return select_mma.TILES[tile].BM, select_mma.TILES[tile].BN
    known: Any = TILES_3X3[body] if body in TILES_3X3 else TILES[body]
    return known.BM, known.BN


def _tiles(meter: Meter, body: str, units: int, each: int, depth: int) -> float | None:
    """Seconds of one body with `each` workgroups on every multiprocessor."""
    rows, cols = _sides(body)
    a, b = grid(units * each)
    if body in TILES_3X3:  # images of `cols` pixels give one column of tiles
        choice: Any = ConvChoice(body)
        width = 32
        p = Problem("conv2d", (b, depth // 9 // 8 * 8, cols // width, width, a * rows, 3, 3, 1, 1))
    else:
        choice = GemmChoice(body)
        halves = "float16" if body.startswith(MMA) else "float32"
        p = Problem("mul_mat", (a * rows, b * cols, depth), halves)
    return meter.seconds(p, choice)


def grid(groups: int) -> tuple[int, int]:
    """Two factors, as nearly equal as possible, whose product is `groups` or up to 3 % less."""
    found = [
        (n // a, a) for n in range(groups, groups - groups // 33 - 1, -1)
        for a in range(1, math.isqrt(n) + 1) if n % a == 0
    ]  # fmt: skip
    return min(found, key=lambda f: (f[0] / f[1], -f[0]))
