"""Sorts and picks: the gradient of an element goes back to the element's source."""

from __future__ import annotations

from typing import Any

from pykernels import functional as F
from pykernels.tape import Taped, reads


def _back(call: Taped, dy: Any, index: Any) -> None:
    """Each element of dy goes to its place along the last axis of x."""
    shape = call.shape("x") or ()
    call.give("x", F.scatter(dy.device.zeros(shape, dy.dtype), -1, index, dy))


@reads("x")
def sort(call: Taped) -> None:
    _back(call, call.dy(), F.argsort(call.saved("x"), descending=call.option("descending")))


@reads("index")
def top_k(call: Taped) -> None:
    _back(call, call.dy(), call.saved("index"))


@reads("x")
def median(call: Taped) -> None:
    """With an even number of elements, the two middle elements share the gradient."""
    x = call.saved("x")
    size, dy = x.shape[-1], call.dy()
    index = F.argsort(x)[..., (size - 1) // 2 : size // 2 + 1]
    share = dy[..., None] * (1 / index.shape[-1])
    _back(call, share.broadcast_to(index.shape), index)


@reads("x")
def bincount_weights(call: Taped) -> None:
    x, dy = call.saved("x"), call.dy()
    # elements outside of the bins have a gradient of 0
    found = dy.device.zeros((x.size,), dy.dtype)
    F.index_select(dy, 0, x.reshape(-1), check=False, out=found)
    call.give("weights", found.reshape(x.shape))
