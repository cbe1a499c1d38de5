"""What plans are made of: descriptions of dispatches, which need no GPU.

A plan turns the views of one call into a list of steps; `launch` runs this list.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from pykernels.tensors.layout import Ints, View, contiguous_strides
from pykernels.wgsl.watch import Watch

from .contract import UNITS, accepted
from .dtypes import DTYPES, DType, DTypeName
from .errors import ShapeError
from .tuning import Tuning

__all__ = [
    "Arg",
    "Body",
    "Bound",
    "Candidate",
    "Caps",
    "Kernel",
    "MatrixUnits",
    "Scratch",
    "Step",
    "axis_steps",
    "cdiv",
    "dtype",
    "forced",
    "seen_keys",
    "seen_pairs",
    "spans",
    "taps",
    "touched",
    "unit_of",
]

Mode = Literal["read", "rw", "merged"]
C = TypeVar("C")


MatrixShape: TypeAlias = tuple[str, str, int, int, int]


@dataclass(frozen=True, slots=True)
class MatrixUnits:
    """The products that a device's matrix units compute, and the dialect of its shader texts.

    `shapes` has (operands, result, M, N, K) for one subgroup, such as ("f16", "f32", 16, 16, 16).
    """

    dialect: str
    shapes: frozenset[MatrixShape]

    @property
    def described(self) -> tuple[str, ...]:
        """The shapes as text for people."""
        return tuple(f"{x} x {x} -> {y} {m}x{n}x{k}" for x, y, m, n, k in sorted(self.shapes))


@dataclass(frozen=True, slots=True)
class Caps:
    """The facts about a device for plans: its features and limits, its speed, and forced
    choices."""

    f16: bool
    subgroups: bool
    alignment: int
    max_invocations: int  # of a workgroup
    max_workgroup_bytes: int
    max_binding: int
    max_groups: int
    tuning: Tuning
    forced: tuple[Any, ...] = ()  # the forced choices, see forcing.py
    matrix: MatrixUnits | None = (
        None  # None if there are no matrix units, or if the device was not opened for them
    )
    built_only: bool = False  # True if no shader texts can be made at run time, as in exports
    # Records each choice and its shape for `pykernels explain`.
    asked: list[tuple[type, tuple[Any, ...]]] | None = field(default=None, compare=False)


class Candidate(NamedTuple):
    """A candidate of a choice: the predicted seconds (None without a model), or the reason why the
    call or the device excludes it."""

    choice: Any
    seconds: float | None = None
    why: str = ""


def forced(caps: Caps, kind: type[C], *shape: object) -> C | None:
    """The forced choice of this kind, if any; `shape` is the shape that the choice depends on."""
    if caps.asked is not None:
        caps.asked.append((kind, shape))
    return next((c for c in caps.forced if isinstance(c, kind)), None)


@dataclass(frozen=True, slots=True)
class Arg:
    """One tensor argument of a kernel: its name, its role, and the rules checked before a plan."""

    name: str
    role: Literal["in", "out"]
    dtypes: tuple[DTypeName, ...]
    same: str = ""  # arguments with the same tag have one dtype
    like: str = ""  # name of an argument that must have the same shape
    broadcast: str = ""  # name of an argument to whose shape this argument repeats
    expand: str = ""  # like `broadcast`, but by numpy's rule, so only axes of size 1 repeat
    axes: str = ""  # one letter for each axis; axes with the same letter have the same size
    optional: bool = False
    readonly: bool = False  # decides control flow, so it is never bound read_write
    alias: str = ""  # for an output, the name of the input whose memory it may share
    in_place: bool = False  # True for an output whose elements are read before they are written
    keeps: bool = False  # True for an output of which a call writes a part and keeps the rest
    skips: bool = False  # True for an output that is not written where an index is out of range
    widened: bool = False  # True if it accepts bfloat16 in place of float32

    @property
    def accepted(self) -> tuple[DTypeName, ...]:
        """The dtypes of tensors that a call may give. Plans and shaders get only the dtypes in
        `dtypes`. If bfloat16 is not among them, the launcher converts it from and to float32."""
        if self.widened:
            return (*self.dtypes, "bfloat16")
        return accepted(self.dtypes)  # type: ignore[return-value]


@dataclass(frozen=True)
class Body:
    """One WGSL body: how its variants are named and its Params are packed."""

    name: str
    axes: tuple[str, ...]
    values: str  # struct format of the params that the plan computes
    args: tuple[str, ...]  # scalar arguments of the call, packed last
    args_format: str
    # True if it binds a page of `faults`; the slot stands in the params before the arguments
    faults: bool = False

    def key(self, axes: Sequence[object], mode: Mode) -> str:
        """The name of one variant, as in the manifest."""
        parts = [f"{k}={v}" for k, v in zip(self.axes, axes, strict=True)]
        return " ".join([*parts, f"mode={mode}"])


@dataclass(frozen=True, slots=True)
class Bound:
    """One storage binding of a step."""

    name: str
    role: Literal["in", "out"]
    view: View | None  # None for an optional tensor that was not given
    unit: int  # bytes of one element of the bound array
    elem: int  # bytes by which one step of the kernel's index advances
    strides: Ints = ()
    readonly: bool = False
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One dispatch: a variant of a body, its bindings, its params and its number of workgroups."""

    body: Body
    axes: tuple[object, ...]
    bound: tuple[Bound, ...]
    words: Ints  # the words that the index space adds to Params
    values: tuple[float, ...]  # params that the plan computes
    groups: int
    watch: Watch | None = None  # the report of faults; None if the step finds no faults
    # workgroups along x, y and z; None means `groups`, folded into rows
    grid: tuple[int, int, int] | None = None
    # the values of the body's scalar arguments, if they differ from the call's
    scalars: tuple[float, ...] = ()
    resources: tuple[Any, ...] = ()  # textures and samplers of the caller (runtime.resources)

    def prefix(self, offsets: Sequence[int]) -> bytes:
        """The bytes of Params up to the scalar arguments; `offsets` holds each binding's first
        index."""
        words = [self.groups, *self.words]
        for b, offset in zip(self.bound, offsets, strict=True):
            words += [offset, *b.strides]
        packed = struct.pack(f"<{len(words)}I", *(w & 0xFFFFFFFF for w in words))
        formats = self.body.values + (self.body.args_format if self.scalars else "")
        return packed + struct.pack("<" + formats, *self.values, *self.scalars)


@dataclass
class Scratch:
    """Temporary buffers that a plan requests."""

    sizes: list[int] = field(default_factory=list)

    def empty(self, shape: Sequence[int], name: DTypeName) -> View:
        """A contiguous temporary of this shape and dtype."""
        dt: DType = DTYPES[name]
        strides = contiguous_strides(shape, dt.itemsize)
        slot = self.reserve(math.prod(shape) * dt.itemsize)
        return View(slot, dt, tuple(shape), strides, 0)

    def reserve(self, nbytes: int) -> int:
        """The slot of a new temporary of this size, to make a view of it."""
        self.sizes.append(max(nbytes, 4))
        return ~(len(self.sizes) - 1)


# compared and hashed by identity, because it is a part of keys of launches
@dataclass(frozen=True, eq=False)
class Kernel:
    """One public kernel: its tensor arguments and the plan of a call.

    `plan(caps, scratch, *views, *options)` returns the steps in order. `nbytes` and `operations`
    take the views, and options and scalars by name; they expect arguments that the plan accepts.
    They count the work of the call: each element once, a multiply-add as two operations. They do
    not count the work that a plan adds (padding, scratch, splits).
    """

    name: str
    family: str  # the folder of its shader, plan, reference, cases and tests
    args: tuple[Arg, ...]
    scalars: tuple[str, ...]
    plan: Callable[..., list[Step]]
    nbytes: Callable[..., int]
    operations: Callable[..., int]
    options: tuple[str, ...] = ()
    # True if it only copies bits, so that it handles every dtype without features
    moves_bytes: bool = False
    source: Any = None  # the source, if it is not a file


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def axis_steps(op: str, name: str, view: View | None, axes: str, wanted: str, elem: int) -> Ints:
    """The strides of a view along some of its axes, which are given by letters, in units of `elem`
    bytes.

    An optional tensor that was not given has strides of 0.
    """
    if view is None:
        return (0,) * len(wanted)
    if view.ndim != len(axes):
        raise ShapeError(
            f"[{op}] {name} must have {len(axes)} axes ({' '.join(axes)}) but has shape "
            f"{view.shape}"
        )
    return tuple(view.strides[axes.index(axis)] // elem for axis in wanted)


def dtype(view: View | None) -> str:
    """The short name of a view's dtype; "" for a tensor that was not given."""
    return view.dtype.short if view is not None else ""


def touched(*views: View | None) -> int:
    """Bytes of the elements of all views; elements that a broadcast repeats count once."""
    return sum(
        v.dtype.itemsize
        * math.prod(n for n, s in zip(v.shape, v.strides, strict=True) if s != 0 or n == 0)
        for v in views
        if v is not None
    )


def taps(kernel: int | tuple[int, int]) -> int:
    """The number of elements of a window of images."""
    return kernel * kernel if isinstance(kernel, int) else kernel[0] * kernel[1]


def spans(size: int, count: int) -> int:
    """The total number of elements of all windows that divide an axis; neighbouring windows may
    share an element."""
    return size + count - math.gcd(size, count)


def _seen(queries: int, keys: int, causal: object, window: Any) -> list[tuple[int, int]]:
    """For each query of attention, the first key that it may see, and the key behind the last key
    that it may see."""
    left, right = window or (None, None)
    found = []
    for query in range(queries):
        at = query + keys - queries
        last = keys - 1 if right is None else at + right
        if causal:
            last = min(last, query if causal == "top-left" else at)
        first = max(0, 0 if left is None else at - left)
        found.append((first, max(first, min(last + 1, keys))))
    return found


def seen_pairs(queries: int, keys: int, causal: object, window: Any) -> int:
    """The number of pairs of a query and a key that the query may see, according to `causal` and
    `window` of flash_attn."""
    return sum(end - first for first, end in _seen(queries, keys, causal, window))


def seen_keys(queries: int, keys: int, causal: object, window: Any) -> int:
    """The number of keys that at least one query may see."""
    seen = [(first, end) for first, end in _seen(queries, keys, causal, window) if first < end]
    return max(end for _, end in seen) - min(first for first, _ in seen) if seen else 0


def unit_of(storage: str) -> int:
    """Bytes of one element of a bound array of words."""
    return UNITS[storage]
