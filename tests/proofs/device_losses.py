"""A device that is lost at each command encoder: what must be true after each.

    python -m tests.proofs.device_losses [SCENARIO ...]     on PYKERNELS_TEST_COLUMN

The device of a scenario is destroyed before the k-th encoder that the run makes, for every k. Then
nothing hangs, the process lives, the results are right or asking for them raises DeviceLostError,
as all later calls do, closing is no error, and a new device works. (Between the end of an encoder
and its submit wgpu ends the process; only its owner can destroy a device there.)
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import pykernels as pk
from tests.proofs.allocation_faults import ALL, report
from tests.runtime._helpers import open_device
from tests.runtime.interrupt_scenarios import Skip

__all__ = ["sweep"]

TIMEOUT = 30.0  # s for one run
ENCODER = "wgpuDeviceCreateCommandEncoder"


class Library:
    """The engine's C functions; the device is destroyed before the k-th encoder."""

    def __init__(self, dev: pk.Device) -> None:
        self.made, self.k = 0, -1
        self._dev, self._lib = dev, dev._context.engine.lib

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._lib, name)
        if name != ENCODER:
            return function

        def create(*args: Any) -> Any:
            at, self.made = self.made, self.made + 1
            if at == self.k:
                self._dev.wgpu_device.destroy()
            return function(*args)

        return create

    @contextmanager
    def losing(self, k: int) -> Iterator[None]:
        self.made, self.k = 0, k
        engine = self._dev._context.engine
        engine.lib = self
        try:
            yield
        finally:
            engine.lib = self._lib


def _run(name: str, k: int) -> tuple[int, bool]:
    """The encoders that a scenario made, and whether the k-th one raised DeviceLostError."""
    dev = open_device()
    scenario = ALL[name](dev)
    scenario.prepare()
    library = Library(dev)
    lost = False
    with library.losing(k):
        try:
            scenario.run()
            scenario.finish()
            for (t, _), after in zip(scenario.outputs, scenario.after, strict=True):
                np.testing.assert_array_equal(t.numpy(), after)
            np.testing.assert_array_equal(scenario.value(), scenario.expected)
        except pk.DeviceLostError:
            lost = True
    if 0 <= k < library.made:  # a run may make one encoder less, as its pace is one of time
        for use in (dev.sync, lambda: dev.zeros(4).numpy()):
            try:
                use()
            except pk.DeviceLostError:
                continue
            raise AssertionError("a lost device was used")
    scenario.drop()
    dev.close()
    return library.made, lost


def attempt(name: str, k: int) -> tuple[int, str]:
    """The encoders of a run, and what is wrong after the loss of the device at one of them."""
    found: list[Any] = []

    def work() -> None:
        try:
            found.extend(_run(name, k))
        except BaseException as e:
            found.extend((0, e if isinstance(e, Skip) else traceback.format_exc()))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    if thread.is_alive():
        return 0, f"no end in {TIMEOUT} s"
    count, out = found
    if isinstance(out, Skip):
        raise out
    wrong = out if isinstance(out, str) else ""
    if k < 0 and out is True:
        wrong = "a device was lost by itself"
    if not wrong:
        dev = open_device()
        if not (pk.softmax(dev.zeros((4, 4))).numpy() == np.float32(0.25)).all():
            wrong = "another device is wrong"
        dev.close()
    return count, wrong


def sweep(name: str) -> tuple[int, list[str]]:
    """The number of encoders of a scenario, and what was wrong after a loss at one of them."""
    count, wrong = attempt(name, -1)
    found = [f"{name}: {wrong}"] if wrong else []
    for k in range(count):
        _, wrong = attempt(name, k)
        if wrong:
            found.append(f"{name}, encoder {k} of {count}: {wrong}")
    return count, found


if __name__ == "__main__":
    sys.exit(report(sweep, "devices lost"))
