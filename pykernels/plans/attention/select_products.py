"""Attention as two products with a softmax between them: the expected time, and the queries of a
chunk."""

from __future__ import annotations

from typing import NamedTuple

from pykernels.plans.cost import copy_seconds
from pykernels.plans.matmul.select import GemmShape, gemm_seconds, units_seconds
from pykernels.plans.matmul.select_mma import longest_slice
from pykernels.steps import Caps, cdiv

from .arguments import Dims

__all__ = ["ProductsCost", "heads_of", "on_units", "products_cost"]

LEAST = 64  # fewest queries of a chunk
MOST = 64  # most chunks of a call


class ProductsCost(NamedTuple):
    """The expected seconds of a call, and the number of queries of a chunk."""

    seconds: float
    queries: int


def on_units(caps: Caps, halves: bool) -> bool:
    """True if matrix units compute the products; weights are then stored as halves."""
    return halves and caps.matrix is not None


def heads_of(caps: Caps, d: Dims, queries: int) -> int:
    """The number of KV heads whose scores, for this number of queries, fit the table's `room`."""
    room = min(caps.tuning.attention.products.room, caps.max_binding - caps.alignment)
    each = 4 * d.group * queries * cdiv(d.keys, 4) * 4
    return min(room // each, d.batch * d.kv_heads)


def products_cost(caps: Caps, d: Dims, banded: bool, halves: bool) -> ProductsCost | None:
    """The cost of the best chunks; None if the scores need too many chunks."""
    found = []
    queries = d.queries
    while True:
        some = heads_of(caps, d, queries)
        chunks = cdiv(d.queries, queries) * cdiv(d.batch * d.kv_heads, max(some, 1))
        if some > 0 and chunks <= MOST:
            found.append(ProductsCost(_seconds(caps, d, queries, banded, halves), queries))
        if queries <= LEAST:
            break
        queries = cdiv(cdiv(queries, 2), LEAST) * LEAST
    return min(found) if found else None


def _seconds(caps: Caps, d: Dims, queries: int, banded: bool, halves: bool) -> float:
    """The model: keys are transposed once. Each chunk takes a product for the scores, a softmax
    that reads and writes the scores, and a product with the values. With a band, a chunk is assumed
    to have half of the keys, and the keys around its own diagonal."""
    t = caps.tuning
    chunks = cdiv(d.queries, queries)
    some = heads_of(caps, d, queries)
    passes = cdiv(d.batch * d.kv_heads, some)
    keys = min(cdiv(d.keys * (chunks + 1), 2 * chunks), d.keys) if banded else d.keys
    heads = some * d.group
    units = on_units(caps, halves)
    item = 2 if units else 4
    scores = _product(caps, heads, queries, keys, d.depth, units)
    values = _product(caps, heads, queries, d.value_depth, keys, units)
    moved = (4 + item) * heads * queries * keys  # bytes that pass between the three dispatches
    each = scores + values + 2 * moved / t.device.copy + 3 * t.attention.dispatch
    before = 0.0
    if not units:
        nbytes = 4 * d.batch * d.kv_heads * d.keys * d.depth
        before = copy_seconds(nbytes, t.attention.dispatch, t.device.copy)
    return before + chunks * passes * each


def _product(caps: Caps, heads: int, rows: int, cols: int, depth: int, units: bool) -> float:
    shape = GemmShape(heads, rows, cols, depth, False)
    if units:
        found = units_seconds(caps, shape._replace(halves=True, longest=longest_slice(depth)))
        if found is not None:
            return found
    found = gemm_seconds(caps, shape)
    if found is not None:
        return found
    return 2 * heads * rows * cols * depth / caps.tuning.matmul.gemm_tile.rate
