"""Tensors whose values are not there yet: of a program that has not run, of a capture that failed,
of a pass that the caller has not ended. Whatever would read them raises BufferStateError."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import check_works, open_device

pytestmark = pytest.mark.gpu

SHAPE = (4, 16)


def readers(t: pk.Tensor) -> list[Callable[[], object]]:
    """What needs the values of a tensor."""
    dev = t.device
    return [
        t.numpy, lambda: t[0, 0].item(), lambda: float(t[1, 2]), lambda: t[::2, ::5].numpy(),
        lambda: asyncio.run(_awaited(t)), lambda: np.asarray(t), lambda: t + 1, lambda: t * t,
        lambda: pk.softmax(t), lambda: pk.softmax(t[:, ::2]), lambda: pk.matmul(t, t.T),
        lambda: pk.kernels.add(t, t, t), lambda: pk.kernels.cpy(t, dev.empty(SHAPE)), t.copy,
        lambda: pk.kernels.softmax(t, dev.empty(SHAPE)),
    ]  # fmt: skip


async def _awaited(t: pk.Tensor) -> Any:
    return await t.numpy_async()


def refuses(t: pk.Tensor, match: str) -> None:
    for read in readers(t):
        with pytest.raises(pk.BufferStateError, match=match):
            read()


def remembered(dev: pk.Device) -> None:
    """Calls and free blocks of the shape: a capture gets blocks that remembered calls know."""
    t = dev.full(SHAPE, 7)
    for read in readers(t):
        for _ in range(2):
            read()
    dev.sync()


def test_a_tensor_of_a_program_that_has_not_run(dev: pk.Device) -> None:
    x = dev.full(SHAPE, 1)
    remembered(dev)
    with dev.capture() as program:
        h = x + 1
        y = pk.add(h, h)
    refuses(h, "belongs to a program that has not run yet")
    refuses(y, "has not run yet")
    program()
    for t, value in ((h, 2), (y, 4)):
        for read in readers(t)[:-4]:
            read()
        assert (t.numpy() == value).all()
    program()
    check_works(dev)


def test_a_tensor_that_exists_keeps_its_values_until_the_program_runs(dev: pk.Device) -> None:
    x, y = dev.full(SHAPE, 1), dev.full(SHAPE, 5)
    with dev.capture() as program:
        pk.kernels.add(x, x, y)
    assert (y.numpy() == 5).all() and ((y + 1).numpy() == 6).all()
    program()
    assert (y.numpy() == 2).all()


def test_a_tensor_of_a_capture_that_failed(dev: pk.Device) -> None:
    x, kept = dev.full(SHAPE, 1), []
    with pytest.raises(KeyError), dev.capture():
        kept.append(x + 1)
        raise KeyError
    refuses(kept[0], "was not captured to its end")


def test_a_tensor_of_a_program_that_is_gone(dev: pk.Device) -> None:
    x = dev.full(SHAPE, 1)
    with dev.capture() as program:
        h, g = x + 1, x + 2
    del program
    gc.collect()
    dev.trim()
    refuses(h, "has not run")
    blocks = {h._block, g._block}
    del h
    for _ in range(3):  # what was its memory is like any other
        some = [dev.full(SHAPE, i) for i in range(8)]
        assert all((t.numpy() == i).all() for i, t in enumerate(some))
        assert not any(t._block.pending for t in some)
    refuses(g, "has not run")
    del g, some
    gc.collect()
    dev.memory_stats()
    assert not any(b.pending for b in blocks)


def test_another_thread_while_it_is_captured(dev: pk.Device) -> None:
    x, errors = dev.full(SHAPE, 1), []

    def read(t: pk.Tensor) -> None:
        for call in (t.numpy, lambda: pk.softmax(t)):
            with pytest.raises(pk.BufferStateError, match="is still captured") as e:
                call()
            errors.append(e)

    with dev.capture() as program:
        h = x + 1
        thread = threading.Thread(target=read, args=(h,))
        thread.start()
        thread.join(30)
    assert len(errors) == 2
    program()
    assert (h.numpy() == 2).all()


@pytest.mark.parametrize("how", ["write", "fill", "setitem", "kernel", "strided"])
def test_what_is_written_since_may_be_read(dev: pk.Device, how: str) -> None:
    """A state that the program goes on from gets its first values after the capture."""
    x = dev.full(SHAPE, 3)
    with dev.capture() as program:
        state = dev.empty(SHAPE)
        pk.kernels.add(state, x, state)
    if how == "write":
        state.write(np.full(SHAPE, 3, "f4"))
    elif how == "fill":
        pk.kernels.fill(state, 3)
    elif how == "setitem":
        state[...] = 3
    elif how == "kernel":
        pk.kernels.cpy(x, state)
    else:
        state.T.write(np.full(SHAPE[::-1], 3, "f4"))
    assert (state.numpy() == 3).all()
    program()
    program()
    assert (state.numpy() == 9).all()


def test_programs_that_use_each_others_tensors(dev: pk.Device) -> None:
    x = dev.full(SHAPE, 1)
    with dev.capture() as first:
        h = x + 1
    out = dev.full(SHAPE, 9)
    with dev.capture() as second:
        pk.kernels.add(h, h, out)
        again = pk.square(out)
    with pytest.raises(pk.BufferStateError, match="has not run yet"):
        second()
    assert (out.numpy() == 9).all()
    refuses(again, "has not run yet")
    first()
    second()
    assert (out.numpy() == 4).all() and (again.numpy() == 16).all()
    for _ in range(3):
        first()
        second()
    with dev.capture() as third:  # writes what the fourth reads
        g = dev.empty(SHAPE)
        pk.kernels.add(x, x, g)
    with dev.capture() as fourth:
        pk.kernels.fill(g, 5)
        result = g + 1
    fourth()
    assert (result.numpy() == 6).all() and (g.numpy() == 5).all()
    third()
    assert (g.numpy() == 2).all()


def test_other_inputs_that_have_not_been_written(dev: pk.Device) -> None:
    x = dev.full(SHAPE, 1)
    with dev.capture() as first:
        h = x + 1
    with dev.capture(x=x) as second:
        y = x + 1
    with pytest.raises(pk.BufferStateError, match="has not run yet"):
        second(x=h)
    first()
    second(x=h)
    assert (y.numpy() == 3).all()


def test_what_an_open_pass_will_write(dev: pk.Device) -> None:
    x, t, other = dev.full(SHAPE, 1), dev.full(SHAPE, 5), dev.full(SHAPE, 6)
    wide = dev.full((64, 64), 1)
    remembered(dev)
    raw = dev.wgpu_device
    encoder = raw.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    with dev.record(compute_pass):
        s = x + 1
        pk.kernels.add(s, t, t)  # in the pass it is in order
        for made in (s, t):
            for read in readers(made)[:6]:
                with pytest.raises(pk.BufferStateError, match="a pass that has not ended"):
                    read()
        assert (other.numpy() == 6).all() and (x.numpy() == 1).all()
        with pytest.raises(pk.BufferStateError, match="a copy"):  # not in the pass's way
            wide[::9, ::9].numpy()
    refuses(s, "a pass that has not ended")
    refuses(t, "a pass that has not ended")
    with dev.record(compute_pass):
        u = s + t
    errors: list[Any] = []

    def elsewhere() -> None:
        try:
            pk.softmax(u)
        except pk.BufferStateError as e:
            errors.append(e)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(30)
    assert len(errors) == 1
    compute_pass.end()
    raw.queue.submit([encoder.finish()])
    assert (s.numpy() == 2).all() and (t.numpy() == 7).all() and (u.numpy() == 9).all()
    for made in (s, t, u):
        for read in readers(made)[:-4]:
            read()


def test_a_pass_that_is_given_up(dev: pk.Device) -> None:
    """What it would have written keeps its values, and may be read once the pass is gone."""
    t = dev.full(SHAPE, 5)
    raw = dev.wgpu_device
    encoder = raw.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    with dev.record(compute_pass):
        pk.kernels.add(t, t, t)
    compute_pass.end()
    encoder.finish()
    assert (t.numpy() == 5).all()


def test_a_pass_and_a_program_that_has_not_run(dev: pk.Device) -> None:
    x = dev.full(SHAPE, 1)
    with dev.capture() as program:
        h = x + 1
    raw = dev.wgpu_device
    encoder = raw.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    with dev.record(compute_pass):
        with pytest.raises(pk.BufferStateError, match="has not run yet"):
            pk.softmax(h)
    program()
    with dev.record(compute_pass):
        s = h + 1
    compute_pass.end()
    raw.queue.submit([encoder.finish()])
    assert (s.numpy() == 3).all()


def test_a_remembered_launch_tests_one_flag_of_a_block() -> None:
    """What is asked of a block lies behind `guarded`, which is False for blocks of our own."""
    dev = open_device()
    try:
        x, y = dev.full(SHAPE, 1), dev.empty(SHAPE)
        assert not x._block.guarded and not y._block.guarded
        assert x.buffer is not None and x._block.guarded
        with dev.capture() as program:
            h = y + 1
        assert h._block.guarded
        program()
        assert (h + 1).shape == SHAPE and not h._block.guarded
    finally:
        dev.close()
