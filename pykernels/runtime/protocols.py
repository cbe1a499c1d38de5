"""Protocols that describe to a type checker the objects that pykernels takes from wgpu or wgpudawn.

Neither package ships types. The protocols fit the classes of both. `Explained` and `Debugged` are
the results of `Device.explain` and `Device.debug`; a `Timer` is the interface of a profile that the
command recorder uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

__all__ = [
    "Debugged", "Explained", "GPUBuffer", "GPUComputePass", "GPUDevice", "Note", "TimedBatch",
    "Timer",
]  # fmt: skip


class GPUDevice(Protocol):
    """A GPUDevice."""

    @property
    def adapter(self) -> Any: ...
    @property
    def queue(self) -> Any: ...
    @property
    def features(self) -> Any: ...
    @property
    def limits(self) -> Any: ...


class GPUBuffer(Protocol):
    """A GPUBuffer."""

    @property
    def size(self) -> Any: ...
    @property
    def usage(self) -> Any: ...
    @property
    def map_state(self) -> Any: ...


class GPUComputePass(Protocol):
    """A GPUComputePassEncoder that has not ended."""

    _device: Any

    def set_pipeline(self, pipeline: Any, /) -> object: ...
    def dispatch_workgroups(self, x: int, y: int = 1, z: int = 1, /) -> object: ...
    def end(self) -> object: ...


class Debugged(Protocol):
    """The records of a block of `Device.debug`; each prints as one line."""

    @property
    def records(self) -> Sequence[Any]:
        """Each has `kernel`, `file`, `line`, `invocation`, `label` and `values`; `file` is "" for a
        raw kernel. They are sorted by kernel, then by the order in which they were written. Empty
        before the end of the block."""
        ...

    @property
    def lost(self) -> bool:
        """True if there were more records than the block has room for."""
        ...


class Explained(Protocol):
    """The result of `Device.explain`; it prints as a table."""

    @property
    def choices(self) -> Sequence[Sequence[Any]]:
        """The candidates of each choice, the chosen one first, each with `choice`, `chosen`,
        `predicted` and `measured` (seconds or None), `why`, `name`."""
        ...

    @property
    def bodies(self) -> tuple[str, ...]:
        """The texts that ran."""
        ...


Note: TypeAlias = tuple[str, int, float]  # of a dispatch: its label, bound bytes, time of recording


class TimedBatch(Protocol):
    """The times of one batch."""

    def begin(self, notes: Sequence[Note]) -> Any:
        """Note that a compute pass with these dispatches begins. Returns the timestamps for its
        descriptor."""

    def resolve(self, raw_encoder: Any) -> None:
        """Note that the last pass has ended."""


class Timer(Protocol):
    """A profile that times dispatches, or (`batches`) whole batches."""

    batches: bool
    done: list[Any]  # the submitted batches

    def batch(self) -> TimedBatch:
        """Note that a batch will be encoded. Returns the object that times it."""
        ...
