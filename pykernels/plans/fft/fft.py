"""fft: a pass for each factor of the length; lengths with other prime factors are convolutions."""

from __future__ import annotations

from typing import Any, NamedTuple

from pykernels._generated.bodies import fft_mixed, fft_tile
from pykernels.dtypes import DTYPES
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.plans.parts import row_parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View, contiguous_strides

from .lengths import MIXED, Layout, convolution, factors, layout, radices

__all__ = ["plan"]

CONJUGATE_READ, MULTIPLY_READ, CONJUGATE, MULTIPLY, CONJUGATE_AFTER, HALF = 1, 2, 4, 8, 16, 32
# The configuration for length 2048 with four neighbouring columns, which fill a memory sector of 32
# bytes.
WIDE = fft_tile.CONFIGS["n2048wide"]


class Ends(NamedTuple):
    """The work of passes before and after a transform: flags of the first and the last pass, places
    of factors in the table, the number of elements that are read, and the scale."""

    first: int
    last: int
    before: int
    after: int
    taken: int
    scale: float


def plan(
    caps: Caps, scratch: Scratch, x: View, table: View, dst: View, length: int = 1,
    inverse: bool = False, scale: float = 1.0,
) -> list[Step]:  # fmt: skip
    """The passes of a transform, in parts if the tensors are large."""
    _check(x, table, dst, length)
    if dst.size == 0:
        return []
    views, size = {"x": x, "dst": dst}, convolution(length)
    if size or len(factors(length)) > 1:  # the temporaries between passes must fit a binding, too
        rows = (*dst.shape[:-1], size or length)
        views["middle"] = dst.with_layout(rows, contiguous_strides(rows, 8), DTYPES["complex64"])
    found: list[Step] = []
    for part in row_parts(caps, dst.shape, views):
        found += _whole(
            caps, scratch, part.views["x"], table, part.views["dst"], length, inverse, scale
        )
    return found


def _check(x: View, table: View, dst: View, length: int) -> None:
    if x.ndim == 0 or dst.ndim != x.ndim or x.shape[:-1] != dst.shape[:-1]:
        raise ShapeError(
            "[fft] x and dst must have the same axes, all but the last of the same size, but have "
            f"shapes {x.shape} and {dst.shape}"
        )
    if length < 1:
        raise ArgumentError(f"[fft] length must be at least 1 but is {length}")
    if dst.shape[-1] > length or x.shape[-1] == 0:
        raise ShapeError(
            f"[fft] the last axis of x must not be empty, and that of dst have at most length = "
            f"{length} elements, but the shapes are {x.shape} and {dst.shape}"
        )
    if x.dtype.name == dst.dtype.name == "float32":
        raise DTypeError("[fft] x or dst must be complex64 but both are float32")
    size = layout(length).size
    if table.shape != (size,) or not table.contiguous:
        raise ShapeError(
            f"[fft] table must be contiguous and have shape ({size},) for length {length} but has "
            f"shape {table.shape}: pykernels.fft.table({length}) makes it"
        )


def _whole(
    caps: Caps, scratch: Scratch, x: View, table: View, dst: View, length: int, inverse: bool,
    scale: float,
) -> list[Step]:  # fmt: skip
    where, size = layout(length), convolution(length)
    half = dst.dtype.itemsize == 4
    taken = min(x.shape[-1], length // 2 + 1 if half else length)
    first = (CONJUGATE_READ if inverse else 0) + (HALF if half else 0)
    if not size:
        last = CONJUGATE if inverse else 0
        ends = Ends(first, last, 0, 0, taken, scale)
        return _passes(caps, scratch, x, table, dst, length, length, where, ends)
    # X[k] = c[k] sum_n (x[n] c[n]) / c[k - n] with c[n] = w^(n n / 2): a cyclic convolution. The
    # table has c, and the transform of 1 / c divided by `size`.
    middle = scratch.empty((*dst.shape[:-1], size), "complex64")
    forth = Ends(first + MULTIPLY_READ, MULTIPLY + CONJUGATE_AFTER, where.chirp, where.spectrum,
                 taken, 1.0)  # fmt: skip
    last = CONJUGATE + MULTIPLY + (CONJUGATE_AFTER if inverse else 0)
    back = Ends(0, last, 0, where.chirp, size, scale)
    return [
        *_passes(caps, scratch, x, table, middle, size, length, where, forth),
        *_passes(caps, scratch, middle, table, dst, size, size, where, back),
    ]


def _passes(
    caps: Caps, scratch: Scratch, x: View, table: View, dst: View, size: int, length: int,
    where: Layout, ends: Ends,
) -> list[Step]:  # fmt: skip
    """The passes of one transform of `size` elements; x is the beginning of rows of `length`
    elements."""
    parts = factors(size)
    rows = (*dst.shape[:-1], size)
    spare = [scratch.empty(rows, "complex64") for _ in range(min(len(parts) - 1, 2))]
    found: list[Step] = []
    span = 1
    for i, n in enumerate(parts):
        is_first, is_last = i == 0, i == len(parts) - 1
        source = x if is_first else spare[(i - 1) % 2]
        target = dst if is_last else spare[i % 2]
        numbers: dict[str, Any] = {
            "length": length if is_first else size,
            "across": size // n,
            "span": span,
            "step": size // (span * n),
            "taken": ends.taken if is_first else size,
            "kept": target.shape[-1],
            "near": 1 if size > n or _rows_near(source, target) else 0,
            "flags": (ends.first if is_first else 0) + (ends.last if is_last else 0),
            "inner": _inner(where, n),
            "fine": where.outer.fine,
            "coarse": where.outer.coarse,
            "fine_bits": where.outer.bits,
            "before": ends.before,
            "after": ends.after,
            "scale": ends.scale if is_last else 1.0,
        }
        found.append(_step(caps, source, table, target, n, numbers))
        span *= n
    return found


def _step(caps: Caps, x: View, table: View, dst: View, n: int, numbers: dict[str, Any]) -> Step:
    if n > 1 and n & (n - 1) == 0:
        wide = n == WIDE.N and numbers["near"] == 1
        wide = wide and caps.max_workgroup_bytes >= 4 * WIDE.threads * WIDE.E
        name = f"n{n}wide" if wide else f"n{n}"
        return fft_tile.step(caps, x, table, dst, LENGTH=name, **numbers)
    columns = max(1, MIXED // n)
    return fft_mixed.step(
        caps, x, table, dst, size=n, columns=columns, radices=radices(n), **numbers
    )


def _inner(where: Layout, n: int) -> int:
    return next(at for known, at in where.inner if known == n)


def _rows_near(x: View, dst: View) -> bool:
    """True if neighbouring rows lie closer to each other than neighbours of a row."""
    return any(
        v.shape[-1] > 1 and 0 < abs(step) < abs(v.strides[-1])
        for v in (x, dst)
        for n, step in zip(v.shape[:-1], v.strides[:-1], strict=True)
        if n > 1
    )
