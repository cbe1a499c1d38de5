"""Compares the times of networks from ONNX files, on pykernels and on ONNX Runtime.

    python -m bench.onnx_files [FILE ...] [--shape NAME=1,3,48,320] [--engine ENGINE]
                               [--adapter NAME] [--small] [--rounds N] [--save FILE]

Without files it runs ResNet-50 of the package onnx, with random weights and without its softmax,
and the networks of PP-OCR and a CRNN in .tools/models (`bash ci/setup.sh` downloads them). Inputs
are normal random numbers; text detection gets a page of text. The shapes of inputs come from KNOWN
below, or from `--shape`.

Outputs are checked first against onnxruntime on the CPU, within the bounds of
`pykernels/onnx/checking.py`: ours (captured and not), and the outputs of ONNX Runtime's WebGPU
provider, whose differences beyond the bounds only give a note. Times are milliseconds of a call:
the median over rounds that measure all columns in turn, each as a loop of calls. The calls of both
libraries take and return numpy arrays, because in Python the WebGPU provider cannot bind inputs to
tensors on the device. GPU time is measured by timestamps on captured calls, without transfers. ONNX
Runtime uses all of its graph optimizations.

The provider is in the package onnxruntime-webgpu. It contains the same module as the package
onnxruntime, so install only one of them. Without the provider, its column is empty. Rows are
written into the file of bench.networks, in the same form.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

import pykernels as pk
from bench.rows import ROOT, Loop, Row, Table, arguments, run, timed
from pykernels.bench import onnx as peer
from pykernels.bench.case import CheckFailed
from pykernels.bench.clock import GpuSample
from pykernels.bench.run import Skipped
from pykernels.onnx import ModelError, checking
from pykernels.onnx.fusion import fuse
from pykernels.onnx.program import Program
from pykernels.onnx.random_weights import randomize
from pykernels.onnx.reader import load
from pykernels.onnx.shapes import input_shapes

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
MODELS = ROOT / ".tools" / "models"
LIGHT_FOLDER = Path(onnx.__file__).resolve().parent / "backend" / "test" / "data" / "light"
WEBGPU, CPU = "ORT WebGPU", "ORT CPU"
COLUMNS = ("uncaptured", "captured", "GPU", WEBGPU, CPU)
TABLE = Table("python -m bench.onnx_files", COLUMNS, WEBGPU, 48)


def page(shape: Shape, rng: np.random.Generator) -> Array:
    """A light image with dark bars, like lines of text. (For noise, text detection returns
    probabilities below 1e-7. In results of that size, no digit of onnxruntime's sigmoid is
    exact.)"""
    x = 0.9 + 0.05 * rng.standard_normal(shape)
    for row in range(8, shape[2] - 12, 24):
        x[:, :, row : row + 10, 12:-12] -= 1.5 * (rng.random(shape[3] - 24) < 0.6)
    return x.astype(np.float32)


class Known(NamedTuple):
    """A known file: its path, the shapes of its inputs, the shapes for `--small`, and a function
    that makes inputs if they are not random."""

    folder: Path
    shapes: Mapping[str, Shape]
    small: Mapping[str, Shape]
    make: Callable[[Shape, np.random.Generator], Array] | None = None


KNOWN = {
    "light_resnet50.onnx": Known(LIGHT_FOLDER, {}, {}),
    "ch_PP-OCRv4_det_infer.onnx": Known(
        MODELS, {"x": (1, 3, 640, 640)}, {"x": (1, 3, 64, 96)}, page
    ),
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": Known(
        MODELS, {"x": (6, 3, 48, 192)}, {"x": (2, 3, 48, 192)}
    ),
    "PP-OCRv6_det_small.onnx": Known(MODELS, {"x": (1, 3, 640, 640)}, {"x": (1, 3, 64, 96)}, page),
    "PP-OCRv6_rec_small.onnx": Known(MODELS, {"x": (6, 3, 48, 320)}, {"x": (1, 3, 48, 64)}),
    "captcha_crnn.onnx": Known(MODELS, {"image": (8, 3, 60, 160)}, {"image": (1, 3, 60, 160)}),
    "ch_PP-OCRv4_rec_infer.onnx": Known(MODELS, {"x": (6, 3, 48, 320)}, {"x": (1, 3, 48, 64)}),
}


def read(file: Path) -> onnx.ModelProto:
    """Read a file. A file of the package onnx has no weights, so it gets random weights. Its
    softmax is removed, because the softmax of the large logits would be a single 1 and zeros."""
    model = onnx.load(str(file))
    if file.parent != LIGHT_FOLDER:
        return model
    randomize(model)
    last = model.graph.node[-1]
    if last.op_type == "Softmax":
        del model.graph.node[-1]
        logits = onnx.helper.make_tensor_value_info(last.input[0], 1, None)
        model.graph.output[0].CopyFrom(logits)
    return model


class Bench:
    """The rows of one device."""

    def __init__(self, dev: pk.Device, small: bool, rounds: int) -> None:
        self.dev, self.small, self.rounds = dev, small, rounds
        self.ort: Any = None
        self.peers = "ONNX Runtime on WebGPU"
        try:
            _, self.ort = peer.modules()
        except Skipped as e:
            self.peers = f"{WEBGPU} is empty: {e}"

    def run(self, files: Iterable[Path], shapes: Mapping[str, Shape]) -> Iterator[Row]:
        """Measure these files; `shapes` replace the known shapes."""
        for file in files:
            yield self._row(file, shapes)

    def _row(self, file: Path, shapes: Mapping[str, Shape]) -> Row:
        model, known = read(file), KNOWN.get(file.name, Known(file.parent, {}, {}))
        found = input_shapes(model, {**(known.small if self.small else known.shapes), **shapes})
        inputs = checking.made_up(model, found)
        if known.make:
            rng = np.random.default_rng(0)
            inputs = {n: known.make(s, rng) for n, s in found.items()}
        sizes = " ".join("x".join(map(str, s)) for s in found.values())
        row = Row(f"{file.stem} {sizes}", allowed=checking.NORM)
        reference = checking.Reference(model, spinning=True)  # as it is fastest: it is timed
        want = reference.run(inputs)
        loops = self._ours(row, Program(fuse(load(model, found)), self.dev), inputs, want)
        loops |= self._theirs(row, model, inputs, want)
        loops[CPU] = timed(lambda: reference.run(inputs))
        return row.measure(loops, self.rounds, self.small)

    def _ours(
        self, row: Row, program: Program, inputs: Mapping[str, Array], want: Mapping[str, Array]
    ) -> dict[str, Loop]:
        # The first call captures, and the second call replays the capture.
        for outputs in (program.run(inputs), program.run(inputs)):
            for d in differences(outputs, want):
                row.error = max(row.error, d.norm)
                if not d.fits:
                    raise CheckFailed(f"{row.name}: {d}")
        gpu = GpuSample(self.dev, program.replay)
        gpu(1)
        row.dispatches = gpu.dispatches
        return {
            "uncaptured": timed(lambda: program.walk(inputs)),
            "captured": timed(lambda: program.run(inputs)), "GPU": gpu,
        }  # fmt: skip

    def _theirs(
        self, row: Row, model: onnx.ModelProto, inputs: Mapping[str, Array],
        want: Mapping[str, Array],
    ) -> dict[str, Loop]:  # fmt: skip
        """The loops of the WebGPU provider, if it runs this network."""
        if self.ort is None:
            return {}
        try:
            session = peer.opened(self.ort, model.SerializeToString(), inputs, optimized=True)
        except Skipped as e:
            row.notes.append(str(e))
            return {}
        found = dict(zip(want, session.run(list(want), inputs), strict=True))
        row.notes += [f"{WEBGPU}: {d}" for d in differences(found, want) if not d.fits]
        return {WEBGPU: timed(lambda: session.run(None, inputs))}


def differences(found: Mapping[str, Array], want: Mapping[str, Array]) -> list[checking.Difference]:
    """The difference of each output."""
    return [checking.difference(n, "output", found[n], a) for n, a in want.items()]


def chosen(args: argparse.Namespace) -> list[Path]:
    """The named files, or the known files that exist."""
    if args.files:
        return [file.resolve() for file in args.files]
    files = [known.folder / name for name, known in KNOWN.items()]
    for file in files:
        if not file.exists():
            print(f"no {file}: `bash ci/setup.sh` downloads it")
    return [file for file in files if file.exists()]


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--shape", action="append", metavar="NAME=1,3,48,320")
    args = parser.parse_args(argv)

    def begin(dev: pk.Device, small: bool) -> tuple[str, Iterable[Row]]:
        bench = Bench(dev, small, args.rounds)
        pairs = (text.partition("=") for text in args.shape or ())
        shapes = {n: tuple(map(int, t.split(","))) for n, _, t in pairs}
        return bench.peers, bench.run(chosen(args), shapes)

    try:
        run(args, TABLE, begin)
    except ModelError as e:
        raise SystemExit(str(e)) from None


if __name__ == "__main__":
    main()
