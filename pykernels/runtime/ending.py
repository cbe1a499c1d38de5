"""The end of the process: devices are waited for and given up before Python takes itself down.

A driver whose threads still work when the process unloads it ends the process by a signal. One
exit handler, registered with the first device, ends that: launches of other threads fail from then
on, what was submitted is waited for, and our devices are closed in the order in which they were
opened. A device of others is waited for and left alone. Handlers that were registered after the
first device run before, and may use devices. A process that was forked while a device was in use
has none of the driver's threads: it ends without the exit handlers of its C libraries.
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
