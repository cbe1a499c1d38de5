"""nonzero and selection by masks: counts, places in C order, and what asks for a read."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import move as reference
from tests.harness import Case, Form, caps, random_form, values

pytestmark = pytest.mark.gpu
SHAPES = ((1,), (4096,), (4097,), (3, 5000), (7, 6, 5), (2, 3, 4, 2, 3, 5), (300,), (0, 3))


def chunks(shape: tuple[int, ...]) -> int:
    return -(-math.prod(shape) // 4096)


@pytest.mark.sample
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "int64"])
def test_nonzero_of_any_layout(dev: pk.Device, dtype: str) -> None:
    case = Case(dev, seed=1)
    rng = case.rng
    inputs, offsets, outputs = [], [], []
    for k, shape in enumerate(SHAPES):
        data = values(rng, dtype, shape)
        data[rng.random(shape) < (0.9, 0.5, 0.0)[k % 3]] = 0
        form = random_form(rng, len(shape), repeats=False) if k > 1 else None
        inputs.append(case.input(data, form))
        offsets.append(case.output((chunks(shape) + 1,), "int32", Form(phase=1)))
        indices = (len(shape), int(np.count_nonzero(data)))
        outputs.append(case.output(indices, "int32", Form(gap=k % 3, phase=k)))

    def run() -> None:
        for x, o, d in zip(inputs, offsets, outputs, strict=True):
            kernels.nonzero_offsets(x.tensor, o.tensor)
            kernels.nonzero(x.tensor, o.tensor, d.tensor)

    results = case.run(run)
    for x, o, d in zip(inputs, results[::2], results[1::2], strict=True):
        assert o.tolist() == reference.nonzero_offsets(x.array).tolist()
        assert d.tolist() == np.array(np.nonzero(x.array)).tolist()


def test_nonzero_through_strides(dev: pk.Device) -> None:
    x = (np.random.default_rng(2).random((40, 30, 9)) < 0.3).astype("f4")
    x[3] = -0.0
    x[5, 1] = np.nan
    t = dev.tensor(x)
    for got, want in ((t.T[::-2], x.T[::-2]), (t[:, None, 3], x[:, None, 3])):
        for a, b in zip(pk.nonzero(got), np.nonzero(want), strict=True):
            assert a.dtype == "int32"
            assert a.numpy().tolist() == b.tolist()
    found = pk.nonzero(x)
    assert all(isinstance(a, np.ndarray) for a in found)
    assert [a.tolist() for a in found] == [a.tolist() for a in np.nonzero(x)]


def test_nonzero_of_complex_numbers(dev: pk.Device) -> None:
    """The sign of a zero does not count, the lowest bit does, in both parts."""
    parts = np.float32([0.0, -0.0, 1e-45, -1e-45, 2.0, np.nan, -np.inf])
    x = np.array([complex(re, im) for re in parts for im in parts], np.complex64)
    assert np.count_nonzero(x) == len(x) - 4
    assert pk.nonzero(dev.tensor(x))[0].numpy().tolist() == np.nonzero(x)[0].tolist()


def test_nonzero_of_a_size(dev: pk.Device) -> None:
    """More places than there are indices, as many, and fewer; nothing is read."""
    x = (np.random.default_rng(4).random((70, 90)) < 0.3).astype("f4")
    want = np.nonzero(x)
    n = want[0].size
    t = dev.tensor(x)
    for size in (0, 7, n, n + 5000):
        rows, cols, count = pk.nonzero(t, size=size, fill_value=-3, return_count=True)
        assert count.shape == () and int(count.item()) == n
        for got, full in zip((rows, cols), want, strict=True):
            padded = np.concatenate([full, np.full(max(size - n, 0), -3)])[:size]
            assert got.dtype == "int32" and got.numpy().tolist() == padded.tolist()
    (found,) = pk.nonzero(np.zeros(5, "f4"), size=2)
    assert isinstance(found, np.ndarray) and found.tolist() == [0, 0]
    *both, number = pk.nonzero(t, return_count=True)
    assert len(both) == 2 and int(number.item()) == n


def test_nonzero_of_a_size_in_a_captured_program(dev: pk.Device) -> None:
    x = dev.tensor(np.float32([0, 3, 0, 4]))
    with dev.capture(x=x) as program:
        places, count = pk.nonzero(x, size=3, fill_value=9, return_count=True)
    program()
    assert places.numpy().tolist() == [1, 3, 9] and count.item() == 2
    program(x=dev.tensor(np.float32([1, 1, 1, 1])))
    assert places.numpy().tolist() == [0, 1, 2] and count.item() == 4


@pytest.mark.crowd
@pytest.mark.sample
def test_nonzero_over_a_long_grid(dev: pk.Device) -> None:
    x = np.random.default_rng(0).random(4096 * 300 + 5) < 0.01
    with caps(dev, max_groups=2):
        (got,) = pk.nonzero(dev.tensor(x))
        assert got.numpy().tolist() == np.nonzero(x)[0].tolist()


def test_masks_select(dev: pk.Device) -> None:
    rng = np.random.default_rng(3)
    for dtype in ("bool", "float16", "float32", "int64"):
        x = values(rng, dtype, (6, 5, 7))
        t = dev.tensor(x)
        for shape in ((6, 5, 7), (6, 5), (6,)):
            mask = rng.random(shape) < 0.5
            assert t[dev.tensor(mask)].numpy().tobytes() == x[mask].tobytes()
        mask = rng.random((5, 1)) < 0.5
        want = x[np.broadcast_to(mask, x.shape)]
        assert pk.masked_select(t, mask).numpy().tobytes() == want.tobytes()
        flipped = t.transpose(2, 0, 1)[::-1]
        mask = rng.random((7, 6)) < 0.5
        got = flipped[dev.tensor(mask)].numpy()
        assert got.tobytes() == x.transpose(2, 0, 1)[::-1][mask].tobytes()
    none = pk.masked_select(np.arange(3.0, dtype="f4"), np.zeros(3, bool))
    assert none.shape == (0,)
    assert pk.masked_select(np.float32([5]).reshape(()), np.array(True)).tolist() == [5]


def test_nonzero_rejects(dev: pk.Device) -> None:
    x, offsets = dev.zeros((3, 4)), dev.zeros(2, "int32")
    with pytest.raises(pk.ShapeError, match=r"\[nonzero_offsets\] offsets must have shape \(2,\)"):
        kernels.nonzero_offsets(x, dev.zeros(3, "int32"))
    with pytest.raises(pk.ShapeError, match=r"\[nonzero\] offsets must have shape \(2,\)"):
        kernels.nonzero(x, dev.zeros(1, "int32"), dev.zeros((2, 5), "int32"))
    with pytest.raises(pk.ShapeError, match=r"\[nonzero\] src must have an axis or more"):
        kernels.nonzero(x, offsets, dev.zeros((3, 5), "int32"))
    for size in (None, 3):
        with pytest.raises(pk.ShapeError, match=r"\[nonzero\] a tensor without axes"):
            pk.nonzero(dev.zeros(()), size=size)
    with pytest.raises(pk.ArgumentError, match=r"\[nonzero\] size must not be negative but is -1"):
        pk.nonzero(x, size=-1)
    with pytest.raises(pk.ArgumentError, match=r"\[nonzero\] fill_value is for results of a size"):
        pk.nonzero(x, fill_value=1)
    with pytest.raises(pk.LimitError, match=r"\[nonzero\] src may have 6 axes but has 7"):
        kernels.nonzero(dev.zeros((1,) * 7), offsets, dev.zeros((7, 5), "int32"))
    with pytest.raises(pk.DTypeError, match=r"\[masked_select\] mask must be bool but is float32"):
        pk.masked_select(x, x)
    with pytest.raises(pk.ShapeError, match=r"\[getitem\] a mask must have the leading sizes"):
        x[dev.zeros((4,), "bool")]
    with dev.capture():
        with pytest.raises(pk.BufferStateError, match=r"\[nonzero\] not possible inside a capture"):
            pk.nonzero(x)
        with pytest.raises(pk.BufferStateError, match=r"\[getitem\] not possible inside a capture"):
            x[dev.empty(3, "bool")]
