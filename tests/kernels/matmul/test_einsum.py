"""einsum and tensordot: numpy's results, any layout, and what they refuse."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu

SIZES = dict(zip("abcdefhijklmn", (2, 3, 4, 3, 2, 5, 2, 3, 4, 5, 2, 6, 7), strict=True))
SUBSCRIPTS = (
    "ij,jk->ik", "ij,jk->ki", "ji,jk", "ij,kj->ik", "bij,bjk->bik", "bij,jk->bik",
    "bhid,bhjd->bhij", "bid,bjd->bij", "i,i->", "i,j->ij", "ij,ij->", "ij,ij->i", "ij,ij->ij",
    "ij,k->", "ij,j->", "ij,j", "abc,cd->dab", "abc,cbd->da", "abcd,bd->ca", "ijk,jil->kl",
    "abcdef,abcdef->fedcba", ",ij->ji", "ii,ij->j", "ii,i->i", "iij,jkk->ik",
    "...ij,...jk->...ik", "...i,i->...", "i...,j...->j...i", "...ij,jk", "i,j->ji",
    "abij,cdij->acbd", "a,a->a", "aibj,bjck->aick", "ijk,k->ji", "ij,jk->",
)  # fmt: skip


def operands(subscripts: str, dtype: str = "float32") -> tuple[np.ndarray[Any, Any], ...]:
    """Small integers, whose sums are exact."""
    rng = np.random.default_rng(0)
    terms = subscripts.replace("...", "ab" if "a" not in subscripts else "").partition("->")[0]
    shapes = [tuple(SIZES[c] for c in term) for term in terms.split(",")]
    return tuple(rng.integers(-4, 5, shape).astype(dtype) for shape in shapes)


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_einsum_is_numpys(dev: pk.Device, subscripts: str) -> None:
    a, b = operands(subscripts)
    want = np.einsum(subscripts, a, b)
    x, y = dev.tensor(a), dev.tensor(b)
    got = pk.einsum(subscripts, x, y)
    assert got.shape == want.shape and (got.numpy() == want).all()
    # Operands that lie transposed and backwards, and a result with gaps.
    x, y = dev.tensor(a.T.copy()).T, dev.tensor(b[..., ::-1].copy())[..., ::-1] if b.ndim else y
    wide = dev.full((*want.shape, 2), 9)
    assert pk.einsum(subscripts, x, y, out=wide[..., 0]).shape == want.shape
    assert (wide.numpy() == np.stack([want, np.full_like(want, 9)], -1)).all()


def test_einsum_broadcasts_and_takes_dtypes(dev: pk.Device) -> None:
    a, b = operands("ij,jk", "float16")
    assert pk.einsum("ij,jk", dev.tensor(a), dev.tensor(b)).dtype == "float16"
    mixed = pk.einsum("ij,jk", dev.tensor(a), b.astype(np.float32))
    assert mixed.dtype == "float32" and (mixed.numpy() == np.einsum("ij,jk", a, b)).all()
    assert isinstance(pk.einsum("ij,jk->ki", a, b), np.ndarray)
    c, d = np.ones((2, 1, 3), np.float32), np.arange(12, dtype=np.float32).reshape(4, 3)
    got = pk.einsum("...k,...k->...", dev.tensor(c), dev.tensor(d)).numpy()
    assert (got == np.einsum("...k,...k->...", c, d)).all()
    assert (
        pk.einsum("ij,jk->ik", dev.zeros((2, 0)), dev.zeros((0, 3))).numpy().tolist()
        == [[0] * 3] * 2
    )
    assert pk.einsum("ij,jk->ik", dev.zeros((0, 2)), dev.zeros((2, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    "axes", [2, 0, 1, ([1, 0], [0, 1]), (-1, 0), ((2, 1), (1, 0)), ([], [])], ids=str
)  # fmt: skip
def test_tensordot_is_numpys(dev: pk.Device, axes: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((3, 4, 4), (4, 4, 3)))
    if axes == ([1, 0], [0, 1]):
        b = rng.integers(-4, 5, (4, 3, 2)).astype(np.float32)
    want = np.tensordot(a, b, axes)
    got = pk.tensordot(dev.tensor(a), dev.tensor(b), axes)
    assert got.shape == want.shape and (got.numpy() == want).all()


@pytest.mark.parametrize(
    "subscripts", ["iji->j", "iji->ij", "ijk->", "ijk->kij", "ijk", "kji", "...k->k...", "ii", "->"]
)  # fmt: skip
def test_einsum_of_one_operand(dev: pk.Device, subscripts: str) -> None:
    """New memory, whatever the subscripts say."""
    shape = {"ii": (3, 3), "->": ()}.get(subscripts, (3, 4, 3))
    a = np.random.default_rng(2).integers(-4, 5, shape).astype(np.float32)
    x, want = dev.tensor(a), np.einsum(subscripts, a)
    got = pk.einsum(subscripts, x)
    assert got.shape == want.shape and (got.numpy() == want).all()
    x[...] = 0
    assert (got.numpy() == want).all()
    half = pk.einsum(subscripts, a.astype(np.float16))
    assert half.dtype == np.float16 and (half == want).all()


MANY = ("ij,jk,kl->il", "ij,jk,kl,li->", "ij,jk,kl,lm", "i,j,k->kji", "...i,ij,jk->...k",
        "ii,ij,j->i", "ij,k,ki->j")  # fmt: skip


@pytest.mark.parametrize("subscripts", MANY)
def test_einsum_of_many_operands(dev: pk.Device, subscripts: str) -> None:
    """Exact sums in any order; from the left unless a path is given, the same bits each time."""
    arrays = operands(subscripts)
    want = np.einsum(subscripts, *arrays)
    given = [dev.tensor(a) for a in arrays]
    path = np.einsum_path(subscripts, *arrays, optimize="optimal")[0]
    for optimize in (False, path, path[1:]):
        got = pk.einsum(subscripts, *given, optimize=optimize)
        assert got.shape == want.shape and (got.numpy() == want).all()
    rough: list[Any] = [dev.tensor((a + np.float32(0.1)) / 3) for a in arrays]
    if subscripts == MANY[0]:
        first: Any = pk.einsum("ik,kl->il", pk.einsum("ij,jk->ik", *rough[:2]), rough[2])
        assert (pk.einsum(subscripts, *rough).numpy() == first.numpy()).all()
        halves = [a.astype(np.float16) for a in arrays]
        assert pk.einsum(subscripts, *halves).dtype == np.float16


def test_einsum_asks_opt_einsum(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a path, which is followed; another step than of pairs goes from the left."""
    arrays = operands("ij,jk,kl,lm->im")
    asked: list[Any] = []

    def contract_path(subscripts: str, *shapes: Any, **rest: Any) -> Any:
        asked.append((subscripts, shapes, rest))
        return [(2, 3), (0, 1, 2)], None

    monkeypatch.setitem(sys.modules, "opt_einsum", SimpleNamespace(contract_path=contract_path))
    given = [dev.tensor(a) for a in arrays]
    got: Any = pk.einsum("ij,jk,kl,lm->im", *given, optimize="opt_einsum")
    assert (got.numpy() == np.einsum("ij,jk,kl,lm->im", *arrays)).all()
    assert asked == [("ij,jk,kl,lm->im", tuple(a.shape for a in arrays), {"shapes": True})]
    monkeypatch.setitem(sys.modules, "opt_einsum", None)
    with pytest.raises(pk.ArgumentError, match="pip install opt_einsum"):
        pk.einsum("ij,jk", *map(dev.tensor, arrays[:2]), optimize="opt_einsum")


def test_einsum_rejects(dev: pk.Device) -> None:
    x = dev.zeros((2, 3))
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.einsum("ij->ji", x, x), pk.ArgumentError, "an operand for each term"),
        (lambda: pk.einsum("ij,jk,kl", x, x), pk.ArgumentError, "an operand for each term"),
        (lambda: pk.einsum("ij,jk->ik", x, x), pk.ShapeError, "'j' has sizes 3 and 2"),
        (lambda: pk.einsum("ij,j->i", x, x), pk.ShapeError, "'j' of 'ij,j->i' does not fit"),
        (lambda: pk.einsum("...ijk,ij", x, x), pk.ShapeError, "does not fit"),
        (lambda: pk.einsum("ij,ij->k", x, x), pk.ArgumentError, "'k', which no operand has"),
        (lambda: pk.einsum("ij,ij->ii", x, x), pk.ArgumentError, "a letter twice"),
        (lambda: pk.einsum("i1,ij->i", x, x), pk.ArgumentError, "must be letters"),
        (lambda: pk.einsum("ij,ij->i->j", x, x), pk.ArgumentError, "must be letters"),
        (lambda: pk.einsum("......,ij", x, x), pk.ArgumentError, "must be letters"),
        (lambda: pk.einsum("...j,ij->i", x, x), pk.ArgumentError, r"must have the axes of '...'"),
        (lambda: pk.einsum("ii,ij", x, x), pk.ShapeError, "a diagonal needs"),
        (lambda: pk.einsum(3, x, x), pk.ArgumentError, "must be a string"),  # type: ignore[call-overload]
        (lambda: pk.einsum("ij,ij", x, dev.zeros((2, 3), "int32")), pk.DTypeError, r"\[einsum\] b"),
        (lambda: pk.einsum("ij,ij", x, x, out=dev.zeros(2)), pk.ShapeError, "out must have shape"),
        (lambda: pk.einsum("ij"), pk.ArgumentError, "at least one operand"),
        (lambda: pk.einsum("ij,kj,lj", x, x, x, optimize=[(0, 1)]), pk.ArgumentError, "leaves 2"),
        (lambda: pk.einsum("ij,kj,lj", x, x, x, optimize=[(0, 3)]), pk.ArgumentError, "3 operands"),
        (lambda: pk.einsum("ij,kj", x, x, optimize="best"), pk.ArgumentError, "'opt_einsum'"),  # type: ignore[call-overload]
        (lambda: pk.tensordot(x, x, 1), pk.ShapeError, "must agree"),
        (lambda: pk.tensordot(x, x, 3), pk.ShapeError, "3 axes must exist"),
        (lambda: pk.tensordot(x, x, (5, 0)), pk.ShapeError, "do not exist"),
        (lambda: pk.tensordot(x, x, ((0, 0), (0, 0))), pk.ArgumentError, "must differ"),
        (lambda: pk.tensordot(x, x, 1.0), pk.ArgumentError, "axes must be an integer"),  # type: ignore[call-overload]
        (lambda: pk.tensordot(x, x, (1, 2, 3)), pk.ArgumentError, "two lists"),  # type: ignore[call-overload]
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
