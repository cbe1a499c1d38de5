"""tri: copies rows in the widest vectors that fit both src and dst."""

from __future__ import annotations

from pykernels._generated.bodies import tri as body
from pykernels.errors import DTypeError, ShapeError
from pykernels.plans.parts import Part, in_levels, parts
from pykernels.plans.runs import runs
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Tiles, View

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, src: View, dst: View, upper: bool = False, diagonal: int = 0
) -> list[Step]:
    """One dispatch; none for an empty dst, more if a tensor is larger than one binding."""
    if src.shape != dst.shape or src.ndim < 2:
        raise ShapeError(
            "[tri] src and dst must have one shape of two or more axes but have "
            f"{src.shape} and {dst.shape}"
        )
    if src.dtype != dst.dtype:
        raise DTypeError(
            f"[tri] dst must have the dtype of src, {src.dtype.name}, but is {dst.dtype.name}"
        )
    if dst.size == 0:
        return []
    axes = [{"src": axis, "dst": axis} for axis in range(dst.ndim)]
    found = [
        part
        for each in parts(caps, {"src": src, "dst": dst}, axes)
        for part in in_levels(each, axes[:-2], Tiles.LEVELS)
    ]
    return [_step(caps, part, upper, diagonal) for part in found]


def _step(caps: Caps, part: Part, upper: bool, diagonal: int) -> Step:
    src, dst = part.views["src"], part.views["dst"]
    item = src.dtype.itemsize
    # The column at which the first row's elements up to the diagonal end. With `upper`, the
    # diagonal does not belong to these elements.
    height, width = dst.shape[-2], dst.shape[-1]
    shift = diagonal + part.first[-2] - part.first[-1] + (0 if upper else 1)
    shift = min(max(shift, -height), width)
    src, dst = runs(src, dst)
    bits = min((dst.shape[-1] - 1).bit_length(), 8)
    return body.step(
        caps, src, dst, W=src.dtype.itemsize, lane_bits=bits,
        across=cdiv(dst.shape[-1], 1 << bits), shift=shift % (1 << 32), item=item,
        flip=(1 << 32) - 1 if upper else 0,
    )  # fmt: skip
