"""GGUF files that the package gguf writes, read to a device."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import gguf
import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.quant.types import TYPES
from pykernels.reference import quant as reference
from tests.kernels.quant.quant_calls import blocks, same
from tests.kernels.quant.test_raw_rows import OF_GGUF, numbers
from tests.kernels.quant.test_raw_rows import blocks as raw_blocks

gpu = pytest.mark.gpu
# The types of weights that a GGUF file may have.
NAMES = [name for name in TYPES if name.upper() in gguf.GGMLQuantizationType.__members__]
ENTRIES = {
    "f32": np.arange(12, dtype="f4").reshape(2, 3, 2), "f16": np.arange(5, dtype="f2"),
    "i8": np.arange(-3, 3, dtype="i1"), "i16": np.array([[-300, 7]], "i2"),
    "i32": np.array([1 << 30, -5], "i4"), "i64": np.array([1 << 40, -5], "i8"),
}  # fmt: skip


@gpu
def test_a_file_gives_its_tensors(dev: pk.Device, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    raw = {name: blocks(rng, TYPES[name], (3, 512)) for name in NAMES}
    halves = np.array([[0x3F80, 0xC000]], "u2")  # 1 and -2 in bfloat16
    writer = gguf.GGUFWriter(tmp_path / "all.gguf", "llama")
    writer.add_uint32("llama.block_count", 7)
    writer.add_array("tokenizer.ggml.tokens", ["a", "\u00e9"])
    for name, array in ENTRIES.items():
        writer.add_tensor(name, array)
    writer.add_tensor("bf16", halves.view("u1"), raw_dtype=gguf.GGMLQuantizationType.BF16)
    for name, rows in raw.items():
        writer.add_tensor(name, rows, raw_dtype=gguf.GGMLQuantizationType[name.upper()])
    held = {name: raw_blocks(rng, name, (3, 512)) for name in OF_GGUF}
    for name, rows in held.items():
        writer.add_tensor(name, rows, raw_dtype=gguf.GGMLQuantizationType[name.upper()])
    q1 = np.zeros((1, 18), "u1")
    writer.add_tensor("other", q1, raw_dtype=gguf.GGMLQuantizationType.Q1_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    file = pk.gguf.load(tmp_path / "all.gguf", dev)
    assert list(file) == [*ENTRIES, "bf16", *NAMES, *OF_GGUF, "other"] and "q4_0" in file
    assert file.metadata["llama.block_count"] == 7
    assert file.metadata["tokenizer.ggml.tokens"] == ["a", "\u00e9"]
    assert file.type("q6_k") == "q6_k" and file.shape("q6_k") == (3, 512)
    assert "other" in file and 3 not in file  # neither reads weights, nor does ==
    assert file == file and file != pk.gguf.load(tmp_path / "all.gguf") and hash(file)
    for name, array in ENTRIES.items():
        t = file[name]
        assert isinstance(t, pk.Tensor) and t.device is dev and t.dtype == array.dtype
        assert (t.numpy() == array).all() and file.shape(name) == array.shape
    bf16 = file["bf16"]
    assert isinstance(bf16, pk.Tensor) and bf16.dtype == "bfloat16"
    assert bf16.astype("float32").numpy().tolist() == [[1, -2]]
    for name, rows in raw.items():
        q = file[name]
        assert isinstance(q, pk.QTensor) and q.shape == (3, 512) and q.type == name
        assert q.tobytes() == rows.tobytes()
        assert same(q.numpy(), reference.dequantized(name, rows))
    for name, rows in held.items():
        q = file[name]
        assert isinstance(q, pk.QTensor) and q.shape == (3, 512) and q.type == name
        assert q.tobytes() == rows.tobytes() and same(q.numpy(), numbers(name, rows))
    with pytest.raises(pk.ArgumentError, match=r"\[gguf\] other is Q1_0, which is none of q4_0"):
        file["other"]
    with pytest.raises(KeyError):
        file["missing"]


def test_what_is_no_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"no such file" * 9)
    with pytest.raises(pk.ArgumentError, match=r"\[gguf\] .* is no GGUF file"):
        pk.gguf.load(tmp_path / "x")
    with pytest.raises(OSError):
        pk.gguf.load(tmp_path / "y")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ImportError, match="pip install gguf"):
        pk.gguf.load(tmp_path / "x")


def test_mutated_files_are_refused_or_read(tmp_path: Path) -> None:
    """Bits, lengths and ends of a file are changed: a second is enough to say what it is."""
    writer = gguf.GGUFWriter(tmp_path / "whole.gguf", "llama")
    writer.add_uint32("llama.block_count", 7)
    writer.add_array("tokenizer.ggml.tokens", ["a", "\u00e9", "abc"] * 5)
    writer.add_array("tokenizer.ggml.scores", [0.5, 1.5])
    for name, array in ENTRIES.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    whole = (tmp_path / "whole.gguf").read_bytes()
    rng, refused = np.random.default_rng(7), 0
    for i in range(400):
        data = bytearray(whole)
        at = int(rng.integers(4, 600))
        if i % 4 == 0:
            data[at] ^= 1 << int(rng.integers(8))
        elif i % 4 == 1:
            data[at : at + 8] = int(rng.choice([0, 1 << 31, 1 << 40, (1 << 63) - 1])).to_bytes(
                8, "little"
            )
        elif i % 4 == 2:
            del data[at:]
        else:
            data[at : at + 4] = rng.bytes(4)
        path = tmp_path / "mutated.gguf"
        path.write_bytes(data)
        began = time.perf_counter()
        try:
            file = pk.gguf.load(path)
            _ = file.metadata, [file.shape(n) for n in file], [file.type(n) for n in file]
        except pk.ArgumentError:
            refused += 1
        assert time.perf_counter() - began < 2, f"mutation {i}"
    assert 100 < refused < 400
