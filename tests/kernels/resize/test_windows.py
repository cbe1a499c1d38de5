"""win_part, win_unpart and get_rel_pos: by ggml's definitions, any dtype, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.harness import assert_same_bits, values

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ("float32", "float16", "uint8", "int64"))
@pytest.mark.parametrize("size", [(8, 8), (9, 8), (8, 5), (7, 10), (3, 2), (4, 0)])
def test_windows_of_images(dev: pk.Device, size: tuple[int, int], dtype: str) -> None:
    x = values(np.random.default_rng(0), dtype, (*size, 3))
    w = 4
    padded = np.pad(x, [(0, -n % w) for n in size] + [(0, 0)])
    down, across = padded.shape[0] // w, padded.shape[1] // w
    want = padded.reshape(down, w, across, w, 3).transpose(0, 2, 1, 3, 4).reshape(-1, w, w, 3)
    got = pk.win_part(dev.tensor(x), w)
    assert_same_bits(got.numpy(), want)
    assert_same_bits(pk.win_unpart(got, size).numpy(), x)
    turned = dev.tensor(np.ascontiguousarray(x.swapaxes(0, 1))).transpose(1, 0, 2)
    out = dev.full((*want.shape, 2), 1, dtype)[..., 1]  # type: ignore[arg-type]
    assert_same_bits(pk.win_part(turned, w, out=out).numpy(), want)


def test_windows_without_channels(dev: pk.Device) -> None:
    assert pk.win_part(dev.zeros((3, 5, 0)), 2).shape == (6, 2, 2, 0)
    assert pk.win_unpart(dev.zeros((6, 2, 2, 0)), (3, 5)).shape == (3, 5, 0)


def test_get_rel_pos(dev: pk.Device) -> None:
    x = np.random.default_rng(0).random((7, 5), np.float32)
    for q, k in ((4, 4), (2, 6), (7, 1)):
        want = np.array([[x[i - j + k - 1] for j in range(k)] for i in range(q)])
        t = dev.tensor(x)
        got = pk.get_rel_pos(t, q, k)
        assert got._storage is t._storage
        assert_same_bits(got.numpy(), want)
        assert_same_bits(pk.get_rel_pos(x, q, k), want)
        assert_same_bits(
            pk.get_rel_pos(dev.tensor(x[::-1].copy())[::-1], q, k).copy().numpy(), want
        )


def test_windows_reject(dev: pk.Device) -> None:
    x = dev.zeros((4, 4, 2))
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.win_part(x, 0), pk.ArgumentError, "window must be 1 or more"),
        (lambda: pk.win_part(x[0], 2), pk.ShapeError, r"\(H, W, C\)"),
        (lambda: pk.win_part(x, 2, out=dev.zeros(3)), pk.ShapeError, "out must have shape"),
        (lambda: pk.win_unpart(dev.zeros((4, 2, 2, 3)), (5, 4)), pk.ShapeError, "has 6 windows"),
        (lambda: pk.win_unpart(dev.zeros((4, 2, 3, 3)), 4), pk.ShapeError, r"\(windows, w, w, C\)"),
        (lambda: pk.win_unpart(x, 4), pk.ShapeError, r"\(windows, w, w, C\)"),
        (lambda: pk.get_rel_pos(x[0], 2, 4), pk.ShapeError, r"shape \(5, C\)"),
        (lambda: pk.get_rel_pos(x[0], 0, 5), pk.ArgumentError, "1 or more"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
