"""A few files of tests/onnx/fuzz.py; the command runs thousands."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator

import pytest

import pykernels as pk
from tests.onnx.fuzz import changed, networks, outcome
from tests.onnx.fuzz_peer import Peer

pytestmark = pytest.mark.gpu
COUNT = 60


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with contextlib.closing(Peer()) as found:
        yield found


def test_the_networks_are_right(dev: pk.Device, peer: Peer) -> None:
    assert [outcome(m, dev, peer).verdict for m in networks()] == ["right"] * 10


def test_a_wrong_file_ends_in_a_model_error_or_in_right_numbers(dev: pk.Device, peer: Peer) -> None:
    bases, counts = networks(), collections.Counter[str]()
    for seed in range(COUNT):
        found = outcome(changed(seed, bases), dev, peer)
        assert found.verdict in ("refused", "right", "unchecked"), (seed, found)
        counts[found.verdict] += 1
    assert counts["refused"] > COUNT / 2 and counts["right"] > 2
