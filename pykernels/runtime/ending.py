"""At the end of the process, waits for devices and closes them before Python shuts down.

If a driver's threads still work when the process unloads it, the driver ends the process by a
signal. One exit handler prevents this; the first device registers it. From its start on, launches
of other threads fail. The handler waits for submitted work and closes our devices in the order in
which they were opened. It waits for devices of other code but does not close them. Handlers that
were registered after the first device run earlier and may use devices. A process that was forked
while a device was in use has none of the driver's threads: it ends without the exit handlers of its
C libraries.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import time
from contextlib import suppress

from .context import Context, living
from .engine import ended, forked
from .log import logger

__all__ = ["watch"]

SECONDS = 10.0  # for all devices together


@functools.cache
def watch() -> None:
    """Let the process end well; once is enough."""
    atexit.register(_end)


def _end() -> None:
    ended.set()
    devices = living()
    for context in devices:
        context.kill("the process ends")
    deadline, late = time.monotonic() + SECONDS, devices
    try:
        late = [context for context in devices if not context.end(deadline)]
    finally:  # all of them, where an interrupt ends the waiting
        if late:
            _leave(late)
        elif forked():
            _end_without_drivers()


def _leave(late: list[Context]) -> None:
    """End without what these devices were not done with, and keep all that drivers still use."""
    for context in late:
        context.leak()
    _end_without_drivers()
    names = ", ".join(str(context.facade) for context in late)
    logger.warning("%s still works %g s after the program: nothing of it is freed", names, SECONDS)


def _end_without_drivers() -> None:
    """When Python is through, the process ends with its exit code, and no destructor of a driver's
    runs: under the driver's threads, or, after a fork, where they are not there."""
    with suppress(OSError, AttributeError):  # other systems than those with glibc
        libc = ctypes.CDLL(None)
        # The last one registered runs first.
        libc.on_exit(libc._exit, None)
        libc.on_exit(libc.fcloseall, None)
