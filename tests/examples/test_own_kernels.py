"""examples/own_kernels: each kernel beside numpy at odd sizes and places; valid; the pictures."""

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

import neon
import own_kernels
import pictures

Array = np.ndarray[Any, Any]
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


def read_png(path: Path, channels: int) -> Array:
    """What `pictures.write_png` wrote."""
    data = path.read_bytes()
    begin = data.index(b"IDAT")
    length = int.from_bytes(data[begin - 4 : begin], "big")
    height = int.from_bytes(data[20:24], "big")
    rows = np.frombuffer(zlib.decompress(data[begin + 4 : begin + 4 + length]), np.uint8)
    pixels = rows.reshape(height, -1)[:, 1:].reshape(height, -1, channels)
    return pixels.cumsum(1, dtype=np.uint8)


@pytest.mark.gpu
def test_the_picture_of_the_page(dev: pk.Device, tmp_path: Path) -> None:
    """What the folder's README shows is what the kernels draw, within a level of rounding."""
    page = FOLDER / "picture.png"
    assert page.stat().st_size < 60_000
    drawn = own_kernels.draw(dev)
    pictures.write_png(tmp_path / "picture.png", drawn)
    for path in (page, tmp_path / "picture.png"):
        assert np.abs(read_png(path, 1)[..., 0].astype(int) - drawn).max() <= 1, path


@pytest.fixture(scope="module")
def drawn(dev: pk.Device) -> neon.Drawn:
    return neon.draw(dev)


@pytest.mark.gpu
def test_neon(drawn: neon.Drawn, tmp_path: Path) -> None:
    """The filter and both passes beside numpy; the bricks, a tube, its glow, and the wall beyond it
    by name; the picture of the page."""
    assert neon.check(drawn) <= 1
    tube, near, far, joint = (150, 340), (150, 325), (10, 470), (285, 10)
    for place, light in (
        (tube, neon.BLUE[:3]),
        (far, (0.12, 0.084, 0.072)),
        (joint, (0.05, 0.035, 0.03)),
    ):
        level = 255 * (1 - np.exp(-np.array(light)))
        assert np.abs(drawn.before[place] - level).max() <= 1, place
    for place in (far, joint):  # no light comes so far
        assert (drawn.after[place] == drawn.before[place]).all(), place
    red, _, blue = (drawn.after[near].astype(int) - drawn.before[near]).tolist()
    assert red == 0 and blue > 50  # 0.4 of red is below 1

    pictures.write_png(tmp_path / "neon.png", drawn.after)
    assert (read_png(tmp_path / "neon.png", 3) == drawn.after).all()
    page = read_png(FOLDER / "neon.png", 3).astype(int)
    assert np.abs(page[:, : neon.WIDTH] - drawn.before).max() <= 1
    assert np.abs(page[:, -neon.WIDTH :] - drawn.after).max() <= 1


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("right", "wrong"), [("k <= 2u", "k < 2u"), ("pixel - p.above", "pixel - 0.5 * p.above")]
)
def test_neon_finds_a_wrong_filter(
    drawn: neon.Drawn, dev: pk.Device, right: str, wrong: str
) -> None:
    assert right in neon.blur.wgsl
    kernel = pk.raw_kernel(neon.blur.wgsl.replace(right, wrong))
    made = neon.glow(dev.tensor(drawn.light), dev.tensor(neon.weights()), kernel)
    with pytest.raises(AssertionError, match="Not equal"):
        neon.check(drawn._replace(glow=neon.STRENGTH * made.numpy()))


@pytest.mark.gpu
def test_neon_finds_a_wrong_picture(drawn: neon.Drawn) -> None:
    for wrong in (drawn._replace(after=drawn.before), drawn._replace(before=drawn.before + 2)):
        with pytest.raises(AssertionError, match="levels"):
            neon.check(wrong)


@pytest.mark.gpu
@pytest.mark.parametrize(("shape", "first"), [((1, 1), 0), ((5, 129), 1), ((300, 7), 67)])
def test_glow_at_odd_sizes_and_places(dev: pk.Device, shape: tuple[int, int], first: int) -> None:
    light = np.random.default_rng(first).random((*shape, 4), np.float32) * 3
    picture, _ = own_kernels.placed(dev, light, first)
    bell, _ = own_kernels.placed(dev, neon.weights(), first)
    np.testing.assert_allclose(neon.glow(picture, bell).numpy(), neon.glowing(light), atol=1e-5)


@pytest.fixture
def particles(dev: pk.Device) -> Any:
    """The example, which pygfx draws on wgpu's default device: that of the column's driver."""
    if not os.environ.get("CI"):
        pytest.importorskip("pygfx")
    import particles

    return particles


@pytest.mark.gpu
def test_particles(particles: Any) -> None:
    """The kernel's positions and pygfx's pictures beside numpy, and the pictures of the page."""
    start, ink = particles.threads()
    picture = particles.Picture(start, ink)
    first = picture.draw()
    threads = [tuple(first[y, 240]) for y in (40, 90, 140, 190)]
    assert threads == [tuple(particles.INKS[k]) for k in (2, 1, 0, 3)]
    assert not first[[65, 115, 165]].any()  # between threads
    assert particles.check(start, first, 0) == first.any(-1).sum() == 480 * 150

    positions = picture.tensor()
    assert positions.buffer is picture.positions._wgpu_object
    particles.stir(positions, 80)
    last = picture.draw()
    assert 64_000 < particles.check(positions.numpy(), last, 80) < 65_600
    assert tuple(last[132, 127]) == tuple(particles.INKS[0])  # the eye of a vortex
    page = read_png(FOLDER / "particles.png", 3)
    assert particles.check(start, page[:, : particles.WIDTH], 0)
    assert particles.check(positions.numpy(), page[:, -particles.WIDTH :], 80)


@pytest.mark.gpu
def test_particles_are_checked(particles: Any, dev: pk.Device) -> None:
    """A wrong kernel, and pictures that are not of these particles."""
    start, ink = particles.threads()
    text = particles.move.wgsl
    for right, wrong in (("0.5 * p.step", "p.step"), ("k < p.count", "k + 1u < p.count")):
        assert right in text
        positions = dev.tensor(start)
        particles.stir(positions, 20, pk.raw_kernel(text.replace(right, wrong)))
        with pytest.raises(AssertionError, match="Not equal"):
            particles.check(positions.numpy(), np.zeros(0), 20)

    drawn = np.zeros((particles.HEIGHT, particles.WIDTH, 3), np.uint8)
    for k, colour in enumerate(particles.INKS):
        drawn[particles.discs(start[ink == k], 1)] = colour
    assert particles.check(start, drawn, 0)
    dim, hole, beside = drawn // 2, drawn.copy(), drawn.copy()
    hole[40, 240] = 0
    beside[65, 240] = particles.INKS[0]
    for wrong in (dim, hole, beside, drawn[..., ::-1], np.roll(drawn, 25, 0)):
        with pytest.raises(AssertionError):
            particles.check(start, wrong, 0)


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "first"), [(1, 0), (63, 1), (257, 67)])
def test_particles_at_odd_sizes_and_places(
    particles: Any, dev: pk.Device, n: int, first: int
) -> None:
    start = np.random.default_rng(n).uniform(-1, 1, (n, 3)).astype(np.float32)
    positions, memory = own_kernels.placed(dev, start, first)
    particles.stir(positions, 5)
    np.testing.assert_allclose(positions.numpy(), particles.stirred(start, 5), rtol=0, atol=1e-5)
    around = np.delete(memory.numpy(), slice(first, first + positions.size))
    assert (around == own_kernels.BESIDE).all()


def test_the_folder_is_valid() -> None:
    found = {"naga": find_naga(), "tint": find_tint(), "lint": True}
    names = [name for name, validator in found.items() if validator]
    if os.environ.get("CI"):
        assert len(names) == len(found)
    options = ["--strict", "--no-cache", "--limits", "webgpu", "--with", ",".join(names)]
    done = CliRunner().invoke(main, ["validate", *options, str(FOLDER)])
    assert done.exit_code == 0 and "All 11 shaders valid" in done.output, done.output
