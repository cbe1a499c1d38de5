"""Linear systems: the gradient of b solves the transposed system. Cholesky factors: Murray 2016,
Differentiation of the Cholesky decomposition. LU factors: de Hoog, Anderssen and Lukas 2011,
Differentiation of matrix functionals using triangular factorization."""

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


@reads("a", "dst")
def solve(call: Taped) -> None:
    """db = a^-T dy and da = -db dst^T."""
    db = F.solve(call.saved("a").swapaxes(-1, -2), call.dy())
    call.give("b", db)
    if call.wants("a"):
        call.give("a", F.neg(matmul(db, call.saved("dst").swapaxes(-1, -2))))


@reads("a", "dst")
def lu_factor(call: Taped) -> None:
    """With a = p l u, where p exchanges rows, da is p l^-T y u^-T. Below the diagonal y is l^T dl,
    and elsewhere du u^T. Because p l^-T is a^-T u^T, the rule solves with a^T and exchanges no
    rows."""
    lu, dy = call.saved("dst"), call.dy()
    lower, upper, dl = F.tril(lu, -1), F.triu(lu), F.tril(dy, -1)
    upper = upper.swapaxes(-1, -2)
    y = F.add(F.tril(F.add(matmul(lower.swapaxes(-1, -2), dl), dl), -1),
              F.triu(matmul(F.triu(dy), upper)))  # fmt: skip
    y = F.solve_triangular(upper, y, upper=False, left=False)
    call.give("a", F.solve(call.saved("a").swapaxes(-1, -2), matmul(upper, y)))
