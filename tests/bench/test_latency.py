"""bench/latency.py runs, and times nothing that is wrong. No time is judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench import functions, latency, prices
from bench.chain import SMALL, Chain
from bench.latency import ARRAYS, KERNELS, READS, SHARED, Bench
from bench.raw import RawLoop, RawRead, recorded
from pykernels.bench.case import CheckFailed

pytestmark = pytest.mark.gpu


def test_all_rows_on_a_software_driver(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = tmp_path / "latency.json"
    args = ["--small", "--engine", dev.engine, "--adapter", dev.info["name"], "--save", str(file)]
    monkeypatch.setattr(sys, "argv", ["latency.py", *args])
    latency.main()
    found = json.loads(file.read_text(encoding="utf-8"))
    rows = {r["name"]: r for r in found["rows"]}
    names = {name for name, *_ in KERNELS} | {"pk.softmax (8, 128)", SHARED, "sync", "chain"}
    names |= {f"read {name}, new array" for name, *_ in READS}
    names |= {f"write {name}" for name, *_ in READS}
    if dev.engine == "wgpu":
        names |= {f"numpy in and out {name}" for name, *_ in ARRAYS}
    assert names <= {*rows}
    for row in found["rows"]:
        assert row["calls"] > 0 and row["wall"] and all(t > 0 for t in row["wall"])
        assert row["name"].endswith("read at the end") or all(t > 0 for t in row["raw"])
    for name, *_ in KERNELS:
        assert rows[name]["dispatches"] > 0 and rows[name]["submits"] > 0
        inside = zip(rows[name]["record"], rows[name]["batch"], strict=True)
        assert all(0 < alone <= whole for alone, whole in inside)
    assert {*found["facts"]} == {"first calls", "memory", "threads"}
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("us ")] and len(lines) > len(rows)
    assert all(any(line.startswith(name) for line in lines) for name in rows)


def test_only_some_rows(dev: pk.Device) -> None:
    bench = Bench(dev, small=True, only="softmax (8, 128)")
    bench.run()
    assert [r.name for r in bench.rows] == ["softmax (8, 128)", "pk.softmax (8, 128)", SHARED]


def test_the_raw_loop_repeats_a_call(dev: pk.Device) -> None:
    """Both dispatches of attention over split keys, one of them through scratch."""
    q, k, v = (dev.rand(s, seed=0) for s in ((1, 4, 1, 16), (1, 2, 2000, 16), (1, 2, 2000, 16)))
    dst = dev.empty((1, 4, 1, 16))

    def call() -> None:
        pk.kernels.flash_attn(q, k, v, dst)

    with dev.profile() as p:
        call()
    want = dst.numpy()
    commands = recorded(dev, call)
    assert len(commands) == len(p.records) > 1
    dev.sync()
    dst.write(np.zeros_like(want))
    assert RawLoop(dev, call).repeat(commands, 3, 2) > 0
    assert np.array_equal(dst.numpy(), want)


def test_what_the_raw_loop_does_wrong_is_not_timed(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RawLoop, "repeat", lambda self, commands, n, submits: 1e-6)
    with pytest.raises(CheckFailed, match="other bits"):
        Bench(dev, small=True, only="mul_mat 256^3").run()


def test_a_read_by_hand(dev: pk.Device) -> None:
    want = np.random.default_rng(0).random((1000,), np.float32)
    hand, out = RawRead(dev, dev.tensor(want)), np.empty_like(want)
    for _ in range(2):
        assert np.array_equal(hand(), want)
        assert hand(out) is out and np.array_equal(out, want)


def test_the_chain_checks_its_launches(dev: pk.Device) -> None:
    chain = Chain(dev, SMALL)
    want = chain.check()
    assert chain.launches == 4 * SMALL.blocks
    chain.same(want, chain, "plain")
    with pytest.raises(CheckFailed, match="nothing: not the bits"):
        chain.same(want, lambda: None, "nothing")
    chain.layers[1][0].write(np.zeros((SMALL.width, SMALL.width), np.float16))
    with pytest.raises(CheckFailed, match="not the bits"):
        chain.same(want, chain, "other weights")


def test_prices_of_functions(dev: pk.Device, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Dispatches, outputs and buffers are counted."""
    found = {p.name: p for p in prices.prices(dev, "softmax", rounds=2)}
    assert {"softmax", "log_softmax", "softmax_backward"} == {*found}
    assert all(p.dispatches == p.outputs == 1 and p.buffers == 0 for p in found.values())
    assert all(p.host > 0 and p.share > 0 for p in found.values())
    assert prices.Price("f", 1.0, 3, 2, 0).bound == pytest.approx(10e-6)
    assert prices.Price("view", 1.0, 0, 1, 0).bound == pytest.approx(5e-6)
    args = ["latency.py", "--functions", "--only", "concatenate", "--engine", dev.engine]
    monkeypatch.setattr(sys, "argv", [*args, "--adapter", dev.info["name"]])
    latency.main()
    assert "concatenate" in capsys.readouterr().out


def test_the_price_list_has_every_public_function(dev: pk.Device) -> None:
    """A new function needs a call in bench/functions.py; each call there runs."""
    listed = functions.functions(dev)
    assert sorted(listed) == functions.public()
    assert {*prices.REASONS} <= {*listed}
    for call in listed.values():
        call()
    dev.sync()
