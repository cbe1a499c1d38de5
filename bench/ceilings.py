"""What the device itself reaches: the best copy bandwidth of several ways to copy."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import pykernels as pk

__all__ = ["copy_bandwidth", "timed_pipeline"]

COPY = """
@group(0) @binding(0) var<storage, read> src: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> dst: array<vec4<u32>>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = (w.x + (w.y << 15u)) * 256u + li;
  dst[i] = src[i];
}
"""


def copy_bandwidth(dev: pk.Device, nbytes: int, rounds: int = 10) -> dict[str, float]:
    """Bytes read plus bytes written per second, by way of copying; checked."""
    nbytes = min(nbytes, dev.limits["max-storage-buffer-binding-size"]) // 65536 * 65536
    src, dst = dev.empty(nbytes, "uint8"), dev.zeros(nbytes, "uint8")
    pk.kernels.fill(src, 171)
    dev.sync()
    found = {"driver copy": _driver_copy(dev, src, dst, nbytes, rounds)}
    groups = nbytes // 4096
    grid = (groups, 1) if groups <= 65535 else (32768, -(-groups // 32768))
    found["naive kernel"] = timed_pipeline(dev, COPY, [src, dst], grid, rounds)
    if not (dst[::4093].numpy() == 171).all():
        raise AssertionError("the copies did not arrive")
    return {name: 2 * nbytes / seconds for name, seconds in found.items()}


def _driver_copy(dev: pk.Device, src: pk.Tensor, dst: pk.Tensor, nbytes: int, rounds: int) -> float:
    raw = dev.wgpu_device
    best = float("inf")
    for _ in range(4):
        encoder = raw.create_command_encoder()
        for _ in range(rounds):
            encoder.copy_buffer_to_buffer(src.buffer, 0, dst.buffer, 0, nbytes)
        started = time.perf_counter()
        raw.queue.submit([encoder.finish()])
        dev.sync()
        best = min(best, (time.perf_counter() - started) / rounds)
    return best


def timed_pipeline(
    dev: pk.Device, code: str, tensors: list[pk.Tensor], grid: tuple[int, int], rounds: int
) -> float:
    """Seconds of one dispatch of a hand-written kernel: median over timed passes."""
    raw: Any = dev.wgpu_device
    pipeline = raw.create_compute_pipeline(
        layout="auto",
        compute={"module": raw.create_shader_module(code=code), "entry_point": "main"},
    )
    entries = [
        {"binding": i, "resource": {"buffer": t.buffer, "offset": 0, "size": t.nbytes}}
        for i, t in enumerate(tensors)
    ]
    group = raw.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    timed = "timestamp-query" in dev.features

    def submit(query: Any) -> None:
        encoder = raw.create_command_encoder()
        for i in range(rounds):
            writes = None
            if query is not None:
                writes = {
                    "query_set": query,
                    "beginning_of_pass_write_index": 2 * i,
                    "end_of_pass_write_index": 2 * i + 1,
                }
            p = encoder.begin_compute_pass(timestamp_writes=writes)
            p.set_pipeline(pipeline)
            p.set_bind_group(0, group)
            p.dispatch_workgroups(*grid)
            p.end()
        if query is not None:
            encoder.resolve_query_set(query, 0, 2 * rounds, resolved, 0)
        raw.queue.submit([encoder.finish()])
        dev.sync()

    started = time.perf_counter()
    while time.perf_counter() - started < 0.3:
        submit(None)
    if not timed:
        started = time.perf_counter()
        submit(None)
        return (time.perf_counter() - started) / rounds
    query = raw.create_query_set(type="timestamp", count=2 * rounds)
    resolved = raw.create_buffer(size=16 * rounds, usage=0x200 | 0x4)
    submit(query)
    stamps = np.frombuffer(raw.queue.read_buffer(resolved), np.uint64).reshape(rounds, 2)
    return float(np.median((stamps[:, 1] - stamps[:, 0]).astype(np.float64))) * 1e-9
