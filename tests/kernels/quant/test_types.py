"""The types of quantised weights on the host: the reference beside the package gguf, and the
constants of their files of macros."""

from __future__ import annotations

import re
from pathlib import Path

import gguf
import numpy as np
import pytest

from pykernels.plans.quant.types import TYPES
from pykernels.reference import quant as reference
from tests.kernels.quant.quant_calls import MADE, NAMES, blocks, planes_by_name, same

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("nbits")])
def test_dequantised_blocks_are_those_of_gguf(name: str) -> None:
    kind = TYPES[name]
    raw = blocks(np.random.default_rng(1), kind, (33, 2048))
    number = gguf.GGMLQuantizationType[name.upper()]
    assert gguf.GGML_QUANT_SIZES[number] == (kind.block, kind.nbytes)
    with np.errstate(all="ignore"):
        want = gguf.dequantize(raw, number)
    got = reference.dequantized(name, raw)
    assert (got.view("u4") == want.view("u4")).mean() > 0.5  # not all are NaN
    assert same(got, want)
    planes = planes_by_name(reference.pack_blocks(raw[None], name))  # fmt: skip
    assert (reference.unpack_blocks(**planes, shape=(1, *raw.shape), quant=name) == raw).all()
    again = reference.dequantize(**planes, shape=want.shape, dtype="f4", quant=name)
    assert same(again, want)


@pytest.mark.parametrize("name", [n for n in MADE if n != "iq4_nl"])
def test_quantised_blocks_are_those_of_gguf(name: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(16, 512)).astype("f4") * 10 ** rng.uniform(-6, 4, (16, 1)).astype("f4")
    x[0, :32], x[1, 32:64] = 0, 3
    want = gguf.quantize(x, gguf.GGMLQuantizationType[name.upper()])
    assert (_bytes(x, name) == want).all()


def test_iq4_nl_is_by_the_rule_of_ggml() -> None:
    """Beside a transcription of quantize_row_iq4_nl_impl, which gguf does not have."""
    x = np.random.default_rng(3).normal(size=(4, 64)).astype("f4")
    x[0, :32], x[1, 5] = 0, 40
    want = b"".join(_iq4_nl(block) for block in x.reshape(-1, 32))
    assert _bytes(x, "iq4_nl").tobytes() == want


def _iq4_nl(block: np.ndarray) -> bytes:
    values = np.array(reference.IQ4, "f4")
    top = np.float32(0)
    for v in block:
        top = v if abs(v) > abs(top) else top
    if abs(top) < 1e-15:
        return bytes(2) + b"\x88" * 16  # ggml leaves the numbers open
    inverse = np.float32(1) / (top / values[0])
    products = squares = np.float32(0)
    places = []
    for v in block:
        y = inverse * v
        if y <= values[0] or y >= values[15]:
            place = 0 if y <= values[0] else 15
        else:
            above = int(np.searchsorted(values, y, "right"))
            place = above - 1 if y - values[above - 1] < values[above] - y else above
        places.append(place)
        products += v * v * values[place] * v
        squares += v * v * values[place] * values[place]
    scale = (products / squares).astype("f2").tobytes()
    return scale + bytes(a | b << 4 for a, b in zip(places[:16], places[16:], strict=True))


def _bytes(x: np.ndarray, name: str) -> np.ndarray:
    kind = TYPES[name]
    planes = reference.quantize(x, name)
    given = planes_by_name(planes)
    shape = (1, x.shape[0], x.shape[1] // kind.block * kind.nbytes)
    return reference.unpack_blocks(**given, shape=shape, quant=name)[0]


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_constants_of_their_macros(name: str) -> None:
    text = (ROOT / "kernels/lib/quant" / f"{name}.wgsl").read_text()
    found = {}
    for names, values in re.findall(r"^//% set ([A-Z_, ]+) = (.+)$", text, re.M):
        found |= dict(zip(names.split(", "), values.split(", "), strict=True))
    kind = TYPES[name]
    assert found["BLOCK"] == str(kind.block) and found["BYTES"] == str(kind.nbytes)
    assert found["VEC"] == str(kind.vec) and found["PARTS"] == str(kind.parts)
    assert found["HIGH"] == str(kind.high) and found["WORDS"] == str(kind.words)
    assert found["SHARE"] == str(kind.share) and found["STEP"] == str(kind.step)
    assert found["OFFSET"] == str(kind.offset).lower()
    assert found["BITS"] == str(kind.vec * kind.parts)
    assert ("macro making" in text) == kind.made
