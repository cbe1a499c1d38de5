"""conv1d and its gradients: conv2d of images of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from pykernels import kernels
from pykernels._generated.kernels.conv2d import KERNEL
from pykernels._generated.kernels.conv2d_backward_bias import KERNEL as BIAS
from pykernels._generated.kernels.conv2d_backward_input import KERNEL as INPUT
from pykernels._generated.kernels.conv2d_backward_weight import KERNEL as WEIGHT
from pykernels._generated.ops import Activation
from pykernels.arrays import Array
from pykernels.device import Tensor
from pykernels.errors import ShapeError
from pykernels.plan import Kernel
from pykernels.plans.conv.geometry import geometry
from pykernels.scalars import integer

from ._images import ImageCall, single

__all__ = [
    "conv1d", "conv1d_backward_bias", "conv1d_backward_input", "conv1d_backward_weight",
]  # fmt: skip

Side: TypeAlias = int | Literal["same", "valid"]


class _SignalCall(ImageCall):
    """The arrays of one call: signals (N, C, L), with or without N, as images of one row."""

    def __init__(self, kernel: Kernel, op: str, *arrays: Array | None, out: Tensor | None) -> None:
        super().__init__(replace(kernel, name=op), "NCHW", *arrays, out=out)

    def images(self, name: str, array: Array) -> Tensor:
        t = self.tensor(name, array)
        if t.ndim not in (2, 3):
            raise ShapeError(
                f"[{self.op}] {name} must have the axes (N, C, L), the first may be missing, but "
                f"has shape {t.shape}"
            )
        if self._single not in (None, t.ndim == 2):
            raise ShapeError(
                f"[{self.op}] dy and x must both have the axis N, or neither, but {name} has shape "
                f"{t.shape}"
            )
        self._single = t.ndim == 2
        return (t[None] if self._single else t)[:, :, None]

    def weights(self, name: str, array: Array) -> Tensor:
        t = self.tensor(name, array)
        if t.ndim != 3:
            raise ShapeError(f"[{self.op}] {name} must have three axes but has shape {t.shape}")
        return t[:, :, None]

    def spread(self, name: str, t: Tensor | None, result: Tensor) -> Tensor | None:
        full = super().spread(name, t, result)
        return full if full is None else full[:, :, None]


def _windows(op: str, stride: Any, padding: Any, dilation: Any, groups: Any) -> dict[str, Any]:
    """The options of a call as those of images of one row."""
    edges = single(op, "padding", padding)
    return {
        "stride": (1, single(op, "stride", stride)),
        "padding": edges if isinstance(edges, str) else (0, edges),
        "dilation": (1, single(op, "dilation", dilation)),
        "groups": integer(op, "groups", groups),
    }


def conv1d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    stride: int = 1,
    padding: Side = 0,
    dilation: int = 1,
    groups: int = 1,
    *,
    residual: Array | None = None,
    activation: Activation | None = None,
    out: Tensor | None = None,
) -> Array:
    """Convolution as torch.nn.functional.conv1d: the windows of x times w, plus bias and residual.

    Sums are f32 and no operand is rounded. Transposed or sliced arguments are read where they lie.

    Args:
        x: Tensor or numpy array, float32 or float16, (N, C, L) or (C, L).
        w: Tensor or numpy array, float32 or float16, (O, C / groups, K).
        bias: float32 or float16, (O,).
        stride: Steps between windows.
        padding: Zeros on each side of x: an integer, "valid" (none), or "same" (as many as keep the
            length; stride must be 1).
        dilation: Steps between taps.
        groups: Number of groups of channels; output channels see the channels of their own only.
        residual: float32 or float16, added as well: a signal that the result is an update of;
            broadcasts to the result's shape. May be out.
        activation: Applied last; 'gelu' is by erf.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if x and w are,
            else float32.

    Returns:
        (N, O, OL): a numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit, or the output would be empty.
        ArgumentError: if another argument is unusable.
        DTypeError and what `pykernels.kernels.conv2d` raises.
    """
    op = "conv1d"
    options = _windows(op, stride, padding, dilation, groups)
    call = _SignalCall(KERNEL, op, x, w, bias, residual, out=out)
    tx, tw, tb = call.images("x", x), call.weights("w", w), call.tensor("bias", bias)
    added = call.tensor("residual", residual)
    taps = (1, tw.shape[3])
    g = geometry(op, taps, options["stride"], options["padding"], options["dilation"])
    shape = (tx.shape[0], tw.shape[0], g.output(op, (1, tx.shape[3]))[1])
    result = call.result(shape[1:] if call._single else shape, tx, tw)
    dst = (result[None] if call._single else result)[:, :, None]
    more = call.spread("residual", added, result)
    kernels.conv2d(tx, tw, dst, bias=tb, residual=more, activation=activation, **options)
    return call.leave(result)


def conv1d_backward_input(
    dy: Array,
    w: Array,
    input_size: Sequence[int],
    stride: int = 1,
    padding: Side = 0,
    dilation: int = 1,
    groups: int = 1,
    *,
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * conv1d(x, w)) by x, as torch.nn.grad.conv1d_input.

    Sums are f32 and no operand is rounded.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of conv1d,
            (N, O, OL) or (O, OL).
        w: Tensor or numpy array, float32 or float16, (O, C / groups, K).
        input_size: The shape of x, (N, C, L); without N where dy has none.
        stride: Steps between windows, as in the forward call; so are the other options.
        padding: Zeros on each side of x, "same" or "valid".
        dilation: Steps between taps.
        groups: Number of groups of channels.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if dy and w are,
            else float32.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit.
        ArgumentError: if another argument is unusable.
        DTypeError and what `pykernels.kernels.conv2d_backward_input` raises.
    """
    op = "conv1d_backward_input"
    options = _windows(op, stride, padding, dilation, groups)
    call = _SignalCall(INPUT, op, dy, w, out=out)
    ty, tw = call.images("dy", dy), call.weights("w", w)
    result = call.result(call.size("input_size", input_size, 3), ty, tw)
    dst = (result[None] if call._single else result)[:, :, None]
    kernels.conv2d_backward_input(ty, tw, dst, **options)
    return call.leave(result)


def conv1d_backward_weight(
    dy: Array,
    x: Array,
    weight_size: Sequence[int],
    stride: int = 1,
    padding: Side = 0,
    dilation: int = 1,
    groups: int = 1,
    *,
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * conv1d(x, w)) by w, as torch.nn.grad.conv1d_weight.

    Sums are f32, in an order that depends on shapes, strides and device only.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of conv1d,
            (N, O, OL) or (O, OL).
        x: Tensor or numpy array, float32 or float16: the input of conv1d, (N, C, L); without N
            where dy has none.
        weight_size: The shape of w, (O, C / groups, K).
        stride: Steps between windows, as in the forward call; so are the other options.
        padding: Zeros on each side of x, "same" or "valid".
        dilation: Steps between taps.
        groups: Number of groups of channels.
        out: The Tensor to write to, float32 or float16; None makes one, float16 if dy and x are,
            else float32.

    Returns:
        A numpy array if all arguments are numpy arrays, else a Tensor.

    Raises:
        ShapeError: if the shapes do not fit.
        ArgumentError: if another argument is unusable.
        DTypeError and what `pykernels.kernels.conv2d_backward_weight` raises.
    """
    op = "conv1d_backward_weight"
    options = _windows(op, stride, padding, dilation, groups)
    call = _SignalCall(WEIGHT, op, dy, x, out=out)
    ty, tx = call.images("dy", dy), call.images("x", x)
    result = call.result(call.size("weight_size", weight_size, 3), ty, tx)
    kernels.conv2d_backward_weight(ty, tx, result[:, :, None], **options)
    return call.leave(result)


def conv1d_backward_bias(
    dy: Array,
    *,
    out: Tensor | None = None,
) -> Array:
    """The gradient of sum(dy * conv1d(x, w, bias)) by bias: sums over signals and their elements.

    Sums are f32, by trees, in an order that depends on shapes, strides and device only.

    Args:
        dy: Tensor or numpy array, float32 or float16: what comes back to the result of conv1d,
            (N, O, OL) or (O, OL).
        out: The Tensor (O,) to write to, float32 or float16; None makes one with dy's dtype.

    Returns:
        A numpy array if dy is one and out is None, else a Tensor.

    Raises:
        ShapeError, DTypeError and what `pykernels.kernels.conv2d_backward_bias` raises.
    """
    call = _SignalCall(BIAS, "conv1d_backward_bias", dy, out=out)
    ty = call.images("dy", dy)
    result = call.result((ty.shape[1],), ty)
    kernels.conv2d_backward_bias(ty, result)
    return call.leave(result)
