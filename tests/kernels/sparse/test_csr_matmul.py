"""csr_matmul and CSR: values, layouts, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.sparse.csr_matmul import choose
from pykernels.reference.sparse import csr_matmul, csr_matmul_budget
from tests.harness import Array, Case, assert_close, random_form

gpu = pytest.mark.gpu


class Scipy:
    """What CSR reads of a scipy.sparse.csr_array."""

    format = "csr"

    def __init__(self, data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> None:
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape


def matrix(
    rng: np.random.Generator, lengths: list[int], columns: int, dtype: str = "f4"
) -> tuple[Array, Array, Array]:
    """Elements in any order of columns, some of one place."""
    count = sum(lengths)
    data = rng.normal(size=count).astype(dtype)
    indices = rng.integers(0, max(columns, 1), count).astype("i4")
    return data, indices, np.concatenate([[0], np.cumsum(lengths)]).astype("i4")


SHAPES: dict[str, tuple[list[int], int, int]] = {
    "vector": ([2, 0, 5, 1], 7, 1),
    "empty rows": ([0, 0, 3, 0, 0], 4, 3),
    "no elements": ([0, 0, 0], 4, 5),
    "no columns": ([0, 0], 0, 2),
    "one huge row": ([3000, 1, 0], 50, 1),
    "huge row, wide": ([700, 2], 50, 70),
    "many lanes": ([40, 33, 64, 7], 90, 2),
    "many rows": ([1, 0, 2] * 300, 20, 5),
    "wide": ([3, 4], 9, 130),
    "duplicates": ([12, 9], 2, 3),
}


@gpu
@pytest.mark.parametrize("kinds", [("f4", "f4"), ("f2", "f2"), ("f2", "f4"), ("f4", "f2")])
@pytest.mark.parametrize("odd", [False, True])
def test_matches_its_reference(dev: pk.Device, kinds: tuple[str, str], odd: bool) -> None:
    case = Case(dev, seed=1)
    calls = []
    for lengths, k, n in SHAPES.values():
        arrays = (
            *matrix(case.rng, lengths, k, kinds[0]), case.rng.normal(size=(k, n)).astype(kinds[1])
        )  # fmt: skip
        forms = [random_form(case.rng, a.ndim, repeats=False) if odd else None for a in arrays]
        given = [case.input(a, f) for a, f in zip(arrays, forms, strict=True)]
        dtype = "float16" if kinds == ("f2", "f2") else "float32"
        calls.append((given, arrays, case.output((len(lengths), n), dtype, forms[3])))
    case.build()

    def run() -> None:
        for given, _, dst in calls:
            pk.kernels.csr_matmul(*[g.tensor for g in given], dst.tensor)

    for got, (_, arrays, _), name in zip(case.run(run), calls, SHAPES, strict=True):
        want, bound = csr_matmul(*arrays), csr_matmul_budget(*arrays)
        if got.dtype == np.float16:
            bound = bound + 2.0**-10 * np.abs(want) + 2.0**-24
        assert_close(got, want, bound, name)


@gpu
def test_equals_a_dense_product(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    data, indices, indptr = matrix(rng, [3, 0, 9, 4], 6)
    data, x = np.round(4 * data), np.round(4 * rng.normal(size=(6, 5))).astype("f4")
    a = pk.CSR((data, indices.astype("i8"), indptr.astype("u4")), (4, 6), device=dev)
    assert (a.shape, a.nnz, a.dtype) == ((4, 6), 16, "float32") and a.device is dev
    dense = a.toarray()
    assert ((a @ dev.tensor(x)).numpy() == dense @ x).all()
    assert ((a @ dev.tensor(x)[::-1].T[2]).numpy() == dense @ x[::-1, 2]).all()
    got = a @ x.astype("f8")
    assert isinstance(got, np.ndarray) and got.dtype == np.float32 and (got == dense @ x).all()
    out = dev.zeros((2, 4))
    assert pk.csr_matmul(a, x[:, 1], out=out[1]) is not None
    assert (out.numpy() == [np.zeros(4), dense @ x[:, 1]]).all()
    source = Scipy(data.astype("f8"), indices, indptr, (4, 6))
    assert (pk.csr_matmul(source, dev.tensor(x)).numpy() == dense @ x).all()
    assert pk.CSR((data, indices, indptr), device=dev).shape == (4, indices.max() + 1)


@gpu
@pytest.mark.parametrize("form", ["csr_array", "csr_matrix"])
def test_takes_what_scipy_makes(dev: pk.Device, form: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(3)
    a = getattr(sparse, form)(np.round(rng.normal(size=(20, 30))).astype("f4"))
    x = np.arange(60, dtype="f4").reshape(30, 2)
    assert (pk.csr_matmul(a, dev.tensor(x)).numpy() == a @ x).all()
    with pytest.raises(pk.ArgumentError, match=r"source must be in CSR but is in csc"):
        pk.CSR(a.tocsc())


@gpu
def test_runs_give_the_same_bits(dev: pk.Device) -> None:
    rng = np.random.default_rng(4)
    a = pk.CSR(matrix(rng, [900, 3, 700], 40), (3, 40), device=dev)
    x = dev.tensor(rng.normal(size=(40, 3)).astype("f4"))
    first = (a @ x).numpy()
    assert all(((a @ x).numpy() == first).all() for _ in range(3))


@gpu
@pytest.mark.crowd
def test_more_workgroups_than_a_grid_has(dev: pk.Device) -> None:
    """A row in each workgroup, whose four elements are the same."""
    rows = 65_600
    data, indices = np.ones(4 * rows, "f4"), np.repeat(np.arange(rows) % 5, 4)
    a = pk.CSR((data, indices, np.arange(0, 4 * rows + 1, 4)), (rows, 5), device=dev)
    assert choose(a.nnz, rows, 64) == (2, 6)
    x = np.arange(320, dtype="f4").reshape(5, 64)
    assert ((a @ dev.tensor(x)).numpy() == 4 * x[np.arange(rows) % 5]).all()


@pytest.mark.once
@gpu
@pytest.mark.parametrize("kinds", [("f4", "f4"), ("f2", "f2"), ("f4", "f2")])
@pytest.mark.parametrize("n", [0, 3])
def test_gradients(dev: pk.Device, kinds: tuple[str, str], n: int) -> None:
    rng = np.random.default_rng(5)
    data, indices, indptr = matrix(rng, [3, 0, 9, 4], 6, kinds[0])
    x = rng.normal(size=(6, n) if n else 6).astype(kinds[1])
    a = pk.CSR((data, indices, indptr), (4, 6), device=dev)
    t, dy = dev.tensor(x), rng.normal(size=(4, n) if n else 4)
    with pk.Tape() as tape:
        y = a @ t
    dy = dy.astype(y.dtype)
    by_data, by_x = tape.gradient(y, [a.data, t], dev.tensor(dy))
    rows = np.repeat(np.arange(4), np.diff(indptr))
    wide = [np.atleast_2d(v.astype("f8").T).T for v in (dy, x)]
    each = wide[0][rows] * wide[1][indices]
    dense = np.zeros((4, 6))
    np.add.at(dense, (rows, indices), data.astype("f8"))
    unit = 2.0**-10 if "f2" in kinds else 2.0**-20
    for got, want in ((by_data, each.sum(1)), (by_x, (dense.T @ wide[0]).reshape(x.shape))):
        assert np.abs(got.numpy() - want).max() < 8 * unit
    assert (by_data.dtype, by_x.dtype) == (a.dtype, t.dtype)


@pytest.mark.once
@gpu
def test_gradients_of_gradients(dev: pk.Device) -> None:
    """Of a square, by x: the second derivative is a product of four matrices."""
    rng = np.random.default_rng(6)
    a = pk.CSR(matrix(rng, [2, 0, 3], 4), (3, 4), device=dev)
    x = dev.tensor(rng.normal(size=(4, 2)).astype("f4"))
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            y = pk.sum(pk.square(a @ x))
        dx = inner.gradient(y, x)
        total = pk.sum(pk.square(dx))
    got = outer.gradient(total, x).numpy()
    dense = a.toarray().astype("f8")
    twice = 2 * dense.T @ dense
    assert np.abs(got - 2 * twice @ twice @ x.numpy()).max() < 1e-3


@gpu
def test_indices_out_of_range_raise_and_count_nothing(dev: pk.Device) -> None:
    data, indptr = dev.tensor(np.ones(4, "f4")), dev.tensor(np.array([0, 2, 4], "i4"))
    x = dev.tensor(np.arange(6, dtype="f4").reshape(3, 2))
    for wrong in (3, -1, 1 << 30, -(1 << 31)):
        indices = dev.tensor(np.array([0, 1, wrong, 2], "i4"))
        y = pk.CSR((data, indices, indptr), (2, 3)) @ x
        with pytest.raises(
            pk.IndexRangeError, match=rf"indices must be .* is {wrong} at position .2,"
        ):
            dev.sync()
        assert (y.numpy() == [[2, 4], [4, 5]]).all()
        pk.kernels.csr_matmul(data, indices, indptr, x, y, check=False)
        dev.sync()


@gpu
def test_wrong_ends_of_rows_read_no_other_elements(dev: pk.Device) -> None:
    data, indices = dev.tensor(np.ones(3, "f4")), dev.tensor(np.zeros(3, "i4"))
    indptr = dev.tensor(np.array([-5, 2, 1, 1 << 30], "i4"))
    y = pk.CSR((data, indices, indptr), (3, 1)) @ dev.ones((1,))
    assert (y.numpy() == [2, 0, 2]).all()


ONE = (np.ones(2, "f4"), np.array([0, 2]), np.array([0, 1, 2]))
BROKEN: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "data of integers": ((ONE[0].astype(int), *ONE[1:]), None, pk.DTypeError, "data must be"),
    "indices of floats": ((ONE[0], ONE[1] * 1.0, ONE[2]), None, pk.DTypeError, "indices must be"),
    "sizes": ((ONE[0][:1], *ONE[1:]), None, pk.ShapeError, "data and indices must be"),
    "two axes": ((ONE[0][None], *ONE[1:]), None, pk.ShapeError, "data must have one axis"),
    "no rows": ((*ONE[:2], ONE[2][:0]), None, pk.ShapeError, r"indptr \(rows \+ 1,\)"),
    "descends": ((*ONE[:2], ONE[2][[0, 2, 1]]), None, pk.IndexRangeError, "indptr must ascend"),
    "begins late": ((*ONE[:2], ONE[2] + 1), None, pk.IndexRangeError, "indptr must ascend"),
    "column": (ONE, (2, 2), pk.IndexRangeError, r"indices\[1\] is 2 but there are 2 columns"),
    "negative": ((ONE[0], -ONE[1], ONE[2]), (2, 3), pk.IndexRangeError, r"indices\[1\] is -2"),
    "rows": (ONE, (3, 3), pk.ShapeError, r"indptr of 3 elements does not fit shape \(3, 3\)"),
    "shape": (ONE, 3, pk.ShapeError, "shape must be"),
    "a dense array": (np.eye(2), None, pk.DTypeError, "source must be a CSR array"),
    "a list": (([1.0], *ONE[1:]), None, pk.DTypeError, "data must be a pykernels.Tensor or"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_host_checks_arrays(name: str) -> None:
    source, shape, kind, text = BROKEN[name]
    with pytest.raises(kind, match=rf"\[CSR\] .*{text}"):
        pk.CSR(source, shape)


@gpu
def test_refuses(dev: pk.Device) -> None:
    a = pk.CSR(ONE, (2, 3), device=dev)
    for x in (dev.ones((2,)), dev.ones((3, 2, 1)), dev.ones(())):
        with pytest.raises(pk.ShapeError, match=r"\[csr_matmul\] x must be \(3,\) or \(3, N\)"):
            pk.csr_matmul(a, x)
    with pytest.raises(
        pk.DTypeError, match=r"\[csr_matmul\] x must be float32, float16 or bfloat16"
    ):
        a @ dev.ones((3,), "int32")
    with pytest.raises(pk.ShapeError, match="out must have shape"):
        pk.csr_matmul(a, dev.ones((3,)), out=dev.ones((3,)))
    for indptr in (a.indptr[None], a.indptr[:0]):
        with pytest.raises(pk.ShapeError, match=r"indptr must be \(M \+ 1,\) but has shape"):
            pk.kernels.csr_matmul(a.data, a.indices, indptr, dev.ones((3, 1)), dev.ones((2, 1)))
    for data, indices in ((a.data[:1], a.indices), (a.data[None], a.indices[None])):
        with pytest.raises(pk.ShapeError, match="data and indices must have one axis of the same"):
            pk.kernels.csr_matmul(data, indices, a.indptr, dev.ones((3, 1)), dev.ones((2, 1)))
    with pytest.raises(pk.DTypeError, match="out must be float32"):
        pk.csr_matmul(a, dev.ones((3,)), out=dev.ones((2,), "float16"))
    with pytest.raises(pk.ArgumentError, match="shape must be given"):
        pk.CSR((a.data, a.indices, a.indptr))
    with pytest.raises(pk.DTypeError, match="indices must be int32"):
        pk.CSR((a.data, a.data, a.indptr), (2, 3))
    with pytest.raises(pk.DTypeError, match="all Tensors or all arrays"):
        pk.CSR((a.data, *ONE[1:]), (2, 3))


def test_lanes_and_columns() -> None:
    assert choose(0, 4, 1) == (0, 0) and choose(40, 4, 1) == (3, 0)
    assert choose(10**6, 4, 1) == (5, 0) and choose(10**6, 4, 1000) == (2, 6)
