"""Norms: the gradients are the results of backward kernels."""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels.errors import TapeError
from pykernels.functional.elementwise import elementwise
from pykernels.tape import Taped, reads

from ._plain import backward_of, plainly


def _room(call: Taped, name: str, x: Any) -> Any:
    """The tensor for the gradient of weight or bias; None if this gradient is not wanted."""
    shape = call.shape(name)
    return None if shape is None or not call.wants(name) else x.device.empty(shape, "float32")


def _layer(call: Taped, x: Any, ds: Any = None) -> Any:
    """Return the gradient of x; the gradients of weight and bias are given to the call."""
    found = {"dweight": _room(call, "weight", x), "dbias": _room(call, "bias", x)}
    dx = x.device.empty(x.shape, x.dtype)
    weight, eps = call.saved("weight"), call.option("eps")
    kernels.layer_norm_backward(call.dy(), x, dx, weight=weight, ds=ds, eps=eps, **found)
    _give(call, found)
    return dx


def _rms(call: Taped, x: Any, ds: Any = None) -> Any:
    """Return the gradient of x; the gradient of the weight is given to the call."""
    found = {"dweight": _room(call, "weight", x)}
    dx = x.device.empty(x.shape, x.dtype)
    weight, eps = call.saved("weight"), call.option("eps")
    kernels.rms_norm_backward(call.dy(), x, dx, weight=weight, ds=ds, eps=eps, **found)
    _give(call, found)
    return dx


def _give(call: Taped, found: dict[str, Any]) -> None:
    for name, gradient in found.items():
        if gradient is not None:
            call.give(name.removeprefix("d"), gradient)


@reads("x", "weight")
def layer_norm(call: Taped) -> None:
    call.give("x", _layer(call, call.saved("x"), call.earlier("x")))


@reads("x", "weight")
def rms_norm(call: Taped) -> None:
    call.give("x", _rms(call, call.saved("x"), call.earlier("x")))


@reads("x")
def l2_norm(call: Taped) -> None:
    x = call.saved("x")
    dx = x.device.empty(x.shape, x.dtype)
    kernels.l2_norm_backward(call.dy(), x, dx, eps=call.option("eps"))
    call.give("x", dx)


def _of_both(call: Taped, rule: Any) -> None:
    """Give x and residual the gradient of their sum: the gradient from the norm of the sum plus the
    gradient from other uses of the sum."""
    grad = call.dy("summed")
    if call.dy() is not None:
        grad = rule(call, call.saved("summed"), grad)
    for name in ("x", "residual"):
        call.give(name, grad)


@reads("summed", "weight")
def add_layer_norm(call: Taped) -> None:
    _of_both(call, _layer)


@reads("summed", "weight")
def add_rms_norm(call: Taped) -> None:
    _of_both(call, _rms)


def _images(call: Taped, kernel: Any, *given: Any, **options: Any) -> None:
    """Give the gradients that a backward kernel of a norm of images computes."""
    dy, x = call.dy(), call.saved("x")
    found = {"dweight": _room(call, "weight", x), "dbias": _room(call, "bias", x)}
    dx = x.device.empty(x.shape, x.dtype)
    weight, eps = call.saved("weight"), call.option("eps")
    kernel(dy, x, *given, dx, weight=weight, eps=eps, **found, **options)
    call.give("x", dx)
    _give(call, found)


@reads("x", "weight")
def group_norm(call: Taped) -> None:
    _images(call, kernels.group_norm_backward, groups=call.option("groups"))


@reads("x", "weight", "saved")
def batch_norm_training(call: Taped) -> None:
    for name in ("running_mean", "running_variance", "saved"):
        if call.shape(name) is not None and call.dy(name) is not None:
            raise TapeError(f"[tape] batch_norm_training has no gradient rule for its {name}")
    saved = call.saved("saved")
    if saved is None:
        raise TapeError("[tape] batch_norm_training has a gradient rule only if saved is given")
    _images(call, kernels.batch_norm_backward, saved)


@reads("x", "mean", "variance", "weight")
def batch_norm(call: Taped) -> None:
    """Give the gradients for given statistics: an expression for each element, and sums by
    channel."""
    dy, x, eps = call.dy(), call.saved("x"), call.option("eps")
    by_channel = (1, -1, *[1] * (x.ndim - 2))
    axes = (0, *range(2, x.ndim))
    mean, variance, weight = (call.saved(n) for n in ("mean", "variance", "weight"))
    factor = elementwise("rsqrt(v + eps)", v=variance, eps=eps).reshape(by_channel)
    scale = factor if weight is None else factor * weight.astype("float32").reshape(by_channel)
    if call.wants("x"):
        call.give("x", elementwise("dy * scale", dy=dy, scale=scale))
    rest = [n for n in ("mean", "variance", "weight") if call.wants(n)]
    if rest:
        text = "float32(dy) * (x - mean) * factor"
        n = elementwise(text, dy=dy, x=x, mean=mean.reshape(by_channel), factor=factor)
        along = F.sum(n, axis=axes)
        if "weight" in rest:
            call.give("weight", along)
        if "variance" in rest:
            call.give("variance", along * (scale * factor).reshape(-1) * -0.5)
    total = F.sum(elementwise("float32(dy)", dy=dy), axis=axes)
    if "mean" in rest:
        call.give("mean", -total * scale.reshape(-1))
    if call.wants("bias"):
        call.give("bias", total)


# -- gradients of gradients -----------------------------------------------------------------------

_OUTPUTS = {"dst": "x", "dweight": "weight", "dbias": "bias"}


@reads("dy", "x", "weight")
def layer_norm_backward(call: Taped) -> None:
    _again(call, _by_mean_of(-1), "x", "weight")


@reads("dy", "x", "weight")
def rms_norm_backward(call: Taped) -> None:
    eps = call.option("eps")

    def forward(x: Any, weight: Any = None) -> Any:
        n: Any = x * elementwise("rsqrt(m + eps)", m=F.mean(x * x, axis=-1, keepdims=True), eps=eps)
        return n if weight is None else n * weight

    _again(call, lambda _: forward, "x", "weight")


@reads("dy", "x")
def l2_norm_backward(call: Taped) -> None:
    eps = call.option("eps")

    def forward(x: Any) -> Any:
        square = F.sum(x * x, axis=-1, keepdims=True)
        factor = elementwise("where(s < e * e, 1 / e, rsqrt(maximum(s, e * e)))", s=square, e=eps)
        return x * factor

    _again(call, lambda _: forward, "x")


@reads("dy", "x", "weight")
def group_norm_backward(call: Taped) -> None:
    shape, groups = call.shape("x"), call.option("groups")
    assert shape is not None
    of = (shape[0], groups, shape[1] // groups, *shape[2:])
    _again(call, _by_mean_of(*range(2, len(of)), shape=of), "x", "weight")


@reads("dy", "x", "weight")
def batch_norm_backward(call: Taped) -> None:
    """The rule assumes that the given mean and variance are those of x, and computes them again
    from x."""
    _again(call, _by_mean_of(0, *range(2, len(call.shape("x") or ()))), "x", "weight")


def _by_mean_of(*axes: int, shape: tuple[int, ...] | None = None) -> Any:
    """The plain form of a norm: (x - mean) / sqrt(variance + eps), with mean and variance over
    these axes of x, or of x reshaped to `shape`."""

    def of(call: Taped) -> Any:
        eps, by_channel = call.option("eps"), axes != (-1,)

        def each(t: Any, x: Any) -> Any:
            return t.reshape(-1, *[1] * (x.ndim - 2)) if by_channel else t

        def forward(x: Any, weight: Any = None, bias: Any = None) -> Any:
            parts = x if shape is None else x.reshape(shape)
            d: Any = parts - F.mean(parts, axis=axes, keepdims=True)
            v = F.mean(d * d, axis=axes, keepdims=True)
            n: Any = (d * elementwise("rsqrt(v + eps)", v=v, eps=eps)).reshape(x.shape)
            n = n if weight is None else n * each(weight, x)
            return n if bias is None else n + each(bias, x)

        return forward

    return of


def _again(call: Taped, plain: Any, *names: str) -> None:
    """The gradients of a backward kernel; `ds`, which the kernel adds to its result, gets the
    gradient of the result."""
    outputs = {k: v for k, v in _OUTPUTS.items() if call.dy(k) is not None}
    forward = plain(call)
    if "ds" in call.names:
        call.give("ds", call.dy())
    added: dict[str, Any] = {}
    if "dbias" in outputs:  # the values of the bias do not affect any gradient
        added["bias"] = call.dy("dbias").device.zeros(call.shape("dbias") or ())

    def compute(dy: Any, **given: Any) -> Any:
        return backward_of(forward, outputs)(dy, **given, **added)

    plainly(call, compute, "dy", *names)
