"""Gradients by windows of an allocation, against an array of the allocation's size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.tape._entry import Place, place_of
from pykernels.tape._sums import Sums

pytestmark = pytest.mark.gpu

SIZE = 24
SHAPES = ((24,), (4, 6), (2, 3, 4))


def window(rng: np.random.Generator) -> Any:
    """A view of SIZE elements in a row, as a function."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    index: list[Any] = []
    for n in shape:
        a, b = sorted(rng.choice(n + 1, 2, replace=False))
        step = int(rng.choice([1, 1, 1, 2, -1]))
        part = (
            slice(int(a), int(b), step)
            if step > 0
            else slice(int(b) - 1, int(a) - 1 if a else None, -1)
        )
        index.append(rng.choice([slice(None), part, int(a)], p=[0.5, 0.4, 0.1]))
    order = rng.permutation(sum(isinstance(i, slice) for i in index))

    def of(x: Any) -> Any:
        view = x.reshape(shape)[(*index, ...)]
        return view.transpose(*map(int, order)) if len(order) > 1 else view

    return of


@pytest.mark.parametrize("seed", range(12))
def test_windows_add_up(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    base, mirror, sums = dev.empty(SIZE), np.zeros(SIZE), Sums()
    given, taken = [], []  # nobody may change what was given or taken
    for _ in range(25):
        of = window(rng)
        view, here = of(base), of(mirror)
        place = place_of(view)
        kind = rng.choice(["add", "add", "add", "take", "pop", "clear"])
        if kind == "add":
            values = rng.integers(-9, 9, view.shape).astype(np.float32)
            grad = dev.tensor(values)
            if rng.random() < 0.3 and view.ndim:  # of stride 0
                values = np.broadcast_to(values[:1], values.shape)
                grad = grad[:1].broadcast_to(view.shape)
            sums.add(place, grad)
            here += values
            given.append((grad, values))
            continue
        reached = sums.reached(place.record, *place.window)
        if kind == "clear":
            sums.clear(place.record, *place.window)
            lo, hi = (n // 4 for n in place.window)
            mirror[lo:hi] = 0
            continue
        found = sums.take(place) if kind == "take" else sums.pop(place)
        assert (found is not None) == reached
        if found is not None:
            taken.append((found, here.copy()))
        else:
            assert not here.any()
        if kind == "pop":
            here[...] = 0
    whole = Place(place_of(base).record, base._layout, 0, None)
    taken.append((sums.take(whole), mirror))
    for found, want in (*given, *taken):
        got = np.zeros(want.shape) if found is None else found.numpy()
        np.testing.assert_array_equal(got, want)
