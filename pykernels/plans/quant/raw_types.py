"""Types of quantised weights that are only dequantised; a device holds the bytes of a file.

A type's macros, `kernels/quant/lib/raw/NAME.wgsl`, have the same constants; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pykernels.errors import ArgumentError, ShapeError

__all__ = ["RAW", "RawName", "RawType", "raw_type_of", "row_bytes"]

RawName: TypeAlias = Literal[
    "float8_e4m3",
    "nvfp4",
    "iq1_s",
    "iq1_m",
    "iq2_xxs",
    "iq2_xs",
    "iq2_s",
    "iq3_xxs",
    "iq3_s",
    "tq1_0",
    "tq2_0",
]


@dataclass(frozen=True, slots=True)
class RawType:
    """A type whose blocks a device reads in the form that they have in a file."""

    name: RawName
    block: int  # numbers of a block
    nbytes: int  # bytes of a block
    entry: int = 0  # numbers (bytes) in an entry of the type's table; 0: the type has no table
    entries: int = 0
    # True: the last block of a row may reach beyond the row; the numbers beyond it are left out
    cut: bool = False

    @property
    def words(self) -> int:
        """The number of words of the type's table."""
        return self.entry * self.entries // 4


_ROWS = (
    RawType("float8_e4m3", 128, 132, cut=True),
    RawType("nvfp4", 64, 36),
    RawType("iq1_s", 256, 50, entry=8, entries=2048),
    RawType("iq1_m", 256, 56, entry=8, entries=2048),
    RawType("iq2_xxs", 256, 66, entry=8, entries=256),
    RawType("iq2_xs", 256, 74, entry=8, entries=512),
    RawType("iq2_s", 256, 82, entry=8, entries=1024),
    RawType("iq3_xxs", 256, 98, entry=4, entries=256),
    RawType("iq3_s", 256, 110, entry=4, entries=512),
    RawType("tq1_0", 256, 54),
    RawType("tq2_0", 256, 66),
)
RAW: dict[str, RawType] = {t.name: t for t in _ROWS}


def raw_type_of(op: str, name: object) -> RawType:
    """The type of a name; ArgumentError if there is none."""
    found = RAW.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise ArgumentError(f"[{op}] type must be one of {', '.join(RAW)} but is {name!r:.60}")
    return found


def row_bytes(op: str, kind: RawType, shape: tuple[int, ...]) -> int:
    """The bytes of a row of a tensor (..., rows, numbers of a row)."""
    if len(shape) < 2 or (shape[-1] % kind.block and not kind.cut):
        raise ShapeError(
            f"[{op}] {kind.name} needs two axes or more, the last one a multiple of {kind.block}, "
            f"but the shape is {shape}"
        )
    return -(-shape[-1] // kind.block) * kind.nbytes
