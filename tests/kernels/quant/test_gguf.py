"""GGUF files: weights of all kinds by name."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

import pykernels as pk

gpu = pytest.mark.gpu
KINDS = gguf.GGMLQuantizationType


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with quantised and plain weights, and one of a type that is not read."""
    rng, found = np.random.default_rng(0), tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(found, "llama")
    writer.add_uint32("layers", 3)
    writer.add_tensor("plain", rng.standard_normal((2, 3, 5)).astype(np.float32))
    writer.add_tensor("counts", np.arange(6, dtype=np.int64).reshape(2, 3))
    for name, kind in (("q4", KINDS.Q4_0), ("halves", KINDS.BF16), ("other", KINDS.TQ1_0)):
        x = rng.integers(-8, 8, (2, 3, 256)).astype(np.float32)
        writer.add_tensor(name, gguf.quantize(x, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return found


@gpu
def test_weights_by_name(dev: pk.Device, path: Path) -> None:
    file = pk.gguf.load(path, dev)
    entries = {t.name: t for t in gguf.GGUFReader(path).tensors}
    assert file.metadata["layers"] == 3 and list(file) == list(entries) and len(file) == 5
    for name in ("plain", "counts", "q4", "halves"):
        found, data = file[name], entries[name].data
        assert found.shape == file.shape(name) and found.device is dev
        if isinstance(found, pk.QTensor):
            assert found.type == file.type(name) and found.tobytes() == data.tobytes()
        if name in ("q4", "halves"):
            data = gguf.dequantize(data, entries[name].tensor_type)
        assert np.array_equal(found.numpy().astype(data.dtype), data), name


def test_names_are_known_without_weights(path: Path) -> None:
    """A look for a name copies nothing, and two files are equal if they are one."""
    file = pk.gguf.load(path)
    assert "other" in file and "none" not in file and 3 not in file and file.get("none") is None
    assert file == file and file != pk.gguf.load(path) and hash(file) == hash(file)
    assert file.type("other") == "tq1_0" and file.shape("other") == (2, 3, 256)
    with pytest.raises(pk.ArgumentError, match=r"\[gguf\] other is TQ1_0"):
        file["other"]
    with pytest.raises(KeyError):
        file["none"]


def test_other_files(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pk.gguf.load(path.parent / "none")
    for count in (1, 10, 100):
        (path.parent / "cut.gguf").write_bytes(path.read_bytes()[:count])
        with pytest.raises(pk.ArgumentError, match=r"\[gguf\] .*cut.gguf is no GGUF file"):
            pk.gguf.load(path.parent / "cut.gguf")
