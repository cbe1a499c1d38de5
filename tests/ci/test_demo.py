"""The demo: its table fits a terminal, a wrong result is said, its picture is a picture."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path

import numpy as np
import pytest

import pykernels as pk
from ci import demo, demo_picture
from ci.demo_cases import TIMED
from pykernels.bench.cases import cases, problem

ROOT = Path(__file__).resolve().parents[2]


def test_each_family_has_a_timed_case() -> None:
    kernels = {demo.family_of(case): set() for case in cases(32)}
    for case in cases(32):
        kernels[demo.family_of(case)].add(case.kernel)
    assert set(TIMED) == set(kernels)
    for family, (kernel, *shapes) in TIMED.items():
        assert kernel in kernels[family]
        for shape in shapes:
            assert problem(kernel, shape, "float32").kernel == kernel


def test_the_table_fits_a_terminal() -> None:
    rows = {name: demo.Row(kernels=2) for name in TIMED}
    for row in rows.values():
        row.add(0.5)
    rows["softmax"].add(0.0, "softmax f32-32x32: 3 of 9 elements are wrong")
    lines = list(demo.lines_of(rows))
    assert len(lines) == 1 + len(rows) + 1
    assert lines[-1] == "WRONG softmax f32-32x32: 3 of 9 elements are wrong"
    [line] = [line for line in lines if line.startswith("softmax")]
    assert "1 of 2" in line and "0.50" in line
    # Set-up with a driver, device, note, picture, worked example, what comes next: with the table
    # at most 45 lines.
    assert 4 + 3 + len(lines) - 1 + 1 + 2 + 3 + demo.NEXT.count("\n") + 1 <= 45


def test_a_png_has_the_pixels() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 3), np.uint8)
    data = demo_picture.png(pixels)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (7, 5)
    size = struct.unpack(">I", data[33:37])[0]
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + size]), np.uint8).reshape(5, 22)
    assert (rows[:, 0] == 1).all()  # what each byte has more than the one of the pixel before
    found = rows[:, 1:].reshape(5, 7, 3).cumsum(1, dtype=np.uint64) % 256
    assert (found == pixels).all()


@pytest.mark.gpu
def test_the_picture_is_what_numpy_computes(
    dev: pk.Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_picture, "EDGE", 48)
    path = demo_picture.make_picture(dev, tmp_path / "new" / "demo.png")
    assert struct.unpack(">II", path.read_bytes()[16:24]) == (4 * 48, 48)
    monkeypatch.setattr(demo_picture, "smoothed", lambda image, line: image)
    with pytest.raises(SystemExit, match="the blur of the picture went wrong"):
        demo_picture.make_picture(dev, tmp_path / "demo.png")


BARE = """
import importlib.machinery, sys

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            return None
        return super().find_spec(name, path, target)

HIDDEN = set(sys.argv[2].split(","))
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder
import pykernels as pk
from ci.demo import check_one, chosen
dev = pk.Device(engine=sys.argv[1])
cases = list(chosen(8))
wrong = [f"{text}" for case in cases if (text := check_one(dev, case)[1])]
print(len(cases), *wrong, sep="\\n")
"""


@pytest.mark.gpu
def test_it_needs_no_package_but_those_of_its_group(dev: pk.Device) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    [demos, others] = [
        {re.split(r"[=\[]", line)[0].replace("-", "_") for line in groups[name]}
        for name in ("demo", "dev")
    ]
    hidden = others - demos - {"wgpudawn"}  # the engine of a column
    assert {"gguf", "onnx", "ml_dtypes", "matplotlib"} <= hidden
    done = subprocess.run(
        [sys.executable, "-c", BARE, dev.info["engine"], ",".join(hidden)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, *wrong = done.stdout.split("\n")[:-1]
    assert int(count) > 150 and not wrong, wrong
