"""Functions of the families move, views, diagonals and indexing: numpy's results, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from tests.harness import Array, assert_same_bits, values

pytestmark = pytest.mark.gpu
DTYPES = ("bool", "uint8", "float16", "float32", "int64")


def strided(dev: pk.Device, x: Array) -> pk.Tensor:
    """The same elements with steps of their own."""
    whole = dev.zeros(tuple(2 * n + 1 for n in x.shape), x.dtype.name)
    view = whole[tuple(slice(2 * n - 1, None, -2) if n else slice(0, 0) for n in x.shape)]
    view[...] = dev.tensor(x)
    return view


def same(got: pk.Tensor | Array, want: Array) -> None:
    found = got.numpy() if isinstance(got, pk.Tensor) else got
    assert_same_bits(found, np.ascontiguousarray(want))


# -- views ----------------------------------------------------------------------------------------

X = np.arange(2 * 1 * 5 * 3, dtype="f4").reshape(2, 1, 5, 3)
VIEWS = {
    "squeeze": (lambda m, x: m.squeeze(x), lambda x: np.squeeze(x)),
    "squeeze of one": (lambda m, x: m.squeeze(x, 1), lambda x: np.squeeze(x, 1)),
    "squeeze of none": (lambda m, x: m.squeeze(x, ()), lambda x: x),
    "unsqueeze": (lambda m, x: m.unsqueeze(x, -1), lambda x: x[..., None]),
    "expand": (lambda m, x: m.expand(x, (4, 2, 3, -1, 3)),
               lambda x: np.broadcast_to(x, (4, 2, 3, 5, 3))),
    "flatten": (lambda m, x: m.flatten(x), lambda x: x.reshape(-1)),
    "flatten of some": (lambda m, x: m.flatten(x, 1, -2), lambda x: x.reshape(2, 5, 3)),
    "moveaxis": (lambda m, x: m.moveaxis(x, 0, -1), lambda x: np.moveaxis(x, 0, -1)),
    "moveaxis of two": (lambda m, x: m.moveaxis(x, (0, -1), (-2, 0)),
                        lambda x: np.moveaxis(x, (0, -1), (-2, 0))),
    "swapaxes": (lambda m, x: m.swapaxes(x, 0, -2), lambda x: np.swapaxes(x, 0, -2)),
    "flip": (lambda m, x: m.flip(x), lambda x: np.flip(x)),
    "flip of one": (lambda m, x: m.flip(x, (-1, 0)), lambda x: np.flip(x, (-1, 0))),
    "diagonal": (lambda m, x: m.diagonal(x, 1, 2, 0), lambda x: np.diagonal(x, 1, 2, 0)),
    "diagonal below": (lambda m, x: m.diagonal(x, -2, -2, -1),
                       lambda x: np.diagonal(x, -2, -2, -1)),
    "no diagonal": (lambda m, x: m.diagonal(x, 9, 2, 3), lambda x: np.diagonal(x, 9, 2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views(dev: pk.Device, name: str) -> None:
    """As functions of tensors and of arrays, and as methods; nothing is copied."""
    ours, numpys = VIEWS[name]
    t = dev.tensor(X)
    found = [ours(pk, t), ours(pk.Tensor, t)]
    for got in found:
        assert got._block is t._block
        same(got, numpys(X))
    got = ours(pk, X)
    assert isinstance(got, np.ndarray)
    assert np.shares_memory(got, X) or not got.size
    assert got.tolist() == numpys(X).tolist()


def test_expand_dims_and_broadcast_to(dev: pk.Device) -> None:
    t = dev.tensor(X)
    same(pk.expand_dims(t, (0, -2)), np.expand_dims(X, (0, -2)))
    same(pk.broadcast_to(t, (2, 4, 5, 3)), np.broadcast_to(X, (2, 4, 5, 3)))
    assert pk.broadcast_to(X, (2, 4, 5, 3)).strides[1] == 0
    assert pk.flatten(dev.zeros(())).shape == (1,)
    assert pk.moveaxis(dev.zeros(()), (), ()).shape == ()


def test_parts(dev: pk.Device) -> None:
    for x in (X, dev.tensor(X)):
        for how in (1, 2, 3, 5, 7, (1, 3), [4, 2, -1, 99]):
            got = pk.split(x, how, 2)
            want = np.array_split(X, how, 2)
            assert [p.shape for p in got] == [p.shape for p in want]
            for a, b in zip(got, want, strict=True):
                same(a, b)
        for n, sizes in ((1, [5]), (2, [3, 2]), (3, [2, 2, 1]), (4, [2, 2, 1]), (9, [1] * 5)):
            assert [p.shape[2] for p in pk.chunk(x, n, axis=-2)] == sizes
    assert [p.shape for p in dev.zeros((0, 2)).chunk(3)] == [(0, 2)]


REFUSED = {
    "squeeze of a size": (pk.ShapeError, r"\[squeeze\] axis 0 must have size 1 but .* \(2, 1,",
                          lambda x: pk.squeeze(x, 0)),
    "an axis too far": (pk.ShapeError, r"\[swapaxes\] axis2 must be in \[-4, 4\) but is 4",
                        lambda x: pk.swapaxes(x, 0, 4)),
    "an axis twice": (pk.ShapeError, r"\[flip\] axis must name each axis once but is \(0, -4\)",
                      lambda x: pk.flip(x, (0, -4))),
    "a new axis too far": (pk.ShapeError, r"\[unsqueeze\] axis must be in \[-5, 5\) but is 5",
                           lambda x: pk.unsqueeze(x, 5)),
    "not as many axes": (pk.ShapeError, r"\[moveaxis\] source and destination must name the same",
                         lambda x: pk.moveaxis(x, 0, (1, 2))),
    "expand": (pk.ShapeError, r"\[expand\] \(2, 1, 5, 3\) does not expand to \(3, 1, 5, 3\)",
               lambda x: pk.expand(x, (3, 1, 5, 3))),
    "expand of nothing": (pk.ShapeError, r"\[expand\] .* does not expand to \(-1, 2, 1, 5, 3\)",
                          lambda x: pk.expand(x, (-1, 2, 1, 5, 3))),
    "flatten backwards": (pk.ShapeError, r"\[flatten\] start_axis 2 must not come after 1",
                          lambda x: pk.flatten(x, 2, 1)),
    "one axis as two": (pk.ShapeError, r"\[diagonal\] axis1 and axis2 must differ",
                        lambda x: pk.diagonal(x, 0, 1, -3)),
    "no sections": (pk.ArgumentError, r"\[split\] sections must be from 1 to 65536 but is 0",
                    lambda x: pk.split(x, 0)),
    "half a chunk": (pk.ArgumentError, r"\[chunk\] chunks must be an integer but is 0.5",
                     lambda x: pk.chunk(x, 0.5)),
    "a list": (pk.DTypeError, r"\[squeeze\] x must be a pykernels.Tensor or a numpy array but is l",
               lambda x: pk.squeeze([1.0])),
    "a negative count": (pk.ArgumentError, r"\[repeat\] repeats must be integers of 0 or more but",
                         lambda x: pk.repeat(x, [1, -1, 2], 1)),
    "another number of counts": (pk.ShapeError, r"\[repeat\] repeats must have shape \(\d+,\) for",
                                 lambda x: pk.repeat(x, [1] * 99, 0)),
    "counts that are no integers": (pk.ArgumentError, r"\[repeat\] repeats must be integers",
                                    lambda x: pk.repeat(x, [0.5], 0)),
    "negative repeats": (pk.ArgumentError, r"\[repeat\] repeats must be 0 or more but is -1",
                         lambda x: pk.repeat(x, -1)),
    "negative reps": (pk.ArgumentError, r"\[tile\] reps must be 0 or more but are \(2, -1\)",
                      lambda x: pk.tile(x, (2, -1))),
    "shifts": (pk.ShapeError, r"\[roll\] shift and axis must have the same length",
               lambda x: pk.roll(x, (1, 2), 0)),
    "diag": (pk.ShapeError, r"\[diag\] x must have one axis or two", lambda x: pk.diag(x)),
    "parts that differ": (pk.ShapeError, r"\[concatenate\] arrays must have one shape except",
                          lambda x: pk.concatenate([x, x[:1]], 1)),
    "stack": (pk.ShapeError, r"\[stack\] arrays must have one shape but have ",
              lambda x: pk.stack([x, x[..., :2]])),
    "no arrays": (pk.ArgumentError, r"\[concatenate\] arrays must be a list of one or more",
                  lambda x: pk.concatenate([])),
    "arrays of others": (pk.DTypeError, r"\[stack\] arrays must hold .* but has list",
                         lambda x: pk.stack([x, [1]])),
    "classes": (pk.ArgumentError, r"\[one_hot\] num_classes must be an integer",
                lambda x: pk.one_hot(np.zeros(2, "i4"), 2.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(dev: pk.Device, name: str) -> None:
    error, match, call = REFUSED[name]
    for x in (X, dev.tensor(X)):
        with pytest.raises(error, match=match):
            call(x)  # type: ignore[no-untyped-call]


# -- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_joins(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(len(dtype))
    for axis in (0, 1, -1):
        sizes = [1, 3, 0, 2]
        shapes = [tuple(n if a == axis % 3 else 4 for a in range(3)) for n in sizes]
        parts = [values(rng, dtype, s) for s in shapes]
        want = np.concatenate(parts, axis)
        tensors = [dev.tensor(p) if n % 2 else strided(dev, p) for n, p in enumerate(parts)]
        same(pk.concatenate(tensors, axis), want)
        found = pk.concatenate(parts, axis)
        assert isinstance(found, np.ndarray)
        same(found, want)
        out = strided(dev, np.zeros(want.shape, want.dtype))
        assert pk.concatenate(parts, axis, out=out) is out
        same(out, want)
    a, b = values(rng, dtype, (4, 3)), values(rng, dtype, (4, 3))
    for axis in (0, 1, 2, -1):
        same(pk.stack([dev.tensor(a), strided(dev, b), a], axis), np.stack([a, b, a], axis))
    same(pk.concatenate([a, b[0]], None), np.concatenate([a, b[0]], None))


def test_joins_promote(dev: pk.Device) -> None:
    half, single = np.float16([1.5, 2]), np.float32([1e9, 3])
    ints = np.int32([7, -2])
    got = pk.concatenate([dev.tensor(half), dev.tensor(single), dev.tensor(ints)])
    assert got.dtype == "float32"
    assert got.numpy().tolist() == [1.5, 2, 1e9, 3, 7, -2]
    assert pk.stack([half, ints]).dtype == np.float16
    with pytest.raises(pk.DTypeError, match=r"\[concatenate\] out must be float32 but is float16"):
        pk.concatenate([half, single], out=dev.empty(4, "float16"))
    with pytest.raises(pk.ShapeError, match=r"\[concatenate\] out must have shape \(4,\)"):
        pk.concatenate([half, single], out=dev.empty(5))


def test_joins_into_what_they_read(dev: pk.Device) -> None:
    x = np.arange(6, dtype="f4")
    t = dev.tensor(x)
    pk.concatenate([t[3:], t[:3]], out=t)
    assert t.numpy().tolist() == [3, 4, 5, 0, 1, 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_repeats(dev: pk.Device, dtype: str) -> None:
    x = values(np.random.default_rng(1), dtype, (3, 4, 5))
    for t in (dev.tensor(x), strided(dev, x), x):
        for n, axis in ((2, None), (3, 0), (2, 1), (5, -1), (0, 1), (1, 2)):
            same(pk.repeat(t, n, axis), np.repeat(x, n, axis))
        for axis in (0, 1, -1, None):
            many = np.arange(x.size if axis is None else x.shape[axis]) % 3
            for counts in (many, many[:1], many.tolist()):
                same(pk.repeat(t, counts, axis), np.repeat(x, counts, axis))
        for reps in (2, (2, 1, 3), (2, 3), (2, 1, 1, 2), (0, 2), ()):
            same(pk.tile(t, reps), np.tile(x, reps))
        for shift, axis in ((3, None), (-1, 0), (7, 1), ((1, -2), (0, 2)), (2, (0, 1, 2)), (5, 2)):
            same(pk.roll(t, shift, axis), np.roll(x, shift, axis))
    same(pk.roll(dev.zeros((0, 3)), 1), np.zeros((0, 3), "f4"))


@pytest.mark.parametrize("dtype", ["int32", "float16"])
def test_diagonals(dev: pk.Device, dtype: str) -> None:
    x = np.arange(1, 21).astype(dtype)
    for k in (-6, -1, 0, 2):
        same(pk.diag(dev.tensor(x[:4]), k), np.diag(x[:4], k))
        same(pk.diag(dev.tensor(x.reshape(4, 5)), k), np.diag(x.reshape(4, 5), k))
        same(pk.diag(x.reshape(4, 5), k), np.diag(x.reshape(4, 5), k))
        same(pk.diag_mask_zero(strided(dev, x.reshape(4, 5)), k), np.tril(x.reshape(4, 5), k))
    y = np.random.default_rng(0).random((2, 3, 4), "f4")
    want = np.where(np.tri(3, 4, 1, bool), y, -np.inf).astype("f4")
    same(pk.diag_mask_inf(dev.tensor(y), 1), want)


def test_one_hot(dev: pk.Device) -> None:
    index = np.array([[0, 3], [2, 0], [1, 1]])
    for dtype in ("int32", "float16", "bool"):
        want = np.eye(4, dtype=dtype)[index]
        same(pk.one_hot(dev.tensor(index), 4, dtype=dtype), want)
        same(pk.one_hot(index.astype("i4"), 4, dtype=dtype), want)
    with pytest.raises(pk.IndexRangeError, match=r"\[one_hot\] index must be in \[0, 3\) but is 3"):
        pk.one_hot(index, 3)


# -- what an index picks --------------------------------------------------------------------------


def test_takes_along_axes(dev: pk.Device) -> None:
    rng = np.random.default_rng(5)
    x = values(rng, "float32", (4, 5, 6))
    for axis in (0, 1, -1):
        order = np.argsort(rng.random(x.shape), axis)
        for t in (dev.tensor(x), strided(dev, x), x):
            same(pk.take_along_axis(t, order, axis), np.take_along_axis(x, order, axis))
            same(pk.gather(t, axis, order.astype("i4")), np.take_along_axis(x, order, axis))
        few = np.take(order, [0], (axis + 1) % 3)
        same(pk.take_along_axis(dev.tensor(x), few, axis), np.take_along_axis(x, few, axis))
    flat = rng.integers(0, 120, 7)
    same(pk.take_along_axis(dev.tensor(x), flat, None), np.take_along_axis(x, flat, None))
    with pytest.raises(pk.ShapeError, match=r"\[take_along_axis\] x and indices must have as many"):
        pk.take_along_axis(x, flat, 0)
    with pytest.raises(pk.ShapeError, match=r"\[take_along_axis\] shapes must broadcast"):
        pk.take_along_axis(x, order[:3], 1)
    with pytest.raises(pk.IndexRangeError, match=r"\[take_along_axis\] index must be in \[0, 6\)"):
        pk.take_along_axis(x, order - 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_selects_along_axes(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(6)
    x = values(rng, dtype, (4, 5, 6))
    index = np.array([3, 0, 3, 1, 2])
    for t in (dev.tensor(x), strided(dev, x), dev.tensor(x).transpose(2, 0, 1).transpose(1, 2, 0)):
        for axis in (0, 1, 2, -1):
            same(pk.index_select(t, axis, index), np.take(x, index, axis))
        for shape in ((), (1,), (2, 3), (0,)):
            some = rng.integers(0, 4, shape)
            same(t[dev.tensor(some)], x[some])
    same(dev.tensor(x[0, 0])[dev.tensor(index)], x[0, 0][index])
    out = strided(dev, np.zeros((4, 5, 5), x.dtype))
    pk.index_select(x, 2, index, out=out)
    same(out, np.take(x, index, 2))


def test_index_tensors_refuse(dev: pk.Device) -> None:
    t, index = dev.zeros((3, 2)), dev.tensor(np.array([0, 3]))
    mask = dev.tensor(np.array([False, True]))
    t[index]
    with pytest.raises(
        pk.IndexRangeError, match=r"\[get_rows\] index must be in \[0, 3\) but is 3"
    ):
        dev.sync()
    with pytest.raises(pk.DTypeError, match=r"\[getitem\] an index must be int32, int64 or bool"):
        t[t]
    with pytest.raises(pk.ShapeError, match=r"\[getitem\] 1 indices for 0 axes"):
        dev.zeros(())[index]
    with pytest.raises(pk.DTypeError, match=r"\[setitem\] an index must be int32, int64 or bool"):
        t[t] = 1
    with pytest.raises(
        pk.ShapeError, match=r"\[setitem\] value must broadcast to \(2, 2\) but has"
    ):
        t[index] = dev.zeros(3)
    with pytest.raises(pk.ShapeError, match=r"\[setitem\] a mask must have the leading sizes"):
        t[mask] = 1
    with pytest.raises(pk.ArgumentError, match=r"\[setitem\] value must be an integer for int32"):
        dev.zeros(2, "int32")[mask] = 0.5
    t[index] = 1
    with pytest.raises(
        pk.IndexRangeError, match=r"\[set_rows\] index must be in \[0, 3\) but is 3"
    ):
        dev.sync()
    with pytest.raises(pk.ShapeError, match=r"\[index_select\] index must have one axis"):
        pk.index_select(t, 0, index[None])
    same(t[dev.zeros(0, "int32")], np.zeros((0, 2), "f4"))
    with dev.capture() as program:
        rows = t[index]
    program()
    assert rows.shape == (2, 2)
    with pytest.raises(pk.IndexRangeError, match="of the program"):
        dev.sync()


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "bool"])
def test_assigns_through_tensors(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(9)
    x = values(rng, dtype, (6, 4, 5))
    one = values(rng, dtype, (1,))[0].item()
    for make in (lambda: dev.tensor(x), lambda: strided(dev, x)):
        for shape in ((3,), (2, 2), (0,)):
            index = rng.permutation(6)[: int(np.prod(shape))].reshape(shape)
            for value in (one, values(rng, dtype, (*shape, 4, 5)), values(rng, dtype, (5,))):
                t, want = make(), x.copy()
                t[dev.tensor(index)] = value
                want[index] = value
                same(t, want)
        for ndim in (1, 2, 3):
            mask = rng.random(x.shape[:ndim]) < 0.4
            some = values(rng, dtype, (int(mask.sum()), *x.shape[ndim:]))
            for value in (one, some, dev.tensor(some)):
                t, want = make(), x.copy()
                t[dev.tensor(mask)] = value
                want[mask] = value.numpy() if isinstance(value, pk.Tensor) else value
                same(t, want)
    flat = dev.tensor(x[0, 0])
    flat[dev.tensor(np.array([3, 0]))] = x[1, 0, :2]
    assert flat.numpy()[[3, 0]].tolist() == x[1, 0, :2].tolist()


def test_scatters(dev: pk.Device) -> None:
    rng = np.random.default_rng(7)
    x, src = values(rng, "float16", (4, 6)), values(rng, "float16", (4, 5))
    index = np.argsort(rng.random((3, 6)), 1)[:, :4]
    want = x.copy()
    np.put_along_axis(want[:3], index, src[:3, :4], 1)
    for t in (dev.tensor(x), strided(dev, x), x):
        same(pk.scatter(t, 1, index, src), want)
    assert dev.tensor(x).numpy().tobytes() == x.tobytes()
    t = dev.tensor(x)
    assert pk.scatter(t, -1, index, src, out=t) is t
    same(t, want)
    np.put_along_axis(want[:3], index, np.float16(2), 1)
    same(pk.scatter(x, 1, index, 2), want)
    with pytest.raises(
        pk.ShapeError, match=r"\[scatter\] src must be at least as large as index, \(3, 4\)"
    ):
        pk.scatter(x, 1, index, src[:2])
    with pytest.raises(pk.DTypeError, match=r"\[scatter\] src must have the dtype of x, float16"):
        pk.scatter(x, 1, index, src.astype("f4"))
