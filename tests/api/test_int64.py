"""Integers: lists are int32, numpy's numbers are weak, int64 takes part in 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu
LARGE = 5_000_000_000


def test_lists_of_integers_are_int32(dev: pk.Device) -> None:
    """For one release with a warning where no dtype says so."""
    for values in ([0, 2], 3, [[1], [-7]]):
        with pytest.warns(FutureWarning, match="int32 tensor, where they became float32") as caught:
            t = dev.tensor(values)
        assert t.dtype == "int32" and t.numpy().tolist() == np.array(values).tolist()
        assert caught[0].filename == __file__
    assert dev.tensor([1, 2], "float32").dtype == "float32"
    assert dev.tensor([1, 2], "int32").dtype == "int32"
    assert dev.tensor([]).dtype == dev.tensor((2, 3.0)).dtype == "float32"
    assert dev.tensor([np.int64(4), 5]).dtype == "int32"
    assert dev.tensor([np.uint8(4)]).dtype == "uint8"
    assert dev.tensor([True]).dtype == "bool"
    assert dev.tensor(np.arange(3)).dtype == "int64"
    for numbers in (range(3), range(0), [range(2), range(2)]):
        t = dev.tensor(numbers)
        assert t.dtype == "int32" and t.numpy().tolist() == np.array(numbers).tolist()
    for large in ([1, LARGE], [10**30], -(2**31) - 1):
        with pytest.raises(pk.ArgumentError, match=r"\[tensor\] integers become int32"):
            dev.tensor(large)


def test_integers_of_numpy_are_weak(dev: pk.Device) -> None:
    for kind in (np.int64, np.int32, np.uint8, np.int16, np.uint64):
        three: Any = kind(3)
        for dtype in ("float16", "float32", "uint8", "int32"):
            t = dev.ones(4, dtype)
            assert (t * three).dtype == (three * t).dtype == t.dtype
            assert (t * three).numpy().tolist() == [3] * 4
            assert pk.elementwise("x + n", x=t, n=three).numpy().tolist() == [4] * 4
        assert (dev.ones(2, "bool") + three).dtype == "int32"
    with pytest.raises(pk.ArgumentError, match="does not fit uint8"):
        dev.ones(1, "uint8") + np.int64(300)


def test_int64_takes_part_in_32_bits(dev: pk.Device) -> None:
    x = np.array([3, -4, 5])
    t = dev.tensor(x)
    pairs: list[tuple[Any, object]] = [
        (t + 1, x + 1), (t * t, x * x), (t + x, x + x), (dev.ones(3, "int32") + x, 1 + x),
        (t > 3, x > 3), (abs(t), abs(x)), (pk.where(t > 0, t, 0), np.where(x > 0, x, 0)),
        (pk.sum(t), x.sum()), (pk.max(t), 5), (pk.sort(t), np.sort(x)), (t / 2, x / 2),
        (t * np.float32(0.5), x * 0.5), (pk.elementwise("2 * x - y", x=t, y=x), x),
        (pk.concatenate([t, dev.ones(2, "int32")]), [*x, 1, 1]),
        (pk.concatenate([t, dev.ones(2)]), [*x, 1, 1]), (pk.cumsum(t), np.cumsum(x)),
    ]  # fmt: skip
    for got, want in pairs:
        assert got.dtype in ("int32", "float32", "bool")
        assert got.numpy().tolist() == np.asarray(want).tolist()
    assert pk.concatenate([t, t]).dtype == "int64"
    many = np.arange(5000).reshape(50, 100)
    assert ((dev.tensor(many).T + 0).numpy() == many.T).all()


def test_what_does_not_fit_is_a_fault(dev: pk.Device) -> None:
    t = dev.tensor(np.array([[3, 1], [-LARGE, LARGE]]))
    calls: dict[str, Any] = {
        "mul": lambda: t * 2, "add": lambda: t.T + dev.ones((2, 2)), "sum": lambda: pk.sum(t),
        "concatenate": lambda: pk.concatenate([t, dev.ones((1, 2), "int32")]),
    }  # fmt: skip
    for name, call in calls.items():
        call()
        with pytest.raises(pk.IndexRangeError, match=rf"int64 must be in .* is -{LARGE} at pos"):
            dev.sync()
        assert name
    dev.sync()
    with pytest.raises(pk.ArgumentError, match=rf"\[add\] int64 .* but b holds {LARGE}"):
        dev.ones(2, "int32") + np.array([1, LARGE])
    assert t.numpy()[1, 1] == LARGE and pk.flip(t).numpy()[0, 0] == LARGE  # moved as they are


def test_a_tape_says_how_integers_become_floats(dev: pk.Device) -> None:
    with pytest.raises(pk.DTypeError, match=r"float dtype but is int32: .*'float32'"):
        pk.Tape().watch(dev.tensor([1, 2], "int32"))
