"""Processes: what a fork leaves, what may be sent to others, and what says that it may not."""

from __future__ import annotations

import copy
import os
import pickle
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.runtime._helpers import ADAPTER, ENGINE, run_isolated

pytestmark = [
    pytest.mark.gpu, pytest.mark.usefixtures("dev"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
]  # fmt: skip

BEGIN = f"""
import concurrent.futures, multiprocessing as mp, os, sys
import numpy as np
import pykernels as pk

WAIT = 200  # seconds after which it hangs, also on a machine that has other things to do

def open_device():
    return pk.Device({ADAPTER!r}, engine={ENGINE!r})

def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work() or 0)
        finally:
            os._exit(9)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, status

def computes():
    with open_device() as dev:
        assert (pk.softmax(dev.ones((2, 4))).numpy() == 0.25).all()

def total(t):
    return float(pk.sum(t).numpy())

def shape(t):
    return t.shape
"""


def run(code: str) -> str:
    return run_isolated(BEGIN + code, PYKERNELS_ENGINE=ENGINE).stdout


def test_a_master_may_look_at_adapters() -> None:
    """It forks, and parent and children open devices."""
    if "nvidia" in pk.list_adapters("wgpu")[0]["name"].lower():
        pytest.skip("NVIDIA's driver is kept: see the next test")
    code = """
assert pk.list_adapters() and pk.list_adapters(%r)
child(computes)
child(lambda: (pk.list_adapters(), computes())[1])
assert pk.list_adapters()
computes()
def refused():
    try:
        open_device()
    except pk.DeviceLostError as e:
        assert "spawn" in str(e)
        return 0
    return 1
child(refused)
"""
    run(code % ENGINE)


def test_nvidias_driver_is_kept_by_wgpu() -> None:
    """A child is refused with the reason; the master opens devices as ever."""
    code = """
from pykernels.runtime import engine as module
def refused():
    try:
        open_device()
    except pk.DeviceLostError as e:
        return "spawn" not in str(e)
    return 1
e = module.get_engine("wgpu")
module._NVIDIA = e._adapters()[0].info["vendor_id"]
e.lib.wgpuInstanceRelease(e._helpers._the_instance)
e._helpers._the_instance = None
assert pk.list_adapters("wgpu")
child(refused)
computes()
"""
    run(code)


def test_an_engine_that_others_use_is_not_released() -> None:
    code = """
from pykernels.runtime.engine import get_engine
e = get_engine(%r)
adapter = e.module.gpu.request_adapter_sync()
pk.list_adapters(%r)
assert e._helpers._the_instance is not None
adapter.request_device_sync().destroy()
"""
    run(code % (ENGINE, ENGINE))


def test_a_tensor_sent_to_a_forked_worker() -> None:
    """The worker lives, and the error of the task comes back."""
    code = """
if __name__ == "__main__":
    t = open_device().ones((2, 4))
    fork = mp.get_context("fork")
    with fork.Pool(1) as pool:
        for work in (total, shape, total):
            try:
                pool.apply_async(work, (t,)).get(WAIT)
            except pk.DeviceLostError as e:
                print("told" if "spawn" in str(e) else e)
        print(pool.apply_async(abs, (-3,)).get(WAIT), os.getpid() != pool.apply(os.getpid))
    with concurrent.futures.ProcessPoolExecutor(1, fork) as pool:
        try:
            pool.submit(total, t).result(WAIT)
        except pk.DeviceLostError as e:
            print("told")
        print(pool.submit(abs, -3).result(WAIT))
    queue, back = fork.Queue(), fork.Queue()
    def reads():
        got = queue.get()
        try:
            got + 1
        except pk.DeviceLostError as e:
            back.put("told")
    worker = fork.Process(target=reads)
    worker.start()
    queue.put(t)
    print(back.get(timeout=WAIT))
    worker.join(WAIT)
    print(worker.exitcode)
"""
    told = run(code).splitlines()
    assert told == ["told"] * 3 + ["3 True", "told", "3", "told", "0"]


def test_a_model_sent_to_a_forked_worker() -> None:
    """Flat parameters with their views, and an optimiser."""
    code = """
def first(model):
    (flat, views), _ = model
    for use in (views[0].numpy, lambda: pk.sum(views[1]), lambda: flat + 1):
        try:
            use()
        except pk.DeviceLostError as e:
            assert "spawn" in str(e)
        else:
            return "a use that says nothing"
    return len(views)

def step(model):
    (flat, _), optimizer = model
    optimizer.step([flat])

if __name__ == "__main__":
    dev = open_device()
    flat, views = pk.flatten_parameters([dev.ones((2, 2)), dev.zeros(3)])
    model = (flat, views), pk.Adam([flat], lr=0.1)
    with mp.get_context("fork").Pool(1) as pool:
        print(pool.apply_async(first, (model,)).get(WAIT))
        try:
            pool.apply_async(step, (model,)).get(WAIT)
        except pk.DeviceLostError as e:
            print("told")
        print(pool.apply_async(abs, (-3,)).get(WAIT))
"""
    assert run(code).split() == ["2", "told", "3"]


def test_a_forked_child_ends_with_its_exit_code() -> None:
    """Not by a signal of a driver whose threads it does not have; handlers and files as ever."""
    code = """
import atexit
kept = [pk.default_device().ones(3), open_device().ones(3)]
[(t + 1).numpy() for t in kept]
atexit.register(print, "the handler")
pid = os.fork()
if pid == 0:
    print("the child", end=" ")
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(code) == "the child the handler\n7\nthe handler\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_tensor_sent_to_a_fresh_worker(method: str) -> None:
    code = f"""
import operator
t = open_device().ones((2, 4))
with mp.get_context({method!r}).Pool(1) as pool:
    print(pool.apply_async(operator.methodcaller("numpy"), (t,)).get(WAIT).tolist())
"""
    assert run(code) == "[[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]\n"


def test_what_cannot_be_pickled(dev: pk.Device) -> None:
    with dev.capture() as program:
        pk.kernels.fill(dev.empty(4), value=1.0)
    things: list[tuple[Any, str]] = [(dev, "a Device"), (program, "a program")]
    for thing, name in things:
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(pk.DTypeError, match=f"{name} .* cannot be pickled"):
                use(thing)
    again = pickle.loads(pickle.dumps(dev.ones(3)))
    np.testing.assert_array_equal(again.numpy(), np.ones(3, "f4"))
