"""Types of quantised weights, and the planes of words in which a device holds them.

docs/design/quant.md describes the layout. A type's macros, `kernels/lib/quant/NAME.wgsl`, have
the same constants; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from pykernels.errors import ArgumentError, ShapeError

from .raw_types import RAW

__all__ = ["GROUP", "TYPES", "BlockType", "Planes", "QuantName", "planes", "type_of"]

GROUP = 32  # numbers of a group, whose words lie together
ROWS = 4  # the number of rows of a plane is a multiple of this

QuantName: TypeAlias = Literal[
    "q4_0",
    "q4_1",
    "q5_0",
    "q5_1",
    "q8_0",
    "q2_k",
    "q3_k",
    "q4_k",
    "q5_k",
    "q6_k",
    "iq4_nl",
    "iq4_xs",
    "mxfp4",
    "nbits4",
    "nbits8",
    "nbits4_16",
    "nbits8_16",
]


@dataclass(frozen=True, slots=True)
class BlockType:
    """A type: its block in a file, and its planes on a device."""

    name: QuantName
    block: int  # numbers of a block
    nbytes: int  # bytes of a block in a file
    vec: int  # words in one vector of the plane `low`
    parts: int  # vectors for a group in `low`
    high: int  # words for a group in `high`; 0: the type has no such plane
    words: int  # words of a block's record in `scales`
    share: int = 1  # rows that share a word of a record: 2 for halves, 4 for bytes
    step: int = 32  # numbers that share one scale
    offset: bool = False  # True: a number is scale * q + offset, not scale * q
    made: bool = False  # True: numbers can be quantised to it
    halves: bool = False  # True: gemv_quant_half has texts for the type

    def rounds(self, depth: int) -> int:
        """The number of rounds in which gemv_quant loads the groups of a row."""
        groups = 4 if self.block > 32 and self.high == 0 else 2
        return -(-depth // (32 * groups))


class Planes(NamedTuple):
    """The shapes of the planes, all of uint32."""

    low: tuple[int, ...]  # (batches, groups, parts, rows, vec)
    scales: tuple[int, ...]  # (batches, blocks, words, rows / share)
    high: tuple[int, ...] | None  # (batches, groups, high, rows)


_ROWS = (
    BlockType("q4_0", 32, 18, vec=4, parts=1, high=0, words=1, share=2, made=True, halves=True),
    BlockType("q4_1", 32, 20, vec=4, parts=1, high=0, words=1, offset=True, made=True),
    BlockType("q5_0", 32, 22, vec=4, parts=1, high=1, words=1, share=2, made=True),
    BlockType("q5_1", 32, 24, vec=4, parts=1, high=1, words=1, offset=True, made=True),
    BlockType("q8_0", 32, 34, vec=4, parts=2, high=0, words=1, share=2, made=True, halves=True),
    BlockType("q2_k", 256, 84, vec=2, parts=1, high=0, words=5, step=16, offset=True),
    BlockType("q3_k", 256, 110, vec=2, parts=1, high=1, words=4, step=16),
    BlockType("q4_k", 256, 144, vec=4, parts=1, high=0, words=4, offset=True, halves=True),
    BlockType("q5_k", 256, 176, vec=4, parts=1, high=1, words=4, offset=True, halves=True),
    BlockType("q6_k", 256, 210, vec=4, parts=1, high=2, words=5, step=16, halves=True),
    BlockType("iq4_nl", 32, 18, vec=4, parts=1, high=0, words=1, share=2, made=True),
    BlockType("iq4_xs", 256, 136, vec=4, parts=1, high=0, words=2),
    BlockType("mxfp4", 32, 17, vec=4, parts=1, high=0, words=1, share=4, made=True),
    BlockType("nbits4", 32, 20, vec=4, parts=1, high=0, words=1, halves=True),
    BlockType("nbits8", 32, 36, vec=4, parts=2, high=0, words=1, halves=True),
    BlockType("nbits4_16", 32, 32, vec=4, parts=1, high=0, words=4, step=16),
    BlockType("nbits8_16", 32, 48, vec=4, parts=2, high=0, words=4, step=16),
)
TYPES: dict[str, BlockType] = {t.name: t for t in _ROWS}


def type_of(op: str, name: object) -> BlockType:
    """The type of this name; ArgumentError if there is no such type, or if `op` does not take
    it."""
    found = TYPES.get(name.lower()) if isinstance(name, str) else None
    if isinstance(name, str) and name.lower() in RAW:
        raise ArgumentError(
            f"[{op}] {name.lower()} weights are only dequantised: pk.dequantize(q) gives their "
            f"numbers"
        )
    if found is None:
        raise ArgumentError(f"[{op}] type must be one of {', '.join(TYPES)} but is {name!r:.60}")
    return found


def planes(op: str, kind: BlockType, shape: tuple[int, ...]) -> Planes:
    """The planes of a tensor (..., rows, numbers of a row)."""
    if len(shape) < 2 or shape[-1] % kind.block:
        raise ShapeError(
            f"[{op}] {kind.name} needs two axes or more, the last one a multiple of {kind.block}, "
            f"but the shape is {shape}"
        )
    *lead, n, k = shape
    batches, rows = 1, -(-n // ROWS) * ROWS
    for size in lead:
        batches *= size
    groups = k // GROUP
    return Planes(
        (batches, groups, kind.parts, rows, kind.vec),
        (batches, k // kind.block, kind.words, rows // kind.share),
        (batches, groups, kind.high, rows) if kind.high else None,
    )
