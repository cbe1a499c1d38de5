"""Particles that a kernel of one's own moves and pygfx draws, without leaving the GPU.

    pip install pygfx
    python examples/own_kernels/particles.py [--steps 80] [--save particles.png]

Threads of ink lie in the flow of three vortices. A tensor uses the buffer of pygfx's positions, so
particles.wgsl moves the points that the next frame shows. The program compares the positions and
the picture with numpy.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import wgpu
from pictures import write_png

try:
    import pygfx as gfx
    from rendercanvas.offscreen import OffscreenRenderCanvas
except ModuleNotFoundError as e:
    raise SystemExit(f"{e.name} is missing: pip install pygfx") from e

import pykernels as pk

Array = np.ndarray[Any, Any]

STEP = 0.02  # seconds of a step
WIDTH, HEIGHT, SIZE = 480, 300, 2  # pixels of the picture, and of a particle
SCALE = 150  # pixels of a unit of length; the centre of the picture is (0, 0)
INKS = np.array([(242, 191, 77), (217, 77, 64), (51, 115, 191), (229, 229, 229)], np.uint8)
# x, y, strength (positive: counterclockwise), radius of the core
VORTICES = np.array(
    [(-0.75, 0.1, 0.4, 0.2), (0.7, -0.15, -0.4, 0.2), (0.0, 0.7, 0.12, 0.12)], np.float32
)

move = pk.raw_kernel(Path(__file__).resolve().parent / "particles.wgsl")


def threads() -> tuple[Array, Array]:
    """The places (x, y, 0) where particles begin, and the ink of each. Some begin outside the
    picture, and the flow carries them in."""
    x, y = np.arange(-2.4, 2.4, 0.01), np.arange(-1.6, 1.6, 0.01) + 0.005
    y = y[np.floor(y / 0.16) % 2 == 0]  # threads, with gaps of the same width
    at = np.zeros((y.size, x.size, 3), np.float32)
    at[..., 0], at[..., 1] = x, y[:, None]
    ink = np.broadcast_to((np.floor(y / 0.32) % 4).astype(int)[:, None], at.shape[:2])
    return at.reshape(-1, 3), ink.ravel()


class Picture:
    """A scene of points without a window, and the buffer of their positions."""

    def __init__(self, start: Array, ink: Array) -> None:
        self.canvas = OffscreenRenderCanvas(size=(WIDTH, HEIGHT), pixel_ratio=1)
        renderer = gfx.WgpuRenderer(self.canvas, pixel_ratio=1, ppaa="none")
        # The usages that a tensor on the buffer needs: STORAGE for kernels, COPY_SRC for reading
        # back.
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
        self.positions = gfx.Buffer(start.copy(), usage=usage)
        colors = np.ones((len(ink), 4), np.float32)
        colors[:, :3] = INKS[ink] / np.float32(255)
        geometry = gfx.Geometry(positions=self.positions, colors=colors)
        material = gfx.PointsMaterial(size=SIZE, color_mode="vertex", aa=False)
        scene = gfx.Scene().add(gfx.Points(geometry, material))
        camera = gfx.OrthographicCamera(WIDTH / SCALE, HEIGHT / SCALE, maintain_aspect=False)
        self.canvas.request_draw(lambda: renderer.render(scene, camera))

    def draw(self) -> Array:
        """A frame: height x width x (red, green, blue)."""
        return np.asarray(self.canvas.draw())[..., :3].copy()

    def tensor(self) -> pk.Tensor:
        """The positions that pygfx draws. Their buffer exists only after pygfx's first frame."""
        shape, buffer = self.positions.data.shape, self.positions._wgpu_object
        return pk.Tensor.from_buffer(buffer, shape, "float32", device=pk.default_device())


def stir(positions: pk.Tensor, steps: int, kernel: Any = move) -> None:
    """Move the particles (particles x 3) by some steps, in place."""
    dev, n = positions.device, positions.shape[0]
    vortices, grid = dev.tensor(VORTICES), -(-n // 64)
    with dev.batch():  # one submit
        for _ in range(steps):
            kernel(positions, vortices, n=n, count=len(VORTICES), step=STEP, grid=grid)


def stirred(start: Array, steps: int) -> Array:
    """`stir` in numpy and double precision."""
    vortices, at = VORTICES.astype(float), start.astype(float)
    z = at[:, 0] + 1j * at[:, 1]

    def velocity(z: Array) -> Array:
        total = np.zeros_like(z)
        for x, y, strength, core in vortices:
            d = z - (x + 1j * y)
            total += 1j * strength * d / (d.real**2 + d.imag**2 + core**2)
        return total

    for _ in range(steps):
        z += STEP * velocity(z + STEP / 2 * velocity(z))
    at[:, 0], at[:, 1] = z.real, z.imag
    return at


def discs(positions: Array, radius: float) -> Array:
    """The pixels whose centre is nearer to a particle than the radius (at most 1.5 pixels)."""
    centre = positions[:, :2] * (SCALE, -SCALE) + (WIDTH / 2, HEIGHT / 2)
    mask = np.zeros((HEIGHT, WIDTH), bool)
    for offset in np.ndindex(3, 3):
        pixel = np.floor(centre).astype(int) + offset - 1
        near = ((pixel + 0.5 - centre) ** 2).sum(1) < radius**2
        x, y = pixel[near & (pixel >= 0).all(1) & (pixel < (WIDTH, HEIGHT)).all(1)].T
        mask[y, x] = True
    return mask


def check(positions: Array, picture: Array, steps: int) -> int:
    """Compare the kernel's positions and pygfx's picture with numpy. Returns the number of
    lit pixels."""
    start, ink = threads()
    want = stirred(start, steps)
    np.testing.assert_allclose(positions, want, rtol=0, atol=0.01 / SCALE)
    # A pixel at the edge of a particle may be lit or not.
    lit = np.asarray(picture.any(-1))
    assert lit[discs(want, SIZE / 2 - 0.05)].all(), "particles are missing in the picture"
    inked = np.zeros_like(lit)
    for k, colour in enumerate(INKS):
        drawn = (picture == colour).all(-1)
        assert drawn.any() and discs(want[ink == k], SIZE / 2 + 0.05)[drawn].all(), colour
        inked |= drawn
    assert (inked == lit).all(), "the picture has colours that no particle has"
    return int(lit.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80, help="steps between the two frames")
    parser.add_argument("--save", type=Path, help="write both frames as PNG")
    args = parser.parse_args()

    start, ink = threads()
    picture = Picture(start, ink)
    first = picture.draw()
    check(start, first, 0)
    positions = picture.tensor()
    stir(positions, args.steps)
    last = picture.draw()
    lit = check(positions.numpy(), last, args.steps)
    print(f"{len(start)} particles moved {args.steps} times; they light {lit} pixels")
    if args.save:
        gap = np.full((HEIGHT, 6, 3), 255, np.uint8)
        write_png(args.save, np.concatenate([first, gap, last], 1))


if __name__ == "__main__":
    main()
