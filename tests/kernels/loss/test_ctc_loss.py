"""ctc_loss against the sum over all alignments, one by one in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from tests.harness import Array

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(0)
STEPS, COUNT, CLASSES = 5, 4, 3
X = RNG.normal(0, 1, (STEPS, COUNT, CLASSES)).astype("f4")
TARGETS = np.array([[1, 2, 1], [1, 1, 2], [2, 0, 0], [1, 1, 1]], "i4")
LENGTHS, THEIRS = [5, 4, 3, 4], [3, 2, 0, 3]  # the last is too long for its steps


def every_path(logs: Array, target: list[int], blank: int = 0) -> float:
    """Minus the logarithm of the probability of all paths that collapse to the target."""
    total = -np.inf
    for path in itertools.product(range(logs.shape[1]), repeat=len(logs)):
        kept = [c for i, c in enumerate(path) if (i == 0 or c != path[i - 1]) and c != blank]
        if kept == target:
            total = np.logaddexp(total, sum(logs[i, c] for i, c in enumerate(path)))
    return -float(total)


def logs_of(x: Array) -> Array:
    wide = x.astype("f8")
    found: Array = (wide - np.log(np.exp(wide).sum(-1, keepdims=True))).astype("f4")
    return found


LOGS = logs_of(X)
WANT = np.array([every_path(LOGS[:n, i].astype("f8"), TARGETS[i, :k].tolist())
                 for i, (n, k) in enumerate(zip(LENGTHS, THEIRS, strict=True))])  # fmt: skip


def test_ctc_loss_is_the_sum_over_alignments(dev: pk.Device) -> None:
    x = dev.tensor(LOGS)
    flat = np.concatenate([TARGETS[i, :k] for i, k in enumerate(THEIRS)])
    lengths, theirs = dev.tensor(LENGTHS, "int32"), dev.tensor(THEIRS, "int64")
    for given in ((TARGETS, LENGTHS, THEIRS), (flat, tuple(LENGTHS), np.array(THEIRS)),
                  (dev.tensor(TARGETS), lengths, theirs), (flat, lengths, theirs)):  # fmt: skip
        got = pk.ctc_loss(x, *given, reduction="none")
        np.testing.assert_allclose(got.numpy(), WANT, rtol=1e-5)
    assert WANT[3] == np.inf
    finite = np.where(np.isinf(WANT), 0, WANT)
    mean = pk.ctc_loss(LOGS, TARGETS, LENGTHS, THEIRS, zero_infinity=True)
    np.testing.assert_allclose(mean, (finite / np.maximum(THEIRS, 1)).mean(), rtol=1e-5)
    total = pk.ctc_loss(x, TARGETS, LENGTHS, THEIRS, reduction="sum", zero_infinity=True)
    np.testing.assert_allclose(total.item(), finite.sum(), rtol=1e-5)
    assert pk.ctc_loss(x, TARGETS, LENGTHS, THEIRS, reduction="sum").item() == np.inf
    one = pk.ctc_loss(x[:, 0], TARGETS[0], 5, 3, reduction="none")
    assert one.shape == () and abs(one.item() - WANT[0]) < 1e-4


def test_ctc_loss_of_another_blank_and_of_no_steps(dev: pk.Device) -> None:
    target = [[0, 1], [0, 0]]
    got = pk.ctc_loss(dev.tensor(LOGS[:, :2]), np.array(target, "i4"), 5, 2, 2, "none")
    want = [every_path(LOGS[:, i].astype("f8"), t, 2) for i, t in enumerate(target)]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
    none = pk.ctc_loss(LOGS[:, :2], TARGETS[:2], [0, 0], [0, 1], reduction="none")
    assert none.tolist() == [0, np.inf]
    half = pk.ctc_loss(LOGS.astype("f2"), TARGETS, LENGTHS, THEIRS, zero_infinity=True)
    assert half.dtype == np.float16


def test_gradients_of_ctc_loss(dev: pk.Device) -> None:
    """By the logits, and of second order; what is infinite has none."""
    x = dev.tensor(X[:, 1:])

    def loss(x: Any) -> Any:
        return pk.ctc_loss(pk.log_softmax(x), TARGETS[1:], LENGTHS[1:], THEIRS[1:],
                           reduction="sum", zero_infinity=True)  # fmt: skip

    pk.check_gradients(loss, (x,))
    assert not pk.grad(loss)(x).numpy()[:, 2].any()


def test_ctc_loss_refuses(dev: pk.Device) -> None:
    x = dev.tensor(LOGS)
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.ctc_loss(x[0, 0], TARGETS, 1, 1), pk.ShapeError, "log_probs must be"),
        (lambda: pk.ctc_loss(x, TARGETS[:3], LENGTHS, THEIRS), pk.ShapeError, "targets must be"),
        (lambda: pk.ctc_loss(x, TARGETS, [6, 1, 1, 1], THEIRS), pk.ArgumentError, "from 0 to 5"),
        (lambda: pk.ctc_loss(x, TARGETS, LENGTHS, [4, 1, 1, 1]), pk.ArgumentError, "from 0 to 3"),
        (lambda: pk.ctc_loss(x, TARGETS, [5, 1], THEIRS), pk.ArgumentError, "must be 4 integers"),
        (lambda: pk.ctc_loss(x, TARGETS, 1.5, THEIRS), pk.ArgumentError, "must be 4 integers"),  # type: ignore[arg-type]
        (lambda: pk.ctc_loss(x, TARGETS[0], LENGTHS, THEIRS), pk.ShapeError, "as many elements"),
        (lambda: pk.ctc_loss(x, TARGETS, LENGTHS, THEIRS, 3), pk.ArgumentError, "blank must be"),
        (lambda: pk.ctc_loss(x, TARGETS, LENGTHS, THEIRS, 0, "max"), pk.ArgumentError, "reduction"),  # type: ignore[arg-type]
        (lambda: pk.ctc_loss(x, LOGS, LENGTHS, THEIRS), pk.DTypeError, "targets"),
    ]  # fmt: skip
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()
