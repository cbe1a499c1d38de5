"""bench/precision.py: what its last lines decide, and the lines of code that they name."""

from __future__ import annotations

import math

import pytest

from bench import precision
from tests.checkout import ROOT


@pytest.mark.parametrize(
    ("ratios", "may"),
    [
        ([(1.0, 1.1), (1.1, 0.9)], True),
        ([(1.0, 1.0), (1.11, 1.0)], False),
        ([(1.0, 1.11), (1.0, 1.0)], False),
        ([(1.0, math.nan), (1.0, 1.0)], False),
    ],
)
def test_one_piece_is_the_default_only_with_small_errors(
    ratios: precision.Ratios, may: bool
) -> None:
    assert ("may be the default" in precision.verdict("conv2d", ratios)) == may


def test_without_torch_nothing_is_decided() -> None:
    assert "not decided" in precision.verdict("attention", [])


@pytest.mark.parametrize("family", precision.FAMILIES)
def test_the_line_that_is_named_is_there(family: str) -> None:
    file, _, line = precision.DEFAULTS[family].partition(": ")
    name = line.replace("=", " ").split()[0]
    lines = (ROOT / file).read_text().splitlines()
    assert any(line.strip().startswith(f"{name} =") or f"{name}=" in line for line in lines)
