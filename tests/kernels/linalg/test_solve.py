"""solve and inv: sizes around the variants and blocks, layouts, batches, vectors, singular
matrices, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.linalg import solve, solve_budget
from tests.harness import Array, Case, assert_close, caps, random_form

SHAPES = [
    (1, 1),
    (2, 3),
    (7, 16, 1),
    (31, 5),
    (33, 40),
    (2, 3, 32, 2),
    (64, 64),
    (65, 1),
    (2, 97, 3),
    (131, 70),
]
gpu = pytest.mark.gpu


def matrices(rng: np.random.Generator, *shape: int) -> Array:
    """Well conditioned, with rows in another order."""
    n = shape[-1]
    a = np.eye(n) * rng.choice([-2, -1, 1, 2], n) + rng.normal(size=shape) / (2 * n**0.5)
    return a[..., rng.permutation(n), :].astype("f4")


def test_the_reference_solves() -> None:
    rng = np.random.default_rng(0)
    a, b = matrices(rng, 3, 9, 9), rng.normal(size=(3, 9, 2))
    assert np.abs(a @ solve(a, b) - b).max() < 1e-13
    assert np.isnan(solve(np.ones((2, 2)), np.ones((2, 1)))).all()
    assert (solve_budget(a, b) < 1e-3).all()


@gpu
def test_solve_matches_its_reference(dev: pk.Device) -> None:
    case, calls = Case(dev, seed=1), []
    for shape in SHAPES:
        square = (*shape[:-1], shape[-2])
        for k in range(3):
            forms = [
                random_form(case.rng, len(shape), repeats=False) if k else None for _ in range(3)
            ]
            a = case.input(matrices(case.rng, *square), forms[0])
            b = case.input(case.rng.normal(size=shape).astype("f4"), forms[1])
            calls.append((a, b, case.output(shape, "float32", forms[2])))
    case.build()
    given = [(a.array.copy(), b.array.copy()) for a, b, _ in calls]
    got = case.run(lambda: [pk.kernels.solve(a.tensor, b.tensor, x.tensor) for a, b, x in calls])
    for x, (a, b) in zip(got, given, strict=True):
        assert_close(x, solve(a, b), solve_budget(a, b), str(b.shape))


@gpu
def test_parts_and_long_grids(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    for shape, changes in (
        ((99, 9, 9), {"max_binding": 8192}),
        ((3, 20, 90), {"max_binding": 8192}),
        ((3, 70, 5), {"max_binding": 32768}),
        ((3, 20, 90), {"max_groups": 2}),
        ((2, 70, 70), {}),
    ):
        a = matrices(rng, *shape[:-1], shape[-2])
        b = rng.normal(size=shape).astype("f4")
        x = dev.zeros(shape)
        with caps(dev, **changes):
            pk.kernels.solve(dev.tensor(a), dev.tensor(b), x)
            assert_close(x.numpy(), solve(a, b), solve_budget(a, b))
    in_place = dev.tensor(b)
    pk.kernels.solve(dev.tensor(a), in_place, in_place)
    assert_close(in_place.numpy(), solve(a, b), solve_budget(a, b))


@pytest.mark.once
@gpu
@pytest.mark.parametrize("n", [3, 70])
def test_vectors_and_leading_axes_are_numpys(dev: pk.Device, n: int) -> None:
    """b of one axis is a vector; b of more axes holds matrices, whatever a has (numpy 2)."""
    rng = np.random.default_rng(3)
    for lead, shape in (
        ((), (n,)), ((2,), (n,)), ((2, 2), (n,)), ((), (2, n, 2)), ((2, 1), (2, n, 2)),
        ((2, 1), (n, 1)), ((min(n, 3),), (n, n)),
    ):  # fmt: skip
        a, b = matrices(rng, *lead, n, n), rng.normal(size=shape).astype("f4")
        got = pk.solve(dev.tensor(a), dev.tensor(b)).numpy()
        wide = b[:, None] if b.ndim == 1 else b
        shapes = np.broadcast_shapes(a.shape[:-2], wide.shape[:-2])
        full = (
            np.broadcast_to(a, (*shapes, n, n)),
            np.broadcast_to(wide, (*shapes, *wide.shape[-2:])),
        )
        want, bound = solve(*full), solve_budget(*full)
        if b.ndim == 1:
            want, bound = want[..., 0], bound[..., 0]
        assert got.shape == want.shape
        assert_close(got, want, bound)
    assert isinstance(pk.solve(a, b), np.ndarray)


@pytest.mark.once
@gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bits(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(4)
    ta, tb = (
        dev.tensor(v).astype(dtype)
        for v in (matrices(rng, 3, 9, 9), rng.normal(size=9).astype("f4"))
    )
    a, b = ta.astype("float32").numpy(), tb.astype("float32").numpy()
    half = 2.0**-11 if dtype == "float16" else 2.0**-8
    wide = np.broadcast_to(b[:, None], (3, 9, 1))
    want, bound = solve(a, wide)[..., 0], solve_budget(a, wide)[..., 0]
    x = pk.solve(ta, tb)
    assert x.dtype == dtype
    error = np.abs(x.astype("float32").numpy() - want)
    assert (error <= bound + half * (np.abs(want) + bound) + 2.0**-25).all()
    out = dev.zeros((3, 9), dtype)
    assert pk.solve(ta, tb, out=out) is out
    assert (out.astype("float32").numpy() == x.astype("float32").numpy()).all()
    ones = np.broadcast_to(np.eye(9), a.shape)
    want, bound = solve(a, ones), solve_budget(a, ones)
    inverse = pk.inv(ta)
    assert inverse.dtype == dtype
    error = np.abs(inverse.astype("float32").numpy() - want)
    assert (error <= bound + half * (np.abs(want) + bound) + 2.0**-25).all()


@pytest.mark.once
@gpu
@pytest.mark.parametrize("n", [1, 20, 70])
def test_inverses_and_out(dev: pk.Device, n: int) -> None:
    rng = np.random.default_rng(5)
    a = matrices(rng, 2, n, n)
    ones = np.broadcast_to(np.eye(n), a.shape)
    t = dev.tensor(a)
    found = pk.inv(t)
    assert_close(found.numpy(), solve(a, ones), solve_budget(a, ones))
    assert isinstance(pk.inv(a[0]), np.ndarray)
    out = dev.zeros((4, n + 1, n))[::2, 1:]
    assert pk.inv(t, out=out) is out
    assert (out.numpy() == found.numpy()).all()
    b = dev.rand((2, n, 3), seed=6)
    x = pk.solve(t, b).numpy()
    assert pk.solve(t, b, out=b) is b
    assert (b.numpy() == x).all()
    assert pk.inv(t, out=t) is t
    assert (t.numpy() == found.numpy()).all()


@gpu
@pytest.mark.parametrize("n", [2, 40, 70])
def test_singular_matrices_give_no_finite_solution(dev: pk.Device, n: int) -> None:
    rng = np.random.default_rng(7)
    a, b = matrices(rng, 4, n, n), rng.normal(size=(4, n, 2)).astype("f4")
    a[0] = 0
    a[1] = 1  # elimination leaves exact zeros
    a[3, 0, 0] = np.nan
    x = pk.solve(dev.tensor(a), dev.tensor(b)).numpy()
    assert not np.isfinite(x[0]).any() and not np.isfinite(x[1]).any()
    assert_close(x[2], solve(a[2], b[2]), solve_budget(a[2], b[2]))
    assert not np.isfinite(x[3]).any()


@gpu
def test_it_runs_captured(dev: pk.Device) -> None:
    rng = np.random.default_rng(8)
    a, b = matrices(rng, 100, 100), rng.normal(size=(100, 4)).astype("f4")
    ta, tb, x = dev.tensor(a), dev.tensor(b), dev.zeros((100, 4))
    pk.solve(ta, tb, out=x)
    with dev.capture() as program:
        pk.solve(ta, tb, out=x)
    x.write(np.zeros((100, 4), "f4"))
    program()
    assert_close(x.numpy(), solve(a, b), solve_budget(a, b))


@gpu
def test_what_is_refused(dev: pk.Device) -> None:
    a, b = dev.zeros((3, 3)), dev.zeros((3, 2))
    with pytest.raises(pk.ShapeError, match=r"^\[solve\] a must be \(..., n, n\) and b and dst"):
        pk.kernels.solve(a[:2], b, dev.zeros((3, 2)))
    with pytest.raises(pk.ShapeError, match=r"^\[solve\] a must be \(..., n, n\) and b \(n,\) or"):
        pk.solve(a, dev.zeros((2, 2)))
    with pytest.raises(pk.ShapeError, match=r"^\[solve\] a must be"):
        pk.solve(dev.zeros((2, 3, 3)), dev.zeros((2, 3)))  # no vectors: numpy 2
    with pytest.raises(pk.ShapeError, match=r"^\[solve\] a must be"):
        pk.solve(a, dev.zeros(()))
    with pytest.raises(pk.ShapeError, match=r"^\[solve\] shapes must broadcast together"):
        pk.solve(dev.zeros((2, 3, 3)), dev.zeros((4, 3, 3)))
    with pytest.raises(pk.DTypeError, match=r"^\[solve\] b must have the dtype of a, float32"):
        pk.solve(a, b.astype("float16"))
    with pytest.raises(pk.DTypeError, match=r"^\[solve\] a must be float32"):
        pk.solve(dev.zeros((3, 3), "int32"), b)
    with pytest.raises(pk.ShapeError, match=r"^\[solve\] out must have shape \(3, 2\)"):
        pk.solve(a, b, out=dev.zeros((3, 3)))
    for wrong in (b, dev.zeros(3)):
        with pytest.raises(pk.ShapeError, match=r"^\[inv\] a must be \(..., n, n\) but"):
            pk.inv(wrong)
    with pytest.raises(pk.DTypeError, match=r"^\[inv\] a must be float32"):
        pk.inv(dev.zeros((3, 3), "int32"))


@gpu
def test_sizes_of_zero(dev: pk.Device) -> None:
    assert pk.solve(dev.zeros((0, 0)), dev.zeros((0, 2))).shape == (0, 2)
    assert pk.solve(dev.zeros((0, 0)), dev.zeros(0)).shape == (0,)
    assert pk.solve(dev.zeros((3, 3)), dev.zeros((3, 0))).shape == (3, 0)
    assert pk.solve(dev.zeros((0, 70, 70)), dev.zeros(70)).shape == (0, 70)
    assert pk.inv(dev.zeros((2, 0, 0))).shape == (2, 0, 0)


@pytest.mark.once
@gpu
@pytest.mark.parametrize("n", [6, 70])
def test_gradients(dev: pk.Device, n: int) -> None:
    rng = np.random.default_rng(9)
    a, b = matrices(rng, n, n), rng.normal(size=(2, n, 3)).astype("f4")
    dy = rng.normal(size=b.shape).astype("f4")
    ta, tb = dev.tensor(a), dev.tensor(b)
    with pk.Tape() as tape:
        x = pk.solve(ta, tb)
    da, db = (g.numpy() for g in tape.gradient(x, [ta, tb], dev.tensor(dy)))
    want = np.linalg.solve(a.astype("f8").T, dy)
    own = -(want @ np.linalg.solve(a.astype("f8"), b).swapaxes(-1, -2)).sum(0)
    assert np.abs(db - want).max() < 1e-4 * np.abs(want).max()
    assert np.abs(da - own).max() < 1e-4 * np.abs(own).max()
