"""Measurements of user code: a function that is checked and timed as the kernels are."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np

from pykernels import kernels
from pykernels.device import Device, Tensor
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, PyKernelsError
from pykernels.steps import touched

from .case import TWICE, CheckFailed, Loaded, kernel_of
from .ceilings import Ceilings, ceilings
from .check import Verdict, asks_for, compared, differing, verdict
from .clock import Calls, Effort, HostSample
from .operands import view_of
from .program import Program
from .report import Result
from .run import Runner

__all__ = ["Measurement", "OwnCase", "Shader", "Suite", "measure"]

Array = np.ndarray[Any, Any]
Make = Callable[[Device], tuple[Any, ...]]
Made = tuple[Callable[..., object], tuple[Any, ...]]
ULPS = 16  # allowed error of floats, in ULP of the largest output
OWN_SETS = 256  # most sets of tensors, because each tensor is allocated separately
_ceilings: WeakKeyDictionary[Device, Ceilings] = WeakKeyDictionary()


class Shader:
    """A WGSL text of your own to measure. Its entry point is `main`. Bindings 0, 1, ... of group 0
    are the tensors of the call in order, and the last of them is the output.

    Args:
        code: WGSL.
        groups: the number of workgroups of a dispatch, along x.
    """

    def __init__(self, code: str, groups: int) -> None:
        self.code, self.groups = code, groups

    def __call__(self, *tensors: Tensor) -> None:
        Program(tensors[-1].device, self.code, [tensors], self.groups)(1)


@dataclass(frozen=True)
class OwnCase:
    """A case of a `Suite`, in the form of a `Case` for the `Runner`."""

    kernel: str  # the suite's name
    id: str
    make: Callable[[Device], Made]
    check: Callable[..., Any] | Array | None = None
    rtol: float | None = None
    atol: float | None = None
    bytes: int | None = None
    operations: int | None = None
    name = origin = ""
    note, forced = "", None

    def load(self, dev: Device, rotate: int, apart: int) -> OwnLoaded:
        return OwnLoaded(dev, self, rotate, apart)


class OwnLoaded(Loaded):
    """The function on a device, and the sets of its tensors that calls use in turn."""

    def __init__(self, dev: Device, case: OwnCase, rotate: int, apart: int) -> None:
        self.dev, self.own, self.case, self._turn = dev, case, cast(Any, case), 0
        self._between = [dev.empty(apart, "uint8")] if apart else []
        self.function, given = case.make(dev)
        footprint = sum(t.nbytes for t in given if isinstance(t, Tensor))
        count = 1
        if rotate and footprint:
            count = min(max(-(-rotate // footprint), 2 if footprint <= TWICE else 1), OWN_SETS)
        sets = [given, *(tuple(map(_copy, given)) for _ in range(count - 1))]
        self.sets: list[Any] = sets
        self._footprint = footprint
        kernel = getattr(self.function, "__name__", "")
        known = kernel in kernels.__all__ and getattr(kernels, kernel) is self.function
        self.kernel = kernel if known else ""
        self.result: object = None

    def __call__(self) -> None:
        self.result = self.function(*self.sets[self._turn])
        self._turn = (self._turn + 1) % len(self.sets)

    def _once(self) -> None:
        self.result = self.function(*self.sets[0])

    @property
    def rotated(self) -> int:
        return self._footprint * len(self.sets)

    def timed(self) -> Calls:
        return self._timed

    @cached_property
    def _timed(self) -> Calls:
        if isinstance(self.function, Shader):
            made = Program(self.dev, self.function.code, self.sets, self.function.groups)
            return Calls(made, made.clock, made.loop)
        with self.dev.profile() as p:
            self._once()
        if not p.records:  # only the host's clock can time work that bypasses pykernels
            loop = HostSample(self.dev, self)
            return Calls(loop, "wall", loop)
        return super().timed()

    def _work(self) -> tuple[int, int]:
        self._once()
        given = [t for t in self.sets[0] if isinstance(t, Tensor)]
        views = [view_of(t) for t in {id(t): t for t in (*given, *self._outputs())}.values()]
        nbytes, operations = touched(*views), 0
        if self.kernel:
            kernel = kernel_of(self.kernel)
            named = self._named(self.sets[0])
            each = [view_of(named.pop(a.name, None)) for a in kernel.args]
            known = inspect.signature(kernel.operations).parameters
            options = {k: v for k, v in named.items() if k in known}
            nbytes = kernel.nbytes(*each, **options)
            operations = kernel.operations(*each, **options)
        own = self.own
        return (
            nbytes if own.bytes is None else own.bytes,
            operations if own.operations is None else own.operations,
        )

    @property
    def writes_only(self) -> bool:
        given = [t for t in self.sets[0] if isinstance(t, Tensor)]
        return len(given) == 1 and self._outputs()[0] is given[0]

    def _outputs(self) -> list[Tensor]:
        """The result of the last call; for a function that returns nothing, its last tensor."""
        found = self.result if isinstance(self.result, (tuple, list)) else (self.result,)
        outputs = [t for t in found if isinstance(t, Tensor)]
        given = [t for t in self.sets[0] if isinstance(t, Tensor)]
        return outputs or given[-1:]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._outputs()[0].shape

    @property
    def dtype(self) -> str:
        return DTYPES[self._outputs()[0].dtype].short

    def check(self, call: Callable[[], object] | None = None) -> Verdict:
        """Call once and compare with the expected output; CheckFailed if an element is wrong."""
        own, given = self.own, self.sets[0]
        before = [t.numpy() if isinstance(t, Tensor) else t for t in given]
        self._once()
        outputs = self._outputs()
        if not outputs:
            raise ArgumentError(
                "[bench] the function must return a Tensor, or write its last argument, but does "
                "neither"
            )
        got = [t.numpy() for t in outputs]
        written = any(outputs[-1] is t for t in given)
        inputs = before[:-1] if written else before
        if own.check is None:
            found = self._by_reference(before, got)
        else:
            want = own.check(*inputs) if callable(own.check) else own.check
            wants = want if isinstance(want, tuple) else (want,)
            if len(wants) != len(got):
                raise ArgumentError(
                    f"[bench] check must give as many arrays as there are outputs, {len(got)}, but "
                    f"gives {len(wants)}"
                )
            found = Verdict(0.0, 0.0, 0, 0)
            for w, g in zip(wants, got, strict=True):
                found = found.joined(_compared(np.asarray(w), g, own.rtol, own.atol))
        if found.wrong:
            raise CheckFailed(f"[bench] {own.kernel} {own.id}: {found}")
        return found

    def _named(self, given: Sequence[Any]) -> dict[str, Any]:
        """The arguments of a kernel, by name."""
        return dict(inspect.signature(self.function).bind(*given).arguments)

    def _by_reference(self, before: Sequence[Any], got: list[Array]) -> Verdict:
        """Compare a kernel of the package with its reference, within the kernel's own bound."""
        if not self.kernel:
            raise ArgumentError(
                "[bench] check must be a function of the input arrays, or an array, because "
                f"{self.own.id} is no kernel of pykernels, but is None"
            )
        roles = {a.name: a.role for a in kernel_of(self.kernel).args}
        named = self._named(before)
        arrays = {
            n: a for n, a in named.items()
            if n in roles and (roles[n] == "in" or asks_for(self.kernel, n))
        }  # fmt: skip
        return verdict(self.kernel, arrays, {n: v for n, v in named.items() if n not in roles}, got)


def _copy(value: Any) -> Any:
    """A copy of a tensor in other memory, with the axes in the same order but without gaps."""
    if not isinstance(value, Tensor):
        return value
    order = sorted(range(value.ndim), key=lambda a: -abs(value.strides[a]))
    base = value.device.empty([value.shape[a] for a in order], value.dtype)
    found = base.transpose(*(order.index(a) for a in range(value.ndim))) if order else base
    kernels.cpy(value, found)
    return found


def _compared(want: Array, got: Array, rtol: float | None, atol: float | None) -> Verdict:
    """Compare within rtol of each element plus atol. If neither is given, floats are compared
    within ULPS of the largest element, and other dtypes bit for bit."""
    if want.shape != got.shape:
        raise ArgumentError(f"[bench] check must have shape {got.shape} but has {want.shape}")
    if got.dtype.kind not in "fV":
        wrong = differing(want.astype(got.dtype), got)
        return Verdict(float("inf") if wrong else 0.0, float(wrong), wrong, got.size)
    exact = want.astype(np.float64)
    size = np.where(np.isfinite(exact), np.abs(exact), 0.0)
    if rtol is None and atol is None:
        bound = np.full(got.shape, ULPS * float(np.finfo(got.dtype).eps) * size.max(initial=0.0))
    else:
        bound = (rtol or 0.0) * size + (atol or 0.0)
    return compared(exact, got.astype(np.float32), bound)


@dataclass(frozen=True)
class Measurement:
    """The result of `measure`. All times are for one call; an unknown time is None."""

    result: Result
    device: Device

    @property
    def gpu_us(self) -> float | None:
        """Microseconds by the device's clock."""
        return self.result.timing.gpu * 1e6 or None

    @property
    def call_us(self) -> float | None:
        """Microseconds by the host's clock, from a loop of calls with one sync at its end."""
        return self.result.timing.per_call * 1e6 or None

    @property
    def noise(self) -> float:
        """The expected difference of a repetition, relative to the time: the device's time if it is
        known and can be trusted, else the host's."""
        return self.result.noise

    @property
    def error(self) -> float:
        """The largest difference between the output and `check`."""
        return self.result.check.error

    @property
    def share(self) -> float:
        """Fraction of the device's roofline reached. The first use measures the roofline, which
        takes seconds."""
        if self.device not in _ceilings:
            _ceilings[self.device], _ = ceilings(self.device, Effort.of(self.device).once())
        return self.result.limit_by(_ceilings[self.device]) / self.result.seconds

    def __str__(self) -> str:
        times = {"GPU": self.gpu_us, "a call": self.call_us}
        told = ", ".join(f"{k} {v:.4g} us" for k, v in times.items() if v is not None)
        return f"{told} (± {self.noise:.1%}), {self.result.check}"


def measure(
    fn: Callable[..., object], *args: Any, check: Callable[..., Any] | Array | None = None,
    rtol: float | None = None, atol: float | None = None, bytes: int | None = None,
    operations: int | None = None, effort: Effort | None = None,
) -> Measurement:  # fmt: skip
    """Measure the time of `fn(*args)`, after checking its result. `fn` is a kernel, a function of
    layer two, a function that runs a captured program, or a `Shader`.

    Calls use several copies of the tensors in turn, so that no cache holds them.

    Args:
        fn: a function that returns its outputs as Tensors, or None if it writes the last Tensor of
            `args`.
        args: at least one Tensor, and the other arguments of the function.
        check: the expected output: an array, or a function of the inputs as numpy arrays (a tuple
            for several outputs). Without it, kernels of `pk.kernels` are checked by their
            reference.
        rtol, atol: the allowed error, as a share of each element and as an absolute number. If both
            are missing, floats may differ by 16 ULP of the largest element, and other dtypes not at
            all.
        bytes, operations: the work of a call. The default for a kernel is the kernel's own numbers;
            for any other function it is the bytes of all tensors, and no operations.
        effort: how long to measure.

    Raises:
        CheckFailed: an output is wrong; no time is measured.
        ArgumentError: no Tensor is among args, or `check` is missing and `fn` has no reference.
    """
    devices = [a.device for a in args if isinstance(a, Tensor)]
    if not devices:
        raise ArgumentError("[bench] args must have a Tensor but have none")
    dev, name = devices[0], getattr(fn, "__name__", type(fn).__name__)
    case = OwnCase("measure", name, lambda dev: (fn, args), check, rtol, atol, bytes, operations)
    runner = Runner([dev], effort=effort, say=lambda line: None)
    (result,) = runner.case(dev, case, {})
    return Measurement(result, dev)


class Suite:
    """Your own cases, for `pykernels bench --module FILE`.

    Args:
        name: the name that tables and files show instead of a kernel's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._cases: list[OwnCase] = []

    def case(
        self, *, check: Callable[..., Any] | Array | None = None, rtol: float | None = None,
        atol: float | None = None, bytes: int | None = None, operations: int | None = None,
    ) -> Callable[[Make], Make]:  # fmt: skip
        """A decorator for a function that gets a device and returns (fn, *args) for `measure`. The
        case has the function's name. The arguments are the options of `measure`."""

        def add(make: Make) -> Make:
            def made(dev: Device) -> Made:
                try:
                    fn, *args = make(dev)
                except PyKernelsError:
                    raise
                except Exception as e:  # the other cases still run
                    raise ArgumentError(
                        f"[bench] {self.name} {make.__name__} cannot be made: "
                        f"{type(e).__name__}: {e}"
                    ) from e
                return fn, tuple(args)

            self._cases.append(
                OwnCase(self.name, make.__name__, made, check, rtol, atol, bytes, operations)
            )
            return make

        return add

    def __iter__(self) -> Iterator[OwnCase]:
        return iter(self._cases)


def suites(namespace: dict[str, Any]) -> list[OwnCase]:
    """The cases of all suites that a module has as global variables."""
    found = {id(v): v for v in namespace.values() if isinstance(v, Suite)}
    return [*itertools.chain.from_iterable(found.values())]
