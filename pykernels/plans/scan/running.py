"""Running sums and products: short rows are held in registers; long rows are cut into pieces, or
scanned along columns."""

from __future__ import annotations

from pykernels._generated.bodies import (
    scan_column_totals,
    scan_columns,
    scan_pieces,
    scan_rows,
    scan_totals,
)
from pykernels.dtypes import DTYPES, DTypeName
from pykernels.errors import DTypeError, LimitError, ShapeError
from pykernels.plans.parts import MAX_PARTS, fits_binding, in_levels, narrow, parts
from pykernels.steps import Caps, Scratch, Step, cdiv
from pykernels.tensors.layout import Rows, View

__all__ = ["checked", "steps"]

TILE = scan_pieces.CONFIGS["tile"]
THREADS = scan_columns.CONFIGS["walk8"].threads
LEVELS = Rows.LEVELS
# One workgroup scans a row of at most this many tiles, in less time than two more dispatches need.
# It also scans the sums of the pieces of a longer row.
FEW_TILES = 4
MOST_PIECES = FEW_TILES * TILE.threads * TILE.N1
# Fewer neighbouring rows than this do not fill a cache line; then each row is read along its own
# elements.
LEAST_ACROSS = 16
# One invocation scans at most SHORT_WALK elements one after the other, or LONG_WALK if the rows
# alone fill the device. A longer row is cut into pieces, whose sums are scanned in the same way.
SHORT_WALK, LONG_WALK = 128, 1024


def checked(op: str, caps: Caps, scratch: Scratch, x: View, dst: View, product: int) -> list[Step]:
    """The dispatches of cumsum or cumprod."""
    if x.ndim == 0:
        raise ShapeError(f"[{op}] x must have at least one axis but has none")
    if x.dtype != dst.dtype:
        raise DTypeError(
            f"[{op}] dst must have the dtype of x, {x.dtype.name}, but is {dst.dtype.name}"
        )
    if x.size == 0:
        return []
    x, dst = _words(x), _words(dst)
    if fits_binding(caps, x) and fits_binding(caps, dst):
        return steps(caps, scratch, x, dst, product)
    return _in_parts(caps, scratch, x, dst, product)


def _words(v: View) -> View:
    """A view of int32 as uint32, because sums and products of uint32 wrap to the same bits."""
    return v.with_layout(v.shape, v.strides, DTYPES["uint32"]) if v.dtype.kind == "i" else v


def steps(caps: Caps, scratch: Scratch, x: View, dst: View, product: int = 0) -> list[Step]:
    """The dispatches for float32, float16 or uint32, if x and dst have the same dtype."""
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
            scan_pieces.step(
                caps, x, None, dst, VEC=vec, pieces=1, before=0, tiles=tiles, product=product
            )
        ]
    each = cdiv(tiles, MOST_PIECES)
    pieces = cdiv(tiles, each)
    totals = scratch.empty((it.rows, pieces), _sums(x))
    running = scratch.empty((it.rows, pieces), _sums(x))
    return [
        scan_totals.step(caps, x, totals, VEC=vec, pieces=pieces, tiles=each, product=product),
        *steps(caps, scratch, totals, running, product),
        scan_pieces.step(
            caps, x, running, dst, VEC=vec, pieces=pieces, before=0, tiles=each, product=product
        ),
    ]


def _in_parts(caps: Caps, scratch: Scratch, x: View, dst: View, product: int) -> list[Step]:
    """The steps for tensors larger than a binding, in parts of rows; a row larger than a binding is
    cut into parts of pieces. The sums are the same as in one call."""
    last = x.ndim - 1
    views = {"x": x, "dst": dst}
    lines = [x, dst]
    for axis in range(last):
        lines = [narrow(v, axis, 0, 1) for v in lines]
    found: list[Step] = []
    if all(fits_binding(caps, v) for v in lines):
        axes = [{"x": axis, "dst": axis} for axis in range(last)]
        for each in parts(caps, views, axes):
            for part in in_levels(each, axes, LEVELS):
                found += steps(caps, scratch, part.views["x"], part.views["dst"], product)
        return found
    it = Rows(dst.shape, views)
    if it.columns_apart("x") and it.rows >= LEAST_ACROSS:
        return _columns_in_parts(caps, scratch, x, dst, it.rows, it.cols, product)
    if it.rows > MAX_PARTS:
        raise LimitError(f"x has {it.rows} rows that are larger than one binding of this device")
    for row in range(it.rows):
        one = [x, dst]
        for axis in range(last - 1, -1, -1):
            row, at = divmod(row, x.shape[axis])
            one = [narrow(v, axis, at, 1) for v in one]
        found += _pieces_in_parts(caps, scratch, one[0], one[1], product)
    return found


def _pieces_in_parts(caps: Caps, scratch: Scratch, x: View, dst: View, product: int) -> list[Step]:
    """The steps for one row; each step has as many pieces as one binding holds."""
    it, last = Rows(dst.shape, {"x": x, "dst": dst}), x.ndim - 1
    vec = 4 if it.vec(4) else 1
    tile = TILE.threads * _each(TILE.N4, TILE.N1, vec)
    tiles = cdiv(it.cols, tile)
    each = cdiv(tiles, MOST_PIECES)
    pieces = cdiv(tiles, each)
    totals = scratch.empty((1, pieces), _sums(x))
    running = scratch.empty((1, pieces), _sums(x))
    before: list[Step] = []
    after: list[Step] = []
    for first, count in _spans(caps, x, dst, pieces, each * tile):
        start, n = first * each * tile, min(count * each * tile, it.cols - first * each * tile)
        part, to = narrow(x, last, start, n), narrow(dst, last, start, n)
        sums = narrow(totals, 1, first, count)
        before.append(
            scan_totals.step(caps, part, sums, VEC=vec, pieces=count, tiles=each, product=product)
        )
        after.append(
            scan_pieces.step(
                caps, part, running, to, VEC=vec, pieces=count, before=first, tiles=each,
                product=product,
            )
        )  # fmt: skip
    return [*before, *steps(caps, scratch, totals, running, product), *after]


def _columns_in_parts(
    caps: Caps, scratch: Scratch, x: View, dst: View, rows: int, cols: int, product: int
) -> list[Step]:
    """Like `_columns`, but in parts: each part has as many pieces of all rows as one binding
    holds."""
    last = x.ndim - 1
    bits = min((rows - 1).bit_length(), THREADS.bit_length() - 1)
    blocks = cdiv(rows, 1 << bits)
    run = 1 << ((cols - 1).bit_length() + 1) // 2
    pieces = cdiv(cols, run)
    totals = scratch.empty((pieces, rows), _sums(x))
    running = scratch.empty((pieces, rows), _sums(x))
    views = [v.with_layout((rows, pieces), (4, 4 * rows)) for v in (totals, running)]
    before: list[Step] = []
    after: list[Step] = []
    for first, count in _spans(caps, x, dst, pieces, run):
        start, n = first * run, min(count * run, cols - first * run)
        part, to = narrow(x, last, start, n), narrow(dst, last, start, n)
        sums = narrow(totals, 0, first, count)
        before.append(
            scan_column_totals.step(
                caps, part, sums, blocks=blocks, run=run, lane_bits=bits, product=product
            )
        )
        after.append(
            scan_columns.step(
                caps, part, running, to, blocks=blocks, run=run, before=first, lane_bits=bits,
                product=product,
            )
        )  # fmt: skip
    middle = _columns(caps, scratch, views[0], views[1], rows, pieces, product)
    return [*before, *middle, *after]


def _spans(caps: Caps, x: View, dst: View, pieces: int, length: int) -> list[tuple[int, int]]:
    """The first piece and the number of pieces of each part; a piece has `length` elements."""
    most = pieces
    last = x.ndim - 1
    while most > 1 and not all(
        fits_binding(caps, narrow(v, last, 0, min(most * length, v.shape[last]))) for v in (x, dst)
    ):
        most = cdiv(most, 2)
    return [(first, min(most, pieces - first)) for first in range(0, pieces, most)]


def _each(vectors: int, scalars: int, vec: int) -> int:
    """The number of elements of an invocation."""
    return 4 * vectors if vec == 4 else scalars


def _sums(x: View) -> DTypeName:
    return "uint32" if x.dtype.name == "uint32" else "float32"


def _columns(
    caps: Caps, scratch: Scratch, x: View, dst: View, rows: int, cols: int, product: int
) -> list[Step]:
    """The steps in which neighbouring invocations scan neighbouring rows, each along one piece."""
    bits = min((rows - 1).bit_length(), THREADS.bit_length() - 1)
    blocks = cdiv(rows, 1 << bits)
    full = rows >= 1024 * caps.tuning.device.units
    if cols <= (LONG_WALK if full else SHORT_WALK):
        return [
            scan_columns.step(
                caps, x, None, dst, blocks=blocks, run=cols, before=0, lane_bits=bits,
                product=product,
            )
        ]  # fmt: skip
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
            caps, x, running, dst, blocks=blocks, run=run, before=0, lane_bits=bits,
            product=product,
        ),
    ]  # fmt: skip
