"""Norms of images (N, C, ...), with torch's names and arguments."""

from __future__ import annotations

from pykernels import kernels
from pykernels._generated.kernels.batch_norm import KERNEL as BATCH
from pykernels._generated.kernels.batch_norm_training import KERNEL as TRAINING
from pykernels._generated.operations.norm import group_norm
from pykernels.call.again import again
from pykernels.call.arrays import Array, Call, array_of
from pykernels.call.autocast import live, recast
from pykernels.call.scalars import flag
from pykernels.device import Tensor
from pykernels.errors import ArgumentError, DTypeError, ShapeError
from pykernels.runtime.whole import whole
from pykernels.tensors.host import type_name

__all__ = ["batch_norm", "instance_norm"]


def instance_norm(
    x: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    use_input_stats: bool = True,
    eps: float = 1e-5,
    *,
    out: Tensor | None = None,
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias, as torch's instance_norm.

    Mean and variance are computed in f32, for each channel of each image.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, C, ...) with more than one
            pixel.
        running_mean: Tensor or numpy array (C,), float32: the mean with use_input_stats=False.
        running_var: Tensor or numpy array (C,), float32: the variance with use_input_stats=False.
        weight: Tensor or numpy array (C,), float32, float16 or bfloat16.
        bias: Tensor or numpy array (C,), float32, float16 or bfloat16.
        use_input_stats: True uses the mean and variance of x. Running statistics are not updated.
        eps: Added to the variance.
        out: The Tensor to write to, of x's shape and dtype; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError, DTypeError, ArgumentError and the errors of `pykernels.kernels`.
    """
    op = "instance_norm"
    if live and out is None:
        x, weight, bias = recast(op, x, weight, bias)
    if not flag(op, "use_input_stats", use_input_stats):
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps, out=out)
    if running_mean is not None or running_var is not None:
        raise ArgumentError(f"[{op}] running statistics need use_input_stats=False")
    array_of(op, "x", x)
    if x.ndim < 3 or x.size == x.shape[0] * x.shape[1] > 0:
        raise ShapeError(f"[{op}] x must have more than one pixel but has shape {x.shape}")
    return group_norm(x, max(x.shape[1], 1), weight, bias, eps, out=out)


@again
@whole
def batch_norm(
    x: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    out: Tensor | None = None,
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias by channel, as torch's batch_norm.

    In training, mean and variance are computed in f32, for each channel over all images. The
    running statistics become (1 - momentum) times their old value plus momentum times mean and
    variance; this variance has the number of elements minus one as its divisor. Otherwise the
    running statistics are used unchanged.

    Args:
        x: Tensor or numpy array, float32, float16 or bfloat16, (N, C, ...).
        running_mean: Tensor or numpy array (C,), float32. In training it must be a Tensor, which
            the call updates, or None.
        running_var: Like running_mean.
        weight: Tensor or numpy array (C,), float32, float16 or bfloat16.
        bias: Tensor or numpy array (C,), float32, float16 or bfloat16.
        training: True uses the statistics of x.
        momentum: The weight of this batch in the running statistics.
        eps: Added to the variance.
        out: The Tensor to write to, of x's shape and dtype; None makes one.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: the shapes do not fit, or training is True and a channel has only one element.
            Also DTypeError, ArgumentError and the errors of `pykernels.kernels`.
    """
    op = "batch_norm"
    if not flag(op, "training", training):
        if running_mean is None or running_var is None:
            raise ArgumentError(
                f"[{op}] running_mean and running_var must be given if training is False"
            )
        call = Call(BATCH, x, running_mean, running_var, weight, bias, out=out)
        t = call.tensor("x", x)
        result = call.out(t.shape, t.dtype)
        kernels.batch_norm(
            t, call.tensor("mean", running_mean), call.tensor("variance", running_var), result,
            weight=call.tensor("weight", weight), bias=call.tensor("bias", bias), eps=eps,
        )  # fmt: skip
        return call.leave(result)
    for name, given in (("running_mean", running_mean), ("running_var", running_var)):
        if given is not None and not isinstance(given, Tensor):
            raise DTypeError(
                f"[{op}] {name} is written in training: it must be a pykernels.Tensor but is "
                f"{type_name(given)}"
            )
    call = Call(TRAINING, x, weight, bias, running_mean, running_var, out=out)
    t = call.tensor("x", x)
    if t.ndim < 2:
        raise ShapeError(f"[{op}] x must have two or more axes but has shape {t.shape}")
    result = call.out(t.shape, t.dtype)
    kernels.batch_norm_training(
        t, result, weight=call.tensor("weight", weight), bias=call.tensor("bias", bias),
        running_mean=call.tensor("running_mean", running_mean),
        running_variance=call.tensor("running_variance", running_var),
        saved=result.device.empty((3, t.shape[1])), momentum=momentum, eps=eps,
    )  # fmt: skip
    return call.leave(result)
