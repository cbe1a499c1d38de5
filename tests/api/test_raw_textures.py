"""Textures and samplers of the caller in the texts of raw kernels."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pykernels as pk

gpu = pytest.mark.gpu
COPY_SRC, COPY_DST, TEXTURE, STORAGE = 1, 2, 4, 8
ALL = COPY_SRC | COPY_DST | TEXTURE | STORAGE

NEGATIVE = """
@group(0) @binding(0) var source: texture_2d<f32>;
@group(0) @binding(1) var target: texture_storage_2d<rgba8unorm, write>;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) i: vec3u) {
  if (any(i.xy >= textureDimensions(target))) { return; }
  let c = textureLoad(source, i.xy, 0);
  textureStore(target, i.xy, vec4f(1.0 - c.rgb, c.a));
}""".replace("target", "picture")
SAMPLED = """
struct Params { y_offset: u32, width: u32, height: u32, shift: f32 }
@group(1) @binding(4) var nearest: sampler;
@group(0) @binding(2) var t: texture_2d<f32>;
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(2) @binding(0) var unused: texture_depth_2d;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) i: vec3u) {
  if (i.x >= p.width || i.y >= p.height) { return; }
  let at = (vec2f(i.xy) + 0.5 + vec2f(p.shift, 0.0)) / vec2f(f32(p.width), f32(p.height));
  y[p.y_offset + i.y * p.width + i.x] = textureSampleLevel(t, nearest, at, 0.0).x;
}
@compute @workgroup_size(1) fn other() { y[0] = textureLoad(unused, vec2u(0, 0), 0); }
"""


def texture(dev: pk.Device, size: tuple[int, ...], fmt: str = "rgba8unorm", **more: Any) -> Any:
    usage = more.pop("usage", ALL)
    return dev.wgpu_device.create_texture(size=(*size, 1)[:3], format=fmt, usage=usage, **more)


def picture(dev: pk.Device, values: Any, fmt: str = "rgba8unorm") -> Any:
    """A texture with these texels."""
    found = texture(dev, (values.shape[1], values.shape[0]), fmt)
    dev.tensor(values).to_texture(found)
    return found


def texels(t: Any) -> Any:
    return pk.Tensor.from_texture(t).numpy()


def noise(height: int = 17, width: int = 33) -> Any:
    return np.random.default_rng(0).integers(0, 256, (height, width, 4)).astype(np.uint8)


def negative(values: Any) -> Any:
    found = 255 - values
    found[..., 3] = values[..., 3]
    return found


@pytest.fixture(scope="module")
def plain(dev: pk.Device) -> Iterator[pk.Device]:
    """A device of the same adapter without features."""
    name = dev.info["name"]  # an adapter of Dawn makes one device only
    adapters = dev._context.engine.adapters()
    raw = next(a for a in adapters if a.info["device"] == name).request_device_sync()
    yield pk.Device.from_wgpu(raw)
    raw.destroy()


@gpu
def test_a_picture_and_its_negative(dev: pk.Device) -> None:
    """Textures alone: the device is theirs, and the grid covers the texels."""
    kernel = pk.raw_kernel(NEGATIVE, name="negative")
    assert kernel.inputs == ("source",) and kernel.outputs == ("picture",)
    assert "picture: texture_storage_2d<rgba8unorm, write>" in repr(kernel)
    values = noise()
    a, b, c = (picture(dev, values) for _ in range(3))
    assert kernel(a, b) is b
    assert (texels(b) == negative(values)).all()
    kernel(source=b.create_view(), picture=c.create_view())
    assert (texels(c) == values).all()
    kernel(a, c, grid=(1, 1))
    assert (texels(c)[:8, :8] == negative(values)[:8, :8]).all()
    assert (texels(c)[8:, 8:] == values[8:, 8:]).all()
    kernel(a, b, grid=lambda picture, **_: [-(-n // 8) for n in picture.size[:2]])


@gpu
def test_a_launch_reads_what_the_one_before_wrote(dev: pk.Device) -> None:
    """In a batch, which is one compute pass; in a program; in a pass of the caller."""
    kernel, values = pk.raw_kernel(NEGATIVE), noise()
    a, b, c = picture(dev, values), texture(dev, (33, 17)), texture(dev, (33, 17))
    before = dev.submits
    with dev.batch():
        kernel(a, b)
        for _ in range(20):
            kernel(b, c)
            kernel(c, b)
        kernel(b, c)
        assert dev.submits == before
    assert dev.submits == before + 1
    assert (texels(c) == values).all()
    with dev.capture() as program:
        kernel(a, b)
        kernel(b, c)
        kernel(c, b)
    assert (texels(c) == values).all()  # nothing has run
    for _ in range(3):
        values = values[::-1].copy()
        dev.tensor(values).to_texture(a)
        program()
        assert (texels(b) == negative(values)).all() and (texels(c) == values).all()
    raw = dev.wgpu_device
    encoder = raw.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    with dev.record(compute_pass):
        kernel(b, c)
        kernel(c, b)
    compute_pass.end()
    raw.queue.submit([encoder.finish()])
    assert (texels(b) == negative(values)).all() and (texels(c) == values).all()


@gpu
def test_in_order_with_the_callers_own_queue_calls(dev: pk.Device) -> None:
    """A launch on a texture is submitted at once, so the caller's next submit reads its texels."""
    kernel, values = pk.raw_kernel(NEGATIVE), noise(4, 64)
    a, b = picture(dev, values), texture(dev, (64, 4))
    raw = dev.wgpu_device
    buffer = raw.create_buffer(size=4 * 256, usage=0x80 | 0x08 | 0x04)
    kernel(a, b)
    encoder = raw.create_command_encoder()
    encoder.copy_texture_to_buffer(
        {"texture": b}, {"buffer": buffer, "bytes_per_row": 256, "rows_per_image": 4}, (64, 4, 1)
    )
    raw.queue.submit([encoder.finish()])
    found = pk.Tensor.from_buffer(buffer, (4, 64), "uint32", device=dev).numpy().view(np.uint8)
    assert (found.reshape(4, 64, 4) == negative(values)).all()


@gpu
def test_profiles_threads_and_warm_up(dev: pk.Device) -> None:
    kernel, values = pk.raw_kernel(NEGATIVE, name="negative"), noise()
    a, b = picture(dev, values), texture(dev, (33, 17))
    with dev.profile() as p:
        kernel(a, b)
        kernel(a, b)
    assert len(p.records) == 2 and all(r.nbytes >= 2 * values.nbytes for r in p.records)
    dev.warmup(lambda: kernel(a, b))
    targets = [texture(dev, (33, 17)) for _ in range(6)]
    threads = [threading.Thread(target=kernel, args=(a, t)) for t in targets]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for t in targets:
        assert (texels(t) == negative(values)).all()


@gpu
def test_nothing_keeps_a_texture_except_a_program(dev: pk.Device) -> None:
    kernel = pk.raw_kernel(NEGATIVE)
    a, b, c = (texture(dev, (8, 8)) for _ in range(3))
    kernel(a, b)
    with dev.capture() as program:
        kernel(a, c)
    program()
    dev.sync()
    gone, kept = weakref.ref(b), weakref.ref(c)
    del b, c
    gc.collect()
    assert gone() is None and kept() is not None
    program()
    del program
    dev.trim()
    gc.collect()
    assert kept() is None


@gpu
def test_samplers_beside_tensors_and_numbers(dev: pk.Device) -> None:
    kernel = pk.raw_kernel(SAMPLED, name="sampled")
    assert kernel.samplers == ("nearest",) and kernel.inputs == ("t",) and kernel.outputs == ("y",)
    values = noise()[..., 0]
    source = texture(dev, (33, 17), "r8unorm", usage=TEXTURE | COPY_DST)
    dev.tensor(values).to_texture(source)
    raw = dev.wgpu_device
    whole = dev.full(17 * 33 + 9, 7.0)
    y = whole[5:-4].reshape((17, 33))
    for filter_, shift in (("nearest", 0.0), ("nearest", 0.25), ("linear", 0.5)):
        sampler = raw.create_sampler(mag_filter=filter_, min_filter=filter_)
        numbers: dict[str, Any] = {"width": 33, "height": 17, "shift": shift}
        assert kernel(t=source, nearest=sampler, y=y, **numbers) is y
        right = np.concatenate([values[:, 1:], values[:, -1:]], 1)
        want = values if filter_ == "nearest" else (values.astype(float) + right) / 2
        assert np.abs(y.numpy() * 255 - want).max() < 1, (filter_, shift)
    assert (whole.numpy()[:5] == 7).all() and (whole.numpy()[-4:] == 7).all()


@gpu
@pytest.mark.parametrize(("fmt", "kind", "dtype"), [
    ("rgba8uint", "u32", "uint8"), ("rgba16sint", "i32", "int16"), ("r32uint", "u32", "uint32"),
    ("rgba32float", "f32", "float32"), ("rgba16float", "f32", "float16"),
    ("r32sint", "i32", "int32"),
])  # fmt: skip
def test_formats_and_volumes(dev: pk.Device, fmt: str, kind: str, dtype: pk.DTypeName) -> None:
    """A 3d texture of each kind, written by one launch and read by another."""
    write = pk.raw_kernel(f"""
    @group(0) @binding(3) var t: texture_storage_3d<{fmt}, write>;
    @compute @workgroup_size(4, 4, 2) fn main(@builtin(global_invocation_id) i: vec3u) {{
      if (any(i >= textureDimensions(t))) {{ return; }}
      textureStore(t, i, vec4<{kind}>({kind}(i.x + 10u * i.y), {kind}(i.z), 3, 4));
    }}""")
    read = pk.raw_kernel(f"""
    alias Volume = texture_3d<{kind}>;
    @group(0) @binding(0) var t: Volume;
    @group(0) @binding(1) var<storage, read_write> y: array<{kind}>;
    @compute @workgroup_size(4, 4, 2) fn main(@builtin(global_invocation_id) i: vec3u) {{
      let n = textureDimensions(t);
      if (any(i >= n)) {{ return; }}
      let c = textureLoad(t, i, 0);
      y[(i.z * n.y + i.y) * n.x + i.x] = c.x + 100 * c.y;
    }}""")
    t = texture(dev, (9, 6, 5), fmt, dimension="3d")
    write(t)
    z, y, x = np.indices((5, 6, 9))
    first = texels(t) if fmt.startswith("r32") else texels(t)[..., 0]
    assert first.dtype == dtype and (first == x + 10 * y).all()
    out = {"u32": np.uint32, "i32": np.int32, "f32": np.float32}[kind]
    found = read(t, dev.zeros((5, 6, 9), np.dtype(out))).numpy()
    assert (found == x + 10 * y + (0 if fmt.startswith("r32") else 100 * z)).all()


@gpu
def test_levels_and_layers(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel writes one level from another one: views of one texture that do not overlap."""
    half = pk.raw_kernel(NEGATIVE.replace("source, i.xy", "source, 2u * i.xy"), name="half")
    values = noise(32, 32)
    t = texture(dev, (32, 32), mip_level_count=2)
    dev.tensor(values).to_texture(t)
    first, second = (t.create_view(base_mip_level=n, mip_level_count=1) for n in (0, 1))
    half(first, second, grid=(2, 2))
    found = pk.Tensor.from_texture(t, level=1).numpy()
    assert (found == negative(values)[::2, ::2]).all()
    with monkeypatch.context() as m:  # the question whether the views overlap compiles once
        m.delattr(type(dev._context.raw), "create_shader_module")
        half(first, second, grid=(2, 2))
    with monkeypatch.context() as m:  # and submits what it encodes, which wgpu keeps otherwise
        submitted: list[Any] = []
        m.setattr(dev.wgpu_device.queue, "submit", submitted.extend)
        half(first, second, grid=(2, 2))
    assert len(submitted) == 1
    with pytest.raises(pk.ArgumentError, match="grid must be given: picture is a view of a te"):
        half(first, second)
    for source, target in ((first, first), (t, second), (t, t), (first, t)):
        with pytest.raises(pk.AliasError, match=r"\[half\] picture is written, and source shows"):
            half(source, target, grid=1)
    layers = texture(dev, (32, 32, 2))
    views = [layers.create_view(dimension="2d", base_array_layer=n) for n in range(2)]
    kernel = pk.raw_kernel(NEGATIVE)
    kernel(first, views[0])
    kernel(views[0], views[1])
    assert (texels(layers)[0] == negative(values)).all() and (texels(layers)[1] == values).all()


PAIRS = """
@group(0) @binding(0) var t: texture_2d<f32>;
@group(0) @binding(1) var wide: texture_2d<f32>;
@group(0) @binding(2) var s: sampler;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
fn at(shown: texture_2d<f32>, how: sampler) -> f32 {
  return textureSampleLevel(shown, how, vec2f(0.5), 0.0).x;
}
@compute @workgroup_size(1) fn main() {
  y[0] = textureSampleLevel(t, s, vec2f(0.5), 0.0).x + textureLoad(wide, vec2u(0, 0), 0).x;
}
@compute @workgroup_size(1) fn both() {
  y[0] = textureSampleLevel(t, s, vec2f(0.5), 0.0).x;
  y[0] += textureSampleLevel(wide, s, vec2f(0.5), 0.0).x;
}
@compute @workgroup_size(1) fn passed() { y[0] = at(t, s) + at(wide, s); }
"""


@gpu
def test_formats_that_a_device_does_not_filter(plain: pk.Device) -> None:
    """A float32 format is loaded, and sampled with nearest filters, but not filtered."""
    raw = plain.wgpu_device
    t, wide = texture(plain, (4, 4)), texture(plain, (4, 4), "r32float")
    plain.tensor(np.full((4, 4, 4), 255, np.uint8)).to_texture(t)
    plain.tensor(np.full((4, 4), 2.5, np.float32)).to_texture(wide)
    linear, nearest = raw.create_sampler(mag_filter="linear"), raw.create_sampler()
    direct = PAIRS.partition("fn at")[0] + PAIRS[PAIRS.index("@compute") : PAIRS.index("passed")]
    direct = direct.rpartition("@compute")[0]
    for entry, text in (("main", direct), ("both", direct), ("passed", PAIRS)):
        kernel = pk.raw_kernel(text, entry, name=entry)
        y = plain.zeros(1)
        assert kernel(t, wide, nearest, y).numpy()[0] == 3.5
        if entry == "main":
            assert kernel(t, wide, linear, y).numpy()[0] == 3.5
            continue
        with pytest.raises(pk.ArgumentError, match=r"s filters, but .* does not filter r32float"):
            kernel(t, wide, linear, y)
    assert "float32-filterable" not in plain._context.features


@gpu
def test_looking_inside_texts_with_textures(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SAMPLED.replace("  y[p.y_offset", '  debug("at", i.x, at.x);\n  y[p.y_offset')
    kernel = pk.raw_kernel(text, name="sampled")
    source = texture(dev, (33, 17), "rgba8unorm")
    given: dict[str, Any] = {
        "t": source, "nearest": dev.wgpu_device.create_sampler(), "width": 33, "height": 17,
        "shift": 0.0,
    }  # fmt: skip
    y = dev.zeros((17, 33))
    with dev.debug(invocation=(range(3), 2)) as d:
        kernel(**given, y=y)
    assert sorted(r.values[0] for r in d.records) == [0, 1, 2]
    inverted = pk.raw_kernel(
        NEGATIVE.replace("  let c", '  debug("x", i.x);\n  let c'), name="inverted"
    )
    t = texture(dev, (33, 17))
    with dev.debug(invocation=0) as d:
        inverted(source, t)  # no tensors
    assert len(d.records) == 17
    monkeypatch.setattr(dev._context, "checks_indices", True)
    kernel(**given, y=y)
    with pytest.raises(pk.IndexRangeError, match=r"\[sampled\] line 12 .* y has 33 elements"):
        kernel(**given, y=y[0], grid=(5, 1))


@gpu
def test_programs_on_other_inputs_and_faults(dev: pk.Device) -> None:
    """An input of a program is replaced beside its texture; a wrong index of an input is told."""
    values = noise(4, 4)
    t, nearest = picture(dev, values), dev.wgpu_device.create_sampler()
    kernel = pk.raw_kernel(SAMPLED, name="sampled")
    y, other = dev.zeros((4, 4)), dev.zeros((4, 4))
    with dev.capture(y=y) as program:
        kernel(t=t, nearest=nearest, y=y, width=4, height=4, shift=0.0)
    program(y=other)
    assert np.allclose(other.numpy(), values[..., 0] / 255) and not y.numpy().any()
    store = pk.raw_kernel("""
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var t: texture_storage_2d<rgba8unorm, write>;
    @compute @workgroup_size(4, 4) fn main(@builtin(global_invocation_id) i: vec3u) {
      textureStore(t, i.xy, vec4f(x[4u * i.y + i.x]));
    }""")
    with pytest.raises(pk.IndexRangeError, match="is 9"):
        store(dev.ones(4)[dev.tensor(np.array([0, 9, 1, 2] * 4, np.int32))], t)
        dev.sync()
    store(np.ones(16, np.float32), t)  # the device is that of the texture
    assert (texels(t) == 255).all()


@gpu
def test_a_text_without_a_workgroup_size(dev: pk.Device) -> None:
    kernel = pk.raw_kernel(NEGATIVE.replace("@workgroup_size(8, 8)", ""), name="sizeless")
    with pytest.raises(pk.ArgumentError, match=r"\[sizeless\] grid must be given"):
        kernel(texture(dev, (8, 8)), texture(dev, (8, 8)))


@gpu
def test_tapes_and_questions(dev: pk.Device) -> None:
    kernel, values = pk.raw_kernel(NEGATIVE, name="negative"), noise()
    a, b = picture(dev, values), texture(dev, (33, 17))
    with pk.Tape() as tape:
        w = dev.ones(4)
        tape.watch(w)
        kernel(a, b)
        loss = pk.sum(w)
    assert (tape.gradient(loss, [w])[0].numpy() == 1).all()
    assert (texels(b) == negative(values)).all()
    dev.tensor(values).to_texture(b)
    assert pk.supports(kernel, a, b)
    assert "are one texture" not in str(pk.supports(kernel, a, a))
    assert "[negative] picture is written" in str(pk.supports(kernel, a, a))
    assert (texels(b) == values).all()  # nothing ran


TWO = NEGATIVE.replace(
    "@compute", "@group(0) @binding(2) var more: texture_storage_2d<rgba8unorm, write>;\n@compute"
).replace("  textureStore", "  textureStore(more, i.xy, c);\n  textureStore")
Call = Callable[[Any, pk.Device, Any, Any], object]
CALLS: dict[str, tuple[Call, type[Exception], str]] = {
    "tensor": (lambda k, d, a, b: k(a, d.zeros(4)), pk.DTypeError, "picture must be a GPUTexture"),
    "array": (lambda k, d, a, b: k(noise(), b), pk.DTypeError, "source must be a GPUTexture"),
    "None": (lambda k, d, a, b: k(a, None), pk.ArgumentError, "picture is missing"),
    "sampler": (
        lambda k, d, a, b: k(d.wgpu_device.create_sampler(), b), pk.DTypeError, "but is .*GPUSamp",
    ),
    "missing": (lambda k, d, a, b: k(a), pk.ArgumentError, "picture is missing"),
    "unknown": (lambda k, d, a, b: k(a, b, mask=b), pk.ArgumentError, "has source, picture"),
    "dimension": (
        lambda k, d, a, b: k(texture(d, (8, 8, 2), dimension="3d"), b), pk.ArgumentError,
        "needs a 2d texture, but the texture is 3d",
    ),
    "dimension of a view": (
        lambda k, d, a, b: k(texture(d, (8, 8, 2)).create_view(dimension="2d-array"), b),
        pk.DTypeError, "source: the view does not fit texture_2d<f32>",
    ),
    "layers": (lambda k, d, a, b: k(texture(d, (8, 8, 2)), b), pk.ArgumentError, "has 2 layers"),
    "format": (
        lambda k, d, a, b: k(texture(d, (8, 8), "rgba8uint"), b), pk.DTypeError,
        "does not fit the format rgba8uint, whose texels are u32",
    ),
    "format of a view": (
        lambda k, d, a, b: k(texture(d, (8, 8), "rgba8sint").create_view(), b), pk.DTypeError,
        "the view does not fit .* whose texels are i32",
    ),
    "format of the output": (
        lambda k, d, a, b: k(a, texture(d, (8, 8), "rgba16float")), pk.DTypeError,
        "needs the format rgba8unorm, but the texture has rgba16float",
    ),
    "format of the view of the output": (
        lambda k, d, a, b: k(a, texture(d, (8, 8), "rgba16float").create_view()), pk.DTypeError,
        "the view does not fit .* needs the format rgba8unorm",
    ),
    "usage": (
        lambda k, d, a, b: k(texture(d, (8, 8), usage=STORAGE), b), pk.BufferStateError,
        "source lacks the usage flag TEXTURE_BINDING",
    ),
    "usage of the output": (
        lambda k, d, a, b: k(a, texture(d, (8, 8), usage=TEXTURE)), pk.BufferStateError,
        "picture lacks the usage flag STORAGE_BINDING",
    ),
    "samples": (
        lambda k, d, a, b: k(texture(d, (8, 8), usage=TEXTURE | 0x10, sample_count=4), b),
        pk.ArgumentError, "one sample a texel but has 4",
    ),
    "destroyed": (lambda k, d, a, b: k(a, destroyed(d)), pk.BufferStateError, "estroyed"),
    "view of one that is destroyed": (
        lambda k, d, a, b: k(destroyed(d, view=True), b), pk.BufferStateError, "estroyed",
    ),
    "one texture": (lambda k, d, a, b: k(a, a), pk.AliasError, "shows the same texels"),
    "two outputs": (
        lambda k, d, a, b: pk.raw_kernel(TWO)(a, b, b), pk.AliasError, "picture and more are one",
    ),
    "grid too large": (
        lambda k, d, a, b: k(a, b, grid=(1, 1, 1 << 16)), pk.LimitError, "65535",
    ),
}  # fmt: skip


def destroyed(dev: pk.Device, view: bool = False) -> Any:
    found = texture(dev, (8, 8))
    of = found.create_view()
    found.destroy()
    return of if view else found


@gpu
def test_wrong_calls_leave_everything_as_it_was(dev: pk.Device, plain: pk.Device) -> None:
    kernel, values = pk.raw_kernel(NEGATIVE, name="negative"), noise(8, 8)
    a, b = picture(dev, values), picture(dev, values)
    for what, (call, kind, words) in CALLS.items():
        with pytest.raises(kind, match=words):
            call(kernel, dev, a, b)
            pytest.fail(what)
    for given in ((texture(plain, (8, 8)), b), (a, texture(plain, (8, 8)).create_view())):
        with pytest.raises(
            pk.BufferStateError, match=r"\[negative\] \w+ belongs to another device"
        ):
            kernel(*given)
    sampled, y = pk.raw_kernel(SAMPLED, name="sampled"), dev.zeros((8, 8))
    raw = dev.wgpu_device
    numbers: dict[str, Any] = {"y": y, "width": 8, "height": 8, "shift": 0.0}
    for sampler, kind, words in (
        (raw.create_sampler(compare="less"), pk.ArgumentError, "nearest compares"),
        (plain.wgpu_device.create_sampler(), pk.BufferStateError, "nearest belongs to another"),
        (a, pk.DTypeError, "nearest must be a GPUSampler"),
        (y, pk.DTypeError, "nearest must be a GPUSampler"),
    ):
        with pytest.raises(kind, match=words):
            sampled(t=a, nearest=sampler, **numbers)
    with pytest.raises(pk.BufferStateError, match="t belongs to another device"):
        sampled(t=texture(plain, (8, 8)), nearest=raw.create_sampler(), **numbers)
    with pytest.raises(pk.ArgumentError, match=r"grid .* 2 axes, but y has the shape \(64,\)"):
        sampled(t=a, nearest=raw.create_sampler(), **(numbers | {"y": y.reshape(64)}))
    dev.sync()
    assert (texels(b) == values).all() and not y.numpy().any()
    kernel(a, b)
    assert (texels(b) == negative(values)).all()


@gpu
def test_textures_that_are_destroyed_before_the_submit(dev: pk.Device) -> None:
    """In a batch, and in a program: an error, and the device goes on."""
    kernel, values = pk.raw_kernel(NEGATIVE), noise()
    a, c = (picture(dev, values) for _ in range(2))
    for more in (0, COPY_DST):
        gone, y = texture(dev, (33, 17), usage=STORAGE | more), dev.zeros(4)
        with pytest.raises(pk.BufferStateError, match="estroyed"), dev.batch():
            kernel(a, gone)
            gone.destroy()
        with pytest.raises(pk.BufferStateError, match=r"picture: .*estroyed"), dev.batch():
            pk.kernels.fill(y, 3.0)  # which the wrong call does not take with it
            kernel(a, gone)
        assert (y.numpy() == 3).all()
    with dev.capture() as program:
        kernel(a, c)
    program()
    program()
    assert (texels(c) == negative(values)).all()
    c.destroy()
    with pytest.raises(pk.BufferStateError, match="estroyed"):
        program()
        dev.sync()
    d = texture(dev, (33, 17))
    kernel(a, d)
    assert (texels(d) == negative(values)).all()


HEAD = NEGATIVE.partition("@compute")[0]
MAIN = "@compute @workgroup_size(1) fn main() { textureStore(picture, vec2u(0, 0), X); }"
TEXTS = {
    "depth": ("texture_depth_2d", "vec4f(textureLoad(z, vec2u(0, 0), 0))"),
    "array": ("texture_2d_array<f32>", "textureLoad(z, vec2u(0, 0), 0, 0)"),
    "multisampled": ("texture_multisampled_2d<f32>", "textureLoad(z, vec2u(0, 0), 0)"),
    "external": ("texture_external", "textureLoad(z, vec2u(0, 0))"),
    "read": ("texture_storage_2d<rgba8unorm, read>", "textureLoad(z, vec2u(0, 0))"),
    "no format": ("texture_storage_2d<rgba8, write>", "vec4f(vec2f(textureDimensions(z)), 0, 0)"),
    "comparison": ("sampler_comparison", "vec4f(f(z))"),
}


@pytest.mark.parametrize("what", TEXTS)
def test_texts_that_no_launch_serves(what: str) -> None:
    kind, use = TEXTS[what]
    text = f"{HEAD}@group(0) @binding(5) var z: {kind};\n{MAIN.replace('X', use)}"
    with pytest.raises(pk.ArgumentError, match=rf"z is a {kind.replace('<', '<')}.*raw kernels bi"):
        pk.raw_kernel(text)
