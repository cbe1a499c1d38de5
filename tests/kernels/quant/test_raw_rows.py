"""Quantised weights that are only dequantised: equal to the package gguf's numbers in every bit."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.quant.raw_types import RAW
from pykernels.reference import quant as reference
from tests.harness import Array, Case, Form, caps, random_form
from tests.kernels.quant.quant_calls import SPECIAL, same

gpu = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[3]
NAMES = tuple(RAW)
OF_GGUF = tuple(n for n in NAMES if n != "float8_e4m3")
# Where a block has its scale as a half.
HALF = {"tq1_0": 52, "tq2_0": 64}


def blocks(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Array:
    """Rows of bytes: random ones, and among them blocks of zeros, of ones, and special scales."""
    kind = RAW[name]
    count = int(np.prod(shape)) // kind.block
    raw = rng.integers(0, 256, (count, kind.nbytes), dtype=np.uint8)
    raw[0], raw[-1] = 0, 255
    for k, special in enumerate(SPECIAL):
        block = raw[(k + 1) % count]
        if name == "iq1_m":  # four bits of the scale in each of four places
            block[49:56:2] = block[49:56:2] & 15 | [(special >> s & 15) << 4 for s in (0, 4, 8, 12)]
        elif name not in ("nvfp4", "float8_e4m3"):
            at = HALF.get(name, 0)
            block[at : at + 2] = special & 0xFF, special >> 8
    if name == "nvfp4":
        raw[:, :4].reshape(-1)[: min(4 * count, 256)] = rng.permutation(256)[: 4 * count]
    if name == "float8_e4m3":
        scales = rng.normal(0, 1, count).astype("f4")
        scales[1:7] = np.array([0, -0.0, np.inf, -np.inf, np.nan, 3e38], "f4")[: count - 1]
        raw[:, :4] = scales.view("u1").reshape(count, 4)
        raw[1::2, 4:] = rng.permutation(256)[:128]
    return raw.reshape(*shape[:-1], -1)


def numbers(name: str, raw: Array) -> Array:
    """The oracle: gguf, and for float8 ml_dtypes."""
    with np.errstate(all="ignore"):
        if name != "float8_e4m3":
            return np.asarray(gguf.dequantize(raw, gguf.GGMLQuantizationType[name.upper()]))
        each = raw.reshape(*raw.shape[:-1], -1, 132)
        scales = np.ascontiguousarray(each[..., :4]).view("f4")
        q = np.ascontiguousarray(each[..., 4:]).view(ml_dtypes.float8_e4m3fn).astype("f4")
        return (scales * q).reshape(*raw.shape[:-1], -1)


@gpu
@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_those_of_the_oracle(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(1)
    for shape in ((37, 768), (2, 3, 256), (1, 2304)):
        raw = blocks(rng, name, shape)
        q = pk.QTensor.from_bytes(raw.tobytes(), shape, name, dev)
        assert q.tobytes() == raw.tobytes()
        assert q.nbytes == raw.size and q.type == q.dtype == name and q.shape == shape
        want = numbers(name, raw)
        assert np.isfinite(want).mean() > 0.3
        assert same(q.numpy(), want), shape
        with np.errstate(all="ignore"):
            assert same(pk.dequantize(q, "float16").numpy(), want.astype("f2")), shape
