"""Threads and tasks with requests of all kinds for some seconds; by hand soak.py runs longer."""

from __future__ import annotations

import pytest

from tests.conftest import FULL
from tests.runtime.soak import THREADS, Service, soak

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("dev")]


@pytest.mark.timeout(200)
def test_nothing_is_wrong_misattributed_or_leaked() -> None:
    counts = soak(45.0 if FULL else 10.0)
    assert counts.good, str(counts)
    assert all(counts.requests[kind] >= THREADS for kind in Service.KINDS), str(counts)
    assert counts.raised
