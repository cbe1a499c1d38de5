"""Rules for engines in a process: after a fork, at its end, and without a display."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pykernels.errors import DeviceLostError

__all__ = ["claim_process", "ended", "forked", "refuse_process", "starting", "without_display"]

_process: list[int] = []
ended = threading.Event()  # set when the process ends; after that no engine starts
starting = threading.RLock()  # held while an engine lists adapters, which may release the engine


def refuse_process() -> None:
    """Raise if the process ends, or was forked after an engine started: drivers would hang."""
    if ended.is_set() or sys.is_finalizing():
        raise DeviceLostError("[device] the process ends: no device can be opened any more")
    if forked():
        raise DeviceLostError(
            "[device] a GPU was in use when this process was forked, and drivers do not survive "
            "that: start the process with the method 'spawn' or 'forkserver', or open no device "
            "before the fork"
        )


def forked() -> bool:
    """True if this process was forked after an engine started."""
    return bool(_process) and _process[0] != os.getpid()


def claim_process() -> None:
    """Call `refuse_process`. From now on it also raises in processes that are forked from this
    process."""
    refuse_process()
    if not _process:
        _process.append(os.getpid())


@contextmanager
def without_display() -> Iterator[None]:
    """If there is no display, disable Mesa's layer that asks the display for its GPU.

    Otherwise each listing of adapters prints `error: XDG_RUNTIME_DIR is invalid`. The Vulkan loader
    reads NODEVICE_SELECT when the engine makes its instance, for the first listing.
    """
    asked = ("DISPLAY", "DRI_PRIME", "MESA_VK_DEVICE_SELECT", "NODEVICE_SELECT")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/") or any(name in os.environ for name in asked):
        yield
        return
    os.environ["NODEVICE_SELECT"] = "1"
    try:
        yield
    finally:
        os.environ.pop("NODEVICE_SELECT", None)


def _after_fork() -> None:
    global starting
    starting = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
