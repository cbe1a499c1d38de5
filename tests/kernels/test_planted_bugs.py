"""Bugs planted in the index arithmetic of fragments are found by the comparison that all tests use.

A number in an index of an emulated text is one too large, at sites that a seed picks.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import force
from pykernels.plans.attention.select import AttentionChoice
from pykernels.plans.conv.select import ConvChoice
from pykernels.plans.conv.select_weight import WeightGradChoice
from pykernels.plans.matmul.select import GemmChoice
from pykernels.plans.matmul.select_i8 import Int8Choice
from pykernels.reference.conv import (
    conv2d,
    conv2d_backward_weight,
    conv2d_backward_weight_budget,
    window_budget,
)
from pykernels.reference.matmul import mul_mat, mul_mat_budget
from tests.conftest import DRIVERS, FULL
from tests.emulation import emulated, texts_of
from tests.harness import assert_close
from tests.kernels.attention.attention_calls import AttentionCalls

# Compiling one takes a second or more.
COUNT = 24 if FULL else 2
# Where operands and results pass through workgroup memory; a bound hides what is planted below it.
LINE = re.compile(r"\b(load_(left|right)\w*|store_sums)\(|\btile\[|let (?!k_)\w+_(to|at) = ")
# n is 0 there in the small tile of attention.
NUMBER = re.compile(r"(?<=[*+] )(?<!own \+ n [*] )(?<!n >> 2u\) [*] )(\d+)(?=u\b)")


def sites(text: str) -> list[tuple[int, int]]:
    """Begin and end of the numbers in such lines of the entry point."""
    found, at = [], text.index("fn main(")
    for line in text[at:].splitlines(keepends=True):
        # Zeros are for values that are NaN and hidden.
        if LINE.search(line) and "min(" not in line and "= vec4<u32>()" not in line:
            found += [(at + m.start(), at + m.end()) for m in NUMBER.finditer(line)]
        at += len(line)
    return found


def plant(seed: int) -> Callable[[str], str]:
    def edit(text: str) -> str:
        start, end = random.Random(seed).choice(sites(text))
        return f"{text[:start]}{int(text[start:end]) + 1}{text[end:]}"

    return edit


def gemm_mma(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(0, 1, (n, 88)).astype(np.float16) for n in (32, 40))
    for x, y in ((dev.tensor(a), dev.tensor(b)), (_along(dev, a), _along(dev, b))):
        dst = dev.empty((40, 32))
        with force(dev, GemmChoice("gemm_mma/32x32")):
            pk.kernels.mul_mat(x, y, dst)
        assert_close(dst.numpy(), mul_mat(a, b), mul_mat_budget(a, b), "gemm_mma")


def _along(dev: pk.Device, x: np.ndarray) -> pk.Tensor:  # type: ignore[type-arg]
    """The same numbers with k as the row."""
    return dev.tensor(np.ascontiguousarray(x.T)).T


def gemm_mma_i8(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, (n, 176), np.int8) for n in (32, 40))
    dst = dev.empty((40, 32), "int32")
    with force(dev, Int8Choice("gemm_mma_i8/32x32")):
        pk.kernels.mul_mat_i8(dev.tensor(a), dev.tensor(b), dst)
    assert (dst.numpy() == b.astype(np.int64) @ a.T.astype(np.int64)).all()


def implicit_gemm_mma(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (1, 5, 8, 40)).astype(np.float16)
    w = rng.normal(0, 1, (40, 40, 3, 3)).astype(np.float16)
    for layout, given in (("NHWC", x), ("NCHW", np.ascontiguousarray(x.transpose(0, 3, 1, 2)))):
        dst = dev.empty((1, 3, 6, 40) if layout == "NHWC" else (1, 40, 3, 6))
        with force(dev, ConvChoice("implicit_gemm_mma/32x32")):
            pk.kernels.conv2d(dev.tensor(given), dev.tensor(w), dst, layout=layout)  # type: ignore[arg-type]
        want = conv2d(given, w, layout=layout)
        size = conv2d(np.abs(given), np.abs(w), layout=layout)
        assert_close(dst.numpy(), want, window_budget(size, 360), "implicit_gemm_mma")


def conv_weight_mma(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    for image in ((6, 8), (4, 4)):  # more pixels than a tile has, and fewer
        x, dy = (rng.normal(0, 1, (1, 40, *image)).astype(np.float16) for _ in range(2))
        dst = dev.empty((40, 40, 3, 3))
        with force(dev, WeightGradChoice("conv_weight_mma/32x32")):
            pk.kernels.conv2d_backward_weight(dev.tensor(dy), dev.tensor(x), dst, padding=1)
        want = conv2d_backward_weight(dy, x, dst.shape, padding=1)
        bound = conv2d_backward_weight_budget(dy, x, dst.shape, padding=1)
        assert_close(dst.numpy(), want, bound, "conv_weight_mma")


def gemm_split(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    for k in (72, 8):  # the last tile, and the only one, is not whole
        a, b = (rng.normal(0, 1, (n, k)).astype(np.float32) for n in (32, 40))
        dst = dev.empty((40, 32))
        with force(dev, GemmChoice("gemm_split/32x32")):
            pk.kernels.mul_mat(dev.tensor(a), dev.tensor(b), dst, precision="split")
        assert_close(dst.numpy(), mul_mat(a, b), mul_mat_budget(a, b), "gemm_split")


def attention_mma(dev: pk.Device) -> None:
    calls = AttentionCalls(dev)
    calls.add((1, 2, 1), (40, 72), (60, 60), "float16", out_dtype="float32")
    calls.add((1, 2, 1), (40, 72), (64, 64), "float16", out_dtype="float32")
    # Row maxima rise from tile to tile, so that sums start again.
    calls.add((1, 2, 1), (40, 136), (60, 60), "float16", out_dtype="float32", scale=1.0)
    with force(dev, AttentionChoice("attention_mma/emulated")):
        calls.check("attention_mma")


CHECKS = {
    f.__name__: f
    for f in (
        gemm_mma, gemm_mma_i8, gemm_split, implicit_gemm_mma, conv_weight_mma, attention_mma,
    )
}  # fmt: skip


@pytest.fixture
def fresh() -> Iterator[pk.Device]:
    """A device without compiled texts."""
    engine, _, driver = os.environ.get("PYKERNELS_TEST_COLUMN", "").partition("-")
    with pk.Device(DRIVERS.get(driver), engine=engine or "wgpu") as dev:  # type: ignore[arg-type]
        if "shader-f16" not in dev.features:
            pytest.skip("halves are f32 here before a plan sees them")
        yield dev


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(COUNT))
@pytest.mark.parametrize("body", CHECKS)
def test_a_planted_bug_is_found(fresh: pk.Device, body: str, seed: int) -> None:
    texts = texts_of(body)
    texts.edit = plant(seed)
    try:
        with emulated(fresh, body), pytest.raises((AssertionError, pk.PyKernelsError)):
            CHECKS[body](fresh)
    finally:
        texts.edit = None


@pytest.mark.gpu
@pytest.mark.parametrize("body", CHECKS)
def test_without_one_none_is_found(fresh: pk.Device, body: str) -> None:
    with emulated(fresh, body):
        CHECKS[body](fresh)
