"""What pykernels takes from wgpu or wgpudawn, as far as a type checker is concerned.

Neither package ships types. These protocols fit the classes of both. `Explained` is what a device
tells of its plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["Explained", "GPUBuffer", "GPUComputePass", "GPUDevice"]


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


class Explained(Protocol):
    """What `Device.explain` gives; printed, a table."""

    @property
    def choices(self) -> Sequence[Sequence[Any]]:
        """Of each choice its candidates, the one taken first: `choice`, `chosen`, `predicted` and
        `measured` (seconds or None), `why`, `name`."""
        ...

    @property
    def bodies(self) -> tuple[str, ...]:
        """The texts that ran."""
        ...
