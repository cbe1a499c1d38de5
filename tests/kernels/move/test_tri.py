"""tri: both sides of any diagonal, bit for bit, in the widest columns and in elements."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.kernels import tri
from pykernels.reference.move import tri as reference
from tests.harness import Case, Form, assert_same_bits, caps, random_form, values

pytestmark = pytest.mark.gpu


@pytest.mark.sample
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
def test_tri_of_any_layout(dev: pk.Device, dtype: str) -> None:
    case = Case(dev, seed=3)
    calls = []
    shapes = ((7, 5), (16, 32), (3, 17, 16), (2, 3, 9, 8), (1, 300), (300, 1), (2, 40, 1100))
    for shape in shapes:
        for k, aligned in enumerate((True, True, False)):
            form = Form() if aligned else random_form(case.rng, len(shape), repeats=False)
            s = case.input(values(case.rng, dtype, shape), form)
            d = case.output(shape, dtype, Form() if k == 0 else form)
            diagonal = int(case.rng.integers(-shape[-2] - 2, shape[-1] + 3)) if k else 0
            calls.append((s, d, {"upper": bool(case.rng.random() < 0.5), "diagonal": diagonal,
                                 "value": int(case.rng.integers(0, 100))}))  # fmt: skip
    case.build()
    want = [reference(s.array, **more) for s, _, more in calls]
    got = case.run(lambda: [tri(s.tensor, d.tensor, **more) for s, d, more in calls])
    for (s, _, more), g, w in zip(calls, got, want, strict=True):
        assert_same_bits(g, w, f"{s.shape} {s.strides} {more}")


def test_tri_of_any_diagonal(dev: pk.Device) -> None:
    x = np.arange(1, 13, dtype="f2").reshape(3, 4)
    t = dev.tensor(x)
    for k in (-(2**31), -4, -3, -1, 0, 1, 3, 4, 5, 2**31 - 1, 2**40):
        assert (pk.tril(t, k).numpy() == np.tril(x, k)).all(), k
        assert (pk.triu(t, k).numpy() == np.triu(x, k)).all(), k


def test_tri_in_parts(dev: pk.Device) -> None:
    x = np.random.default_rng(1).random((2, 3, 50, 70), "f4")
    many = np.random.default_rng(1).random((2, 2, 2, 2, 2, 3, 4), "f4")
    with caps(dev, max_binding=3072):
        for k in (-20, 0, 33):
            assert (pk.tril(dev.tensor(x), k).numpy() == np.tril(x, k)).all()
            assert (pk.triu(dev.tensor(x), k).numpy() == np.triu(x, k)).all()
    order = (5, 4, 3, 2, 1, 0, 6)
    got = pk.tril(dev.tensor(many).transpose(order)).numpy()
    assert (got == np.tril(many.transpose(order))).all()


@pytest.mark.crowd
def test_tri_folds_a_long_grid_and_works_in_place(dev: pk.Device) -> None:
    x = np.random.default_rng(0).random((3, 70, 130), "f4")
    t = dev.tensor(x)
    with caps(dev, max_groups=1):
        tri(t, t, upper=True, diagonal=-3)
    assert (t.numpy() == np.triu(x, -3)).all()


def test_tri_rejects(dev: pk.Device) -> None:
    x = dev.zeros((3, 4))
    with pytest.raises(pk.ShapeError, match=r"\[tri\] src and dst must have one shape of two"):
        tri(x, dev.zeros((4, 3)))
    with pytest.raises(pk.ShapeError, match=r"\[tril\] x must have two or more axes"):
        pk.tril(x[0])
    with pytest.raises(pk.DTypeError, match=r"\[tri\] dst must have the dtype of src"):
        tri(x, dev.zeros((3, 4), "int32"))
    with pytest.raises(pk.DTypeError, match=r"\[diag_mask_inf\] x must have a float dtype"):
        pk.diag_mask_inf(dev.zeros((3, 3), "int32"))
    tri(x[:0], x[:0])
