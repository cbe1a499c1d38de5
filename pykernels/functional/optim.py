"""Steps of optimisers, flat parameters, and clipping of gradients by their norm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, cast

import numpy as np

from pykernels import kernels
from pykernels.call.again import again
from pykernels.call.arrays import Array
from pykernels.call.scalars import flag, real
from pykernels.device import Device, LostTensor, Tensor, device_of
from pykernels.dtypes import DTYPES, FLOATS, DTypeName
from pykernels.errors import ArgumentError, DTypeError
from pykernels.runtime.whole import whole
from pykernels.steps import cdiv
from pykernels.tensors.host import type_name

from .elementwise import clip

__all__ = [
    "adam_step",
    "adamw_step",
    "clip_grad_norm",
    "clip_grad_value",
    "flatten_parameters",
    "sgd_step",
]

LARGEST = float(np.finfo(np.float32).max)
ALIGNMENT = 16  # in bytes; with this alignment every view can be read in vectors


@whole
def flatten_parameters(
    parameters: Iterable[Array], *, device: Device | None = None
) -> tuple[Tensor, list[Tensor]]:
    """One flat tensor with copies of all parameters, and its views, one for each parameter.

        flat, (w, b) = pk.flatten_parameters([w, b])

    A step of an optimiser on `flat` is one dispatch for all parameters, and the gradient of `flat`
    holds the gradient of each view at the place of the view. Views begin at multiples of 16 bytes.
    The elements between them are 0, and stay 0 because their gradient is 0.

    Copies of the views by `copy.deepcopy` are views of one copy. The list of views is pickled as
    the flat tensor and the places of the views, so a flat tensor and its list that are pickled
    together share memory again. A view that is pickled alone stores its own elements.

    Args:
        parameters: Tensors or numpy arrays, all float32, all float16 or all bfloat16; arrays of
            float64 count as float32.
        device: None is the device of the Tensors, or the default device.

    Returns:
        The flat tensor, and a view for each parameter, of its shape.

    Raises:
        ArgumentError: no parameters.
        DTypeError: other dtypes, or parameters of different dtypes.
    """
    op = "flatten_parameters"
    given = _listed(op, "parameters", parameters, (Tensor, np.ndarray))
    dtypes = ["float32" if str(p.dtype) == "float64" else str(p.dtype) for p in given]
    dtype = dtypes[0]
    for i, found in enumerate(dtypes):
        if found not in FLOATS or found != dtype:
            raise DTypeError(
                f"[{op}] parameters must have one dtype of floats but parameters[{i}] is "
                f"{given[i].dtype}" + (f" beside {dtype}" if i else "")
            )
    first = next((p for p in given if isinstance(p, Tensor)), None)
    home = device_of(device) if first is None or device is not None else first.device
    name = cast(DTypeName, dtype)
    each = ALIGNMENT // DTYPES[name].itemsize
    starts = [0]
    for p in given:
        starts.append(starts[-1] + cdiv(p.size, each) * each)
    flat = home.zeros(starts[-1], name)
    views = _views(flat, [(p.shape, start) for p, start in zip(given, starts, strict=False)])
    for p, view in zip(given, views, strict=True):
        kernels.cpy(p if isinstance(p, Tensor) else home.tensor(p), view)
    return flat, views


class _Views(list[Tensor]):
    """The views of a flat tensor."""

    def __init__(self, flat: Tensor, views: Sequence[Tensor]) -> None:
        super().__init__(views)
        self._flat = flat

    def __reduce__(self) -> tuple[Any, ...]:
        """The flat tensor and the place of each view; other tensors are stored unchanged."""
        return _views, (self._flat, [self._place(v) for v in self])

    def _place(self, view: Any) -> Any:
        flat = self._flat
        if not isinstance(view, Tensor) or view._storage is not flat._storage:
            return view
        start, odd = divmod(view._offset - flat._offset, flat._layout.dtype.itemsize)
        inside = 0 <= start and start + view.size <= flat.size
        fits = view.dtype == flat.dtype and view._layout.contiguous and inside and not odd
        return (view.shape, start) if fits else view


def _views(flat: Tensor, places: Sequence[Any]) -> _Views:
    """The views of a flat tensor, by their shapes and first elements."""
    # in a process that cannot open a device, the views are unusable, too
    if isinstance(flat, LostTensor):
        return _Views(flat, [flat if isinstance(place, tuple) else place for place in places])
    flat._storage.whole = flat._offset, flat._layout
    found = []
    for place in places:
        if isinstance(place, tuple):
            shape, start = place
            place = flat[start : start + math.prod(shape)].reshape(shape)
        found.append(place)
    return _Views(flat, found)


@whole
def sgd_step(
    param: Tensor,
    grad: Tensor,
    momentum_buffer: Tensor | None = None,
    *,
    lr: float | Tensor = 1e-3,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> Tensor:
    """One step of stochastic gradient descent, in place, as in `torch.optim.SGD`.

    With g = grad + weight_decay * param: param -= lr * g. With momentum:
    buffer = momentum * buffer + g, and param -= lr * buffer, or
    param -= lr * (g + momentum * buffer) with nesterov. Computed in float32.

    Args:
        param: Tensor, float32, float16 or bfloat16, any shape; the call changes it.
        grad: Tensor of param's shape, float32, float16 or bfloat16.
        momentum_buffer: float32 Tensor of param's shape, zeros before the first step; the call
            changes it.
        lr: Learning rate; a number, or a float32 Tensor of one element, which a captured step reads
            in each replay.
        momentum: Factor of the buffer.
        weight_decay: Factor of param in its gradient (L2).
        nesterov: Nesterov's momentum.

    Returns:
        param.

    Raises:
        ArgumentError: a number is negative, momentum has no buffer, or nesterov has no momentum.
        DTypeError, ShapeError and the errors of `pykernels.kernels`, before anything changes.
    """
    op = "sgd_step"
    rate, number = _rate(op, lr)
    momentum = _not_negative(op, "momentum", momentum)
    if momentum and momentum_buffer is None:
        raise ArgumentError(f"[{op}] momentum {momentum} needs a momentum_buffer")
    if flag(op, "nesterov", nesterov) and not momentum:
        raise ArgumentError(f"[{op}] nesterov needs a momentum")
    kernels.sgd_step(
        grad, param, momentum_buffer=momentum_buffer, rate=rate, lr=number, momentum=momentum,
        weight_decay=_not_negative(op, "weight_decay", weight_decay), nesterov=nesterov,
    )  # fmt: skip
    return param


@whole
def adam_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    step: int | Tensor,
    *,
    lr: float | Tensor = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Tensor:
    """One step of Adam, in place, as in `torch.optim.Adam`.

    With g = grad + weight_decay * param: exp_avg = beta1 * exp_avg + (1 - beta1) * g,
    exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g, and
    param -= lr * m / (sqrt(v) + eps), where m = exp_avg / (1 - beta1^t) and
    v = exp_avg_sq / (1 - beta2^t). All is computed in float32, and 1 - beta^t without cancellation.

    Args:
        param: Tensor, float32, float16 or bfloat16, any shape; the call changes it.
        grad: Tensor of param's shape, float32, float16 or bfloat16.
        exp_avg, exp_avg_sq: float32 Tensors of param's shape, zeros before the first step; the call
            changes them.
        step: t, the number of this step, counted from 1. Or an int32 Tensor of one element with the
            number of steps so far; the call adds 1 to it on the device, so a captured step counts
            in each replay.
        lr: Learning rate; a number, or a float32 Tensor of one element.
        betas: Decays of both moments, in [0, 1).
        eps: Added to the root of the second moment.
        weight_decay: Factor of param in its gradient (L2).

    Returns:
        param.

    Raises:
        ArgumentError: a number is outside its range.
        DTypeError, ShapeError and the errors of `pykernels.kernels`, before anything changes.
    """
    return _adam("adam_step", param, grad, exp_avg, exp_avg_sq, step, lr, betas, eps, weight_decay)


@whole
def adamw_step(
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    step: int | Tensor,
    *,
    lr: float | Tensor = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> Tensor:
    """One step of AdamW, in place, as in `torch.optim.AdamW`.

    Like `adam_step`, but weight decay does not enter the gradient: the step also computes
    param -= lr * weight_decay * param.
    """
    return _adam("adamw_step", param, grad, exp_avg, exp_avg_sq, step, lr, betas, eps, weight_decay)


def _adam(
    op: str, param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step: int | Tensor,
    lr: float | Tensor, betas: tuple[float, float], eps: float, weight_decay: float,
) -> Tensor:  # fmt: skip
    rate, number = _rate(op, lr)
    beta1, beta2 = _betas(op, betas)
    count = step if isinstance(step, Tensor) else None
    kernel = kernels.adam_step if op == "adam_step" else kernels.adamw_step
    kernel(
        grad, exp_avg, exp_avg_sq, param, count=count, rate=rate, step=_step(op, step), lr=number,
        eps=_not_negative(op, "eps", eps), beta1=beta1, beta2=beta2,
        weight_decay=_not_negative(op, "weight_decay", weight_decay),
    )  # fmt: skip
    if count is not None:
        kernels.step_advance(count)
    return param


@again
@whole
def clip_grad_norm(grads: Tensor | Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale gradients in place so that their norm is at most `max_norm`; everything runs on the
    device.

    The norm is over all elements of all gradients, sqrt(sum(g * g)) in float32; two runs give the
    same bits. If it is too large, each gradient is multiplied by max_norm / (norm + 1e-6), as torch
    does. If the norm overflows, the gradients become meaningless; check the result where this may
    happen.

    Args:
        grads: A Tensor, or several, float32, float16 or bfloat16; the call changes them.
        max_norm: The largest norm.

    Returns:
        The norm before scaling, a float32 Tensor of one element and no axes.

    Raises:
        ArgumentError: a max_norm below 0, or no gradients. DTypeError: other dtypes.
    """
    op = "clip_grad_norm"
    given = _gradients(op, grads)
    limit = _not_negative(op, "max_norm", max_norm)
    norms = given[0].device.empty(len(given))
    for i, g in enumerate(given):
        kernels.norm(g, norms[i])
    total = norms[0]
    if len(given) > 1:
        total = norms.device.empty(())
        kernels.norm(norms, total)
    for g in given:
        kernels.clip_by_norm(total, g, max_norm=limit)
    return total


@again
@whole
def clip_grad_value(grads: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit the elements of gradients to [-clip_value, clip_value], in place, with one launch for
    each gradient.

    Args:
        grads: A Tensor, or several, float32, float16 or bfloat16; the call changes them. NaN stays
            NaN.
        clip_value: The largest magnitude.

    Raises:
        ArgumentError: a clip_value below 0, or no gradients. DTypeError: other dtypes.
    """
    op = "clip_grad_value"
    given, limit = _gradients(op, grads), _not_negative(op, "clip_value", clip_value)
    for g in given:
        clip(g, -limit, limit, out=g)


def _gradients(op: str, grads: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [grads] if isinstance(grads, Tensor) else _listed(op, "grads", grads, (Tensor,))
    for i, g in enumerate(given):
        if g.dtype not in FLOATS:
            told = "float32, float16 or bfloat16"
            raise DTypeError(f"[{op}] grads must be {told} but grads[{i}] is {g.dtype}")
    return given


def _listed(op: str, name: str, values: Any, kinds: tuple[type, ...]) -> list[Any]:
    """The values of an ordered iterable, as a list. There must be at least one value, and each must
    have one of the types `kinds`."""
    others = (Tensor, np.ndarray, str, bytes, Mapping, Set)
    listed = isinstance(values, Iterable) and not isinstance(values, others)
    given = list(values) if listed else []
    if not given:
        hint = ": give its values()" if isinstance(values, Mapping) else ""
        raise ArgumentError(
            f"[{op}] {name} must be a list of one or more, or another iterable, but is "
            f"{values!r:.40}{hint}"
        )
    for i, value in enumerate(given):
        if not isinstance(value, kinds):
            also = " or numpy arrays" if len(kinds) > 1 else ""
            raise DTypeError(
                f"[{op}] {name} must hold pykernels.Tensors{also} but {name}[{i}] is "
                f"{type_name(value)}"
            )
    return given


def _rate(op: str, lr: float | Tensor) -> tuple[Tensor | None, float]:
    """The learning rate as a tensor, or as a number."""
    return (lr, 0.0) if isinstance(lr, Tensor) else (None, _not_negative(op, "lr", lr))


def _step(op: str, step: int | Tensor) -> int:
    if isinstance(step, Tensor):
        return 1
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or step < 1:
        raise ArgumentError(f"[{op}] step must be 1 or more, or a Tensor, but is {step!r}")
    return int(step)


def _betas(op: str, betas: Any) -> tuple[float, float]:
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ArgumentError(f"[{op}] betas must be two numbers but is {betas!r}")
    one, two = (real(op, "betas", b) for b in betas)
    if not (0.0 <= one < 1.0 and 0.0 <= two < 1.0):
        raise ArgumentError(f"[{op}] betas must be in [0, 1) but are {one} and {two}")
    return one, two


def _not_negative(op: str, name: str, value: Any) -> float:
    number = real(op, name, value)
    if not 0.0 <= number <= LARGEST:
        raise ArgumentError(
            f"[{op}] {name} must be 0 or more and finite in float32 but is {value!r:.40}"
        )
    return number
