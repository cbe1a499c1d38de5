"""The memory of captured networks: what the plan says is what the device's pool holds, and little
more than the values that live at once."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import pykernels as pk
from pykernels.onnx.checking import made_up
from pykernels.onnx.program import Program
from pykernels.onnx.shapes import input_shapes
from tests.models.test_networks import LIGHT_FOLDER, read

pytestmark = pytest.mark.gpu
# The file, the shapes of open inputs, and the bytes taken, in times of those in use at once. WebGPU
# refuses a buffer that one dispatch reads and writes, so some values lie apart.
NETWORKS = {
    "detection": ("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 96, 128)}, 1.1),
    "recognition": ("ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 160)}, 1.1),
    "captcha": ("captcha_crnn.onnx", {"image": (1, 3, 60, 160)}, 1.1),
    "squeezenet": ("", {}, 1.25),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_plan_is_what_the_device_holds(name: str, dev: pk.Device, models: Path) -> None:
    file, shapes, most = NETWORKS[name]
    proto = read(models / file if file else LIGHT_FOLDER / f"light_{name}.onnx")
    inputs = made_up(proto, input_shapes(proto, shapes))
    model = pk.onnx.load(proto, device=dev)
    model(inputs)
    program = model.program(inputs)
    assert isinstance(program, Program) and program.captured is not None
    memory = program.captured.memory()
    assert memory.bound == max(memory.live) <= memory.nbytes <= most * memory.bound
    assert f"{memory.nbytes / memory.bound:.2f} of them" in str(memory)
    whole = dict(memory.methods)
    held = dict(program._inputs)  # weights and inputs stay, only the program goes
    gc.collect()
    before = dev.memory_stats().current
    del program
    model._programs.clear()
    gc.collect()
    assert before - dev.memory_stats().current == memory.nbytes
    assert len(held) == len(inputs) and min(whole.values()) == sum(memory.shared)
