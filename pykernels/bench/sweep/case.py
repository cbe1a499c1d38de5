"""A call of a sweep as a case of the bench: its tensors, check, times and peers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

import pykernels as pk
from pykernels.bench.case import CheckFailed, Loaded
from pykernels.bench.check import Verdict, compared
from pykernels.bench.clock import Calls, GpuSample, HostSample
from pykernels.bench.operands import Operand, arena_of, at_set
from pykernels.bench.own import OwnLoaded
from pykernels.bench.peers import cuda_loop, cuda_sample, cuda_torch
from pykernels.bench.run import Peer, Skipped
from pykernels.device import Device, Tensor

from .calls import FUNCTIONS, NUMPY, Function
from .grid import Call, calls

__all__ = ["OtherEngine", "SweepCase", "chosen", "peers"]

Array = np.ndarray[Any, Any]
MOST_BYTES, MOST_OPERATIONS = 1 << 26, 4e9  # of the largest call that numpy checks

# The allowed error: a share of each element and of the largest element. The tests of the kernels
# check accuracy; this check only finds a body that computes a different function.
ALLOWED = {"float32": (1e-3, 1e-5), "float16": (1e-2, 1e-3)}


@dataclass(frozen=True)
class SweepCase:
    """A call of a sweep in the form of a `Case` for the `Runner`; `origin` is the family."""

    call: Call
    name = note = ""
    check = rtol = atol = bytes = operations = forced = None

    @property
    def kernel(self) -> str:
        return self.call.function

    @property
    def id(self) -> str:
        return self.call.id

    @property
    def origin(self) -> str:
        return self.call.family

    @property
    def function(self) -> Function:
        return FUNCTIONS[self.call.function]

    @cached_property
    def operands(self) -> list[Operand]:
        return self.function.operands(self.call.dims, self.call.dtype)

    @property
    def footprint(self) -> int:
        """Bytes of the input tensors."""
        return sum(o.nbytes for o in self.operands)

    @property
    def checkable(self) -> bool:
        """True if the call is small enough to be checked by numpy."""
        work = self.function.operations(self.call.dims)
        return self.footprint <= MOST_BYTES and work <= MOST_OPERATIONS

    def make(self, dev: Device) -> tuple[Callable[..., object], tuple[Any, ...]]:
        tensors = (at_set(arena_of(dev, o, 1, i), o, 0) for i, o in enumerate(self.operands))
        return partial(self.function.ours, pk, self.call.dims), tuple(tensors)

    def load(self, dev: Device, rotate: int, apart: int) -> SweepLoaded:
        return SweepLoaded(dev, self, rotate, apart)


class SweepLoaded(OwnLoaded):
    """The call on a device."""

    def __init__(self, dev: Device, case: SweepCase, rotate: int, apart: int) -> None:
        super().__init__(dev, cast(Any, case), rotate, apart)
        self.sweep = case

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sweep.call.dims

    @property
    def dtype(self) -> str:
        return self.sweep.call.id.partition("-")[0]

    def check(self, call: Callable[[], object] | None = None) -> Verdict:
        """Compare with numpy, or with torch if the call is too large for numpy; without torch, no
        element is compared."""
        self._once()
        case, given = self.sweep, self.sets[0]
        if case.checkable:
            arrays = [t.numpy() for t in given]
            doubled = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
            want = case.function.meaning(case.call.dims, *doubled)
        else:
            try:
                torch = cuda_torch()
            except Skipped:
                return Verdict(0.0, 0.0, 0, 0)
            # torch computes in float32 here, because some of its functions add halves in half
            # precision.
            tensors = [t.float() if t.is_floating_point() else t for t in _cuda(torch, given)]
            want = case.function.theirs(torch, case.call.dims, *tensors)
        wants = want if isinstance(want, tuple | list) else (want,)
        found = Verdict(0.0, 0.0, 0, 0)
        # for top_k, only the values are compared
        for w, t in zip(wants, self._outputs(), strict=False):
            found = found.joined(_compared(_host(w), t.numpy()))
        if found.wrong:
            raise CheckFailed(f"[bench] {case.kernel} {case.id}: {found}")
        return found


def _host(value: Any) -> Array:
    found: Array = np.asarray(value.cpu() if hasattr(value, "cpu") else value)
    return found


def _compared(want: Array, got: Array) -> Verdict:
    if want.shape != got.shape:
        raise CheckFailed(f"[bench] the output must have shape {want.shape} but has {got.shape}")
    if got.dtype.kind != "f":
        return compared(want.astype(got.dtype), got, None)
    exact = want.astype(np.float64)
    size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    share, floor = ALLOWED[got.dtype.name]
    return compared(exact, got, share * size + floor * size.max(initial=0.0))


def chosen(family: str, only: str = "", limit: int | None = None) -> list[SweepCase]:
    """The cases of a family, or of all families ("all"), whose names contain `only` and whose
    tensors have at most `limit` bytes."""
    found = [SweepCase(c) for c in calls() if family in ("all", c.family)]
    return [
        c for c in found
        if only in f"{c.kernel} {c.id} {c.origin}" and (limit is None or c.footprint <= limit)
    ]  # fmt: skip


def peers() -> dict[str, dict[str, Peer]]:
    """For each function, its peers by their names."""
    return {
        name: {"torch": _torch} | ({"numpy": _numpy} if name in NUMPY else {}) for name in FUNCTIONS
    }


def _torch(loaded: Loaded) -> Calls:
    """torch's eager calls on CUDA, timed by its events and by the caller's clock."""
    torch, case = cuda_torch(), cast(SweepLoaded, loaded).sweep
    tensors = _cuda(torch, loaded.sets[0])

    def call() -> None:
        case.function.theirs(torch, case.call.dims, *tensors)

    return Calls(cuda_sample(torch, call), "CUDA events", cuda_loop(torch, call))


def _numpy(loaded: Loaded) -> Calls:
    """numpy in the call's dtype, timed by the host's clock."""
    case = cast(SweepLoaded, loaded).sweep
    if not case.checkable:
        raise Skipped("too large for numpy")
    given: Any = loaded.sets[0]
    arrays = [t.numpy() for t in given]

    def sample(n: int) -> float:
        started = time.perf_counter()
        for _ in range(n):
            case.function.meaning(case.call.dims, *arrays)
        return time.perf_counter() - started

    return Calls(sample, "wall")


class OtherEngine:
    """The same call on another engine's device."""

    def __init__(self, dev: Device) -> None:
        self.dev = dev

    def __call__(self, loaded: Loaded) -> Calls:
        other = cast(SweepLoaded, loaded).sweep.load(self.dev, 0, 0)
        other.check()
        sample = GpuSample(self.dev, other)
        return Calls(sample, sample.clock, HostSample(self.dev, other))


def _cuda(torch: Any, given: Any) -> list[Any]:
    tensors: list[Tensor] = list(given)
    found = [torch.from_numpy(np.ascontiguousarray(t.numpy())).cuda() for t in tensors]
    return [t.long() if t.dtype == torch.int32 else t for t in found]
