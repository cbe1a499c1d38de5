"""One benchmark case: makes the tensors of a call on a device, uses several sets of them in turn,
and checks the output."""

from __future__ import annotations

import importlib
import inspect
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, cast

from pykernels import kernels
from pykernels.device import Device, Tensor
from pykernels.dtypes import DTYPES
from pykernels.errors import OutOfMemoryError, PyKernelsError
from pykernels.forcing import force
from pykernels.steps import Kernel, Scratch, touched
from pykernels.tensors.layout import View

from .check import Verdict, asks_for, compared, verdict
from .clock import Calls, GpuSample, HostSample, Sample
from .operands import Array, Operand, arena_of, at_set, poison, span_of, view_of

__all__ = [
    "Array",
    "Case",
    "CheckFailed",
    "Counts",
    "Function",
    "Loadable",
    "Loaded",
    "Operand",
    "Part",
    "kernel_of",
    "last_cache",
    "load",
]

Part = Callable[[dict[str, Any]], dict[str, Any]]

WHOLE = 1 << 19  # outputs of up to this many elements are checked completely
MOST_SETS = 4096
# if calls use sets in turn and a set has up to this many bytes, there are at least two sets
TWICE = 1 << 30
UNKNOWN_CACHE = 64 << 20  # assumed bytes of the last cache if the system does not report its size


class CheckFailed(PyKernelsError):
    """The output of a case is wrong; the case then has no time."""


@dataclass(frozen=True)
class Function:
    """A function that a case measures instead of a kernel of the package.

    call: takes the tensors of the case by name.
    meaning, budget: functions that take the arrays by name, and `shape`, the shape of the output.
        They return the expected output, and the error that f32 may have.
    operations: the number of operations of one call.
    """

    call: Callable[..., object]
    meaning: Callable[..., Array]
    budget: Callable[..., Array]
    operations: int


@dataclass(frozen=True)
class Case:
    """A call of one kernel.

    tensors: the arguments of `pykernels.kernels.<kernel>` by name, the output last.
    shape: the size of the problem in its usual form (rows x cols; n x m x k).
    note: what is special about the case ("transposed"); it is a part of the case's name.
    name, origin: the name and the source of the shape, if there are any.
    part: a function for checking a large output. From the tensors of the call it makes the tensors
        of a small problem of the same kind, whose output is a view of the whole output.
    prepare: a function that is called once with each set of tensors, to compute inputs that depend
        on other inputs.
    used: if the device uses only a part of a tensor, the shape that counts as work.
    function: a function that is called in place of the kernel; the kernel's name is then the name
        of the function.
    forced: the choice that the plan of the kernel must take.
    """

    kernel: str
    tensors: Mapping[str, Operand]
    args: Mapping[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    note: str = ""
    name: str = ""
    origin: str = ""
    part: Part | None = None
    prepare: Callable[[dict[str, Any]], None] | None = None
    used: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    function: Function | None = None
    forced: Any = None

    def load(self, dev: Device, rotate: int, apart: int) -> Loaded:
        return load(dev, self, rotate=rotate, apart=apart)

    @property
    def dtype(self) -> str:
        """The dtypes of inputs and output, "f16>f32" if they differ."""
        short = [DTYPES[o.dtype].short for o in self.tensors.values()]
        inputs = list(dict.fromkeys(short[:-1])) or short
        text = "x".join(inputs)
        return text if set(short) == {text} else f"{text}>{short[-1]}"

    @property
    def id(self) -> str:
        size = "x".join(map(str, self.shape or self.output.shape))
        return "-".join(filter(None, [self.dtype, size, self.note.replace(" ", "_")]))

    def labelled(self, **changes: Any) -> Case:
        """A copy of the case with a name, an origin or a note."""
        return replace(self, **changes)

    @property
    def output(self) -> Operand:
        return list(self.tensors.values())[-1]

    @property
    def footprint(self) -> int:
        """Bytes that one set of tensors takes."""
        return sum(span_of(o) for o in self.tensors.values())


@dataclass(frozen=True)
class Counts:
    """The counts of one call: its work, its dispatches, the bytes of its bindings, its texts."""

    nbytes: int
    operations: int
    dispatches: int
    bound: int  # bytes that all storage bindings cover
    variant: str  # the names of the texts that ran


def kernel_of(name: str) -> Kernel:
    """The Kernel that a wrapper calls."""
    module = importlib.import_module(getattr(kernels, name).__module__)
    return cast(Kernel, getattr(module, name.upper(), module.KERNEL))


def _parameters(call: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(call).parameters


class Loaded:
    """A case on a device: `sets` of tensors that are used in turn."""

    def __init__(self, dev: Device, case: Case, sets: int, seed: int, apart: int) -> None:
        self.dev, self.case = dev, case
        function = case.function
        self.call = function.call if function else getattr(kernels, case.kernel)
        names = list(case.tensors)
        arenas, self._between = {}, []
        for i, (n, o) in enumerate(case.tensors.items()):
            if apart:  # unused memory, so that the tensors lie at other places
                self._between.append(dev.empty((2 * i + 1) * apart, "uint8"))
            arenas[n] = arena_of(dev, o, sets, seed + i)
        self.sets = [{n: at_set(arenas[n], case.tensors[n], i) for n in names} for i in range(sets)]
        self.outputs, self.in_place = names[-1:], list[str]()
        if function is None:
            args = {a.name: a for a in kernel_of(case.kernel).args}
            self.outputs = [n for n in names if args[n].role == "out"]
            self.in_place = [n for n in names if args[n].in_place]
        if case.prepare is not None:
            for tensors in self.sets:
                case.prepare(tensors)
        self._turn = 0

    def __call__(self) -> None:
        """One call, on the next set."""
        self.call(**self.sets[self._turn], **self.case.args)
        self._turn = (self._turn + 1) % len(self.sets)

    @property
    def rotated(self) -> int:
        """The number of bytes that one call on each set touches."""
        return self.case.footprint * len(self.sets)

    @property
    def state(self) -> str:
        """How much of the tensors may be in caches. "cold": calls use two or more sets in turn,
        which together have twice the bytes of the last cache. "hot": there is one set. "warm":
        anything between."""
        if len(self.sets) < 2:
            return "hot"
        return "cold" if self.rotated >= 2 * last_cache(self.dev) else "warm"

    def views(self) -> list[View | None]:
        """The views of the first set, as a plan gets them."""
        if self.case.function is not None:
            return [view_of(t) for t in self.sets[0].values()]
        return [view_of(self.sets[0].get(a.name)) for a in kernel_of(self.case.kernel).args]

    def _once(self) -> None:
        """One call, on the first set."""
        self.call(**self.sets[0], **self.case.args)

    def timed(self) -> Calls:
        """The calls of the case, to be timed by the device's clock, and in a loop by the host's."""
        gpu, host = GpuSample(self.dev, self), HostSample(self.dev, self)
        if self.case.forced is None:
            return Calls(gpu, gpu.clock, host)
        return Calls(self._under(gpu), gpu.clock, self._under(host))

    def _under(self, sample: Sample) -> Sample:
        """A sample whose calls run with the forced choice."""

        def forced(n: int) -> float:
            with self._forced():
                return sample(n)

        return forced

    def _forced(self) -> AbstractContextManager[None]:
        choice = getattr(self.case, "forced", None)
        return nullcontext() if choice is None else force(self.dev, choice)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.case.shape or self.case.output.shape

    @property
    def dtype(self) -> str:
        return self.case.dtype

    def count(self) -> Counts:
        """Run one call and count."""
        with self._forced(), self.dev.profile() as p:
            self._once()
        labels = (r.label.partition(" mode=")[0] for r in p.records)
        return Counts(
            *self._work(),
            len(p.records),
            sum(r.nbytes for r in p.records),
            " + ".join(dict.fromkeys(labels)),
        )

    def _work(self) -> tuple[int, int]:
        """The number of bytes and of operations of a call."""
        if self.case.function is not None:
            return touched(*self.views()), self.case.function.operations
        kernel = kernel_of(self.case.kernel)
        views = [
            v.with_layout(self.case.used.get(a.name, v.shape), v.strides) if v else None
            for a, v in zip(kernel.args, self.views(), strict=True)
        ]
        names = {*_parameters(kernel.operations)} - {a.name for a in kernel.args}
        args = {k: v for k, v in self.case.args.items() if k in names}
        return kernel.nbytes(*views, **args), kernel.operations(*views, **args)

    def parts(self, calls: int = 5) -> tuple[tuple[str, float], ...]:
        """Each dispatch of a call: its text, and the median of its GPU time over some calls."""
        with self._forced(), self.dev.profile() as p:
            for _ in range(calls):
                self()
        size = len(p.records) // calls
        each = [p.records[i::size] for i in range(size)]
        return tuple(
            (r[0].label.partition(" mode=")[0], statistics.median(x.gpu for x in r)) for r in each
        )

    def bodies(self) -> tuple[str, ...]:
        """The text of each dispatch of a call."""
        with self._forced(), self.dev.profile() as p:
            self()
        return tuple(r.label.partition(" mode=")[0] for r in p.records)

    @property
    def writes_only(self) -> bool:
        return len(self.sets[0]) == 1

    def check(self, call: Callable[[], object] | None = None) -> Verdict:
        """Fill the output of the first set with poison (unless it is updated in place), call the
        kernel (or `call`, which writes to the same output) once, and compare with the reference.
        Raises CheckFailed."""
        tensors, outputs = self.sets[0], self.outputs
        for name in outputs:
            if name not in self.in_place:
                poison(tensors[name])
        parts = list(self._parts(tensors))
        made = self.case.function
        before = [n for n in outputs if made is None and asks_for(self.case.kernel, n)]
        given = [n for n in tensors if n not in outputs or n in before]
        hosts = [{n: p[n].numpy() for n in given} for p in parts]
        if call is None:
            with self._forced():
                self.call(**tensors, **self.case.args)
        else:
            call()
        # If the plan runs Winograd's transforms, forced or chosen, the bound is the bound of calls
        # that ask for them.
        transformed = self.case.kernel == "conv2d" and any("winograd" in b for b in self.bodies())
        found = Verdict(0.0, 0.0, 0, 0)
        for part, host in zip(parts, hosts, strict=True):
            got = [part[n].numpy() for n in outputs]
            if made is not None:
                bound = made.budget(**host, shape=got[0].shape)
                one = compared(made.meaning(**host, shape=got[0].shape), got[0], bound)
            else:
                args = dict(self.case.args)
                if transformed:
                    args["precision"] = "fast"
                one = verdict(self.case.kernel, host, args, got, self._rounded())
            found = found.joined(one)
        if found.wrong:
            raise CheckFailed(f"[{self.case.kernel}] {self.case.id}: {found}")
        return found

    def _rounded(self) -> bool:
        """True if the case is attention, a gradient of attention, or a product with quantised
        weights, and runs on matrix units."""
        if self.case.kernel == "mul_mat_quant":
            return any("gemm_mma_quant" in name for name in self.bodies())
        attention = self.case.kernel in ("flash_attn", "flash_attn_backward")
        if not attention or self.dev._context.caps.matrix is None:
            return False
        forward, (tensors, *_) = kernel_of("flash_attn"), self.sets
        views = {name: view_of(t) for name, t in tensors.items()}
        views.setdefault("dst", views.get("o"))
        known = _parameters(kernels.flash_attn)
        options = [self.case.args.get(o, known[o].default) for o in forward.options]
        given = [views.get(a.name) for a in forward.args]
        steps = forward.plan(self.dev._context.caps, Scratch(), *given, *options)
        # these bodies round the weights between the two products to halves
        halves = ("attention_softmax", "f16")
        return any(
            s.body.name == "attention_mma" or (s.body.name, *s.axes[:1]) == halves for s in steps
        )

    def _parts(self, tensors: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """The whole problem, or small problems inside it, whose outputs are parts of the output."""
        dst = tensors[self.outputs[-1]]
        if dst.size <= WHOLE and self.case.part is None:
            yield tensors
        elif self.case.part is not None:
            yield self.case.part(dict(tensors))
        elif all(t.shape == dst.shape for t in tensors.values()) and len(dst) > 1:
            n = len(dst)
            step = max(1, min(n // 4, WHOLE // 4 * n // dst.size))
            for first in sorted({0, n // 3, 2 * n // 3, n - step}):
                yield {k: t[first : first + step] for k, t in tensors.items()}
        else:
            yield tensors


class Loadable(Protocol):
    """A case of any kind, which can be loaded."""

    @property
    def kernel(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> str: ...
    def load(self, dev: Device, rotate: int, apart: int) -> Loaded: ...


def load(dev: Device, case: Case, *, rotate: int = 0, seed: int = 0, apart: int = 0) -> Loaded:
    """A case on a device, with as many sets of tensors as make up `rotate` bytes. With `apart`, the
    tensors lie at other places in memory, behind gaps whose sizes are multiples of `apart`
    bytes."""
    least = 2 if rotate and case.footprint <= TWICE else 1
    sets = min(max(-(-rotate // case.footprint), least), MOST_SETS)
    most = dev.limits["max-buffer-size"]
    largest = max(span_of(o) for o in case.tensors.values())
    sets = max(min(sets, most // largest), 1)
    while True:
        try:
            return Loaded(dev, case, sets, seed, apart)
        except OutOfMemoryError:
            # Fewer sets must do: the cache of a server may be as large as a driver's buffers.
            if sets == 1:
                raise
            sets //= 2


def last_cache(dev: Device) -> int:
    """The bytes of the last cache; for a software driver, the last cache of the host, if the system
    reports it."""
    units = {"K": 1 << 10, "M": 1 << 20}
    found = []
    if dev.info["type"] == "CPU":
        for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
            text = path.read_text(encoding="ascii").strip()
            if text[-1:] in units and text[:-1].isdecimal():
                found.append(int(text[:-1]) * units[text[-1]])
    return max(found, default=UNKNOWN_CACHE)
