"""Networks that others made: all that is inside them as in onnxruntime, and their outputs.

Some run on two columns always. All run in the full mode: those that are small on every column, the
large ones on lavapipe.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest

import pykernels as pk
from bench.onnx_files import LIGHT_FOLDER, page, read
from pykernels.onnx.checking import compare, made_up, trace
from pykernels.onnx.fusion import fuse
from pykernels.onnx.program import Program
from pykernels.onnx.reader import load
from pykernels.onnx.shapes import input_shapes
from tests.conftest import COLUMN, FULL
from tests.models.conftest import ROOT

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1800)]

Inputs = dict[str, np.ndarray[Any, Any]]
LAVAPIPE = "wgpu-lavapipe"


class Network(NamedTuple):
    """A file, the shapes of inputs that it leaves open, the columns that run it always, and whether
    it is large."""

    file: str
    shapes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    always: tuple[str, ...] = ()
    large: bool = False
    inputs: Callable[[np.random.Generator], Inputs] = lambda _: {}


RATE = {"sr": np.array(16000)}
NETWORKS = {
    "detection": Network(
        "ch_PP-OCRv4_det_infer.onnx", always=(LAVAPIPE,),
        inputs=lambda rng: {"x": page((1, 3, 64, 96), rng)},
    ),
    "direction": Network(
        "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (2, 3, 48, 192)}, ("wgpu-swiftshader",)
    ),
    "recognition": Network("ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 64)}, large=True),
    "magika": Network(
        "magika.onnx", large=True,
        inputs=lambda rng: {"bytes": rng.integers(0, 257, (1, 2048), np.int32)},
    ),
    "basic_pitch": Network("nmp.onnx", large=True),
    "silero_vad": Network("silero_vad.onnx", {"input": (1, 576), "state": (2, 1, 128)},
                          inputs=lambda _: RATE),
    "silero_vad_op15": Network("silero_vad_16k_op15.onnx", {"input": (1, 576)},
                               inputs=lambda _: RATE),
    "silero_vad_op18": Network("silero_vad_op18_ifless.onnx", {"input": (1, 576)}, (LAVAPIPE,),
                               inputs=lambda _: RATE),
    "silero_vad_half": Network("silero_vad_half.onnx", {"input": (1, 576)}),
    "silero_vad_openvino": Network("silero_vad_openvino_16k.onnx"),
    "silero_vad_sequence": Network("silero_vad_16k_sequence.onnx", {"input": (3, 576)},
                                   ("wgpu-swiftshader",)),
    "captcha_crnn": Network("captcha_crnn.onnx", {"image": (1, 3, 60, 160)}, large=True),
    "romanizer_encoder": Network(
        "romanizer_encoder.onnx", {"src": (2, 7), "src_mask": (2, 7)}, (LAVAPIPE,),
        inputs=lambda rng: {"src": rng.integers(1, 30, (2, 7)),
                            "src_mask": np.arange(7) >= np.array([[7], [5]])},
    ),
    "romanizer_decoder": Network(
        "romanizer_decoder.onnx",
        {"prefix": (2, 3), "memory": (2, 7, 256), "src_mask": (2, 7), "hidden": (2, 2, 256)},
        ("wgpu-swiftshader",),
        inputs=lambda rng: {"prefix": rng.integers(1, 30, (2, 3)),
                            "src_mask": np.arange(7) < np.array([[7], [5]])},
    ),
    "seizures": Network("modelA_paper.onnx", {"x": (1, 100, 24)}, (LAVAPIPE,)),
    "spindles": Network(
        "spindle-detector-eeg.onnx",
        {"raw_signal": (1, 1, 7500), "spectrogram": (1, 15, 7500)}, large=True,
    ),
    "detection_v6": Network(
        "PP-OCRv6_det_small.onnx", large=True,
        inputs=lambda rng: {"x": page((1, 3, 64, 96), rng)},
    ),
    "recognition_v6": Network("PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 64)}, large=True),
}  # fmt: skip
LIGHT = (
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
    "squeezenet", "vgg19", "zfnet512",
)  # fmt: skip


def check(
    model: onnx.ModelProto, dev: pk.Device, shapes: Mapping[str, tuple[int, ...]], given: Inputs,
    runs: int = 2,
) -> None:  # fmt: skip
    """All inner values, each from onnxruntime's inputs, and the outputs from ours, of the run that
    goes node by node, and of one that is captured."""
    found = input_shapes(model, dict(shapes) | {n: v.shape for n, v in given.items()})
    inputs = made_up(model, found)
    inputs.update({n: v.astype(inputs[n].dtype) for n, v in given.items()})
    graph = load(model, found, given)
    traced = list(trace(model, graph, dev, inputs))
    assert len(traced) >= len(graph.nodes)
    assert not [str(d) for d in traced if not d.fits]
    program = Program(fuse(graph), dev)
    for _ in range(runs):
        differences = compare(model, program, inputs)
        assert len(differences) == len(model.graph.output)
        assert not [str(d) for d in differences if not d.fits]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_as_in_onnxruntime(name: str, dev: pk.Device, models: Path) -> None:
    network = NETWORKS[name]
    if not FULL and COLUMN not in network.always:
        pytest.skip("ci/test.sh --full runs it")
    if network.large and COLUMN.endswith("swiftshader"):
        pytest.skip("large: on lavapipe and GPUs only")
    given = network.inputs(np.random.default_rng(0))
    check(onnx.load(str(models / network.file)), dev, network.shapes, given)


@pytest.mark.skipif(not FULL, reason="ci/test.sh --full runs it")
@pytest.mark.skipif(COLUMN.endswith("swiftshader"), reason="large: on lavapipe and GPUs only")
@pytest.mark.parametrize("name", LIGHT)
def test_a_light_network_with_random_weights(name: str, dev: pk.Device) -> None:
    check(read(LIGHT_FOLDER / f"light_{name}.onnx"), dev, {}, {}, runs=1)


def test_text_of_a_picture(models: Path, dev: pk.Device, tmp_path: Path) -> None:
    """The three networks, one behind the other, read what onnxruntime reads, and what is there."""
    if COLUMN not in ("", LAVAPIPE):
        pytest.skip("large: on lavapipe and GPUs only")
    picture = tmp_path / "ocr.png"
    command = [sys.executable, "examples/ocr.py", str(models), "--save", str(picture)]
    run = subprocess.run(
        command, cwd=ROOT, env=os.environ.copy(), capture_output=True, text=True, timeout=1700
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "'read twice'" in run.stdout
    assert picture.stat().st_size > 1000
