"""Runs an ONNX file on the GPU, and compares it with onnxruntime.

    pip install onnx onnxruntime
    python examples/onnx_model.py MODEL.onnx

Inputs are normal random numbers. `--shape x=1,3,48,320` sets dimensions that a file leaves open.
The command `pykernels onnx` does the same and more.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

try:
    import onnx

    from pykernels.onnx.checking import Reference, difference, made_up
    from pykernels.onnx.shapes import input_shapes
except ModuleNotFoundError as e:
    raise SystemExit(f"{e.name} is missing: pip install onnx onnxruntime") from e

import pykernels as pk


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,48,320")
    args = parser.parse_args()
    shapes = {
        n: [int(s) for s in t.split(",")] for n, _, t in (s.partition("=") for s in args.shape)
    }

    proto = onnx.load(args.file)
    inputs = made_up(proto, input_shapes(proto, shapes))
    model = pk.onnx.load(args.file)
    for title in ("first call", "next call"):  # the first call compiles
        start = time.perf_counter()
        outputs = model(inputs)
        print(f"{title}: {1e3 * (time.perf_counter() - start):.1f} ms")
    wanted = Reference(proto).run(inputs)
    found = [difference(n, "output", outputs[n], wanted[n]) for n in wanted]
    print(*found, sep="\n")
    if not all(d.fits for d in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
