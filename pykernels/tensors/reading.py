"""Reads that are submitted before their arrays are needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from pykernels.runtime.handle import Handle
from pykernels.runtime.signals import Signal

__all__ = ["PendingRead", "awaited"]

NDArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class PendingRead:
    """A submitted read of a tensor: `Tensor.numpy_later` returns it."""

    __slots__ = ("_error", "_lock", "_signal", "_source", "_steps", "_target")

    def __init__(self, source: Handle, steps: Iterator[Signal], target: NDArray) -> None:
        self._source = source  # the source must live until the read is complete
        self._steps, self._target = steps, target
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._signal = next(steps, None)

    def result(self) -> NDArray:
        """Waits for the copy and returns the array. Further calls return the same array, or raise
        the same error. Any thread may call it. An interrupt of the wait leaves the read pending."""
        with self._lock:
            self._finish()
        return self._target

    def _finish(self) -> None:
        if self._error is not None:
            raise self._error
        while self._signal is not None:
            self._source._context.transfers.complete(self._signal)
            try:
                self._signal = next(self._steps, None)
            except BaseException as e:
                self._error = e
                raise


async def awaited(source: Handle, steps: Iterator[Signal], target: NDArray) -> NDArray:
    """The array after the read from `source`, which must live until then."""
    await source._context.transfers.follow(steps)
    return target
