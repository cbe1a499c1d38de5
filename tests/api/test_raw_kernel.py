"""pk.raw_kernel: texts of the user's own, as calls like all others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk

gpu = pytest.mark.gpu

SCALE = """
struct Params { x_offset: u32, y_offset: u32, n: u32, factor: f32, shift: vec2<f32> }
// @group(0) @binding(9) var<storage, read> x: array<i32>;  (a comment is no declaration)
@group(1) @binding(3) var<storage, read> x: array<f32>;
@group(0) @binding(7)
  var<storage, read_write> y: array<f32>;
@group(2) @binding(0) var<uniform> p: Params;
override SCALE: f32;
override unused: u32 = 3u;
@compute @workgroup_size(64) fn go(@builtin(global_invocation_id) i: vec3u) {
  if (i.x < p.n) {
    y[p.y_offset + i.x] = SCALE * p.factor * x[p.x_offset + i.x] + p.shift.x + p.shift.y;
  }
}
@compute @workgroup_size(8, 8) fn other() { _ = unused; }
"""
DOUBLE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(32) fn main(@builtin(global_invocation_id) i: vec3u) {
  if (i.x < arrayLength(&y)) { y[i.x] = 2.0 * x[i.x]; }
}
"""


def scale() -> Any:
    return pk.raw_kernel(SCALE, "go", constants={"SCALE": 2})


@gpu
def test_views_at_any_offset(dev: pk.Device) -> None:
    """The struct gets the index of each first element; the rest of the tensors stays."""
    kernel, rng = scale(), np.random.default_rng(0)
    data = rng.integers(-9, 9, 1000).astype(np.float32)
    for first, second, n in ((0, 0, 1000), (3, 7, 497), (64, 1, 900), (999, 0, 1)):
        x, y = dev.tensor(data), dev.full(1000, 5.0)
        out = y[second : second + n]
        found = kernel(x=x[first : first + n], y=out, n=n, factor=3.0, shift=(1, np.float32(2)))
        want = np.full(1000, 5.0, np.float32)
        want[second : second + n] = 6 * data[first : first + n] + 3
        assert found is out
        assert np.array_equal(y.numpy(), want), (first, second, n)


@gpu
def test_inputs_in_the_memory_of_outputs(dev: pk.Device) -> None:
    """As for all kernels, an input is what it was before the call."""
    data = np.arange(600, dtype=np.float32)
    for source, target in ((0, 0), (0, 1), (1, 0), (0, 256), (300, 0)):
        t = dev.tensor(data)
        x, y = t[source : source + 300], t[target : target + 300]
        scale()(x=x, y=y, n=300, factor=1.0, shift=(0, 0))
        want = data.copy()
        want[target : target + 300] = 2 * data[source : source + 300]
        assert np.array_equal(t.numpy(), want), (source, target)


@gpu
def test_a_text_without_a_workgroup_size(dev: pk.Device) -> None:
    kernel = pk.raw_kernel(DOUBLE.replace("@workgroup_size(32)", ""))
    assert kernel.workgroup == (0, 1, 1)
    with pytest.raises(pk.ArgumentError, match="grid must be given"):
        kernel(dev.zeros(4), dev.zeros(4))
    with pytest.raises(pk.ShaderError):
        kernel(dev.zeros(4), dev.zeros(4), grid=1)


@gpu
def test_grids_and_arrays(dev: pk.Device) -> None:
    double = pk.raw_kernel(DOUBLE, name="double")
    x = np.arange(100, dtype=np.float32)
    grids: tuple[Any, ...] = (None, 4, (4, 1), np.int64(4), lambda y, **_: -(-y.size // 32))
    for grid in grids:
        y = dev.zeros(100)
        assert np.array_equal(double(x, y, grid=grid).numpy(), 2 * x)
    y = dev.zeros(100)
    assert np.array_equal(double(x, y=y, grid=2).numpy()[:64], 2 * x[:64])
    assert not y.numpy()[64:].any()
    assert not double(x, dev.zeros(100), grid=0).numpy().any()


IDS = """
@group(0) @binding(0) var<storage, read_write> y: array<T>;
@group(0) @binding(1) var<uniform> size: vec3u;
@compute @workgroup_size(WG) fn main(@builtin(global_invocation_id) i: vec3u) {
  if (any(i >= size)) { return; }
  y[(i.z * size.y + i.y) * size.x + i.x] += T(1u + i.x + 100u * i.y + 10000u * i.z);
}"""


def ids(workgroup: str, dtype: str = "u32") -> Any:
    return pk.raw_kernel(IDS.replace("WG", workgroup).replace("T(", f"{dtype}(").replace(
        "array<T>", f"array<{dtype}>"), name="ids")  # fmt: skip


def numbers(shape: tuple[int, int, int]) -> Any:
    z, y, x = np.indices(shape)
    return (1 + x + 100 * y + 10000 * z).astype(np.uint32)


@gpu
def test_grids_of_three_axes(dev: pk.Device) -> None:
    """Given, computed, and one invocation for each element of the output."""
    want = numbers((5, 7, 9))
    for workgroup, grid in (
        ("4, 2, 2", None), ("4, 2, 2", (3, 4, 3)), ("1, 1, 64", (9, 7, 1)),
        ("4, 2, 2", lambda size, **_: [-(-size[0] // 4), -(-size[1] // 2), -(-size[2] // 2)]),
    ):  # fmt: skip
        y = dev.zeros((5, 7, 9), "uint32")
        assert np.array_equal(ids(workgroup)(y, size=(9, 7, 5), grid=grid).numpy(), want)
    y = dev.zeros((7, 9), "uint32")
    assert np.array_equal(ids("8, 4")(y, size=(9, 7, 1)).numpy(), want[0])
    y = dev.zeros(63, "uint32")
    assert np.array_equal(ids("16")(y, size=(63, 1, 1)).numpy(), np.arange(1, 64))
    vectors = ids("8, 4", "vec4u")
    for shape in ((7, 9, 4), (7, 36)):  # a vector is an axis of its own, or a part of the last
        found = vectors(dev.zeros(shape, "uint32"), size=(9, 7, 1)).numpy().reshape(7, 9, 4)
        assert np.array_equal(found, np.repeat(want[0, ..., None], 4, 2))
    y = dev.zeros((5, 7, 9), "uint32")
    with dev.capture() as program:
        ids("4, 2, 2")(y, size=(9, 7, 5))
    program()
    program()
    assert np.array_equal(y.numpy(), 2 * want)
    cut = dev.zeros((5, 7, 9), "uint32")
    ids("4, 2, 2")(cut, size=(9, 7, 5), grid=(3, 4, 1))
    assert np.array_equal(cut.numpy()[:2], want[:2]) and not cut.numpy()[2:].any()


@gpu
def test_grids_that_no_output_gives(dev: pk.Device) -> None:
    for workgroup, shape, dtype in (
        ("8, 4", (63,), "u32"), ("8, 4", (5, 7, 9), "u32"), ("4, 2, 2", (7, 9), "u32"),
        ("8, 4", (7, 6, 6), "vec4u"), ("8, 4", (4,), "vec4u"),
    ):  # fmt: skip
        with pytest.raises(pk.ArgumentError, match=r"grid must be given: .*y has the shape"):
            ids(workgroup, dtype)(dev.zeros(shape, "uint32"), size=(1, 1, 1))
    with pytest.raises(pk.LimitError, match="65536 workgroups of 1, more than the 65535"):
        ids("1, 2")(dev.zeros((2, 65536), "uint32"), size=(1, 1, 1))


@gpu
def test_vectors_structs_atomics_and_two_outputs(dev: pk.Device) -> None:
    kernel = pk.raw_kernel("""
    struct Pair { index: u32, value: f32 }
    alias Pairs = array<Pair>;
    const TWO = 2u;
    @group(0) @binding(0) var<storage, read> v: array<vec4f>;
    @group(0) @binding(1) var<storage, read_write> pairs: Pairs;
    @group(0) @binding(2) var<storage, read_write> count: array<atomic<u32>, TWO>;
    @group(0) @binding(3) var<uniform> least: f32;
    @compute @workgroup_size(16) fn main(@builtin(global_invocation_id) i: vec3u) {
      if (i.x >= arrayLength(&v)) { return; }
      let s = dot(v[i.x], vec4f(1.0));
      pairs[i.x] = Pair(i.x, s);
      if (s >= least) { atomicAdd(&count[1], 1u); }
    }""")
    data = np.arange(40, dtype=np.float32).reshape(10, 4)
    pairs, count = kernel(
        v=dev.tensor(data), pairs=dev.zeros((10, 2), "uint32"), count=dev.zeros(2, "uint32"),
        least=70,
    )  # fmt: skip
    assert np.array_equal(pairs.numpy()[:, 1].view(np.float32), data.sum(1))
    assert np.array_equal(pairs.numpy()[:, 0], np.arange(10))
    assert count.numpy().tolist() == [0, int((data.sum(1) >= 70).sum())]
    assert kernel.inputs == ("v",) and kernel.outputs == ("pairs", "count")
    assert kernel.numbers == ("least",) and kernel.workgroup == (16, 1, 1)
    assert "least: f32" in repr(kernel)


SHARED = """
struct Params { x_offset: u32, mask_offset: u32, y_offset: u32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> mask: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> p: Params;
@group(1) @binding(0) var picture: texture_2d<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3u) {
  if (i.x < p.n) { y[p.y_offset + i.x] = x[p.x_offset + i.x]; }
}
@compute @workgroup_size(64) fn masked(@builtin(global_invocation_id) i: vec3u) {
  if (i.x < p.n) { y[p.y_offset + i.x] = mask[p.mask_offset + i.x] * x[p.x_offset + i.x]; }
}
@compute @workgroup_size(64) fn drawn(@builtin(global_invocation_id) i: vec3u) {
  y[p.y_offset + mask_of(i.x)] = textureLoad(picture, i.xy, 0).x;
}
fn mask_of(i: u32) -> u32 { return u32(mask[i]); }
"""


@gpu
def test_entry_points_of_one_text(dev: pk.Device) -> None:
    """They share a struct and its offsets; what only another one binds takes no number from it."""
    plain, masked = pk.raw_kernel(SHARED), pk.raw_kernel(SHARED, "masked")
    assert plain.inputs == ("x",) and masked.inputs == ("x", "mask")
    assert plain.numbers == masked.numbers == ("n",)
    data = np.arange(200, dtype=np.float32)
    x, mask, y = dev.tensor(data), dev.tensor(data % 2), dev.zeros(200)
    plain(x[3:53], y[1:51], n=50)
    masked(x[3:53], mask[70:120], y[101:151], n=50)
    want = np.zeros(200, np.float32)
    want[1:51], want[101:151] = data[3:53], data[3:53] * (data[70:120] % 2)
    assert np.array_equal(y.numpy(), want)
    t = dev.tensor(data)
    masked(t[:50], mask[:50], t[20:70], n=50)  # all of it bound for writing
    data[20:70] = data[:50] * (data[:50] % 2)
    assert np.array_equal(t.numpy(), data)


def test_a_text_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "copy.wgsl"
    path.write_text(SHARED, encoding="utf-8")
    assert pk.raw_kernel(path).wgsl == SHARED
    assert [pk.raw_kernel(path, e).name for e in ("main", "masked")] == ["copy", "copy.masked"]
    assert pk.raw_kernel(path, "masked", name="mine").__name__ == "mine"
    with pytest.raises(FileNotFoundError):
        pk.raw_kernel(tmp_path / "gone.wgsl")


@gpu
def test_a_call_like_all_others(dev: pk.Device) -> None:
    """Captured, profiled, beside other kernels, from threads, and refused by tapes."""
    double = pk.raw_kernel(DOUBLE, name="double")
    x, y = dev.ones(100), dev.empty(100)
    with dev.capture() as program:
        double(x, y)
        z = pk.add(y, 1.0)
    x[...] = 4.0
    program()
    assert np.array_equal(z.numpy(), np.full(100, 9.0))
    found: list[Any] = []

    def work(n: int) -> None:
        found.append(double(dev.full(100, n), dev.empty(100)).numpy()[0] == 2 * n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 8
    with pytest.raises(pk.TapeError, match="double"), pk.Tape() as tape:
        w = dev.ones(100)
        tape.watch(w)
        tape.gradient(pk.sum(double(w, dev.empty(100))), [w])


@gpu
def test_wrong_texts_and_calls_of_the_compiler(dev: pk.Device) -> None:
    broken = pk.raw_kernel(DOUBLE.replace("2.0 *", "2u *"))
    x, y = dev.ones(4), dev.zeros(4)
    with pytest.raises(pk.ShaderError):
        broken(x, y)
    read_only = pk.raw_kernel(DOUBLE.replace("y[i.x] = 2.0 * x[i.x]", "y[i.x] = 2.0; x[i.x] = 1.0"))
    with pytest.raises(pk.ShaderError):
        read_only(x, y)
    assert not y.numpy().any()
    assert np.array_equal(pk.raw_kernel(DOUBLE)(x, y).numpy(), [2, 2, 2, 2])  # the device goes on


HEAD = DOUBLE.partition("@compute")[0]
MAIN = "@compute @workgroup_size(32) fn main() { y[0] = x[0]; }"
TEXTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no entry point": (DOUBLE, {"entry": "blur"}, "there are main"),
    "no compute": ("fn main() {}", {}, "there are none"),
    "override without a value": (SCALE, {"entry": "go"}, "SCALE has no value"),
    "unknown constant": (DOUBLE, {"constants": {"N": 1}}, "no override 'N'"),
    "a constant that is no number": (SCALE, {"constants": {"SCALE": "x"}}, "must be a number"),
    "infinite": (SCALE, {"constants": {"SCALE": float("inf")}}, "must be a number"),
    "no output": (
        HEAD + "@compute @workgroup_size(1) fn main() { _ = x[0]; }", {}, "no binding of main",
    ),
    "two uniforms": (
        HEAD + "@group(0) @binding(2) var<uniform> a: f32; @group(0) @binding(3) var<uniform> b: "
        "f32;" + MAIN.replace("x[0]", "a + b + x[0]"), {}, "b",
    ),
    "member of matrices": (
        "struct P { m: mat4x4<f32> }" + HEAD + "@group(0) @binding(2) var<uniform> p: P;"
        + MAIN.replace("x[0]", "p.m[0][0] + x[0]"), {}, "bind it as storage",
    ),
    "offset that is not first": (
        "struct P { n: u32, x_offset: u32 }" + HEAD + "@group(0) @binding(2) var<uniform> p: P;"
        + MAIN.replace("x[0]", "x[p.x_offset + p.n]"), {}, "must stand before",
    ),
    "offset that is no u32": (
        "struct P { x_offset: f32 }" + HEAD + "@group(0) @binding(2) var<uniform> p: P;"
        + MAIN.replace("x[0]", "x[u32(p.x_offset)]"), {}, "must be a u32",
    ),
    "member with the name of a binding": (
        "struct P { x: f32 }" + HEAD + "@group(0) @binding(2) var<uniform> p: P;"
        + MAIN.replace("x[0]", "p.x + x[0]"), {}, "x is a member and a binding",
    ),
    "member that calls cannot name": (
        "struct P { grid: f32 }" + HEAD + "@group(0) @binding(2) var<uniform> p: P;"
        + MAIN.replace("x[0]", "p.grid + x[0]"), {}, "grid is a member and an argument",
    ),
    "entry that is no text": (DOUBLE, {"entry": None}, "entry must be a str but is NoneType"),
    "name that is no text": (DOUBLE, {"name": 5}, "name must be a str but is int"),
    "constants without names": (DOUBLE, {"constants": [1]}, "constants must be values by name"),
    "name of a file": ("blur.wgsl", {}, r"pass Path\('blur.wgsl'\) for the file"),
}  # fmt: skip


@pytest.mark.parametrize("what", TEXTS)
def test_texts_that_no_launch_serves(what: str) -> None:
    text, options, words = TEXTS[what]
    with pytest.raises(pk.ArgumentError, match=words):
        pk.raw_kernel(text, **options)


def test_a_struct_that_is_too_large() -> None:
    members = ", ".join(f"m{i}: vec4f" for i in range(17))
    text = (
        f"struct P {{ {members} }}" + HEAD + "@group(0) @binding(2) var<uniform> p: P;"
        + MAIN.replace("x[0]", "p.m0.x + x[0]")
    )  # fmt: skip
    with pytest.raises(pk.LimitError, match="272 bytes"):
        pk.raw_kernel(text)
    with pytest.raises(pk.ArgumentError, match="must be a str"):
        pk.raw_kernel(5)  # type: ignore[arg-type]


Call = Callable[[Any, pk.Device, pk.Tensor, pk.Tensor], object]
CALLS: dict[str, tuple[Call, type[Exception], str]] = {
    "missing": (lambda k, d, x, y: k(y, n=1, factor=1, shift=(0, 0)), pk.ArgumentError, "x is mi"),
    "missing number": (lambda k, d, x, y: k(y, x, n=1, shift=(0, 0)), pk.ArgumentError, "factor"),
    "unknown": (lambda k, d, x, y: k(y, x, m=1), pk.ArgumentError, "no 'm'; it has y, x, n"),
    "offset given": (lambda k, d, x, y: k(y, x, x_offset=1), pk.ArgumentError, "no 'x_offset'"),
    "twice": (lambda k, d, x, y: k(y, x, y=y), pk.ArgumentError, "given twice"),
    "too many": (lambda k, d, x, y: k(y, x, x), pk.ArgumentError, "3 tensors are given"),
    "dtype": (
        lambda k, d, x, y: k(y, d.zeros(9, "int32"), n=1, factor=1, shift=(0, 0)),
        pk.DTypeError, "x",
    ),
    "dtype of the output": (
        lambda k, d, x, y: k(d.zeros(9, "float16"), x, n=1, factor=1, shift=(0, 0)),
        pk.DTypeError, "y",
    ),
    "array as output": (
        lambda k, d, x, y: k(np.zeros(9, "f4"), x, n=1, factor=1, shift=(0, 0)),
        pk.DTypeError, "y must be a pykernels.Tensor but is numpy.ndarray",
    ),
    "list": (lambda k, d, x, y: k(y, [1.0], n=1, factor=1, shift=(0, 0)), pk.DTypeError, "x must"),
    "None": (lambda k, d, x, y: k(y, None, n=1, factor=1, shift=(0, 0)), pk.ArgumentError, "x is"),
    "strided": (
        lambda k, d, x, y: k(y, x[::2], n=1, factor=1, shift=(0, 0)), pk.ShapeError, "contiguous",
    ),
    "empty": (
        lambda k, d, x, y: k(y, x[:0], n=1, factor=1, shift=(0, 0)), pk.ShapeError, "at least one",
    ),
    "negative": (lambda k, d, x, y: k(y, x, n=-1, factor=1, shift=(0, 0)), pk.ArgumentError, "go"),
    "float for u32": (
        lambda k, d, x, y: k(y, x, n=1.5, factor=1, shift=(0, 0)), pk.ArgumentError, "n must be",
    ),
    "bool": (lambda k, d, x, y: k(y, x, n=True, factor=1, shift=(0, 0)), pk.ArgumentError, "n mu"),
    "text for f32": (
        lambda k, d, x, y: k(y, x, n=1, factor="1", shift=(0, 0)), pk.ArgumentError, "factor",
    ),
    "tensor as number": (
        lambda k, d, x, y: k(y, x, n=y, factor=1, shift=(0, 0)), pk.PyKernelsError, "n",
    ),
    "beyond f32": (
        lambda k, d, x, y: k(y, x, n=1, factor=1e60, shift=(0, 0)), pk.ArgumentError, "go",
    ),
    "short vector": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0,)), pk.ArgumentError, "2 numbers",
    ),
    "number as vector": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=0), pk.ArgumentError, "2 numbers",
    ),
    "grid of text": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0, 0), grid="4"), pk.ArgumentError, "grid",
    ),
    "grid of floats": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0, 0), grid=1.5), pk.ArgumentError, "grid",
    ),
    "grid without axes": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0, 0), grid=()),
        pk.ArgumentError, "grid must be workgroups",
    ),
    "third axis too large": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0, 0), grid=(1, 1, 65536)),
        pk.LimitError, "65535",
    ),
    "grid of a function that gives floats": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0, 0), grid=lambda **_: (1, 0.5)),
        pk.ArgumentError, "grid must be workgroups",
    ),
    "grid of four axes": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0, 0), grid=(1, 1, 1, 1)),
        pk.ArgumentError, "grid",
    ),
    "grid too large": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0, 0), grid=65536), pk.LimitError, "65535",
    ),
    "negative grid": (
        lambda k, d, x, y: k(y, x, n=1, factor=1, shift=(0, 0), grid=-1), pk.LimitError, "65535",
    ),
}  # fmt: skip


@gpu
def test_wrong_calls_leave_everything_as_it_was(dev: pk.Device) -> None:
    kernel = scale()
    x, y = dev.ones(9), dev.full(9, 7.0)
    for what, (call, kind, words) in CALLS.items():
        with pytest.raises(kind, match=words):
            call(kernel, dev, x, y)
            pytest.fail(what)
    assert np.array_equal(y.numpy(), np.full(9, 7.0))


@gpu
def test_places_that_a_device_cannot_bind(dev: pk.Device) -> None:
    """Without an offset in the struct, and where a vector begins within another."""
    if dev.limits["min-storage-buffer-offset-alignment"] <= 4:
        pytest.skip("this device binds anywhere")
    double = pk.raw_kernel(DOUBLE)
    x, y = dev.ones(100), dev.zeros(100)
    with pytest.raises(pk.ArgumentError, match="x_offset: u32"):
        double(x[1:51], y[:50])
    vectors = pk.raw_kernel(DOUBLE.replace("array<f32>", "array<vec4f>"))
    with pytest.raises(pk.ShapeError, match="whole elements of 16 bytes"):
        vectors(x[:10], y[:12])
    with pytest.raises(pk.ShapeError, match="begins within an element"):
        vectors(x[2:6], y[:4])
    fixed = pk.raw_kernel(DOUBLE.replace("x: array<f32>", "x: array<f32, 64>"))
    with pytest.raises(pk.ShapeError, match="64 elements"):
        fixed(x[:63], y)
    assert not y.numpy().any()


def test_halves_need_the_feature() -> None:
    kernel = pk.raw_kernel("enable f16;" + DOUBLE.replace("f32", "f16").replace("2.0", "2.0h"))
    assert kernel._interface.features == ("shader-f16",)
    assert kernel._interface.bindings[0].dtypes == ("float16",)
