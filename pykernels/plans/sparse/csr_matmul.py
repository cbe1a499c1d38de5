"""csr_matmul: one dispatch over rows and columns."""

from __future__ import annotations

from pykernels._generated.bodies import csr_matmul as body
from pykernels.errors import ShapeError
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import View
from pykernels.wgsl.watch import Watch

__all__ = ["choose", "plan"]

# logarithms of the most columns (64), lanes (32) and invocations (256)
_COLUMN_BITS, _LANE_BITS, _BITS = 6, 5, 8


def plan(
    caps: Caps, scratch: Scratch, data: View, indices: View, indptr: View, x: View, dst: View,
    check: bool = True,
) -> list[Step]:  # fmt: skip
    """One step; none for an empty dst."""
    if data.ndim != 1 or indices.shape != data.shape:
        raise ShapeError(
            f"[csr_matmul] data and indices must have one axis of the same size but have shapes "
            f"{data.shape} and {indices.shape}"
        )
    if indptr.ndim != 1 or indptr.shape[0] < 1:
        raise ShapeError(f"[csr_matmul] indptr must be (M + 1,) but has shape {indptr.shape}")
    if x.ndim != 2:
        raise ShapeError(f"[csr_matmul] x must be (K, N) but has shape {x.shape}")
    want = (indptr.shape[0] - 1, x.shape[1])
    if dst.shape != want:
        raise ShapeError(f"[csr_matmul] dst must have shape {want} but has {dst.shape}")
    if dst.size == 0:
        return []
    lane_bits, column_bits = choose(data.size, *dst.shape)
    watch = Watch("indices", x.shape[0], indices.shape, indices.shape) if check else None
    return [
        body.step(
            caps, data, indices, indptr, x, dst, lane_bits=lane_bits, column_bits=column_bits,
            tiles=cdiv(dst.shape[1], 1 << column_bits), watch=watch,
        )
    ]  # fmt: skip


def choose(elements: int, rows: int, width: int) -> tuple[int, int]:
    """The logarithms of the number of lanes of a row and of the number of columns.

    A row gets as many lanes as rows have elements on average, rounded down to a power of two.
    """
    column_bits = min((width - 1).bit_length(), _COLUMN_BITS)
    lane_bits = min((max(elements // rows, 1)).bit_length() - 1, _LANE_BITS, _BITS - column_bits)
    return lane_bits, column_bits
