"""solve_tri and solve_triangular: sizes around a block, layouts, batches, all four triangles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.linalg import solve_tri, solve_tri_budget
from tests.harness import Array, Case, assert_close, caps, random_form

gpu = pytest.mark.gpu
SHAPES = [(1, 1), (5, 3), (15, 16), (16, 17), (33, 40), (3, 17, 1), (2, 3, 32, 5), (70, 2)]


def triangle(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Matrices whose triangles are well conditioned; NaN on the other side does not count."""
    n = shape[-1]
    a = rng.normal(size=shape) / n + np.eye(n) * rng.choice([-2, -1, 1, 2], n)
    a[..., np.triu(np.ones((n, n), bool), 1)] = np.nan
    return a.astype("f4")


@gpu
@pytest.mark.parametrize("unit", [False, True])
def test_solve_tri_matches_its_reference(dev: pk.Device, unit: bool) -> None:
    case = Case(dev, seed=1)
    calls = []
    for shape in SHAPES:
        square = (*shape[:-1], shape[-2])
        for k in range(3):
            forms = [random_form(case.rng, len(shape), repeats=r) if k else None
                     for r in (False, False, False)]  # fmt: skip
            a = case.input(triangle(case.rng, square), forms[0])
            b = case.input(case.rng.normal(size=shape).astype("f4"), forms[1])
            calls.append((a, b, case.output(shape, "float32", forms[2])))
    case.build()
    given = [(a.array.copy(), b.array.copy()) for a, b, _ in calls]
    got = case.run(
        lambda: [pk.kernels.solve_tri(a.tensor, b.tensor, x.tensor, unit=unit) for a, b, x in calls]
    )
    for x, (a, b) in zip(got, given, strict=True):
        assert_close(x, solve_tri(a, b, unit), solve_tri_budget(a, b, unit), str(b.shape))


@gpu
def test_parts_and_long_grids(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    a, b = triangle(rng, (3, 20, 20)), rng.normal(size=(3, 20, 90)).astype("f4")
    want, bound = solve_tri(a, b), solve_tri_budget(a, b)
    for changes in ({"max_binding": 8192}, {"max_groups": 2}):
        x = dev.zeros((3, 20, 90))
        with caps(dev, **changes):
            pk.kernels.solve_tri(dev.tensor(a), dev.tensor(b), x)
            assert_close(x.numpy(), want, bound)
    in_place = dev.tensor(b)
    pk.kernels.solve_tri(dev.tensor(a), in_place, in_place)
    assert_close(in_place.numpy(), want, bound)


@pytest.mark.once
@gpu
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_every_triangle(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(3)
    lower = np.tril(triangle(rng, (4, 18, 18))).astype(dtype)
    b = rng.normal(size=(18, 6)).astype(dtype)  # repeats for each matrix
    tolerance = 1e-5 if dtype == "f4" else 4e-3
    for upper in (False, True):
        a = lower.swapaxes(-1, -2) if upper else lower
        for unit in (False, True):
            full = a * (1 - np.eye(18)) + np.eye(18) if unit else a
            for left in (True, False):
                given = b if left else np.ascontiguousarray(b.T)
                t: Any = dev.tensor(a + np.tril(np.ones(18), -1).T.astype(dtype) * (not upper))
                got = pk.solve_triangular(
                    t, dev.tensor(given), upper=upper, left=left, unitriangular=unit
                ).numpy()
                assert got.dtype == dtype and got.shape == (4, *given.shape)
                again = full @ got if left else got @ full
                assert np.abs(again - given).max() < tolerance * 10
    numpys = pk.solve_triangular(lower[0], b, upper=False)
    assert isinstance(numpys, np.ndarray)


@gpu
def test_what_is_refused(dev: pk.Device) -> None:
    a, b = dev.zeros((3, 3)), dev.zeros((3, 2))
    with pytest.raises(pk.ShapeError, match=r"^\[solve_tri\] a must be \(..., n, n\)"):
        pk.kernels.solve_tri(a[:2], b, dev.zeros((3, 2)))
    with pytest.raises(pk.ShapeError, match=r"\[solve_triangular\] a must be .* b \(..., k, n\)"):
        pk.solve_triangular(a, b, upper=True, left=False)
    with pytest.raises(pk.DTypeError, match=r"\[solve_triangular\] b must have the dtype of a"):
        pk.solve_triangular(a, b.astype("float16"), upper=True)
    with pytest.raises(pk.ArgumentError, match="upper must be True or False"):
        pk.solve_triangular(a, b, upper=1)  # type: ignore[arg-type]
    assert pk.solve_triangular(a[:0, :0], b[:0], upper=True).shape == (0, 2)


@pytest.mark.once
@gpu
def test_gradients(dev: pk.Device) -> None:
    rng = np.random.default_rng(4)
    a, b, dy = np.tril(triangle(rng, (7, 7))), rng.normal(size=(7, 3)), rng.normal(size=(7, 3))
    a, b, dy = a.astype("f4"), b.astype("f4"), dy.astype("f4")
    for unit in (False, True):
        ta, tb = dev.tensor(a), dev.tensor(b)
        with pk.Tape() as tape:
            x = pk.solve_triangular(ta, tb, upper=False, unitriangular=unit)
        da, db = (g.numpy() for g in tape.gradient(x, [ta, tb], dev.tensor(dy)))
        for given, found, of in ((a, da, 0), (b, db, 1)):
            step = rng.normal(size=given.shape) * 1e-5
            ends = [
                (solve_tri(*((a + s, b) if of == 0 else (a, b + s)), unit) * dy).sum()
                for s in (step, -step)
            ]
            assert abs((ends[0] - ends[1]) / 2 - (found * step).sum()) < 1e-4 * np.abs(step).max()
