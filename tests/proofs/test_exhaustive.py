"""Every float16 through each operation of one input, pairs of float16, and float32 in wide strides;
`python -m tests.proofs.exhaustive` takes more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.harness import Array
from tests.proofs import exhaustive
from tests.proofs.exhaustive import (
    PARTS,
    blocks,
    casts,
    check,
    floats,
    half_pairs,
    half_unary,
    rows,
)

pytestmark = pytest.mark.gpu
SQRT = next(op for op in rows(1) if op.name == "sqrt")
ADD = next(op for op in rows(2) if op.name == "add")


def numbers() -> Iterator[Array]:
    return blocks(131_071)


@pytest.mark.parametrize("part", PARTS)
def test_no_number_is_wrong(dev: pk.Device, part: str) -> None:
    found = list(check(dev, part, numbers))
    assert found and all(f.right for f in found), "\n".join(str(f) for f in found if not f.right)


def test_strides_and_shards_take_each_number_once() -> None:
    whole = np.concatenate(list(blocks(1023))).view(np.uint32)
    assert whole.size == -(-(1 << 32) // 1023) and (np.diff(whole.astype(np.int64)) == 1023).all()
    parts = [b for n in (1, 2, 3) for b in blocks(1023, (n, 3))]
    assert np.sort(np.concatenate(parts).view(np.uint32)).tobytes() == whole.tobytes()


def test_the_shares_of_two_processes_are_the_whole(dev: pk.Device) -> None:
    [whole] = check(dev, "float32", lambda: blocks(1023), ["sqrt"])
    one, two = (
        next(check(dev, "float32", lambda n=n: blocks(1023, (n, 2)), ["sqrt"]))  # type: ignore[misc]
        for n in (1, 2)
    )
    assert whole.worst == max(one.worst, two.worst) != min(one.worst, two.worst)
    better = min(one, two, key=lambda found: found.worst)
    better.merge(two if better is one else one)
    assert better == whole


def off(op: Any, by: float) -> Any:
    """The operation with results that are a little larger."""
    return replace(op, reference=lambda *x: op.reference(*x) * (1 + by))


def test_a_small_error_is_found(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not floats(dev, off(SQRT, 3e-7), numbers).right
    assert not half_unary(dev, off(SQRT, 2e-3)).right
    assert not half_pairs(dev, off(ADD, 2e-3)).right
    assert casts(dev, "int8", numbers).right
    plain = exhaustive.cpy
    monkeypatch.setattr(exhaustive, "cpy", lambda x, dtype: plain(np.where(x == x, x, 1), dtype))
    found = casts(dev, "float16", numbers)
    assert not found.right and np.isnan(found.at[0])
