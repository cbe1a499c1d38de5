"""Functions composed of views and launches keep what a call did: a call like it computes the same,
other calls run the function."""

from __future__ import annotations

import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench import functions
from pykernels import functional
from pykernels.call import again, traces
from pykernels.runtime.context import Context

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]
# Calls that are not kept: they draw from a state of the device, wait for it, or get numpy arrays.
OTHERS = {"ctc_loss", "histogram"}


def kept(dev: pk.Device) -> int:
    """The number of kept calls."""
    return sum(isinstance(t, traces.Kept) for t in dev._context.traces.values())


def names() -> list[str]:
    """The functions that keep calls."""
    found = []
    for name in functions.public():
        function = getattr(functional, name)
        if inspect.unwrap(function) is not function and "again" in _decorators(function):
            found.append(name)
    return found


def _decorators(function: Any) -> set[str]:
    """The modules of the wrappers of a function."""
    found = set()
    while hasattr(function, "__wrapped__"):
        found.add(function.__code__.co_filename.rpartition("/")[2].removesuffix(".py"))
        function = function.__wrapped__
    return found


def tensors_of(call: Any) -> list[pk.Tensor]:
    """The tensors that a call of the price list takes."""

    def inside(value: Any) -> Iterator[pk.Tensor]:
        if isinstance(value, pk.Tensor):
            yield value
        elif isinstance(value, pk.QTensor):
            yield from (t for t in (value.low, value.scales, value.high) if t is not None)
        elif isinstance(value, functions.Given):
            yield from inside(list(vars(value).values()))
        elif isinstance(value, (list, tuple)):
            for v in value:
                yield from inside(v)

    return list(inside([cell.cell_contents for cell in call.__closure__ or ()]))


def bits(value: Any) -> list[bytes]:
    """The bits of all tensors of a result."""
    if isinstance(value, (tuple, list)):
        return [b for v in value for b in bits(v)]
    if isinstance(value, pk.QTensor):
        return [value.tobytes()]
    return [value.numpy().tobytes()] if isinstance(value, pk.Tensor) else [repr(value).encode()]


@pytest.fixture(scope="module")
def listed(dev: pk.Device) -> dict[str, Callable[[], Any]]:
    return functions.functions(dev)


@pytest.mark.parametrize("name", names())
def test_a_kept_call_computes_the_same(
    dev: pk.Device, listed: dict[str, Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With other numbers in its tensors than the call had that was kept."""
    call = listed[name]
    given = tensors_of(call)
    floats = {id(t._storage): t for t in given if t.dtype == "float32" and t.contiguous}
    before = [t.numpy() for t in given]

    def fill(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for t, was in zip(given, before, strict=True):
            t[...] = was
        for t in floats.values():
            t[...] = rng.random(t.shape, np.float32)

    dev._context.traces.clear()
    for seed in range(2):
        fill(seed)
        call()
    assert (kept(dev) > 0) == (name not in OTHERS), "no call is kept"
    try:
        fill(2)
        with dev.profile() as p:
            got = [*bits(call()), *bits(given)]
        with monkeypatch.context() as m:
            m.setattr(again, "live", {1})
            fill(2)
            with dev.profile() as whole:
                want = [*bits(call()), *bits(given)]
        assert got == want
        assert [r.label for r in p.records] == [r.label for r in whole.records]
    finally:
        for t, was in zip(given, before, strict=True):
            t[...] = was


def test_arguments_that_are_equal_but_of_another_type(dev: pk.Device) -> None:
    x = dev.rand((2, 3), seed=0)
    for _ in range(3):
        assert pk.tile(x, 2).shape == (2, 6) and pk.tile(x, 1).shape == (2, 3)
        for wrong in (2.0, (2.0, 1), True):
            with pytest.raises(pk.ArgumentError, match="reps"):
                pk.tile(x, wrong)  # type: ignore[arg-type]
        assert type(pk.split(x, [1], 1)) is type(pk.split(x, [1, 2], 1))
        for zero in (0.0, -0.0):
            got = pk.full((2,), zero, device=dev).numpy()
            assert (np.signbit(got) == np.signbit(zero)).all()
        assert pk.full((2,), 1, "int32", device=dev).dtype == "int32"


def test_tensors_that_share_a_buffer(dev: pk.Device) -> None:
    """How they share it is a part of the key: a copy that is needed only then is not left out, and
    views are of the right argument."""
    whole = np.arange(40, dtype=np.float32)
    base = dev.tensor(whole)
    for start in (0, 4, 8, 12, 16, 20):
        x, y = base[start : start + 8], base[12:20]
        want = np.concatenate([whole[start : start + 8], whole[12:20]])
        for _ in range(3):
            assert np.array_equal(pk.concatenate([x, y]).numpy(), want)
            assert np.array_equal(pk.stack([y, y]).numpy(), np.stack([whole[12:20]] * 2))
    for _ in range(4):
        t = dev.tensor(whole)
        pk.copyto(t[10:20], t[0:10])
        assert np.array_equal(t.numpy()[10:20], whole[:10])
        if pk.clip(t, 2.0, 5.0, out=t) is not t:
            raise AssertionError
        assert np.array_equal(t.numpy()[:10], whole[:10].clip(2, 5))
    for _ in range(4):
        t = dev.tensor(whole)
        pk.copyto(t[1:11], t[0:10])
        assert np.array_equal(t.numpy()[1:11], whole[:10])
    result = dev.tensor(whole)
    for shared in (False, True, True, True, False):
        part = result[0:20] if shared else dev.tensor(whole[:20])
        got = pk.concatenate([dev.tensor(whole[20:]), part], out=result)
        assert np.array_equal(got.numpy(), np.concatenate([whole[20:], whole[:20]]))
        result.write(whole)


def test_a_result_is_the_argument_or_its_view(dev: pk.Device) -> None:
    x = dev.rand((2, 3), seed=0)
    for _ in range(4):
        assert pk.stop_gradient(x) is not x and pk.squeeze(x)._storage is x._storage
        assert pk.expand_dims(pk.squeeze(x), 0).shape == (1, 2, 3)
        first, second = pk.split(x, [1], axis=1)
        second[...] = 7.0
        assert first._storage is second._storage is x._storage
        assert (x.numpy()[:, 1:] == 7).all()


def test_kept_calls_hold_no_memory(dev: pk.Device) -> None:
    """Neither of tensors nor of temporaries: a call takes no more buffers than the function."""
    x = dev.rand((1, 16, 64, 64), seed=0)
    inner = inspect.unwrap(pk.local_response_norm)

    def taken(function: Any) -> list[int]:
        gc.collect()
        dev.sync()
        start = dev.memory_stats()
        for _ in range(5):
            result = function(x, 5)
        held = dev.memory_stats().current - start.current
        del result
        gc.collect()
        dev.sync()
        end = dev.memory_stats()
        assert end.current == start.current
        return [held, end.misses - start.misses]

    for function in (inner, pk.local_response_norm):
        taken(function)
    assert taken(pk.local_response_norm) == taken(inner) == [x.nbytes, 0]


def test_a_constant_that_is_gone(dev: pk.Device) -> None:
    x = dev.rand((1, 4, 8, 32), seed=0)
    places, cache = dev.tensor(np.arange(8, dtype=np.int32)), dev.zeros((1, 2, 8, 32))
    want = pk.rope_append(x, places, cache).numpy()
    for _ in range(3):
        pk.rope_append(x, places, cache)
    dev._context.constants.clear()
    gc.collect()
    dev.sync()
    for _ in range(4):
        assert np.array_equal(pk.rope_append(x, places, cache).numpy(), want)


def test_numbers_of_the_host_follow_from_the_arguments(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    for q in (0.1, 0.5, [0.25, 0.75]):
        for _ in range(4):
            x = rng.random((4, 33), np.float32)
            got = pk.quantile(dev.tensor(x), q, axis=1).numpy()
            np.testing.assert_allclose(got, np.quantile(x, q, axis=1), rtol=1e-5)


def test_tapes_see_kept_calls(dev: pk.Device) -> None:
    x = dev.rand((4, 6), seed=0)
    for _ in range(3):
        pk.mse_loss(pk.roll(x, 1, 1), x)
    for _ in range(2):
        with pk.Tape() as tape:
            loss = pk.mse_loss(pk.roll(x, 1, 1), x)
        host = x.numpy()
        step = 2 / host.size * (np.roll(host, 1, 1) - host)
        want = np.roll(step, -1, 1) - step
        np.testing.assert_allclose(tape.gradient(loss, x).numpy(), want, rtol=1e-5, atol=1e-7)


def test_captures_and_autocast(dev: pk.Device) -> None:
    x = dev.rand((4, 6), seed=0)
    for _ in range(3):
        pk.roll(x, 2, 1)
    with dev.capture() as program:
        y = pk.roll(x, 2, 1)
    for seed in range(2):
        x[...] = dev.rand((4, 6), seed=seed)
        program()
        assert np.array_equal(y.numpy(), np.roll(x.numpy(), 2, 1))
    half = x.astype("float16")
    for _ in range(3):
        assert pk.mse_loss(half, half).dtype == "float16"
    with pk.autocast("float16"):
        assert pk.mse_loss(half, half).dtype == "float32"
    assert pk.mse_loss(half, half).dtype == "float16"


def test_a_warning_comes_with_each_call(dev: pk.Device) -> None:
    x, y = dev.rand((3, 1), seed=0), dev.rand((3,), seed=1)
    for _ in range(4):
        with pytest.warns(UserWarning, match="rarely intended"):
            pk.mse_loss(x, y)


def test_indices_out_of_range_are_told(dev: pk.Device) -> None:
    x, dst = dev.rand((2, 4), seed=0), dev.zeros((4, 4))
    for bad in (False, False, True, False, True):
        pk.set_rows(x, dev.tensor(np.array([1, 4 if bad else 2], np.int32)), dst)
        if bad:
            with pytest.raises(pk.IndexRangeError, match="set_rows"):
                dev.sync()
        else:
            dev.sync()


def test_two_devices(dev: pk.Device) -> None:
    other = pk.Device(engine=dev.engine, adapter=dev.info["name"])
    try:
        x, y = dev.rand((2, 4), seed=0), other.rand((2, 4), seed=0)
        for _ in range(4):
            assert pk.concatenate([x, x]).device is dev
            assert pk.concatenate([y, y]).device is other
            assert pk.zeros((3,), device=dev).device is dev
            assert pk.zeros((3,), device=other).device is other
            with pytest.raises(pk.BufferStateError, match="two devices"):
                pk.concatenate([x, y])
    finally:
        other.close()
    with pytest.raises(pk.DeviceLostError):
        pk.concatenate([y, y])


def test_an_error_is_not_kept(dev: pk.Device) -> None:
    x = dev.rand((2, 4), seed=0)
    for _ in range(4):
        with pytest.raises(pk.ShapeError):
            pk.concatenate([x, x], axis=2)


def test_threads_trace_and_repeat_at_once(dev: pk.Device) -> None:
    failed: list[Exception] = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            for i in range(40):
                a = rng.random((3, 5 + i % 7), np.float32)
                x = dev.tensor(a)
                got = pk.concatenate([pk.roll(x, 2, 1), pk.flip(x, 0)], 1).numpy()
                assert np.array_equal(got, np.concatenate([np.roll(a, 2, 1), a[::-1]], 1))
        except Exception as e:
            failed.append(e)

    dev._context.traces.clear()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed and kept(dev) > 0


def test_a_call_that_comes_once_is_not_traced(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that differ in each call cost one lookup, and the table stays small."""
    monkeypatch.setattr(again, "MAX_TRACES", 16)
    entered: list[object] = []
    enter = Context.enter

    def noted(self: Context, scope: Any) -> None:
        entered.append(scope.what)
        enter(self, scope)

    monkeypatch.setattr(Context, "enter", noted)
    dev._context.traces.clear()
    x = dev.rand((2, 4), seed=0)
    for i in range(40):
        pk.clamp(x, i / 64, 1.0)
    assert not entered and len(dev._context.traces) <= 16
    for _ in range(5):
        pk.clamp(x, 0.5, 1.0)
    assert entered == ["trace"]


def test_other_tables_plan_anew(dev: pk.Device) -> None:
    from pykernels.forcing import force

    x = dev.rand((2, 4), seed=0)
    for _ in range(3):
        pk.roll(x, 1, 1)
    before = [t for t in dev._context.traces.values() if isinstance(t, traces.Kept)]
    with force(dev, tuning="generic-large"):
        got = [pk.roll(x, 1, 1).numpy() for _ in range(3)]
    assert before and all(np.array_equal(g, np.roll(x.numpy(), 1, 1)) for g in got)
