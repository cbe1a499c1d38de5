"""adam_step: one dispatch, more if a tensor is larger than a binding."""

from __future__ import annotations

import math

from pykernels._generated.bodies import adam_step as body
from pykernels.errors import ArgumentError
from pykernels.steps import Caps, Scratch, Step
from pykernels.tensors.layout import View

from .checks import check_one, check_settings
from .cut import cut

__all__ = ["SETTINGS", "plan", "powers"]

LN2 = 0.6931471805599453
SETTINGS = 9  # three numbers for each of the two betas, then lr, eps, weight_decay


def plan(
    caps: Caps,
    scratch: Scratch,
    grad: View,
    count: View | None,
    rate: View | None,
    settings: View | None,
    skip: View | None,
    exp_avg: View,
    exp_avg_sq: View,
    param: View,
    beta1: float = 0.9,
    beta2: float = 0.999,
) -> list[Step]:
    """One dispatch for each part."""
    check_one("adam_step", "count", count)
    check_one("adam_step", "rate", rate)
    check_one("adam_step", "skip", skip)
    check_settings("adam_step", settings, SETTINGS)
    decay1, rest1, log1 = powers("beta1", beta1)
    decay2, rest2, log2 = powers("beta2", beta2)
    views = {"grad": grad, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq, "param": param}
    return [
        body.step(
            caps, part["grad"], count, rate, settings, skip, part["exp_avg"], part["exp_avg_sq"],
            part["param"], decay1=decay1, rest1=rest1, decay2=decay2, rest2=rest2, log1=log1,
            log2=log2,
        )
        for part in cut(caps, param.shape, views)
    ]  # fmt: skip


def powers(name: str, beta: float) -> tuple[float, float, float]:
    """beta, 1 - beta and the natural logarithm of beta. For beta = 0 the logarithm is replaced by a
    number whose exponential is negligible beside 1. All are computed in float64, because 1 - 0.999
    in f32 is off by 1e-5."""
    if not 0.0 <= beta < 1.0:
        raise ArgumentError(f"[adam_step] {name} must be in [0, 1) but is {beta}")
    return beta, 1.0 - beta, math.log2(beta) * LN2 if beta > 0.0 else -100.0
