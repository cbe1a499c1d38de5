"""What the tape promises: what it records, when it refuses, and what it leaves alone."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime import observe
from pykernels.runtime.scopes import innermost
from pykernels.tensors.layout import Window
from tests.runtime._helpers import open_device

pytestmark = pytest.mark.gpu

Gradients = list[pk.Tensor]


def of(tape: pk.Tape, loss: pk.Tensor, *sources: pk.Tensor, seed: Any = None) -> list[Any]:
    return [g.numpy() for g in tape.gradient(loss, sources, seed)]


@pytest.fixture
def x(dev: pk.Device) -> pk.Tensor:
    return dev.tensor(np.array([[1, 2, 3], [4, 5, 6]], np.float32))


def test_several_uses_accumulate(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = x * x + x * 3 + x.T[:, ::-1].T[::-1]
    [got] = of(tape, y, x, seed=1.0)
    np.testing.assert_array_equal(got, 2 * x.numpy() + 4)
    assert len(tape) == 4


def test_broadcasts_are_summed_back(dev: pk.Device, x: pk.Tensor) -> None:
    row, column, one = dev.ones(3), dev.ones((2, 1)), dev.ones(())
    with pk.Tape() as tape:
        y = x * row + column.broadcast_to((2, 3)) * one
    got = of(tape, y, row, column, one, seed=1.0)
    for g, want in zip(got, ([5, 7, 9], [[3], [3]], 6), strict=True):
        np.testing.assert_array_equal(g, np.array(want, np.float32))


def test_views_of_all_kinds(dev: pk.Device) -> None:
    a = np.arange(24, dtype=np.float32)
    x = dev.tensor(a)
    with pk.Tape() as tape:
        v = x.reshape(2, 3, 4)
        parts = [v[0], v[1, ::-1], v.transpose(2, 0, 1)[1].T, v[:, 1:2, ::2], v[1, 0, 1:3]]
        y = parts[0] * parts[1]
        z = pk.sum(y) + pk.sum(parts[2] * 5) + pk.sum(parts[3] * parts[3])
        z += pk.sum(pk.exp(parts[4] * 0)) + pk.sum(v.diagonal(0, 1, 2) * 7)
    want = np.zeros((2, 3, 4), np.float32)
    A = a.reshape(2, 3, 4)
    want[0] += A[1, ::-1]
    want[1, ::-1] += A[0]
    want[:, :, 1] += 5
    want[:, 1:2, ::2] += 2 * A[:, 1:2, ::2]
    for i in range(3):
        want[:, i, i] += 7
    [got] = of(tape, z, x)
    np.testing.assert_array_equal(got.reshape(2, 3, 4), want)


def test_writes_into_windows(dev: pk.Device, x: pk.Tensor) -> None:
    """What was written over has no gradient; what was written has its window's."""
    with pk.Tape() as tape:
        y = x * 2
        y[0] = x[1] * 3
        y[:, 0] = 1
        y[1, 1:] += x[0, 1:]
        y[0] *= 3
        y += 1
        z = y * y
    seed = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    a = x.numpy().astype(np.float64)

    def f(a: Any) -> Any:
        y = a * 2
        y[0] = a[1] * 3
        y[:, 0] = 1
        y[1, 1:] += a[0, 1:]
        y[0] *= 3
        return ((y + 1) ** 2 * seed).sum()

    want = np.zeros_like(a)
    for at in np.ndindex(*a.shape):
        up, down = a.copy(), a.copy()
        up[at] += 1e-6
        down[at] -= 1e-6
        want[at] = (f(up) - f(down)) / 2e-6
    [got] = of(tape, z, x, seed=seed)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_result_as_a_source_means_its_last_value(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        h = x * 2
        y = h * 4
        h *= 3
        z = pk.sum(y) + pk.sum(h * 5)
    got = of(tape, z, h, x)
    np.testing.assert_array_equal(got[0], np.full((2, 3), 5, np.float32))
    with pytest.raises(pk.TapeError, match=r"\[tape\] the gradient of mul needs its argument"):
        with pk.Tape() as tape:
            h = x * x
            y = h * h
            h[0, 0] = 1
        tape.gradient(y, [x], 1.0)


def test_versions_are_those_of_windows(dev: pk.Device, x: pk.Tensor) -> None:
    """A write beside what a rule reads does not matter."""
    with pk.Tape() as tape:
        y = x[0] * x[0]
    x[1] = 9
    np.testing.assert_array_equal(of(tape, y, x, seed=1.0)[0], [[2, 4, 6], [0, 0, 0]])
    x[0, 2] = 9
    with pytest.raises(pk.TapeError, match="mul needs its argument"):
        tape.gradient(y, [x], 1.0)


WRITES: dict[str, Callable[[pk.Tensor], object]] = {
    "setitem": lambda t: t.__setitem__(0, 1),
    "upload": lambda t: t.write(np.ones((2, 3), np.float32)),
    "upload of a part": lambda t: t[:, 1].write(np.ones(2, np.float32)),
    "out": lambda t: pk.exp(t, out=t),
    "layer one": lambda t: pk.kernels.fill(t, value=3.0),
    "set_rows": lambda t: pk.set_rows(t[:1].copy(), np.array([1], np.int32), t),
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_counts(x: pk.Tensor, write: str) -> None:
    with pk.Tape() as tape:
        y = pk.sin(x)
    tape.gradient(y, [x], 1.0)
    WRITES[write](x)
    with pytest.raises(pk.TapeError, match=r"\[tape\] the gradient of sin needs its argument x"):
        tape.gradient(y, [x], 1.0)


def test_a_replay_counts_as_a_write(dev: pk.Device, x: pk.Tensor) -> None:
    other = x.copy()
    with dev.capture(t=x) as program:
        x += 1
    for given, raises in (({"t": other}, False), ({}, True)):
        with pk.Tape() as tape:
            y = pk.sin(x)
        program(**given)
        if raises:
            with pytest.raises(pk.TapeError, match="sin needs its argument x"):
                tape.gradient(y, [x], 1.0)
        else:
            tape.gradient(y, [x], 1.0)


def test_a_program_has_no_rule(dev: pk.Device, x: pk.Tensor) -> None:
    y = x * 2
    with dev.capture() as program:
        pk.mul(x, 2.0, out=y)
    with pk.Tape() as tape:
        program()
        z = y * x
    with pytest.raises(pk.TapeError, match=r"\[tape\] a replayed program has no gradient rule"):
        tape.gradient(z, [x], 1.0)
    [got] = of(tape, z, y, seed=1.0)  # behind the program
    np.testing.assert_array_equal(got, x.numpy())


def test_a_refused_call_is_no_write_and_no_entry(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = pk.sin(x)
        with pytest.raises(pk.ShapeError):
            pk.kernels.add(x[:1], x[0, :2], x)
    assert len(tape) == 1
    tape.gradient(y, [x], 1.0)


def test_an_interrupted_call_is_unknown(x: pk.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    recorder = type(x._context.recorder)
    with pk.Tape() as tape:
        y = pk.sin(x)
        with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
            m.setattr(recorder, "record", interrupted)
            pk.cos(y, out=y)
    with pytest.raises(pk.TapeError, match=r"\[tape\] the call of cos was interrupted"):
        tape.gradient(y, [x], 1.0)


def test_watch_limits_what_is_recorded(dev: pk.Device, x: pk.Tensor) -> None:
    w = dev.ones(3)
    with pk.Tape() as tape:
        tape.watch(w)
        data = x * 2 + 1
        y = data * w
        index = pk.argmax(y, axis=1)
        pk.cumsum(index.astype("int32"))
    assert len(tape) == 2
    np.testing.assert_array_equal(of(tape, y, w, seed=1.0)[0], (x.numpy() * 2 + 1).sum(0))
    with pytest.raises(
        pk.TapeError, match=r"sources\[1\] was read by a call that the tape did not"
    ):
        tape.gradient(y, [w, x], 1.0)


def test_a_watched_leaf_is_not_written(dev: pk.Device) -> None:
    flat = dev.ones(8)
    w, rest = flat[:4], flat[4:]
    with pk.Tape() as tape:
        tape.watch(w)
        for write in (lambda: w.__iadd__(1), lambda: flat[2:6].__setitem__(0, 1)):
            with pytest.raises(pk.TapeError, match="writes to a watched tensor"):
                write()
        rest += 1
        y = w * w
        [dw] = tape.gradient(y, [w], 1.0)
        with tape.pause():
            w -= 0.5 * dw
        assert len(tape) == 2  # the update is none of them
        tape.clear()
        assert len(tape) == 0
        y = w * w * w
        got = of(tape, y, w, seed=1.0)[0]
    np.testing.assert_array_equal(flat.numpy(), [0] * 4 + [2] * 4)
    np.testing.assert_array_equal(got, np.zeros(4, np.float32))


def test_a_write_in_a_pause_ends_the_path(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = x * 2
        with tape.pause():
            y[0] = 7
            unseen = x * 3
        z = y * 1.0
    np.testing.assert_array_equal(of(tape, z, x, seed=1.0)[0], [[0, 0, 0], [2, 2, 2]])
    with pytest.raises(pk.ArgumentError, match="does not depend"):
        tape.gradient(unseen, [x], 1.0)


def test_without_a_rule_it_says_so_by_name(dev: pk.Device, x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        clipped = x * 2
        pk.clip_grad_norm([clipped], 1.0)
        back = clipped * 1.0
        loss = pk.sum(back)
    with pytest.raises(
        pk.TapeError,
        match=r"^\[tape\] clip_by_norm has no gradient rule \(the call at .*tape.py:\d+\)$",
    ):
        tape.gradient(loss, [x])
    tape.gradient(loss, [back])  # not on the path


def test_integers_end_the_path(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = (x > 2).astype("float32") + x.astype("int32").astype("float32")
        z = y * pk.argmax(x, axis=1, keepdims=True)
    with pytest.raises(pk.ArgumentError, match=r"the loss does not depend on sources\[0\]"):
        tape.gradient(z, [x], 1.0)


def test_rounding_has_a_gradient_of_zero(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = pk.floor(x * 1.5) + pk.sign(x)
    np.testing.assert_array_equal(of(tape, y, x, seed=1.0)[0], np.zeros((2, 3)))


def test_a_relu_may_run_in_place(x: pk.Tensor) -> None:
    """Its rule reads the result."""
    with pk.Tape() as tape:
        y = x - 3
        pk.relu(y, out=y)
        z = y * 2
    np.testing.assert_array_equal(of(tape, z, x, seed=1.0)[0], [[0, 0, 0], [2, 2, 2]])


def test_arguments_are_checked(dev: pk.Device, x: pk.Tensor) -> None:
    n = dev.zeros(3, "int32")
    with pk.Tape() as tape:
        y = x * 2
        with pytest.raises(pk.TapeError, match="this tape already records"), tape:
            pass
    cases: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (pk.ArgumentError, r"one element but has shape \(2, 3\): give a seed",
         lambda: tape.gradient(y, [x])),
        (pk.DTypeError, r"sources must be a pykernels.Tensor but is",
         lambda: tape.gradient(y, 3)),
        (pk.DTypeError, r"sources\['w'\]\[1\] must be a pykernels.Tensor but is",
         lambda: tape.gradient(y, {"w": [x, np.ones(3)]}, 1.0)),
        (pk.ArgumentError, "unused must be 'error', 'zeros' or 'none' but is 'zero'",
         lambda: tape.gradient(y, [x], 1.0, unused="zero")),  # type: ignore[call-overload]
        (pk.DTypeError, r"sources\[0\] must have a float dtype but is int32",
         lambda: tape.gradient(y, [n], 1.0)),
        (pk.DTypeError, "loss must be a pykernels.Tensor but is",
         lambda: tape.gradient(np.ones(1), [x])),  # type: ignore[arg-type]
        (pk.DTypeError, r"tensors\[0\] must have a float dtype", lambda: tape.watch(n)),
        (pk.ShapeError, r"seed must repeat to \(2, 3\) but has shape \(4,\)",
         lambda: tape.gradient(y, [x], np.ones(4, np.float32))),
        (pk.DTypeError, "seed must be", lambda: tape.gradient(y, [x], "1")),
        (pk.ArgumentError, r"sources\[0\] has elements that share memory",
         lambda: tape.gradient(y, [x[0].broadcast_to((2, 3))], 1.0)),
        (pk.ArgumentError, r"the loss does not depend on sources\[1\]",
         lambda: tape.gradient(y, [x, dev.ones(2)], 1.0)),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()


def test_gradients_are_their_own(x: pk.Tensor) -> None:
    """Contiguous, in memory that nothing else uses, and as often as one asks."""
    w = x.copy()
    with pk.Tape() as tape:
        y = x + w
        z = pk.sum(y)
    first = tape.gradient(z, [x, w, y, z, x])
    for i, g in enumerate(first):
        g += i
    for i, g in enumerate(first):
        np.testing.assert_array_equal(g.numpy(), np.full(g.shape, 1 + i, np.float32))
    np.testing.assert_array_equal(of(tape, z, x)[0], np.ones((2, 3)))
    seed = x.copy()
    [g] = tape.gradient(y, [x], seed)
    g += 1
    np.testing.assert_array_equal(seed.numpy(), x.numpy())


def test_tensors_without_elements(dev: pk.Device, x: pk.Tensor) -> None:
    empty = dev.empty((0, 3))
    with pk.Tape() as tape:
        y = pk.concatenate([x, empty * 2])
        y[2:] = empty
        z = pk.sum(y) + pk.sum(empty)
    got = of(tape, z, empty, x)
    assert got[0].shape == (0, 3)
    np.testing.assert_array_equal(got[1], np.ones((2, 3)))


def test_bfloat16_is_passed_through(dev: pk.Device, x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        h = x.astype("bfloat16")
        y = (h * 3).astype("float32") * x[0]
    got = tape.gradient(y, [x, h], 1.0)
    assert [g.dtype for g in got] == ["float32", "bfloat16"]
    np.testing.assert_array_equal(got[0].numpy(), [[18, 27, 36], [3, 6, 9]])


def test_a_tape_goes_on(x: pk.Tensor) -> None:
    tape = pk.Tape()
    with tape:
        y = x * 2
    z = y * 5  # not seen
    with tape:
        y = y * 3
    np.testing.assert_array_equal(of(tape, y, x, seed=1.0)[0], np.full((2, 3), 6))
    with pytest.raises(pk.ArgumentError, match="does not depend"):
        tape.gradient(z, [x], 1.0)


def test_overlapping_windows_are_refused(dev: pk.Device) -> None:
    base = dev.ones(6)
    strided = pk.Tensor.from_buffer(base.buffer, (3, 2), "float32", strides=(4, 4), device=dev)
    with pk.Tape() as tape:
        y = strided * 2
    with pytest.raises(pk.TapeError, match="a view whose elements overlap"):
        tape.gradient(y, [base], 1.0)


def test_each_thread_has_its_own(dev: pk.Device, x: pk.Tensor) -> None:
    """Others are not recorded, but what they write is seen."""
    found: list[Any] = []

    def work() -> None:
        with pk.Tape() as own:
            y = x * 4
            found.append(len(own))
        found.extend(of(own, y, x, seed=1.0))

    with pk.Tape() as tape:
        y = pk.sin(x)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert found[0] == len(tape) == 1
    np.testing.assert_array_equal(found[1], np.full((2, 3), 4))
    thread = threading.Thread(target=lambda: x.__iadd__(1))
    thread.start()
    thread.join()
    with pytest.raises(pk.TapeError, match="written since"):
        tape.gradient(y, [x], 1.0)


def test_nothing_is_seen_once_no_tape_lives(x: pk.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    def seen(*args: object) -> None:
        raise AssertionError("a launch was observed")

    gc.collect()
    with pk.Tape() as tape:
        y = x * 2
    assert len(observe.live) == 1
    del tape
    gc.collect()
    assert not observe.live
    monkeypatch.setattr("pykernels.runtime.launch.observe", seen)
    y += 1


def test_what_a_gradient_launches_is_not_observed(
    x: pk.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes to new memory only; the writes around it count as before."""
    marks: list[tuple[int, int]] = []

    def mark(writes: Any, window: Any, serial: int) -> Any:
        marks.append(window)
        return unpatched(writes, window, serial)

    unpatched = observe._mark
    monkeypatch.setattr(observe, "_mark", mark)
    y = x.copy()
    with pk.Tape() as tape:
        z = pk.exp(y) * x
        assert len(marks) == 2
        of(tape, z, x, seed=1.0)
        assert observe.recording_tapes() == [tape]
        w = z.copy()
        pk.kernels.clip_by_norm(pk.norm(x), w, max_norm=1.0)  # without a rule
    assert len(marks) == 5
    of(tape, z, x, y, seed=x)
    with pytest.raises(pk.TapeError, match="no gradient rule"):
        tape.gradient(w, [x], x)
    assert len(marks) == 5 and innermost() is None
    y += 1
    x += 1
    assert len(marks) == 7
    with pytest.raises(pk.TapeError, match="written since"):
        of(tape, z, y, seed=1.0)


@pytest.mark.parametrize("made", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_tape_is_not_copied(x: pk.Tensor, made: Callable[[Any], Any]) -> None:
    with pk.Tape() as tape:
        y = pk.exp(x)
    with pytest.raises(pk.TapeError, match="cannot be copied or pickled"):
        made(tape)
    np.testing.assert_allclose(tape.gradient(y, x, 1.0).numpy(), np.exp(x.numpy()), rtol=1e-6)


def test_what_no_rule_reads_is_not_kept(dev: pk.Device) -> None:
    """A chain whose rules need no values holds the memory of its ends only."""
    x = dev.ones(1 << 16)
    dev.sync()
    with pk.Tape() as tape:
        y = x + 1
        before = dev.memory_stats().live_buffers
        for _ in range(10):
            y = y * 2 + 1
        assert dev.memory_stats().live_buffers == before
    assert len(tape) == 21
    np.testing.assert_array_equal(of(tape, y, x, seed=1.0)[0][:2], [1024, 1024])


def test_a_released_tape_lets_go_of_what_a_rule_has_read(x: pk.Tensor) -> None:
    """Also where a rule raises; outer tapes keep what they need themselves."""
    alive = []

    @pk.custom_gradient
    def looked_at(h: pk.Tensor) -> tuple[pk.Tensor, Any]:
        def rule(dy: pk.Tensor) -> tuple[pk.Tensor]:
            alive.append(late() is not None)
            if len(alive) == 3:
                raise ValueError("a rule that fails")
            return (dy,)

        return h * 1.0, rule

    for n, release in enumerate((False, True, True)):
        with pk.Tape() as tape:
            y = pk.exp(looked_at(x))
            late = weakref.ref(y)
            loss = pk.sum(y * y)
        del y
        if n < 2:
            tape.gradient(loss, x, release=release)
        else:
            with pytest.raises(ValueError, match="fails"):
                tape.gradient(loss, x, release=True)
            assert len(tape) == 0
    assert alive == [True, False, False]
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            loss = pk.sum(x * x * x)
        [g] = inner.gradient(loss, [x], release=True)
        penalty = pk.sum(g * g)
    np.testing.assert_allclose(
        outer.gradient(penalty, x, release=True).numpy(), 36 * x.numpy() ** 3, rtol=1e-5
    )


@pytest.mark.usefixtures("dev")
def test_gradients_of_slices_need_no_whole() -> None:
    """Rows of a matrix, used one by one: no temporary of its size for each."""
    dev = open_device()  # its peak is this test's
    x = dev.ones((64, 1024))
    with pk.Tape() as tape:
        total = pk.sum(x[0])
        for i in range(1, 64):
            total = total + pk.sum(pk.sin(x[i]))
    dev.sync()
    dev.trim()
    before = dev.memory_stats()
    [grad] = tape.gradient(total, [x])
    dev.sync()
    assert dev.memory_stats().peak - before.current < 6 * x.nbytes
    np.testing.assert_allclose(grad.numpy()[1:], np.cos(np.ones((63, 1024))), rtol=1e-5)
    dev.close()


def _step(w: pk.Tensor, b: pk.Tensor, x: pk.Tensor, y: pk.Tensor) -> pk.Tensor:
    with pk.Tape() as tape:
        tape.watch(w, b)
        loss = pk.mean(pk.square(pk.softmax(pk.matmul(x, w) + b) - y))
    dw, db = tape.gradient(loss, [w, b])
    w -= 0.5 * dw
    b -= 0.5 * db
    return loss


def test_a_captured_step_is_the_eager_one(dev: pk.Device) -> None:
    """With gradients and updates, bit for bit, over several steps."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(0, 1, s).astype(np.float32) for s in ((4, 3), (3,), (5, 4), (5, 3))]
    eager, captured = ([dev.tensor(a) for a in arrays] for _ in range(2))
    losses = [float(_step(*eager).item()) for _ in range(4)]
    with dev.capture() as program:
        loss = _step(*captured)
    replayed = []
    for _ in range(4):
        program()
        replayed.append(float(loss.item()))
    assert replayed == losses
    assert losses[-1] < losses[0]
    for a, b in zip(eager, captured, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_arrays_and_both_layers_are_recorded(dev: pk.Device, x: pk.Tensor) -> None:
    y = dev.empty((2, 3))
    with pk.Tape() as tape:
        pk.kernels.mul(x, x, y)
        z = pk.add(y, np.ones((2, 3), np.float32)).astype("float16")
    [got] = of(tape, z, x, seed=1.0)
    np.testing.assert_array_equal(got, 2 * x.numpy())
    assert len(tape) == 3
    assert repr(tape) == "<pykernels.Tape of 3 calls>"


def test_many_windows_become_one() -> None:
    """What is remembered of writes is bounded, and never forgets one."""
    record = observe.Record()
    for serial in range(1, 400):
        observe._mark(record.writes, Window(8 * serial, 8 * serial + 4), serial)
        assert len(record.writes) <= observe.MAX_WINDOWS
        assert record.written_since(serial, 8 * serial, 8 * serial + 4)
        assert not record.written_since(serial + 1, 0, 1 << 20)
        assert not record.written_since(1, 8 * serial + 4, 1 << 20)
    assert record.written_since(1, 8, 12)
