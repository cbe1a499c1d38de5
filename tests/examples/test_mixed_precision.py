"""The example in mixed precision at a small size: beside float32, and with a factor too large."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import pykernels as pk
import pykernels.device
from tests.harness import assert_same_bits

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

pytest.importorskip("matplotlib")
pytest.importorskip("click")

import mixed_precision
import transformer

STEPS = 12


@pytest.fixture
def text(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> transformer.Array:
    """What to learn, on the column's device."""
    if "shader-f16" not in dev.features:
        pytest.skip("needs shader-f16")
    monkeypatch.setitem(pykernels.device._default, "device", dev)
    return transformer.read_docs()[0]


def test_it_learns_as_in_float32(text: transformer.Array) -> None:
    """The losses are those of float32 up to float16's rounding, and weights stay float32."""
    run = mixed_precision.RUNS["small"]
    half, single = (mixed_precision.Training(run, STEPS, half) for half in (True, False))
    losses = np.array([[t.step(text)[0] for t in (half, single)] for _ in range(STEPS)])
    np.testing.assert_allclose(losses[:, 0], losses[:, 1], rtol=3e-4)  # 3e-5 were seen
    assert 0 < np.abs(losses[:, 0] - losses[:, 1]).max()  # float16 it is
    assert losses[-1, 0] < losses[0, 0] - 0.3
    assert {w.dtype for w in half.weights.values()} == {"float32"}


def test_steps_that_overflow_are_left_out(text: transformer.Array, tmp_path: Path) -> None:
    """A factor that is too large halves until gradients are finite; then weights change."""
    training = mixed_precision.Training(mixed_precision.RUNS["small"], STEPS, scale=2.0**26)
    before = {name: w.numpy() for name, w in training.weights.items()}
    losses: list[float] = []
    factors: list[float] = []
    while not factors or training.scale.value.item() < factors[-1]:
        for name, w in training.weights.items():
            assert_same_bits(w.numpy(), before[name], name)
        loss, factor = training.step(text)
        losses.append(loss)
        factors.append(factor)
    assert factors == [2.0 ** (26 - n) for n in range(len(factors))] and len(factors) > 1
    assert np.isfinite(losses).all()
    counts = [group.state_dict()["step"].item() for group in training.optimizer.groups]
    assert counts == [1, 1]
    assert any((w.numpy() != before[name]).any() for name, w in training.weights.items())
    mixed_precision.plot(tmp_path / "loss.png", losses, factors, 2.6)
    assert (tmp_path / "loss.png").stat().st_size > 1000
