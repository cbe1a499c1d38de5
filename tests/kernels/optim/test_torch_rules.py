"""The published rules beside torch itself in float64, where it is installed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels.optim.torch_rules import CASES, compare


@pytest.mark.parametrize(("kind", "args"), [(k, a) for k, _, a in CASES if k != "Lion"])
def test_torch_has_the_same_values(kind: str, args: dict[str, Any]) -> None:
    assert compare(pytest.importorskip("torch"), kind, args) < 1e-12
