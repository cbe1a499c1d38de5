"""The demo: each kernel on a real adapter, checked against numpy in float64, timed on the device.

    python ci/demo.py [--adapter NAME] [--engine wgpu|dawn] [--edge N]

Some of the cases of `pykernels bench`, and a worked example.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pykernels as pk
from pykernels.bench.case import Case
from pykernels.bench.cases import cases, is_main
from pykernels.bench.run import Runner
from pykernels.bench.table import table


def chosen(edge: int) -> Iterator[Case]:
    """The first case of each kernel, and in full size the main cases of all."""
    seen = set()
    for case in cases(edge):
        if case.kernel not in seen or (not edge and is_main(case)):
            yield case
        seen.add(case.kernel)


def worked_example(dev: pk.Device) -> None:
    """A direct call on a view at an odd offset inside a buffer that holds other things."""
    shared = dev.zeros(1000, "float16")
    x = dev.tensor(np.linspace(-4, 4, 21, dtype=np.float32).reshape(3, 7))
    view = shared[501:522].reshape(3, 7)  # starts in the middle of a 32-bit word
    pk.kernels.cpy(x, view)
    pk.kernels.softmax(view, view, scale=0.5)
    host = shared.numpy()
    e = np.exp(x.numpy().astype(np.float16).astype(np.float64) * 0.5)
    error = np.abs(host[501:522].reshape(3, 7) - e / e.sum(-1, keepdims=True)).max()
    untouched = not host[:501].any() and not host[522:].any()
    print(
        "\nWorked example: softmax in place on a float16 view at an odd offset of a shared buffer"
    )
    print(f"  {view!r}")
    print(f"  rows sum to {host[501:522].reshape(3, 7).astype(np.float32).sum(1)}, largest error "
          f"{error:.1e}, neighbours untouched: {untouched}")  # fmt: skip
    if not untouched or error > 1e-3:
        raise SystemExit("the worked example went wrong")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter")
    parser.add_argument("--engine", choices=("wgpu", "dawn"), default="wgpu")
    parser.add_argument("--edge", type=int, help="cut sizes to this; 32 on a software driver")
    args = parser.parse_args()
    try:
        dev = pk.Device(args.adapter, engine=args.engine)
    except pk.NoAdapterError as e:
        raise SystemExit(f"demo: {e}") from None
    slow = dev.info["type"] == "CPU"
    edge = args.edge if args.edge is not None else 32 if slow else 0
    runner = Runner([dev], command="python ci/demo.py")
    runner.ceilings()
    report = runner.run(chosen(edge))
    print(*table(report), sep="\n")
    if dev.info["type"] != "CPU":
        print("share: of the device's own copy, fill or multiply-adds, measured in this run")
    worked_example(dev)
    if report.failed:
        raise SystemExit("demo: some results are wrong")


if __name__ == "__main__":
    main()
