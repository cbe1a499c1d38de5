"""Rows that an index picks: their gradients are added where they came from."""

from __future__ import annotations

import math
from typing import Any

from pykernels import functional as F
from pykernels.tape import Taped, reads


@reads("index")
def get_rows(call: Taped) -> None:
    dy, index = call.dy(), call.saved("index")
    shape = call.shape("src") or ()
    if math.prod(shape[:-2]) == 1:  # one matrix for all indices
        dy, index = dy.reshape(-1, shape[-1]), index.reshape(-1)
        found = _added(dy.device.zeros(shape[-2:], dy.dtype), index, dy).reshape(shape)
    else:
        zeros = dy.device.zeros((*dy.shape[:-2], *shape[-2:]), dy.dtype)
        found = _added(zeros, _repeated(index, dy.shape[:-1]), dy)
    call.give("src", found)


embedding = index_select = masked_select = get_rows


@reads("index")
def set_rows(call: Taped) -> None:
    dy = call.dy()
    index = call.saved("index")
    if call.wants("src"):
        zeros = dy.device.zeros(call.shape("src") or (), dy.dtype)
        call.give("src", F.get_rows(dy, index, check=False, out=zeros))
    if call.wants("dst"):
        left = dy.copy()
        nothing = dy.device.zeros((), dy.dtype).broadcast_to(call.shape("src") or ())
        F.set_rows(nothing, index, left, check=False)
        call.give("dst", left)


@reads("dst")
def timestep_embedding(call: Taped) -> None:
    """The cosine's gradient is minus the sine, and the other way round, times the frequency."""
    y, dy = call.saved("dst"), call.dy()
    half = y.shape[1] // 2
    rate = -math.log(call.option("max_period")) / max(half, 1)
    terms = F.elementwise(
        "(dsin * cosine - dcos * sine) * exp(j * rate)", dcos=dy[:, :half],
        dsin=dy[:, half : 2 * half], cosine=y[:, :half], sine=y[:, half : 2 * half],
        j=F.arange(half, dtype="float32", device=dy.device), rate=rate,
    )  # fmt: skip
    call.give("x", F.sum(terms, axis=-1))


def _added(zeros: Any, index: Any, rows: Any) -> Any:
    """Rows added to a matrix, or to each of several."""
    places = index[..., None].broadcast_to(rows.shape)
    return F.scatter_add(zeros, -2, places, rows, check=False)


def _repeated(index: Any, shape: tuple[int, ...]) -> Any:
    """An index as often as it fits, one after the other (ggml)."""
    index = index.reshape((1,) * (len(shape) - index.ndim) + index.shape)
    times = tuple(n // max(m, 1) for m, n in zip(index.shape, shape, strict=True))
    return F.tile(index, times) if any(n > 1 for n in times) else index
