"""Pools: dy of a maximum goes to the largest element, and dy of a mean goes to all elements in
equal shares."""

from __future__ import annotations

import math
from typing import Any

from pykernels import functional as F
from pykernels import kernels
from pykernels.device import Tensor
from pykernels.tape import Taped, reads

_WINDOWS = ("kernel", "stride", "padding", "dilation")
_MEANS = ("kernel", "stride", "padding", "count_include_pad", "divisor_override")


@reads("x", "index")
def max_pool2d(call: Taped) -> None:
    options = {name: call.option(name) for name in _WINDOWS}
    index = _index(call, kernels.max_pool2d, options)
    dst = _like_x(call)
    kernels.max_pool2d_backward(call.dy(), index, dst, **options)
    call.give("x", dst)


@reads("x", "index")
def adaptive_max_pool2d(call: Taped) -> None:
    dy, index, dst = call.dy(), _index(call, kernels.adaptive_max_pool2d, {}), _like_x(call)
    if dy.shape[2:] == (1, 1):  # each image has one maximum
        n, c, rows, cols = dst.shape
        kernels.fill(dst, 0)
        kernels.scatter(dy[..., 0], index[..., 0], dst.reshape(n, c, rows * cols), check=False)
    else:
        kernels.adaptive_max_pool2d_backward(dy, index, dst)
    call.give("x", dst)


@reads()
def avg_pool2d(call: Taped) -> None:
    dst = _like_x(call)
    kernels.avg_pool2d_backward(call.dy(), dst, **{name: call.option(name) for name in _MEANS})
    call.give("x", dst)


@reads()
def adaptive_avg_pool2d(call: Taped) -> None:
    shape: Any = call.shape("x")
    if call.dy().shape[2:] == (1, 1):
        call.give("x", call.dy() / (shape[2] * shape[3]))  # repeats
        return
    dst = _like_x(call)
    kernels.adaptive_avg_pool2d_backward(call.dy(), dst)
    call.give("x", dst)


def _like_x(call: Taped) -> Tensor:
    dy: Tensor = call.dy()
    return dy.device.empty(call.shape("x") or (), dy.dtype)


def _index(call: Taped, run: Any, options: dict[str, Any]) -> Tensor:
    """The positions that the call wrote; they are computed again if the call had no output for
    them."""
    kept: Tensor | None = call.saved("index")
    if kept is not None:
        return kept
    x, dy = call.saved("x"), call.dy()
    index: Tensor = dy.device.empty(dy.shape, "int32")
    run(x, dy.device.empty(dy.shape, x.dtype), index=index, **options)
    return index


@reads("index")
def max_pool2d_backward(call: Taped) -> None:
    """The gradient of dy: the elements at the positions of the maxima."""
    index, given = call.saved("index"), call.dy()
    *lead, rows, cols = given.shape
    found = given.device.zeros(index.shape, given.dtype)
    flat = (*lead, math.prod(index.shape[-2:]))
    F.gather(
        given.reshape(*lead, rows * cols), -1, index.reshape(flat), check=False,
        out=found.reshape(flat),
    )  # fmt: skip
    call.give("dy", found)


adaptive_max_pool2d_backward = max_pool2d_backward


@reads()
def avg_pool2d_backward(call: Taped) -> None:
    found = _like_dy(call)
    kernels.avg_pool2d(call.dy(), found, **{name: call.option(name) for name in _MEANS})
    call.give("dy", found)


@reads()
def adaptive_avg_pool2d_backward(call: Taped) -> None:
    found = _like_dy(call)
    kernels.adaptive_avg_pool2d(call.dy(), found)
    call.give("dy", found)


def _like_dy(call: Taped) -> Tensor:
    given: Tensor = call.dy()
    return given.device.empty(call.shape("dy") or (), given.dtype)
