"""optimizer_count: one invocation."""

from __future__ import annotations

from pykernels._generated.bodies import optimizer_count as body
from pykernels.errors import ArgumentError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .checks import SETTINGS, check_one, check_settings

__all__ = ["RULES", "plan"]

RULES = ("adagrad", "amsgrad", "nadam")


def plan(
    caps: Caps,
    scratch: Scratch,
    skip: View | None,
    count: View,
    settings: View,
    rule: str = "amsgrad",
) -> list[Step]:
    """One dispatch."""
    op = "optimizer_count"
    check_one(op, "skip", skip)
    check_one(op, "count", count)
    check_settings(op, settings, SETTINGS)
    if rule not in RULES:
        raise ArgumentError(f"[{op}] there is no rule {rule!r}: there are {', '.join(RULES)}")
    return [body.step(caps, skip, count, settings, RULE=rule)]
