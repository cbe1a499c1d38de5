"""pygfx draws on the device of the kernels, whichever is imported or used first.

A process for each case, as wgpu has one default device.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

KERNELS = """
import pykernels as pk
assert pk.softmax(pk.zeros((2, 4))).numpy()[0, 0] == 0.25
"""
PYGFX = """
import pygfx as gfx
from rendercanvas.offscreen import OffscreenRenderCanvas
"""
DRAW = """
import numpy as np
canvas = OffscreenRenderCanvas(size=(8, 8), pixel_ratio=1)
renderer = gfx.WgpuRenderer(canvas)
scene = gfx.Scene().add(gfx.Background.from_color("#0f0"))
canvas.request_draw(lambda: renderer.render(scene, gfx.OrthographicCamera(8, 8)))
assert (np.asarray(canvas.draw()) == (0, 255, 0, 255)).all()
"""
SAME = "assert gfx.renderers.wgpu.get_shared().device is pk.default_device().wgpu_device\n"


def run(code: str) -> str:
    """Python in a process of its own; what it printed."""
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("pygfx draws on lavapipe")
    if not os.environ.get("CI"):
        pytest.importorskip("pygfx")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(PYGFX + KERNELS + DRAW, id="pygfx imported first"),
        pytest.param(PYGFX + DRAW + KERNELS, id="pygfx used first"),
        pytest.param(KERNELS + PYGFX + DRAW, id="kernels called first"),
    ],
)
def test_both_work_on_one_device_in_any_order(code: str) -> None:
    run(code + SAME + KERNELS)


def test_what_comes_too_late_is_told() -> None:
    code = """
try:
    gfx.renderers.wgpu.select_power_preference("low-power")
except pk.FeatureError as e:
    print(e)
gfx.renderers.wgpu.enable_wgpu_features("Float32_Filterable")  # the device has it
"""
    told = run(KERNELS + PYGFX + code)
    assert told == (
        "[default_device] pygfx asks wgpu's default device for power_preference, but pykernels has "
        "made it already: import and configure pygfx before the first call of pykernels\n"
    )
