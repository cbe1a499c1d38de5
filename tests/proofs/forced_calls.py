"""Calls of bodies that no case of the exports runs, because a plan takes them for large calls, for
halves or for matrix units: small calls with forced choices, on emulated matrix units.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pykernels as pk
from pykernels.export._layouts import Request
from pykernels.export._layouts import parse as parse_request
from pykernels.forcing import force, parse
from pykernels.wgsl.texts import read
from tests.emulation import emulated

__all__ = ["FACTS", "FORCED", "Forced"]

FACTS: dict[str, Any] = json.loads(read("javascript.json"))["kernels"]


class Forced(NamedTuple):
    """A call: the request as in a file of cases, the forced choices (KERNEL: CHOICE), and the
    bodies that get their emulated texts."""

    request: str
    choices: tuple[str, ...] = ()
    emulates: tuple[str, ...] = ()

    def parsed(self, kernel: str) -> Request:
        """The request for a kernel."""
        return parse_request(kernel, self.request, FACTS[kernel])

    @contextmanager
    def on(self, dev: pk.Device) -> Iterator[None]:
        """Inside, plans for the device take these choices."""
        with ExitStack() as held:
            if self.emulates:
                held.enter_context(emulated(dev, *self.emulates))
            held.enter_context(force(dev, *self.given()))
            yield

    def given(self) -> list[object]:
        """The choices."""
        return [parse(*text.split(": ")) for text in self.choices]


_CONV = "x=f32[1,16,12,12] w=f32[16,16,3,3] dst=f32[1,16,12,12] padding=1"
_HALVES = "x=f16[1,16,9,9] w=f16[24,16,3,3] dst=f16[1,24,9,9] padding=1"
_ATTENTION = "q=f32[1,2,33,16] k=f32[1,1,70,16] v=f32[1,1,70,24] dst=f32[1,2,33,24] causal=True"
_BLOCKS = "low=u32[1,2,1,8,4] scales=u32[1,2,1,4]"
_PRODUCT = "a=f16[33,40] b=f16[35,40] dst=f32[35,33]"
FORCED: dict[str, tuple[Forced, ...]] = {
    "conv2d": (
        Forced(_CONV, ("conv2d: implicit_gemm_3x3/64x96",)),
        Forced(_CONV, ("conv2d: winograd/2",)),
        Forced(_HALVES, ("conv2d: implicit_gemm_mma/32x32",), ("implicit_gemm_mma",)),
    ),
    "conv2d_backward_weight": (
        Forced("dy=f32[1,8,9,9] x=f32[1,6,9,9] dst=f32[8,6,3,3] padding=1",
               ("conv2d_backward_weight: 32x32 splits=2",)),
        Forced("dy=f16[1,24,9,9] x=f16[1,16,9,9] dst=f16[24,16,3,3] padding=1",
               ("conv2d_backward_weight: conv_weight_mma/32x32",), ("conv_weight_mma",)),
    ),
    "cross_entropy": (
        Forced("x=f32[2,8193] target=int64[2] dst=f32[2] reduction='none'",
               ("cross_entropy: pieces=2",)),
        Forced("x=f32[3,40] target=f32[3,40] dst=f32[]"),
    ),
    "flash_attn": (
        Forced("q=f32[1,2,2,15] k=f32[1,1,70,15] v=f32[1,1,70,9] dst=f32[1,2,2,9]",
               ("flash_attn: decode splits=2",)),
        Forced(_ATTENTION, ("flash_attn: attention_tile/32 splits=3",)),
        Forced(_ATTENTION, ("flash_attn: products queries=16",)),
        Forced("q=f16[1,2,17,16] k=f16[1,1,40,16] v=f16[1,1,40,24] dst=f32[1,2,17,24] causal=True",
               ("flash_attn: attention_mma/emulated",), ("attention_mma",)),
    ),
    "mul_mat": (
        Forced("a=f32[40,33] b=f32[70,33] dst=f32[70,40]", ("mul_mat: gemm_tile",)),
        Forced("a=f16[40,33] b=f16[70,33] dst=f16[70,40] precision=fast", ("mul_mat: gemm_tile",)),
        Forced(_PRODUCT, ("mul_mat: gemm_mma/32x32",), ("gemm_mma",)),
        Forced("a=f32[33,40] b=f32[35,40] dst=f32[35,33] precision=split",
               ("mul_mat: gemm_split/32x32",), ("gemm_split",)),
    ),
    "mul_mat_i8": (
        Forced("a=int8[33,100] b=int8[17,100] dst=i32[17,33]",
               ("mul_mat_i8: mul_mat_i8/32 splits=2",)),
        Forced("a=int8[33,64] b=int8[35,64] dst=i32[35,33]",
               ("mul_mat_i8: gemm_mma_i8/32x32",), ("gemm_mma_i8",)),
    ),
    "mul_mat_quant": (
        Forced(f"{_BLOCKS} b=f16[1,64] dst=f16[1,6] quant=q4_0"),
        Forced(f"{_BLOCKS} b=f32[1,64] dst=f32[1,6] quant=q4_0 precision=fast",
               ("mul_mat_quant: gemv_quant_i8",)),
        Forced(f"{_BLOCKS} b=f16[9,64] dst=f16[9,8] quant=q4_0",
               ("mul_mat_quant: gemm_mma_quant/32x32",), ("gemm_mma_quant",)),
        Forced(f"{_BLOCKS} b=f16[9,64] dst=f16[9,8] quant=q4_0",
               ("mul_mat_quant: gemm_mma_quant_few/emulated",), ("gemm_mma_quant_few",)),
    ),
}  # fmt: skip
