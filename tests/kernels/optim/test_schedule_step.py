"""Schedules: their values against formulas in float64, captured steps, saving, what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import optim as reference
from tests.harness import assert_close, assert_same_bits

pytestmark = pytest.mark.gpu


def one_cycle(t: int, top: float = 0.1, total: int = 20) -> float:
    """As torch.optim.lr_scheduler.OneCycleLR writes it."""
    turn = 0.3 * total - 1
    begin, end = top / 25, top / 25 / 1e4
    a, b, share = (begin, top, t / turn) if t <= turn else (
        top, end, min((t - turn) / (total - 1 - turn), 1.0)
    )  # fmt: skip
    return b + (a - b) / 2 * (1 + math.cos(math.pi * share))


def warmed(t: int) -> float:
    """As optax.warmup_cosine_decay_schedule(0, 0.1, 4, 20, 0.01)."""
    if t < 4:
        return 0.1 * t / 4
    share = min((t - 4) / 16, 1.0)
    return 0.01 + 0.09 * (1 + math.cos(math.pi * share)) / 2


CASES: list[tuple[Callable[[pk.Device], pk.Schedule], Callable[[int], float]]] = [
    (lambda dev: pk.Schedule.constant(0.3, device=dev), lambda t: 0.3),
    (lambda dev: pk.Schedule.warmup(0.3, 7, 0.1, device=dev), lambda t: 0.1 + 0.2 * min(t / 7, 1)),
    (lambda dev: pk.Schedule.cosine(0.1, 20, 4, 0.01, device=dev), warmed),
    (lambda dev: pk.Schedule.exponential(0.1, 0.9, device=dev), lambda t: 0.1 * 0.9**t),
    (lambda dev: pk.Schedule.one_cycle(0.1, 20, device=dev), one_cycle),
    (lambda dev: pk.Schedule.piecewise([0.1, 0.02, 0.5], [3, 8], device=dev),
     lambda t: 0.1 if t < 3 else 0.02 if t < 8 else 0.5),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(CASES)))
def test_schedules_have_their_formulas_values(dev: pk.Device, at: int) -> None:
    make, value = CASES[at]
    schedule, found = make(dev), []
    with dev.capture() as program:
        schedule.advance()
    for _ in range(25):
        found.append(schedule.value.item())
        program()
    want = np.array([value(t) for t in range(25)])
    assert schedule.count.item() == 25
    assert_close(np.array(found, np.float32), want, 24 * 2.0**-24 * (np.max(want) + 8 * want))


def test_schedule_step_matches_reference(dev: pk.Device) -> None:
    table = reference.some_segments()
    for t in (0, 1, 2, 6, 8, 9, 30):
        count, value = np.array([t], np.int32), dev.zeros(1)
        kernels.schedule_step(dev.tensor(table.T.copy()).T, dev.tensor(count), value)
        want, bound = (
            f(table, count)[1] for f in (reference.schedule_step, reference.schedule_step_budget)
        )
        assert_close(value.numpy(), want, bound, f"{t}")


def test_steps_advance_schedules_captured_ones_and_skipped_ones_too(dev: pk.Device) -> None:
    """The bits of steps whose rates are set by hand; groups share one schedule."""
    rng = np.random.default_rng(3)
    param, g = (rng.normal(0, 1, (4, 12)).astype(np.float32) for _ in range(2))
    for kind in (pk.SGD, pk.AdamW, pk.RMSprop, pk.NAdam):
        eager, captured, plain = (dev.tensor(param) for _ in range(3))
        grad, skip = dev.tensor(g), dev.zeros(1)
        rates = [pk.Schedule.cosine(0.1, 6, 2, device=dev) for _ in range(2)]
        one, other = kind([eager], rates[0]), kind([{"params": captured}], lr=rates[1])
        by_hand = kind([plain], 0.0)
        with dev.capture() as program:
            other.step([grad], skip=skip)
        for t in range(5):
            kernels.fill(skip, float(t == 2))
            by_hand.lr = rates[0].value.item()
            one.step([grad], skip=skip)
            by_hand.step([grad], skip=skip)
            program()
            assert rates[0].count.item() == rates[1].count.item() == t + 1
        assert one.lr is rates[0] and other.lr is rates[1]
        assert_same_bits(eager.numpy(), plain.numpy(), kind.__name__)
        assert_same_bits(captured.numpy(), plain.numpy(), kind.__name__)


def test_a_schedule_is_saved_with_its_optimiser(dev: pk.Device) -> None:
    w, g = dev.ones(8), dev.ones(8)
    one = pk.Lion(w, pk.Schedule.cosine(0.1, 20, device=dev))
    for _ in range(5):
        one.step(g)
    saved = {name: t.numpy() for name, t in one.state_dict().items()}
    assert saved["lr_count"] == 5
    again = w.copy()
    schedule = pk.Schedule.cosine(0.1, 20, device=dev)
    other = pk.Lion(again, schedule)
    other.load_state_dict(saved)
    one.step(g)
    other.step(g)
    assert_same_bits(again.numpy(), w.numpy())
    other.lr = 0.5
    assert other.lr == 0.5 and "lr_count" not in other.state_dict()
    other.step(g)
    assert schedule.count.item() == 6


def test_schedules_reject(dev: pk.Device) -> None:
    s: Any = pk.Schedule
    calls: dict[str, Any] = {
        "value must be 0 or more": lambda: s.constant(-1),
        "steps must be from 1 to": lambda: s.warmup(1, 0),
        "warmup must be from 0 to 9": lambda: s.cosine(1, 10, 10),
        "gamma must be above 0": lambda: s.exponential(1, 0),
        "share must leave": lambda: s.one_cycle(1, 3),
        "starts must be 1 ascending": lambda: s.piecewise([1, 2], [3, 4]),
        "starts must be 2 ascending": lambda: s.piecewise([1, 2, 3], [4, 4]),
        "table must have shape": lambda: kernels.schedule_step(
            dev.zeros((2, 5)), dev.zeros(1, "int32"), dev.zeros(1)
        ),
    }
    for match, call in calls.items():
        with pytest.raises(pk.PyKernelsError, match=match):
            call()
