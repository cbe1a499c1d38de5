"""Shared code of matrix products with numpy's rules: the result's shape, and vectors as
matrices."""

from __future__ import annotations

from pykernels.device import Tensor
from pykernels.errors import ShapeError
from pykernels.tensors.layout import expanded

__all__ = ["matrices", "product_shape", "spread", "with_axes"]

_CORE = "with core signature (n?,k),(k,m?)->(n?,m?)"


def product_shape(op: str, left: Tensor, right: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The result's batch axes, and its numbers of rows and columns."""
    for number, t in enumerate((left, right)):
        if t.ndim == 0:
            raise ShapeError(
                f"[{op}] operand {number} ({'ab'[number]}) does not have enough dimensions (has "
                f"0, {_CORE} requires 1)"
            )
    cols = right.ndim > 1
    depth = right.shape[-2] if cols else right.shape[0]
    if left.shape[-1] != depth:
        raise ShapeError(
            f"[{op}] the last axis of a and the {'second last' if cols else 'only'} axis of b "
            f"must have one size but a has shape {left.shape} and b has shape {right.shape}"
        )
    try:
        lead = expanded(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"[{op}] operands could not be broadcast together: a has shape {left.shape}, b has "
            f"shape {right.shape}"
        ) from None
    return lead, left.shape[-2:-1] + (right.shape[-1:] if cols else ())


def matrices(
    left: Tensor, right: Tensor, result: Tensor, lead: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """The tensors of a product in the order of mul_mat: mul_mat's a has the columns of the
    result."""
    rows, cols = left.ndim > 1, right.ndim > 1
    matrix_a = left if rows else left[None, :]
    matrix_b = right if cols else right[:, None]
    lead_b = range(matrix_b.ndim - 2)
    columns_b = matrix_b.transpose(*lead_b, matrix_b.ndim - 1, matrix_b.ndim - 2)
    return (
        columns_b.broadcast_to((*lead, *columns_b.shape[-2:])),
        matrix_a.broadcast_to((*lead, *matrix_a.shape[-2:])),
        with_axes(result, rows, cols),
    )


def spread(
    op: str, name: str, t: Tensor | None, shape: tuple[int, ...], rows: bool, cols: bool
) -> Tensor | None:
    """An addend, broadcast to the shape of the result, with the axes added that vectors lack."""
    if t is None:
        return None
    try:
        return with_axes(t.broadcast_to(shape), rows, cols)
    except ValueError:
        raise ShapeError(
            f"[{op}] {name} must broadcast to {shape} but has shape {t.shape}"
        ) from None


def with_axes(t: Tensor, rows: bool, cols: bool) -> Tensor:
    """A view to which the axes that vectors lack are added."""
    if not rows:
        t = t[..., None, :] if cols else t[..., None]
    return t if cols else t[..., None]
