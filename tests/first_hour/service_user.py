"""The first hour of a service: threads, tasks, bad requests, memory, logging, processes, exit.

Plain code as such a user writes it, run from an installed wheel by test_first_hour.py.
"""

import asyncio
import atexit
import logging
import multiprocessing
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import pykernels as pk

TABLE = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float32)


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def total(t):
    return float(pk.sum(t))


def a_master_looks_first():
    assert pk.list_adapters()
    if "fork" in multiprocessing.get_all_start_methods():
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply(total, (np.ones(4, np.float32),)) == 4.0


def one_device(found):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    log = logging.getLogger("pykernels")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        pk.Device(type="gpu").close()
    except pk.NoAdapterError as e:
        assert "GPU" in str(e)
    found["dev"] = dev = pk.Device()
    assert any("opened" in line for line in lines)
    found["table"] = dev.tensor(TABLE)


def requests(bad):
    rng = np.random.default_rng(1)
    for i in range(60):
        places = rng.integers(0, 100, int(rng.integers(1, 20))).astype(np.int32)
        if i % 5 == bad:
            places[-1] = 5000
        yield i % 5 == bad, places


def check(results):
    for wrong, places, got in results:
        if wrong:
            assert isinstance(got, pk.IndexRangeError), got
        else:
            np.testing.assert_allclose(got, softmax(TABLE[places]), rtol=1e-5, atol=1e-7)


def in_threads(found):
    def serve(job):
        wrong, places = job
        try:
            rows = pk.embedding(found["table"], found["dev"].tensor(places))
            return wrong, places, pk.softmax(rows).numpy()
        except pk.IndexRangeError as e:
            return wrong, places, e

    with ThreadPoolExecutor(8) as pool:
        check(pool.map(serve, requests(3)))


def in_tasks(found):
    launcher = ThreadPoolExecutor(1)

    def launch(places):
        return pk.softmax(pk.embedding(found["table"], found["dev"].tensor(places)))

    async def serve(wrong, places):
        try:
            y = await asyncio.get_running_loop().run_in_executor(launcher, launch, places)
            return wrong, places, await y.numpy_async()
        except pk.IndexRangeError as e:
            return wrong, places, e

    async def main():
        return await asyncio.gather(*[serve(*job) for job in requests(2)])

    check(asyncio.run(main()))
    launcher.shutdown()


def with_programs(found):
    dev = found["dev"]
    x = dev.zeros((16, 8))
    with dev.capture() as program:
        y = pk.softmax(x)
    assert program.nbytes >= y.nbytes
    lock = threading.Lock()

    def serve(i):
        a = np.full((16, 8), i, np.float32)
        a[:, 0] += 1
        with lock:
            x[...] = a
            program()
            return a, y.numpy()

    with ThreadPoolExecutor(4) as pool:
        for a, got in pool.map(serve, range(20)):
            np.testing.assert_allclose(got, softmax(a), rtol=1e-5)
    for thing in (dev, program):
        try:
            pickle.dumps(thing)
        except TypeError as e:
            assert "cannot be pickled" in str(e)
        else:
            raise AssertionError("a device cannot be sent")


def within_its_memory(found):
    dev = found["dev"]
    burst = [dev.empty(1 << 20, "uint8") for _ in range(32)]
    del burst
    dev.set_memory_budget(8 << 20)
    stats = dev.memory_stats()
    assert stats.current + stats.pooled <= 8 << 20 and stats.internal > 0
    try:
        dev.empty(16 << 20, "uint8")
    except MemoryError as e:
        assert "in use" in str(e) and "pooled" in str(e)
    else:
        raise AssertionError("the budget is a cap")
    in_threads(found)
    dev.set_memory_budget(None)


def sending_tensors(found):
    if "fork" not in multiprocessing.get_all_start_methods():
        return
    with multiprocessing.get_context("fork").Pool(1) as pool:  # which has no device
        try:
            pool.apply(total, (found["table"],))
        except RuntimeError as e:
            assert "spawn" in str(e)
        assert pool.apply(abs, (-3,)) == 3  # the worker lives


def ends_well():
    """With a thread that launches until the end, and an exit code of its own."""
    code = """
import sys, threading, pykernels as pk
x = pk.rand((64, 64))
def work():
    try:
        while True:
            pk.softmax(x)
    except pk.DeviceLostError:
        pass
threading.Thread(target=work, daemon=True).start()
for _ in range(500):
    pk.softmax(x)
print("served")
sys.exit(3)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "served\n"), done


if __name__ == "__main__":
    found = {}
    parts = (
        a_master_looks_first, lambda: one_device(found), lambda: in_threads(found),
        lambda: in_tasks(found), lambda: with_programs(found), lambda: within_its_memory(found),
        lambda: sending_tensors(found), ends_well,
    )  # fmt: skip
    for part in parts:
        part()
    atexit.register(lambda: print("the end:", pk.softmax(found["table"]).shape))
    sys.stdout.flush()
