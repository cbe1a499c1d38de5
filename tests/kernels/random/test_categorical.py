"""categorical: against its reference, the distribution of draws, what is left out, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import random as reference
from tests.harness import Case, Form, caps

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.gpu
# Around one column an invocation, around a piece, and more columns than pieces of one round have.
SHAPES = ((1, 1), (3, 2, 255), (2, 257), (5, 1000), (1, 70001))
ARGUMENTS: tuple[dict[str, float], ...] = (
    {}, {"temperature": 0.5}, {"temperature": 3.0, "top_p": 0.7}, {"top_p": 1e-6},
)  # fmt: skip


def descending(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Rows in descending order, as top_p means."""
    return -np.sort(-3 * rng.standard_normal(shape), axis=-1).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_categorical_matches_reference(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(0)
    case, wanted, calls = Case(dev), [], []
    state = np.array([7, 9, 0xFFFFFFFE, 5, 1, 2], np.uint32)
    own_state = case.input(state, Form(steps=(-2,)))
    for i, shape in enumerate(SHAPES):
        for n, args in enumerate(ARGUMENTS):
            x = descending(rng, shape, dtype)
            tokens = rng.permutation(x.size).reshape(shape).astype(np.int32) if n % 2 else None
            gaps = Form(gap=3, phase=n) if i % 2 else Form(order=tuple(range(len(shape)))[::-1])
            given = case.input(x, gaps), None if tokens is None else case.input(tokens, gaps)
            dst = case.output(shape[:-1], "int32", Form(steps=(-1,) * (len(shape) - 1), phase=1))
            seed = 0 if n == 2 else i * 0x123456789ABCDEF
            calls.append((given, dst, n == 2, seed, args))
            wanted.append(
                reference.categorical(x, tokens, state if n == 2 else None, seed=seed, **args)
            )
    case.build()

    def run() -> None:
        for (x, tokens), dst, with_state, seed, args in calls:
            kernels.categorical(
                x.tensor, dst.tensor, tokens=tokens and tokens.tensor, seed=seed,
                state=own_state.tensor if with_state else None, **args,
            )  # fmt: skip

    for got, want, call in zip(case.run(run), wanted, calls, strict=True):
        assert (got == want).all(), (call[0][0].shape, call[-1], got, want)


def test_categorical_in_parts_draws_the_same(dev: pk.Device) -> None:
    x = np.random.default_rng(1).standard_normal((3, 4, 500)).astype(np.float32)
    want = reference.categorical(x, seed=3)
    with caps(dev, max_binding=4096 + 2 * dev._context.caps.alignment):
        assert (pk.categorical(dev.tensor(x), seed=3).numpy() == want).all()


def left(x: Array, temperature: float, top_k: int | None, top_p: float) -> Array:
    """Probabilities by numpy."""
    order = np.argsort(-x, kind="stable")[:top_k]
    p = np.exp((x[order] - x.max()).astype(np.float64) / temperature)
    p /= p.sum()
    p = np.where(np.cumsum(p) - p < top_p, p, 0)
    found = np.zeros(len(x))
    found[order] = p / p.sum()
    return found


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "dtype"),
    [(1.0, None, 1.0, "float32"), (2.0, 8, 1.0, "float16"), (0.7, None, 0.8, "float32"),
     (1.5, 9, 0.9, "float32")],
)  # fmt: skip
def test_categorical_draws_by_the_probabilities(
    dev: pk.Device, temperature: float, top_k: int | None, top_p: float, dtype: str
) -> None:
    """Pearson's chi-square of 600 draws, and none of what top_k and top_p leave out."""
    draws = 600
    x = np.random.default_rng(5).permutation(np.linspace(-1, 1.5, 12)).astype(dtype)
    rows = dev.tensor(x).broadcast_to((draws, 12))
    found = pk.categorical(rows, temperature=temperature, top_k=top_k, top_p=top_p, seed=11)
    counts = np.bincount(found.numpy(), minlength=12)
    p = left(x, temperature, top_k, top_p)
    assert counts.sum() == draws and not counts[p == 0].any()
    own, expected = counts[p > 0], draws * p[p > 0]
    chi_square, freedom = float(((own - expected) ** 2 / expected).sum()), len(own) - 1
    # Wilson and Hilferty: its cube root is about normal; 1 in 30,000 is beyond 4 deviations.
    spread = 2 / (9 * freedom)
    assert abs((chi_square / freedom) ** (1 / 3) - (1 - spread)) < 4 * math.sqrt(spread)


def test_categorical_edges(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, 3000)).astype(np.float32)
    x[2, [5, 9]] = 50.0  # equal ones: the first
    best = x.argmax(-1)
    t = dev.tensor(x)
    greedy: tuple[dict[str, Any], ...] = (
        {"temperature": 0.0}, {"top_k": 1}, {"top_p": 1e-9}, {"top_k": 5, "top_p": 1e-9},
    )  # fmt: skip
    for args in greedy:
        assert (pk.categorical(t, seed=4, **args).numpy() == best).all(), args
    cold = pk.categorical(t[:2], temperature=1e-30, seed=4)
    assert (cold.numpy() == best[:2]).all()
    bad = np.zeros((5, 600), np.float32)
    bad[0, 599], bad[1, 3], bad[2], bad[3, :-1] = np.nan, np.inf, -np.inf, -np.inf
    assert reference.categorical(bad, seed=1)[:4].tolist() == [-1, -1, -1, 599]
    found = pk.categorical(bad, seed=1)
    assert isinstance(found, np.ndarray) and found.dtype == np.int32
    assert found[:4].tolist() == [-1, -1, -1, 599] and 0 <= found[4] < 600
    far = np.float32([[-3e38, 3e38, -3e38]])  # differences beyond float32
    assert pk.categorical(far, seed=1).tolist() == [1]
    assert pk.categorical(dev.zeros((0, 3))).shape == (0,)
    assert pk.categorical(dev.tensor(x[0]), temperature=0).item() == best[0]
    out = dev.zeros((6,), "int32")
    assert pk.categorical(t, top_k=9000, seed=8, out=out) is out
    assert (out.numpy() == reference.categorical(x, seed=8)).all()


def test_categorical_counts_a_state_on(dev: pk.Device) -> None:
    """Captured: each replay draws what the next call would; greedy ones draw nothing."""
    x = dev.tensor(np.random.default_rng(3).standard_normal((3, 50)).astype(np.float32))
    state, own = pk.random_state(9, device=dev), pk.random_state(9, device=dev)
    with dev.capture() as program:
        found = pk.categorical(x, top_k=40, top_p=0.9, state=state)
    for n in range(1, 3):
        program()
        want = pk.categorical(x, top_k=40, top_p=0.9, state=own).numpy()
        assert (found.numpy() == want).all()
        assert state.numpy()[2] == 3 * n
    pk.categorical(x, temperature=0.0, state=state)
    assert state.numpy()[2] == 6


def test_categorical_rejects(dev: pk.Device) -> None:
    x, dst = dev.zeros((2, 5)), dev.zeros(2, "int32")
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.categorical(x, temperature=-1.0), pk.ArgumentError, "temperature must be 0"),
        (lambda: pk.categorical(x, temperature=math.nan), pk.ArgumentError, "but is nan"),
        (lambda: pk.categorical(x, top_p=0.0), pk.ArgumentError, r"top_p must be in \(0, 1\]"),
        (lambda: pk.categorical(x, top_k=0), pk.ArgumentError, "top_k must be 1 or more but is 0"),
        (lambda: pk.categorical(x, top_k=1.5), pk.ArgumentError, "top_k"),  # type: ignore[call-overload]
        (lambda: pk.categorical(x[:, :0]), pk.ShapeError, "must have a column or more"),
        (lambda: pk.categorical(dst), pk.DTypeError, r"logits must be float32, float16"),
        (lambda: pk.categorical(x, state=dev.zeros(6)), pk.DTypeError, "state must be uint32"),
        (lambda: pk.categorical(x, seed=1, state=pk.random_state(device=dev)), pk.ArgumentError,
         "seed must be None if a state"),
        (lambda: kernels.categorical(x, dst[:1]), pk.ShapeError, r"dst must have shape \(2,\)"),
        (lambda: kernels.categorical(x, dst, tokens=dst), pk.ShapeError, "tokens must have the"),
        (lambda: kernels.categorical(x[:, :0], dst), pk.ShapeError, "a column or more"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
