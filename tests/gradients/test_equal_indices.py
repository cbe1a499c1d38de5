"""Writes to one place: the gradient goes to the value that stayed, none to those overwritten."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu
INDEX = np.array([2, 0, 2, 1, 0], "i4")
KEPT = [0.0, 0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("n", [5, 700])
def test_of_assignment(dev: pk.Device, n: int) -> None:
    index = np.resize(INDEX, n)
    y, v = dev.ones((4, 2)), dev.ones((n, 2))
    with pk.Tape() as tape:
        z = y * 1
        z[dev.tensor(index)] = v
        loss = pk.sum(z * z)
    dy, dv = tape.gradient(loss, [y, v])
    last = [n - 1 - index[::-1].tolist().index(i) for i in (0, 1, 2)]
    want = np.zeros((n, 2), "f4")
    want[last] = 2
    assert (dv.numpy() == want).all()
    assert dy.numpy().tolist() == [[0, 0]] * 3 + [[2, 2]]


def test_of_scatter_and_set_rows(dev: pk.Device) -> None:
    v = dev.ones(5)
    with pk.Tape() as tape:
        loss = pk.sum(pk.scatter(dev.zeros(3), 0, dev.tensor(INDEX), v))
    assert tape.gradient(loss, [v])[0].numpy().tolist() == KEPT
    rows = dev.ones((5, 2))
    with pk.Tape() as tape:
        dst = dev.zeros((3, 2))
        pk.set_rows(rows, dev.tensor(INDEX), dst)
        loss = pk.sum(dst)
    assert tape.gradient(loss, [rows])[0].numpy()[:, 1].tolist() == KEPT


def test_of_addition_in_place(dev: pk.Device) -> None:
    """As numpy: y[i] is read before, so equal indices add once, the last one's value."""
    y, v = dev.tensor(np.arange(4, dtype="f4")), dev.tensor(np.arange(5, dtype="f4"))
    want = y.numpy()
    want[INDEX] += v.numpy()
    with pk.Tape() as tape:
        z = y * 1
        z[dev.tensor(INDEX)] += v
        loss = pk.sum(z)
    dy, dv = tape.gradient(loss, [y, v])
    assert z.numpy().tolist() == want.tolist()
    assert dv.numpy().tolist() == KEPT
    assert dy.numpy().tolist() == [1, 1, 1, 1]


def test_of_a_masked_number(dev: pk.Device) -> None:
    y = dev.ones(3)
    with pk.Tape() as tape:
        z = y * 3
        z[dev.tensor(np.array([True, False, True]))] = 7
        loss = pk.sum(z)
    assert tape.gradient(loss, [y])[0].numpy().tolist() == [0, 3, 0]
