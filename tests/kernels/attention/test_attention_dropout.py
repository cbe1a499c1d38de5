"""Attention that drops weights: the ones that `dropout` would, on the way back too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.harness import Array

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(41)
Q, K, V = (RNG.normal(0, 1, s).astype("f4") for s in ((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 3)))
MASK = RNG.normal(0, 1, (3, 6)).astype("f4")


def weights(mask: Array | float = 0.0) -> Array:
    """Softmax of the logits in float64, (2, 4, 3, 6)."""
    keys = np.repeat(K.astype("f8"), 2, 1)
    logits = Q.astype("f8") @ keys.swapaxes(-1, -2) / 5**0.5 + mask
    e = np.exp(logits - logits.max(-1, keepdims=True))
    found: Array = e / e.sum(-1, keepdims=True)
    return found


def attended(mask: Array | float, dropped: Array) -> Array:
    found: Array = weights(mask) * dropped @ np.repeat(V.astype("f8"), 2, 1)
    return found


def test_weights_are_dropped_as_dropout_drops(dev: pk.Device) -> None:
    q, k, v = map(dev.tensor, (Q, K, V))
    dropped = pk.dropout_mask((2, 4, 3, 6), 0.4, seed=5, device=dev).numpy()
    got = pk.flash_attn(q, k, v, mask=dev.tensor(MASK), dropout_p=0.4, seed=5)
    np.testing.assert_allclose(got.numpy(), attended(MASK, dropped), rtol=2e-5, atol=2e-6)
    seen = MASK > -0.5
    got = pk.scaled_dot_product_attention(q, k, v, seen, 0.4, enable_gqa=True, seed=5)
    want = attended(np.where(seen, 0, -np.inf), dropped)
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-6)
    got = pk.scaled_dot_product_attention(q, k, v, None, 0.4, True, enable_gqa=True, seed=5)
    want = attended(np.where(np.tri(3, 6), 0, -np.inf), dropped)
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=2e-6)
    one = pk.scaled_dot_product_attention(Q[0, 0], K[0, 0], V[0, 0], None, 1.0)
    assert isinstance(one, np.ndarray) and one.shape == (3, 3) and not one.any()
    state = pk.random_state(5, device=dev)
    drawn = [pk.flash_attn(q, k, v, dropout_p=0.4, state=state).numpy() for _ in range(2)]
    np.testing.assert_allclose(drawn[0], attended(0.0, dropped), rtol=2e-5, atol=2e-6)
    assert (drawn[0] != drawn[1]).any(), "the state was not counted on"
    half = pk.flash_attn(*[t.astype("float16") for t in (q, k, v)], dropout_p=0.4, seed=5)
    assert half.dtype == "float16"
    np.testing.assert_allclose(half.numpy(), drawn[0], atol=2e-2)


def test_the_way_back_has_the_same_weights(dev: pk.Device) -> None:
    """By the device's own state; each call draws others."""
    q, k, v = map(dev.tensor, (Q, K, V))
    dev.seed(3)
    with pk.Tape() as tape:
        y = pk.scaled_dot_product_attention(q, k, v, dropout_p=0.3, enable_gqa=True)
        again = pk.scaled_dot_product_attention(q, k, v, dropout_p=0.3, enable_gqa=True)
    assert (y.numpy() != again.numpy()).any()
    dy = RNG.normal(0, 1, y.shape).astype("f4")
    pk.rand(3, device=dev)  # what is drawn in between changes nothing
    dv = tape.gradient(y, v, dev.tensor(dy))
    dev.seed(3)
    dropped = pk.dropout_mask((2, 4, 3, 6), 0.3, device=dev).numpy()
    want = ((weights() * dropped).swapaxes(-1, -2) @ dy).reshape(2, 2, 2, 6, 3).sum(2)
    np.testing.assert_allclose(dv.numpy(), want, rtol=2e-5, atol=2e-6)


def test_gradients_of_attention_with_dropout(dev: pk.Device) -> None:
    given = tuple(map(dev.tensor, (Q, K, V, MASK)))

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return pk.flash_attn(q, k, v, mask=mask, dropout_p=0.3, seed=2, softcap=3.0, causal=True)

    pk.check_gradients(attend, given)


@pytest.mark.parametrize("options", [{}, {"softcap": 2.0, "causal": True}], ids=str)
def test_gradients_of_masks_with_slopes(dev: pk.Device, options: dict[str, Any]) -> None:
    """ALiBi, first and second order, with a number of heads that is no power of two."""
    rng = np.random.default_rng(7)
    q, k, v = (dev.tensor(rng.normal(0, 1, s).astype("f4"))
               for s in ((1, 3, 3, 4), (1, 3, 5, 4), (1, 3, 5, 2)))  # fmt: skip
    mask = rng.normal(0, 1, (3, 5)).astype("f4")
    mask[1, 2] = -np.inf

    def attend(mask: Any) -> Any:
        whole = pk.where(hidden, -np.inf, mask)
        return pk.flash_attn(q, k, v, mask=whole, max_bias=8.0, **options)

    hidden = dev.tensor(np.isinf(mask))
    finite = dev.tensor(np.where(np.isinf(mask), 0, mask).astype("f4"))
    pk.check_gradients(attend, (finite,))
    pk.check_gradients(pk.grad(lambda m: pk.sum(pk.square(attend(m)))), (finite,))
    logits = dev.tensor(rng.normal(0, 1, (2, 3, 4, 5)).astype("f4"))
    pk.check_gradients(lambda m: pk.softmax(logits, mask=m, max_bias=4.0), (finite[:1],))


def test_dropout_refuses(dev: pk.Device) -> None:
    q, k, v = map(dev.tensor, (Q, K, V))
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.flash_attn(q, k, v, dropout_p=2.0), pk.ArgumentError, "dropout_p must be in"),
        (lambda: pk.flash_attn(q, k, v, dropout_p=0.1, return_lse=True), pk.ArgumentError, "lse"),
        (lambda: pk.flash_attn(q, k, v, dropout_p=0.1, lengths=dev.tensor([1, 2], "int32")),
         pk.ArgumentError, "dropout_p excludes lengths"),
        (lambda: pk.flash_attn(q, q, v, dropout_p=0.1), pk.ShapeError, "v must have shape"),
        (lambda: pk.flash_attn(q, k, v, mask=dev.zeros(4), dropout_p=0.1), pk.ShapeError, "mask"),
        (lambda: pk.flash_attn(q, k, v, causal="up", dropout_p=0.1), pk.ArgumentError, "causal"),  # type: ignore[call-overload]
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
