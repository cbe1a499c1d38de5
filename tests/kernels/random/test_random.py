"""Random numbers: Random123's known answers, every layout bit for bit, states, and statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.dtypes import numpy_dtype
from pykernels.reference import random as reference
from tests.harness import Case, Form, assert_same_bits, caps, forms, random_form

ONES = 0xFFFFFFFF
# Counter, key and words, of the file kat_vectors of Random123.
KNOWN = (
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
)  # fmt: skip
# Arguments by kernel, one of them extreme.
ARGUMENTS: dict[str, tuple[dict[str, Any], ...]] = {
    "rand": ({},),
    "randn": ({},),
    "randint": (
        {"low": -7, "high": 5}, {"low": -(1 << 31), "high": 1 << 31}, {"low": 0, "high": 1},
        {"low": 3, "high": 3 * (1 << 29) + 11},
    ),
    "bernoulli": ({"p": 0.3}, {"p": 0.75, "value": 4 / 3}, {"p": 0.0}, {"p": 1.0, "value": -2.5}),
}  # fmt: skip
CALLS = [
    (name, dtype)
    for name in ARGUMENTS
    for dtype in getattr(kernels, name).__globals__["KERNEL"].args[-1].dtypes
]
STATE = np.array([7, 9, ONES - 3, 5, 1, 2], np.uint32)  # whose counter carries in the first call


def arguments(name: str, dtype: str) -> list[dict[str, Any]]:
    if dtype == "uint32":
        return [{"low": 0, "high": 1 << 32}, {"low": 1 << 31, "high": (1 << 31) + 5}]
    return list(ARGUMENTS[name])


def check(
    dev: pk.Device,
    name: str,
    dtype: str,
    calls: list[tuple[tuple[int, ...], Form]],
    with_state: bool,
) -> None:
    """Views of one buffer, each with arguments and a seed (or state) of its own."""
    case = Case(dev)
    args = arguments(name, dtype)
    state = case.input(STATE, Form(steps=(-2,), phase=3)) if with_state else None
    views = [case.output(shape, dtype, form, buffer="one") for shape, form in calls]
    case.build()
    given = [args[i % len(args)] for i in range(len(calls))]
    seeds = [0 if with_state else (i * 0x123456789ABCDEF) for i in range(len(calls))]

    def run() -> None:
        for v, a, seed in zip(views, given, seeds, strict=True):
            getattr(kernels, name)(v.tensor, **a, state=state and state.tensor, seed=seed)

    dt = numpy_dtype(dtype)  # type: ignore[arg-type]
    for got, (shape, form), a, seed in zip(case.run(run), calls, given, seeds, strict=True):
        want = getattr(reference, name)(shape, dt, state=STATE if state else None, seed=seed, **a)
        assert_same_bits(got, want, f"{name} {dtype} {shape} {a} {form}")


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_reference_has_the_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    got = reference.philox(np.array([counter], np.uint32), np.array([key], np.uint32))
    assert tuple(got[0]) == words


@pytest.mark.gpu
@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_device_has_the_known_answers(
    dev: pk.Device, counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    state = dev.tensor(np.array([*key, *counter], np.uint32))
    u = pk.rand(4, state=state[:]).numpy()
    assert tuple((u * 2.0**24).astype(np.uint32)) == tuple(w >> 8 for w in words)
    carried = counter[0] == ONES  # the state was counted on
    low, high = (counter[0] + 1) % (1 << 32), (counter[1] + carried) % (1 << 32)
    assert tuple(state.numpy()) == (*key, low, high, *counter[2:])
    whole = dev.empty(2, "uint32")  # a range of 2^32: the high word of each 64 bits, which is whole
    kernels.randint(whole, 0, 1 << 32, state=dev.tensor(np.array([*key, *counter], np.uint32)))
    assert tuple(whole.numpy()) == words[::2]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "dtype"), CALLS)
def test_random_any_layout(dev: pk.Device, name: str, dtype: str) -> None:
    layouts = list(forms(3, repeats=False).values())
    shapes = ((2, 3, 8), (3, 1, 7), (1, 1, 1))
    check(dev, name, dtype, [(s, f) for s in shapes for f in layouts], False)
    check(dev, name, dtype, [((4, 6), Form()), ((), Form(phase=1))], True)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "dtype"), CALLS)
def test_random_sizes_and_phases(dev: pk.Device, name: str, dtype: str) -> None:
    sizes = (0, 1, 2, 3, 4, 5, 7, 8, 255, 1023, 1024, 1025, 4099)
    check(dev, name, dtype, [((n,), Form(phase=p)) for n in sizes for p in (0, 1, 2)], True)


@pytest.mark.gpu
@pytest.mark.crowd
def test_random_folds_a_long_grid(dev: pk.Device) -> None:
    with caps(dev, max_groups=2):
        check(dev, "rand", "float32", [((4099,), Form(phase=1))], False)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ARGUMENTS)
def test_random_views_larger_than_a_binding(dev: pk.Device, name: str) -> None:
    dtype = "int32" if name == "randint" else "float32"
    align = dev._context.caps.alignment
    with caps(dev, max_binding=4096 + 2 * align):
        check(dev, name, dtype, [((n,), Form(phase=p)) for n in (5003, 4096) for p in (0, 1)], True)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(4))
def test_random_random_layouts(dev: pk.Device, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for i in rng.permutation(len(CALLS))[:4]:
        calls = []
        for _ in range(6):
            shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 6)))
            calls.append((shape, random_form(rng, len(shape), repeats=False)))
        check(dev, *CALLS[i], calls, bool(rng.integers(2)))


@pytest.mark.gpu
def test_random_functions_count_the_state_on(dev: pk.Device) -> None:
    """Two calls draw what one would; each function says how many blocks it takes."""
    state, whole = pk.random_state(-5, device=dev), pk.random_state(-5, device=dev)
    parts = [pk.rand(n, state=state).numpy() for n in (8, 4, 20)]
    assert_same_bits(np.concatenate(parts), pk.rand(32, state=whole).numpy())
    assert_same_bits(pk.rand(32, seed=-5, device=dev).numpy(), np.concatenate(parts))
    pk.randint(0, 9, 3, state=state)
    pk.bernoulli((5, 2), 0.5, state=state)
    pk.dropout_mask(1, state=state)
    pk.randn(9, "float16", state=state)
    words = (1 << 64) - 5
    count = 8 + 2 + 3 + 1 + 3
    assert tuple(state.numpy()) == (words & ONES, words >> 32, count, 0, 0, 0)
    assert tuple(pk.random_state((1 << 64) - 5, device=dev).numpy()) == (ONES - 4, ONES, 0, 0, 0, 0)


@pytest.mark.gpu
def test_random_in_a_captured_program(dev: pk.Device) -> None:
    """Each replay draws what the next call would."""
    state, x = pk.random_state(3, device=dev), dev.empty(1000)
    with dev.capture() as program:
        kernels.randn(x, state=state)
        kernels.random_advance(state, 250)
        mask = pk.dropout_mask(1000, 0.25, state=state)
    wanted = pk.random_state(3, device=dev)
    for _ in range(3):
        program()
        assert_same_bits(x.numpy(), pk.randn(1000, state=wanted).numpy())
        assert_same_bits(mask.numpy(), pk.dropout_mask(1000, 0.25, state=wanted).numpy())


@pytest.mark.gpu
def test_random_properties_that_the_docs_state(dev: pk.Device) -> None:
    u = pk.rand((33, 7), seed=4, device=dev).numpy()
    half = pk.rand((33, 7), "float16", seed=4, device=dev).numpy()
    assert_same_bits(half, (np.floor(u * 2048) / 2048).astype(np.float16))
    assert_same_bits(dev.rand((33, 7), seed=4).numpy(), u)
    p = np.float32(0.37)
    assert_same_bits(pk.bernoulli((33, 7), 0.37, seed=4, device=dev).numpy(), u < p)
    mask = pk.dropout_mask((33, 7), 0.25, seed=4, device=dev).numpy()
    assert_same_bits(mask, np.where(u < 0.75, np.float32(4 / 3), np.float32(0)))
    assert not pk.dropout_mask(64, 1.0, seed=4, device=dev).numpy().any()
    assert pk.rand(3, seed=4, device=dev).numpy().tolist() == u.reshape(-1)[:3].tolist()
    assert pk.randint(2, 4, (0, 3), device=dev).shape == (0, 3)


@pytest.mark.parametrize("seed", (0, 1, 1 << 40))
def test_randn_is_normal(seed: int) -> None:
    """Moments and the largest distance of the distribution function, within 4.5 deviations."""
    n = 1 << 20
    z = reference.randn((n,), np.dtype(np.float32), seed=seed).astype(np.float64)
    moments = [(z.mean(), 1), (z.var() - 1, 2), ((z**3).mean(), 15), ((z**4).mean() - 3, 96)]
    assert all(abs(m) < 4.5 * math.sqrt(v / n) for m, v in moments), moments
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 4.5 / math.sqrt(n / 2)
    some = np.sort(z)[:: n // 4096]
    below = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in some])
    distance = np.abs(below - np.arange(len(some)) / len(some)).max()
    assert distance < 1.95 / math.sqrt(n) + 1 / len(some)  # 1 in 1,000 runs is beyond 1.95
    assert np.isfinite(z).all() and abs(z).max() < 6.7


def test_rand_is_uniform_and_randint_reaches_its_ends() -> None:
    n = 1 << 20
    u = reference.rand((n,), np.dtype(np.float32), seed=2).astype(np.float64)
    assert abs(u.mean() - 0.5) < 4.5 * math.sqrt(1 / 12 / n) and 0 <= u.min() and u.max() < 1
    found = np.bincount(reference.randint((n,), np.dtype(np.int32), 0, 10, seed=2))
    assert len(found) == 10 and np.abs(found - n / 10).max() < 4.5 * math.sqrt(n * 0.09)


@pytest.mark.gpu
def test_random_rejects(dev: pk.Device) -> None:
    state = pk.random_state(device=dev)
    before = state.numpy()
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.rand(3, "int32", device=dev), pk.DTypeError, r"\[rand\] dtype must be float32"),
        (lambda: dev.rand(3, "int32"), pk.DTypeError, r"\[rand\] dtype must be a float"),
        (lambda: dev.rand(3, seed=1 << 63), pk.ArgumentError, r"\[rand\] seed must be in"),
        (lambda: pk.randn(3, seed=1 << 64, device=dev), pk.ArgumentError, "seed must fit into 64"),
        (lambda: pk.randn(3, seed=1.5, device=dev), pk.ArgumentError, r"\[randn\] seed"),  # type: ignore[arg-type]
        (lambda: pk.randn(3, seed=1, state=state), pk.ArgumentError, "seed must be None"),
        (lambda: pk.rand(3, state=before), pk.DTypeError, r"\[rand\] state must be a pyk"),  # type: ignore[arg-type]
        (lambda: pk.rand(3, state=state[1:]), pk.ShapeError, r"state must have shape \(6,\)"),
        (lambda: pk.rand(3, state=dev.zeros(6)), pk.DTypeError, r"state must be uint32"),
        (lambda: pk.randint(3, 3, 2, device=dev), pk.ArgumentError, r"\[randint\] low and high"),
        (lambda: pk.randint(-1, 3, 2, "uint32", device=dev), pk.ArgumentError, "uint32 but are -1"),
        (lambda: pk.randint(0, 2.0, 2, device=dev), pk.ArgumentError, r"\[randint\] high"),  # type: ignore[arg-type]
        (lambda: pk.randint(0, 2, 2, "int64", device=dev), pk.DTypeError, "int32 or uint32"),
        (lambda: pk.bernoulli(2, 1.5, device=dev), pk.ArgumentError, r"p must be in \[0, 1\]"),
        (lambda: pk.bernoulli(2, math.nan, device=dev), pk.ArgumentError, "p must be"),
        (lambda: pk.dropout_mask(2, dtype="bool", device=dev), pk.DTypeError, "dropout_mask"),
        (lambda: kernels.random_advance(dev.zeros(5, "u32"), 1), pk.ShapeError, "state must have"),
        (lambda: kernels.rand(dev.zeros(3).broadcast_to((2, 3))), pk.AliasError, "overlaps itself"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
    assert_same_bits(state.numpy(), before)
