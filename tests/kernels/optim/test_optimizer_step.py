"""optimizer_step: every rule on any layout against float64, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.plans.optim.optimizer_step import STATES
from pykernels.reference import optim as reference
from tests.harness import Case, Form, assert_close, caps, forms, random_form

pytestmark = pytest.mark.gpu
NAMES = ("first", "second", "third")
DTYPES = (("float32", "float32"), ("float16", "float16"), ("float16", "float32"))


class Calls:
    """Calls on tensors of their own in canaried buffers; `check` runs and compares them all."""

    def __init__(self, dev: pk.Device) -> None:
        self.case = Case(dev)
        self.calls: list[tuple[dict[str, Any], dict[str, Any], str]] = []

    def add(
        self, rule: str, shape: tuple[int, ...], dtype: str = "float32", grad: str = "float32",
        forms: tuple[Form | None, ...] = (None,), near: bool = False,
    ) -> None:  # fmt: skip
        """`forms` are those of gradient, parameter and states, in turn; `near`: one buffer holds
        the states and, behind them, the gradient."""
        rng, case = self.case.rng, self.case
        rest = forms[1:] or forms
        form = [forms[0], *[rest[i % len(rest)] for i in range(4)]]
        buffer: dict[str, Any] = {"buffer": f"near {len(self.calls)}", "near": 4} if near else {}
        values = {"param": rng.normal(0, 1, shape).astype(dtype)}
        for name in NAMES[: STATES[rule]]:
            values[name] = np.square(rng.normal(0, 1, shape)).astype(np.float32)
        if "centered" in rule:  # a variance is above 0
            values["first"] += np.square(values["second"]) + 1
        operands = {
            n: case.in_place(v, form[i + 1], **({} if n == "param" else buffer))
            for i, (n, v) in enumerate(values.items())
        }
        values["grad"] = rng.normal(0, 1, shape).astype(grad)
        if form[0] is not None and 0 in form[0].steps:
            values["grad"] = np.broadcast_to(values["grad"][(0,) * len(shape)], shape)
        operands["grad"] = case.input(values["grad"], form[0], **buffer)
        values["settings"] = reference.some_settings()
        operands["settings"] = case.input(values["settings"], Form(phase=len(self.calls) % 3))
        self.calls.append((operands, values, rule))

    def check(self) -> None:
        """One run of all calls."""
        self.case.build()

        def run() -> None:
            for operands, _, rule in self.calls:
                given: dict[str, Any] = {n: o.tensor for n, o in operands.items()}
                kernels.optimizer_step(**given, rule=rule)

        written = [id(o) for o in self.case.operands if o.output]
        results = dict(zip(written, self.case.run(run), strict=True))
        for operands, values, rule in self.calls:
            want = reference.optimizer_step(**values, rule=rule)
            bounds = reference.optimizer_step_budget(**values, rule=rule)
            names = ("param", *NAMES[: STATES[rule]])
            for name, w, bound in zip(names, want, bounds, strict=True):
                got = results[id(operands[name])]
                what = f"{rule} {name} {got.dtype} {got.shape}"
                assert_close(got, w, np.broadcast_to(bound, got.shape), what)


@pytest.mark.parametrize("rule", STATES)
def test_optimizer_step_any_layout(dev: pk.Device, rule: str) -> None:
    calls = Calls(dev)
    wide = list(forms(3, repeats=True).values())
    plain = list(forms(3, repeats=False).values())
    for i, form in enumerate(wide):
        others = (plain[i % len(plain)], plain[(3 * i + 1) % len(plain)], Form(phase=i % 3))
        calls.add(rule, (3, 5, 8), *DTYPES[i % 3], (form, *others))
    for size in (0, 1, 3, 4, 1023, 1028):
        calls.add(rule, (size,), *DTYPES[size % 3], (Form(phase=4 * (size % 2)),))
    calls.add(rule, ())
    calls.add(rule, (37,), near=True)
    calls.check()


def test_optimizer_step_random_layouts(dev: pk.Device) -> None:
    rng = np.random.default_rng(1)
    calls = Calls(dev)
    for i in range(24):
        shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 6)))
        layouts = tuple(random_form(rng, len(shape), repeats=False) for _ in range(5))
        calls.add([*STATES][i % len(STATES)], shape, *DTYPES[i % 3], layouts)
    calls.check()


def test_optimizer_step_in_parts_folded_and_without_halves(dev: pk.Device) -> None:
    """Tensors larger than one binding, more workgroups than fit along x, float16 as words."""
    align = dev._context.caps.alignment
    changes: list[dict[str, Any]] = [
        {"max_binding": align + 2048}, {"max_groups": 2}, {"f16": False},
    ]  # fmt: skip
    for change in changes:
        with caps(dev, **change):
            calls = Calls(dev)
            for i, rule in enumerate(("ema", "lion", "rmsprop_centered_momentum", "amsgrad")):
                calls.add(rule, (40, 36), *DTYPES[(i + 1) % 3])
            calls.check()


def test_optimizer_step_rejects(dev: pk.Device) -> None:
    x, s = dev.ones((2, 3)), dev.tensor(reference.some_settings())
    for match, named in (
        ("there is no rule 'adamax': there are ema, lion", {"rule": "adamax"}),
        ("lion takes 1 states but first is missing", {"rule": "lion"}),
        ("ema takes 0 states but first is given", {"first": x.copy()}),
        ("rate must have one element", {"rate": dev.zeros(2)}),
        ("skip must have one element", {"skip": dev.zeros(2, "uint32")}),
        ("settings must have shape \\(15,\\)", {"settings": s[:3]}),
        ("grad", {"grad": dev.ones((3, 2))}),
    ):
        given: dict[str, Any] = {"grad": dev.ones((2, 3)), "settings": s, "param": x, **named}
        with pytest.raises(pk.PyKernelsError, match=match):
            kernels.optimizer_step(**given)
    assert (x.numpy() == 1).all()
