"""Runs hand-written WGSL on a device and times it in the same way as the kernels, for ceilings and
naive peers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pykernels.device import Device, Tensor
from pykernels.runtime.blocks import Block
from pykernels.runtime.dispatch import fold

__all__ = ["GROUP_ID", "Program"]

# WGSL that unfolds grids of more than 65,535 workgroups.
GROUP_ID = "fn group_id(w: vec3<u32>) -> u32 { return w.x + (w.y << 15u); }\n"
MOST = 1024  # most dispatches of one submit


class Program:
    """One pipeline and its bind groups, which are used in turn. It is a `Sample`: a call with n
    returns the seconds of n dispatches.

    Bindings are the tensors of a set in order. Launches that the device has recorded run first.
    """

    def __init__(
        self, dev: Device, code: str, sets: Sequence[Sequence[Tensor]], groups: int
    ) -> None:
        self.dev, self.raw = dev, dev.wgpu_device
        self.clock = "timestamps" if "timestamp-query" in dev.features else "wall"
        self.grid = fold("program", groups, dev.limits["max-compute-workgroups-per-dimension"])
        module = self.raw.create_shader_module(code=code)
        self.pipeline = self.raw.create_compute_pipeline(
            layout="auto", compute={"module": module, "entry_point": "main"}
        )
        layout = self.pipeline.get_bind_group_layout(0)
        self.groups = [
            self.raw.create_bind_group(layout=layout, entries=list(map(_entry, range(len(s)), s)))
            for s in sets
        ]
        self.keep = sets
        if self.clock == "timestamps":
            self.query = self.raw.create_query_set(type="timestamp", count=2)
            self.stamps = self.raw.create_buffer(size=16, usage=0x200 | 0x4)
            self.period = dev._context.engine.timestamp_period(self.raw) * 1e-9

    def __call__(self, n: int) -> float:
        self.dev.flush()
        return sum(self._submit(min(MOST, n - at)) for at in range(0, n, MOST))

    def loop(self, n: int) -> float:
        """Seconds of n dispatches, recorded and submitted by hand, and of the sync after them, by
        the host's clock."""
        self.dev.sync()
        started = time.perf_counter()
        for at in range(0, n, MOST):
            self.raw.queue.submit([self._recorded(min(MOST, n - at))])
        self.dev.sync()
        return time.perf_counter() - started

    def _submit(self, n: int) -> float:
        commands = self._recorded(n, stamped=self.clock == "timestamps")
        started = time.perf_counter()
        self.raw.queue.submit([commands])
        if self.clock == "wall":
            self.dev.sync()
            return time.perf_counter() - started
        # This does not use wgpudawn's `read_buffer`, because a signal that arrives inside its
        # Python callback is lost.
        data = self.dev._context.transfers.read(Block(self.stamps), 0, 16)
        begin, end = np.frombuffer(data, np.uint64).tolist()
        return float(max(end - begin, 0) * self.period)

    def _recorded(self, n: int, stamped: bool = False) -> Any:
        """The commands of n dispatches; with `stamped`, there are timestamps before and after
        them."""
        encoder = self.raw.create_command_encoder()
        writes = None
        if stamped:
            writes = {
                "query_set": self.query,
                "beginning_of_pass_write_index": 0,
                "end_of_pass_write_index": 1,
            }
        p = encoder.begin_compute_pass(timestamp_writes=writes)
        p.set_pipeline(self.pipeline)
        for i in range(n):
            p.set_bind_group(0, self.groups[i % len(self.groups)])
            p.dispatch_workgroups(*self.grid)
        p.end()
        if stamped:
            encoder.resolve_query_set(self.query, 0, 2, self.stamps, 0)
        return encoder.finish()


def _entry(binding: int, t: Tensor) -> dict[str, Any]:
    resource = {"buffer": t._block.buffer, "offset": t.offset, "size": -(-t.nbytes // 4) * 4}
    return {"binding": binding, "resource": resource}
