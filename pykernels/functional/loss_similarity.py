"""The similarity of vectors."""

from __future__ import annotations

from dataclasses import replace

from pykernels._generated.kernels.maximum import KERNEL
from pykernels._generated.operations.reduce import norm
from pykernels.call.again import again
from pykernels.call.apply import reduce
from pykernels.call.arrays import Array, Call
from pykernels.call.autocast import live, recast
from pykernels.call.promotion import promote
from pykernels.call.scalars import real
from pykernels.errors import ArgumentError
from pykernels.runtime.whole import whole
from pykernels.tensors.axes import axis_of

__all__ = ["cosine_similarity"]

_ARGS = tuple(
    replace(KERNEL.args[0], name=name, dtypes=("float32", "float16")) for name in ("x1", "x2")
)
_COSINE = replace(KERNEL, name="cosine_similarity", args=_ARGS)


@again
@whole
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """The cosine of the angle between vectors along an axis, as in torch:
    sum(x1 / max(|x1|, eps) * x2 / max(|x2|, eps)).

    Computed in f32. A vector of zeros gives 0, and the gradient is finite there.

    Args:
        x1: Tensor or numpy array, float32, float16 or bfloat16.
        x2: Like x1; x1 and x2 repeat to one shape by numpy's rule.
        dim: The axis of the vectors, in the common shape.
        eps: The smallest divisor, above 0: a shorter length counts as eps.

    Returns:
        A numpy array if both are numpy arrays, else a Tensor: the common shape without the axis,
        of the common dtype of x1 and x2, or float32 if they differ.

    Raises:
        ArgumentError, DTypeError, ShapeError and the errors of `pykernels.kernels`.
    """
    op = "cosine_similarity"
    least = real(op, "eps", eps)
    if not least > 0:
        raise ArgumentError(f"[{op}] eps must be above 0 but is {eps}")
    if live:
        x1, x2 = recast(op, x1, x2)
    call = Call(_COSINE, x1, x2)
    a, b = call.tensor("x1", x1), call.tensor("x2", x2)
    shape = call.expanded(x1=a.shape, x2=b.shape)
    axis = axis_of(op, dim, len(shape))
    dtype = promote(a.dtype, b.dtype)
    given: dict[str, Array | float] = {"eps": least}
    for name, t in (("a", a), ("b", b)):
        # Each operand is broadcast only along the axis of the vectors, so a vector that repeats
        # along other axes has its length computed once.
        t = t if t.dtype == "float32" else t.astype("float32")
        t = t[(None,) * (len(shape) - t.ndim)] if t.ndim < len(shape) else t
        t = t.broadcast_to((*t.shape[:axis], shape[axis], *t.shape[axis + 1 :]))
        given |= {name: t, f"length_{name}": norm(t, axis, keepdims=True)}
    text = "a / maximum(length_a, eps) * (b / maximum(length_b, eps))"
    found = reduce(op, text, "sum", given, axis, False, None)
    return call.leave(found if dtype == "float32" else found.astype(dtype))
