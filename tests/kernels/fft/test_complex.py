"""complex64: what is moved, what is computed, and what is refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from tests.harness import Case, assert_same_bits, random_form

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(0)
Z = (RNG.standard_normal((4, 6, 10)) + 1j * RNG.standard_normal((4, 6, 10))).astype(np.complex64)
R = RNG.standard_normal((4, 6, 10)).astype(np.float32)

MOVED = {
    "copy": (lambda z: z.copy(), lambda z: z.copy()),
    "transpose": (lambda z: z.T.copy(), lambda z: z.T),
    "slice": (lambda z: z[1::2, ::-1, 3:], lambda z: z[1::2, ::-1, 3:]),
    "reshape": (lambda z: z[:, ::2].reshape(4, -1), lambda z: z[:, ::2].reshape(4, -1)),
    "index": (lambda z: z[[1, 3]], lambda z: z[[1, 3]]),
    "concatenate": (lambda z: pk.concatenate([z, z[:1]]), lambda z: np.concatenate([z, z[:1]])),
    "stack": (lambda z: pk.stack([z, z], 1), lambda z: np.stack([z, z], 1)),
    "roll": (lambda z: pk.roll(z, 3, 1), lambda z: np.roll(z, 3, 1)),
    "pad": (lambda z: pk.pad(z, 1, constant_values=2 + 1j),
            lambda z: np.pad(z, 1, constant_values=2 + 1j)),
    "repeat": (lambda z: pk.repeat(z, 2, 1), lambda z: np.repeat(z, 2, 1)),
    "tril": (lambda z: pk.tril(z), lambda z: np.tril(z)),
    "flip": (lambda z: z.flip(1), lambda z: np.flip(z, 1)),
    "nonzero": (lambda z: pk.nonzero(z)[0].astype("int32"),
                lambda z: np.nonzero(z.ravel())[0].astype("int32") // 60),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_moved_bit_for_bit(dev, name):
    ours, numpys = MOVED[name]
    assert_same_bits(ours(dev.tensor(Z)).numpy(), np.ascontiguousarray(numpys(Z)), name)


@pytest.mark.parametrize("seed", range(8))
def test_cpy_on_views(dev, seed):
    rng, case = np.random.default_rng(seed), Case(dev, seed)
    src = case.input(Z, random_form(rng, 3, repeats=True))
    dst = case.output(Z.shape, "complex64", random_form(rng, 3, repeats=False))
    case.build()
    want = src.array.copy()
    [got] = case.run(lambda: pk.kernels.cpy(src.tensor, dst.tensor))
    assert_same_bits(got, want, f"{src.strides} -> {dst.strides}")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "bool", "int16"])
@pytest.mark.parametrize("seed", range(2))
def test_real_numbers_become_complex(dev, dtype, seed):
    rng, case = np.random.default_rng(seed), Case(dev, seed)
    src = case.input((R * 9).astype(dtype), random_form(rng, 3, repeats=True))
    dst = case.output(Z.shape, "complex64", random_form(rng, 3, repeats=False))
    case.build()
    want = src.array.astype(np.complex64)
    [got] = case.run(lambda: pk.kernels.cpy(src.tensor, dst.tensor))
    assert_same_bits(got, want, dtype)


@pytest.mark.parametrize("parts", [1, 2])
def test_complex_on_views(dev, parts):
    rng, case = np.random.default_rng(parts), Case(dev, parts)
    given = [case.input(R, random_form(rng, 3, repeats=True)) for _ in range(parts)]
    dst = case.output(R.shape, "complex64", random_form(rng, 3, repeats=False))
    case.build()
    want = given[0].array + (1j * given[1].array if parts == 2 else np.complex64(0))
    imag = given[1].tensor if parts == 2 else None
    [got] = case.run(lambda: pk.kernels.complex(given[0].tensor, dst.tensor, imag=imag))
    assert (got == want).all()


COMPUTED = {
    "add": lambda z, r: z + z[:, :1],
    "sub": lambda z, r: z - z[0],
    "mul": lambda z, r: z * z[0],
    "add real": lambda z, r: z + r,
    "real add": lambda z, r: r + z,
    "sub real": lambda z, r: r[0] - z,
    "mul real": lambda z, r: z * r[0],
    "real mul": lambda z, r: r * z[0],
    "number": lambda z, r: 2 * z + 1,
    "complex number": lambda z, r: z * (1 - 2j) + 1j,
    "complex number first": lambda z, r: 1j + (1 - 2j) * z,
    "real, complex number": lambda z, r: r * (1 - 2j) + (3 + 1j),
    "number minus": lambda z, r: 1j - z,
    "number minus real": lambda z, r: 1j - r,
    "div": lambda z, r: z / 3,
    "div real": lambda z, r: z / r[0],
    "neg": lambda z, r: -z,
    "abs": lambda z, r: abs(z),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computed(dev, name):
    call = COMPUTED[name]
    got, want = call(dev.tensor(Z), dev.tensor(R)).numpy(), call(Z, R)
    assert got.shape == want.shape
    assert got.dtype == ("float32" if name == "abs" else "complex64")
    wide = call(Z.astype(np.complex128), R.astype(np.float64))
    bound = 2.0**-22 * (np.abs(wide) + np.abs(Z).max() ** 2)
    assert (np.abs(got - wide) <= bound).all()


def test_abs_neither_overflows_nor_vanishes(dev):
    x = np.array([3e38 + 1e38j, 1e-30 + 1e-30j, 0, 4j, -3, complex(np.inf, np.nan), 1e-38j])
    got = pk.abs(dev.tensor(x.astype(np.complex64))).numpy()
    want = np.abs(x.astype(np.complex64).astype(np.complex128))
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert np.isnan(pk.abs(dev.tensor([complex(np.nan, 1)])).numpy()).all()


def test_parts(dev):
    t, r = dev.tensor(Z), dev.tensor(R)
    assert_same_bits(pk.real(t).numpy(), Z.real.copy())
    assert_same_bits(pk.imag(t).numpy(), Z.imag.copy())
    assert_same_bits(pk.conj(t[::2]).numpy(), Z[::2].conj())
    assert pk.real(t)._block is t._block  # a view
    assert pk.real(r) is r
    assert not pk.imag(r).numpy().any()
    assert (pk.conj(r).numpy() == R).all()
    np.testing.assert_allclose(pk.angle(t).numpy(), np.angle(Z), atol=1e-5)
    np.testing.assert_allclose(pk.angle(r).numpy(), np.angle(R), atol=1e-6)
    assert (pk.complex(r, r[0]).numpy() == R + 1j * R[0]).all()
    assert (pk.complex(r).numpy() == R).all()
    assert_same_bits(pk.view_as_complex(pk.view_as_real(t)).numpy(), Z)
    own = t.copy()
    assert pk.conj(own, out=own) is own
    assert_same_bits(own.numpy(), Z.conj())


def test_arrays_give_arrays():
    for found, want in (
        (pk.add(Z, 1j), Z + 1j), (pk.conj(Z), Z.conj()), (pk.real(Z), Z.real),
        (pk.imag(Z), Z.imag), (pk.complex(R, R), R + 1j * R),
    ):  # fmt: skip
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_made_and_written(dev):
    assert (dev.full((2, 3), 1 + 2j, "complex64").numpy() == np.complex64(1 + 2j)).all()
    assert dev.tensor([1 + 2j, 3]).dtype == "complex64"
    assert dev.zeros(3, np.complex64).dtype == np.complex64
    t, want = dev.tensor(Z), Z.copy()
    t[1] = 2j
    want[1] = 2j
    t[:, 0] = dev.tensor(R[:, 0])
    want[:, 0] = R[:, 0]
    t += dev.tensor(Z)
    want += Z
    t *= 2j
    want *= 2j
    np.testing.assert_allclose(t.numpy(), want, rtol=1e-6)
    assert t[0, 0, 0].item() == t.numpy()[0, 0, 0]
    assert "j" in repr(t)


def test_refused_by_name(dev):
    z, r = dev.tensor(Z), dev.tensor(R)
    for call in (
        lambda: pk.exp(z), lambda: pk.sum(z), lambda: pk.mean(z), lambda: pk.matmul(z, z),
        lambda: z.astype("float32"), lambda: z.astype("int64"), lambda: pk.sort(z),
        lambda: z > z, lambda: z == z, lambda: z // z, lambda: z**2, lambda: z / z, lambda: 1 / z,
        lambda: pk.softmax(z), lambda: pk.where(r > 0, z, z), lambda: pk.max(z),
        lambda: pk.elementwise("a + a", a=z), lambda: pk.cumsum(z), lambda: pk.sqrt(z),
        lambda: pk.layer_norm(z, 10), lambda: pk.top_k(z, 1), lambda: pk.conv2d(z, z),
        lambda: pk.rand(2, "complex64"), lambda: pk.linspace(0, 1, 3, dtype="complex64"),
    ):  # fmt: skip
        with pytest.raises(pk.DTypeError, match="complex"):
            call()
    with pytest.raises(pk.DTypeError, match="real number"):
        r[0] = 1j
    with pytest.raises(pk.DTypeError, match="out must be complex64"):
        pk.add(z, z, out=r)
    with pytest.raises(pk.ShapeError, match="broadcast"):
        pk.add(z, z[:3])
    with pytest.raises(pk.ShapeError, match="two neighbours"):
        pk.view_as_complex(r)
