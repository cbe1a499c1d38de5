"""At the end of the process, waits for devices and closes them before Python shuts down.

If a driver's threads still work when the process unloads the driver, a signal ends the process. One
exit handler prevents this; the first device registers it. From its start on, launches of other
threads fail. The handler waits for submitted work and closes our devices in the order in which they
were opened. It waits for devices of other code but does not close them. Handlers that were
registered after the first device run earlier and may use devices. A process that was forked while a
device was in use has none of the driver's threads: it ends without the exit handlers of its C
libraries.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import time
from contextlib import suppress

from .context import Context, living
from .log import logger
from .processes import ended, forked

__all__ = ["watch"]

SECONDS = 10.0  # the longest wait, for all devices together


@functools.cache
def watch() -> None:
    """Register the exit handler, once in a process."""
    atexit.register(_end)


def _end() -> None:
    ended.set()
    devices = living()
    for context in devices:
        context.kill("the process ends")
    deadline, late = time.monotonic() + SECONDS, devices
    try:
        late = [context for context in devices if not context.end(deadline)]
    finally:  # if an interrupt ended the wait, `late` has all devices
        if late:
            _leave(late)
        elif forked():
            _end_without_drivers()


def _leave(late: list[Context]) -> None:
    """End although these devices have unfinished work, and keep everything that drivers still
    use."""
    for context in late:
        context.leak()
    _end_without_drivers()
    names = ", ".join(str(context.facade) for context in late)
    logger.warning("%s still works %g s after the program: nothing of it is freed", names, SECONDS)


def _end_without_drivers() -> None:
    """When Python has shut down, end the process with its exit code and without the destructors of
    drivers. The driver's threads may still run, or, after a fork, do not exist."""
    with suppress(OSError, AttributeError):  # systems without glibc
        libc = ctypes.CDLL(None)
        # The handler that is registered last runs first.
        libc.on_exit(libc._exit, None)
        libc.on_exit(libc.fcloseall, None)
