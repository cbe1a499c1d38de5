"""cholesky and cholesky_solve: sizes around the variants and blocks, layouts, batches, both
triangles, matrices without a factor, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.linalg import cholesky, cholesky_residual
from tests.harness import Array, Case, caps, random_form

pytestmark = pytest.mark.gpu
SHAPES = [
    (1, 1),
    (7, 16, 16),
    (17, 17),
    (2, 3, 32, 32),
    (33, 33),
    (64, 64),
    (65, 65),
    (2, 131, 131),
]


def definite(rng: np.random.Generator, shape: tuple[int, ...], other: float = np.nan) -> Array:
    """Symmetric matrices with eigenvalues of 0.1 and more; `other` stands above the diagonal."""
    n = shape[-1]
    g = rng.normal(size=shape)
    a = g @ g.swapaxes(-1, -2) / n + 0.1 * np.eye(n)
    return np.where(np.tril(np.ones((n, n), bool)), a, other).astype("f4")


def assert_factor(lower: Array, a: Array) -> None:
    found, bound = cholesky_residual(a, lower)
    assert (found <= bound).all(), (a.shape, (found - bound).max())
    assert (lower.diagonal(axis1=-2, axis2=-1) > 0).all()
    assert not np.triu(lower, 1).any()


def test_the_reference_is_the_factor() -> None:
    a = definite(np.random.default_rng(0), (3, 20, 20), 0.0).astype("f8")
    a = np.tril(a) + np.tril(a, -1).swapaxes(-1, -2)
    assert np.abs(cholesky(a) - np.linalg.cholesky(a)).max() < 1e-13


def test_cholesky_matches_its_reference(dev: pk.Device) -> None:
    case, calls = Case(dev, seed=1), []
    for shape in SHAPES:
        for k in range(3):
            forms = [
                random_form(case.rng, len(shape), repeats=False) if k else None for _ in range(2)
            ]
            a = case.input(definite(case.rng, shape), forms[0])
            calls.append((a, case.output(shape, "float32", forms[1])))
    case.build()
    given = [a.array.copy() for a, _ in calls]
    got = case.run(lambda: [pk.kernels.cholesky(a.tensor, dst.tensor) for a, dst in calls])
    for lower, a in zip(got, given, strict=True):
        assert_factor(lower, a)


def test_parts_and_long_grids(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    for shape, changes in (
        ((99, 9, 9), {"max_binding": 8192}),  # of 32,076 bytes
        ((3, 70, 70), {"max_binding": 16384}),  # a matrix has 19,600
        ((7, 5, 5), {"max_groups": 2}),
    ):
        a, dst = definite(rng, shape), dev.zeros(shape)
        with caps(dev, **changes):
            pk.kernels.cholesky(dev.tensor(a), dst)
            assert_factor(dst.numpy(), a)


def test_levels_of_batches(dev: pk.Device) -> None:
    a = definite(np.random.default_rng(3), (2, 3, 2, 3, 2, 3, 3))
    wide = np.zeros((4, 6, 4, 6, 4, 3, 3), "f4")
    wide[::2, ::2, ::2, ::2, ::2] = a
    assert_factor(pk.cholesky(dev.tensor(wide)[::2, ::2, ::2, ::2, ::2]).numpy(), a)


@pytest.mark.parametrize("n", [20, 150])
def test_both_triangles_and_out(dev: pk.Device, n: int) -> None:
    a = definite(np.random.default_rng(4), (2, n, n))
    t = dev.tensor(a)
    lower = pk.cholesky(t).numpy()
    assert_factor(lower, a)
    upper = pk.cholesky(t.swapaxes(-1, -2), upper=True).numpy()
    assert (upper == lower.swapaxes(-1, -2)).all()
    assert isinstance(pk.cholesky(a[0]), np.ndarray)
    out = dev.zeros((4, n + 1, n))[::2, 1:]
    assert pk.cholesky(t, out=out) is out
    assert (out.numpy() == lower).all()
    room = dev.zeros((2, n + 1, n))  # the result overlaps its argument by all rows but one
    room[:, :n] = t
    pk.cholesky(room[:, :n], out=room[:, 1:])
    assert (room[:, 1:].numpy() == lower).all()
    assert pk.cholesky(t, out=t) is t
    assert (t.numpy() == lower).all()


@pytest.mark.parametrize("n", [16, 40, 150])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_no_factor_gives_nan_from_the_bad_column_on(dev: pk.Device, n: int, value: float) -> None:
    a = definite(np.random.default_rng(5), (3, n, n))
    bad = n // 2 + 1
    a[1, bad, bad] = value
    got = pk.cholesky(dev.tensor(a)).numpy()
    assert_factor(got[::2], a[::2])
    lost = np.tril(np.broadcast_to(np.arange(n) >= bad, (n, n)))
    assert (np.isnan(got[1]) == lost).all()
    assert not np.triu(got, 1).any()
    assert_factor(got[1, :bad, :bad], a[1, :bad, :bad])


def test_the_reference_has_no_factor_of_a_zero_pivot() -> None:
    found = cholesky(np.array([[4, 0, 0], [2, 1, 0], [6, 9, 5]]))
    assert np.isnan(np.tril(found)[1:, 1:]).sum() == 3 and found[:, 0].tolist() == [2, 1, 3]


def test_it_runs_captured(dev: pk.Device) -> None:
    a = definite(np.random.default_rng(6), (100, 100))
    t, dst = dev.tensor(a), dev.zeros((100, 100))
    pk.cholesky(t, out=dst)
    with dev.capture() as program:
        pk.cholesky(t, out=dst)
    dst.write(np.zeros((100, 100), "f4"))
    program()
    assert_factor(dst.numpy(), a)


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_cholesky_solve(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(7)
    a = definite(rng, (3, 40, 40))
    lower = cholesky(a).astype(dtype)
    full = lower.astype("f8") @ lower.astype("f8").swapaxes(-1, -2)
    b = rng.normal(size=(40, 5)).astype(dtype)
    want = np.linalg.solve(full, b.astype("f8"))
    rounding = 2.0**-24 if dtype == "f4" else 2.0**-11
    inverse = np.abs(np.linalg.inv(full))
    wide = np.abs(lower.astype("f8"))
    # Two substitutions, each off by 44 roundings of f32 (theorem 10.4), then the dtype's rounding.
    bound = 2 * 44 * 2.0**-23 * (inverse @ (wide @ wide.swapaxes(-1, -2)) @ np.abs(want))
    for upper in (False, True):
        t = dev.tensor(lower.swapaxes(-1, -2) if upper else lower)
        x = pk.cholesky_solve(dev.tensor(b), t, upper=upper)
        assert x.dtype == ("float32" if dtype == "f4" else "float16") and x.shape == (3, 40, 5)
        assert (np.abs(x.numpy() - want) <= bound + 2 * rounding * np.abs(want)).all()
    assert isinstance(pk.cholesky_solve(b, lower[0]), np.ndarray)
    t = dev.tensor(np.broadcast_to(b, (3, 40, 5)).copy())
    assert pk.cholesky_solve(t, dev.tensor(lower), out=t) is t
    assert (np.abs(t.numpy() - want) <= bound + 2 * rounding * np.abs(want)).all()


def test_what_is_refused(dev: pk.Device) -> None:
    a, b = dev.zeros((3, 3)), dev.zeros((3, 2))
    with pytest.raises(pk.ShapeError, match=r"^\[cholesky\] a and dst must be \(..., n, n\)"):
        pk.kernels.cholesky(b, dev.zeros((3, 2)))
    for wrong in (b, dev.zeros(3)):
        with pytest.raises(pk.ShapeError, match=r"^\[cholesky\] a must be \(..., n, n\) but"):
            pk.cholesky(wrong)
    with pytest.raises(pk.DTypeError, match=r"^\[cholesky\] a must be float32"):
        pk.cholesky(dev.zeros((3, 3), "int32"))
    with pytest.raises(pk.ShapeError, match=r"^\[cholesky\] out must have shape"):
        pk.cholesky(a, out=b)
    with pytest.raises(pk.ArgumentError, match=r"^\[cholesky\] upper must be True or False"):
        pk.cholesky(a, upper=1)  # type: ignore[arg-type]
    with pytest.raises(pk.ShapeError, match=r"^\[cholesky_solve\] factor must be \(..., n, n\)"):
        pk.cholesky_solve(b, dev.zeros((2, 2)))
    with pytest.raises(pk.DTypeError, match=r"^\[cholesky_solve\] b must have the dtype of factor"):
        pk.cholesky_solve(b, a.astype("float16"))
    with pytest.raises(pk.DTypeError, match=r"^\[cholesky_solve\] factor must be float32"):
        pk.cholesky_solve(b, dev.zeros((3, 3), "int32"))
    assert pk.cholesky(a[:0, :0]).shape == (0, 0)
    assert pk.cholesky(dev.zeros((0, 70, 70))).shape == (0, 70, 70)
    assert pk.cholesky_solve(b[:0], a[:0, :0]).shape == (0, 2)


@pytest.mark.once
@pytest.mark.parametrize("n", [6, 70])
@pytest.mark.parametrize("upper", [False, True])
def test_gradients(dev: pk.Device, n: int, upper: bool) -> None:
    rng = np.random.default_rng(8)
    a, dy = definite(rng, (n, n), 0.0), rng.normal(size=(n, n)).astype("f4")
    a = np.tril(a) + np.tril(a, -1).T
    t = dev.tensor(a)
    with pk.Tape() as tape:
        factor = pk.cholesky(t, upper=upper)
    (da,) = (g.numpy() for g in tape.gradient(factor, [t], dev.tensor(dy)))
    assert np.abs(da - da.T).max() <= 2.0**-22 * np.abs(da).max()
    step = rng.normal(size=(n, n)) * 1e-6
    step += step.T
    turned = dy.T if upper else dy
    ends = [(cholesky(a + s) * turned).sum() for s in (step, -step)]
    assert abs((ends[0] - ends[1]) / 2 - (da * step).sum()) < 1e-4 * np.abs(da * step).sum()


@pytest.mark.once
def test_gradients_of_a_solution(dev: pk.Device) -> None:
    """The gradient of b^T a^-1 b by b is 2 a^-1 b, and by a it is -x x^T."""
    rng = np.random.default_rng(9)
    a, b = definite(rng, (9, 9), 0.0), rng.normal(size=(9, 1)).astype("f4")
    a = np.tril(a) + np.tril(a, -1).T
    ta, tb = dev.tensor(a), dev.tensor(b)
    with pk.Tape() as tape:
        y = pk.sum(tb * pk.cholesky_solve(tb, pk.cholesky(ta)))
    da, db = (g.numpy() for g in tape.gradient(y, [ta, tb]))
    x = np.linalg.solve(a.astype("f8"), b)
    assert np.abs(db - 2 * x).max() < 1e-4 * np.abs(x).max()
    assert np.abs(da + x @ x.T).max() < 1e-4 * np.abs(x @ x.T).max()
