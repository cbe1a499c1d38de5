"""Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

import pykernels as pk

from ..graph import Array, Node
from .table import kept, op, refuse

# Up to this length a product with a matrix of cosines and sines costs no more than a fast
# transform, and results that should be 0 are closer to 0.
SHORT = 64


def _transformed(node: Node, x: Any, length: int, inverse: bool, onesided: bool) -> Any:
    """The transform of x (..., n, 1 or 2) along n, first cut or filled with zeros to `length`."""
    if length <= SHORT:
        return _multiplied(node, x, length, inverse, onesided)
    x = x.astype("float32")  # a contiguous copy
    count = length // 2 + 1 if onesided else length
    z = x[..., 0] if x.shape[-1] == 1 else pk.view_as_complex(x)
    half = onesided and x.shape[-1] == 1
    transform = pk.fft.rfft if half else pk.fft.ifft if inverse else pk.fft.fft
    found: Any = transform(z, length)
    return pk.view_as_real(found)[..., :count, :]


def _multiplied(node: Node, x: Any, length: int, inverse: bool, onesided: bool) -> Any:
    n = x.shape[-2]
    if n < length:
        x = pk.pad(x, [*[(0, 0)] * (x.ndim - 2), (0, length - n), (0, 0)])
    else:
        x = x[..., :length, :]
    count = length // 2 + 1 if onesided else length
    turns = np.outer(np.arange(length), np.arange(count)) % length * (2 * np.pi / length)
    scale, sign = (1 / length, -1) if inverse else (1, 1)
    cos = kept(node, "cos", x.device, (np.cos(turns) * scale).astype(np.float32))
    sin = kept(node, "sin", x.device, (np.sin(turns) * scale * sign).astype(np.float32))
    real = x[..., 0].astype("float32")
    up, across = pk.matmul(real, cos), pk.matmul(real, sin)
    if x.shape[-1] == 1:
        return pk.stack([up, pk.neg(across)], -1)
    imaginary = x[..., 1].astype("float32")
    return pk.stack([up + pk.matmul(imaginary, sin), pk.matmul(imaginary, cos) - across], -1)


def _real(node: Node, x: Any, length: int) -> Any:
    """The real signal (..., length, 1), from one side x (..., n, 2) of its transform."""
    count = length // 2 + 1
    if x.shape[-1] != 2:
        raise refuse(node, "one side of a transform as real numbers")
    if length > SHORT:
        return pk.fft.irfft(pk.view_as_complex(x.astype("float32")), length)[..., None]
    x = x[..., :count, :]
    k = np.arange(x.shape[-2])
    turns = np.outer(k, np.arange(length)) % length * (2 * np.pi / length)
    # a term that also occurs on the other side of the transform counts twice
    both = np.where((k == 0) | (2 * k == length), 1, 2)[:, None] / length
    cos = kept(node, "cos", x.device, (np.cos(turns) * both).astype(np.float32))
    sin = kept(node, "sin", x.device, (np.sin(turns) * both).astype(np.float32))
    real, imaginary = x[..., 0].astype("float32"), x[..., 1].astype("float32")
    return (pk.matmul(real, cos) - pk.matmul(imaginary, sin))[..., None]


@op("DFT", host=(1, 2))
def dft(node: Node, x: Any, length: Array | None = None, axis: Array | None = None) -> Any:
    given = node.attributes
    at = int(axis.item()) if axis is not None else given.get("axis", 1 if node.version < 20 else -2)
    at %= x.ndim
    inverse, onesided = bool(given.get("inverse", 0)), bool(given.get("onesided", 0))
    half = inverse and onesided
    usual = 2 * (x.shape[at] - 1) if half else x.shape[at]
    count = usual if length is None else int(length.item())
    x = pk.moveaxis(x, at, -2)
    y = _real(node, x, count) if half else _transformed(node, x, count, inverse, onesided)
    return pk.moveaxis(y, -2, at)


@op("STFT", host=(1, 3))
def stft(node: Node, x: Any, step: Array, window: Any = None, length: Array | None = None) -> Any:
    width = int(length.item()) if length is not None else window.shape[0]
    by = int(step.item())
    rows = np.arange((x.shape[1] - width) // by + 1)[:, None] * by + np.arange(width)
    index = kept(node, "rows", x.device, rows.reshape(-1).astype(np.int32))
    x = x if x.ndim == 3 else x[..., None]
    frames = pk.index_select(x, 1, index).reshape(x.shape[0], *rows.shape, x.shape[2])
    if window is not None:
        frames = frames * window.reshape(-1, 1)
    return _transformed(node, frames, width, False, bool(node.attributes.get("onesided", 1)))
