"""Host cost of a launch: ours against the same work hand-written on the engine's public API.

    python bench/launch_cost.py [--engine wgpu|dawn] [--launches 1000]

The hand-written version has everything cached that a careful user would cache (pipeline, layout,
a bind group per view, params in one uniform buffer) and records into one encoder and pass. Both
outputs are compared with numpy.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pykernels as pk

ROWS, COLS = 4, 64
HAND = """
struct P { x: u32, y: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
var<workgroup> t: array<f32, 64>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) w: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let at = w.x * 64u + li;
  let v = x[p.x + at];
  t[li] = v;
  workgroupBarrier();
  var m = t[0];
  for (var i = 1u; i < 64u; i++) { m = max(m, t[i]); }
  workgroupBarrier();
  let e = exp(v - m);
  t[li] = e;
  workgroupBarrier();
  var s = 0.0;
  for (var i = 0u; i < 64u; i++) { s += t[i]; }
  y[p.y + at] = e / s;
}
"""


def expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


class Hand:
    """The same launches with the public API of wgpu or wgpudawn."""

    def __init__(self, dev: pk.Device, x: pk.Tensor, y: pk.Tensor, launches: int) -> None:
        raw = self.raw = dev.wgpu_device
        buffers: list[dict[str, Any]] = [
            {"type": "read-only-storage"},
            {"type": "storage"},
            {"type": "uniform", "has_dynamic_offset": True},
        ]
        layout = raw.create_bind_group_layout(
            entries=[{"binding": i, "visibility": 4, "buffer": b} for i, b in enumerate(buffers)]
        )
        self.pipeline = raw.create_compute_pipeline(
            layout=raw.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": raw.create_shader_module(code=HAND), "entry_point": "main"},
        )
        size = ROWS * COLS * 4
        params = np.zeros((launches, 64), np.uint32)
        self.uniform = raw.create_buffer(size=params.nbytes, usage=0x40 | 0x8)
        raw.queue.write_buffer(self.uniform, 0, params)
        self.groups = [
            raw.create_bind_group(
                layout=layout,
                entries=[
                    {
                        "binding": 0,
                        "resource": {"buffer": x.buffer, "offset": i * size, "size": size},
                    },
                    {
                        "binding": 1,
                        "resource": {"buffer": y.buffer, "offset": i * size, "size": size},
                    },
                    {"binding": 2, "resource": {"buffer": self.uniform, "offset": 0, "size": 256}},
                ],
            )
            for i in range(launches)
        ]

    def run(self) -> None:
        encoder = self.raw.create_command_encoder()
        p = encoder.begin_compute_pass()
        for i, group in enumerate(self.groups):
            p.set_pipeline(self.pipeline)
            p.set_bind_group(0, group, [i * 256])
            p.dispatch_workgroups(ROWS)
        p.end()
        self.raw.queue.submit([encoder.finish()])


def per_call(dev: pk.Device, call: Callable[[], object], count: int) -> float:
    """Seconds of host time per launch, waiting for the GPU outside the clock."""
    dev.sync()
    started = time.perf_counter()
    call()
    spent = time.perf_counter() - started
    dev.sync()
    return spent / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    n = args.launches
    dev = pk.Device(engine=args.engine)
    host = np.random.default_rng(0).standard_normal((n, ROWS, COLS)).astype(np.float32)
    x, y = dev.tensor(host), dev.zeros(host.shape)
    xs, ys = [x[i] for i in range(n)], [y[i] for i in range(n)]
    kernel = pk.kernels.softmax

    def ours() -> None:
        for a, b in zip(xs, ys, strict=True):
            kernel(a, b)
        dev.flush()

    print(f"{dev.info!r}: {n} launches of softmax ({ROWS}, {COLS}) f32 on distinct views")
    first = per_call(dev, lambda: kernel(xs[0], ys[0]), 1)
    round1 = per_call(dev, ours, n)
    y2 = dev.zeros(host.shape)
    hand = Hand(dev, x, y2, n)
    per_call(dev, hand.run, n)
    pairs = [(per_call(dev, ours, n), per_call(dev, hand.run, n)) for _ in range(args.rounds)]
    mine, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratios = sorted(a / b for a, b in pairs)
    error = max(np.abs(t.numpy() - expected(host)).max() for t in (y, y2))
    if not error < 1e-6:
        raise SystemExit(f"wrong results: {error}")

    new_view = per_call(dev, lambda: [kernel(x[i], y[i]) for i in range(n)], n)
    kernel(y[0], y[0])
    dev.sync()
    before = dev.submits
    chain = per_call(dev, lambda: ([kernel(y[0], y[0]) for _ in range(100)], dev.flush()), 100)
    submits = dev.submits - before
    scalar = y[0, 0, 0]
    read = statistics.median(per_call(dev, scalar.item, 1) for _ in range(50))
    for name, value in (
        ("first call (pipeline, plan)", first),
        ("first round, per launch", round1),
        ("cached call", mine),
        ("hand-written, cached bind groups", theirs),
        ("call with new view objects", new_view),
        ("chain of 100, per launch", chain),
        ("read of one scalar", read),
    ):
        print(f"  {name:<34}{value * 1e6:>10.2f} us")
    print(
        f"  cached / hand-written: {statistics.median(ratios):.2f} (alternated rounds: "
        f"{ratios[0]:.2f} to {ratios[-1]:.2f}); the chain of 100 made {submits} submits"
    )


if __name__ == "__main__":
    main()
