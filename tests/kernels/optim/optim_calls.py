"""Steps of optimisers on views in canaried buffers, against float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pykernels as pk
from pykernels import kernels
from pykernels.reference import function
from pykernels.reference import optim as reference
from tests.harness import Case, Form, Operand, assert_close

__all__ = ["NAMES", "STATES", "Calls", "errors"]

# What a step changes besides the parameter, in the order of the wrapper.
STATES = {
    "sgd_step": ("momentum_buffer",),
    "adam_step": ("exp_avg", "exp_avg_sq"),
    "adamw_step": ("exp_avg", "exp_avg_sq"),
}
NAMES = tuple(STATES)
FEW: dict[str, dict[str, Any]] = {
    "sgd_step": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "adam_step": {"lr": 0.01, "step": 3, "weight_decay": 0.1},
    "adamw_step": {"lr": 0.01, "step": 3, "weight_decay": 0.1},
}


def errors(name: str, arrays: dict[str, Any], **named: Any) -> tuple[Any, ...]:
    """What each result may be off by, in the order of the reference."""
    if name == "sgd_step":
        return reference.sgd_step_errors(**arrays, **named)
    return reference.adam_step_errors(**arrays, **named, decoupled=name == "adamw_step")


@dataclass
class _Call:
    name: str
    operands: dict[str, Operand]
    inputs: dict[str, np.ndarray[Any, Any]]
    args: dict[str, Any]


@dataclass
class Calls:
    """Calls of layer one, each on tensors of its own; `check` runs and compares them all."""

    dev: pk.Device
    case: Case = field(init=False)
    calls: list[_Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.case = Case(self.dev)

    def add(
        self, name: str, shape: tuple[int, ...], dtype: str = "float32", grad: str = "",
        forms: tuple[Form | None, ...] = (None,), near: bool = False, **args: Any,
    ) -> None:  # fmt: skip
        """`forms` are those of gradient, parameter and state, in turn; `near`: one buffer holds
        the state and, behind it, the gradient."""
        rng, case = self.case.rng, self.case
        form = dict(enumerate([forms[i % len(forms)] for i in range(4)]))
        buffer = {"buffer": f"near {len(self.calls)}", "near": 4} if near else {}
        values = {
            "grad": rng.normal(0, 1, shape).astype(grad or dtype),
            "param": rng.normal(0, 1, shape).astype(dtype),
        }
        for state in STATES[name] if args.get("momentum") != 0 else ():
            values[state] = rng.normal(0, 1, shape).astype(np.float32)
            if state == "exp_avg_sq":
                values[state] **= 2
        operands = {}
        for i, (n, v) in enumerate(values.items()):
            if n == "grad":
                continue
            operands[n] = case.in_place(v, form[i], **({} if n == "param" else buffer))
        repeated = form[0] is not None and 0 in form[0].steps
        if repeated:
            values["grad"] = np.broadcast_to(values["grad"][(0,) * len(shape)], shape)
        operands["grad"] = case.input(values["grad"], form[0], **buffer)
        self.calls.append(_Call(name, operands, values, {**FEW[name], **args}))

    def check(self) -> None:
        """One run of all calls."""
        self.case.build()

        def run() -> None:
            for c in self.calls:
                tensors = {n: o.tensor for n, o in c.operands.items()}
                getattr(kernels, c.name)(**tensors, **c.args)

        written = [id(o) for o in self.case.operands if o.output]
        results = dict(zip(written, self.case.run(run), strict=True))
        for c in self.calls:
            want = function(c.name)(**c.inputs, **c.args)
            bounds = errors(c.name, c.inputs, **c.args)
            names = [n for n in ("param", *STATES[c.name]) if n in c.operands]
            if c.name != "sgd_step":
                names = [*STATES[c.name], "param"]
            for n, w, bound in zip(names, want, bounds, strict=True):
                got = results[id(c.operands[n])]
                what = f"{c.name} {n} {got.dtype} {got.shape} {c.args}"
                assert_close(got, w, np.broadcast_to(bound, got.shape), what)
