"""Sparse products: the gradient of x is a product with the transposed matrix, and the gradient of
an element is a dot product of two rows."""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels.tape import Taped, reads


@reads("data", "indices", "indptr", "x")
def csr_matmul(call: Taped) -> None:
    dy, check = call.dy(), call.option("check")
    indices, indptr = call.saved("indices"), call.saved("indptr")
    shape = call.shape("x")
    assert shape is not None
    inner, elements = shape[0], indices.shape[0]
    numbers = F.arange(elements, dtype="int32", device=dy.device)
    rows = F.searchsorted(indptr, numbers, side="right") - 1
    if call.wants("data"):
        inside = (indices >= 0) & (indices < inner)
        columns = F.where(inside, indices, 0)
        products = _rows(dy, rows) * _rows(call.saved("x"), columns)
        each = F.where(inside, F.sum(products, axis=1), 0)
        call.give("data", each.astype(call.saved("data").dtype))
    if call.wants("x"):
        # The elements sorted by column. Within a column they are in the order of their rows,
        # because the sort is stable.
        order = F.argsort(indices)
        taken: Any = F.index_select(rows, 0, order)
        ends = F.arange(inner + 1, dtype="int32", device=dy.device)
        starts: Any = F.searchsorted(F.index_select(indices, 0, order), ends)
        dx = dy.device.empty(shape, dy.dtype)
        kernels.csr_matmul(
            F.index_select(call.saved("data"), 0, order), taken, starts,
            dy, dx, check=check,
        )  # fmt: skip
        call.give("x", dx.astype(call.saved("x").dtype))


def _rows(x: Any, index: Any) -> Any:
    return F.index_select(x, 0, index).astype("float32")
