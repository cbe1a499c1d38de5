"""The first call prints nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import pykernels as pk

CODE = """
import os
import pykernels as pk
before = dict(os.environ)
pk.list_adapters({engine!r})
device = pk.Device(engine={engine!r})
assert device.zeros(3).numpy().tolist() == [0, 0, 0]
assert dict(os.environ) == before
"""


@pytest.mark.gpu
def test_the_first_call_prints_nothing_without_a_display(dev: pk.Device) -> None:
    left_out = ("XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY")
    env = {k: v for k, v in os.environ.items() if k not in left_out}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(engine=dev.engine)], env=env, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
