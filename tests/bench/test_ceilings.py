"""Ceilings on software drivers, and caches that are what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pykernels as pk
from pykernels.bench import case as case_module
from pykernels.bench import run as run_module
from pykernels.bench.case import last_cache, load
from pykernels.bench.cases import problem
from pykernels.bench.ceilings import Ceilings, ceilings
from pykernels.bench.clock import Effort
from pykernels.bench.report import Report
from pykernels.bench.run import Runner
from pykernels.bench.table import headline, markdown
from tests.bench.test_statistics import CEILINGS, in_passes, report, result

gpu = pytest.mark.gpu
MIB = 1 << 20
BY_SIZE = replace(CEILINGS, sizes={
    "copy cold": {MIB: 16e9, 16 * MIB: 4e9}, "copy hot": {MIB: 32e9, 16 * MIB: 8e9},
    "fill cold": {MIB: 1e9},
})  # fmt: skip


@pytest.mark.parametrize(
    ("nbytes", "state", "around", "rate"),
    [
        (MIB, "cold", 0, 16e9), (1, "cold", 0, 16e9), (1 << 30, "cold", 0, 4e9),
        (4 * MIB, "cold", 0, 10e9), (MIB, "hot", MIB, 32e9),
        # What goes round less than the cache holds is judged by what it goes round.
        (MIB, "warm", 4 * MIB, 20e9),
    ],
)  # fmt: skip
def test_rates_are_those_of_the_bytes(nbytes: int, state: str, around: int, rate: float) -> None:
    assert BY_SIZE.limit(nbytes, 0, False, state, around) == pytest.approx(nbytes / rate)
    assert BY_SIZE.limit(nbytes, 0, True) == pytest.approx(nbytes / 1e9)
    assert CEILINGS.limit(nbytes, 0, False, state, around) == nbytes / 4e12


def test_sizes_survive_their_file(tmp_path: Path) -> None:
    found = report(result("x", in_passes(0, 1e-4), sets=3, state="warm"))
    found.ceilings["wgpu"] = BY_SIZE
    found.save(tmp_path / "a.json")
    again = Report.load(tmp_path / "a.json")
    assert again.ceilings["wgpu"] == BY_SIZE
    assert (again.results[0].sets, again.results[0].state) == (3, "warm")
    old = json.loads((tmp_path / "a.json").read_text()) | {"format": 1}
    del old["ceilings"]["wgpu"]["sizes"], old["results"][0]["sets"], old["results"][0]["state"]
    (tmp_path / "a.json").write_text(json.dumps(old))
    assert Report.load(tmp_path / "a.json").ceilings["wgpu"] == CEILINGS


@gpu
@pytest.mark.parametrize(
    ("rotate", "cache", "state", "sets"),
    [(0, 100, "hot", 1), (1, 100, "cold", 2), (1, 8192, "warm", 2), (16384, 8192, "cold", 8)],
)
def test_cold_is_what_no_cache_holds(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch, rotate: int, cache: int, state: str, sets: int
) -> None:
    monkeypatch.setattr(case_module, "last_cache", lambda dev: cache)
    loaded = load(dev, problem("softmax", (8, 32), "float32"), rotate=rotate)  # 2 KiB a set
    assert (loaded.state, len(loaded.sets)) == (state, sets)


def test_the_last_cache_is_the_systems() -> None:
    class Dev:
        def __init__(self, kind: str) -> None:
            self.info = {"type": kind}

    some: Any = Dev("DiscreteGPU")
    assert last_cache(some) == 64 * MIB
    host: Any = Dev("CPU")
    if Path("/sys/devices/system/cpu/cpu0/cache/index3/size").exists():
        text = Path("/sys/devices/system/cpu/cpu0/cache/index3/size").read_text().strip()
        assert last_cache(host) == int(text[:-1]) * {"K": 1024, "M": MIB}[text[-1]]


@gpu
def test_a_case_goes_round_what_no_cache_holds_and_says_so(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    if dev.info["type"] != "CPU":
        pytest.skip("software drivers have the caches of the host")
    for module in (case_module, run_module):  # a server's is larger than SwiftShader's buffers
        monkeypatch.setattr(module, "last_cache", lambda dev: 64 * MIB)
    effort = Effort(warm=0.0, rounds=2, blocks=1, reading=0.0)
    r = Runner([dev], effort=effort, caches=("cold", "hot"), say=lambda line: None)
    cold, hot = r.run([problem("fill", (512, 512), "float32")]).results
    assert cold.state == "cold" and cold.sets >= 2 and cold.rotated >= 128 * MIB
    assert (hot.state, hot.sets, hot.rotated) == ("hot", 1, MIB)
    text = "\n".join(markdown(r.report))
    assert f"{cold.sets} x 1 MiB" in text and "1 x 1 MiB" in text
    assert "a software driver: times only show that everything runs" in [*headline(r.report)]


@gpu
def test_ceilings_of_a_software_driver_are_by_size(dev: pk.Device) -> None:
    if dev.info["type"] != "CPU":
        pytest.skip("a GPU has one rate")
    effort = Effort(warm=0.0, rounds=2, blocks=1, reading=0.0)
    found, _ = ceilings(dev, effort, 4 * MIB, ("cold", "hot"))
    assert {k: [*v] for k, v in found.sizes.items() if k != "fma32"} == {
        f"{kind} {state}": [MIB, 4 * MIB] for kind in ("fill", "copy") for state in ("cold", "hot")
    }
    [(operations, rate)] = found.sizes["fma32"].items()
    assert rate == found.fma32 and operations / rate >= 0.01  # 20 ms where nobody else runs
    assert all("driver" not in way for way in found.ways)
    assert isinstance(found, Ceilings)


@gpu
def test_sets_that_do_not_fit_are_fewer(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Small(case_module.Loaded):
        def __init__(self, dev: pk.Device, case: Any, sets: int, seed: int, apart: int) -> None:
            made.append(sets)
            if sets > 3:
                raise pk.OutOfMemoryError("[memory] full")
            super().__init__(dev, case, sets, seed, apart)

    monkeypatch.setattr(case_module, "Loaded", Small)
    assert len(load(dev, problem("fill", (64,), "float32"), rotate=13 * 256).sets) == 3
    assert made == [13, 6, 3]
