"""Running sums and products: short rows in registers, long ones in pieces, or along columns."""

from __future__ import annotations

from pykernels._generated.bodies import (
    scan_column_totals,
    scan_columns,
    scan_pieces,
    scan_rows,
    scan_totals,
)
from pykernels.dtypes import DTYPES, DTypeName
from pykernels.errors import DTypeError, ShapeError
from pykernels.layout import Rows, View
from pykernels.plan import Caps, Scratch, Step, cdiv

__all__ = ["checked", "steps"]

TILE = scan_pieces.CONFIGS["tile"]
THREADS = scan_columns.CONFIGS["walk8"].threads
# One workgroup takes a row of so many tiles, in less time than two more dispatches need: so are the
# sums of the pieces of a row.
FEW_TILES = 4
MOST_PIECES = FEW_TILES * TILE.threads * TILE.N1
# Fewer neighbouring rows than these do not fill a cache line: rows are read with their own step.
LEAST_ACROSS = 16
# One invocation walks along so many elements; along LONG_WALK where rows alone fill the device. Its
# sums are taken one block after the other.
SHORT_WALK, LONG_WALK = 128, 1024


def checked(op: str, caps: Caps, scratch: Scratch, x: View, dst: View, product: int) -> list[Step]:
    """The dispatches of cumsum or cumprod."""
    if x.ndim == 0:
        raise ShapeError(f"[{op}] x must have at least one axis but has none")
    if x.dtype != dst.dtype:
        raise DTypeError(f"[{op}] dst must be {x.dtype.name}, as x is, but is {dst.dtype.name}")
    if x.size == 0:
        return []
    return steps(caps, scratch, _words(x), _words(dst), product)


def _words(v: View) -> View:
    """Sums and products of int32 wrap to the bits of those of uint32."""
    return v.with_layout(v.shape, v.strides, DTYPES["uint32"]) if v.dtype.kind == "i" else v


def steps(caps: Caps, scratch: Scratch, x: View, dst: View, product: int = 0) -> list[Step]:
    """The same for float32, float16 and uint32, of one dtype on both sides."""
    it = Rows(dst.shape, {"x": x, "dst": dst})
    if it.columns_apart("x") and it.rows >= LEAST_ACROSS:
        return _columns(caps, scratch, x, dst, it.rows, it.cols, product)
    vec = 4 if it.vec(4) else 1
    rows = scan_rows.CONFIGS
    name = next((n for n, c in rows.items() if c.LANES * _each(c.N4, c.N1, vec) >= it.cols), None)
    if name is not None:
        return [scan_rows.step(caps, x, dst, LENGTH=name, product=product)]
    tiles = cdiv(it.cols, TILE.threads * _each(TILE.N4, TILE.N1, vec))
    if tiles <= FEW_TILES or it.rows >= 4 * caps.tuning.device.units:
        return [
            scan_pieces.step(caps, x, None, dst, VEC=vec, pieces=1, tiles=tiles, product=product)
        ]
    each = cdiv(tiles, MOST_PIECES)
    pieces = cdiv(tiles, each)
    totals = scratch.empty((it.rows, pieces), _sums(x))
    running = scratch.empty((it.rows, pieces), _sums(x))
    return [
        scan_totals.step(caps, x, totals, VEC=vec, pieces=pieces, tiles=each, product=product),
        *steps(caps, scratch, totals, running, product),
        scan_pieces.step(
            caps, x, running, dst, VEC=vec, pieces=pieces, tiles=each, product=product
        ),
    ]


def _each(vectors: int, scalars: int, vec: int) -> int:
    """Elements of an invocation."""
    return 4 * vectors if vec == 4 else scalars


def _sums(x: View) -> DTypeName:
    return "uint32" if x.dtype.name == "uint32" else "float32"


def _columns(
    caps: Caps, scratch: Scratch, x: View, dst: View, rows: int, cols: int, product: int
) -> list[Step]:
    """Neighbouring invocations on neighbouring rows, each along a piece."""
    bits = min((rows - 1).bit_length(), THREADS.bit_length() - 1)
    blocks = cdiv(rows, 1 << bits)
    full = rows >= 1024 * caps.tuning.device.units
    if cols <= (LONG_WALK if full else SHORT_WALK):
        return [
            scan_columns.step(
                caps, x, None, dst, blocks=blocks, run=cols, lane_bits=bits, product=product
            )
        ]
    run = 1 << ((cols - 1).bit_length() + 1) // 2
    pieces = cdiv(cols, run)
    totals = scratch.empty((pieces, rows), _sums(x))
    running = scratch.empty((pieces, rows), _sums(x))
    views = [v.with_layout((rows, pieces), (4, 4 * rows)) for v in (totals, running)]
    return [
        scan_column_totals.step(
            caps, x, totals, blocks=blocks, run=run, lane_bits=bits, product=product
        ),
        *_columns(caps, scratch, views[0], views[1], rows, pieces, product),
        scan_columns.step(
            caps, x, running, dst, blocks=blocks, run=run, lane_bits=bits, product=product
        ),
    ]
