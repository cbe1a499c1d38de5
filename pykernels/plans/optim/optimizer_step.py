"""optimizer_step: one dispatch, more if a tensor is larger than a binding."""

from __future__ import annotations

from pykernels._generated.bodies import optimizer_step as body
from pykernels.errors import ArgumentError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .checks import SETTINGS, check_one, check_settings
from .cut import cut

__all__ = ["STATES", "plan"]

# The number of states of each rule.
STATES = {
    "ema": 0, "lion": 1, "adagrad": 1, "rmsprop": 1, "rmsprop_momentum": 2, "rmsprop_centered": 2,
    "rmsprop_centered_momentum": 3, "amsgrad": 3, "nadam": 2,
}  # fmt: skip


def plan(
    caps: Caps,
    scratch: Scratch,
    grad: View,
    rate: View | None,
    settings: View,
    skip: View | None,
    first: View | None,
    second: View | None,
    third: View | None,
    param: View,
    rule: str = "ema",
) -> list[Step]:
    """One dispatch for each part."""
    op = "optimizer_step"
    check_one(op, "rate", rate)
    check_one(op, "skip", skip)
    check_settings(op, settings, SETTINGS)
    if rule not in STATES:
        raise ArgumentError(f"[{op}] there is no rule {rule!r}: there are {', '.join(STATES)}")
    views = {"grad": grad, "param": param}
    wanted = STATES[rule]
    for i, (name, view) in enumerate((("first", first), ("second", second), ("third", third))):
        if (view is not None) != (i < wanted):
            found = "missing" if view is None else "given"
            raise ArgumentError(f"[{op}] {rule} takes {wanted} states but {name} is {found}")
        if view is not None:
            views[name] = view
    return [
        body.step(
            caps, part["grad"], rate, settings, skip, part.get("first"), part.get("second"),
            part.get("third"), part["param"], RULE=rule,
        )
        for part in cut(caps, param.shape, views)
    ]  # fmt: skip
