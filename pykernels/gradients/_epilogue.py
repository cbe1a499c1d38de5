"""Gradients of the activation of an epilogue."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pykernels.call.apply import evaluate
from pykernels.plans.elementwise.derive import DY, Y, derived
from pykernels.tape import Taped

__all__ = ["before_activation"]


def before_activation(call: Taped, sums: Callable[[], Any]) -> Any:
    """The gradient of the argument of the activation; `sums` computes that argument again."""
    dy, name = call.dy(), call.option("activation")
    if name is None:
        return dy
    kernel = importlib.import_module(f"pykernels._generated.kernels.{name}").KERNEL
    expression = derived(kernel, "x").expression
    assert expression is not None
    known = {DY: dy, **derived(kernel, "x").constants}
    if Y in expression.inputs:
        known[Y] = call.saved("dst")
    if "x" in expression.inputs:
        known["x"] = sums()
    return evaluate(f"{call.kernel.name} gradient", expression, known, None)


def epilogue_reads(*names: str) -> Callable[[Any, dict[str, Any]], set[str]]:
    """The tensors that a rule reads: `names`; for relu also the output, for other activations also
    the operands of the sums."""

    def of(kernel: Any, options: dict[str, Any]) -> set[str]:
        activation = options.get("activation")
        found = {*names}
        if activation == "relu":
            found.add("dst")
        elif activation is not None:
            found |= {arg.name for arg in kernel.args if arg.role == "in"}
        return found

    return of
