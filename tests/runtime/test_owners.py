"""An index out of range is raised to who made the call, whoever took it off the device."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.runtime import faults, owners
from tests.runtime._helpers import check_works, isolated, open_device

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]

ROWS, WIDTH = 8, 16


@pytest.fixture(autouse=True)
def _nothing_is_left(dev: pk.Device) -> Iterator[None]:
    yield
    dev.sync()
    check_works(dev)
    left = dev._context.faults
    assert left.waiting() == [] and left._found == [] and not left.open


class Requests:
    """Requests by number: every tenth one has an index out of range, the others an answer."""

    def __init__(self, dev: pk.Device) -> None:
        self.dev = dev
        self.host = np.random.default_rng(5).standard_normal((ROWS, WIDTH)).astype("f4")
        self.table = dev.tensor(self.host)
        self.answers = self._softmax(self.host)
        self.wrong: list[str] = []
        self.raised = 0

    @staticmethod
    def _softmax(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    @staticmethod
    def bad(number: int) -> bool:
        return number % 10 == 3

    def index(self, number: int) -> Any:
        index = np.array([number % ROWS, number // ROWS % ROWS, 1], "i4")
        if self.bad(number):
            index[1] = 1000 + number
        return index

    def launch(self, number: int) -> pk.Tensor:
        return pk.softmax(pk.embedding(self.table, self.dev.tensor(self.index(number))))

    def check(self, number: int, got: Any) -> None:
        """`got`: the answer, or the error."""
        if isinstance(got, pk.IndexRangeError):
            self.raised += 1
            if not self.bad(number) or f"is {1000 + number} at position (1,)" not in str(got):
                self.wrong.append(f"{number}: {got}")
        elif self.bad(number):
            self.wrong.append(f"{number} has an answer")
        elif not np.allclose(got, self.answers[self.index(number)], atol=1e-6):
            self.wrong.append(f"{number} has a wrong answer")

    def run(self, number: int, work: Callable[[], Any]) -> None:
        try:
            got = work()
        except pk.IndexRangeError as e:
            got = e
        self.check(number, got)

    def done(self, count: int) -> None:
        assert self.wrong == []
        assert self.raised == sum(map(self.bad, range(count)))


def in_threads(n: int, work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(work, range(n)))


def test_two_thousand_requests_on_eight_threads(dev: pk.Device) -> None:
    """Half of them through programs that all threads share."""
    requests = Requests(dev)
    x = dev.zeros(3, "int32")
    out = dev.zeros((3, WIDTH))
    programs = []
    for _ in range(2):
        with dev.capture(x=x, out=out) as program:
            pk.kernels.softmax(pk.embedding(requests.table, x), out)
        programs.append(program)

    def work(thread: int) -> None:
        mine, given = dev.zeros((3, WIDTH)), dev.zeros(3, "int32")

        def replay(number: int) -> Any:
            given.write(requests.index(number))
            programs[number % 4 // 2](x=given, out=mine)
            return mine.numpy()

        for number in range(thread, 2000, 8):
            if number // 8 % 2:
                requests.run(number, lambda n=number: requests.launch(n).numpy())  # type: ignore[misc]
            else:
                requests.run(number, lambda n=number: replay(n))  # type: ignore[misc]

    in_threads(8, work)
    requests.done(2000)


@pytest.mark.parametrize(
    "how", ("task", "executor", "to_thread", "two executors", "checked", "program", "one program")
)
def test_two_hundred_tasks(dev: pk.Device, how: str) -> None:
    """Twenty at a time: launches in the task, or by another thread and the read in the task."""
    requests = Requests(dev)
    x, out = dev.zeros(3, "int32"), dev.zeros((3, WIDTH))
    with dev.capture(x=x, out=out) as program:
        pk.kernels.softmax(pk.embedding(requests.table, x), out)
    lock = threading.Lock()

    def replay(number: int) -> pk.Tensor:
        if how == "program":
            own = dev.empty((3, WIDTH))
            program(x=dev.tensor(requests.index(number)), out=own)
            return own
        with lock:  # on the tensors of the capture
            x.write(requests.index(number))
            program()
            return out.copy()

    async def request(number: int, few: asyncio.Semaphore, pool: ThreadPoolExecutor) -> None:
        loop, launch = asyncio.get_running_loop(), requests.launch
        async with few:
            try:
                if how == "checked":

                    async def inside() -> Any:
                        y = await asyncio.to_thread(pk.neg, launch(number))
                        return -await asyncio.create_task(read(y))

                    async def read(y: pk.Tensor) -> Any:
                        return await asyncio.to_thread(y.numpy)

                    with dev.checked():
                        got = await inside()
                else:
                    if how == "task":
                        y = launch(number)
                    elif how.endswith("program"):
                        y = await loop.run_in_executor(pool, replay, number)
                    elif how == "executor":
                        y = await loop.run_in_executor(pool, launch, number)
                    elif how == "to_thread":
                        y = await asyncio.to_thread(launch, number)
                    else:
                        y = await loop.run_in_executor(pool, launch, number)
                        y = -await loop.run_in_executor(pool, pk.neg, y)
                    await asyncio.sleep(0)
                    got = await asyncio.wait_for(y.numpy_async(), 60)
            except pk.IndexRangeError as e:
                got = e
        requests.check(number, got)

    async def main() -> None:
        few = asyncio.Semaphore(20)
        with ThreadPoolExecutor(3) as pool:
            await asyncio.gather(*[request(i, few, pool) for i in range(200)])

    asyncio.run(main())
    requests.done(200)


def test_programs_in_tasks(dev: pk.Device) -> None:
    """Each task runs the shared program before the others have read theirs."""
    requests = Requests(dev)
    x, out = dev.zeros(3, "int32"), dev.zeros((3, WIDTH))
    with dev.capture(x=x, out=out) as program:
        pk.kernels.softmax(pk.embedding(requests.table, x), out)

    async def request(number: int) -> None:
        given, mine = dev.tensor(requests.index(number)), dev.zeros((3, WIDTH))
        program(x=given, out=mine)
        await asyncio.sleep(0)
        got: Any
        try:
            got = await mine.numpy_async()
        except pk.IndexRangeError as e:
            got = e
        requests.check(number, got)

    async def main() -> None:
        await asyncio.gather(*[request(i) for i in range(40)])

    asyncio.run(main())
    requests.done(40)
    assert dev._context.faults.aside == []


def test_the_owner_of_a_read_is_who_asks_for_it(dev: pk.Device) -> None:
    """`gather` and `create_task` run the coroutine in a task of its own."""
    requests = Requests(dev)

    async def main() -> None:
        bad = requests.launch(3)
        reads = [requests.launch(0).numpy_async(), bad.numpy_async()]
        found = await asyncio.gather(*map(asyncio.create_task, reads), return_exceptions=True)
        # The first read of the owner raises, of whatever tensor.
        assert sorted(type(f).__name__ for f in found) == ["IndexRangeError", "ndarray"]
        await requests.launch(1).numpy_async()

    asyncio.run(main())


def bad(dev: pk.Device, place: int = 9) -> pk.Tensor:
    return pk.embedding(dev.zeros((ROWS, 4)), dev.tensor(np.array([1, place], "i4")))


def in_thread(work: Callable[[], Any]) -> None:
    thread = threading.Thread(target=work, name="the worker")
    thread.start()
    thread.join()


def test_nobody_else_hears_of_it(dev: pk.Device) -> None:
    y = bad(dev)
    other = dev.ones(3)
    found: list[Any] = []

    def work() -> None:
        other.numpy()
        dev.sync()
        found.append("nothing")

    in_thread(work)
    assert found == ["nothing"]
    with pytest.raises(pk.IndexRangeError, match="is 9 "):
        other.numpy()
    y.numpy()


def test_a_read_of_what_it_wrote_raises_to_anybody_once(dev: pk.Device) -> None:
    y = pk.neg(bad(dev))

    def read() -> None:
        with pytest.raises(pk.IndexRangeError, match="is 9 "):
            y[:, ::2].numpy()
        y.numpy()

    in_thread(read)
    y.numpy()
    dev.sync()


def test_what_a_cache_leaves_out_is_its_writers_alone(dev: pk.Device) -> None:
    """Rows that set_rows left out keep their values: results of others do not become wrong."""
    cache = dev.zeros((ROWS, 4))
    pk.kernels.set_rows(dev.ones((2, 4)), dev.tensor(np.array([0, 99], "i4")), cache)
    in_thread(lambda: pk.neg(cache).numpy())
    with pytest.raises(pk.IndexRangeError, match="is 99 "):
        dev.sync()


def test_a_write_from_the_host_ends_it(dev: pk.Device) -> None:
    y = bad(dev)
    y.write(np.zeros((2, 4), "f4"))
    in_thread(y.numpy)
    with pytest.raises(pk.IndexRangeError):
        dev.sync()


def test_owners_that_ended(dev: pk.Device) -> None:
    """Anybody's sync raises theirs and says so; a read does not."""
    in_thread(lambda: bad(dev, 77))

    async def main() -> None:
        bad(dev, 78)

    asyncio.run(main())
    dev.ones(3).numpy()
    gc.collect()
    with pytest.raises(pk.IndexRangeError) as caught:
        dev.sync()
    assert "is 77 " in str(caught.value) and "of thread 'the worker', which has ended" in str(
        caught.value
    )
    assert str(caught.value).endswith("launches after it that failed: 1")


def test_their_list_is_bounded(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "MAX_ENDED", 3)
    for _ in range(5):
        in_thread(lambda: bad(dev))
    dev.ones(3).numpy()
    assert not dev._context.faults.open
    with pytest.raises(pk.IndexRangeError, match="that failed: 2"):
        dev.sync()


def test_a_new_thread_with_the_id_of_a_dead_one(dev: pk.Device) -> None:
    idents: list[int] = []

    def work(first: bool) -> None:
        idents.append(threading.get_ident())
        bad(dev) if first else dev.ones(3).numpy()

    for _ in range(50):
        in_thread(lambda: work(True))
        in_thread(lambda: work(False))
        if idents[-1] == idents[-2]:
            break
    else:
        pytest.skip("this platform gives each thread an id of its own")
    with pytest.raises(pk.IndexRangeError, match="which has ended"):
        dev.sync()


def test_too_many_pages_aside_are_read(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "MAX_ASIDE", 4)
    x, out = dev.tensor(np.array([1, 9], "i4")), dev.zeros((2, 4))
    table = dev.zeros((ROWS, 4))
    with dev.capture() as program:
        pk.kernels.get_rows(table, x, out)
    for _ in range(11):
        in_thread(program)
        assert len(dev._context.faults.aside) <= 4
    with pytest.raises(pk.IndexRangeError, match="that failed: 10"):
        dev.sync()


def test_a_checked_block(dev: pk.Device) -> None:
    context = contextvars.copy_context()
    with pytest.raises(pk.IndexRangeError, match="is 9 "), dev.checked():
        bad(dev)
    dev.sync()
    with dev.checked():
        with pytest.raises(pk.IndexRangeError, match="is 9 "):
            bad(dev).numpy()
    bad(dev, 10)
    with dev.checked():  # what was before is not of it
        copied = contextvars.copy_context()
        in_thread(lambda: context.run(bad, dev, 11))  # nor is what has another context
    with pytest.raises(pk.IndexRangeError, match=r"is 10 .*that failed: 1"):
        dev.sync()
    copied.run(bad, dev, 12)  # the block has ended
    with pytest.raises(pk.IndexRangeError, match="is 12 "):
        dev.sync()
    with pytest.raises(KeyError), dev.checked():
        bad(dev, 13)
        raise KeyError
    with pytest.raises(pk.IndexRangeError, match=r"is 13 .*of a checked block, which has ended"):
        dev.sync()


def test_close_raises_those_of_everybody() -> None:
    dev = open_device()
    started, leave = threading.Event(), threading.Event()

    def work() -> None:
        bad(dev, 21)
        started.set()
        leave.wait(30)

    thread = threading.Thread(target=work, name="the worker")
    thread.start()
    started.wait(30)
    with pytest.raises(pk.IndexRangeError, match=r"is 21 .*of thread 'the worker'"):
        dev.close()
    leave.set()
    thread.join()


@isolated
def test_launches_are_as_they_were_once_all_is_told() -> None:
    """No checked call is open: a launch looks at nothing else; nothing is kept of the owners."""
    dev = open_device()
    x = dev.ones((4, 16))
    for _ in range(3):
        pk.softmax(bad(dev, 1)).numpy()
        pk.softmax(x)
        pk.softmax(x)
        assert not dev._context.noted

    async def main() -> None:
        await asyncio.gather(*[bad(dev, 1).numpy_async() for _ in range(20)])

    asyncio.run(main())
    gc.collect()
    assert len(owners._tasks) == 0
    dev.close()
