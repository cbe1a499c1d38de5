"""Ctrl-C at any place leaves nothing half done: no wrong result, no held lock, no lost batch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import FULL
from tests.runtime._helpers import ROOT
from tests.runtime.interrupt_scenarios import SCENARIOS
from tests.runtime.interrupt_signals import CALLS
from tests.runtime.interrupt_sweep import server, sweep
from tests.runtime.interrupts import Frames

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]
SIGNALS = 2000 if FULL else 100
# Boundaries of each scenario in the short mode: those of pykernels, those of the engine's package.
SAMPLE: dict[Frames, int] = {"own": 16, "engine": 4}


@pytest.fixture(scope="module", autouse=True)
def processes() -> Iterator[None]:
    yield
    server().close()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("frames", SAMPLE)
@pytest.mark.parametrize("name", SCENARIOS)
def test_an_interrupt_at_any_place(name: str, frames: Frames) -> None:
    found = sweep(name, frames, None if FULL else SAMPLE[frames])
    if found.skip:
        pytest.skip(found.skip)
    if found.wrong:
        pytest.fail(str(found), pytrace=False)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("calls", CALLS)
def test_signals_at_any_time(calls: str) -> None:
    command = [sys.executable, "-m", "tests.runtime.interrupt_signals", calls, str(SIGNALS), "1"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=60 + SIGNALS,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
