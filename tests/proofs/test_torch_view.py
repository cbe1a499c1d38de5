"""Each function stands beside torch's or has a reason; `python -m tests.proofs.torch_view` runs
them, where torch is installed.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.proofs.torch_samples import EXEMPT, ROWS, samples
from tests.proofs.torch_view import COUNTS, compare


class Numbers:
    """A tensor of another library."""

    def __init__(self, array: Any) -> None:
        self._array = np.asarray(array)

    def numpy(self) -> Any:
        return self._array


def test_each_function_has_a_row_or_a_reason() -> None:
    functions = {n for n in pk.__all__ if n[0].islower() and callable(getattr(pk, n))}
    named = Counter([*ROWS, *(n for names in EXEMPT.values() for n in names.split())])
    assert set(named) == functions
    assert [n for n, count in named.items() if count > 1] == []


def test_each_row_is_pinned_and_draws() -> None:
    pinned = json.loads(COUNTS.read_text())
    assert set(pinned) == set(ROWS) and min(pinned.values()) > 0
    for name in ROWS:
        assert len(list(samples(name, 4, 1))) == 4


@pytest.mark.parametrize(("got", "want", "said"), [
    ([1.0, 2.0], [1.0, 2.0], ""),
    ([1.0, 2.001], [1.0, 2.0], "1 of 2 differ"),
    ([1.0, np.nan], [1.0, 2.0], "1 of 2 differ"),
    ([1.0, 2.0], [1.0, np.nan], "1 of 2 differ"),
    ([[1.0, 2.0]], [1.0, 2.0], "shape (1, 2), not (2,)"),
])  # fmt: skip
def test_what_differs_is_told(got: Any, want: Any, said: str) -> None:
    found = compare(Numbers(np.float32(got)), Numbers(np.float64(want)), "float32")
    assert found.startswith(said) and bool(found) == bool(said)
    assert compare([], [Numbers(1)], "float32") == "0 results, not 1"
    assert compare(Numbers(np.int32([1, 2])), Numbers([1, 3]), "float32") == "1 of 2 differ"
