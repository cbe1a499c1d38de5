"""Keys that no choice of a plan shows: each is measured by itself, and the fastest value taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.bench.tune import direct
from pykernels.bench.tune.direct import KEYS, measured
from pykernels.bench.tune.meter import Kept, Meter
from pykernels.bench.tune.problems import Limits, Problem
from pykernels.forcing import force
from pykernels.tuning import Tuning, as_data, named

ALL = Limits(1e15, 1e15)


class Clock:
    """A meter whose times follow from the table."""

    slow = False

    def __init__(self, seconds: Any) -> None:
        self.seconds, self.asked = seconds, list[str]()

    def with_table(self, p: Problem, name: str, t: Tuning) -> float | None:
        self.asked.append(f"{p.name}: {name}")
        found: float | None = self.seconds(p, t)
        return found


def found(seconds: Any, **more: Any) -> tuple[Tuning, list[direct.Change], Clock]:
    clock: Any = Clock(seconds)
    start = named("generic-large")
    t, changes = measured(clock, start, ALL, told=lambda what, share: None, **more)
    return t, changes, clock


@pytest.mark.parametrize("small", [False, True])
def test_the_fastest_value_is_taken(small: bool) -> None:
    """And all other keys stay."""

    def seconds(p: Problem, t: Tuning) -> float:
        return 1.0 + abs(t.norm.groups - 8) if "norm" in p.kernel else 1.0

    t, changes, clock = found(seconds, small=small)
    assert [(c.path, c.before, c.after) for c in changes] == [(("norm", "groups"), 4, 8)]
    assert str(changes[0]) == "norm.groups 4 -> 8: 5.00 times faster"
    data = as_data(t)
    assert data.pop("norm") == {"groups": 8}
    assert data == {k: v for k, v in as_data(named("generic-large")).items() if k != "norm"}
    assert len(clock.asked) == len({*clock.asked})  # the names of kept times are unique


def test_a_small_gain_is_no_reason() -> None:
    def seconds(p: Problem, t: Tuning) -> float:
        return 1.0 - 0.01 * (t.reduce.groups == 2)

    assert found(seconds, small=False)[1] == []


def test_later_keys_are_measured_with_the_values_before() -> None:
    def seconds(p: Problem, t: Tuning) -> float:
        own = t.attention.flash_attn_backward
        if p.kernel != "flash_attn_backward":
            return 1.0
        return (2.0 if own.bodies else 1.0) + 0.5 * (own.least_side != 64) * (not own.bodies)

    t, changes, _ = found(seconds, small=False)
    own = t.attention.flash_attn_backward
    assert own.bodies == () and own.least_side == 64 and len(changes) <= 2


def test_calls_that_are_refused_count_for_nothing() -> None:
    """A value that refuses one call is judged by the others."""

    def seconds(p: Problem, t: Tuning) -> float | None:
        if "norm" in p.kernel and 8192 in p.shape:
            return None if t.norm.groups == 1 else 9.0 - t.norm.groups / 2
        return 1.0 + t.norm.groups if "norm" in p.kernel else None

    t, changes, _ = found(seconds, small=False)
    assert [c.after for c in changes] == [1] and t.norm.groups == 1


def test_calls_beyond_the_limits_are_left_out() -> None:
    clock: Any = Clock(lambda p, t: 1.0)
    measured(clock, named("generic-large"), Limits(0, 0), small=False, told=lambda w, s: None)
    assert clock.asked == []


@pytest.mark.parametrize("key", KEYS, ids=lambda k: ".".join(k.path))
def test_keys_have_values_of_their_type(key: direct.Key) -> None:
    for name in ("nvidia-h200", "generic-laptop", "software"):
        t = named(name)
        old = direct._get(as_data(t), key.path)
        for value in key.values:
            assert type(value) is type(old)
            assert direct._get(as_data(direct._with(t, key.path, value)), key.path) == value
    assert key.calls


@pytest.mark.gpu
def test_every_value_computes_the_same(dev: pk.Device) -> None:
    """The calls of a software driver are right with each value, and times are kept."""
    meter = Meter(dev, Kept(None, {}))
    start = dev._context.caps.tuning
    for key in KEYS:
        for p in key.small:
            for value in key.values:
                with force(dev, tuning=direct._with(start, key.path, value)):
                    meter.loaded(p).check()
    p = KEYS[0].small[0]
    assert (
        meter.with_table(p, "norm.groups=4", start) == meter.kept.found[f"{p.name}: norm.groups=4"]
    )


@pytest.mark.gpu
def test_a_turned_matrix_is_turned(dev: pk.Device) -> None:
    meter = Meter(dev, Kept(None, {}))
    [turned] = next(k for k in KEYS if k.path[0] == "softmax").small
    src = meter.loaded(turned).sets[0]["x"]
    assert src.shape == turned.shape and src.strides[0] < src.strides[1]
    assert np.isfinite(src.numpy()).all()
