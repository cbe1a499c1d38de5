"""gather and scatter: elements from, or to, the places that an index gives, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import move as reference
from tests.harness import Array, Case, assert_same_bits, caps, random_form, values

pytestmark = pytest.mark.gpu
DTYPES = ("bool", "uint8", "float16", "bfloat16", "float32", "int64")


def places(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int, m: int, dtype: str,
    distinct: bool, bad: float = 0.0,
) -> Array:  # fmt: skip
    """Indices into m places, along `axis` none twice where they are distinct."""
    if distinct:
        index = np.argsort(
            rng.random((*shape[:axis], max(m, shape[axis]), *shape[axis + 1 :])), axis
        )
        index = np.take(index, range(shape[axis]), axis)
    else:
        index = rng.integers(0, max(m, 1), shape)
    wrong = rng.random(shape) < bad
    out_there = np.array([-1, m, -(2**31), *((2**32, -(2**32) + 1) if dtype == "int64" else ())])
    return np.where(wrong, rng.choice(out_there, shape), index).astype(dtype)


@pytest.mark.sample
@pytest.mark.parametrize("op", ["gather", "scatter"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [0.0, 0.2])
def test_picks_of_any_layout(dev: pk.Device, op: str, dtype: str, bad: float) -> None:
    """Any axis, shapes that are smaller than the picked side, all layouts, both index dtypes."""
    case = Case(dev, seed=len(dtype))
    rng = case.rng
    calls = []
    for n in range(14):
        ndim = int(rng.integers(1, 5))
        axis = int(rng.integers(ndim))
        shape = tuple(int(v) for v in rng.integers(1, 8, ndim))
        if n == 0:
            ndim, axis, shape = 2, 0, (1, 1500)  # more than a workgroup's elements
        side = tuple(v + int(rng.integers(0, 3)) for v in shape)
        side = (*side[:axis], int(rng.integers(shape[axis], 12)), *side[axis + 1 :])
        index = places(
            rng, shape, axis, side[axis], ("int32", "int64")[n % 2], op == "scatter", bad
        )
        i = case.input(index, random_form(rng, ndim, repeats=False))
        picked, other = (side, shape) if op == "gather" else (shape, side)
        s = case.input(values(rng, dtype, picked), random_form(rng, ndim, repeats=True))
        d = case.output(other, dtype, random_form(rng, ndim, repeats=False))
        calls.append((s, i, d, axis - (ndim if n % 3 else 0)))
    case.build()
    meaning = getattr(reference, op)
    want = [meaning(s.array, i.array, d.array, axis) for s, i, d, axis in calls]

    def run() -> None:
        for s, i, d, axis in calls:
            getattr(kernels, op)(s.tensor, i.tensor, d.tensor, axis=axis)
        if bad:
            with pytest.raises(pk.IndexRangeError, match=rf"\[{op}\] index must be in \[0, "):
                dev.sync()

    for got, expected in zip(case.run(run), want, strict=True):
        assert_same_bits(got, expected)


@pytest.mark.crowd
@pytest.mark.sample
def test_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=1):
        x = np.arange(5000, dtype="f4")
        index = np.random.default_rng(0).permutation(5000).astype("i4")
        t, i, out = dev.tensor(x), dev.tensor(index), dev.zeros(5000)
        kernels.gather(t, i, out)
        assert (out.numpy() == x[index]).all()
        kernels.scatter(t, i, out)
        assert (out.numpy()[index] == x).all()


@pytest.mark.parametrize("op", ["gather", "scatter"])
def test_in_parts(dev: pk.Device, op: str) -> None:
    """Tensors larger than a binding, and more axes than an index space has levels."""
    rng = np.random.default_rng(4)
    shapes = (((30, 40), (50, 90), 1), ((40, 30), (60, 40), 0), ((5, 20, 30), (6, 22, 70), 2),
              ((2, 2, 2, 2, 2, 2, 2, 3), (3, 3, 3, 3, 3, 3, 3, 4), 7))  # fmt: skip
    for shape, side, axis in shapes:
        index = places(rng, shape, axis, side[axis], "int32", op == "scatter")
        index[(-1,) * index.ndim] = -7
        picked, other = (side, shape) if op == "gather" else (shape, side)
        src, dst = rng.random(picked, "f4"), rng.random(other, "f4")
        t, i, d = dev.tensor(src), dev.tensor(index), dev.tensor(dst)
        room = 1024 + max(side[axis] * 4 * side[-1] * (axis == 0), 2048)
        with caps(dev, max_binding=room):
            getattr(kernels, op)(t, i, d, axis=axis)
            last = ", ".join(str(n - 1) for n in shape)
            with pytest.raises(
                pk.IndexRangeError, match=rf"is -7 at position \({last}\) .*out: 1;"
            ):
                dev.sync()
        assert_same_bits(d.numpy(), getattr(reference, op)(src, index, dst, axis))


@pytest.mark.parametrize("op", ["gather", "scatter"])
def test_says_what_is_out_of_range(dev: pk.Device, op: str) -> None:
    index = dev.tensor(np.array([[0, 7], [-5, 1]]))
    small, large = dev.ones((2, 2)), dev.ones((2, 3))
    tensors = (large, index, small) if op == "gather" else (small, index, large)
    getattr(kernels, op)(*tensors)
    with pytest.raises(pk.IndexRangeError, match=r"\[0, 3\) but is 7 at position \(0, 1\).*: 2;"):
        dev.sync()
    getattr(kernels, op)(*tensors, check=False)
    dev.sync()
    empty = dev.zeros((2, 0))
    getattr(kernels, op)(*((empty, index, small) if op == "gather" else (small, index, empty)))
    with pytest.raises(pk.IndexRangeError, match=r"in \[0, 0\) but is 0 at position \(0, 0\).*: 4"):
        dev.sync()
    assert (small.numpy() == 1).all()


def test_in_one_buffer(dev: pk.Device) -> None:
    """The source is read as it was before the call."""
    x = np.arange(40, dtype="f4").reshape(5, 8)
    index = np.random.default_rng(1).integers(0, 8, (5, 8)).astype("i4")
    t = dev.tensor(x)
    kernels.gather(t, dev.tensor(index), t)
    assert (t.numpy() == np.take_along_axis(x, index, 1)).all()
    t = dev.tensor(x)
    kernels.scatter(t[:3], dev.tensor(np.argsort(index, 0)[:3].astype("i4") % 3 + 2), t, axis=0)
    assert (t.numpy()[:2] == x[:2]).all()


@pytest.mark.parametrize("op", ["gather", "scatter"])
def test_rejects(dev: pk.Device, op: str) -> None:
    index = dev.zeros((2, 3), "int32")
    picked, other = dev.zeros((2, 4)), dev.zeros((2, 3))

    def call(picked: pk.Tensor, index: pk.Tensor, other: pk.Tensor, axis: int = 1) -> None:
        given = (picked, index, other) if op == "gather" else (other, index, picked)
        getattr(kernels, op)(*given, axis=axis)

    with pytest.raises(pk.ShapeError, match=rf"\[{op}\] .* must have the shape of index, \(2, 3\)"):
        call(picked, index, other[:, :2])
    with pytest.raises(pk.ShapeError, match=rf"\[{op}\] index must have as many axes"):
        call(picked[:1], index, other)
    with pytest.raises(pk.ShapeError, match=rf"\[{op}\] index must have as many axes"):
        call(picked[0], index, other, 0)
    with pytest.raises(pk.ShapeError, match=rf"\[{op}\] axis 2 does not exist"):
        call(picked, index, other, 2)
    with pytest.raises(pk.DTypeError, match=rf"\[{op}\] dst must have the dtype of src"):
        call(picked, index, dev.zeros((2, 3), "int32"))
    with pytest.raises(pk.DTypeError, match=rf"\[{op}\] index must be int32 or int64"):
        call(picked, other, other)
    call(picked, index[:0], other[:0])
    call(dev.zeros(()), dev.zeros((), "int32"), dev.zeros(()), -1)
