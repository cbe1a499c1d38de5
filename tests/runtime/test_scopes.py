"""Blocks belong to the thread and task that entered them: captures, passes, tapes, pauses."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime.scopes import innermost
from tests.runtime._helpers import check_works, softmax

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


@pytest.fixture(autouse=True)
def _nothing_is_left(dev: pk.Device) -> Iterator[None]:
    yield
    check_works(dev)
    assert innermost() is None
    assert not dev._context.scopes and not dev._context.noted


@contextmanager
def recorded(dev: pk.Device) -> Iterator[None]:
    """A block that records into a pass, which is submitted at its end."""
    encoder = dev.wgpu_device.create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    with dev.record(compute_pass):
        yield
    compute_pass.end()
    dev.wgpu_device.queue.submit([encoder.finish()])


@contextmanager
def captured(dev: pk.Device) -> Iterator[None]:
    with dev.capture() as program:
        yield
    program()


BLOCKS: dict[str, Callable[[pk.Device], AbstractContextManager[object]]] = {
    "capture": captured, "record": recorded, "tape": lambda dev: pk.Tape(),
}  # fmt: skip


def arrays() -> Any:
    rng = np.random.default_rng(3)
    return rng.standard_normal((2, 4, 16)).astype("f4")


@pytest.mark.parametrize("what", BLOCKS)
def test_another_tasks_launches_are_no_part_of_a_block(dev: pk.Device, what: str) -> None:
    """A holds its block over an await; B, which runs meanwhile, computes as if there was none."""
    a, b = arrays()

    async def main() -> tuple[Any, Any, int]:
        held, done, tape = asyncio.Event(), asyncio.Event(), pk.Tape()

        async def first() -> pk.Tensor:
            x = dev.tensor(a)
            with tape if what == "tape" else BLOCKS[what](dev):
                y = pk.softmax(x)
                held.set()
                await done.wait()
                return pk.neg(y)

        async def second() -> Any:
            await held.wait()
            try:
                y = pk.softmax(dev.tensor(b))
                with dev.capture() as own:
                    pk.kernels.neg(y, y)
                own()
                return await y.numpy_async()
            finally:
                done.set()

        y, z = await asyncio.gather(first(), second())
        return y.numpy(), z, len(tape)

    y, z, calls = asyncio.run(main())
    np.testing.assert_allclose(y, -softmax(a), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(z, -softmax(b), rtol=1e-5, atol=1e-7)
    assert calls == (2 if what == "tape" else 0)


@pytest.mark.parametrize("what", BLOCKS)
def test_what_is_started_inside_an_open_block_may_not_launch(dev: pk.Device, what: str) -> None:
    """A child task, a thread of `to_thread`, one with a copied context; when the block has ended,
    all of them may."""
    a, b = arrays()
    error = pk.TapeError if what == "tape" else pk.BufferStateError
    names: list[str] = []

    async def main() -> None:
        x, y = dev.tensor(a), dev.tensor(b)
        dev.sync()
        ended = asyncio.Event()

        def call() -> None:
            pk.kernels.neg(x, y)

        async def child(wait: bool) -> None:
            if wait:
                await ended.wait()
            call()

        async def refused(work: Any) -> None:
            with pytest.raises(error, match=rf"\[{what}\] neg is called by .*started inside") as e:
                await work
            names.append(str(e.value))

        block = BLOCKS[what](dev)
        with block:
            context = contextvars.copy_context()
            later = asyncio.create_task(child(True))
            await refused(asyncio.create_task(child(False), name="the child"))
            await refused(asyncio.to_thread(call))
            await refused(asyncio.get_running_loop().run_in_executor(None, context.run, call))
            # A thread without a copy has nothing to do with the block.
            await asyncio.get_running_loop().run_in_executor(None, call)
            x.numpy() if what == "tape" else None
            pk.kernels.neg(x, x)
        ended.set()
        await later
        await asyncio.get_running_loop().run_in_executor(None, context.run, call)
        np.testing.assert_array_equal(x.numpy(), -a)
        np.testing.assert_array_equal(y.numpy(), a)

    asyncio.run(main())
    assert "task 'the child'" in names[0] and "block of task 'Task-" in names[0]
    assert "thread 'asyncio_" in names[1]


def test_a_program_is_refused_as_a_launch_is(dev: pk.Device) -> None:
    x = dev.ones(3)
    with dev.capture() as program:
        pk.kernels.neg(x, x)

    async def main(block: AbstractContextManager[object], error: type[Exception]) -> None:
        with block, pytest.raises(error, match="started inside"):
            await asyncio.to_thread(program)

    asyncio.run(main(pk.Tape(), pk.TapeError))
    asyncio.run(main(dev.capture(), pk.BufferStateError))
    assert (x.numpy() == 1).all()


def test_a_pause_is_of_the_task_that_entered_it(dev: pk.Device) -> None:
    """One tape, and a pause of it that another thread holds open."""
    x, tape = dev.ones(3), pk.Tape()
    entered, leave = threading.Event(), threading.Event()

    def pause() -> None:
        with tape.pause():
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=pause)
    with tape:
        thread.start()
        entered.wait(30)
        y = x * 3
        with tape.pause():
            x * 5
        z = y * 2
        leave.set()
    thread.join()
    assert len(tape) == 2
    [got] = tape.gradient(z, [x], 1.0)
    assert (got.numpy() == 6).all()


def test_a_block_may_end_elsewhere(dev: pk.Device) -> None:
    """An asynchronous generator is closed by another task than the one that entered its block."""
    x = dev.ones((4, 16))

    @asynccontextmanager
    async def block() -> AsyncIterator[None]:
        with dev.capture():
            yield

    async def main() -> None:
        manager = block()
        await asyncio.create_task(manager.__aenter__())
        pk.kernels.neg(x, x)
        await asyncio.create_task(manager.__aexit__(None, None, None))
        pk.kernels.neg(x, x)
        assert not dev._context.scopes

    asyncio.run(main())
    assert (x.numpy() == 1).all()


def test_gradients_in_tasks(dev: pk.Device) -> None:
    """Each task its tape, all of them at once."""

    async def step(i: int) -> float:
        w = dev.full(4, float(i))
        with pk.Tape() as tape:
            y = w * w
            await asyncio.sleep(0)
            loss = pk.sum(y * w)
            await asyncio.sleep(0)
        assert len(tape) == 3
        [dw] = tape.gradient(loss, [w])
        return float((await dw.numpy_async())[0])

    async def main() -> list[float]:
        return list(await asyncio.gather(*[step(i) for i in range(20)]))

    assert asyncio.run(main()) == [3.0 * i * i for i in range(20)]
