"""Losses and their gradients: torch's values (torch/loss.json) against the references in float64,
and against the device with a tape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import loss as reference

CALLS = json.loads(Path(__file__).with_name("torch").joinpath("loss.json").read_text("utf-8"))
NAMES = sorted({call["name"] for call in CALLS})


def arrays(call: dict[str, Any], dtype: str) -> dict[str, Any]:
    """The tensors of a call; classes stay whole numbers."""
    found = {n: np.asarray(a) for n, a in call["tensors"].items()}
    return {n: a.astype(np.int64 if a.dtype.kind == "i" else dtype) for n, a in found.items()}


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_torch(dev: pk.Device, name: str) -> None:
    """Numbers about 1, of which a dozen are added: some units in the last place of the largest."""
    calls = [call for call in CALLS if call["name"] == name]
    assert len(calls) >= 3
    for call in calls:
        what = f"{name} {call['options']}"
        given = {n: dev.tensor(a) for n, a in arrays(call, "float32").items()}
        with pk.Tape() as tape:
            loss = getattr(pk, name)(**given, **call["options"])
        sources = [given[n] for n in call["gradients"]]
        found = tape.gradient(loss, sources, seed=2 * loss)
        assert_near(loss.numpy(), call["loss"], f"{what} loss")
        for got, (n, want) in zip(found, call["gradients"].items(), strict=True):
            assert_near(got.numpy(), want, f"{what} gradient of {n}")


def assert_near(got: Any, want: Any, what: str) -> None:
    expected = np.asarray(want)
    assert got.shape == expected.shape, what
    error = np.abs(got - expected).max(initial=0)
    assert error <= 2.0**-23 * 40 * np.abs(expected).max(initial=1), f"{what}: off by {error}"


@pytest.mark.parametrize("name", ("cross_entropy", "nll_loss"))
def test_references_of_classes_are_those_of_torch(name: str) -> None:
    """In float64, with the classes last; the gradient too, as its formula says it."""
    for call in [call for call in CALLS if call["name"] == name]:
        given, options = arrays(call, "float64"), call["options"]
        x, target, weight = given["input"], given["target"], given.get("weight")
        last = 0 if x.ndim == 1 else 1
        x = np.moveaxis(x, last, -1)
        target = np.moveaxis(target, 1, -1) if target.dtype.kind == "f" else target
        loss = getattr(reference, name)(x, target, weight, **options)
        np.testing.assert_allclose(loss, call["loss"], rtol=1e-6)  # options are float32
        rest = {n: v for n, v in options.items() if n != "reduction"}
        total = None
        if options.get("reduction", "mean") == "mean":
            index = options.get("ignore_index", -100)
            total = reference.total_weight(x, target, weight, ignore_index=index)
        if name == "cross_entropy":
            dx = reference.cross_entropy_backward(x, target, None, 2 * loss, total, weight, **rest)
        else:
            dx = reference.nll_loss_backward(target, 2 * loss, total, weight, shape=x.shape, **rest)
        want = np.moveaxis(np.asarray(call["gradients"]["input"]), last, -1)
        np.testing.assert_allclose(dx, want, rtol=1e-6, atol=1e-8)


@pytest.mark.gpu
@pytest.mark.parametrize(("reduction", "smooth"), [("none", 0.0), ("mean", 0.2)])
def test_gradients_of_class_weights(dev: pk.Device, reduction: Any, smooth: float) -> None:
    """First and second order, by logits, weights and targets that are shares."""
    rng = np.random.default_rng(5)
    x = dev.tensor(rng.normal(0, 1, (3, 4)).astype("f4"))
    weight, shares = (dev.tensor(rng.uniform(0.5, 2, s).astype("f4")) for s in (4, (3, 4)))
    classes = dev.tensor(np.array([2, -100, 3], "i4"))
    options: dict[str, Any] = {"reduction": reduction, "label_smoothing": smooth}

    def entropy(x: Any, w: Any) -> Any:
        return pk.cross_entropy(x, classes, weight=w, **options)

    def of_shares(x: Any, w: Any, t: Any) -> Any:
        return pk.cross_entropy(x, t, weight=w, **options)

    def likelihood(x: Any, w: Any) -> Any:
        return pk.nll_loss(x, classes, weight=w, reduction=reduction)

    for f, args in ((entropy, (x, weight)), (of_shares, (x, weight, shares)),
                    (likelihood, (x, weight))):  # fmt: skip
        pk.check_gradients(f, args)

        def first(*args: Any, f: Any = f) -> Any:
            places = tuple(range(len(args)))
            return pk.grad(lambda *a: pk.sum(pk.square(f(*a))), argnums=places)(*args)

        pk.check_gradients(lambda *a: pk.concatenate([g.reshape(-1) for g in first(*a)]), args)
