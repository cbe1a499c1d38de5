"""Pictures of bytes as PNG files."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def write_png(path: Path, picture: Array) -> None:
    """A picture of bytes as PNG: height x width (grey), or with three channels."""
    height, width = picture.shape[:2]
    colour = 2 if picture.ndim == 3 else 0
    # Each row starts with the number of PNG's filter 1: its bytes are differences from their left
    # neighbours.
    rows = np.diff(picture, axis=1, prepend=np.uint8(0)).reshape(height, -1)
    rows = np.concatenate([np.full((height, 1), 1, np.uint8), rows], 1)
    chunks = (
        (b"IHDR", struct.pack(">2I5B", width, height, 8, colour, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    with path.open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in chunks:
            file.write(struct.pack(">I", len(data)) + kind + data)
            file.write(struct.pack(">I", zlib.crc32(kind + data)))
