"""Runs an ONNX file on pykernels' functions, and compares it with onnxruntime.

    pip install onnx onnxruntime matplotlib
    python examples/onnx_model.py MODEL.onnx --compare

Inputs are normal random numbers unless `--input` names files or numbers. A file may leave
dimensions open: `--shape x=1,3,48,320` sets them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

try:
    import onnx
    from onnx_walker.checking import compare, made_up, trace
    from onnx_walker.fusion import fuse
    from onnx_walker.graph import ModelError
    from onnx_walker.program import Program
    from onnx_walker.reading import input_shapes, load
    from onnx_walker.weights import randomize
except ModuleNotFoundError as e:
    raise SystemExit(f"{e.name} is missing: pip install onnx onnxruntime") from e

import pykernels as pk

Array = np.ndarray[Any, Any]


def read_value(text: str) -> Array:
    """A file of numpy's, or a number."""
    if Path(text).is_file():
        return np.load(text)
    try:
        return np.array(float(text) if "." in text else int(text))
    except ValueError:
        raise ModelError(f"{text} is no file and no number") from None


def pairs(given: list[str] | None) -> dict[str, str]:
    found = [text.partition("=")[::2] for text in given or []]
    for name, value in found:
        if not (name and value):
            raise ModelError(f"{name!r}: write NAME=VALUE")
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="MODEL.onnx")
    parser.add_argument("--compare", action="store_true", help="outputs with onnxruntime's")
    parser.add_argument(
        "--trace", action="store_true", help="each node's, from onnxruntime's inputs"
    )
    parser.add_argument("--profile", action="store_true", help="print the time by kernel")
    parser.add_argument("--input", action="append", metavar="NAME=FILE.npy", help="or a number")
    parser.add_argument("--shape", action="append", metavar="NAME=1,3,48,320")
    parser.add_argument("--seed", type=int, default=0, help="of inputs that are made up")
    parser.add_argument("--random-weights", action="store_true", help="in place of the file's")
    args = parser.parse_args()
    try:
        raise SystemExit(0 if run(args) else 1)
    except ModelError as e:
        raise SystemExit(str(e)) from None


def run(args: argparse.Namespace) -> bool:
    """Is nothing farther from onnxruntime than it may be?"""
    model = onnx.load(str(args.model))
    if args.random_weights:
        randomize(model)
    given = {n: read_value(text) for n, text in pairs(args.input).items()}
    wanted = {n: [int(s) for s in t.split(",")] for n, t in pairs(args.shape).items()}
    shapes = input_shapes(model, wanted | {n: v.shape for n, v in given.items()})
    inputs = made_up(model, shapes, args.seed)
    inputs.update({n: v.astype(inputs[n].dtype) for n, v in given.items()})
    graph = load(model, shapes, given)
    fused = fuse(graph)
    counts = len(model.graph.node), len(graph.nodes), len(fused.nodes)
    print("{} nodes, {} without constants, {} steps".format(*counts))

    device = pk.default_device()
    program = Program(fused, device)
    start = time.perf_counter()
    for name, array in program.run(inputs).items():
        print(f"{name}: {array.dtype} {array.shape}")
    print(f"first run {time.perf_counter() - start:.2f} s, ", end="")
    start = time.perf_counter()
    program.replay()
    device.sync()
    print(f"the next one {1e3 * (time.perf_counter() - start):.1f} ms")
    if args.profile:
        with device.profile() as profile:
            program.replay()
        print(profile.table())
    good = True
    if args.compare:
        for found in compare(model, program, inputs):
            print(found)
            good &= found.fits
    if args.trace:
        traced = list(trace(model, graph, device, inputs))
        worst = max(traced, key=lambda d: max(d.norm / 1e-4, d.largest / 1e-3))
        print(f"{len(traced)} values traced, the worst:", worst, sep="\n")
        for found in traced:
            if not found.fits:
                print(found)
                good = False
    return good


if __name__ == "__main__":
    main()
