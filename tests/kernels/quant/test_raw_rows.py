"""Quantised weights that are only dequantised: equal to the package gguf's numbers in every bit."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import gguf
import ml_dtypes
import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.quant.raw_types import RAW
from pykernels.reference import quant as reference
from pykernels.tensors import raw_quantised
from pykernels.tensors.raw_quantised import entries
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


@gpu
def test_any_layout(dev: pk.Device) -> None:
    """Views with strides, offsets and canaries around them; blocks at any byte."""
    case = Case(dev, seed=3)
    calls = []
    for k in range(8):
        name = ("iq3_s", "tq1_0", "float8_e4m3", "nvfp4")[k % 4]
        raw = blocks(case.rng, name, (7, 512))
        data = case.input(raw, Form(gap=3, phase=1 + k))
        shape = ((2, 3), (5,))[k % 2]
        index = case.rng.integers(0, 7, shape)
        width = 511 if name == "float8_e4m3" else 512
        dst = case.output(
            (*shape, width), ("float32", "float16")[k // 4],
            random_form(case.rng, len(shape) + 1, repeats=False),
        )  # fmt: skip
        calls.append((name, raw, data, index, dst))
    case.build()
    tables = {n: dev.tensor(entries(RAW[n])) if RAW[n].words else None for n in NAMES}

    def run() -> None:
        for name, _, data, index, dst in calls:
            places = dev.tensor(index)
            pk.kernels.raw_rows(data.tensor, places, dst.tensor, table=tables[name], quant=name)

    for got, (name, raw, _, index, dst) in zip(case.run(run), calls, strict=True):
        with np.errstate(all="ignore"):
            want = numbers(name, raw)[index][..., : dst.tensor.shape[-1]].astype(got.dtype)
        assert same(np.ascontiguousarray(got), want)


@gpu
@pytest.mark.parametrize("name", ["iq1_m", "tq1_0", "float8_e4m3"])
def test_rows_of_an_index(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(5)
    raw = blocks(rng, name, (29, 512))
    q = pk.QTensor.from_bytes(raw, (29, 512), name, dev)
    table = numbers(name, raw)
    index = rng.integers(0, 29, (3, 2, 7))
    for kind in ("i4", "i8"):
        places = dev.tensor(index.astype(kind))
        assert same(pk.embedding(q, places).numpy(), table[index])
        assert same(pk.get_rows(q, places[0]).numpy(), table[index[0]])
        assert same(pk.embedding(q, places[2, 1, 6]).numpy(), table[index[2, 1, 6]])
        row = dev.zeros(q.shape[1])
        pk.kernels.raw_rows(q._data, places[2, 1, 6], row, table=q._table, quant=name)
        assert same(row.numpy(), table[index[2, 1, 6]])
    assert same(q.rows(np.array(3)).numpy(), table[3])
    out = dev.zeros((512, 3, 2, 7), "float16").transpose(1, 2, 3, 0)
    assert pk.embedding(q, dev.tensor(index), out=out) is out
    with np.errstate(all="ignore"):
        assert same(np.ascontiguousarray(out.numpy()), table[index].astype("f2"))
    index[1, 1, 4] = 29
    with pytest.raises(pk.IndexRangeError, match=r"index must be in \[0, 29\) .* \(1, 1, 4\)"):
        pk.embedding(q, dev.tensor(index)).numpy()
    for kept in (dev.full((3, 2, 7, 512), 5), dev.full((512, 3, 2, 7), 5).transpose(1, 2, 3, 0)):
        pk.embedding(q, dev.tensor(index), check=False, out=kept)
        got = np.ascontiguousarray(kept.numpy())
        assert (got[1, 1, 4] == 5).all() and same(got[0], table[index[0]])


@gpu
def test_calls_in_parts(dev: pk.Device) -> None:
    rng = np.random.default_rng(6)
    for name in ("iq2_s", "tq2_0", "float8_e4m3"):
        raw = blocks(rng, name, (2, 100, 768))
        want = numbers(name, raw)
        index = rng.integers(0, 100, 200)
        with caps(dev, max_binding=16384):
            q = pk.QTensor.from_bytes(raw, (2, 100, 768), name, dev)
            assert q.tobytes() == raw.tobytes() and same(q.numpy(), want)
            one = q[1]
            assert one.shape == (100, 768) and one.tobytes() == raw[1].tobytes()
            assert same(one.numpy(), want[1]) and same(q[None].numpy(), want[None])
            assert same(pk.embedding(one, dev.tensor(index)).numpy(), want[1][index])
            index[150] = -1
            with pytest.raises(pk.IndexRangeError, match=r"is -1 at position \(150,\)"):
                pk.embedding(one, dev.tensor(index)).numpy()


@gpu
def test_float8_with_scales_of_blocks(dev: pk.Device) -> None:
    """Sizes that are no multiples of 128, and every byte; beside ml_dtypes."""
    rng = np.random.default_rng(8)
    for n, k in ((128, 256), (130, 200), (3, 5), (257, 129), (0, 128), (4, 0)):
        data = rng.integers(0, 256, (n, k), dtype=np.uint8)
        scales = rng.normal(size=(-(-n // 128), -(-k // 128))).astype("f4")
        scales[:1, :1] = 1
        q = pk.QTensor.from_float8(data.view(ml_dtypes.float8_e4m3fn), scales, dev)
        each = np.repeat(np.repeat(scales, 128, 0), 128, 1)[:n, :k]
        want = data.view(ml_dtypes.float8_e4m3fn).astype("f4") * each
        assert q.shape == (n, k) and q.type == "float8_e4m3"
        assert same(q.numpy(), want)
        assert same(pk.QTensor.from_float8(data, scales, dev).numpy(), want)
        again = pk.QTensor.from_bytes(q.tobytes(), (n, k), q.type, dev)
        assert same(again.dequantize("float16").numpy(), want.astype("f2"))
        if n > 1 and k:
            assert same(pk.get_rows(q, dev.tensor(np.array([n - 1, 0]))).numpy(), want[[n - 1, 0]])


@gpu
def test_other_functions_refuse_them_by_name(dev: pk.Device) -> None:
    raw = np.zeros((2, 4, 66), "u1")
    q = pk.QTensor.from_bytes(raw, (2, 4, 256), "TQ2_0", dev)
    w, x = q[0], dev.ones((4, 256))
    assert repr(w) == "QTensor(tq2_0, shape=(4, 256), 264 bytes)" and len(q) == 2
    assert w.device is dev and w.size == 1024 and q.ndim == 3
    told = r"tq2_0 weights are only dequantised: pk.dequantize\(q\)"
    ids, cache = dev.zeros((4, 1), "int32"), pk.QTensor.zeros((4, 256), "q8_0", dev)
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: pk.linear(x, w), "linear"),
        (lambda: pk.matmul(x, w.T), "matmul"),
        (lambda: x @ w.T, "matmul"),
        (lambda: pk.expert_linear(x, q, ids), "expert_linear"),
        (lambda: pk.rms_norm_linear(x, dev.ones(256), w), "rms_norm_linear"),
        (lambda: pk.flash_attn(x[None, None], q[None], q[None]), "flash_attn"),
        (lambda: pk.set_rows(x, dev.zeros(4, "int32"), w), "set_rows"),
        (lambda: pk.copyto(w, x), "copyto"),
        (lambda: pk.quantize(x, "tq2_0"), "quantize"),
        (lambda: pk.QTensor.zeros((4, 256), "tq2_0", dev), "zeros"),
        (lambda: w.kind, "QTensor"),
    ]
    for call, op in refused:
        with pytest.raises((pk.ArgumentError, pk.DTypeError), match=rf"\[{op}\] {told}"):
            call()
    with pytest.raises(pk.DTypeError, match=r"\[sum\] .* pk.dequantize\(x\)"):
        pk.sum(w)
    pk.copyto(cache, w)
    pk.copyto(x, w)
    assert (x.numpy() == 0).all() and (cache.numpy() == 0).all()


@gpu
def test_wrong_arguments_are_told(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    data, one = np.zeros((2, 130), "u1"), np.ones((1, 2), "f4")
    made = pk.QTensor.from_float8
    words = dev.zeros(3, "uint32")
    dst, index = dev.zeros((2, 256)), dev.zeros(2, "int32")
    rows = dev.zeros((2, 66), "uint8")
    known: Any = pk.kernels.raw_rows
    wrong: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: made([1], one, dev), pk.DTypeError, "data must be a numpy array but is list"),
        (lambda: made(data.view("i1"), one, dev), pk.DTypeError, "data must be uint8 or float8"),
        (lambda: made(data, one.astype("f2"), dev), pk.DTypeError, "scales must be float32"),
        (lambda: made(data[0], one, dev), pk.ShapeError, r"data must be \(n, k\)"),
        (lambda: made(data, one.T, dev), pk.ShapeError, r"must have shape \(1, 2\) but has"),
        (lambda: pk.QTensor.from_bytes(b"12", (1, 64), "nvfp4"), pk.ShapeError, "36 bytes"),
        (lambda: pk.QTensor.from_bytes(b"12", (1, 65), "nvfp4"), pk.ShapeError, "multiple of 64"),
        (lambda: pk.QTensor.from_bytes(b"12", (64,), "nvfp4"), pk.ShapeError, "two axes or more"),
        (lambda: pk.QTensor.from_bytes(3, (1, 64), "nvfp4"), pk.DTypeError, "must be bytes but is"),
        (lambda: known(rows, index, dst, quant="q4_0"), pk.ArgumentError, "must be one of float8"),
        (lambda: known(rows, index, dst, quant="iq2_xxs"), pk.ShapeError, r"shape \(512,\)"),
        (lambda: known(rows, index, dst, table=words, quant="tq2_0"), pk.ShapeError, "table of"),
        (lambda: known(rows, index[:1], dst, quant="tq2_0"), pk.ShapeError, "dst must be"),
        (lambda: known(rows[:, 1:], index, dst, quant="tq2_0"), pk.ShapeError, r"\(rows, 66\)"),
    ]
    for call, error, text in wrong:
        with pytest.raises(error, match=text):
            call()
    monkeypatch.setattr(raw_quantised, "_tables", WeakKeyDictionary())
    monkeypatch.setitem(sys.modules, "gguf.quants", None)
    with pytest.raises(ImportError, match=r"the table of iq1_s: pip install gguf"):
        pk.QTensor.from_bytes(bytes(50), (1, 256), "iq1_s", dev)
    assert pk.QTensor.from_bytes(bytes(66), (1, 256), "tq2_0", dev).tobytes() == bytes(66)


@pytest.mark.parametrize("name", NAMES)
def test_rows_have_the_constants_of_their_macros(name: str) -> None:
    text = (ROOT / "kernels/quant/lib/raw" / f"{name}.wgsl").read_text()
    kind = RAW[name]
    found = re.search(r"^//% set BLOCK, BYTES, ENTRY = (\d+), (\d+), (\d)$", text, re.M)
    assert found and found.groups() == (str(kind.block), str(kind.nbytes), str(kind.entry))
    if name in OF_GGUF:
        number = gguf.GGMLQuantizationType[name.upper()]
        assert gguf.GGML_QUANT_SIZES[number] == (kind.block, kind.nbytes)
    assert kind.words == (len(entries(kind)) if kind.entry else 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_is_the_oracle(name: str) -> None:
    raw = blocks(np.random.default_rng(4), name, (5, 768))
    index = np.array([[3, 1], [0, 4]])
    found = reference.raw_rows(raw, index, "f4", (2, 2, 768), quant=name)
    assert same(found, numbers(name, raw)[index])
