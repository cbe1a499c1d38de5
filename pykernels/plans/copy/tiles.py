"""Tiles of transposes: the numbers of rows and columns, and the places of their elements."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.steps import cdiv

__all__ = ["Sides", "block_sides", "tile_sides"]

# For each number of bytes of an element, the base-2 logarithm of the number of banks of workgroup
# memory; an element of more than four bytes takes several of its 32 banks.
BANKS = {1: 5, 2: 5, 4: 5, 8: 4, 16: 3}


class Sides(NamedTuple):
    """A tile of 2^rows x 2^cols elements. Each column is contiguous in workgroup memory; in column
    c, row r lies at r ^ (c << left >> right)."""

    rows: int
    cols: int
    left: int
    right: int


def tile_sides(height: int, width: int, bits: int, nbytes: int) -> Sides:
    """The sides of a tile of 2^bits elements of a matrix. They are chosen so that few elements lie
    outside of the matrix; among about equally good sides, the tile is as square as possible. No
    side is below 16, unless the matrix is smaller."""
    tall, wide = (height - 1).bit_length(), (width - 1).bit_length()
    cols = max(
        range(min(4, wide), bits - min(4, tall) + 1),
        key=lambda c: (
            _used(height, 1 << (bits - c)) * _used(width, 1 << c) // 800, -abs(2 * c - bits)
        ),
    )  # fmt: skip
    return _permuted(bits - cols, cols, BANKS[nbytes])


def block_sides(height: int, width: int, bits: int) -> tuple[int, int]:
    """Bits of the rows and columns of 2^bits blocks of a matrix, by the rules of `tile_sides`; a
    small matrix has fewer blocks."""
    tall, wide = (height - 1).bit_length(), (width - 1).bit_length()
    cols = max(
        range(min(2, wide), min(bits - min(2, tall), wide) + 1),
        key=lambda c: (
            min(bits - c, tall) + c,
            _used(height, 1 << min(bits - c, tall)) * _used(width, 1 << c) // 800,
            -abs(2 * c - bits),
        ),
    )
    return min(bits - cols, tall), cols


def _used(size: int, side: int) -> int:
    """The share of tiles with this side that a matrix fills along one axis, in hundredths."""
    return 100 * size // (cdiv(size, side) * side)


def _permuted(rows: int, cols: int, banks: int) -> Sides:
    """The elements of a column lie in neighbouring banks. The shifts put the elements of a row into
    different banks, too."""
    if rows >= banks:
        return Sides(rows, cols, max(banks - cols, 0), 0)
    return Sides(rows, cols, 0, banks - rows)
