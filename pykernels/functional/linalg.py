"""Linear systems, their factors, inverses and determinants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pykernels._generated.kernels import cholesky as _cholesky
from pykernels._generated.kernels import lu_factor as _lu_factor
from pykernels._generated.kernels import solve as _solve_any
from pykernels._generated.kernels import solve_tri as _solve_tri
from pykernels._generated.operations.reduce import prod
from pykernels._generated.wrappers import cholesky as _factor
from pykernels._generated.wrappers import lu_factor as _lu
from pykernels._generated.wrappers import solve as _any
from pykernels._generated.wrappers import solve_tri as _wrapper
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import DTypeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.steps import Kernel

from .elementwise import elementwise
from .fill_sequences import arange, eye
from .reduce_expressions import reduction

__all__ = [
    "cholesky", "cholesky_solve", "det", "inv", "lu_factor", "slogdet", "solve",
    "solve_triangular",
]  # fmt: skip


def _wide(kernel: Kernel, name: str) -> Kernel:
    """The kernel under the name of a function, which also takes float16 and bfloat16; these are
    converted for the kernel."""
    args = tuple([replace(a, dtypes=("float32", "float16")) for a in kernel.args])
    return replace(kernel, name=name, args=args)


_SOLVE = _wide(_solve_tri.KERNEL, "solve_triangular")
_SOLVE_BOTH = replace(
    _SOLVE,
    name="cholesky_solve",
    args=(replace(_SOLVE.args[0], name="factor"), *_SOLVE.args[1:]),
)
_SOLVE_ANY = _wide(_solve_any.KERNEL, "solve")
_INV = _wide(_solve_any.KERNEL, "inv")
_DET = _wide(_lu_factor.KERNEL, "det")
_SLOGDET = _wide(_lu_factor.KERNEL, "slogdet")


@again
@whole
def cholesky(a: Array, *, upper: bool = False, out: Tensor | None = None) -> Array:
    """The Cholesky factor of symmetric positive definite matrices (numpy.linalg, torch.linalg).

    The lower triangle l with l @ l.mT = a, or for upper=True the upper triangle u with
    u.mT @ u = a. Computed in f32. The other triangle of a is not used. The host reads nothing, so
    no error is raised for a matrix without a factor, where numpy raises LinAlgError. Instead, if
    the pivot of a column is not a positive, finite, normal number, the factor's triangle is NaN
    from this column to the last (for upper=True, from this row to the last). The gradient is the
    same as in torch: symmetric, for a symmetric a.

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
        x, with the common leading axes, and the other axes and the dtype of b: a numpy array if
        both are numpy arrays, else a Tensor.

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


@again
@whole
def solve(a: Array, b: Array, *, out: Tensor | None = None) -> Array:
    """The solution x of a @ x = b for square matrices a (numpy.linalg, torch.linalg).

    It is computed by LU factors with partial pivoting and two substitutions, in f32. The host reads
    nothing: a matrix that is singular, or that rounding makes singular, gives infinities or NaN,
    where numpy raises LinAlgError. The gradient of b solves the transposed system, and the gradient
    of a is the product of this solution with -x. For a singular matrix both gradients are
    infinities or NaN.

    Args:
        a: Tensor or numpy array (..., n, n), float32, float16 or bfloat16.
        b: Tensor or numpy array of the dtype of a: a vector (n,), or matrices (..., n, k), as in
            numpy 2. (In torch, a b with the shape of a without its last axis holds vectors.)
            Leading axes of a and b repeat by numpy's rule; a matrix that repeats is factored each
            time.
        out: The Tensor to write to, which may be b; None makes one.

    Returns:
        x, with the common leading axes of a and b, the other axes of b and the dtype of a. A numpy
        array if both are numpy arrays, else a Tensor.

    Raises:
        ShapeError: a is not square, or b does not fit it.
        DTypeError: another dtype, or two different dtypes.
        LimitError: a matrix does not fit one binding, or n is about 20,000 or more.

    Source: Golub and Van Loan, Matrix Computations, section 3.4; LAPACK gesv.
    """
    return _solved(Call(_SOLVE_ANY, a, b, out=out), a, b, True, _any.solve, vectors=True)


@again
@whole
def inv(a: Array, *, out: Tensor | None = None) -> Array:
    """The inverses of square matrices (numpy.linalg, torch.linalg): `solve` with the identity.

    A singular matrix gives infinities or NaN, where numpy raises LinAlgError. For the product of an
    inverse with something else, `solve` is faster and more exact.

    Args:
        a: Tensor or numpy array (..., n, n), float32, float16 or bfloat16.
        out: The Tensor to write to, which may be a; None makes one.

    Returns:
        The inverses, with the shape and dtype of a. A numpy array if a is one, else a Tensor.

    Raises:
        ShapeError: a is not square. DTypeError: another dtype.
        LimitError: a matrix does not fit one binding, or n is about 20,000 or more.
    """
    call = Call(_INV, a, out=out)
    of = _square(call, a)
    ones = eye(of.shape[-1], dtype=of.dtype, device=of.device)
    return _solved(call, of, ones, True, _any.solve)


@again
@whole
def lu_factor(a: Array) -> tuple[Array, Array]:
    """The LU factors of square matrices, with partial pivoting, and the pivots (scipy.linalg,
    torch.linalg).

    With its rows exchanged, a is l @ u; the diagonal of l is ones. Computed in f32. The pivot of a
    column is its element of the largest magnitude on and below the diagonal, or the first of
    several equal elements. So the results of devices differ only by rounding. NaN counts as the
    largest; it spreads to all later rows and columns. A singular matrix has factors too, with a 0
    on the diagonal of u. Where no magnitude is a normal number, the column of l below the diagonal
    is 0.

    Args:
        a: Tensor or numpy array (..., n, n), float32.

    Returns:
        The factors, float32, as one matrix with the shape of a: u on and above the diagonal, l
        below it. And the pivots, int32 (..., n): row k was exchanged with row pivots[k], for k = 0,
        1, ... in this order; torch counts rows from 1. Two numpy arrays if a is one, else Tensors.

    Raises:
        ShapeError: a is not square. DTypeError: another dtype.
        LimitError: a matrix does not fit one binding, or n is about 20,000 or more.

    Source: LAPACK getrf; Golub and Van Loan, Matrix Computations, section 3.4.
    """
    call = Call(_lu_factor.KERNEL, a)
    lu, pivots = _factored(_square(call, a))
    return call.leave(lu), call.leave(pivots)


@again
@whole
def det(a: Array, *, out: Tensor | None = None) -> Array:
    """The determinants of square matrices (numpy.linalg, torch.linalg).

    A determinant is the product of the diagonal of u from `lu_factor`, negated for each exchange of
    rows, in f32: 0 for a singular matrix, 1 for n = 0. The product may overflow or underflow (and
    infinity times 0 is NaN), where `slogdet` does not. The gradient is the determinant times the
    transposed inverse, which is infinities or NaN for a singular matrix.

    Args:
        a: Tensor or numpy array (..., n, n), float32, float16 or bfloat16.
        out: The Tensor to write to; None makes one.

    Returns:
        The determinants, with the leading axes of a and its dtype. A numpy array if a is one, else
        a Tensor.

    Raises:
        ShapeError: a is not square. DTypeError: another dtype.
        LimitError: a matrix does not fit one binding, or n is about 20,000 or more.
    """
    call = Call(_DET, a, out=out)
    of = _square(call, a)
    result = call.out(of.shape[:-2], of.dtype)
    wide = result if of.dtype == "float32" else call.empty(of.shape[:-2], "float32")
    prod(_signed_diagonal(of), axis=-1, out=wide)
    if wide is not result:
        run(result._context.copy, (wide, result))
    return call.leave(result)


@again
@whole
def slogdet(a: Array) -> tuple[Array, Array]:
    """The sign and the logarithm of the magnitude of determinants (numpy.linalg, torch.linalg).

    Both are computed from the diagonal of u of `lu_factor`, in f32. A singular matrix has sign 0
    and logarithm -inf. The gradient of the logarithm is the transposed inverse, which is infinities
    or NaN for a singular matrix; the gradient of the sign is 0.

    Args:
        a: Tensor or numpy array (..., n, n), float32, float16 or bfloat16.

    Returns:
        The signs (-1, 0 or 1) and the logarithms, each with the leading axes of a and its dtype.
        Two numpy arrays if a is one, else Tensors.

    Raises:
        ShapeError: a is not square. DTypeError: another dtype.
        LimitError: a matrix does not fit one binding, or n is about 20,000 or more.
    """
    call = Call(_SLOGDET, a)
    of = _square(call, a)
    signed = _signed_diagonal(of)
    sign, size = (call.empty(of.shape[:-2], "float32") for _ in range(2))
    reduction("sign(x)", "prod", axis=-1, out=sign, x=signed)
    reduction("log(abs(x))", "sum", axis=-1, out=size, x=signed)
    if of.dtype != "float32":
        sign, size = sign.astype(of.dtype), size.astype(of.dtype)
    return call.leave(sign), call.leave(size)


def _square(call: Call, a: Array) -> Tensor:
    """a as a tensor; ShapeError unless it holds square matrices."""
    of = call.tensor("a", a)
    if of.ndim < 2 or of.shape[-1] != of.shape[-2]:
        raise ShapeError(f"[{call.op}] a must be (..., n, n) but has shape {of.shape}")
    return of


def _factored(a: Tensor) -> tuple[Tensor, Tensor]:
    """The LU factors and pivots of a float32 tensor."""
    lu, pivots = a.device.empty(a.shape), a.device.empty(a.shape[:-1], "int32")
    _lu.lu_factor(a, lu, pivots)
    return lu, pivots


def _signed_diagonal(a: Tensor) -> Tensor:
    """The diagonal of u, with one element negated for each exchange of two rows."""
    lu, pivots = _factored(a if a.dtype == "float32" else a.astype("float32"))
    rows = arange(a.shape[-1], dtype="int32", device=a.device)
    signed = a.device.empty(pivots.shape)
    diagonal = lu.diagonal(0, -2, -1)
    elementwise("u if p == k else -u", out=signed, u=diagonal, p=pivots, k=rows)
    return signed


def _solved(
    call: Call, a: Array, b: Array, left: bool, solve: Callable[[Tensor, Tensor, Tensor], None],
    vectors: bool = False,
) -> Array:  # fmt: skip
    """The result x that `solve(a, b, x)` writes; solve gets float32 tensors with common leading
    axes. With `vectors`, a tensor b of one axis is a vector."""
    op, name = call.op, "factor" if call.op == _SOLVE_BOTH.name else "a"
    of, given = call.tensor(name, a), call.tensor("b", b)
    wide = given[:, None] if vectors and given.ndim == 1 else given
    size = wide.shape[-2 if left else -1] if wide.ndim > 1 else None
    if of.ndim < 2 or of.shape[-2:] != (size, size):
        wanted = "(..., n, k)" if left else "(..., k, n)"
        raise ShapeError(
            f"[{op}] {name} must be (..., n, n) and b {'(n,) or ' if vectors else ''}{wanted} but "
            f"they have shapes {of.shape} and {given.shape}"
        )
    if of.dtype != given.dtype:
        raise DTypeError(
            f"[{op}] b must have the dtype of {name}, {of.dtype}, but is {given.dtype}"
        )
    lead = call.expanded(**{name: of.shape[:-2], "b": wide.shape[:-2]})
    shape = (*lead, *wide.shape[-2:])
    result = call.out(shape if wide is given else shape[:-1], of.dtype)
    target = result if wide is given else result[..., None]
    x = target
    if of.dtype != "float32":
        of, wide = of.astype("float32"), wide.astype("float32")
        x = result.device.empty(shape)
    solve(of.broadcast_to((*lead, *of.shape[-2:])), wide.broadcast_to(shape), x)
    if x is not target:
        run(result._context.copy, (x, target))
    return call.leave(result)


def _solve(a: Tensor, b: Tensor, x: Tensor, upper: bool, left: bool, unit: bool) -> None:
    """Solve any triangle as a lower triangle: by reversing the rows, or by transposing the
    system."""
    if not left:
        a, b, x = a.swapaxes(-1, -2), b.swapaxes(-1, -2), x.swapaxes(-1, -2)
    if upper == left:
        a, b, x = a[..., ::-1, ::-1], b[..., ::-1, :], x[..., ::-1, :]
    _wrapper.solve_tri(a, b, x, unit=unit)
