"""The times of choices for some problems, measured on a device when they are first needed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pykernels.steps import Caps
from pykernels.tuning import Tuning

from .choices import Question, choices, chosen, question
from .meter import Meter
from .problems import Problem

__all__ = ["Measured"]

UNKNOWN = 4.0  # assumed relative time of a choice if nothing similar was measured


class Measured:
    """Problems, the questions of their plans, and the seconds of each choice."""

    def __init__(self, meter: Meter, caps: Caps) -> None:
        self.meter, self.caps = meter, caps
        self.problems: list[Problem] = []
        self.questions: list[Question] = []
        self._found: list[dict[Any, float]] = []

    @property
    def count(self) -> int:
        """The number of times that were measured."""
        return sum(map(len, self._found))

    def add(self, p: Problem) -> bool:
        """Measure all choices of a problem; False if there is nothing to choose."""
        q = question(self.caps, p, self.meter.loaded(p).views())
        if q is None:
            return False
        found = {}
        for choice in choices(self.caps, q):
            seconds = self.meter.seconds(p, choice)
            if seconds is not None:
                found[choice] = seconds
        if not found:
            return False
        self.problems.append(p)
        self.questions.append(q)
        self._found.append(found)
        return True

    def ask(self, t: Tuning) -> Iterator[tuple[Problem, Any, float]]:
        """Each problem, the table's choice, and its time relative to the best choice. A choice that
        was not measured yet is measured."""
        for i, (p, q) in enumerate(zip(self.problems, self.questions, strict=True)):
            choice, own = chosen(self.caps, t, q), self._found[i]
            if choice not in own:
                seconds = self.meter.seconds(p, choice)
                own[choice] = math.inf if seconds is None else seconds
            yield p, choice, own[choice] / self.best(i)

    def known(self, i: int, choice: Any) -> float | None:
        """The measured seconds; None if this choice was not measured."""
        return self._found[i].get(choice)

    def best(self, i: int) -> float:
        return min(self._found[i].values())

    def best_choice(self, i: int) -> Any:
        return min(self._found[i], key=lambda c: self._found[i][c])

    def seconds(self, i: int, choice: Any) -> float:
        """The measured seconds, or an interpolation for the same body between measured numbers of
        splits."""
        own = self._found[i]
        if choice in own:
            return own[choice]
        alike = sorted((c.splits, s) for c, s in own.items() if c.body == choice.body)
        if not alike:
            return UNKNOWN * self.best(i)
        below = max((x for x in alike if x[0] <= choice.splits), default=alike[0])
        above = min((x for x in alike if x[0] >= choice.splits), default=alike[-1])
        if below[0] >= above[0]:
            return min(below[1], above[1])
        share = math.log(choice.splits / below[0]) / math.log(above[0] / below[0])
        return math.exp((1 - share) * math.log(below[1]) + share * math.log(above[1]))
