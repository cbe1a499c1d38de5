"""Numbers on the device that change from step to step: schedules of learning rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pykernels import kernels
from pykernels.call.scalars import integer, real
from pykernels.device import Device, Tensor, device_of
from pykernels.errors import ArgumentError
from pykernels.runtime.whole import whole

__all__ = ["Schedule"]

MOST = 1 << 24  # most steps, because they are counted in float32
STRAIGHT, COSINE, EXPONENTIAL = 0.0, 1.0, 2.0
Row = tuple[float, float, float, float, float, float]


class Schedule:
    """A number on the device that changes with the steps of an optimiser.

        rate = pk.Schedule.cosine(1e-3, steps=1000, warmup=100)
        optimizer = pk.AdamW(flat, lr=rate)

    The step of an optimiser advances its schedule by a launch, so a captured step also advances it
    in each replay. A step that `skip` leaves out also advances it. `value`, a float32 Tensor
    without axes, is the number for the next step. `count`, an int32 Tensor without axes, is the
    number of steps so far; it is part of the optimiser's state. Groups of one optimiser may share a
    schedule; two optimisers need two schedules. Call `advance()` only to use `value` without an
    optimiser.

    Schedules are made by the methods `constant`, `warmup`, `cosine`, `exponential`, `one_cycle` and
    `piecewise`. Numbers of steps must be below 2^24. `device`: None is the default device.
    """

    @whole
    def __init__(self, rows: Sequence[Row], device: Device | None = None) -> None:
        on = device_of(device)
        self._table = on.tensor(np.array(rows, np.float32))
        self._count, self._value = on.zeros((), "int32"), on.zeros(())
        self.refresh()

    @property
    def value(self) -> Tensor:
        """The number for the next step, a float32 Tensor without axes."""
        return self._value

    @property
    def count(self) -> Tensor:
        """The number of advances so far, an int32 Tensor of no axes."""
        return self._count

    def advance(self) -> None:
        """Advance to the value of the next step."""
        kernels.schedule_step(self._table, self._count, self._value)

    def refresh(self) -> None:
        """Compute the value again after the count was written."""
        kernels.schedule_step(self._table, self._count, self._value, advance=False)

    @classmethod
    def constant(cls, value: float, *, device: Device | None = None) -> Schedule:
        """A schedule that always has the same number."""
        number = _number("value", value)
        return cls([_row(0, STRAIGHT, number, number)], device)

    @classmethod
    def warmup(
        cls, value: float, steps: int, first: float = 0.0, *, device: Device | None = None
    ) -> Schedule:
        """A schedule that goes from `first` to `value` in a straight line over `steps` steps, and
        stays at `value` afterwards."""
        given = _number("first", first), _number("value", value)
        return cls([_row(0, STRAIGHT, *given, _steps("steps", steps))], device)

    @classmethod
    def cosine(
        cls, value: float, steps: int, warmup: int = 0, last: float = 0.0, *,
        device: Device | None = None,
    ) -> Schedule:  # fmt: skip
        """A schedule that goes from `value` to `last` along half a cosine, as
        `optax.warmup_cosine_decay_schedule`.

        Args:
            value: The largest number.
            steps: The number of steps until the value is `last`, including the steps of `warmup`.
            warmup: The number of steps at the start, in which the value grows from 0 in a straight
                line.
            last: The value after these steps.
            device: None is the default device.
        """
        top, end = _number("value", value), _number("last", last)
        total, before = _steps("steps", steps), integer("Schedule", "warmup", warmup)
        if not 0 <= before < total:
            raise ArgumentError(f"[Schedule] warmup must be from 0 to {total - 1} but is {warmup}")
        rows = [_row(0, STRAIGHT, 0.0, top, before)] if before else []
        return cls([*rows, _row(before, COSINE, top, end, total - before)], device)

    @classmethod
    def exponential(cls, value: float, gamma: float, *, device: Device | None = None) -> Schedule:
        """A schedule of `value` times gamma^step, as `torch.optim.lr_scheduler.ExponentialLR`;
        gamma must be above 0."""
        factor = _number("gamma", gamma)
        if factor <= 0:
            raise ArgumentError(f"[Schedule] gamma must be above 0 but is {gamma}")
        first = _number("value", value)
        return cls([_row(0, EXPONENTIAL, first, first, 1, math.log(factor))], device)

    @classmethod
    def one_cycle(
        cls, value: float, steps: int, share: float = 0.3, first: float = 25.0,
        last: float = 1e4, *, device: Device | None = None,
    ) -> Schedule:  # fmt: skip
        """A schedule that rises to `value` and falls again, as
        `torch.optim.lr_scheduler.OneCycleLR`.

        Args:
            value: The largest number.
            steps: The number of steps; afterwards the last value stays.
            share: The share of the steps in which the value grows, along half a cosine.
            first: The first value is value / first.
            last: The last value is value / (first * last).
            device: None is the default device.
        """
        top, total = _number("value", value), _steps("steps", steps)
        begin, end = top / _number("first", first), top / (_number("first", first) * last)
        turn = float(real("Schedule", "share", share)) * total - 1
        if not 0 < turn < total - 1:
            raise ArgumentError(
                f"[Schedule] share must leave two steps or more before and after but is {share}"
            )
        rows = [_row(0, COSINE, begin, top, turn), _row(turn, COSINE, top, end, total - 1 - turn)]
        return cls(rows, device)

    @classmethod
    def piecewise(
        cls, values: Sequence[float], starts: Sequence[int], *, device: Device | None = None
    ) -> Schedule:
        """A schedule that begins with the first of `values`; each further value holds from its step
        in `starts` on."""
        numbers = [_number("values", v) for v in values]
        begins = [_steps("starts", s) for s in starts]
        if len(begins) != len(numbers) - 1 or begins != sorted({*begins}):
            raise ArgumentError(
                f"[Schedule] starts must be {len(numbers) - 1} ascending numbers of steps but is "
                f"{starts!r:.80}"
            )
        rows = [_row(s, STRAIGHT, v, v) for s, v in zip([0, *begins], numbers, strict=True)]
        return cls(rows, device)


def _row(
    start: float, kind: float, first: float, last: float, length: float = 1, log: float = 0.0
) -> Row:
    return start, kind, first, last, length, log


def _number(name: str, value: Any) -> float:
    number = float(real("Schedule", name, value))
    if not 0 <= number <= float(np.finfo(np.float32).max):
        raise ArgumentError(f"[Schedule] {name} must be 0 or more and finite but is {value!r:.40}")
    return number


def _steps(name: str, value: Any) -> int:
    number = integer("Schedule", name, value)
    if not 0 < number < MOST:
        raise ArgumentError(f"[Schedule] {name} must be from 1 to 2^24 - 1 but is {value!r:.40}")
    return number
