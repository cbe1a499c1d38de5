"""The demo's picture: an image made by code, blurred, resized and sorted on the device."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.reference import function

__all__ = ["make_picture", "png"]

Array = np.ndarray[Any, Any]
EDGE = 192  # pixels of a panel
RADIUS = 9  # radius of the blur, in pixels


def make_picture(dev: pk.Device, path: Path) -> Path:
    """Save four panels side by side: the image, its blur, four of its halves, its sorted rows.

    Raises SystemExit if a panel differs from the panel that numpy computes.
    """
    image = painted(EDGE)
    x = dev.tensor(image)
    line = gaussian(RADIUS)
    blurred = pk.conv2d(
        pk.conv2d(x[:, None], dev.tensor(line.reshape(1, 1, -1, 1)), padding="same"),
        dev.tensor(line.reshape(1, 1, 1, -1)), padding="same",
    )[:, 0]  # fmt: skip
    half = pk.resize(x, (EDGE // 2, EDGE // 2), antialias=True)
    by_value = pk.sort(x, axis=-1)
    check("blur", blurred.numpy(), smoothed(image, line), 1e-5)
    smaller = function("resize")(image, half.shape, antialias=True)
    check("resize", half.numpy(), np.asarray(smaller), 1e-5)
    check("sort", by_value.numpy(), np.sort(image, -1), 0.0)
    tiled = pk.concatenate([pk.concatenate([half, half], axis=-1)] * 2, axis=-2)
    panels = pk.concatenate([x, blurred, tiled, by_value], axis=-1)
    pixels = (pk.clip(panels, 0, 1) * 255).numpy().round().astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(pixels.transpose(1, 2, 0)))
    return path


def painted(edge: int) -> Array:
    """The picture: rings and stripes in three colours, (3, edge, edge), from 0 to 1."""
    y, x = np.mgrid[0:edge, 0:edge].astype(np.float32) / edge - 0.5
    ring = np.cos(60 * (x * x + y * y))
    stripe = np.sign(np.sin(26 * (x + 0.6 * y)))
    disc = ((x - 0.15) ** 2 + (y + 0.1) ** 2 < 0.04).astype(np.float32)
    red = 0.5 + 0.4 * ring * (1 - disc) + 0.1 * stripe
    green = 0.45 + 0.25 * ring + 0.3 * disc * stripe
    blue = 0.55 - 0.35 * ring * stripe * (1 - disc) + 0.3 * disc
    return np.clip(np.stack([red, green, blue]), 0, 1).astype(np.float32)


def gaussian(radius: int) -> Array:
    """The weights of 2 radius + 1 pixels; their sum is 1."""
    found = np.exp(-0.5 * (np.arange(-radius, radius + 1) / (radius / 3)) ** 2)
    return (found / found.sum()).astype(np.float32)


def smoothed(image: Array, line: Array) -> Array:
    """The blur in float64, with zeros around the image."""
    out = image.astype(np.float64)
    for axis in (-2, -1):
        out = np.apply_along_axis(np.convolve, axis, out, line.astype(np.float64), "same")
    return out


def check(what: str, got: Array, want: Array, most: float) -> None:
    error = float(np.abs(got - want).max())
    if not error <= most:
        raise SystemExit(f"the {what} of the picture went wrong: it is off by {error:.2g}")


def png(pixels: Array) -> bytes:
    """An array of bytes, (height, width, 3), as a PNG file."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    # filter 1 of PNG: differences from the left neighbours
    left = np.pad(pixels, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    rows = np.pad((pixels - left).reshape(height, 3 * width), ((0, 0), (1, 0)), constant_values=1)
    return b"".join([
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
        chunk(b"IEND", b""),
    ])  # fmt: skip
