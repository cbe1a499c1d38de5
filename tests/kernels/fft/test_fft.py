"""fft and the functions of pykernels.fft: 500 random calls beside numpy, views, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.plans.fft.lengths import convolution, factors, layout, radices
from pykernels.reference import fft as reference
from tests.harness import Array, Case, assert_close, caps, random_form

CHUNKS, CALLS = 100, 5
NORMS = (None, "backward", "ortho", "forward")
ONE = ("fft", "ifft", "rfft", "irfft")
SEVERAL = ("fft2", "ifft2", "fftn", "ifftn", "rfftn", "irfftn")
# Lengths of each kind: powers of two, small factors, several passes, other factors.
KINDS = (
    (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096),
    (3, 5, 6, 7, 9, 10, 12, 15, 21, 30, 35, 49, 60, 100, 105, 125, 210, 243, 343, 360, 625, 1000),
    (1029, 1536, 2000, 3000, 5103, 8192, 10000),
    (11, 13, 17, 22, 37, 97, 101, 143, 331, 509),
)


def allowed(size: int) -> float:
    """Four times the error of pocketfft in float32, relative to the root mean square.

    scipy.fft of complex64 has 0.46 to 1.4 times 2^-24 sqrt(log2 n) for lengths from 2 to 2^20 (see
    docs/design/fft.md); numpy computes complex64 in double precision.
    """
    return 4 * 0.46 * 2.0**-24 * math.sqrt(max(math.log2(size), 1.0))


def error(got: Array, want: Array) -> float:
    return float(np.linalg.norm(got - want) / max(float(np.linalg.norm(want)), 1e-30))


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype == "complex64":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype == "int32":
        return rng.integers(-100, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def one_call(rng: np.random.Generator, lengths: Any) -> tuple[str, Array, dict[str, Any]]:
    """A function, an array and options; the transformed axes have these lengths."""
    several = rng.random() < 0.25
    op = str(rng.choice(SEVERAL if several else ONE))
    real = op.startswith("r")
    kinds = ["float32", "float32", "float16", "int32"]
    dtype = str(rng.choice(kinds if real else ["complex64"] * 5 + kinds[1:]))
    ndim = int(rng.integers(2, 4)) if several else int(rng.integers(1, 5))
    shape = [int(n) for n in rng.integers(1, 6, ndim)]
    options: dict[str, Any] = {"norm": rng.choice(np.array(NORMS, object))}
    if several:
        count = 2 if op.endswith("2") else int(rng.integers(1, ndim + 1))
        axes = [int(a) for a in rng.permutation(ndim)[:count]]
        sizes = [min(int(rng.choice(lengths)), 128) for _ in axes]
        options["axes"] = tuple(axes)
    else:
        axes = [int(rng.integers(ndim))]
        sizes = [int(rng.choice(lengths))]
        options["axis"] = axes[0] - (ndim if rng.random() < 0.5 else 0)
    given = rng.random() < 0.4
    if given or op.startswith("ir"):
        options["s" if several else "n"] = tuple(sizes) if several else sizes[0]
    for axis, n in zip(axes, sizes, strict=True):
        shape[axis] = n
        if given:  # cut, or followed by zeros
            shape[axis] = max(1, n + int(rng.integers(-n // 2, n // 2 + 1)))
        elif op.startswith("ir") and axis == axes[-1]:
            shape[axis] = n // 2 + 1
    return op, numbers(rng, tuple(shape), dtype), options


def check_calls(dev: pk.Device, seed: int, lengths: Any, count: int = CALLS) -> None:
    """Calls on tensors of any layout beside numpy in double precision."""
    rng = np.random.default_rng(seed)
    case, calls = Case(dev, seed), []
    for _ in range(count):
        op, x, options = one_call(rng, lengths)
        calls.append((op, options, case.input(x, random_form(rng, x.ndim, repeats=True))))
    case.build()
    for op, options, operand in calls:
        x = operand.array.copy()
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        want = getattr(np.fft, op)(wide, **options)
        got = getattr(pk.fft, op)(operand.tensor, **options).numpy()
        told = f"{op} {x.dtype} {x.shape} strides {operand.strides} {options}"
        assert got.shape == want.shape, told
        assert got.dtype == ("float32" if op.startswith("ir") else "complex64"), told
        axes = options["axes"] if "axes" in options else (options["axis"],)
        size = math.prod(max(got.shape[a], x.shape[a]) for a in axes)
        found = error(got, want)
        assert found <= allowed(size), f"{told}: {found / allowed(size):.2f} of the bound"


@pytest.mark.gpu
@pytest.mark.sample
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_functions_match_numpy(dev, chunk):
    pool = KINDS[chunk % 4]
    check_calls(dev, chunk, pool if chunk % 4 else pool[chunk // 4 % 13 :][:1])


@pytest.mark.gpu
@pytest.mark.sample
@pytest.mark.parametrize("length", [1, 2, 8, 64, 128, 512, 1024, 45, 700, 13, 6000, 16384])
@pytest.mark.parametrize("pair", ["complex64 complex64", "float32 complex64", "complex64 float32"])
@pytest.mark.parametrize("seed", range(3))
def test_kernel_matches_reference_on_views(dev, length, pair, seed):
    """Any layout of x and dst, x cut or followed by zeros, results cut; nothing else is written."""
    rng = np.random.default_rng([length, seed])
    made, target = pair.split()
    rows = tuple(int(n) for n in rng.integers(1, 5, seed))
    taken, kept = (int(rng.integers(1, length + 3)) if seed else length for _ in range(2))
    x = numbers(rng, (*rows, taken), made)
    table = reference.fft_table(length)
    inverse, scale = bool(rng.integers(2)), float(rng.choice([1.0, 0.25, 1 / length]))
    shape = (*rows, min(kept, length))
    case = Case(dev, seed)
    given = case.input(x, random_form(rng, x.ndim, repeats=True))
    own = case.input(table)
    dst = case.output(shape, target, random_form(rng, x.ndim, repeats=False))
    case.build()
    x = given.array.copy()
    options = {"length": length, "inverse": inverse, "scale": scale}
    [got] = case.run(lambda: pk.kernels.fft(given.tensor, own.tensor, dst.tensor, **options))
    want = reference.fft(x, table, shape, target, **options)
    bound = np.broadcast_to(reference.fft_budget(x, table, **options), shape)
    what = f"{pair} {length} {given.strides} -> {dst.strides}"
    assert_close(got.real, want.real, bound, what)
    assert_close(got.imag, want.imag, bound, what)


@pytest.mark.gpu
def test_parts_of_large_tensors(dev):
    """Rows beyond one binding are transformed part by part."""
    x = numbers(np.random.default_rng(0), (64, 512), "complex64")
    t = dev.tensor(x)
    with caps(dev, max_binding=1 << 16):
        got = pk.fft.fft(t).numpy()
        with pytest.raises(pk.LimitError, match="one binding"):
            pk.fft.fft(t.reshape(-1))
    assert error(got, np.fft.fft(x.astype(np.complex128))) <= allowed(512)


@pytest.mark.gpu
def test_small_workgroups(dev):
    """Devices with WebGPU's least workgroup memory take the narrow configuration of 2048."""
    x = numbers(np.random.default_rng(0), (2048, 3), "complex64")
    with caps(dev, max_workgroup_bytes=16384):
        got = pk.fft.fft(dev.tensor(x), axis=0).numpy()
    assert error(got, np.fft.fft(x.astype(np.complex128), axis=0)) <= allowed(2048)


@pytest.mark.gpu
def test_arrays_give_arrays(dev):
    x = numbers(np.random.default_rng(0), (4, 6), "complex64")
    for given in (x, x.real.astype(np.float64), x.astype(np.complex128), x.real > 0):
        got = pk.fft.fft(given)
        assert isinstance(got, np.ndarray)
        assert got.dtype == np.complex64
        assert error(got, np.fft.fft(given)) < 1e-6


@pytest.mark.gpu
def test_out_and_inverse(dev):
    x = numbers(np.random.default_rng(0), (3, 60), "complex64")
    t, out = dev.tensor(x), dev.empty((3, 120), "complex64")[:, ::2]
    assert pk.fft.fft(t, out=out) is out
    assert error(pk.fft.ifft(out).numpy(), x) < 1e-6
    own = t.copy()
    pk.fft.fft(own, out=own)  # in place
    assert (own.numpy() == out.numpy()).all()


@pytest.mark.gpu
def test_empty_tensors_and_axes(dev):
    assert pk.fft.fft(dev.zeros((0, 4))).shape == (0, 4)
    assert not pk.fft.fft(dev.zeros((3, 0)), n=5).numpy().any()
    t = dev.tensor(np.arange(6, dtype=np.complex64).reshape(2, 3))
    assert (pk.fft.fftn(t, axes=()).numpy() == t.numpy()).all()


@pytest.mark.gpu
def test_shifts_and_frequencies(dev):
    x = np.arange(30, dtype=np.complex64).reshape(5, 6)
    for axes in (None, 0, 1, (0, 1), (1,)):
        for name in ("fftshift", "ifftshift"):
            got = getattr(pk.fft, name)(dev.tensor(x), axes).numpy()
            assert (got == getattr(np.fft, name)(x, axes)).all()
    for n in (1, 2, 7, 8):
        for name in ("fftfreq", "rfftfreq"):
            want = getattr(np.fft, name)(n, 0.1).astype(np.float32)
            assert (getattr(pk.fft, name)(n, 0.1, device=dev).numpy() == want).all()


@pytest.mark.gpu
def test_refusals(dev):
    x, z = dev.zeros((3, 4)), dev.zeros((3, 4), "complex64")
    for call, kind, told in (
        (lambda: pk.fft.fft(z, n=0), pk.ArgumentError, "at least 1 but is 0"),
        (lambda: pk.fft.irfft(z[:, :1]), pk.ArgumentError, "at least 1 but is 0"),
        (lambda: pk.fft.fft(z, n=2.5), pk.ArgumentError, "n must be an integer"),
        (lambda: pk.fft.fft(z, axis=2), pk.ShapeError, r"axis must be in \[-2, 2\)"),
        (lambda: pk.fft.fft(z, norm="both"), pk.ArgumentError, "norm must be 'backward'"),
        (lambda: pk.fft.rfft(z), pk.DTypeError, "x must be float32 but is complex64"),
        (lambda: pk.fft.fft([1.0]), pk.DTypeError, "a numpy array but is list"),
        (lambda: pk.fft.fft(dev.zeros(3, "int64")), pk.DTypeError, "but is int64"),
        (lambda: pk.fft.fft(z, out=x), pk.DTypeError, "out must be complex64"),
        (lambda: pk.fft.fft(z, n=5, out=z), pk.ShapeError, r"out must have shape \(3, 5\)"),
        (lambda: pk.fft.fftn(z, axes=(0, 0)), pk.ShapeError, "axes must be different"),
        (lambda: pk.fft.fftn(z, s=(3,), axes=(0, 1)), pk.ShapeError, "same length"),
        (lambda: pk.fft.fftn(z, s=(3, 3, 3)), pk.ShapeError, "s has 3 lengths"),
        (lambda: pk.fft.fftfreq(0), pk.ArgumentError, "n must be at least 1"),
    ):
        with pytest.raises(kind, match=told):
            call()


@pytest.mark.gpu
def test_kernel_refuses(dev):
    z, table = dev.zeros((3, 4), "complex64"), dev.tensor(reference.fft_table(4))
    fft = pk.kernels.fft
    for call, kind, told in (
        (lambda: fft(z, table, z, length=5), pk.ShapeError, r"pykernels.fft.table\(5\)"),
        (lambda: fft(z, table, z, length=0), pk.ArgumentError, "at least 1"),
        (lambda: fft(z, table, z, length=2), pk.ShapeError, "at most length = 2"),
        (lambda: fft(z, table, z[:2], length=4), pk.ShapeError, "all but the last"),
        (lambda: fft(dev.zeros((3, 4)), table, dev.zeros((3, 4)), length=4), pk.DTypeError,
         "both are float32"),
    ):  # fmt: skip
        with pytest.raises(kind, match=told):
            call()


def test_passes_have_the_length():
    """The factors of a length are those that the bodies have, and their product is the length."""
    for length in [*range(1, 3000), 1 << 22, 3**13, 7**8, 5**9, 10**6, 1 << 30]:
        if convolution(length):
            assert convolution(length) >= 2 * length - 1
            continue
        parts = factors(length)
        assert math.prod(parts) == length
        for n in parts:
            assert n <= 4096 if n & (n - 1) == 0 else n <= 1024
            found, packed = 1, radices(n)
            while packed:
                found, packed = found * (packed & 15), packed >> 4
            assert found == n or n > 1024
    with pytest.raises(pk.LimitError, match="at most"):
        factors(1 << 31)


@pytest.mark.parametrize("length", [1, 8, 60, 4096, 8192, 3000, 13, 3001])
def test_tables_are_exact(length):
    """Each entry is the power of w rounded to float32, and products give all powers."""
    table, where = reference.fft_table(length).astype(np.complex128), layout(length)
    assert table.size == where.size
    whole = convolution(length) or length
    for n, at in where.inner:
        want = np.exp(-2j * np.pi * np.arange(n) / n)
        assert np.abs(table[at : at + n] - want).max() < 2.0**-24
    if where.outer.bits:
        m = np.arange(whole)
        low = table[where.outer.fine + (m & ((1 << where.outer.bits) - 1))]
        powers = low * table[where.outer.coarse + (m >> where.outer.bits)]
        assert np.abs(powers - np.exp(-2j * np.pi * m / whole)).max() < 2.0**-22
