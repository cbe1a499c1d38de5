"""Steps that are skipped by a flag on the device, and the factor of a loss that raises it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu


def optimisers(w: pk.Tensor) -> list[Any]:
    return [pk.SGD([w], lr=0.1), pk.SGD([w], lr=0.1, momentum=0.9), pk.Adam([w]), pk.AdamW([w])]


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("dtype", ["bool", "int32", "uint32", "float32"])
def test_a_flag_skips_a_step(dev: pk.Device, which: int, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (3, 5)).astype("f4")
    w, plain = dev.tensor(values), dev.tensor(values)
    ours, other = optimisers(w)[which], optimisers(plain)[which]
    for skip in (0, 1, 0):
        g = dev.tensor(rng.normal(0, 1, (3, 5)).astype("f4"))
        before = {n: t.numpy() for n, t in (*ours.state_dict().items(), ("w", w))}
        ours.step([g], skip=dev.tensor(np.array([skip]), dtype))
        if skip:
            after = {**ours.state_dict(), "w": w}
            assert all((after[n].numpy() == a).all() for n, a in before.items())
        else:
            other.step([g])
    np.testing.assert_array_equal(w.numpy(), plain.numpy())
    for name, t in other.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name].numpy(), t.numpy())


def test_nan_is_not_zero(dev: pk.Device) -> None:
    w = dev.ones(4)
    pk.SGD([w], lr=1.0).step([dev.ones(4)], skip=dev.tensor([float("nan")]))
    assert (w.numpy() == 1).all()


def test_what_skip_must_be(dev: pk.Device) -> None:
    optimizer = pk.SGD([dev.ones(4)], lr=1.0)
    for wrong, error in ((3, pk.DTypeError), (dev.zeros(1, "int8"), pk.DTypeError),
                         (dev.zeros(2), pk.ShapeError)):  # fmt: skip
        with pytest.raises(error, match="skip"):
            optimizer.step([dev.ones(4)], skip=wrong)
    with pytest.raises(pk.ShapeError, match="skip must have one element"):
        pk.kernels.sgd_step(dev.ones(4), dev.ones(4), skip=dev.zeros(2, "uint32"))


def test_captured_steps_skip_an_overflow(dev: pk.Device) -> None:
    """An inf in the third replay: the factor falls, and nothing else changes."""
    x, w = dev.zeros(3), dev.ones(3)
    optimizer = pk.Adam([w], lr=0.1)
    scale = pk.LossScale(init=8, growth=2, interval=2, device=dev)
    with dev.capture() as program:
        with pk.Tape() as tape:
            loss = scale.scale(pk.sum(w.astype("float16") * x.astype("float16")))
        grads, overflow = scale.unscale(tape.gradient(loss, [w]))
        optimizer.step(grads, skip=overflow)
        scale.update(overflow)
    plain, other = dev.ones(3), None
    other = pk.Adam([plain], lr=0.1)
    factors = []
    for values in ([1, 2, 3], [3, 2, 1], [1, 1e6, 1], [0.5, 1, 2], [1, 1, 1]):
        x.write(np.array(values, "f4"))
        program()
        factors.append(scale.value.item())
        if max(values) < 1e5:
            other.step([dev.tensor(np.array(values, "f4"))])
        np.testing.assert_array_equal(w.numpy(), plain.numpy())
    assert factors == [8, 16, 8, 8, 16] and overflow.item() == 0
    saved = {n: t.numpy() for n, t in scale.state_dict().items()}
    again = pk.LossScale(device=dev)
    again.load_state_dict(saved)
    assert again.value.item() == 16


def test_unscale(dev: pk.Device) -> None:
    scale = pk.LossScale(init=4, device=dev)
    found, flag = scale.unscale([dev.tensor([2.0, 8.0], "float16"), dev.tensor([1.0])])
    assert [g.numpy().tolist() for g in found] == [[0.5, 2.0], [0.25]] and flag.item() == 0
    for bad in (np.inf, -np.inf, np.nan):
        assert scale.unscale(dev.tensor([1.0, bad]))[1].item() == 1
    for wrong, error in (([], pk.ArgumentError), ([3], pk.DTypeError)):
        with pytest.raises(error):
            scale.unscale(wrong)  # type: ignore[arg-type]


def test_the_factor_stays_in_range(dev: pk.Device) -> None:
    small, large = (
        pk.LossScale(2.0**-126, device=dev),
        pk.LossScale(2.0**126, interval=1, device=dev),
    )
    small.update(dev.ones(1))
    for _ in range(3):
        large.update(dev.zeros(1))
    assert small.value.item() == 2.0**-126 and large.value.item() == 2.0**126 * 2 ** (
        np.isfinite(np.float32(2.0**127)) and 1
    )


@pytest.mark.parametrize("named", [{"init": 0}, {"growth": 1}, {"interval": 0}])
def test_numbers_are_checked(dev: pk.Device, named: Any) -> None:
    with pytest.raises(pk.ArgumentError, match=next(iter(named))):
        pk.LossScale(**named, device=dev)
