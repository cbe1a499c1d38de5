"""tri: rows in the widest columns that both sides consist of."""

from __future__ import annotations

from pykernels._generated.bodies import tri as body
from pykernels.errors import DTypeError, ShapeError
from pykernels.layout import View
from pykernels.plan import Caps, Scratch, Step, cdiv
from pykernels.plans.runs import runs

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, src: View, dst: View, upper: bool = False, diagonal: int = 0
) -> list[Step]:
    """One dispatch; none for an empty dst."""
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
    item = src.dtype.itemsize
    # One past the last element of the first row that lies at or before the diagonal: with `upper`
    # the diagonal itself is on the other side.
    height, width = dst.shape[-2], dst.shape[-1]
    shift = min(max(diagonal if upper else diagonal + 1, -height), width)
    src, dst = runs(src, dst)
    wide = src.dtype.itemsize
    bits = min((dst.shape[-1] - 1).bit_length(), 8)
    step = body.step(
        caps, src, dst, W=wide, lane_bits=bits, across=cdiv(dst.shape[-1], 1 << bits),
        shift=shift % (1 << 32), item=item, flip=(1 << 32) - 1 if upper else 0,
    )  # fmt: skip
    return [step]
