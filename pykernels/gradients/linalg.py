"""Triangular systems: the gradient of b solves the transposed system. Cholesky factors: Murray
2016, Differentiation of the Cholesky decomposition."""

from __future__ import annotations

from pykernels import functional as F
from pykernels._generated.operations.matmul import matmul
from pykernels.tape import Taped, reads


@reads("a", "dst")
def solve_tri(call: Taped) -> None:
    """db = a^-T dy, and da = -db dst^T below the diagonal; also on the diagonal, unless it is taken
    as ones."""
    unit = call.option("unit")
    a, db = call.saved("a"), call.dy()
    db = F.solve_triangular(a.swapaxes(-1, -2), db, upper=True, unitriangular=unit)
    call.give("b", db)
    if call.wants("a"):
        da = matmul(db, call.saved("dst").swapaxes(-1, -2))
        call.give("a", F.tril(F.neg(da), -1 if unit else 0))


@reads("dst")
def cholesky(call: Taped) -> None:
    """da is the symmetric part of l^-T p l^-1; p is the lower triangle of l^T dl, with half of its
    diagonal."""
    lower = call.saved("dst")
    upper = lower.swapaxes(-1, -2)
    product = matmul(upper, call.dy())
    p = F.mul(F.add(F.tril(product), F.tril(product, -1)), 0.5)
    p = F.solve_triangular(upper, p, upper=True)
    p = F.solve_triangular(lower, p, upper=False, left=False)
    call.give("a", F.mul(F.add(p, p.swapaxes(-1, -2)), 0.5))
