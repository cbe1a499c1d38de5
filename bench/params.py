"""Params in uniform slots (what pykernels does) against immediates, with raw calls, on one engine.

    python -m bench.params [--engine wgpu|dawn] [--launches 256] [--words 42]

Host time per launch of recording, and GPU time per launch of a nearly empty kernel; the kernel adds
one of its params into a buffer, and the sum is checked.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

import pykernels as pk
from pykernels.runtime.engine import get_engine

BODY = """
struct P {{ {members} }}
@group(0) @binding(0) var<storage, read_write> y: array<u32>;
{params}
@compute @workgroup_size(1) fn main() {{ y[0] += p.m0 + p.m{last}; }}
"""


def prepare(device: Any, words: int, immediate: bool) -> tuple[Any, Any, Any]:
    """Pipeline, bind group and result buffer."""
    members = ", ".join(f"m{i}: u32" for i in range(words))
    where = "var<immediate> p: P;" if immediate else "@group(0) @binding(1) var<uniform> p: P;"
    code = BODY.format(members=members, params=where, last=words - 1)
    entries: list[dict[str, Any]] = [
        {"binding": 0, "visibility": 4, "buffer": {"type": "storage"}},
        {"binding": 1, "visibility": 4, "buffer": {"type": "uniform", "has_dynamic_offset": True}},
    ]
    layout = device.create_bind_group_layout(entries=entries[: 1 if immediate else 2])
    options = {"immediate_size": 4 * words} if immediate else {}
    pipeline = device.create_compute_pipeline(
        layout=device.create_pipeline_layout(bind_group_layouts=[layout], **options),
        compute={"module": device.create_shader_module(code=code), "entry_point": "main"},
    )
    y = device.create_buffer(size=4, usage=0x80 | 0x4 | 0x8)
    resources = [{"binding": 0, "resource": {"buffer": y}}]
    if not immediate:
        uniform = device.create_buffer(size=65536, usage=0x40 | 0x8)
        resources.append({"binding": 1, "resource": {"buffer": uniform, "size": 256}})
        return pipeline, device.create_bind_group(layout=layout, entries=resources), (y, uniform)
    return pipeline, device.create_bind_group(layout=layout, entries=resources), (y, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--launches", type=int, default=256)
    parser.add_argument("--words", type=int, default=0, help="params per launch")
    args = parser.parse_args()
    engine = get_engine(args.engine)
    dev = pk.Device(engine=args.engine)
    words = args.words or (32 if args.engine == "wgpu" else 16)
    adapter = engine.adapters()[0]
    wanted = [f for f in ("immediates", "timestamp-query") if f in adapter.features]
    device = adapter.request_device_sync(required_features=wanted)
    ffi, lib, n = engine.ffi, engine.lib, args.launches
    print(f"{dev.info!r}: {n} launches of {words} params")
    for immediate in (False, True):
        pipeline, group, (y, uniform) = prepare(device, words, immediate)
        params = bytearray(np.arange(64, dtype=np.uint32).tobytes() * n)
        offsets = [ffi.new("uint32_t[1]", [256 * i]) for i in range(n)]
        data = ffi.from_buffer("uint8_t[]", params)
        record, total = [], []
        for _ in range(30):
            started = time.perf_counter()
            encoder = device.create_command_encoder()
            p = encoder.begin_compute_pass()
            raw = p._internal
            lib.wgpuComputePassEncoderSetPipeline(raw, pipeline._internal)
            if immediate:
                lib.wgpuComputePassEncoderSetBindGroup(raw, 0, group._internal, 0, ffi.NULL)
                for i in range(n):
                    params[256 * i : 256 * i + 4] = b"\1\0\0\0"
                    lib.wgpuComputePassEncoderSetImmediates(raw, 0, data + 256 * i, 4 * words)
                    lib.wgpuComputePassEncoderDispatchWorkgroups(raw, 1, 1, 1)
            else:
                for i in range(n):
                    params[256 * i : 256 * i + 4] = b"\1\0\0\0"
                    lib.wgpuComputePassEncoderSetBindGroup(raw, 0, group._internal, 1, offsets[i])
                    lib.wgpuComputePassEncoderDispatchWorkgroups(raw, 1, 1, 1)
            p.end()
            commands = encoder.finish()
            if uniform is not None:
                engine.write(device, uniform, 0, memoryview(params))
            recorded = time.perf_counter()
            device.queue.submit([commands])
            value = int(np.frombuffer(device.queue.read_buffer(y), np.uint32)[0])
            record.append((recorded - started) / n)
            total.append((time.perf_counter() - started) / n)
        if value != 30 * n * words % 2**32:
            raise SystemExit(f"wrong sum {value}")
        name = "immediates" if immediate else "uniform slots"
        print(
            f"  {name:<14} record {statistics.median(record) * 1e6:6.2f} us, "
            f"until read back {statistics.median(total) * 1e6:6.2f} us per launch"
        )


if __name__ == "__main__":
    main()
