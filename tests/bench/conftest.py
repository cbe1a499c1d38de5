"""Ceilings take some ten seconds of a process: only tests that are about them measure them."""

from __future__ import annotations

import pytest

from pykernels.bench import case, run
from pykernels.bench import ceilings as ceilings_module


@pytest.fixture
def ceilings() -> None:
    """The bench measures what the device reaches."""


@pytest.fixture(autouse=True)
def _small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a server have some 500 MiB: a software driver takes minutes for twice of that."""
    for module in (case, ceilings_module, run):
        monkeypatch.setattr(module, "last_cache", lambda dev: 1 << 20)


@pytest.fixture(autouse=True)
def _without_ceilings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "ceilings" not in request.fixturenames and "test_ceilings" not in request.node.nodeid:
        monkeypatch.setenv("PYKERNELS_BENCH_CEILINGS", "0")
