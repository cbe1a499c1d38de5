"""sgd_step: one dispatch, more if a tensor is larger than a binding."""

from __future__ import annotations

from pykernels._generated.bodies import sgd_step as body
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .checks import check_one, check_settings
from .cut import cut

__all__ = ["SETTINGS", "plan"]

SETTINGS = 3  # lr, momentum, weight_decay


def plan(
    caps: Caps,
    scratch: Scratch,
    grad: View,
    rate: View | None,
    settings: View | None,
    skip: View | None,
    momentum_buffer: View | None,
    param: View,
) -> list[Step]:
    """One dispatch for each part."""
    check_one("sgd_step", "rate", rate)
    check_one("sgd_step", "skip", skip)
    check_settings("sgd_step", settings, SETTINGS)
    views = {"grad": grad, "param": param}
    if momentum_buffer is not None:
        views["momentum_buffer"] = momentum_buffer
    return [
        body.step(
            caps, part["grad"], rate, settings, skip, part.get("momentum_buffer"), part["param"]
        )
        for part in cut(caps, param.shape, views)
    ]
