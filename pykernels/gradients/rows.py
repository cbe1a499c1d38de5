"""Rows that an index picks: the gradient of a row is added to the gradient of its source."""

from __future__ import annotations

import math
from typing import Any

from pykernels import functional as F
from pykernels.functional.elementwise import elementwise
from pykernels.tape import Taped, reads
from pykernels.tensors.selecting import last_index


@reads("index")
def get_rows(call: Taped) -> None:
    dy, shape = call.dy(), call.shape("src")
    assert shape is not None
    index = _repeated(call.saved("index"), dy.shape[:-1])
    rows, width = shape[-2], shape[-1]
    batches = 1
    if math.prod(shape[:-2]) != 1:  # all batches as one matrix of rows
        batches = math.prod(dy.shape[:-2])
        own = index.astype("int32").reshape(batches, dy.shape[-2])
        first = F.arange(batches, dtype="int32", device=dy.device)[:, None] * rows
        index = F.where((own >= 0) & (own < rows), own + first, -1)
        shape = (*dy.shape[:-2], rows, width)
    found = F.embedding_backward(
        dy.reshape(index.size, width), index.reshape(-1), batches * rows, check=False
    )
    call.give("src", found.reshape(shape))


embedding = index_select = masked_select = repeat = get_rows


@reads("index")
def set_rows(call: Taped) -> None:
    """Rows that later rows overwrote have a gradient of 0."""
    dy = call.dy()
    index = call.saved("index")
    if call.wants("src"):
        zeros = dy.device.zeros(call.shape("src") or (), dy.dtype)
        kept = index if call.option("distinct") else last_index(index, -1, dy.shape[-2])
        call.give("src", F.get_rows(dy, kept, check=False, out=zeros))
    if call.wants("dst"):
        left = dy.copy()
        nothing = dy.device.zeros((), dy.dtype).broadcast_to(call.shape("src") or ())
        F.set_rows(nothing, index, left, check=False, distinct=True)
        call.give("dst", left)


@reads("index")
def add_rows(call: Taped) -> None:
    dy, skip = call.dy(), call.option("skip")
    if call.wants("src"):
        index = call.saved("index")
        if skip is not None:
            index = index.astype("int32")
            index = F.where(index == skip, -1, index)
        zeros = dy.device.zeros(call.shape("src") or (), dy.dtype)
        call.give("src", F.get_rows(dy, index, check=False, out=zeros))
    call.give("dst", dy)


embedding_backward = add_rows


@reads("dst")
def timestep_embedding(call: Taped) -> None:
    """The derivatives of cos and sin are -sin and cos, times the frequency."""
    y, dy = call.saved("dst"), call.dy()
    half = y.shape[1] // 2
    rate = -math.log(call.option("max_period")) / max(half, 1)
    terms = elementwise(
        "(dsin * cosine - dcos * sine) * exp(j * rate)", dcos=dy[:, :half],
        dsin=dy[:, half : 2 * half], cosine=y[:, :half], sine=y[:, half : 2 * half],
        j=F.arange(half, dtype="float32", device=dy.device), rate=rate,
    )  # fmt: skip
    call.give("x", F.sum(terms, axis=-1))


def _repeated(index: Any, shape: tuple[int, ...]) -> Any:
    """An index, repeated along its axes by ggml's rule."""
    index = index.reshape((1,) * (len(shape) - index.ndim) + index.shape)
    times = tuple(n // max(m, 1) for m, n in zip(index.shape, shape, strict=True))
    return F.tile(index, times) if any(n > 1 for n in times) else index
