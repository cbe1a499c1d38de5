"""One device for kernels and rendering: a softmax is drawn without leaving the GPU.

    python examples/shared_device.py [--save heatmap.npy]

pykernels works on wgpu's default device. A kernel writes into a storage buffer made with plain
wgpu; a render pass of the same device reads it in its fragment shader. examples/pygfx_points.py
does the same with pygfx.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import wgpu

import pykernels as pk

SIZE = 128
SHADER = """
@group(0) @binding(0) var<storage, read> heat: array<f32>;

@vertex
fn corner(@builtin(vertex_index) i: u32) -> @builtin(position) vec4<f32> {
  // One triangle that covers the target.
  return vec4<f32>(f32(i & 1u) * 4.0 - 1.0, f32(i >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}

@fragment
fn color(@builtin(position) at: vec4<f32>) -> @location(0) vec4<f32> {
  let v = heat[u32(at.y) * 128u + u32(at.x)];
  return vec4<f32>(v * 8.0, v * 2.0, 1.0 - v * 8.0, 1.0);
}
"""


def render(device: Any, buffer: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Draw the buffer as a picture of SIZE x SIZE pixels (rgba)."""
    module = device.create_shader_module(code=SHADER)
    target = device.create_texture(
        size=(SIZE, SIZE, 1), format="rgba8unorm", usage="RENDER_ATTACHMENT | COPY_SRC"
    )
    pipeline = device.create_render_pipeline(
        layout="auto",
        vertex={"module": module, "entry_point": "corner"},
        fragment={
            "module": module,
            "entry_point": "color",
            "targets": [{"format": "rgba8unorm"}],
        },
    )
    group = device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[{"binding": 0, "resource": {"buffer": buffer}}],
    )
    encoder = device.create_command_encoder()
    attachment = {
        "view": target.create_view(), "load_op": "clear", "store_op": "store",
        "clear_value": (0, 0, 0, 1),
    }  # fmt: skip
    p = encoder.begin_render_pass(color_attachments=[attachment])
    p.set_pipeline(pipeline)
    p.set_bind_group(0, group)
    p.draw(3)
    p.end()
    device.queue.submit([encoder.finish()])
    data = device.queue.read_texture(
        {"texture": target}, {"bytes_per_row": SIZE * 4}, (SIZE, SIZE, 1)
    )
    return np.frombuffer(data, np.uint8).reshape(SIZE, SIZE, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", help="write the picture as a .npy file")
    args = parser.parse_args()

    dev = pk.default_device()
    device = wgpu.utils.get_default_device()
    if dev.wgpu_device is not device:
        raise SystemExit("pykernels is not on wgpu's default device")

    buffer = device.create_buffer(size=SIZE * SIZE * 4, usage="STORAGE | COPY_SRC")
    heat = pk.Tensor.from_buffer(buffer, (SIZE, SIZE), "float32", device=dev)
    y, x = np.mgrid[-3 : 3 : SIZE * 1j, -3 : 3 : SIZE * 1j].astype(np.float32)  # type: ignore[misc]
    logits = 4 * np.cos(3 * x) - (x * x + y * y)
    # this launch is submitted at once, so it comes before the render pass
    pk.kernels.softmax(dev.tensor(logits), heat)

    picture = render(device, buffer)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    v = e / e.sum(-1, keepdims=True)
    rgb = np.clip(np.stack([v * 8, v * 2, 1 - v * 8], -1), 0, 1) * 255
    error = np.abs(picture[..., :3] - rgb).max()
    print(f"drew {picture.shape[:2]} on {dev.info['name']}, largest difference {error:.2f} of 255")
    if error > 1.0:
        raise SystemExit("the picture is not what the kernel computed")
    if args.save:
        np.save(args.save, picture)


if __name__ == "__main__":
    main()
