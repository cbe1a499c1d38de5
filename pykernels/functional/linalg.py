"""Linear systems and Cholesky factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pykernels._generated.kernels import cholesky as _cholesky
from pykernels._generated.kernels import solve_tri as _solve_tri
from pykernels._generated.wrappers import cholesky as _factor
from pykernels._generated.wrappers import solve_tri as _wrapper
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import DTypeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole

__all__ = ["cholesky", "cholesky_solve", "solve_triangular"]

# The dtypes that the functions take; float16 and bfloat16 are converted for the kernel.
_SOLVE = replace(
    _solve_tri.KERNEL,
    name="solve_triangular",
    args=tuple([replace(a, dtypes=("float32", "float16")) for a in _solve_tri.KERNEL.args]),
)
_SOLVE_BOTH = replace(
    _SOLVE,
    name="cholesky_solve",
    args=(replace(_SOLVE.args[0], name="factor"), *_SOLVE.args[1:]),
)


@again
@whole
def cholesky(a: Array, *, upper: bool = False, out: Tensor | None = None) -> Array:
    """The Cholesky factor of symmetric positive definite matrices (numpy.linalg, torch.linalg).

    The lower triangle l with l @ l.mT = a, or for upper=True the upper triangle u with
    u.mT @ u = a. Computed in f32. The other triangle of a is not used. The host reads nothing, so
    no error is raised for a matrix without a factor, where numpy raises LinAlgError. Instead, the
    factor is NaN from the first column whose pivot is not positive (for upper=True, from that row).
    Infinities count as not positive. The
    gradient is the same as in torch: symmetric, for a symmetric a.

    Args:
        a: Tensor or numpy array (..., n, n), float32.
        upper: True reads the upper triangle of a and gives the upper factor.
        out: The Tensor to write to, which may be a; None makes one.

    Returns:
        The factor, with the shape and dtype of a and zeros in the other triangle: a numpy array if
        a is one, else a Tensor.

    Raises:
        ShapeError: a is not square. DTypeError: another dtype. ArgumentError: upper is not a bool.

    Source: Golub and Van Loan, Matrix Computations, section 4.2; the gradient: Murray 2016,
        Differentiation of the Cholesky decomposition.
    """
    op = "cholesky"
    upper = flag(op, "upper", upper)
    call = Call(_cholesky.KERNEL, a, out=out)
    of = call.tensor("a", a)
    if of.ndim < 2 or of.shape[-1] != of.shape[-2]:
        raise ShapeError(f"[{op}] a must be (..., n, n) but has shape {of.shape}")
    result = call.out(of.shape, of.dtype)
    if upper:
        _factor.cholesky(of.swapaxes(-1, -2), result.swapaxes(-1, -2))
    else:
        _factor.cholesky(of, result)
    return call.leave(result)


@again
@whole
def cholesky_solve(
    b: Array, factor: Array, *, upper: bool = False, out: Tensor | None = None
) -> Array:
    """The solution x of a @ x = b from the Cholesky factor of a (torch).

    It is computed by two substitutions in f32, as in `solve_triangular`.

    Args:
        b: Tensor or numpy array (..., n, k), float32, float16 or bfloat16; leading axes of b
            and factor repeat by numpy's rule.
        factor: Tensor or numpy array (..., n, n) of the dtype of b, the result of `cholesky`.
        upper: True if factor is the upper factor.
        out: The Tensor to write to, which may be b; None makes one.

    Returns:
        x, with the common leading axes, the other axes of b and its dtype: a numpy array if both
        are numpy arrays, else a Tensor.

    Raises:
        ShapeError: factor is not square, or b does not fit it.
        DTypeError: the dtypes are not supported, or differ.
    """
    op = "cholesky_solve"
    upper = flag(op, "upper", upper)
    call = Call(_SOLVE_BOTH, factor, b, out=out)

    def solve(a: Tensor, b: Tensor, x: Tensor) -> None:
        lower, y = a.swapaxes(-1, -2) if upper else a, x.device.empty(x.shape)
        _solve(lower, b, y, False, True, False)
        _solve(lower.swapaxes(-1, -2), y, x, True, True, False)

    return _solved(call, factor, b, True, solve)


@again
@whole
def solve_triangular(
    a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False,
    out: Tensor | None = None,
) -> Array:  # fmt: skip
    """The solution x of a @ x = b for a triangular matrix a (torch.linalg).

    It is computed by substitution in f32, row after row. The other triangle of a is not used. A
    zero on the diagonal leads to infinities or NaN.

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
        DTypeError: the dtypes are not supported, or differ.
    """
    op = "solve_triangular"
    upper, left = flag(op, "upper", upper), flag(op, "left", left)
    unit = flag(op, "unitriangular", unitriangular)

    def solve(a: Tensor, b: Tensor, x: Tensor) -> None:
        _solve(a, b, x, upper, left, unit)

    return _solved(Call(_SOLVE, a, b, out=out), a, b, left, solve)


def _solved(
    call: Call, a: Array, b: Array, left: bool, solve: Callable[[Tensor, Tensor, Tensor], None]
) -> Array:
    """The result of `solve(a, b, x)`; solve gets float32 tensors with common leading axes."""
    op, name = call.op, "factor" if call.op == _SOLVE_BOTH.name else "a"
    of, given = call.tensor(name, a), call.tensor("b", b)
    size = given.shape[-2 if left else -1] if given.ndim > 1 else None
    if of.ndim < 2 or of.shape[-2:] != (size, size):
        wanted = "(..., n, k)" if left else "(..., k, n)"
        raise ShapeError(
            f"[{op}] {name} must be (..., n, n) and b {wanted} but they have shapes {of.shape} and "
            f"{given.shape}"
        )
    if of.dtype != given.dtype:
        raise DTypeError(
            f"[{op}] b must have the dtype of {name}, {of.dtype}, but is {given.dtype}"
        )
    lead = call.expanded(**{name: of.shape[:-2], "b": given.shape[:-2]})
    shape = (*lead, *given.shape[-2:])
    result = call.out(shape, of.dtype)
    x = result
    if of.dtype != "float32":
        of, given = of.astype("float32"), given.astype("float32")
        x = result.device.empty(shape)
    solve(of.broadcast_to((*lead, *of.shape[-2:])), given.broadcast_to(shape), x)
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
