"""pk.no_grad: no tape records inside, of this thread and task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime.scopes import innermost

pytestmark = pytest.mark.gpu


@pytest.fixture
def x(dev: pk.Device) -> pk.Tensor:
    return dev.tensor(np.array([1, 2, 3], np.float32))


def test_nothing_is_recorded_inside(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = x * x
        with pk.no_grad():
            unseen = x * 3
            with pk.no_grad():
                unseen = unseen + 1
            unseen = unseen + 1
            assert np.asarray(y).shape == (3,)  # arrays may be asked for, as nothing is lost
        assert len(tape) == 1
        loss = pk.sum(y + unseen)
        assert len(tape) == 3
    np.testing.assert_array_equal(tape.gradient(loss, x).numpy(), 2 * x.numpy())
    with pytest.raises(pk.ArgumentError, match="does not depend"):
        tape.gradient(pk.sum(unseen), x)
    assert innermost() is None


def test_a_tape_that_is_entered_inside_records_nothing(x: pk.Tensor) -> None:
    with pk.no_grad(), pk.Tape() as tape:
        _ = x * x
    assert len(tape) == 0


def test_a_write_inside_ends_the_path(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        y = x * 2
        with pk.no_grad():
            y[0] = 7
        loss = pk.sum(y)
    np.testing.assert_array_equal(tape.gradient(loss, x).numpy(), [0, 2, 2])


def test_a_watched_tensor_may_be_written_inside(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        tape.watch(x)
        dx = tape.gradient(pk.sum(x * x), x)
        with pytest.raises(pk.TapeError, match="watched"):
            x -= dx
        with pk.no_grad():
            x -= dx
    np.testing.assert_array_equal(x.numpy(), [-1, -2, -3])


def test_functions_are_decorated(x: pk.Tensor) -> None:
    @pk.no_grad()
    def power(t: pk.Tensor, n: int) -> pk.Tensor:
        """t to the n."""
        return t if n == 1 else t * power(t, n - 1)

    with pk.Tape() as tape:
        got = power(x, 4)
        assert len(tape) == 0
        _ = got * 1
        assert len(tape) == 1
    np.testing.assert_array_equal(got.numpy(), x.numpy() ** 4)
    assert power.__name__ == "power" and power.__doc__ == "t to the n."


def test_the_block_ends_by_an_exception_too(x: pk.Tensor) -> None:
    with pk.Tape() as tape:
        with pytest.raises(ZeroDivisionError), pk.no_grad():
            raise ZeroDivisionError
        _ = x * x
    assert len(tape) == 1


def test_other_threads_and_tasks_record(x: pk.Tensor) -> None:
    found: list[int] = []

    def other() -> None:
        with pk.Tape() as tape:
            _ = x * x
        found.append(len(tape))

    async def task() -> None:
        other()

    async def both() -> None:
        with pk.no_grad():
            await asyncio.create_task(task())

    with pk.no_grad():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    asyncio.run(both())
    assert found == [1, 1]


def test_what_it_refuses() -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def coroutine() -> None: ...

    for function, told in ((generator, "generator"), (coroutine, "coroutine")):
        with pytest.raises(pk.ArgumentError, match=rf"\[no_grad\] func must be .* but is a {told}"):
            pk.no_grad()(function)
    block = pk.no_grad()
    with block, pytest.raises(pk.TapeError, match=r"\[no_grad\] this block is open already"):
        with block:
            pass
    with block:  # again
        pass
    assert innermost() is None
