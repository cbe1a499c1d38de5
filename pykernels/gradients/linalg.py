"""Triangular systems: the gradient of b solves the transposed system."""

from __future__ import annotations

from pykernels import functional as F
from pykernels._generated.operations.matmul import matmul
from pykernels.tape import Taped, reads


@reads("a", "dst")
def solve_tri(call: Taped) -> None:
    """db = a^-T dy, da = -db dst^T below the diagonal, and on the diagonal if it counts."""
    unit = call.option("unit")
    a, db = call.saved("a"), call.dy()
    db = F.solve_triangular(a.swapaxes(-1, -2), db, upper=True, unitriangular=unit)
    call.give("b", db)
    if call.wants("a"):
        da = matmul(db, call.saved("dst").swapaxes(-1, -2))
        call.give("a", F.tril(F.neg(da), -1 if unit else 0))
