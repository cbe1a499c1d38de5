"""solve_tri: one dispatch, in which a workgroup solves for 16 columns of one batch."""

from __future__ import annotations

from pykernels._generated.bodies import solve_tri as body
from pykernels.errors import ShapeError
from pykernels.plans.parts import in_levels, parts
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import Tiles, View

__all__ = ["plan"]


def plan(
    caps: Caps, scratch: Scratch, a: View, b: View, dst: View, unit: bool = False
) -> list[Step]:
    """One dispatch, more if a tensor is larger than one binding; none for an empty dst."""
    if b.shape != dst.shape or b.ndim < 2 or a.shape != (*b.shape[:-1], b.shape[-2]):
        raise ShapeError(
            "[solve_tri] a must be (..., n, n) and b and dst (..., n, k) but they have shapes "
            f"{a.shape}, {b.shape} and {dst.shape}"
        )
    if dst.size == 0:
        return []
    axes = [{"a": axis, "b": axis, "dst": axis} for axis in range(dst.ndim - 2)]
    columns = {"b": dst.ndim - 1, "dst": dst.ndim - 1}
    found = [
        part.views
        for each in parts(caps, {"a": a, "b": b, "dst": dst}, [*axes, columns])
        for part in in_levels(each, axes, Tiles.LEVELS)
    ]
    return [body.step(caps, v["a"], v["b"], v["dst"], is_unit=int(unit)) for v in found]
