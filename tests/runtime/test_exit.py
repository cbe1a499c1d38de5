"""The end of the process: whatever is under way, it ends with the exit code of the program."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.conftest import FULL
from tests.runtime._helpers import ADAPTER, ENGINE, ROOT

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]
LAUNCHES = 20_000 if FULL else 1_000
EXITS = 20 if FULL else 1

_BEGIN = f"""
import atexit, gc, os, sys, threading, time
import numpy as np
import pykernels as pk
from pykernels.runtime import ending

ending.SECONDS = 90.0  # ten are not enough for every busy machine with SwiftShader

def open_device():
    return pk.Device({ADAPTER!r}, engine={ENGINE!r})

def ended_by(args):
    # At once: Python may stop the thread after each write.
    os.write(2, f"ended by {{args.exc_type.__name__}}\\n".encode())

def launch(dev, n={LAUNCHES}):
    x, y = dev.rand((4, 64)), dev.empty((4, 64))
    for _ in range(n):
        pk.kernels.softmax(x, y)
    dev.flush()
"""


def exit_of(code: str, *warnings: str) -> subprocess.CompletedProcess[str]:
    """What a script ends with."""
    return subprocess.run(
        [sys.executable, *(warnings or ("-W", "error")), "-c", _BEGIN + textwrap.dedent(code)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), "PYKERNELS_ENGINE": ENGINE},
        timeout=250, capture_output=True, text=True, check=False,
    )  # fmt: skip


KINDS = {
    "a device of ours": """
        dev = open_device()
        launch(dev)
        """,
    "the default device": """
        launch(pk.default_device())
        """,
    "two devices and a program, some of it not submitted": """
        mine, also_mine = open_device(), open_device()
        launch(mine, 300)
        x = also_mine.rand((4, 64))
        with also_mine.capture() as program:
            for _ in range(50):
                pk.kernels.softmax(x, x)
        for _ in range(20):
            program()
        pk.default_device().batch().__enter__()
        x = pk.rand((4, 64))
        for _ in range(500):
            pk.kernels.softmax(x, x)
        """,
    "a thread that launches": """
        dev = open_device()
        def work():
            for _ in range(1000):
                launch(dev, 100)
                time.sleep(0)
        threading.excepthook = ended_by
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        """,
    "a thread that reads": """
        dev = pk.default_device()
        t = dev.rand((64, 64))
        def work():
            while True:
                pk.softmax(t).numpy()
        threading.excepthook = ended_by
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        """,
}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_no_exit_by_a_signal(kind: str) -> None:
    for _ in range(EXITS):
        done = exit_of(textwrap.dedent(KINDS[kind]) + "\nprint('end'); sys.exit(7)")
        assert done.returncode == 7, (done.returncode, done.stderr)
        assert done.stdout == "end\n"
        if "thread" not in kind:
            assert done.stderr == ""
        else:  # it ends, if Python gives it the time
            assert done.stderr in ("", "ended by DeviceLostError\n")


def test_handlers_before_and_after_and_what_is_buffered(tmp_path: Path) -> None:
    code = f"""
    kept = {{}}
    def before():
        try:
            pk.softmax(kept["x"])
        except pk.DeviceLostError as e:
            print("before:", e)
        shared = kept["raw"].create_buffer_with_data(data=b"abcd", usage=4)
        print("shared:", bytes(kept["raw"].queue.read_buffer(shared)))
        try:
            open_device()
        except pk.DeviceLostError as e:
            print("before:", e)
    atexit.register(before)
    dev = pk.default_device()
    kept |= {{"x": dev.rand((4, 64)), "raw": dev.wgpu_device}}
    atexit.register(lambda: print("after:", pk.softmax(kept["x"]).numpy().shape))
    file = open({str(tmp_path / "file")!r}, "w")
    file.write("buffered")
    launch(dev, 500)
    raise SystemExit("the code's own")
    """
    done = exit_of(code, "-W", "ignore")  # the file is never closed
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "after: (4, 64)",
        "before: [device] the process ends",
        "shared: b'abcd'",
        "before: [device] the process ends: no device can be opened any more",
    ]
    assert done.stderr == "the code's own\n"
    assert (tmp_path / "file").read_text() == "buffered"


@pytest.mark.parametrize("device", ["open_device()", "pk.default_device()"])
def test_a_driver_that_is_not_done_in_time(device: str) -> None:
    """Nothing of it is freed, one line says so, and the exit is that of the program."""
    code = f"""
    ending.SECONDS = 0.1
    dev = {device}
    kept = dev.rand((4, 64)), open_device()
    kept[1].rand(4)
    dev._context.engine.signals.done = lambda device, signal: False
    destroyed = []
    type(dev.wgpu_device).destroy = lambda self: destroyed.append(self)
    atexit.register(lambda: launch(dev, 500))
    print("end")
    atexit.register(lambda: print("destroyed:", destroyed))
    sys.exit(7)
    """
    done = exit_of(code)
    assert done.returncode == 7, (done.returncode, done.stderr)
    assert done.stdout == "end\ndestroyed: []\n"
    assert done.stderr.count("\n") == 1 and "nothing of it is freed" in done.stderr


def test_functions_first_used_when_python_ends() -> None:
    code = """
    class Late:
        def __init__(self, use):
            self.use = use
        def __del__(self):
            try:
                self.use()
            except pk.DeviceLostError as e:
                print("told")
            except BaseException as e:
                print("not told:", repr(e))
    a = np.ones((4, 64), np.float32)
    uses = [Late(lambda: pk.softmax(a)), Late(lambda: pk.functional.relu(a)),
            Late(lambda: pk.Device()), Late(lambda: pk.list_adapters())]
    """
    assert exit_of(code).stdout.splitlines() == ["told"] * 4
    more = """
    t = pk.default_device().rand((4, 64))
    u = pk.softmax(t)
    uses += [Late(lambda: t * u), Late(lambda: pk.exp(t)), Late(lambda: pk.softmax(u)),
             Late(lambda: pk.default_device()), Late(t.numpy), Late(lambda: pk.tensor(a))]
    """
    assert exit_of(code + more).stdout.splitlines() == ["told"] * 10
