"""A few Fourier transforms of drawn lengths; `python -m tests.proofs.fourier` makes 500."""

from __future__ import annotations

from typing import Any

import pytest

import pykernels as pk
from tests.kernels.fft.test_fft import ONE, SEVERAL
from tests.proofs.fourier import drawn, wrong_calls

pytestmark = pytest.mark.gpu


def test_no_call_is_wrong(dev: pk.Device) -> None:
    assert wrong_calls(dev, range(4), most=1024) == []


def test_a_wrong_function_is_found(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One result in a hundred thousand too large: 25 times the bound at these lengths."""
    for name in (*ONE, *SEVERAL):
        right = getattr(pk.fft, name)

        def wrong(*args: Any, right: Any = right, **options: Any) -> pk.Tensor:
            return right(*args, **options) * (1 + 1e-5)

        monkeypatch.setattr(pk.fft, name, wrong)
    found = wrong_calls(dev, range(3), most=64)
    assert len(found) == 3 and all("of the bound" in line for line in found), found


def test_lengths_are_of_all_sizes() -> None:
    lengths = [n for seed in range(50) for n in drawn(seed, 16384)]
    assert min(lengths) == 1 and 12_000 < max(lengths) <= 16384
    assert len(set(lengths)) > 400
    assert 0.4 < sum(n < 128 for n in lengths) / len(lengths) < 0.6
