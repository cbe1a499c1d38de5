"""lu_factor, det and slogdet: sizes around the variants and blocks, layouts, batches, pivots,
singular matrices and NaN, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.linalg.lu_factor import width
from pykernels.reference.linalg import exchanged, lu_factor, lu_residual
from tests.harness import Array, Case, caps, random_form

SHAPES = [
    (1, 1),
    (7, 16, 16),
    (31, 31),
    (2, 3, 32, 32),
    (33, 33),
    (64, 64),
    (65, 65),
    (97, 97),
    (2, 131, 131),
]
gpu = pytest.mark.gpu


def assert_factors(a: Array, lu: Array, pivots: Array) -> None:
    found, bound = lu_residual(a, lu, pivots)
    assert (found <= bound).all(), (a.shape, (found - bound).max())
    assert np.abs(np.tril(lu, -1)).max(initial=0) <= 1
    rows = np.arange(a.shape[-1])
    assert ((pivots >= rows) & (pivots <= max(a.shape[-1] - 1, 0))).all()


def test_the_reference_is_the_factors() -> None:
    a = np.random.default_rng(0).normal(size=(3, 20, 20))
    lu, pivots = lu_factor(a)
    lower, upper = np.tril(lu, -1) + np.eye(20), np.triu(lu)
    assert np.abs(exchanged(a, pivots) - lower @ upper).max() < 1e-13
    assert np.abs(np.tril(lu, -1)).max() <= 1
    sign = np.where((pivots != np.arange(20)).sum(-1) % 2, -1, 1)
    size = sign * upper.diagonal(axis1=-2, axis2=-1).prod(-1)
    assert np.abs(size / np.linalg.det(a) - 1).max() < 1e-12


def test_panels_widen_so_that_a_call_fits_into_one_batch() -> None:
    assert [width(n) for n in (65, 2048, 2049, 4096, 8192, 16384)] == [32, 32, 64, 64, 128, 256]
    assert width(1 << 20) == 256


@gpu
def test_lu_factor_matches_its_reference(dev: pk.Device) -> None:
    case, calls = Case(dev, seed=1), []
    for shape in SHAPES:
        for k in range(3):
            forms = [
                random_form(case.rng, n, repeats=False) if k else None
                for n in (len(shape), len(shape), len(shape) - 1)
            ]
            a = case.input(case.rng.normal(size=shape).astype("f4"), forms[0])
            lu = case.output(shape, "float32", forms[1])
            calls.append((a, lu, case.output(shape[:-1], "int32", forms[2])))
    case.build()
    given = [a.array.copy() for a, *_ in calls]
    got = case.run(
        lambda: [pk.kernels.lu_factor(a.tensor, lu.tensor, p.tensor) for a, lu, p in calls]
    )
    for a, lu, pivots in zip(given, got[::2], got[1::2], strict=True):
        assert_factors(a, lu, pivots)


@gpu
@pytest.mark.parametrize("n", [5, 40, 64, 100])
def test_pivots_are_the_first_of_the_largest(dev: pk.Device, n: int) -> None:
    """Columns of equal magnitudes: factors of small integers are exact, so pivots are too."""
    rng = np.random.default_rng(2)
    lower = np.tril(rng.choice([-1, 1], (3, n, n)), -1) * (np.arange(n) < 5) + np.eye(n)
    upper = np.triu(rng.integers(-2, 3, (3, n, n)), 1) * (np.arange(n) < 9) + np.eye(n) * 2
    a = (lower @ upper).astype("f4")
    lu, pivots = pk.lu_factor(dev.tensor(a))
    want, rows = lu_factor(a)
    assert (pivots.numpy() == rows).all()
    assert (lu.numpy() == want).all()
    a = rng.choice([-3, 3], (n, n)).astype("f4")  # the first column has only candidates
    assert pk.lu_factor(dev.tensor(a))[1].numpy()[0] == 0


@gpu
def test_parts_and_long_grids(dev: pk.Device) -> None:
    rng = np.random.default_rng(3)
    for shape, changes in (
        ((99, 9, 9), {"max_binding": 8192}),  # of 32,076 bytes
        ((3, 70, 70), {"max_binding": 32768}),  # a matrix has 19,600
        ((7, 5, 5), {"max_groups": 2}),
    ):
        a = rng.normal(size=shape).astype("f4")
        lu, pivots = dev.zeros(shape), dev.zeros(shape[:-1], "int32")
        with caps(dev, **changes):
            pk.kernels.lu_factor(dev.tensor(a), lu, pivots)
            assert_factors(a, lu.numpy(), pivots.numpy())
    a, lu, pivots = dev.rand((70, 70), seed=4), dev.zeros((70, 70)), dev.zeros((70,), "int32")
    with caps(dev, max_binding=16384), pytest.raises(pk.LimitError, match="one binding"):
        pk.kernels.lu_factor(a, lu, pivots)


@gpu
@pytest.mark.parametrize("n", [3, 70])
def test_levels_of_batches(dev: pk.Device, n: int) -> None:
    a = np.random.default_rng(5).normal(size=(2, 1, 2, 1, 2, n, n)).astype("f4")
    wide = np.zeros((4, 2, 4, 2, 4, n, n), "f4")
    wide[::2, ::2, ::2, ::2, ::2] = a
    t = dev.tensor(wide)[::2, ::2, ::2, ::2, ::2]
    assert_factors(a, *(v.numpy() for v in pk.lu_factor(t)))


@gpu
@pytest.mark.parametrize("n", [3, 20, 40, 100])
def test_singular_matrices_have_factors(dev: pk.Device, n: int) -> None:
    rng = np.random.default_rng(6)
    a = rng.integers(-3, 4, (4, n, n)).astype("f4") / 8
    a[0] = 0
    a[1, :, 1] = 0
    a[2, :, n - 1] = 2 * a[2, :, 0]
    a[3] *= 1e-40  # subnormal numbers may count as 0
    lu, pivots = (v.numpy() for v in pk.lu_factor(dev.tensor(a)))
    assert np.isfinite(lu).all()
    assert_factors(a[:3], lu[:3], pivots[:3])
    assert not lu[0].any() and (pivots[0] == np.arange(n)).all()
    assert not np.tril(lu[3], -1).any()
    det = pk.det(dev.tensor(a[:2])).numpy()
    sign, size = (v.numpy() for v in pk.slogdet(dev.tensor(a[:2])))
    assert not det.any() and not sign.any() and (size == -np.inf).all()


@gpu
@pytest.mark.parametrize("n", [20, 40, 100])
def test_nan_is_the_largest(dev: pk.Device, n: int) -> None:
    a = np.random.default_rng(7).normal(size=(3, n, n)).astype("f4")
    col = n // 2 + 1
    _, rows = lu_factor(a)
    a[1, n - 2, col] = np.nan
    a[1, n - 1, col] = np.inf
    lu, pivots = (v.numpy() for v in pk.lu_factor(dev.tensor(a)))
    assert_factors(a[::2], lu[::2], pivots[::2])
    assert (pivots[1, :col] == rows[1, :col]).all()  # columns before it do not know of it
    assert np.isfinite(lu[1, :, :col]).all()
    assert np.isnan(lu[1, col, col]) and np.isnan(lu[1, col + 1 :, col:]).all()
    assert np.isnan(pk.det(dev.tensor(a)).numpy()).tolist() == [False, True, False]


@gpu
def test_it_runs_captured(dev: pk.Device) -> None:
    a = np.random.default_rng(8).normal(size=(100, 100)).astype("f4")
    t, lu, pivots = dev.tensor(a), dev.zeros((100, 100)), dev.zeros((100,), "int32")
    pk.kernels.lu_factor(t, lu, pivots)
    with dev.capture() as program:
        pk.kernels.lu_factor(t, lu, pivots)
    lu.write(np.zeros((100, 100), "f4"))
    program()
    assert_factors(a, lu.numpy(), pivots.numpy())


def det_bound(a: Array) -> Array:
    """The error of a determinant relative to it: the factors are those of a + e with
    |e| <= (n + 4) units |l| |u|, and |d det| <= sum |e| |a^-T| |det|; then n roundings."""
    n = a.shape[-1]
    lu, pivots = lu_factor(a)
    wide = np.abs(np.tril(lu, -1) + np.eye(n)) @ np.abs(np.triu(lu))
    inverse = np.abs(np.linalg.inv(exchanged(a.astype("f8"), pivots)))
    bound: Array = 2.0**-23 * ((n + 4) * (wide * inverse.swapaxes(-1, -2)).sum((-1, -2)) + n)
    return bound


@pytest.mark.once
@gpu
@pytest.mark.parametrize("n", [1, 2, 9, 40, 70])
def test_determinants(dev: pk.Device, n: int) -> None:
    a = np.random.default_rng(9).normal(size=(2, 3, n, n)).astype("f4") / np.float32(n**0.5)
    want, bound = np.linalg.det(a.astype("f8")), det_bound(a)
    t = dev.tensor(a)
    assert (np.abs(pk.det(t).numpy() - want) <= bound * np.abs(want) + 2.0**-126).all()
    sign, size = (v.numpy() for v in pk.slogdet(t))
    logs = np.linalg.slogdet(a.astype("f8"))
    assert (sign == logs[0]).all()
    each = np.abs(np.log(np.abs(np.triu(lu_factor(a)[0]).diagonal(axis1=-2, axis2=-1)))).sum(-1)
    assert (np.abs(size - logs[1]) <= 2 * bound + (n + 4) * 2.0**-23 * each).all()
    assert isinstance(pk.det(a[0]), np.ndarray) and isinstance(pk.slogdet(a[0])[0], np.ndarray)
    out = dev.zeros((3, 4))[::-1, ::2].T
    assert pk.det(t, out=out) is out
    assert (out.numpy() == pk.det(t).numpy()).all()


@pytest.mark.once
@gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_determinants_of_16_bits(dev: pk.Device, dtype: str) -> None:
    given = np.random.default_rng(10).integers(-3, 4, (3, 5, 5)).astype("f4")
    t = dev.tensor(given).astype(dtype)
    half = 2.0**-11 if dtype == "float16" else 2.0**-8
    want = np.linalg.det(given.astype("f8"))
    found = pk.det(t)
    assert found.dtype == dtype
    error = np.abs(found.astype("float32").numpy() - want)
    assert (error <= (half + det_bound(given)) * np.abs(want)).all()
    out = dev.zeros((3,), dtype)
    assert pk.det(t, out=out) is out
    assert (out.astype("float32").numpy() == found.astype("float32").numpy()).all()
    sign, size = pk.slogdet(t)
    assert (sign.dtype, size.dtype) == (dtype, dtype)
    assert (sign.astype("float32").numpy() == np.sign(want)).all()


@pytest.mark.once
@gpu
def test_a_large_determinant_has_a_logarithm(dev: pk.Device) -> None:
    t = dev.tensor(np.diag(np.full(50, -10.0, "f4")))
    assert pk.det(t).item() == np.inf
    sign, size = pk.slogdet(t)
    assert sign.item() == 1 and abs(size.item() - 50 * np.log(10)) < 1e-4


@gpu
def test_sizes_of_zero(dev: pk.Device) -> None:
    for shape in ((0, 0), (3, 0, 0), (0, 4, 4), (0, 70, 70)):
        t = dev.zeros(shape)
        lu, pivots = pk.lu_factor(t)
        assert lu.shape == shape and pivots.shape == shape[:-1] and pivots.dtype == "int32"
        assert (pk.det(t).numpy() == np.ones(shape[:-2])).all()
        sign, size = pk.slogdet(t)
        assert (sign.numpy() == 1).all() and not size.numpy().any()
        assert sign.shape == size.shape == shape[:-2]


@gpu
def test_what_is_refused(dev: pk.Device) -> None:
    a, pivots = dev.zeros((3, 3)), dev.zeros((3,), "int32")
    with pytest.raises(pk.ShapeError, match=r"^\[lu_factor\] a and dst must be \(..., n, n\)"):
        pk.kernels.lu_factor(a, dev.zeros((3, 2)), pivots)
    with pytest.raises(pk.ShapeError, match=r"^\[lu_factor\] pivots must have shape \(3,\)"):
        pk.kernels.lu_factor(a, dev.zeros((3, 3)), pivots[:2])
    with pytest.raises(pk.DTypeError, match=r"^\[lu_factor\] pivots must be int32"):
        pk.kernels.lu_factor(a, dev.zeros((3, 3)), dev.zeros((3,)))
    for function in (pk.lu_factor, pk.det, pk.slogdet):
        for wrong in (a[:2], dev.zeros(3)):
            with pytest.raises(pk.ShapeError, match=r"\] a must be \(..., n, n\) but"):
                function(wrong)
        with pytest.raises(pk.DTypeError, match=r"\] a must be float32"):
            function(dev.zeros((3, 3), "int32"))
    with pytest.raises(pk.ShapeError, match=r"^\[det\] out must have shape \(\)"):
        pk.det(a, out=dev.zeros(3))


@pytest.mark.once
@gpu
@pytest.mark.parametrize("n", [6, 70])
def test_gradients(dev: pk.Device, n: int) -> None:
    """Of factors along a direction, and of determinants: the transposed inverse times them."""
    rng = np.random.default_rng(11)
    a = (np.eye(n) + rng.normal(size=(n, n)) / (3 * n))[rng.permutation(n)].astype("f4")
    dy = rng.normal(size=(n, n)).astype("f4")
    t = dev.tensor(a)
    with pk.Tape() as tape:
        lu = pk.lu_factor(t)[0]
    (da,) = (g.numpy() for g in tape.gradient(lu, [t], dev.tensor(dy)))
    step = rng.normal(size=(n, n)) * 1e-6
    ends = [(lu_factor(a + s)[0] * dy).sum() for s in (step, -step)]
    assert abs((ends[0] - ends[1]) / 2 - (da * step).sum()) < 1e-4 * np.abs(da * step).sum()
    for function, factor in ((pk.det, np.linalg.det(a.astype("f8"))),
                             (lambda x: pk.slogdet(x)[1], 1.0)):  # fmt: skip
        with pk.Tape() as tape:
            y = function(t)
        (da,) = (g.numpy() for g in tape.gradient(y, [t]))
        want = factor * np.linalg.inv(a.astype("f8")).T
        assert np.abs(da - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.once
@gpu
def test_the_gradient_of_a_singular_determinant_is_not_finite(dev: pk.Device) -> None:
    t = dev.tensor(np.float32([[1, 2], [2, 4]]))
    with pk.Tape() as tape:
        y = pk.det(t)
    (da,) = tape.gradient(y, [t])
    assert y.item() == 0 and not np.isfinite(da.numpy()).any()
