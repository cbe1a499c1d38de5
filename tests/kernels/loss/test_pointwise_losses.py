"""Losses of each element: against references in float64, by what each operation may be off by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import loss as reference
from tests.harness import Array, assert_close

pytestmark = pytest.mark.gpu

EPS = 2.0**-23
Rng = np.random.Generator


class Loss(NamedTuple):
    """A function, its operands, what each element may be off by, and its options."""

    name: str
    operands: Callable[[Rng, tuple[int, ...]], tuple[Array, ...]]
    budget: Callable[..., Array]
    options: dict[str, Any] = {}  # noqa: RUF012
    named: tuple[str, ...] = ()  # operands behind target


def pair(rng: Rng, shape: tuple[int, ...]) -> tuple[Array, ...]:
    return rng.normal(0, 2, shape), rng.normal(0, 2, shape)


def shares(rng: Rng, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Logits, some of them large, and probabilities, some of them 0 or 1."""
    x = rng.normal(0, 1, shape) * rng.choice([1, 30], shape)
    return x, np.clip(rng.random(shape) * 1.4 - 0.2, 0, 1)


def weighted(rng: Rng, shape: tuple[int, ...]) -> tuple[Array, ...]:
    return *shares(rng, shape), rng.random(shape[-1:]), rng.uniform(0.5, 3, (*shape[:-1], 1))


def magnitude(name: str, **options: Any) -> Callable[..., Array]:
    """Losses whose terms have one sign: some units of the result."""
    return lambda *a: 16 * EPS * np.abs(getattr(reference, name)(*a, **options))


def kl_budget(x: Array, t: Array) -> Array:
    terms = np.abs(t * np.log(np.maximum(t, 1e-38))) + np.abs(t * x)
    found: Array = 8 * EPS * terms
    return found


def kl_log_budget(x: Array, t: Array) -> Array:
    found: Array = 8 * EPS * np.exp(t) * (np.abs(t) + np.abs(x)) * (1 + np.abs(t))
    return found


BCE = "binary_cross_entropy_with_logits"
LOSSES = {
    "mse": Loss("mse_loss", pair, magnitude("mse_loss")),
    "l1": Loss("l1_loss", pair, magnitude("l1_loss")),
    "huber": Loss("huber_loss", pair, magnitude("huber_loss", delta=0.7), {"delta": 0.7}),
    "smooth_l1": Loss("smooth_l1_loss", pair, magnitude("smooth_l1_loss", beta=3), {"beta": 3.0}),
    "bce": Loss(BCE, shares, magnitude(BCE)),
    "bce_weighted": Loss(BCE, weighted, magnitude(BCE), {}, ("weight", "pos_weight")),
    "kl": Loss("kl_div", shares, kl_budget),
    "kl_log": Loss("kl_div", pair, kl_log_budget, {"log_target": True}),
}


@pytest.mark.parametrize("dtype", ("float32", "float16"))
@pytest.mark.parametrize("case", LOSSES)
def test_pointwise_losses_match_reference(dev: pk.Device, case: str, dtype: str) -> None:
    """Each reduction, on tensors as they lie and transposed."""
    loss, rng = LOSSES[case], np.random.default_rng(len(case))
    function, meaning = getattr(pk, loss.name), getattr(reference, loss.name)
    for shape in ((3, 5), (40, 64)):
        arrays = [a.astype(dtype) for a in loss.operands(rng, shape)]
        if shape[0] == 3:
            tensors = [dev.tensor(a) for a in arrays]
        else:
            tensors = [dev.tensor(np.ascontiguousarray(a.T)).T for a in arrays]
        given = dict(zip(("input", "target", *loss.named), tensors, strict=True))
        wide = [a.astype(np.float64) for a in arrays]
        want, bound = meaning(*wide, **loss.options), loss.budget(*wide) + 2.0**-126
        terms = EPS * (math.sqrt(want.size) + 4) * np.abs(want).sum()
        for reduction in ("none", "sum", "mean"):
            got = function(**given, **loss.options, reduction=reduction)
            assert got.dtype == dtype
            if reduction == "none":
                assert_close(got.numpy(), want, bound, f"{case} {shape}")
                continue
            n = want.size if reduction == "mean" else 1
            off = np.asarray((bound.sum() + terms) / n + 4 * EPS * abs(want.sum() / n))
            what = f"{case} {shape} {reduction}"
            assert_close(got.numpy(), np.asarray(want.sum() / n), off, what)


def test_pointwise_losses_take_arrays_numbers_of_axes_and_out(dev: pk.Device) -> None:
    x = np.float32([[1, 2], [3, 5]])
    t = np.broadcast_to(np.float32([1, 0]), (2, 2))
    assert pk.mse_loss(x, t) == np.float32((0 + 4 + 4 + 25) / 4)
    assert isinstance(pk.l1_loss(x, t, reduction="none"), np.ndarray)
    out = dev.empty(())
    assert pk.l1_loss(dev.tensor(x), t, reduction="sum", out=out) is out and out.item() == 9
    assert pk.smooth_l1_loss(x, t, beta=0.0, reduction="sum") == 9
    batch = pk.kl_div(x, x, reduction="batchmean", log_target=True)
    assert batch == 0
    want = reference.kl_div(x, np.abs(x)).sum() / 2
    np.testing.assert_allclose(pk.kl_div(x, np.abs(x), reduction="batchmean"), want, rtol=1e-5)
    assert np.isnan(pk.mse_loss(x[:0], x[:0])) and pk.mse_loss(x[:0], t[:0], reduction="sum") == 0


def test_pointwise_losses_at_special_values(dev: pk.Device) -> None:
    """Logits of any size have finite losses; gradients at 0 are torch's."""
    x = dev.tensor(np.float32([0, 200, -200, 200, -200, 0]))
    t = dev.tensor(np.float32([0, 0, 1, 1, 0, 1]))
    with pk.Tape() as tape:
        loss = pk.binary_cross_entropy_with_logits(x, t, reduction="none")
    half = np.float32(math.log(2))
    np.testing.assert_allclose(loss.numpy(), [half, 200, 200, 0, 0, half], rtol=1e-6, atol=1e-30)
    dx = tape.gradient(loss, [x], seed=dev.ones(6))[0].numpy()
    np.testing.assert_allclose(dx, [0.5, 1, -1, 0, 0, -0.5], rtol=1e-6, atol=1e-30)
    zero = dev.zeros(3)
    for function in (pk.l1_loss, pk.huber_loss, pk.smooth_l1_loss, pk.mse_loss):
        with pk.Tape() as tape:
            loss = function(zero, dev.zeros(3))
        assert loss.item() == 0 and (tape.gradient(loss, [zero])[0].numpy() == 0).all()
    with pk.Tape() as tape:
        loss = pk.kl_div(zero - 1, zero)
    assert loss.item() == 0 and np.isfinite(tape.gradient(loss, [zero])[0].numpy()).all()


def test_pointwise_losses_reject(dev: pk.Device) -> None:
    x = dev.ones((3, 4))
    with pytest.raises(pk.ArgumentError, match=r"\[mse_loss\] reduction must be 'none', 'mean' or"):
        pk.mse_loss(x, x, reduction="batchmean")  # type: ignore[call-overload]
    with pytest.raises(pk.ArgumentError, match=r"\[kl_div\] reduction must be .* or 'batchmean'"):
        pk.kl_div(x, x, reduction="average")  # type: ignore[call-overload]
    with pytest.raises(pk.DTypeError, match=r"\[l1_loss\] target must be .* or bfloat16 but"):
        pk.l1_loss(x, dev.zeros((3, 4), "int32"))
    with pytest.raises(pk.DTypeError, match=r"\[l1_loss\] input must be .* or bfloat16 but is"):
        pk.l1_loss([1.0], x)  # type: ignore[call-overload]
    with pytest.raises(pk.ArgumentError, match=r"\[huber_loss\] delta must be above 0 but is 0"):
        pk.huber_loss(x, x, delta=0)
    with pytest.raises(pk.ArgumentError, match=r"\[smooth_l1_loss\] beta must be 0 or more but is"):
        pk.smooth_l1_loss(x, x, beta=-1)
    with pytest.raises(pk.ShapeError, match=r"\[mse_loss\] .*"):
        pk.mse_loss(x, x[:2])
    told = (
        r"\[binary_cross_entropy_with_logits\] target must have the shape of input, \(3, 4\), but"
    )
    with pytest.raises(pk.ShapeError, match=told):
        pk.binary_cross_entropy_with_logits(x, x[0])
    with pytest.raises(pk.ShapeError, match=r"\[kl_div\] input must have an axis for reduction"):
        pk.kl_div(x[0, 0], x[0, 0], reduction="batchmean")


@pytest.mark.parametrize(
    "loss", (pk.mse_loss, pk.l1_loss, pk.huber_loss, pk.smooth_l1_loss, pk.kl_div)
)
def test_operands_that_repeat_are_said(dev: pk.Device, loss: Any) -> None:
    """As torch: (3, 1) beside (3,) are nine errors."""
    x, t = dev.ones((3, 1)), dev.ones(3)
    with pytest.warns(
        UserWarning, match=r"input has shape \(3, 1\) and target \(3,\): both repeat to \(3, 3\)"
    ) as found:
        assert loss(x, t, reduction="none").shape == (3, 3)
    assert found[0].filename == __file__
    loss(x[:, 0], t)


def test_binary_cross_entropy_at_its_ends(dev: pk.Device) -> None:
    """Logarithms end at -100, and the gradient divides by 1e-12 at least, as in torch."""
    x = dev.tensor(np.array([0, 0, 1, 1, 0.5, 1e-20], "f4"))
    t = dev.tensor(np.array([0, 1, 0, 1, 0.5, 1], "f4"))
    with pk.Tape() as tape:
        loss = pk.binary_cross_entropy(x, t, reduction="none")
    dx, dt = tape.gradient(loss, [x, t], seed=dev.ones(6))
    np.testing.assert_allclose(loss.numpy(), [0, 100, 100, 0, np.log(2), 46.0517], rtol=1e-5)
    np.testing.assert_allclose(dx.numpy(), [0, -1e12, 1e12, 0, 0, -1e12], rtol=1e-5)
    np.testing.assert_allclose(dt.numpy(), [100, 100, -100, -100, 0, 46.0517], rtol=1e-5)
    wrong = np.array([-0.5, 1.5], "f4")
    outside = pk.binary_cross_entropy(wrong, np.ones(2, "f4"), reduction="none")
    assert np.isnan(outside).all()
    half = pk.binary_cross_entropy(dev.tensor([0.5], "float16"), dev.tensor([1.0], "float16"))
    assert half.dtype == "float16" and abs(half.item() - np.log(2)) < 1e-3
    out = dev.zeros(())
    assert pk.binary_cross_entropy(x, t, reduction="sum", out=out) is out
    np.testing.assert_allclose(out.item(), loss.numpy().sum(), rtol=1e-6)
    with pytest.raises(pk.ShapeError, match="target must have the shape of input"):
        pk.binary_cross_entropy(x, t[:1])
    with pytest.raises(pk.DTypeError, match="target must be float32, float16 or bfloat16"):
        pk.binary_cross_entropy(x, dev.zeros(6, "int32"))
    with pytest.raises(pk.ShapeError, match="out must be float32"):
        pk.binary_cross_entropy(x, t, out=dev.zeros(2))


def test_cosine_similarity(dev: pk.Device) -> None:
    """Vectors of zeros give 0 and finite gradients; float16 is computed in f32."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(0, 1, s).astype("f4") for s in ((2, 3, 4), (3, 1)))
    a[0, :, 0] = 0
    x, y = dev.tensor(a), dev.tensor(b)
    size = np.maximum(np.linalg.norm(a, axis=1), 1e-8) * np.linalg.norm(b, axis=0)
    with pk.Tape() as tape:
        got = pk.cosine_similarity(x, y)
    np.testing.assert_allclose(got.numpy(), (a * b).sum(1) / size, rtol=1e-5, atol=1e-6)
    assert np.isfinite(tape.gradient(got, x, dev.ones(got.shape)).numpy()).all()
    large = pk.cosine_similarity(np.full((1, 3), 6e4, "f2"), np.full((1, 3), 6e4, "f2"))
    assert large.dtype == np.float16 and large.tolist() == [1]
    for call, error, text in (
        (lambda: pk.cosine_similarity(x, y, eps=0), pk.ArgumentError, "eps must be above 0"),
        (lambda: pk.cosine_similarity(x, y, 3), pk.ShapeError, "3"),
        (lambda: pk.cosine_similarity(x, dev.ones(5)), pk.ShapeError, "broadcast"),
        (lambda: pk.cosine_similarity(x, dev.ones(4, "int32")), pk.DTypeError, "x2 must be"),
    ):
        with pytest.raises(error, match=text):
            call()
