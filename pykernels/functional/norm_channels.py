"""The norm of neighbouring channels, with torch's name and arguments."""

from __future__ import annotations

from pykernels._generated.operations.pool import avg_pool2d
from pykernels.call.again import again
from pykernels.call.apply import evaluate
from pykernels.call.arrays import Array
from pykernels.call.scalars import integer, real
from pykernels.device import Tensor, default_device
from pykernels.dtypes import FLOATS
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.launch import run
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name

__all__ = ["local_response_norm"]


@again
@whole
def local_response_norm(
    x: Array,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    *,
    out: Tensor | None = None,
) -> Array:
    """x / (k + alpha m)^beta, as torch.nn.functional.local_response_norm.

    m is the mean of the squares of `size` neighbouring channels, from size // 2 before an element's
    channel to (size - 1) // 2 after it. Channels beyond the ends count as 0. Squares are summed
    in f32. The call makes three passes over memory, four for float16.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, C, ...) with two axes or more.
        size: The number of channels.
        alpha: Factor of the mean.
        beta: Exponent.
        k: Added to the mean.
        out: The Tensor to write to, with x's shape and dtype; it may be x. None makes one.

    Returns:
        A numpy array if x is one and out is None, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError and the errors of `pykernels.kernels`.

    Source: Krizhevsky, Sutskever and Hinton 2012.
    """
    op = "local_response_norm"
    width = integer(op, "size", size)
    if width < 1:
        raise ArgumentError(f"[{op}] size must be 1 or more but is {width}")
    numbers = {"alpha": real(op, "alpha", alpha), "beta": real(op, "beta", beta)}
    dtype = str(getattr(x, "dtype", type_name(x)))
    if dtype not in FLOATS:
        raise DTypeError(f"[{op}] x must be float32, float16 or bfloat16 but is {dtype}")
    if x.ndim < 2:
        raise ShapeError(f"[{op}] x must have the axes (N, C, ...) but has shape {x.shape}")
    if out is not None and (out.shape, out.dtype) != (x.shape, dtype):
        raise ShapeError(f"[{op}] out must have shape {x.shape} and dtype {dtype}")
    t = x if isinstance(x, Tensor) else (out.device if out else default_device()).tensor(x)
    result = t.device.empty(t.shape, t.dtype) if out is None else out
    if t.size:
        squares = evaluate(op, "float32(x) * float32(x)", {"x": t}, None)
        images = squares.reshape(t.shape[0], 1, t.shape[1], -1)
        means = avg_pool2d(images, (width, 1), 1, (width // 2, 0))[:, :, : t.shape[1]]
        operands = {"x": t, "m": means.reshape(t.shape), "k": real(op, "k", k), **numbers}
        text = "x * (k + alpha * m) ** -beta"
        if result.dtype == "float32":
            evaluate(op, text, operands, result)
        else:
            run(result._context.copy, (evaluate(op, text, operands, None), result))
    return result if isinstance(x, Tensor) or out is not None else result.numpy()
