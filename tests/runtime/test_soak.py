"""Threads and tasks with requests of all kinds for some seconds; by hand soak.py runs longer."""

from __future__ import annotations

import itertools

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


@pytest.mark.skipif(resident.resident() == 0, reason="the platform does not say it")
def test_the_memory_of_the_process_is_read() -> None:
    before = resident.resident()
    kept = b"x" * (64 << 20)
    after = resident.resident()
    assert after - before > 50e6
    assert kept[-1:] == b"x"


@pytest.mark.parametrize(("step", "bad"), [(0.0, False), (0.5, False), (1.0, True)])
def test_memory_that_grows_is_found(
    monkeypatch: pytest.MonkeyPatch, step: float, bad: bool
) -> None:
    """`step` MB a sample: 16 are allowed between quarters that are 20 samples apart."""
    monkeypatch.setattr(resident, "resident", itertools.count(200e6, step * 1e6).__next__)
    for long in (0.1, 1.0):
        monkeypatch.setattr(resident, "LONG", long)
        with resident.Resident(0.5) as found:
            found.wait()
        assert len(found.samples) == resident.COUNT
        # a run that is too short is not judged
        assert bool(found.grown()) == (bad and long == 0.1), found.samples
