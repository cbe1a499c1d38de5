"""An image filter between two render passes: a kernel of one's own makes the glow of neon light.

    python examples/own_kernels/neon.py [--save neon.png]

The first pass draws tubes that are brighter than 1 into a texture of float32. A tensor gets a copy
of this texture, on the device; blur.wgsl blurs the light above 1, along rows and along columns; a
second texture gets the result, and the second pass composes both textures. The program compares the
kernel and the picture with numpy.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pictures import write_png

import pykernels as pk

Array = np.ndarray[Any, Any]

HERE = Path(__file__).resolve().parent
WIDTH, HEIGHT = 480, 300
RADIUS = 48  # radius of the blur in pixels: three standard deviations
SEGMENT = 128  # pixels of a workgroup
ABOVE, STRENGTH = 1.0, 1.5  # light above this level glows; the factor of the glow
PINK, BLUE = (4.0, 0.5, 1.6, 0.0), (0.4, 1.8, 4.0, 0.0)
# The letters, as the ends of tubes in pixels of the picture.
SIGN = [
    (PINK, "70,80 90,220 110,130 130,220 150,80"),
    (PINK, "230,100 210,80 185,80 170,100 170,200 185,220 210,220 230,200 230,155 205,155"),
    (BLUE, "310,95 295,80 265,80 250,95 250,130 265,145 295,155 310,170"),
    (BLUE, "310,170 310,205 295,220 265,220 250,205"),
    (BLUE, "340,80 340,220 410,220"),
]  # fmt: skip

blur = pk.raw_kernel(HERE / "blur.wgsl")


def tubes() -> Array:
    """The ends and the light of each tube: tubes x 8, as the first pass reads them."""
    rows = []
    for light, text in SIGN:
        points = [tuple(map(float, point.split(","))) for point in text.split()]
        rows += [(*a, *b, *light) for a, b in pairwise(points)]
    return np.array(rows, np.float32)


def weights() -> Array:
    """A bell curve of 2 RADIUS + 1 weights, whose sum is 1."""
    bell = np.exp(-0.5 * (3 * np.arange(-RADIUS, RADIUS + 1) / RADIUS) ** 2)
    return np.asarray(bell / bell.sum(), np.float32)


def glow(picture: pk.Tensor, bell: pk.Tensor, kernel: Any = blur) -> pk.Tensor:
    """The light of the picture (height x width x 4) above 1, blurred along rows, then columns."""
    height, width, _ = picture.shape
    rows, out = (picture.device.empty(picture.shape) for _ in range(2))
    numbers = {"radius": RADIUS, "above": ABOVE}
    kernel(
        picture, bell, rows, size=width, step=1, next=width, **numbers,
        grid=(-(-width // SEGMENT), height),
    )  # fmt: skip
    numbers["above"] = 0.0
    kernel(
        rows, bell, out, size=height, step=width, next=1, **numbers,
        grid=(-(-height // SEGMENT), width),
    )  # fmt: skip
    return out


class Pass:
    """A render pass that fills a texture, with a fragment shader of passes/neon.wgsl."""

    def __init__(self, gpu: Any, entry: str, target: Any) -> None:
        self.gpu, self.target = gpu, target
        code = (HERE / "passes" / "neon.wgsl").read_text(encoding="utf-8")
        module = gpu.create_shader_module(code=code)
        targets = [{"format": target.format}]
        self.pipeline = gpu.create_render_pipeline(
            layout="auto",
            vertex={"module": module, "entry_point": "corner"},
            fragment={"module": module, "entry_point": entry, "targets": targets},
        )

    def draw(self, *resources: Any) -> None:
        group = self.gpu.create_bind_group(
            layout=self.pipeline.get_bind_group_layout(0),
            entries=[{"binding": i, "resource": r} for i, r in enumerate(resources)],
        )
        view = self.target.create_view()
        black = {"clear_value": (0, 0, 0, 1), "load_op": "clear", "store_op": "store"}
        encoder = self.gpu.create_command_encoder()
        p = encoder.begin_render_pass(color_attachments=[{"view": view, **black}])
        p.set_pipeline(self.pipeline)
        p.set_bind_group(0, group)
        p.draw(3)
        p.end()
        self.gpu.queue.submit([encoder.finish()])


class Drawn(NamedTuple):
    light: Array  # drawn by the first pass: height x width x 4
    glow: Array
    before: Array  # the picture without glow: height x width x 3
    after: Array


def draw(dev: pk.Device) -> Drawn:
    """Both passes, without the filter and with it between them."""
    gpu = dev.wgpu_device

    def texture(form: str, usage: str) -> Any:
        return gpu.create_texture(size=(WIDTH, HEIGHT, 1), format=form, usage=usage)

    lit = texture("rgba32float", "RENDER_ATTACHMENT | TEXTURE_BINDING | COPY_SRC")
    blurred = texture("rgba32float", "TEXTURE_BINDING | COPY_DST")
    picture = texture("rgba8unorm", "RENDER_ATTACHMENT | COPY_SRC")
    compose, views = Pass(gpu, "compose", picture), (lit.create_view(), blurred.create_view())

    sign = dev.tensor(tubes())
    buffer = {"buffer": sign.buffer, "offset": sign.offset, "size": sign.nbytes}
    Pass(gpu, "scene", lit).draw(buffer)
    compose.draw(*views)  # a new texture holds zeros: no glow
    before = pk.Tensor.from_texture(picture, device=dev)

    light = pk.Tensor.from_texture(lit, device=dev)
    made = glow(light, dev.tensor(weights())) * STRENGTH
    made.to_texture(blurred)
    compose.draw(*views)
    after = pk.Tensor.from_texture(picture, device=dev)
    return Drawn(light.numpy(), made.numpy(), before.numpy()[..., :3], after.numpy()[..., :3])


def scene() -> Array:
    """The light that the first pass draws, computed in numpy."""
    x, y = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    joint = (y % 15 < 2) | ((x + 20 * (y // 15 % 2)) % 40 < 2)
    light = np.where(joint, 0.05, 0.12)[..., None] * (1.0, 0.7, 0.6, 0.0)
    centres = np.stack([x, y], -1) + 0.5
    for tube in tubes().astype(float):
        along, d = tube[2:4] - tube[:2], centres - tube[:2]
        share = (d @ along / (along @ along)).clip(0, 1)[..., None]
        covered = (4 - np.linalg.norm(d - share * along, axis=-1)).clip(0, 1)[..., None]
        light += covered * (tube[4:] - light)
    return np.asarray(light)


def glowing(light: Array) -> Array:
    """`glow` in numpy and double precision."""
    out = (light.astype(float) - ABOVE).clip(0)
    for axis in (1, 0):
        margins = [(RADIUS, RADIUS) if a == axis else (0, 0) for a in range(3)]
        padded = np.pad(out, margins, mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * RADIUS + 1, axis)
        out = windows @ weights().astype(float)
    return np.asarray(out)


def composed(light: Array) -> Array:
    """The picture that the second pass makes of light, computed in numpy: levels from 0 to 255."""
    return np.asarray(255 * (1 - np.exp(-light[..., :3])))


def check(drawn: Drawn) -> float:
    """Compare `draw` with numpy. Returns the largest difference of the pictures, in levels."""
    want = scene()
    np.testing.assert_allclose(drawn.light, want, rtol=0, atol=1e-3)
    # This checks the filter alone, on the light that the device drew.
    np.testing.assert_allclose(drawn.glow, STRENGTH * glowing(drawn.light), rtol=0, atol=1e-5)
    bright = want + STRENGTH * glowing(want)
    pairs = (drawn.before, composed(want)), (drawn.after, composed(bright))
    worst = max(float(np.abs(got - levels).max()) for got, levels in pairs)
    assert worst <= 1, f"the picture differs by {worst} levels"
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path, help="write both pictures as PNG")
    args = parser.parse_args()

    dev = pk.default_device()
    drawn = draw(dev)
    worst = check(drawn)
    print(f"drawn on {dev.info['name']}; the largest difference is {worst:.2f} of 255")
    if args.save:
        gap = np.full((HEIGHT, 6, 3), 255, np.uint8)
        write_png(args.save, np.concatenate([drawn.before, gap, drawn.after], 1))


if __name__ == "__main__":
    main()
