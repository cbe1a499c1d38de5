"""Code that the plans of all losses of classes share: rows, their targets, and the assignment of
rows to invocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plans.parts import row_parts
from pykernels.plans.softmax.close import close
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Rows, View
from pykernels.wgsl.watch import Watch

__all__ = [
    "THREADS", "Numbers", "RowPart", "Taken", "check_classes", "column", "numbers_of",
    "parts_of_rows", "take",
]  # fmt: skip

THREADS = 256  # invocations of a workgroup
# If rows lie next to each other, at least this number of neighbouring rows is read together.
NEIGHBOURS = 32


def check_classes(op: str, x: View, target: View, weight: View | None, name: str = "x") -> None:
    """Check the shapes and dtypes of targets and weights for rows of x; errors call x `name`."""
    if x.ndim < 1 or x.shape[-1] < 1:
        raise ShapeError(
            f"[{op}] {name} must have classes along its last axis but has shape {x.shape}"
        )
    of_classes = target.dtype.kind == "f"
    shape = x.shape if of_classes else x.shape[:-1]
    if target.shape != shape:
        rule = "if it holds weights of classes" if of_classes else "if it holds classes"
        raise ShapeError(
            f"[{op}] target must have shape {shape} for {name} of shape {x.shape} {rule}, but has "
            f"{target.shape}"
        )
    if of_classes and target.dtype != x.dtype:
        raise DTypeError(
            f"[{op}] target must be int32, int64 or have the dtype of {name}, "
            f"{x.dtype.name}, but is {target.dtype.name}"
        )
    if weight is not None and weight.shape != x.shape[-1:]:
        raise ShapeError(
            f"[{op}] weight must have shape {x.shape[-1:]}, one for each class, but has "
            f"{weight.shape}"
        )
    if weight is not None and weight.dtype != x.dtype:
        raise DTypeError(
            f"[{op}] weight must have the dtype of {name}, {x.dtype.name}, but is "
            f"{weight.dtype.name}"
        )


def column(v: View) -> View:
    """A view of one number for each row, with a last axis of size 1."""
    return v.with_layout((*v.shape, 1), (*v.strides, 0))


class Numbers(NamedTuple):
    """The options as numbers: the two words of ignore_index, the share that the target class keeps,
    and the share of each class."""

    ignore_lo: int
    ignore_hi: int
    hard: float
    spread: float


def numbers_of(op: str, ignore_index: int, label_smoothing: float, classes: int) -> Numbers:
    """The options of a call as params of its steps."""
    if not -(2**63) <= ignore_index < 2**63:
        raise ArgumentError(f"[{op}] ignore_index must be an int64 but is {ignore_index}")
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"[{op}] label_smoothing must be from 0 to 1 but is {label_smoothing}")
    word = 1 << 32
    return Numbers(
        ignore_index % word, ignore_index // word % word, 1.0 - label_smoothing,
        label_smoothing / classes,
    )  # fmt: skip


class RowPart(NamedTuple):
    """The views of one part of the rows, and its report of faults."""

    views: dict[str, View]
    watch: Watch | None


def parts_of_rows(
    caps: Caps, scratch: Scratch, views: dict[str, View], watch: Watch | None
) -> tuple[list[Step], list[RowPart], list[Step]]:
    """Cut views (..., n) with the same rows into parts that bindings hold. Returns the steps of
    copies before them, the parts, and the steps of copies after them.

    `watch` numbers the rows of all parts: `target` is a column with one element for each row.
    """
    near, before, after = close(caps, scratch, views)
    lead = near["dst"].shape
    found = []
    parts = row_parts(caps, lead, near)
    for number, part in enumerate(parts):
        own = watch
        if own is not None and len(parts) > 1:
            own = own.part(number, part.first, part.views["dst"].shape[:-1], lead[:-1])
        found.append(RowPart(part.views, own))
    return before, found, after


class Taken(NamedTuple):
    """How rows are assigned: the lanes of a row, and True if neighbouring lanes read neighbouring
    rows."""

    vec: int
    lane_bits: int
    apart: bool

    @property
    def lanes(self) -> int:
        return 1 << self.lane_bits


def take(x: View, others: Sequence[View], batch: int) -> Taken:
    """How the rows of x are assigned. Each lane reads `batch` vectors of a row, if there are enough
    lanes; `others` are views with the same columns."""
    apart = Rows(x.shape, {"x": x}).columns_apart("x")
    vec = 4 if all(v.vectorizable(4) for v in (x, *others)) else 1
    vectors = x.shape[-1] // vec
    lanes = min(-(-vectors // batch) if vectors > batch else vectors, THREADS)
    if apart:
        lanes = min(lanes, THREADS // NEIGHBOURS)
    return Taken(vec, (lanes - 1).bit_length(), apart)
