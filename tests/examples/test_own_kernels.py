"""examples/own_kernels: each kernel beside numpy at odd sizes and places; valid; its picture."""

from __future__ import annotations

import os
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pykernels as pk
from pykernels.cli import main
from pykernels.validate import find_naga, find_tint

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "own_kernels"))

import own_kernels

FOLDER = Path(own_kernels.__file__).parent


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 63, 257, 1000])
def test_kernels_beside_numpy(dev: pk.Device, n: int) -> None:
    for case in own_kernels.cases(n):
        if case.name == "soft_clip" and "shader-f16" not in dev.features:
            continue
        for first in (0, 1, 67):
            own_kernels.check(dev, case, first)


@pytest.mark.gpu
def test_the_check_finds_wrong_elements_and_writes_beside(dev: pk.Device) -> None:
    case = next(c for c in own_kernels.cases(63) if c.name == "blend")
    text = own_kernels.blend.wgsl
    for wrong, words in (
        (text.replace("start + share", "start - share"), "blend"),
        (text.replace("  out[", "  out[0] = 0.0;\n  out["), "wrote beside"),
    ):
        assert wrong != text
        kernel = pk.raw_kernel(wrong)

        def call(a: pk.Tensor, b: pk.Tensor, out: pk.Tensor, kernel: Any = kernel) -> Any:
            return kernel(a, b, out, n=63, share=0.25)

        with pytest.raises(AssertionError, match=words):
            own_kernels.check(dev, replace(case, call=call), 1)


@pytest.mark.gpu
def test_the_picture_of_the_page(dev: pk.Device, tmp_path: Path) -> None:
    """What the folder's README shows is what the kernels draw, within a level of rounding."""
    page = FOLDER / "picture.png"
    assert page.stat().st_size < 60_000
    drawn = own_kernels.draw(dev)
    own_kernels.write_png(tmp_path / "picture.png", drawn)
    for path in (page, tmp_path / "picture.png"):
        data = path.read_bytes()
        begin = data.index(b"IDAT")
        length = int.from_bytes(data[begin - 4 : begin], "big")
        rows = np.frombuffer(zlib.decompress(data[begin + 4 : begin + 4 + length]), np.uint8)
        pixels = rows.reshape(len(drawn), -1)[:, 1:].cumsum(1, dtype=np.uint8)
        assert np.abs(pixels.astype(int) - drawn).max() <= 1, path


def test_the_folder_is_valid() -> None:
    found = {"naga": find_naga(), "tint": find_tint(), "lint": True}
    names = [name for name, validator in found.items() if validator]
    if os.environ.get("CI"):
        assert len(names) == len(found)
    options = ["--strict", "--no-cache", "--limits", "webgpu", "--with", ",".join(names)]
    done = CliRunner().invoke(main, ["validate", *options, str(FOLDER)])
    assert done.exit_code == 0 and "All 8 shaders valid" in done.output, done.output
