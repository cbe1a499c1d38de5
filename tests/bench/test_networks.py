"""bench/networks.py runs on a software driver, and times nothing that is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench import resnet
from bench.networks import TABLE, Bench
from pykernels.bench.case import CheckFailed

pytestmark = pytest.mark.gpu
SHAPES = ("tiny-gpt2", "tiny-llama")


def test_all_rows_on_a_software_driver(dev: pk.Device, tmp_path: Path) -> None:
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one column is enough for what runs on the host")
    bench = Bench(dev, small=True, rounds=1)
    rows = list(bench.run())
    decoders = {f"{s} {w} {d}" for s in SHAPES for w in ("decode", "prefill")
                for d in ("float32", "float16")}  # fmt: skip
    decoders |= {f"wide-llama {m} {w} float16" for m in ("q4_0", "q4_k_m")
                 for w in ("decode", "prefill")}  # fmt: skip
    pictures = {f"resnet-50 batch {n} float32{fast}" for n in (2, 1) for fast in ("", " fast")}
    assert {r.name for r in rows} == decoders | pictures
    for row in rows:
        assert 0 < row.error <= row.allowed < 2e-2 and row.dispatches > 0
        assert all(row.ms(c) > 0 for c in ("uncaptured", "captured", "GPU"))
        assert row.name in TABLE.line(row)
    file = tmp_path / "networks.json"
    TABLE.save(file, dev, rows[:2])
    TABLE.save(file, dev, rows[1:])
    found = json.loads(file.read_text(encoding="utf-8"))
    assert [*found["rows"]] == [r.name for r in rows] and found["meta"]["adapter"]
    assert [r.name for r in bench.run("batch 1")] == [
        "resnet-50 batch 1 float32",
        "resnet-50 batch 1 float32 fast",
    ]


def test_a_wrong_network_has_no_time(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(dev, small=True, rounds=1)
    right = resnet.Ours.pool
    monkeypatch.setattr(resnet.Ours, "pool", lambda self, x: right(self, x * 1.00001))
    with pytest.raises(CheckFailed, match="batch 1 float32 is off by"):
        list(bench.run("batch 1"))


def test_resnet_has_its_layers() -> None:
    """25.5 million parameters, without the batch norms that are folded; pictures are told apart."""
    weights = resnet.random_weights(resnet.Size())
    assert sum(w.size for n, w in weights.items() if not n.endswith("bias")) == 25_502_912
    size = resnet.Size((1, 1), 8, 10, 32)
    ops: Any = resnet.Numpy(
        {n: w.astype(np.float64) for n, w in resnet.random_weights(size).items()}
    )
    x = np.random.default_rng(0).standard_normal((2, 3, 32, 32))
    found = resnet.logits(ops, size, x)
    assert found.shape == (2, 10) and np.abs(found[0] - found[1]).max() > 0.01
    np.testing.assert_allclose(resnet.logits(ops, size, x[1:]), found[1:])
