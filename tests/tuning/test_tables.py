"""Tuning tables: which one an adapter gets, what a file may say, and the errors of a bad one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pykernels as pk
from bench import regions
from pykernels import tuning
from pykernels.plans.attention import select as attention
from pykernels.plans.attention import select_mma as attention_mma
from pykernels.plans.conv import select as conv
from pykernels.plans.conv import select_weight
from pykernels.plans.matmul import select as matmul
from pykernels.plans.matmul import select_i8
from pykernels.steps import Caps
from pykernels.tuning import as_data, for_adapter, load, named, shipped

LARGE = Caps(True, True, 32, 1024, 49152, 1 << 31, 65535, named("generic-large"))


@pytest.fixture(autouse=True)
def no_table_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYKERNELS_TUNING", raising=False)


# -- which table ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "want"),
    [
        ("NVIDIA H200", "DiscreteGPU", "nvidia-h200"),
        ("NVIDIA GeForce RTX 4090", "DiscreteGPU", "generic-large"),
        ("NVIDIA H100 80GB HBM3", "DiscreteGPU", "nvidia-h200"),
        ("Apple M2", "IntegratedGPU", "generic-laptop"),
        ("Intel(R) Iris(R) Xe Graphics", "IntegratedGPU", "generic-laptop"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "DiscreteGPU", "generic-laptop"),
        ("NVIDIA GeForce GTX 1060 6GB", "DiscreteGPU", "generic-laptop"),
        ("NVIDIA GeForce RTX 3060", "DiscreteGPU", "generic-large"),
        ("Mali-G78", "IntegratedGPU", "generic-small"),
        ("Adreno (TM) 740", "IntegratedGPU", "generic-small"),
        ("PowerVR Rogue GE8320", "Unknown", "generic-small"),
        ("Adreno (TM) of a card", "DiscreteGPU", "generic-large"),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "CPU", "software"),
        ("SwiftShader Device (Subzero)", "CPU", "swiftshader"),
        ("", "Unknown", "generic-large"),
    ],
)
def test_table_of_an_adapter(name: str, kind: str, want: str) -> None:
    assert for_adapter(name, kind).tuning is named(want)


def test_every_shipped_table_reads() -> None:
    files = sorted(p.stem for p in Path(tuning.__path__[0]).glob("*.toml"))
    assert files == sorted(tuning.TABLES)
    for name in tuning.TABLES:
        assert named(name).name == name


def test_tables_name_the_bodies_that_there_are() -> None:
    t = named("nvidia-h200")
    assert {conv.SMALLEST, *t.conv.bodies} == {*conv.TILES, *conv.TILES_3X3}
    assert {conv.tile_of(b) for b in conv.TILES} == set(t.conv.implicit_gemm.rates)
    assert {conv.tile_of(b) for b in conv.TILES_3X3} == set(t.conv.implicit_gemm_3x3)
    assert set(t.conv.conv2d_backward_weight.rates) == set(select_weight.TILES)
    assert {f"mul_mat/{k}" for k in t.matmul.mul_mat} | {"gemm_tile"} == set(matmul.TILES)
    assert {f"mul_mat_i8/{k}" for k in t.matmul.mul_mat_i8.tiles} == set(select_i8.TILES)
    assert {
        f"attention_tile/{k}" for k in t.attention.attention_tile.waves
    } == {f"{tile}/{depth}" for tile, depth in attention.BLOCKS}  # fmt: skip
    assert {*t.attention.attention_mma, "emulated"} == set(attention_mma.TILES)


def test_little_workgroup_memory_makes_a_small_device() -> None:
    """Names of phones that nobody listed; what is not known rules nothing out."""
    unheard = ("Some GPU", "IntegratedGPU")
    assert shipped(*unheard, 16384).tuning is named("generic-small")
    assert shipped(*unheard, 32768).tuning is named("generic-laptop")
    assert shipped(*unheard).tuning is named("generic-laptop")
    assert shipped("Some GPU", "DiscreteGPU", 16384).tuning is named("generic-large")
    assert "workgroups have 16384 bytes" in shipped(*unheard, 16384).why


@pytest.mark.parametrize("name", ["generic-large", "generic-laptop", "generic-small", "software"])
def test_a_table_of_many_devices_says_what_a_device_is(name: str) -> None:
    """Units and copies of one GPU are nobody else's by mere inheritance."""
    file = Path(tuning.__path__[0]) / f"{name}.toml"
    assert tomllib.loads(file.read_text(encoding="utf-8"))["device"].keys() == {"units", "copy"}


# -- a table of the user's ------------------------------------------------------------------------


def test_a_file_changes_its_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('base = "generic-large"\n[device]\nunits = 40\n', encoding="utf-8")
    monkeypatch.setenv("PYKERNELS_TUNING", str(file))
    found, why = for_adapter("NVIDIA H200", "DiscreteGPU")
    assert (found.name, found.device.units, why) == ("mine", 40, f"PYKERNELS_TUNING={file}")
    assert found.matmul.gemm_tile.rate == named("generic-large").matmul.gemm_tile.rate
    assert for_adapter("llvmpipe", "CPU").tuning is found  # the same text is the same table
    monkeypatch.setenv("PYKERNELS_TUNING", "software")
    assert for_adapter("NVIDIA H200", "DiscreteGPU").tuning is named("software")


def test_a_whole_table_reads_back(tmp_path: Path) -> None:
    """Every key of a table, as a file without a base."""
    data = as_data(named("generic-small"))
    file = tmp_path / "whole.toml"
    file.write_text("\n".join(_toml({k: v for k, v in data.items() if k != "name"})))
    assert as_data(load(str(file))) == data | {"name": "whole"}


def _toml(data: Mapping[str, Any], at: str = "") -> list[str]:
    lines = [f"[{at}]"] if at else []
    lines += [f'"{k}" = {v!r}' for k, v in data.items() if not isinstance(v, dict)]
    for k, v in data.items():
        if isinstance(v, dict):
            lines += _toml(v, f'{at}."{k}"' if at else f'"{k}"')
    return lines


BAD = {
    "[device]\nunits = 0": "device.units must be an integer above 0 but is 0",
    "[device]\nunits = 4.5": "device.units must be an integer above 0 but is 4.5",
    "[device]\nunits = true": "device.units must be an integer above 0 but is True",
    "[device]\ncopy = 'fast'": "device.copy must be a number above 0 but is 'fast'",
    "[device]\ncopy = inf": "device.copy must be a number above 0 but is inf",
    "device = 3": "device must be a table but is 3",
    "[device]\ncores = 4": "there is no device.cores; known here: units, copy",
    "[gpu]": "there is no gpu; known here: device, matmul, conv, attention, softmax, copy",
    "[matmul.mul_mat.96]\nbusy = 1": "there is no matmul.mul_mat.96; known here: 32, 64",
    "[matmul]\nbodies = ['gemm']":
        "matmul.bodies must be a list of some of 'mul_mat/16x64', 'mul_mat/32x128', 'mul_mat/64', "
        "'gemm_tile', 'mul_mat_i8/64' but is "
        "['gemm']",
    "[matmul.gemm_tile]\npartial_wave = [0.0, 0.5]":
        "matmul.gemm_tile.partial_wave must be a list of numbers from 0.0 to 1.0 but is [0.0, 0.5]",
    "[conv]\nfill = -1": "conv.fill must be an integer of at least 0 but is -1",
    "[conv.implicit_gemm.rates.64x64]\nany = 0":
        "conv.implicit_gemm.rates.64x64.any must be a number above 0 but is 0",
    "base = 'large'": "base must be one of ",
    "[device": "is not TOML: ",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_says_which_key(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.toml"
    base = "" if text.startswith("base") else 'base = "generic-large"\n'
    file.write_text(base + text, encoding="utf-8")
    with pytest.raises(pk.ArgumentError, match=re.escape(BAD[text])) as e:
        load(str(file))
    assert str(file) in str(e.value)


def test_a_file_without_base_lacks_nothing(tmp_path: Path) -> None:
    file = tmp_path / "part.toml"
    file.write_text("[device]\nunits = 4\ncopy = 1e9\n", encoding="utf-8")
    with pytest.raises(pk.ArgumentError, match=r"part\.toml: matmul is missing"):
        load(str(file))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(pk.ArgumentError, match=r"nowhere\.toml must be a file that can be read"):
        load("nowhere.toml")


def test_the_suite_takes_no_table_of_the_user(tmp_path: Path) -> None:
    """conftest.py sets the variable before anything asks for it."""
    code = "import os, tests.conftest; print(os.environ['PYKERNELS_TUNING'])"
    env = os.environ | {"PYKERNELS_TUNING": str(tmp_path / "nowhere.toml")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout.strip() == "off"


# -- what a table may not do ----------------------------------------------------------------------


def test_a_body_that_does_not_fit_is_not_chosen() -> None:
    """Whatever the table says: a workgroup has no more invocations and bytes than the device."""
    product, window = matmul.GemmShape(1, 4096, 4096, 4096), conv.ConvShape(1, 512, 1 << 16, 4608)
    weight = select_weight.WeightGradShape(1, 512, 512, 9, 1 << 16)
    dims = attention.Dims(1, 32, 32, 4096, 4096, 128, 128)
    assert matmul.choose(LARGE, product).body == "gemm_tile"
    assert conv.choose(LARGE, window).body == "implicit_gemm/128x128"
    assert select_weight.choose(LARGE, weight).body in ("64x64", "64x128")
    assert attention.choose(LARGE, dims).body == attention.LARGE
    for less in ({"max_invocations": 64}, {"max_workgroup_bytes": 8000}):
        caps = replace(LARGE, **less)  # type: ignore[arg-type]
        assert matmul.choose(caps, product).body == "mul_mat/32"
        assert conv.choose(caps, window).body in ("implicit_gemm/32x32", "implicit_gemm/64x32")
        assert select_weight.choose(caps, weight).body == "32x32"
        assert attention.choose(caps, dims).body == attention.SMALL


def test_the_picture_of_regions_is_that_of_the_choices() -> None:
    page = regions.PAGE.read_text(encoding="utf-8")
    shown = page.partition(regions.START)[2].partition(regions.END)[0]
    assert shown == regions.text(), "run python -m bench.regions --write"
    assert {*regions.LETTERS.values()} <= {*shown}


def test_few_rows_of_little_work_take_a_tile() -> None:
    """One tile costs less than a GEMV there: on drivers of the CPU by work, on a GPU by k."""
    gemv, tile = "gemv", "mul_mat/32"
    shapes = {
        (8, 8, 8): (tile, tile, tile), (8, 32, 64): (tile, tile, tile), (2, 8, 8): (tile,) * 3,
        (8, 64, 64): (tile, gemv, tile), (512, 8, 64): (tile, gemv, tile),
        (1, 64, 8): (gemv, gemv, tile), (1, 64, 64): (gemv,) * 3, (4096, 1, 4096): (gemv,) * 3,
        (2, 64, 64): (gemv, gemv, tile), (4, 512, 512): (gemv, gemv, tile),
    }  # fmt: skip
    for (rows, cols, depth), wanted in shapes.items():
        shape = matmul.GemmShape(1, rows, cols, depth)
        for table, body in zip(("nvidia-h200", "software", "swiftshader"), wanted, strict=True):
            caps = replace(LARGE, tuning=named(table))
            assert matmul.choose(caps, shape).body == body, (table, rows, cols, depth)


def test_devices_of_one_size_differ_by_their_tables() -> None:
    """1024 invocations do not make a large GPU."""
    small = replace(LARGE, tuning=named("software"))
    product = matmul.GemmShape(1, 4096, 4096, 4096)
    assert matmul.choose(small, product).body == "mul_mat/32"
    assert small.max_invocations == LARGE.max_invocations
