"""Contiguous views as bytes, cut where they are larger than one binding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pykernels.dtypes import DTYPES
from pykernels.layout import View
from pykernels.plan import Caps

__all__ = ["chunks"]


def chunks(
    caps: Caps, views: Sequence[View], first: int = 0, size: int | None = None
) -> Iterator[tuple[View, ...]]:
    """Byte views of equal length over `size` bytes from byte `first` of contiguous views."""
    total = views[0].nbytes if size is None else size
    # Room for rounding the ends of a window.
    most = (caps.max_binding - 2 * caps.alignment) // 256 * 256
    for at in range(0, total, most):
        n = min(most, total - at)
        yield tuple(
            replace(
                v, dtype=DTYPES["uint8"], shape=(n,), strides=(1,), offset=v.offset + first + at,
                padded=v.padded or at + n + 16 <= total,
            )
            for v in views
        )  # fmt: skip
