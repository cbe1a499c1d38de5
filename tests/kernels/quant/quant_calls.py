"""What tests of quantised weights share: blocks of a file that meet every case."""

from __future__ import annotations

import numpy as np

from pykernels.plans.quant.types import TYPES, BlockType
from tests.harness import Array

NAMES = tuple(TYPES)
MADE = tuple(n for n, t in TYPES.items() if t.made)
# Where a block has halves: scales and minima.
HALVES = {
    "q4_0": (0,), "q4_1": (0, 2), "q5_0": (0,), "q5_1": (0, 2), "q8_0": (0,), "q2_k": (80, 82),
    "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,), "iq4_nl": (0,), "iq4_xs": (0,),
    "mxfp4": (), "nbits4": (0,), "nbits8": (0,), "nbits4_16": (), "nbits8_16": (),
}  # fmt: skip
# Zero, -0, subnormal, smallest normal, largest, inf, NaN.
SPECIAL = (0, 0x8000, 1, 0x83FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00)


def blocks(rng: np.random.Generator, kind: BlockType, shape: tuple[int, ...]) -> Array:
    """Rows of bytes: random ones, and among them blocks of zeros, of ones, and special scales."""
    count = int(np.prod(shape)) // kind.block
    raw = rng.integers(0, 256, (count, kind.nbytes), dtype=np.uint8)
    raw[0], raw[-1] = 0, 255
    for k, special in enumerate(SPECIAL):
        for at in HALVES[kind.name]:
            raw[(k + 1) % count, at : at + 2] = special & 0xFF, special >> 8
    if kind.name.endswith("_16"):  # scales and zero points of float32, for products of any size
        both = rng.normal(0, 1, (count, 4)).astype("f4")
        both[1:4] = ((np.inf, 1, 0, 2), (1, np.nan, 3, -0.0), (0, -0.0, 1, 1e30))[: count - 1]
        raw[:, :16] = both.view("u1")
    if kind.name == "mxfp4":
        raw[: min(count, 256), 0] = rng.permutation(256)[:count]
        raw[:4, 0] = 0, 1, 2, 255
    return raw.reshape(*shape[:-1], -1)


def same(got: Array, want: Array) -> bool:
    """Equal in all bits, any NaN as a NaN; subnormal float32 may be flushed."""
    bits = f"u{got.dtype.itemsize}"
    equal = got.view(bits) == want.view(bits)
    tiny = (np.abs(want) < 2.0**-126) & (got == 0) & (got.dtype == np.float32)
    return bool((equal | tiny | (np.isnan(got) & np.isnan(want))).all())


def planes_by_name(planes: tuple[Array, ...]) -> dict[str, Array]:
    """Planes as the reference returns them, by the names of the kernels' tensors."""
    return dict(zip(("scales", "low", "high"), planes, strict=False))
