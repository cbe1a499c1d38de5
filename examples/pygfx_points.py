"""A kernel writes the heights of points that pygfx draws, without leaving the GPU.

    pip install pygfx
    python examples/pygfx_points.py [--save points.npy]

pygfx and pykernels share wgpu's default device, so a tensor can use the buffer of pygfx's
positions: a kernel writes into one of its columns, and the next frame shows the new heights.
"""

from __future__ import annotations

import argparse

import numpy as np
import wgpu

try:
    import pygfx as gfx
    from rendercanvas.offscreen import OffscreenRenderCanvas
except ModuleNotFoundError as e:
    raise SystemExit(f"{e.name} is missing: pip install pygfx") from e

import pykernels as pk

POINTS, HEIGHT = 64, 128
TOP = 0.06  # the camera's range goes from 0 to this


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", help="write the picture as a .npy file")
    args = parser.parse_args()

    canvas = OffscreenRenderCanvas(size=(4 * POINTS, HEIGHT), pixel_ratio=1)
    renderer = gfx.WgpuRenderer(canvas, pixel_ratio=1)
    start = np.zeros((POINTS, 3), np.float32)
    start[:, 0] = np.arange(POINTS)
    # The usages that a tensor on the buffer needs: STORAGE for kernels, COPY_SRC for reading back.
    positions = gfx.Buffer(start, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC)
    material = gfx.PointsMaterial(size=4, color="#fff", aa=False)
    scene = gfx.Scene().add(gfx.Points(gfx.Geometry(positions=positions), material))
    camera = gfx.OrthographicCamera(POINTS, TOP, maintain_aspect=False)
    camera.local.position = (POINTS / 2 - 0.5, TOP / 2, 0)
    canvas.request_draw(lambda: renderer.render(scene, camera))
    canvas.draw()  # pygfx creates its GPU buffers when it first draws

    dev = pk.default_device()
    buffer = positions._wgpu_object
    heights = pk.Tensor.from_buffer(buffer, (POINTS, 3), "float32", device=dev)[:, 1]
    x = np.linspace(-3, 3, POINTS, dtype=np.float32)
    # this launch is submitted at once, so it comes before pygfx's frame
    pk.kernels.softmax(dev.tensor(-x * x), heights)

    picture = np.asarray(canvas.draw())
    rows = np.arange(HEIGHT)[:, None]
    lit = picture[..., 0].reshape(HEIGHT, POINTS, 4).sum(-1)
    drawn = 1 - ((rows + 0.5) * lit).sum(0) / lit.sum(0) / HEIGHT
    wanted = heights.numpy() / TOP
    print(f"drew {POINTS} points on {dev.info['name']}, heights up to {wanted.max() * TOP:.4f}")
    # Two pixels of tolerance: points at the border are cut in half.
    if np.abs(drawn - wanted).max() > 2 / HEIGHT:
        raise SystemExit("the picture is not what the kernel computed")
    if args.save:
        np.save(args.save, picture)


if __name__ == "__main__":
    main()
