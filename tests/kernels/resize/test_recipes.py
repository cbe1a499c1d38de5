"""Operations of ggml that the table in docs/reference/operations.md makes of several functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def test_columns_of_volumes(dev: pk.Device) -> None:
    """IM2COL_3D: the windows of all planes, those of a volume stacked."""
    x, (kd, kh, kw), depth = normal(2, 3, 5, 6, 7), (2, 3, 2), 4
    planes: Any = pk.unfold(dev.tensor(x.reshape(2, 15, 6, 7)), (kh, kw))
    planes = planes.reshape(2, 3, 5, kh * kw, -1)
    got: Any = pk.stack([planes[:, :, k : k + depth] for k in range(kd)], 2)
    want = np.lib.stride_tricks.sliding_window_view(x, (kd, kh, kw), (2, 3, 4))
    want = want.transpose(0, 1, 5, 2, 6, 7, 3, 4).reshape(got.shape)
    assert (got.numpy() == want).all()


def test_signal_from_columns(dev: pk.Device) -> None:
    """COL2IM_1D: an image of one row."""
    columns, (kernel, stride, crop) = normal(3 * 4, 5), (4, 2, 1)
    length = (5 - 1) * stride + kernel - 2 * crop
    want = np.zeros((3, length + 2 * crop), "f4")
    for k in range(kernel):
        want[:, k : k + 2 * 5 : stride] += columns.reshape(3, 4, 5)[:, k]
    got: Any = pk.fold(
        dev.tensor(columns[None]), (1, length), (1, kernel), 1, (0, crop), (1, stride)
    )
    assert np.abs(got.numpy()[0, :, 0] - want[:, crop:-crop]).max() < 1e-6


def test_scores_of_an_indexer(dev: pk.Device) -> None:
    """LIGHTNING_INDEXER: sums over heads of what relu leaves of the products."""
    q, k, w, mask = normal(2, 4, 3, 8), normal(2, 1, 9, 8), normal(2, 3, 4), normal(2, 3, 9)
    keys: Any = dev.tensor(k).swapaxes(-1, -2).broadcast_to((2, 4, 8, 9))
    seen: Any = pk.relu(pk.matmul(dev.tensor(q), keys))
    got: Any = pk.add(pk.einsum("nhts,nth->nts", seen, dev.tensor(w)), dev.tensor(mask))
    want = np.einsum("nhts,nth->nts", np.maximum(q @ k.swapaxes(-1, -2), 0), w) + mask
    assert np.abs(got.numpy() - want).max() < 1e-4


def test_streams(dev: pk.Device) -> None:
    """DSV4_HC_COMB, DSV4_HC_PRE and DSV4_HC_POST."""
    x, post, mixes, eps = normal(5, 6), normal(5, 4), normal(5, 4, 4), 1e-3
    streams = normal(5, 4, 6)  # (tokens, streams, width)
    comb: Any = pk.softmax(dev.tensor(mixes)) + eps  # (tokens, source, destination)
    e = np.exp(mixes.astype("f8"))
    want = e / e.sum(-1, keepdims=True) + eps
    for axis in (-2, -1, -2):
        comb = pk.div(comb, pk.sum(comb, axis, keepdims=True) + eps)
        want = want / (want.sum(axis, keepdims=True) + eps)
    assert np.abs(comb.numpy() - want).max() < 1e-6
    before: Any = pk.einsum("thi,th->ti", dev.tensor(streams), dev.tensor(post))
    assert np.abs(before.numpy() - np.einsum("thi,th->ti", streams, post)).max() < 1e-5
    new: Any = pk.mul(dev.tensor(x[:, None]), dev.tensor(post[..., None]))
    after: Any = pk.matmul(comb.swapaxes(-1, -2), dev.tensor(streams), residual=new)
    wanted = x[:, None] * post[..., None] + want.swapaxes(-1, -2) @ streams
    assert np.abs(after.numpy() - wanted).max() < 1e-5
