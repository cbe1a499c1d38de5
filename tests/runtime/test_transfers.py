"""Arrays in and out: dtypes, odd sizes and offsets, order with launches, empty tensors, views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from tests.runtime._helpers import check_works, raw_buffer, softmax

pytestmark = pytest.mark.gpu
NAMES = [n for n in DTYPES if n != "bfloat16"]
Array = np.ndarray[Any, Any]


def some(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", NAMES)
def test_upload_and_read(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(1)
    base = some(rng, (7, 10), dtype)
    odd = (base[0, 0], base[:0], base[::-2, 1::3], base.T, np.asfortranarray(base), base[:1, :3])
    for a in (base, *odd):
        t = dev.tensor(a)
        assert (t.shape, t.dtype) == (a.shape, dtype)
        np.testing.assert_array_equal(t.numpy(), a, strict=True)
        t.write(np.zeros_like(a))
        t.write(a)
        np.testing.assert_array_equal(np.asarray(t), a, strict=True)
        exported = np.from_dlpack(t)
        np.testing.assert_array_equal(exported, a, strict=True)
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="copy"):
        t.__dlpack__(copy=False)
    with pytest.raises(ValueError, match="copy"):
        np.array(t, copy=False)


def test_bfloat16(dev: pk.Device) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.arange(9).astype(ml_dtypes.bfloat16)
    t = dev.tensor(a)
    t[1:4].write(a[5:8])
    assert t.dtype == "bfloat16"
    assert t.numpy().tolist() == [0, 5, 6, 7, 4, 5, 6, 7, 8]
    assert t[1].item() == 5


def test_python_values(dev: pk.Device) -> None:
    assert dev.tensor([[1, 2], [3, 4]]).dtype == "int64"
    assert dev.tensor([True]).dtype == "bool"
    assert dev.tensor(3).shape == ()
    assert dev.tensor(dev.tensor([1, 2])).numpy().tolist() == [1, 2]
    t = dev.zeros(4, "int64")
    t.write([1, 2, 3, 4])
    assert t.numpy().tolist() == [1, 2, 3, 4]


BAD: list[tuple[Any, type[Exception], str]] = [
    (np.zeros(4), pk.DTypeError, "astype"),
    ([1.0, 2.0], pk.DTypeError, "float64"),
    (np.array([object()]), pk.DTypeError, "object"),
    (np.zeros(4, ">f4"), pk.DTypeError, "byte-swapped"),
    (np.array(["a", "b"]), pk.DTypeError, "not one of"),
    ("text", pk.DTypeError, "not one of"),
    (np.zeros(4, "c8"), pk.DTypeError, "complex64"),
    (np.zeros(4, "M8[s]"), pk.DTypeError, "datetime64"),
    (np.zeros(4, [("a", "f4")]), pk.DTypeError, "not one of"),
    ([[1], [2, 3]], pk.ArgumentError, "numpy makes no array"),
    (None, pk.DTypeError, "object"),
    ({}, pk.DTypeError, "object"),
]


@pytest.mark.parametrize(("value", "error", "words"), BAD)
def test_unusable_arrays(dev: pk.Device, value: object, error: type[Exception], words: str) -> None:
    t = dev.tensor(np.arange(4, dtype="f4"))
    with pytest.raises(error, match=words):
        dev.tensor(value)
    with pytest.raises((error, pk.ShapeError)):
        t.write(value)
    assert t.numpy().tolist() == [0, 1, 2, 3]
    check_works(dev)


def test_writes_of_another_shape_or_dtype(dev: pk.Device) -> None:
    t = dev.tensor(np.arange(4, dtype="f4"))
    for a in (np.zeros(3, "f4"), np.zeros((1, 4), "f4"), np.float32(1)):
        with pytest.raises(pk.ShapeError, match="array must have shape"):
            t.write(a)
    with pytest.raises(pk.DTypeError, match="must be float32"):
        t.write(np.zeros(4, "i4"))
    with pytest.raises(pk.AliasError):
        t[:1].broadcast_to((3,)).write(np.zeros(3, "f4"))
    assert t.numpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int16"])
def test_odd_writes_preserve_neighbours(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(2)
    a = some(rng, (61,), dtype)
    t = dev.tensor(a)
    for _ in range(25):
        first, last = sorted(rng.integers(0, 62, 2))
        part = some(rng, (last - first,), dtype)
        t[first:last].write(part)
        a[first:last] = part
        if rng.integers(3) == 0:
            np.testing.assert_array_equal(t[first : last + 3].numpy(), a[first : last + 3])
    np.testing.assert_array_equal(t.numpy(), a)


def test_a_launch_sees_what_was_there_before_a_later_write(dev: pk.Device) -> None:
    a, b = np.ones((4, 16), "f4"), np.full((4, 16), 7, "f4")
    raw = dev.wgpu_device
    foreign = pk.Tensor.from_buffer(raw_buffer(raw), (4, 16), "float32", device=dev)
    for x in (dev.tensor(a), foreign, dev.zeros((5, 16))[1:]):
        x.write(a)
        y = dev.empty(x.shape)
        with dev.batch():
            pk.kernels.cpy(x, y)
            x.write(b)  # the recorded copy must see ones
            z = x.copy()
            assert (y.numpy() == 1).all()  # a read in the middle of a batch
            x[:, 1::2].write(a[:, 1::2])
            w = x.copy()
        assert (z.numpy() == 7).all()
        assert w.numpy().tolist() == [[7, 1] * 8] * 4


def test_a_block_back_from_the_pool_is_not_written_too_early(dev: pk.Device) -> None:
    ones, y = dev.full((4, 16), 1), dev.empty((4, 16))
    dev.sync()
    dev.trim()
    hits = dev.memory_stats().hits
    pk.kernels.cpy(ones, y)  # recorded, not submitted
    del ones
    other = dev.tensor(np.full((4, 16), 9, "f4"))
    assert dev.memory_stats().hits == hits + 1  # the block of `ones`
    assert (y.numpy() == 1).all()
    assert (other.numpy() == 9).all()


def test_zero_size_tensors(dev: pk.Device) -> None:
    raw = dev.wgpu_device
    foreign = pk.Tensor.from_buffer(raw_buffer(raw), (0, 3), "float32", device=dev)
    t = dev.tensor(np.ones((4, 6), "f4"))
    for x in (dev.empty((0, 3)), dev.tensor(np.ones((2, 0), "f4")), t[2:2], t[4:, ::2], foreign):
        assert x.numpy().shape == x.copy().numpy().shape == x.shape
        x.write(np.ones(x.shape, "f4"))
        assert pk.softmax(x).numpy().shape == x.shape
        pk.kernels.softmax(x, x)
        pk.kernels.cpy(x, dev.empty(x.shape))
        assert x.astype("int32").shape == x.shape
        assert x.T.reshape(-1).numpy().size == 0
        assert x.reshape(x.shape[::-1]).shape == x.shape[::-1]
    assert (t.numpy() == 1).all()
    with dev.batch():
        pass
    dev.zeros(0).write(np.zeros(0, "f4"))
    check_works(dev)


def test_zero_dimensional_tensors(dev: pk.Device) -> None:
    t = dev.tensor(np.float32(3))
    assert t.item() == 3.0 and t.numpy().shape == () and t.copy().shape == ()
    t.write(np.float32(4))
    pk.kernels.cpy(t, t.copy())
    assert t[...].item() == t[None].numpy()[0] == t.reshape(1, 1).T.item() == 4
    assert t.T.shape == () and t.broadcast_to((2, 2)).numpy().tolist() == [[4, 4], [4, 4]]
    with pytest.raises(pk.ShapeError):
        t[0]
    with pytest.raises(TypeError):
        len(t)
    with pytest.raises(TypeError):
        bool(t)


# -- views ----------------------------------------------------------------------------------------


def random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    items: list[Any] = []
    for n in shape[: rng.integers(0, len(shape) + 1)]:
        kind = rng.integers(4)
        if kind == 0 and n:
            items.append(int(rng.integers(-n, n)))
        elif kind == 1:
            items.append(slice(None))
        else:
            first, last = (int(b) for b in rng.integers(-n - 2, n + 3, 2))
            step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
            items.append(slice(first if rng.integers(3) else None, last, step))
    if rng.integers(3) == 0:
        items.insert(int(rng.integers(len(items) + 1)), None)
    if rng.integers(2) == 0:
        items.append(...)
    return tuple(items)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64"])
def test_views_agree_with_numpy(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(len(dtype))
    for case in range(40):
        shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 5)))
        a = some(rng, shape, dtype)
        t = dev.tensor(a)
        for _ in range(4):
            step = rng.integers(4)
            if step == 0:
                index = random_index(rng, a.shape)
                a, t = a[index], t[index]
            elif step == 1:
                order = tuple(int(n) for n in rng.permutation(a.ndim))
                a, t = a.transpose(order), t.transpose(*(o - a.ndim * (o % 2) for o in order))
            elif step == 2 and a.ndim < 5:
                extra = tuple(int(n) for n in rng.integers(1, 3, rng.integers(0, 2)))
                wide = extra + tuple(3 if n == 1 else n for n in a.shape)
                a, t = np.broadcast_to(a, wide), t.broadcast_to(wide)
            elif a.size:
                factor = int(rng.choice([n for n in range(1, a.size + 1) if a.size % n == 0]))
                a, t = a.reshape(factor, -1), t.reshape(factor, -1)
            assert t.shape == a.shape
            if case % 4 == 0:
                assert (t.size, t.ndim) == (a.size, a.ndim)
        np.testing.assert_array_equal(t.numpy(), a, strict=True)


def test_reshape_makes_a_view_where_numpy_does(dev: pk.Device) -> None:
    rng = np.random.default_rng(3)
    whole, memory = dev.empty(4096), np.empty(4096, "f4")
    for _ in range(300):
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4], rng.integers(1, 5)))
        steps = 4 * np.cumprod([1, *shape[::-1]])[:-1][::-1] * rng.choice([1, 1, 2], len(shape))
        order = rng.permutation(len(shape)) if rng.integers(2) else range(len(shape))
        a = np.lib.stride_tricks.as_strided(memory, shape, steps).transpose(order)
        t = whole._view(a.shape, a.strides, 0)
        new = rng.permutation([a.size // 2, 2] if a.size % 2 == 0 else [a.size, 1])
        got, expected = t.reshape(*new), a.reshape(new)
        assert (got._storage is t._storage) == np.shares_memory(a, expected)
        if got._storage is t._storage:
            pairs = zip(got.strides, expected.strides, new, strict=True)
            assert all(n == 1 or s == e for s, e, n in pairs)


def test_unusable_views(dev: pk.Device) -> None:
    t = dev.zeros((2, 3))
    for index in ((0, 0, 0), (0, ..., 0, 0)):
        with pytest.raises(pk.ShapeError):
            t[index]
    slices = (slice("a", None), slice(0, 1, 0))
    for index in ("a", 1.5, [0, 1], True, np.array([True, False]), *slices, (..., ...)):
        with pytest.raises(pk.ArgumentError):
            t[index]  # type: ignore[index]
    for index in (2, -3, (0, 3)):
        with pytest.raises(IndexError):
            t[index]
    for axes in ((0,), (0, 0), (0, 2), (0, -3), (5, 1)):
        with pytest.raises(pk.ShapeError):
            t.transpose(*axes)
    for shape in ((4,), (-1, -1), (0, -1), (-2, 3), (5, -1)):
        with pytest.raises(pk.ShapeError):
            t.reshape(*shape)
    for wide in ((3,), (4, 3), (2, 6), (), (-1, 3), (2, 3, 1)):
        with pytest.raises(pk.ShapeError):
            t.broadcast_to(wide)
    with pytest.raises(pk.ArgumentError):
        t.reshape(1.5)  # type: ignore[arg-type]
    assert t.transpose((1, 0)).shape == t.T.shape == t.reshape(np.int64(3), 2).shape == (3, 2)
    assert [row.shape for row in t] == [(3,), (3,)]
    assert len(t) == 2 and "float32 (2, 3)" in repr(t) and "strides" in repr(t.T)


def test_results_on_views(dev: pk.Device) -> None:
    x = np.random.default_rng(0).standard_normal((6, 7, 8)).astype("f4")
    t = dev.tensor(x)
    for got, expected in ((t[::2, 1:], x[::2, 1:]), (t.T, x.T), (t[:, 3], x[:, 3])):
        np.testing.assert_allclose(pk.softmax(got).numpy(), softmax(expected), rtol=1e-5)
