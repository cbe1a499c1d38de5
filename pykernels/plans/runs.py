"""Views as bytes: contiguous views, which are cut if they are larger than one binding, and rows as
runs of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pykernels.dtypes import DTYPES, DType
from pykernels.steps import Caps, cdiv
from pykernels.tensors.layout import View

__all__ = ["KINDS", "chunks", "lane_bits", "runs"]

# The numbers of dtypes in lib/convert.wgsl.
KINDS = {
    "float32": 0, "float16": 1, "bfloat16": 2, "int32": 3, "uint32": 4, "int16": 5, "uint16": 6,
    "int8": 7, "uint8": 8, "bool": 9, "int64": 10, "complex64": 11,
}  # fmt: skip
# For each number of bytes, a dtype of that size; runs of bytes are copied as its elements.
_RUNS = {n: DType("uint8", "u8", n, "u") for n in (1, 2, 4, 8, 16)}


def chunks(
    caps: Caps, views: Sequence[View], first: int = 0, size: int | None = None
) -> Iterator[tuple[View, ...]]:
    """Byte views of equal length over `size` bytes from byte `first` of contiguous views."""
    total = views[0].nbytes if size is None else size
    # Leave room for rounding the ends of a window.
    most = (caps.max_binding - 2 * caps.alignment) // 256 * 256
    for at in range(0, total, most):
        n = min(most, total - at)
        yield tuple(
            replace(
                v, dtype=DTYPES["uint8"], shape=(n,), strides=(1,), offset=v.offset + first + at,
                padded=v.padded or at + n + 16 <= total,
            )
            for v in views
        )  # fmt: skip


def runs(src: View, dst: View) -> tuple[View, View]:
    """The rows of both views in the widest elements that fit both; bits are copied, so the type
    of the elements does not matter."""
    item = src.dtype.itemsize
    last = src.ndim - 1
    run = 1
    if src.strides[last] == dst.strides[last] == item:
        run = src.shape[last]
    for width in (16, 8, 4, 2):
        n = cdiv(width, item)
        if width <= item or run % n or not (src.padded and dst.padded):
            continue
        if all(v.aligned(width, range(last)) for v in (src, dst)):
            out = [
                v.with_layout((*v.shape[:last], run // n), (*v.strides[:last], width), _RUNS[width])
                for v in (src, dst)
            ]
            return out[0], out[1]
    return src, dst


def lane_bits(lanes: int, threads: int) -> int:
    """The number of lanes for one row, as the exponent of a power of two. It is the number with the
    fewest idle lanes, and the largest of equally good numbers."""
    if lanes <= 8:
        return (lanes - 1).bit_length()
    return max(
        range(3, threads.bit_length()),
        key=lambda bits: (lanes / (cdiv(lanes, 1 << bits) << bits), bits),
    )
