"""Embeddings of timesteps."""

from __future__ import annotations

from pykernels import kernels
from pykernels._generated.kernels.timestep_embedding import KERNEL
from pykernels.call.arrays import Array, Call
from pykernels.device import Tensor
from pykernels.errors import ShapeError
from pykernels.tensors.host import size_of

__all__ = ["timestep_embedding"]


def timestep_embedding(
    x: Array, dim: int, max_period: float = 10000.0, *, out: Tensor | None = None
) -> Array:
    """Sines and cosines of timesteps, as ggml's timestep_embedding and diffusion models use them.

    With half = dim // 2 and f[j] = max_period^(-j / half) a row is cos(x f), then sin(x f), then a
    0 if dim is odd. Computed in f32: errors grow with x, to about |x f| 2^-22.

    Args:
        x: Tensor or numpy array, float32 or float16, (N,).
        dim: the width of a row, 0 or more.
        max_period: above 0.
        out: The Tensor (N, dim) to write to, float32 or float16; None makes one, float32.

    Returns:
        A Tensor for a Tensor, a numpy array for a numpy array.

    Raises:
        ShapeError, DTypeError, ArgumentError: as `pykernels.kernels.timestep_embedding`.
    """
    call = Call(KERNEL, x, out=out)
    t = call.tensor("x", x)
    if t.ndim != 1:
        raise ShapeError(f"[timestep_embedding] x must have shape (n,) but has shape {t.shape}")
    halves = out is not None and out.dtype == "float16"
    width = size_of("timestep_embedding", "dim", dim)
    result = call.out((t.shape[0], width), "float16" if halves else "float32")
    kernels.timestep_embedding(t, result, max_period=max_period)
    return call.leave(result)
