"""Indices of arrays, read and assigned, against numpy: random ones, gradients, errors, captures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]


def array_item(rng: np.random.Generator, n: int, shape: tuple[int, ...]) -> Array:
    kind = ("int32", "int64", "uint8", "int8")[int(rng.integers(4))]
    low = 0 if kind == "uint8" else -n
    return rng.integers(low, n, shape).astype(kind)


def random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Items for some of the axes: what numpy takes, at least one of them an array."""
    common = tuple(int(v) for v in rng.integers(1, 4, rng.integers(1, 3)))
    items: list[Any] = []
    axis, ellipsis, arrays = 0, False, 0
    while axis < len(shape):
        choice = rng.random()
        n = shape[axis]
        if choice < 0.1:
            items.append(None)
            continue
        if choice < 0.2 and not ellipsis:
            items.append(Ellipsis)
            axis += int(rng.integers(0, len(shape) - axis + 1))
            ellipsis = True
            continue
        if choice < 0.35:
            items.append(int(rng.integers(-n, n)))
        elif choice < 0.55:
            step = int(rng.choice([1, 2, -1]))
            items.append(slice(None, None, step) if rng.random() < 0.5 else slice(0, n - 1))
        elif choice < 0.65 and not arrays:
            k = int(rng.integers(1, min(2, len(shape) - axis) + 1))
            mask = np.zeros(shape[axis : axis + k], bool)
            mask.reshape(-1)[rng.integers(0, mask.size, 2)] = True
            items.append(mask)
            axis, arrays, common = axis + k, arrays + 1, (int(mask.sum()),)
            continue
        else:
            own = [1 if rng.random() < 0.2 else v for v in common]
            items.append(array_item(rng, n, tuple(own[int(rng.integers(0, len(own))) :])))
            arrays += 1
        axis += 1
    return tuple(items)


def as_given(rng: np.random.Generator, dev: pk.Device, item: Any) -> Any:
    """An array as one of numpy's, a list, or a tensor."""
    if not isinstance(item, np.ndarray):
        return item
    return (item, item.tolist(), dev.tensor(item))[int(rng.integers(3))]


@pytest.mark.sample
@pytest.mark.parametrize("seed", range(4))
def test_random_indices_are_numpys(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    done = 0
    for _ in range(400):
        shape = tuple(int(v) for v in rng.integers(1, 6, rng.integers(1, 5)))
        index = random_index(rng, shape)
        x = rng.integers(-100, 100, shape).astype(("f4", "f2", "i1", "i8")[int(rng.integers(4))])
        order = rng.permutation(len(shape))
        t = dev.tensor(np.ascontiguousarray(x.transpose(order))).transpose(*np.argsort(order))
        try:
            want = x[index]
        except IndexError:  # too many indices behind an Ellipsis
            continue
        if not any(isinstance(item, np.ndarray) for item in index):
            continue
        given = tuple(as_given(rng, dev, item) for item in index)
        if len(given) == 1 and rng.random() < 0.5:
            given = given[0]
        done += 1
        got = t[given]
        assert got.shape == want.shape and (got.numpy() == want).all(), (shape, index)
        value = rng.integers(-100, 100, want.shape).astype(x.dtype)
        if want.ndim and rng.random() < 0.3:
            value = value[:1]
        if rng.random() < 0.2:
            value = x.dtype.type(7)
        x[index] = value
        t[given] = dev.tensor(value) if value.ndim and rng.random() < 0.5 else value
        assert (t.numpy() == x).all(), (shape, index, value)
        if x.dtype != np.int64:
            x[index] += x.dtype.type(3)
            t[given] += 3
            assert (t.numpy() == x).all(), (shape, index)
        if done == 60:
            break
    dev.sync()
    assert done > 30


def test_what_is_usual(dev: pk.Device) -> None:
    x = np.arange(24, dtype="f4").reshape(4, 6)
    t = dev.tensor(x)
    i, j = np.array([0, -1, 2]), np.array([5, 0, -6])
    assert (t[[0, 2]].numpy() == x[[0, 2]]).all()
    assert (t[i].numpy() == x[i]).all() and (t[:, j].numpy() == x[:, j]).all()
    assert (t[i, j].numpy() == x[i, j]).all()
    assert (t[dev.tensor(i), dev.tensor(j)].numpy() == x[i, j]).all()
    assert (t[i[:, None], j].numpy() == x[i[:, None], j]).all()
    assert (t[x > 7].numpy() == x[x > 7]).all() and (t[t > 7].numpy() == x[x > 7]).all()
    assert t[[]].shape == (0, 6) and t[:, np.zeros(0, int)].shape == (4, 0)
    rows = t[[1, 1]]
    rows[...] = 0
    assert (t.numpy() == x).all()  # a copy
    t[1:][[0, 0], [1, 1]] = np.array([7, 8])  # of a view: the last one stays
    assert t.numpy()[1, 1] == 8


def test_sequences_and_arrays_of_one_number(dev: pk.Device) -> None:
    x = np.arange(24, dtype="f4").reshape(4, 3, 2)
    one = np.array(1)
    for index in (
        one, (one, one), (one, ..., one), (slice(None), one), (one, [0, 2]), ([0, 2], 1, one),
        (one, None), range(2), (range(1, 3), (0, 2)), ((0, 1), slice(1)), np.array(-4, "i1"),
    ):  # fmt: skip
        t, own = dev.tensor(x), x.copy()
        got = t[index]
        assert got.shape == x[index].shape and (got.numpy() == x[index]).all(), index
        got[...] = 99  # a copy
        own[index] = -own[index]
        t[index] = -t[index]
        assert (t.numpy() == own).all(), index


def test_indices_of_few_bits_into_long_axes(dev: pk.Device) -> None:
    x = np.arange(2 * 70000, dtype="f4").reshape(2, 70000)
    t = dev.tensor(x)
    for dtype in ("int8", "uint8", "int16", "uint16"):
        index = np.array([0, 100] if dtype[0] == "u" else [-1, -100, 7]).astype(dtype)
        assert (t[:, index].numpy() == x[:, index]).all(), dtype
        assert (t[1, dev.tensor(index)].numpy() == x[1, index]).all(), dtype


def test_large_numbers_of_uint32_do_not_count_from_the_end(dev: pk.Device) -> None:
    t = dev.ones((4, 3))
    index = dev.tensor(np.array([2, 2**32 - 1], np.uint32))
    reads: tuple[Callable[[], object], ...] = (
        lambda: t[index], lambda: t[index, index], lambda: t[index, [0, 1]],
        lambda: t.__setitem__(index, 5.0), lambda: t.__setitem__((index, index), 5.0),
    )  # fmt: skip
    for read in reads:
        read()
        with pytest.raises(pk.IndexRangeError, match="index must be in"):
            dev.sync()
    assert (t[3].numpy() == 1).all()


def test_gradients(dev: pk.Device) -> None:
    x, v = dev.tensor(np.arange(12, dtype="f4").reshape(3, 4)), dev.ones(2)
    i, j = [2, 0], dev.tensor(np.array([1, -1]))
    with pk.Tape() as tape:
        y = x * 1
        y[i, j] = v * 5
        y[[0, 0], :2] += 1
        loss = pk.sum(y[:, [3, 3, 0]]) + pk.sum(x[[1, 1]] * 2) + pk.sum(y[i, j] * 3)
    dx, dv = tape.gradient(loss, [x, v])
    assert dx.numpy().tolist() == [[1, 0, 0, 0], [5, 4, 4, 6], [1, 0, 0, 2]]
    assert dv.numpy().tolist() == [15, 25]


def test_errors_come_at_the_call_where_the_host_knows(dev: pk.Device) -> None:
    t = dev.zeros((3, 4))
    before = t.numpy()
    for index, error, said in (
        ([3], pk.IndexRangeError, r"index 3 is out of range for an axis of size 3"),
        ((0, [-5]), pk.IndexRangeError, "index -5 .* of size 4"),
        ([0.5], pk.DTypeError, "must be int32, int64 or bool but is float64"),
        (dev.zeros(2), pk.DTypeError, "but is float32: pk.tensor"),
        (([0], [0], [0]), pk.ShapeError, "3 indices for 2 axes"),
        (([0, 1], [0, 1, 2]), pk.ShapeError, r"must broadcast but are \(2,\), \(3,\)"),
        (np.zeros((3, 3), bool), pk.ShapeError, r"a mask must have .*\(3, 4\)"),
        (True, pk.ArgumentError, "must be an integer, not True"),
        (np.array(True), pk.ArgumentError, "a mask must have axes"),
        (range(5), pk.IndexRangeError, "index 3 is out of range"),
        (([0], ..., ...), pk.ArgumentError, "only one Ellipsis"),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            t[index]
        with pytest.raises(error, match=said):
            t[index] = 1
    with pytest.raises(pk.ShapeError, match=r"\[setitem\] value must broadcast to \(2, 4\)"):
        t[[0, 1]] = np.ones((3, 4), "f4")
    assert (t.numpy() == before).all()
    for bad in (dev.tensor(np.array([0, 3])), (slice(None), dev.tensor(np.array([-5, 0])))):
        t[bad]
        with pytest.raises(pk.IndexRangeError, match=r"\[get_rows\] index must be in"):
            dev.sync()


def test_in_a_capture(dev: pk.Device) -> None:
    """Tensors are read at each replay; a mask needs a read now, a list an upload."""
    x = np.arange(12, dtype="f4").reshape(3, 4)
    t, i = dev.tensor(x), dev.tensor(np.array([2, -3]))
    mask = t > 3
    with dev.capture() as program:
        y = t[i, i]
        for index in (mask, [0, 1]):
            with pytest.raises(pk.BufferStateError):
                t[index]
    program()
    assert y.numpy().tolist() == [10, 1]
    i.write(np.array([0, 1]))
    program()
    assert y.numpy().tolist() == [0, 5]
