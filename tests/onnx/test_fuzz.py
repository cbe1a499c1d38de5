"""A few files of tests/onnx/fuzz.py; the command runs thousands."""

from __future__ import annotations

import collections

import pytest

import pykernels as pk
from tests.onnx.fuzz import changed, networks, outcome

pytestmark = pytest.mark.gpu
COUNT = 60


def test_the_networks_are_right(dev: pk.Device) -> None:
    assert [outcome(m, dev).verdict for m in networks()] == ["right"] * 8


def test_a_wrong_file_ends_in_a_model_error_or_in_right_numbers(dev: pk.Device) -> None:
    bases, counts = networks(), collections.Counter[str]()
    for seed in range(COUNT):
        found = outcome(changed(seed, bases), dev)
        assert found.verdict in ("refused", "right", "unchecked"), (seed, found)
        counts[found.verdict] += 1
    assert counts["refused"] > COUNT / 2 and counts["right"] > 2
