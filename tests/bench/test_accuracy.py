"""bench/accuracy.py: how an error is counted, what is sampled, and what a broken bound does."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pykernels as pk
from bench import accuracy
from pykernels.reference.elementwise import OPS


def test_errors_are_in_units_in_the_last_place() -> None:
    got = np.float32([1.0, 1.0, 2.0, np.nan, np.inf, np.nan, 0.0])
    want = np.array([1 + 2.0**-24, 1 - 2.0**-23, 2 + 2.0**-21, np.nan, 1e39, 1.0, 2.0**-127])
    np.testing.assert_array_equal(accuracy.errors(got, want), [0.5, 2, 2, 0, 0, np.inf, 0])
    # Infinity is right from half a unit behind the largest number on.
    got, want = np.float16([np.inf, np.inf, 65504]), np.array([65520.0, 65504, 65520])
    np.testing.assert_array_equal(accuracy.errors(got, want), [0.5, 1, 0.5])


@pytest.mark.parametrize("name", ["exp", "log", "acosh", "pow"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_samples_lie_in_the_domain(name: str, dtype: str) -> None:
    op = OPS[name]
    for x, (low, high) in zip(
        accuracy.sample(op, dtype, np.random.default_rng(0)), op.domain, strict=True
    ):
        assert x.dtype == dtype and x.size > 1000
        assert (x.astype(float) >= low).all() and (x.astype(float) <= high).all()


@pytest.mark.gpu
def test_an_operation_beyond_its_bound_is_named(
    dev: pk.Device,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(accuracy, "SIZE", 1 << 12)
    monkeypatch.setattr(accuracy, "RESULTS", tmp_path)
    given = ["--driver", dev.info["name"], "--engine", dev.engine, "--only", "exp"]
    monkeypatch.setattr(sys, "argv", ["accuracy", "here", *given])
    assert accuracy.main() == 0
    monkeypatch.setattr(accuracy, "OPS", {"exp": replace(OPS["exp"], ulp=0.1)})
    assert accuracy.main() == 1
    assert "beyond the bound of their rows: exp" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
