"""pk.flash_attn and pk.scaled_dot_product_attention: what one takes or refuses, the other does too,
in the same words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.harness import Array, assert_same_bits

pytestmark = pytest.mark.gpu

SDPA = "scaled_dot_product_attention"
NAMES = {"query": "q", "key": "k", "value": "v", "attn_mask": "mask", SDPA: "flash_attn"}
B, H, S, T, D = 2, 3, 4, 5, 8


def inputs(dev: pk.Device) -> list[pk.Tensor]:
    return [dev.rand((B, H, n, D), seed=i) for i, n in enumerate((S, T, T))]


def both(q: Any, k: Any, v: Any, mask: Any = None, **more: Any) -> list[Callable[[], Any]]:
    return [
        lambda: pk.flash_attn(q, k, v, mask=mask, **more),
        lambda: pk.scaled_dot_product_attention(q, k, v, mask, **more),
    ]


def said(calls: list[Callable[[], Any]]) -> str:
    """The error of both calls, each with the names of its own function."""
    texts = []
    for call in calls:
        with pytest.raises(pk.PyKernelsError) as e:
            call()
        texts.append(f"{e.type.__name__}: {e.value}")
    first, second = texts
    assert not re.search(rf"\b({'|'.join(NAMES.values())})\b", second), second
    assert re.sub(rf"\b({'|'.join(NAMES)})\b", lambda m: NAMES[m[0]], second) == first
    return first


SHAPES = [(), (1,), (T,), (S, 1), (S, T), (1, S, T), (H, 1, T), (H, S, T), (B, 1, 1, T),
          (1, H, S, 1), (B, H, S, T)]  # fmt: skip


@pytest.mark.parametrize("dtype", ("bool", "float32", "float16"))
def test_masks_are_taken_alike(dev: pk.Device, dtype: str) -> None:
    q, k, v = inputs(dev)
    rng = np.random.default_rng(0)
    masks: list[Any] = [None]
    for shape in SHAPES:
        array: Array = np.asarray(rng.random(shape) < 0.7)
        array = array if dtype == "bool" else np.where(array, rng.random(shape), -np.inf)
        array = np.asarray(array, dtype)
        masks += [array, dev.tensor(array)]
    for mask in masks:
        for _ in range(2):  # the second call is known
            first, second = (call().numpy() for call in both(q, k, v, mask, scale=0.5))
            assert_same_bits(first, second, str(getattr(mask, "shape", None)))


WRONG_MASKS: dict[str, Callable[[pk.Device], Any]] = {
    "keys": lambda dev: dev.zeros((S, T + 1)),
    "queries": lambda dev: dev.zeros((S + 1, T), "bool"),
    "heads": lambda dev: dev.zeros((2, S, T)),
    "batches": lambda dev: np.zeros((3, 1, S, T), bool),
    "axes": lambda dev: dev.zeros((1, B, H, S, T)),
    "empty": lambda dev: dev.zeros((0, T)),
    "integers": lambda dev: dev.zeros((S, T), "int32"),
    "bytes": lambda dev: np.zeros((S, T), np.uint8),
    "complex numbers": lambda dev: np.zeros((S, T), np.complex64),
    "list": lambda dev: [[True] * T] * S,
    "number": lambda dev: 0.0,
    "flag": lambda dev: False,
}


@pytest.mark.parametrize("mask", WRONG_MASKS.values(), ids=WRONG_MASKS)
def test_masks_are_refused_alike(dev: pk.Device, mask: Callable[[pk.Device], Any]) -> None:
    assert "mask must" in said(both(*inputs(dev), mask(dev)))


def test_arguments_are_refused_alike(dev: pk.Device) -> None:
    q, k, v = inputs(dev)
    wide, long = dev.rand((B, H, T, 640), seed=0), dev.rand((B, H, T + 1, D), seed=0)
    out, back = dev.zeros((B, H, S, D)), dev.zeros((B, H, S, D))[:, :, :1].broadcast_to(q.shape)
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((q, k[..., :7], v), {}),
        ((q, k, long), {}),
        ((q, wide, v), {}),
        ((wide, wide, v), {}),
        ((q, k, dev.rand((B, H, T, 513), seed=0)), {}),
        ((q, 5, v), {}),
        ((q, np.ones((B, H, T, D), np.complex64), v), {}),
        ((q, k, v), {"scale": "1"}),
        ((q, k, v), {"scale": float("inf")}),
        ((q, k, v), {"scale": float("nan")}),
        ((q, k, v), {"scale": 1j}),
        ((q, k, v), {"scale": [1.0]}),
        ((q, k, v), {"out": np.zeros((B, H, S, D), "f4")}),
        ((q, k, v), {"out": out[0]}),
        ((q, k, v), {"out": dev.zeros((B, H, S, D), "int32")}),
        ((q, k, v), {"out": back}),
    ]
    pk.flash_attn(q, k, v, scale=1.0)  # calls that are known, before those that are refused
    pk.scaled_dot_product_attention(q, k, v, scale=1.0)
    for args, more in given:
        said(both(*args, **more))


def test_the_words_name_the_function_that_was_called(dev: pk.Device) -> None:
    q, k, v = inputs(dev)
    with pytest.raises(pk.ShapeError, match=rf"\[{SDPA}\] key must have shape \(2, 3, 5, 8\) but"):
        pk.scaled_dot_product_attention(q, k[..., :7], v)
    # Of three axes and two, the shapes are the caller's.
    with pytest.raises(pk.ShapeError, match=rf"\[{SDPA}\] value must have shape \(5, 8\) but"):
        pk.scaled_dot_product_attention(q[0], k[0], v[0, 0, :4])


def test_a_known_call_keeps_lse_apart(dev: pk.Device) -> None:
    q, k, v = inputs(dev)
    want, lse = pk.flash_attn(q, k, v, return_lse=True)
    for _ in range(2):
        assert_same_bits(pk.flash_attn(q, k, v).numpy(), want.numpy())
        again, other = pk.flash_attn(q, k, v, return_lse=True)
        assert_same_bits(again.numpy(), want.numpy())
        assert_same_bits(other.numpy(), lse.numpy())
        assert other.shape == (B, H, S) and other is not lse
