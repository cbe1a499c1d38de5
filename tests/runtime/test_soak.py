"""Threads and tasks with requests of all kinds for some seconds; by hand soak.py runs longer."""

from __future__ import annotations

import time

import pytest

from tests.conftest import FULL
from tests.runtime import resident
from tests.runtime.soak import THREADS, Service, soak

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


@pytest.mark.timeout(200)
def test_nothing_is_wrong_misattributed_or_leaked() -> None:
    counts = soak(45.0 if FULL else 10.0)
    assert counts.good, str(counts)
    assert all(counts.requests[kind] >= THREADS for kind in Service.KINDS), str(counts)
    assert counts.raised, str(counts)
    if counts.requests.total() > 400:  # on a slow machine some kind may be missing
        assert all(counts.raised[fault] for fault in Service.FAULTS), str(counts)


@pytest.mark.skipif(resident.resident() is None, reason="the platform does not say it")
def test_memory_that_grows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "LONG", 2.0)
    for leak in (0, 2 << 20):
        kept = []
        with resident.Resident(2.0) as found:
            for _ in range(2 * resident.COUNT):
                kept.append(b"x" * leak)
                time.sleep(1.0 / resident.COUNT)
        assert len(found.samples) >= resident.COUNT - 2
        assert bool(found.grown()) == bool(leak), found.samples
