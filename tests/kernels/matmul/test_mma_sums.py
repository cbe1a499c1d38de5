"""Are slices short enough for the rule by which a matrix unit adds? The unit in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pykernels.plans.mma import longest_sum

Array = np.ndarray[Any, Any]
STEP = 16  # products that are added to the sum at once


def cut(x: Array, unit: Array) -> Array:
    """Towards zero, to multiples of unit."""
    return np.trunc(x / unit) * unit


def last_place(x: Array) -> Array:
    """Of float32 numbers of this size."""
    return np.exp2(np.floor(np.log2(np.where(x > 0, x, 1))) - 23)


def unit_sums(products: Array) -> Array:
    """Of each row, as an H200 adds: docs/design/matrix-units.md."""
    found = np.zeros(len(products))
    for i in range(0, products.shape[1], STEP):
        terms = np.concatenate([found[:, None], products[:, i : i + STEP]], axis=1)
        kept = cut(terms, last_place(terms.max(axis=1))[:, None] / 4).sum(axis=1)
        found = cut(kept, last_place(kept))
    return found


def worst(k: int, length: int) -> float:
    """The largest error of sums in slices, whose first product outweighs all others and lies just
    above a power of two, as a share of the gate."""
    rng = np.random.default_rng(k)
    products = rng.uniform(1e-5, 1e-4, (max(400, 400_000 // k), k)) * min(1, 200 / k)
    products[:, 0] = 1
    found = np.zeros(len(products), np.float32)
    for i in range(0, k, length):
        found += unit_sums(products[:, i : i + length]).astype(np.float32)
    want = products.sum(axis=1)
    share = np.abs(found - want) / ((np.sqrt(k) + 4) * 2.0**-23 * want)
    return float(share.max())


@pytest.mark.parametrize(
    "k", (33, 64, 65, 100, 130, 200, 256, 272, 400, 470, 600, 715, 1024, 1536, 2048, 4096, 8192)
)
@pytest.mark.parametrize("multiple", (16, 32))
def test_slices_keep_sums_within_the_gate(k: int, multiple: int) -> None:
    length = longest_sum(k, multiple)
    assert length % multiple == 0
    assert worst(k, length) <= 1


@pytest.mark.parametrize("k", (200, 1014, 4096))
def test_longer_ones_do_not(k: int) -> None:
    assert worst(k, 2 * longest_sum(k, 32)) > 1
