"""The first hour of somebody who has a GPUDevice already: buffers, shaders, frames and passes of
their own beside kernels, as pygfx and other users of wgpu have them.

Plain code as such a user writes it, run from an installed wheel by test_first_hour.py.
"""

from contextlib import contextmanager

import numpy as np
import wgpu

import pykernels as pk

rng = np.random.default_rng(0)
SHARED = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
adapter = wgpu.gpu.request_adapter_sync()
gpu = adapter.request_device_sync()
dev = pk.Device.from_wgpu(gpu)

DOUBLE = """
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < arrayLength(&data)) { data[id.x] *= 2.0; }
}
"""
POINTS = """
@vertex fn place(@location(0) at: vec2<f32>) -> @builtin(position) vec4<f32> {
  return vec4<f32>(at, 0.0, 1.0);
}
@fragment fn paint() -> @location(0) vec4<f32> { return vec4<f32>(1.0); }
"""


@contextmanager
def told(error, *words):
    """An error of this class whose message has these words."""
    try:
        yield
    except error as e:
        for word in words:
            assert word in str(e), f"{e!r} does not say {word!r}"
    else:
        raise AssertionError(f"nothing was raised; wanted {error.__name__}")


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def floats(buffer, count, offset=0):
    """My own read."""
    return np.frombuffer(gpu.queue.read_buffer(buffer, offset, 4 * count), np.float32)


class Doubler:
    """My own dispatch on a buffer."""

    def __init__(self, buffer, offset=0, count=64):
        self.pipeline = gpu.create_compute_pipeline(
            layout="auto",
            compute={"module": gpu.create_shader_module(code=DOUBLE), "entry_point": "main"},
        )
        self.groups = count // 64
        resource = {"buffer": buffer, "offset": offset, "size": 4 * count}
        self.group = gpu.create_bind_group(
            layout=self.pipeline.get_bind_group_layout(0),
            entries=[{"binding": 0, "resource": resource}],
        )

    def encode(self, compute_pass):
        compute_pass.set_pipeline(self.pipeline)
        compute_pass.set_bind_group(0, self.group)
        compute_pass.dispatch_workgroups(self.groups)

    def __call__(self):
        encoder = gpu.create_command_encoder()
        compute_pass = encoder.begin_compute_pass()
        self.encode(compute_pass)
        compute_pass.end()
        gpu.queue.submit([encoder.finish()])


def whose_device_it_is():
    assert pk.Device.from_wgpu(gpu) is dev and dev.wgpu_device is gpu
    assert dev.info["name"] in adapter.info["device"] or dev.info["engine"] == "wgpu"
    shared = pk.default_device()
    assert shared.wgpu_device is wgpu.utils.get_default_device()
    assert shared is not dev
    with told(pk.BufferStateError, "device"):
        pk.kernels.cpy(shared.ones((2, 2)), dev.empty((2, 2)))


def my_buffer_as_a_tensor():
    buffer = gpu.create_buffer(size=4096, usage=SHARED)
    t = pk.Tensor.from_buffer(buffer, (8, 64), "float32", offset=1024)
    assert t.device is dev and t.shape == (8, 64) and t.offset == 1024
    x = rng.standard_normal((8, 64), np.float32)
    gpu.queue.write_buffer(buffer, 1024, x)
    np.testing.assert_array_equal(t.numpy(), x)
    pk.kernels.softmax(t, t)
    found = floats(buffer, 512, 1024).reshape(8, 64)
    np.testing.assert_allclose(found, softmax(x), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(floats(buffer, 256), 0)  # beside it
    columns = pk.Tensor.from_buffer(buffer, (64, 8), "float32", offset=1024, strides=(4, 256))
    np.testing.assert_array_equal(columns.numpy(), found.T)
    t.write(x)
    np.testing.assert_array_equal(floats(buffer, 512, 1024).reshape(8, 64), x)


def nobody_overtakes():
    """No flush anywhere: my queue calls and kernels on my buffer come in the order of the text."""
    buffer = gpu.create_buffer(size=256, usage=SHARED)
    k = pk.Tensor.from_buffer(buffer, (64,), "float32")
    for i in range(20):
        gpu.queue.write_buffer(buffer, 0, np.full(64, i, np.float32))
        y = k + 0
        gpu.queue.write_buffer(buffer, 0, np.full(64, -1, np.float32))
        assert (y.numpy() == i).all()
    for i in range(20):
        pk.kernels.fill(k, i)
        assert (floats(buffer, 64) == i).all()
    h = dev.ones((64,))
    h = pk.exp(h * 0) + 2  # on tensors of the package, then into my buffer
    pk.kernels.cpy(h, k)
    assert (floats(buffer, 64) == 3).all()


def their_buffer_in_my_shader():
    t = pk.softmax(dev.tensor(rng.standard_normal((8, 64), np.float32)))
    want = t.numpy()
    buffer = t.buffer
    assert buffer.size >= t.offset + t.nbytes
    double = Doubler(buffer, t.offset, 512)
    for _ in range(3):
        double()
        pk.kernels.add(t, t, t)
        want = 4 * want
    np.testing.assert_allclose(t.numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(floats(buffer, 512, t.offset).reshape(8, 64), want, rtol=1e-6)
    again = pk.Tensor.from_buffer(buffer, t.shape, t.dtype, offset=t.offset)
    np.testing.assert_array_equal(again.numpy(), t.numpy())


def frames_of_mine():
    """A kernel writes the heights of points, which a render pass of mine draws, frame by frame."""
    side = 16
    vertices = gpu.create_buffer(size=8 * side, usage=SHARED | wgpu.BufferUsage.VERTEX)
    texture = gpu.create_texture(
        size=(side, side, 1), format="rgba8unorm",
        usage=wgpu.TextureUsage.RENDER_ATTACHMENT | wgpu.TextureUsage.COPY_SRC,
    )  # fmt: skip
    module = gpu.create_shader_module(code=POINTS)
    attribute = {"format": "float32x2", "offset": 0, "shader_location": 0}
    pipeline = gpu.create_render_pipeline(
        layout="auto", primitive={"topology": "point-list"},
        vertex={
            "module": module, "entry_point": "place",
            "buffers": [{"array_stride": 8, "attributes": [attribute]}],
        },
        fragment={
            "module": module, "entry_point": "paint", "targets": [{"format": "rgba8unorm"}],
        },
    )  # fmt: skip

    def draw():
        encoder = gpu.create_command_encoder()
        view = {"view": texture.create_view(), "load_op": "clear", "store_op": "store"}
        render_pass = encoder.begin_render_pass(
            color_attachments=[view | {"clear_value": (0, 0, 0, 1)}]
        )
        render_pass.set_pipeline(pipeline)
        render_pass.set_vertex_buffer(0, vertices)
        render_pass.draw(side)
        render_pass.end()
        gpu.queue.submit([encoder.finish()])

    centre = (np.arange(side) + 0.5) / side * 2 - 1
    places = pk.Tensor.from_buffer(vertices, (side, 2), "float32")
    places[:, 0] = centre.astype(np.float32)
    heights, phase = places[:, 1], dev.zeros((side,))
    rows = dev.tensor(np.arange(side, dtype=np.float32))
    with dev.capture() as frame:
        level = (rows + phase) - pk.floor((rows + phase) / side) * side
        pk.kernels.cpy((level + 0.5) / side * 2 - 1, heights)
        pk.kernels.add(phase, dev.ones((side,)), phase)
    dev.warmup(frame)
    for i in range(5):
        frame()
        draw()  # right behind it
        target = {"texture": texture, "mip_level": 0, "origin": (0, 0, 0)}
        layout = {"offset": 0, "bytes_per_row": 4 * side, "rows_per_image": side}
        data = gpu.queue.read_texture(target, layout, (side, side, 1))
        picture = np.frombuffer(data, np.uint8).reshape(side, side, 4)[..., 0]
        want = np.zeros((side, side), np.uint8)
        want[side - 1 - (np.arange(side) + i) % side, np.arange(side)] = 255
        np.testing.assert_array_equal(picture, want)


def kernels_in_my_pass():
    buffer = gpu.create_buffer(size=256, usage=SHARED)
    t = pk.Tensor.from_buffer(buffer, (64,), "float32")
    t.write(np.ones(64, np.float32))
    double, other = Doubler(buffer), dev.ones((3,))
    encoder = gpu.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    with dev.record(compute_pass):
        pk.kernels.add(t, t, t)
        double.encode(compute_pass)
        s = t + 1
        with told(pk.BufferStateError, "a pass that has not ended"):
            t.numpy()
        with told(pk.BufferStateError, "a pass that has not ended"):
            s.numpy()
        assert (other.numpy() == 1).all()
    assert (floats(buffer, 64) == 1).all()  # nothing has run
    compute_pass.end()
    gpu.queue.submit([encoder.finish()])
    assert (floats(buffer, 64) == 4).all() and (s.numpy() == 5).all()


def many_at_once():
    buffer = gpu.create_buffer(size=256, usage=SHARED)
    t = pk.Tensor.from_buffer(buffer, (64,), "float32")
    pk.kernels.fill(t, 0)
    before = dev.submits
    with dev.batch():
        for _ in range(50):
            pk.add(t, 1, out=t)
        dev.flush()
        assert (floats(buffer, 64) == 50).all()
    assert dev.submits == before + 1
    with dev.capture() as program:
        made = t * 2
        pk.kernels.cpy(made, t)
    with told(pk.BufferStateError, "has not run yet"):
        made.numpy()
    for i in range(3):
        gpu.queue.write_buffer(buffer, 0, np.full(64, i, np.float32))
        program()
        assert (floats(buffer, 64) == 2 * i).all() and (made.numpy() == 2 * i).all()


def what_goes_wrong():
    plain = gpu.create_buffer(size=256, usage=wgpu.BufferUsage.COPY_DST)
    with told(pk.BufferStateError, "STORAGE"):
        pk.Tensor.from_buffer(plain, (64,), "float32")
    buffer = gpu.create_buffer(size=256, usage=SHARED)
    with told(ValueError, "leave the buffer"):
        pk.Tensor.from_buffer(buffer, (65,), "float32")
    with told(TypeError, "GPUBuffer"):
        pk.Tensor.from_buffer(np.ones(64, np.float32), (64,), "float32")
    t = pk.Tensor.from_buffer(buffer, (64,), "float32")
    buffer.destroy()
    for use in (t.numpy, lambda: t + 1, lambda: pk.kernels.fill(t, 1)):
        with told(pk.BufferStateError, "destroyed"):
            use()
    assert (pk.exp(dev.zeros((4,))).numpy() == 1).all()


def it_stays_mine():
    dev.close()
    buffer = gpu.create_buffer(size=256, usage=SHARED)
    gpu.queue.write_buffer(buffer, 0, np.full(64, 3, np.float32))
    Doubler(buffer)()
    assert (floats(buffer, 64) == 6).all()
    again = pk.Device.from_wgpu(gpu)
    assert again is not dev
    assert (pk.Tensor.from_buffer(buffer, (64,), "float32").numpy() == 6).all()


for part in (
    whose_device_it_is, my_buffer_as_a_tensor, nobody_overtakes, their_buffer_in_my_shader,
    frames_of_mine, kernels_in_my_pass, many_at_once, what_goes_wrong, it_stays_mine,
):  # fmt: skip
    part()
    print(f"{part.__name__.replace('_', ' ')}: as expected", flush=True)
