"""Ceilings take some ten seconds of a process: only tests that are about them measure them."""

from __future__ import annotations

import pytest


@pytest.fixture
def ceilings() -> None:
    """The bench measures what the device reaches."""


@pytest.fixture(autouse=True)
def _without_ceilings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "ceilings" not in request.fixturenames and "test_ceilings" not in request.node.nodeid:
        monkeypatch.setenv("PYKERNELS_BENCH_CEILINGS", "0")
