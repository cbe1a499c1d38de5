"""Ctrl-C at any place leaves nothing half done: no wrong result, no held lock, no lost batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import FULL
from tests.runtime.interrupt_scenarios import SCENARIOS
from tests.runtime.interrupts import Frames, server, sweep

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]
# Boundaries of each scenario in the short mode: those of pykernels, those of the engine's package.
SAMPLE: dict[Frames, int] = {"own": 24, "engine": 6}


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
