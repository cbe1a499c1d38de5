"""last_index, and what it serves: of equal indices the last one stays, as in numpy, every run."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import move as reference
from pykernels.reference import rows
from tests.harness import Case, assert_same_bits, caps, random_form

pytestmark = pytest.mark.gpu


@pytest.mark.sample
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_last_index_matches_reference(dev: pk.Device, dtype: str) -> None:
    """Few and many, few places and many, any layout, indices out of range."""
    case = Case(dev, seed=len(dtype))
    rng = case.rng
    calls = []
    for shape, limit, axis in (
        ((1,), 3, 0), ((300,), 7, 0), ((5000,), 40, 0), ((3, 900, 2), 50, 1), ((70, 64), 9, 0),
        ((4000,), 10**6, 0), ((2, 3, 5), 4, -1), ((6, 5), 0, 0),
    ):  # fmt: skip
        index = rng.integers(-1, limit + 2, shape).astype(dtype)
        i = case.input(index, random_form(rng, len(shape), repeats=False))
        kept = case.output(shape, "int32", random_form(rng, len(shape), repeats=False))
        calls.append((i, kept, axis, limit))
    case.build()

    def run() -> None:
        for i, kept, axis, limit in calls:
            kernels.last_index(i.tensor, kept.tensor, axis=axis, limit=limit, check=False)

    for got, (i, _, axis, limit) in zip(case.run(run), calls, strict=True):
        assert_same_bits(got, reference.last_index(i.array, axis, limit))


@pytest.mark.parametrize("n", [40, 6000])
def test_the_last_one_stays(dev: pk.Device, n: int) -> None:
    """Seen before: 99,999 and 99,839 in five runs of one assignment."""
    rng = np.random.default_rng(n)
    index = rng.integers(0, 50, n).astype("i4")
    for dtype in ("float32", "float16", "uint8", "int64"):
        v = rng.integers(0, 250, (n, 3)).astype(dtype)
        x = np.zeros((50, 3), dtype)
        x[index] = v
        t = dev.zeros((50, 3), dtype)
        t[dev.tensor(index)] = v
        assert_same_bits(t.numpy(), x)
        places = np.broadcast_to(index[:, None], (n, 3))
        put = pk.scatter(np.zeros((50, 3), dtype), 0, places, v)
        assert_same_bits(np.asarray(put), x)


def test_repeated_indices_are_looked_at_once(dev: pk.Device) -> None:
    """An index that repeats over leading axes, and one that is broadcast."""
    rng = np.random.default_rng(2)
    src, dst = rng.random((4, 30, 5), "f4"), rng.random((4, 6, 5), "f4")
    index = rng.integers(0, 6, (2, 30)).astype("i4")
    t = dev.tensor(dst)
    kernels.set_rows(dev.tensor(src), dev.tensor(index), t)
    assert_same_bits(t.numpy(), rows.set_rows(src, index, dst))


@pytest.mark.parametrize("n", [700, 3000])
def test_in_parts(dev: pk.Device, n: int) -> None:
    """Where a call is cut, what is further along the axis comes later."""
    rng = np.random.default_rng(n)
    index = rng.integers(0, 60, (n, 4)).astype("i4")
    src, dst = rng.random((n, 4), "f4"), rng.random((60, 4), "f4")
    t = dev.tensor(dst)
    with caps(dev, max_binding=4096):
        kernels.scatter(dev.tensor(src), dev.tensor(index), t, axis=0)
    assert_same_bits(t.numpy(), reference.scatter(src, index, dst, 0))
    t = dev.tensor(dst)
    with caps(dev, max_binding=4096):
        kernels.set_rows(dev.tensor(src), dev.tensor(index[:, 0].copy()), t)
    assert_same_bits(t.numpy(), rows.set_rows(src, index[:, 0], dst))


def test_distinct_says_that_there_are_none(dev: pk.Device) -> None:
    """Nothing is looked for, and the result is the same."""
    order = np.random.default_rng(1).permutation(5000).astype("i4")
    src, index = dev.tensor(np.arange(5000, dtype="f4")), dev.tensor(order)
    out = pk.scatter(dev.zeros(5000), 0, index, src, distinct=True)
    assert (np.asarray(out)[order] == np.arange(5000)).all()


def test_faults_are_reported_once(dev: pk.Device) -> None:
    index = np.zeros((3000, 2), "i4")
    index[7, 1] = 99
    kernels.scatter(dev.ones((3000, 2)), dev.tensor(index), dev.zeros((9, 2)), axis=0)
    with pytest.raises(pk.IndexRangeError, match=r"but is 99 at position \(7, 1\) .*out: 1;"):
        dev.sync()
    dev.sync()


def test_out_may_be_what_is_read(dev: pk.Device) -> None:
    x, s = np.arange(6, dtype="f4"), np.arange(10, 16, dtype="f4")
    i = np.array([1, 0, 1, 5, 4, 2], "i4")
    for name in ("scatter", "scatter_add"):
        want = getattr(reference, name)(s, i, x, 0).astype("f4")
        out = dev.tensor(s)
        getattr(pk, name)(dev.tensor(x), 0, dev.tensor(i), out, out=out)
        assert_same_bits(out.numpy(), want)
        both = dev.tensor(np.concatenate([s, x]))
        getattr(pk, name)(dev.tensor(x), 0, dev.tensor(i), both[:6], out=both[3:9])
        assert_same_bits(both.numpy()[3:9], want)
        both = dev.tensor(np.stack([i, i]))
        whole = getattr(pk, name)(dev.tensor(i), 0, both[1], both[0], out=both[1])
        assert_same_bits(whole.numpy(), getattr(reference, name)(i, i, i, 0).astype("i4"))
