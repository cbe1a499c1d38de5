"""Linear systems."""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.kernels import solve_tri as _solve_tri
from pykernels._generated.wrappers import solve_tri as _wrapper
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import DTypeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole

__all__ = ["solve_triangular"]

# The function's dtypes; float16 and bfloat16 are converted for the kernel.
_SOLVE = replace(
    _solve_tri.KERNEL,
    name="solve_triangular",
    args=tuple([replace(a, dtypes=("float32", "float16")) for a in _solve_tri.KERNEL.args]),
)


@again
@whole
def solve_triangular(
    a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The solution x of a @ x = b for a triangular matrix a (torch.linalg).

    By substitution in f32, row after row. The other triangle of a is not used. A zero on the
    diagonal leads to infinities or NaN.

    Args:
        a: Tensor or numpy array (..., n, n), float32, float16 or bfloat16.
        b: Tensor or numpy array of the dtype of a, (..., n, k), or (..., k, n) for left=False;
            leading axes repeat by numpy's rule.
        upper: True for an upper triangle.
        left: False solves x @ a = b.
        unitriangular: True treats the diagonal as ones.
        out: The Tensor to write to, which may be b; None makes one.

    Returns:
        x, with the shape of b, the common leading axes of a and b, and the dtype of a: a numpy
        array if both are numpy arrays, else a Tensor.

    Raises:
        ShapeError: a is not square, or b does not fit it.
        DTypeError: another dtype, or two different dtypes.
    """
    found = _solved(a, b, upper, left, unitriangular, out)
    return found


def _solved(a: Array, b: Array, upper: bool, left: bool, unit: bool, out: Tensor | None) -> Array:
    op = "solve_triangular"
    upper, left = flag(op, "upper", upper), flag(op, "left", left)
    unit = flag(op, "unitriangular", unit)
    call = Call(_SOLVE, a, b, out=out)
    of, given = call.tensor("a", a), call.tensor("b", b)
    size = given.shape[-2 if left else -1] if given.ndim > 1 else None
    if of.ndim < 2 or of.shape[-2:] != (size, size):
        wanted = "(..., n, k)" if left else "(..., k, n)"
        raise ShapeError(
            f"[{op}] a must be (..., n, n) and b {wanted} but they have shapes {of.shape} and "
            f"{given.shape}"
        )
    if of.dtype != given.dtype:
        raise DTypeError(f"[{op}] b must have the dtype of a, {of.dtype}, but is {given.dtype}")
    lead = call.expanded(a=of.shape[:-2], b=given.shape[:-2])
    shape = (*lead, *given.shape[-2:])
    result = call.out(shape, of.dtype)
    x = result
    if of.dtype != "float32":
        of, given = of.astype("float32"), given.astype("float32")
        x = result.device.empty(shape)
    _solve(
        of.broadcast_to((*lead, *of.shape[-2:])), given.broadcast_to(shape), x, upper, left, unit
    )
    if x is not result:
        run(result._context.copy, (x, result))
    return call.leave(result)


def _solve(a: Tensor, b: Tensor, x: Tensor, upper: bool, left: bool, unit: bool) -> None:
    """Solve any triangle as a lower triangle: by reversing the rows, or by transposing the
    system."""
    if not left:
        a, b, x = a.swapaxes(-1, -2), b.swapaxes(-1, -2), x.swapaxes(-1, -2)
    if upper == left:
        a, b, x = a[..., ::-1, ::-1], b[..., ::-1, :], x[..., ::-1, :]
    _wrapper.solve_tri(a, b, x, unit=unit)
