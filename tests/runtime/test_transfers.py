"""Arrays in and out: dtypes, odd sizes and offsets, order with launches, empty tensors, views."""

from __future__ import annotations

import asyncio
import contextlib
import os
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.dtypes import DTYPES
from pykernels.runtime import transfers
from pykernels.tensors import views
from tests.runtime._helpers import check_works, open_device, raw_buffer, run_isolated, softmax

pytestmark = pytest.mark.gpu
COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "")
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
    assert dev.tensor([[1.0, 2], [3, 4]]).dtype == "float32"
    assert dev.tensor([True]).dtype == "bool"
    assert dev.tensor(3.0).shape == ()
    assert dev.tensor(dev.tensor([1.0, 2])).numpy().tolist() == [1, 2]
    t = dev.zeros(4, "int64")
    t.write([1, 2, 3, 4])
    assert t.numpy().tolist() == [1, 2, 3, 4]


BAD: list[tuple[Any, type[Exception], str]] = [
    (np.array([object()]), pk.DTypeError, "object"),
    (np.zeros(4, ">f4"), pk.DTypeError, "byte-swapped"),
    (np.array(["a", "b"]), pk.DTypeError, "not one of"),
    ("text", pk.DTypeError, "not one of"),
    (np.zeros(4, ">c8"), pk.DTypeError, "byte-swapped"),
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
    assert bool(t) and not bool(t - 4)


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
    for index in ("a", 1.5, True, *slices, (..., ...)):
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


# -- reads ----------------------------------------------------------------------------------------


def test_out_is_filled_and_returned(dev: pk.Device) -> None:
    a = some(np.random.default_rng(4), (6, 10), "float32")
    t = dev.tensor(a)
    odd = dev.tensor(np.arange(64, dtype="u1"))
    for view, expected in (
        (t, a), (t[1:3], a[1:3]), (t[::-2, 1::3], a[::-2, 1::3]), (t.T, a.T), (t[2, 3], a[2, 3]),
        (t[3:3], a[3:3]), (t[:, :1].broadcast_to((6, 7)), np.repeat(a[:, :1], 7, 1)),
        (odd[3:58], np.arange(3, 58)), (odd[61:2:-7], np.arange(61, 2, -7)),
    ):  # fmt: skip
        out = np.full((3, *view.shape), 111, view.dtype)
        into = out[1:2].reshape(view.shape)
        assert view.numpy(into) is into
        np.testing.assert_array_equal(into, expected)
        assert (out[::2] == 111).all()
    assert t.numpy(out=np.empty((6, 10), "f4").view(np.matrix)).tolist() == a.tolist()


def test_unusable_outs(dev: pk.Device) -> None:
    t = dev.zeros((4, 6))
    read_only = np.ones((4, 6), "f4")
    read_only.flags.writeable = False
    cases: list[tuple[Any, type[Exception], str]] = [
        ([[0.0] * 6] * 4, pk.DTypeError, "must be a numpy array but is list"),
        (np.ones((4, 6)), pk.DTypeError, "must be float32 but is float64"),
        (np.ones((4, 6), ">f4"), pk.DTypeError, "must be float32 but is >f4"),
        (np.ones((6, 4), "f4"), pk.ShapeError, r"must have shape \(4, 6\)"),
        (np.ones((6, 4), "f4").T, pk.ArgumentError, "contiguous"),
        (np.ones((4, 12), "f4")[:, ::2], pk.ArgumentError, "contiguous"),
        (read_only, pk.ArgumentError, "writable"),
    ]
    pk.softmax(t)  # recorded
    submits = dev.submits
    for out, error, words in cases:
        with pytest.raises(error, match=words):
            t.numpy(out)
        with pytest.raises(error, match=words):
            asyncio.run(awaited(t, out))
        assert np.asarray(out).max() <= 1
    assert dev.submits == submits  # nothing before the check
    assert (t.numpy() == 0).all()


def test_reads_in_chunks(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (transfers, views):
        monkeypatch.setattr(module, "READ_CHUNK", 64)
    a = np.arange(1000, dtype="u1").astype("u1")
    t = dev.tensor(a)
    for view, expected in (
        (t, a),
        (t[3:501], a[3:501]),
        (t[::2], a[::2]),
        (t[997:6:-9], a[997:6:-9]),
    ):
        np.testing.assert_array_equal(view.numpy(), expected)
        np.testing.assert_array_equal(asyncio.run(awaited(view)), expected)


def test_staging_buffers_are_used_again_and_bounded(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    t, moves = dev.zeros(100_000), dev._context.transfers
    moves.close()
    t.numpy(), t[0].numpy()
    created = 0
    create = type(dev._context.pool.buffers).create

    def counted(*args: Any) -> Any:
        nonlocal created
        created += 1
        return create(*args)

    monkeypatch.setattr(type(dev._context.pool.buffers), "create", counted)
    for _ in range(5):
        t.numpy(), t[0].numpy()
    assert created == 0
    monkeypatch.setattr(transfers, "KEPT", 1 << 20)
    for n in (300_000, 400_000):  # not kept
        dev.zeros(n).numpy()
    assert sum(kept.size for kept in moves._free) <= 1 << 20


def test_large_writes_go_through_kept_staging_buffers(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order with launches, at any offset of words, with a last word that is not whole; a busy
    buffer is not waited for, and what is kept is bounded."""
    moves, engine = dev._context.transfers, dev._context.engine
    monkeypatch.setattr(transfers, "STAGED_LEAST", 1 << 12)
    monkeypatch.setattr(transfers, "KEPT", 1 << 16)
    moves.close()
    calls: list[int] = []
    write_from = type(engine).write_from

    def counted(self: Any, *args: Any) -> bool:
        calls.append(args[-1].nbytes)
        return write_from(self, *args)

    monkeypatch.setattr(type(engine), "write_from", counted)
    rng = np.random.default_rng(0)
    t = dev.zeros(30_001, "uint8")
    for n in (4096, 30_001, 9000, 30_001, 4097):
        a = rng.integers(0, 255, n).astype("u1")
        t[:n].write(a)
        dev.sync()
        np.testing.assert_array_equal(t.numpy()[:n], a)
    assert calls and all(n % 4 == 0 for n in calls)
    x, y = dev.zeros(3000), dev.zeros(3000)
    for k in range(6):  # the launch sees what was written before it
        x.write(np.full(3000, k, "f4"))
        pk.add(x, y, out=y)
    assert (y.numpy() == 15).all()
    monkeypatch.setattr(type(engine.signals), "done", lambda *_: False)
    few = len(calls)
    x.write(np.full(3000, 9, "f4"))
    assert len(calls) == few  # none is mapped: the engine's own way
    monkeypatch.undo()
    assert (x.numpy() == 9).all()
    assert sum(kept.size for kept in moves._writers) <= 1 << 16


@pytest.mark.parametrize("n", (1000, 1 << 18, transfers.STAGED_LEAST // 4))
def test_arrays_are_copied_once_each_way(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """The engine gets the memory of the caller's array, and the mapped memory is copied to the
    array that the caller gets; staging memory of the next read is that of the last."""
    engine, moves = type(dev._context.engine), dev._context.transfers
    written, taken = [], []
    for name in ("write", "write_from"):
        own = getattr(engine, name)

        def write(self: Any, *args: Any, own: Any = own) -> Any:
            if args[-1].nbytes == 4 * n:  # not of params
                written.append(place(args[-1]))
            return own(self, *args)

        monkeypatch.setattr(engine, name, write)
    copied = views.copy_bytes

    def copy(target: memoryview, *args: Any) -> None:
        taken.append(place(target))
        copied(target, *args)

    monkeypatch.setattr(views, "copy_bytes", copy)
    x = np.arange(n, dtype=np.float32)
    kept: list[int] = []
    for _ in range(3):
        got = (dev.tensor(x) + 1).numpy()
        assert written == [place(x)] * len(written) and 1 <= len(written) <= 2
        assert taken == [place(got)] and got[-1] == n
        kept.append(len(moves._all))
        written.clear()
        taken.clear()
    assert kept[1] == kept[2]


def place(data: Any) -> int:
    """Where an array or a buffer begins."""
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])


def test_a_device_closes_beside_mapped_staging_buffers() -> None:
    dev = open_device()
    x = dev.zeros(transfers.STAGED_LEAST // 4)
    for k in range(3):
        x.write(np.full(x.shape, k, "f4"))
        assert x[-1].item() == k
    assert dev._context.transfers._writers
    dev.close()


def test_threads_read_at_once_while_another_records() -> None:
    dev = open_device()
    slow, tensors = dev.rand((128, 128), seed=0), [dev.full(1000, i) for i in range(4)]
    errors: list[BaseException] = []

    def read(i: int) -> None:
        try:
            for _ in range(20):
                assert (tensors[i].numpy() == i).all()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    out = dev.empty((128, 128))
    for _ in range(40):
        pk.kernels.mul_mat(slow, slow, out)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not errors


def busy(dev: pk.Device) -> pk.Tensor:
    """A launch that has just begun, and takes long, on a tensor."""
    a, out = dev.rand((256, 512), seed=0), dev.empty((256, 256))
    pk.kernels.mul_mat(a, a, out)
    out.numpy()  # compiled
    for _ in range(4):
        pk.kernels.mul_mat(a, a, out)
    return out


# Lavapipe runs a submit to its end before it takes the next one, inside the call.
BLOCKS = pytest.mark.skipif("lavapipe" in COLUMN, reason="this driver waits inside a submit")


@BLOCKS
def test_no_wait_holds_the_lock() -> None:
    dev = open_device()
    out, other = busy(dev), dev.zeros(16)
    dev.flush()
    for wait in (out.numpy, dev.sync):
        thread = threading.Thread(target=wait)
        began = time.perf_counter()
        thread.start()
        longest = 0.0
        while thread.is_alive():
            t = time.perf_counter()
            with dev._context.lock:
                pk.kernels.fill(other, 1)
            longest = max(longest, time.perf_counter() - t)
            time.sleep(0.001)
        whole = time.perf_counter() - began
        thread.join()
        assert longest < whole / 2  # milliseconds of half a second and more
        busy_again = busy(dev)
    assert busy_again.shape == (256, 256)


async def awaited(t: pk.Tensor, out: Array | None = None) -> Array:
    return await t.numpy_async(out)


def test_numpy_async(dev: pk.Device) -> None:
    a = np.arange(4096, dtype="f4")
    t, out = dev.tensor(a), np.empty(4096, "f4")

    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticker = asyncio.create_task(tick())
        first = t.numpy_async(out)
        t.write(np.zeros(4096, "f4"))  # after the copy
        pk.kernels.fill(t, 5)
        strided = t[::-3].numpy_async()
        pk.kernels.fill(t, 6)
        whole, part, empty = await asyncio.gather(first, strided, t[:0].numpy_async())
        assert whole is out and empty.shape == (0,)
        np.testing.assert_array_equal(whole, a)
        assert (part == 5).all() and ticks > 0
        ticker.cancel()
        for ticks_before in (0, 1):
            cancelled = asyncio.create_task(awaited(t))
            for _ in range(ticks_before):
                await asyncio.sleep(0)
            cancelled.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await cancelled

    asyncio.run(main())
    assert (t.numpy() == 6).all()
    check_works(dev)


def test_numpy_async_raises_what_numpy_does(dev: pk.Device) -> None:
    rows, out = dev.zeros((4, 4)), dev.empty((2, 4))
    pk.kernels.get_rows(rows, dev.tensor(np.array([1, 9], "i4")), out)
    with pytest.raises(pk.IndexRangeError, match="is 9"):
        asyncio.run(awaited(out))
    asyncio.run(awaited(out))


def test_numpy_later(dev: pk.Device) -> None:
    """Values are those at the time of the call; results come in any order, and repeatedly."""
    a = np.arange(4096, dtype="f4")
    t, out = dev.tensor(a), np.empty(4096, "f4")
    first = t.numpy_later(out)
    t.write(np.zeros(4096, "f4"))
    pk.kernels.fill(t, 5)
    strided = t[::-3].numpy_later()
    pk.kernels.fill(t, 6)
    empty, left = t[:0].numpy_later(), t.numpy_later()
    assert (strided.result() == 5).all() and empty.result().shape == (0,)
    assert first.result() is out and first.result() is out
    np.testing.assert_array_equal(out, a)
    del left  # a result that nobody asks for
    with pytest.raises(pk.ShapeError, match="out must have shape"):
        t.numpy_later(out[:1])
    many = [t.numpy_later() for _ in range(20)]
    with ThreadPoolExecutor(4) as pool:
        assert all((x == 6).all() for x in pool.map(lambda read: read.result(), many * 2))
    check_works(dev)


def test_numpy_later_raises_what_numpy_does(dev: pk.Device) -> None:
    rows, out = dev.zeros((4, 4)), dev.empty((2, 4))
    pk.kernels.get_rows(rows, dev.tensor(np.array([1, 9], "i4")), out)
    read = out.numpy_later()
    for _ in range(2):
        with pytest.raises(pk.IndexRangeError, match="is 9"):
            read.result()
    out.numpy_later().result()


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param("out.numpy()", marks=BLOCKS),
        pytest.param("out.numpy_later().result()", marks=BLOCKS),
        "dev.sync()",
        pytest.param("asyncio.run(read(out))", marks=BLOCKS),
    ],
)
def test_ctrl_c_comes_through_a_wait(wait: str) -> None:
    code = f"""
        import asyncio, os, signal, threading, time
        import numpy as np
        import pykernels as pk
        from tests.runtime._helpers import check_works, open_device
        from tests.runtime.test_transfers import awaited as read, busy
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
        dev = open_device()
        late = []
        for _ in range(3):
            out = busy(dev)
            sent = []
            def send():
                time.sleep(0.02)
                sent.append(time.perf_counter())
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=send).start()
            try:
                {wait}
                time.sleep(1)
            except KeyboardInterrupt:
                late.append(time.perf_counter() - sent[0])
            assert np.isfinite(out.numpy()).all()
            check_works(dev)
        print(min(late))
        """
    done = run_isolated(textwrap.dedent(code))
    assert done.stderr == ""
    assert float(done.stdout) < 0.2  # milliseconds; what it waits for takes half a second


def test_the_host_copies_each_byte_once_each_way(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the caller's array into the engine's memory, and from mapped memory into the result: no
    array lies between, as many bytes as the tensor has."""
    x = np.random.default_rng(0).random((1024, 1024), np.float32)
    engine, moved = dev._context.engine, list[tuple[str, int, int]]()
    write, copy = engine.write, transfers.copy_bytes

    def place(data: Any) -> int:
        return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])

    def written(device: Any, buffer: Any, offset: int, data: memoryview) -> None:
        if data.nbytes > 1 << 16:  # not params
            moved.append(("write", place(data), data.nbytes))
        write(device, buffer, offset, data)

    def copied(target: memoryview, skip: int, at: int, data: memoryview) -> None:
        moved.append(("read", place(target), len(data)))
        copy(target, skip, at, data)

    monkeypatch.setattr(engine, "write", written, raising=False)
    monkeypatch.setattr(views, "copy_bytes", copied)
    for given in (dev.tensor(x), dev.empty(x.shape)):
        if not moved:
            given.write(x)
        (name, at, nbytes), *more = moved
        assert (name, at, nbytes, more) == ("write", x.ctypes.data, x.nbytes, [])
        moved.clear()
        got = given.numpy()
        [(name, at, nbytes)] = moved
        assert (name, at, nbytes) == ("read", got.ctypes.data, x.nbytes)
        assert np.array_equal(got, x)
        moved.clear()
    if dev is pk.default_device():  # functions of arrays do the same
        got = pk.relu(x)
        assert isinstance(got, np.ndarray)
        assert moved == [("write", x.ctypes.data, x.nbytes), ("read", got.ctypes.data, x.nbytes)]
