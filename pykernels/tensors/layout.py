"""The places of a tensor's elements: layouts, views, and the index spaces of kernels.

Pure arithmetic on Python integers, without a GPU. Strides and offsets are bytes.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pykernels.errors import LimitError, ShapeError

if TYPE_CHECKING:
    from pykernels.dtypes import DType  # the build reads this module too, without numpy

__all__ = [
    "Layout",
    "Nd",
    "Rows",
    "Tiles",
    "View",
    "Window",
    "contiguous_layout",
    "contiguous_strides",
    "extent",
    "layout",
    "repeated",
]

Ints = tuple[int, ...]


def contiguous_strides(shape: Sequence[int], itemsize: int) -> Ints:
    """Strides in bytes of a C-contiguous array."""
    strides = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def extent(shape: Ints, strides: Ints, itemsize: int) -> tuple[int, int]:
    """Lowest byte and one past the highest byte, relative to the first element."""
    if 0 in shape:
        return 0, 0
    lo = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    hi = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s > 0)
    return lo, hi + itemsize


class Layout:
    """Shape, strides and dtype of a tensor; interned, so equal layouts are one object."""

    __slots__ = ("contiguous", "dtype", "hi", "lo", "nbytes", "shape", "size", "strides")

    def __init__(self, shape: Ints, strides: Ints, dtype: DType) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.lo, self.hi = extent(shape, strides, dtype.itemsize)
        self.contiguous = is_contiguous(shape, strides, dtype.itemsize)


@functools.lru_cache(maxsize=65536)
def layout(shape: Ints, strides: Ints, dtype: DType) -> Layout:
    """The layout of these values (the same object each time while it is cached)."""
    return Layout(shape, strides, dtype)


@functools.lru_cache(maxsize=65536)
def contiguous_layout(shape: Ints, dtype: DType) -> Layout:
    """The layout of a C-contiguous array."""
    return layout(shape, contiguous_strides(shape, dtype.itemsize), dtype)


def is_contiguous(shape: Ints, strides: Ints, itemsize: int) -> bool:
    """True when the elements lie one after the other in C order."""
    if 0 in shape:
        return True
    expected = itemsize
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True


class Window(NamedTuple):
    """Bytes of a buffer, from `start` to before `end`."""

    start: int
    end: int

    def overlaps(self, other: Window) -> bool:
        """True if both windows have a byte in common."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class View:
    """One tensor for a plan: a layout at a byte offset, without its buffer.

    `slot` names the tensor of the call (or, if negative, a scratch buffer of the plan: ~index).
    `offset` counts from an origin that is a multiple of the device's binding alignment; tensors
    that share the output's buffer share its origin. `padded` means that the buffer extends to the
    next multiple of 16 bytes.
    """

    slot: int
    dtype: DType
    shape: Ints
    strides: Ints
    offset: int
    padded: bool = True

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def contiguous(self) -> bool:
        return is_contiguous(self.shape, self.strides, self.dtype.itemsize)

    @property
    def window(self) -> Window:
        """The bytes of the view, counted from the origin."""
        lo, hi = extent(self.shape, self.strides, self.dtype.itemsize)
        return Window(self.offset + lo, self.offset + hi)

    def aligned(self, nbytes: int, axes: Iterable[int]) -> bool:
        """True if the first element and every stride of these axes are multiples of `nbytes`."""
        return self.offset % nbytes == 0 and all(
            self.shape[a] == 1 or self.strides[a] % nbytes == 0 for a in axes
        )

    def vectorizable(self, n: int, axis: int = -1) -> bool:
        """True if an axis may be read in vectors of `n` neighbours, at any index of the other
        axes."""
        axis %= self.ndim
        return (
            self.shape[axis] % n == 0
            and self.strides[axis] == self.dtype.itemsize
            and self.aligned(n * self.dtype.itemsize, (a for a in range(self.ndim) if a != axis))
        )

    def with_layout(
        self, shape: Sequence[int], strides: Sequence[int], dtype: DType | None = None
    ) -> View:
        return replace(self, shape=tuple(shape), strides=tuple(strides), dtype=dtype or self.dtype)

    def as_rank(self, ndim: int) -> View:
        """The view with leading axes of size 1 added, up to `ndim` axes."""
        extra = ndim - self.ndim
        return self.with_layout((1,) * extra + self.shape, (0,) * extra + self.strides)

    def broadcast_to(self, shape: Ints) -> View:
        """numpy's broadcast: axes of size 1 get stride 0 (the shapes are known to fit)."""
        v = self.as_rank(len(shape))
        strides = (0 if n != m else s for n, m, s in zip(v.shape, shape, v.strides, strict=True))
        return v.with_layout(shape, tuple(strides))


def expanded(*shapes: Ints) -> Ints:
    """The shape to which shapes of any number of axes repeat by numpy's rule; ValueError if there
    is none."""
    found = []
    for sizes in itertools.zip_longest(*[reversed(s) for s in shapes], fillvalue=1):
        others = {n for n in sizes if n != 1}
        if len(others) > 1:
            raise ValueError(f"shapes do not broadcast together: {', '.join(map(str, shapes))}")
        found.append(others.pop() if others else 1)
    return tuple(found[::-1])


def expands_to(shape: Ints, target: Ints) -> bool:
    """numpy's broadcast: axes of size 1 repeat."""
    extra = len(target) - len(shape)
    return extra >= 0 and all(n in (1, m) for n, m in zip(shape, target[extra:], strict=True))


def repeats_to(shape: Ints, target: Ints) -> bool:
    """numpy's broadcast, or ggml's: a leading axis may repeat if its size divides the target's."""
    if len(shape) > len(target):
        return False
    pairs = list(zip(shape, target[len(target) - len(shape) :], strict=True))
    if not pairs:
        return True
    n, m = pairs[-1]
    return n in (1, m) and all(a == b or (a > 0 and b % a == 0) for a, b in pairs[:-1])


def merge_axes(shape: Ints, strides: Sequence[Ints]) -> tuple[Ints, list[Ints]]:
    """The same elements in the same order with as few axes as possible, at least one."""
    dims: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis in range(len(shape)):
        n = shape[axis]
        if n == 1:
            continue
        joins = dims and all(steps[t][-1] == n * strides[t][axis] for t in range(len(strides)))
        if joins:
            dims[-1] *= n
        else:
            dims.append(n)
            for s in steps:
                s.append(0)
        for t in range(len(strides)):
            steps[t][-1] = strides[t][axis]
    if not dims:
        return (1,), [(0,) for _ in strides]
    return tuple(dims), [tuple(s) for s in steps]


def _cut(n: int, sizes: Iterable[int]) -> Ints:
    """The sizes of the axes (outermost first) into which an axis of n elements is cut, so that
    views with `sizes` elements can repeat along it.

    A view with a size between 1 and n repeats by modulo, so the product of some of the innermost
    axes must be that size.
    """
    inner = sorted({*sizes} - {1, n})
    if any(b % a for a, b in itertools.pairwise(inner)):
        raise LimitError(f"an axis of {n} cannot repeat {' and '.join(map(str, inner))} at once")
    return tuple(b // a for a, b in zip([1, *inner], [*inner, n], strict=True))[::-1]


def _along(cut: Ints, size: int, stride: int) -> Ints:
    """The strides of a view along an axis that was cut: 0 where the view repeats."""
    steps, inner = [], 1
    for n in reversed(cut):
        steps.append(stride * inner if inner < size else 0)
        inner *= n
    return tuple(reversed(steps))


def repeated(
    shape: Ints, lead: int, views: Mapping[str, View], repeats: Collection[str]
) -> tuple[Ints, dict[str, View]]:
    """`shape`, and the views with that shape; views in `repeats` follow the rule of `repeats_to`.

    If a view repeats by modulo, an axis is cut for all views. Only the first `lead` axes can be
    cut.
    """
    for name, v in views.items():
        if name in repeats:
            fits = repeats_to(v.shape, shape)
        else:
            fits = v.ndim == len(shape) and v.shape[:lead] == shape[:lead]
        if not fits:
            raise ShapeError(f"{name} of shape {v.shape} does not fill an index space of {shape}")
    if not repeats:
        return shape, dict(views)
    full = {k: v.as_rank(len(shape)) for k, v in views.items()}
    cuts = [_cut(n, {full[k].shape[a] for k in repeats}) for a, n in enumerate(shape)]
    if any(len(cut) > 1 for cut in cuts[lead:]):
        raise LimitError(f"the last {len(shape) - lead} axes of {shape} cannot repeat by modulo")
    front = tuple(n for cut in cuts[:lead] for n in cut)
    out = {}
    for name, v in full.items():
        steps = map(_along, cuts, v.shape, v.strides)
        tail = (shape if name in repeats else v.shape)[lead:]
        out[name] = v.with_layout(front + tail, tuple(itertools.chain(*steps)))
    return front + shape[lead:], out


class _Space:
    """Leading axes that are merged into levels, the innermost level first, and the last `TAIL`
    axes, which are kept as they are.

    Each view has the shape of the space, but the kept axes may have other sizes; views in `repeats`
    are repeated to this shape. `strides[name]` holds the stride of each level, then of each kept
    axis, in elements.
    """

    LEVELS: int
    TAIL: int

    def __init__(
        self, shape: Ints, views: Mapping[str, View | None], repeats: Collection[str] = ()
    ) -> None:
        given = {k: v for k, v in views.items() if v is not None}
        shape, self.views = repeated(
            shape, len(shape) - self.TAIL, given, [k for k in repeats if k in given]
        )
        lead = len(shape) - self.TAIL
        dims, steps = merge_axes(shape[:lead], [v.strides[:lead] for v in self.views.values()])
        if len(dims) > self.LEVELS:
            raise LimitError(
                f"at most {self.LEVELS + self.TAIL} axes are left after merging, but shape "
                f"{shape} with these strides needs {len(dims) + self.TAIL}"
            )
        self.count = math.prod(shape[:lead])
        self.levels = len(dims)
        self.dims = _pad(dims[::-1], self.LEVELS, 1)
        self.strides: dict[str, Ints] = {}
        for (name, v), step in zip(self.views.items(), steps, strict=True):
            tail = v.strides[lead:]
            all_steps = (*_pad(step[::-1], self.LEVELS, 0), *tail)
            self.strides[name] = tuple(s // v.dtype.itemsize for s in all_steps)
        self.absent = (0,) * (self.LEVELS + self.TAIL)

    def params(self) -> Ints:
        """The words that the index space adds to Params, before the words of the tensors."""
        return (self.count, self.levels, *self.dims[:-1])

    def steps(self, name: str, vec: int = 1) -> Ints:
        """The strides of one tensor in the form of Params. The last stride counts elements, the
        others count vectors of `vec` elements."""
        steps = self.strides[name]
        if vec == 1:
            return steps
        return (*(s // vec for s in steps[:-1]), steps[-1])


class Nd(_Space):
    """The index space of an elementwise kernel: up to 6 levels."""

    LEVELS, TAIL = 6, 0

    @property
    def total(self) -> int:
        return self.count

    def repeats(self, name: str) -> bool:
        """True if a tensor has the same element all along the innermost level."""
        return self.strides[name][0] == 0

    def vec(self, n: int, may_repeat: Collection[str] = ()) -> bool:
        """True if all tensors may be read and written as vectors of `n` along the innermost level.

        A tensor in `may_repeat` may repeat one element along this level, and is then read by single
        elements; at least one tensor in `may_repeat` must not repeat.
        """
        if self.dims[0] % n or (may_repeat and all(map(self.repeats, may_repeat))):
            return False
        return all(
            (name in may_repeat and self.repeats(name))
            or (
                self.strides[name][0] == 1
                and not any(s % n for s in self.strides[name][1:])
                and v.offset % (n * v.dtype.itemsize) == 0
            )
            for name, v in self.views.items()
        )

    def in_vectors(self, n: int) -> Nd:
        """The same space, of vectors of `n` along the innermost level."""
        self.count, self.dims = self.count // n, (self.dims[0] // n, *self.dims[1:])
        self.strides = {name: (n * s[0], *s[1:]) for name, s in self.strides.items()}
        return self

    def steps(self, name: str, vec: int = 1) -> Ints:
        return tuple(s // vec for s in self.strides[name])


class Rows(_Space):
    """The index space of a kernel over the last axis: up to 5 levels of rows, and columns."""

    LEVELS, TAIL = 5, 1

    def __init__(
        self, shape: Ints, views: Mapping[str, View | None], repeats: Collection[str] = ()
    ) -> None:
        super().__init__(shape, views, repeats)
        self.cols = shape[-1]

    @property
    def rows(self) -> int:
        return self.count

    def vec(self, n: int) -> bool:
        """True if all tensors may be read and written as vectors of `n` columns."""
        return all(v.vectorizable(n) for v in self.views.values())

    def columns_apart(self, name: str) -> bool:
        """True if neighbouring columns lie further apart in memory than neighbouring rows."""
        *steps, col = (abs(s) for s in self.strides[name])
        return self.rows > 1 and self.cols > 1 and col > steps[0] > 0


class Tiles(_Space):
    """The index space of a kernel over matrices: up to 4 levels of batches, rows and columns."""

    LEVELS, TAIL = 4, 2

    @property
    def batches(self) -> int:
        return self.count


def _pad(values: Ints, n: int, fill: int) -> Ints:
    return values + (fill,) * (n - len(values))
