"""nll_loss and its gradient: against the reference, in layouts and parts, faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import loss as reference
from tests.harness import Case, Form, Operand, assert_close, caps
from tests.kernels.loss.loss_calls import DTYPES, EPS, reduced_budget, targets

pytestmark = pytest.mark.gpu

FORMS = (Form(), Form(phase=1), Form(order=(1, 0)), Form(steps=(-1, 2), gap=3), Form(steps=(0, 1)))


class NllCalls:
    """Calls of nll_loss and its gradient in one case, checked against the reference."""

    def __init__(self, dev: pk.Device) -> None:
        self.case = Case(dev)
        self.calls: list[tuple[dict[str, Operand], dict[str, Any]]] = []

    def add(
        self, shape: tuple[int, ...], dtype: str, kind: str, form: Form, *, weighted: bool = False,
        **options: Any,
    ) -> None:  # fmt: skip
        case, reduction = self.case, options.get("reduction", "mean")
        x = np.log(case.rng.random(shape) + 0.01).astype(dtype)
        target = targets(case.rng, shape, kind)
        own = {"x": case.input(x, form, buffer="x"), "target": case.input(target, buffer="target")}
        if weighted:
            weight = case.rng.uniform(0.5, 2, shape[-1:]).astype(dtype)
            own["weight"] = case.input(weight, buffer="weight")
        dy = case.rng.normal(0, 2, () if reduction != "none" else shape[:-1]).astype(dtype)
        own["dy"] = case.input(dy, buffer="dy")
        if reduction == "mean":
            own["total"] = case.output((), "float32", buffer="total")
        own["loss"] = case.output(dy.shape, dtype, buffer="loss")
        out = form if 0 not in form.steps else Form()
        own["dx"] = case.output(shape, dtype, out, buffer="dx")
        self.calls.append((own, options))

    def check(self) -> None:
        self.case.build()
        outputs = [o for o in self.case.operands if o.output]
        results = self.case.run(self._run)
        for own, options in self.calls:
            got = {n: results[outputs.index(o)] for n, o in own.items() if o.output}
            x, target, dy = (own[n].array for n in ("x", "target", "dy"))
            weight = own["weight"].array if "weight" in own else None
            what = f"{x.dtype} {x.shape} {own['x'].strides} {target.dtype} {options}"
            _, _, weights = reference._targets(x, target, weight, -100, 0.0)
            each = reference.nll_loss(x, target, weight, reduction="none")
            bound = reduced_budget(each, EPS * abs(each), weights, options.get("reduction", "mean"))
            want = reference.nll_loss(x, target, weight, **options)
            assert_close(got["loss"], want, bound, f"{what} loss")
            total = got.get("total")
            dx = reference.nll_loss_backward(target, dy, total, weight, shape=x.shape)
            assert_close(got["dx"], dx, 4 * EPS * abs(dx), f"{what} gradient")

    def _run(self) -> None:
        for own, options in self.calls:
            t = {n: o.tensor for n, o in own.items()}
            rest = {"total": t.get("total"), "weight": t.get("weight")}
            kernels.nll_loss(t["x"], t["target"], t["loss"], **rest, **options)
            kernels.nll_loss_backward(t["target"], t["dy"], t["dx"], **rest)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nll_loss_matches_reference(dev: pk.Device, dtype: str) -> None:
    calls = NllCalls(dev)
    for n, form in enumerate(FORMS):
        for cols in (1, 10, 64, 1030):
            reduction = ("mean", "none", "sum")[n % 3]
            kind = ("int32", "int64")[n % 2]
            calls.add((300, cols), dtype, kind, form, weighted=cols < 64, reduction=reduction)
    calls.add((7,), dtype, "int32", Form(phase=1))
    calls.add((0, 7), dtype, "int32", Form())
    calls.check()


def test_nll_loss_in_parts(dev: pk.Device) -> None:
    with caps(dev, max_binding=dev._context.caps.alignment + 2048):
        calls = NllCalls(dev)
        calls.add((70, 36), "float32", "int32", Form(gap=3))
        calls.add((70, 36), "float32", "int64", Form(order=(1, 0)), reduction="none")
        calls.check()
    with caps(dev, f16=False):
        calls = NllCalls(dev)
        calls.add((5, 30), "float16", "int32", Form(phase=1), weighted=True)
        calls.check()


def test_nll_loss_reports_classes_out_of_range(dev: pk.Device) -> None:
    x, t = dev.rand((4, 5), seed=0), dev.tensor(np.array([1, 5, -100, -1]))
    dst, dx = dev.empty(4), dev.empty((4, 5))
    told = r"\[nll_loss\] target must be in \[0, 5\) but is 5 at position \(1,\)"
    kernels.nll_loss(x, t, dst, reduction="none")
    with pytest.raises(pk.IndexRangeError, match=told):
        dev.sync()
    kernels.nll_loss_backward(t, dev.ones(4), dx)
    assert (dst.numpy()[1:] == 0).all() and (dx.numpy()[1:] == 0).all()
    assert dx.numpy()[0].tolist() == [0, -1, 0, 0, 0]


def test_nll_loss_rejects(dev: pk.Device) -> None:
    x, t, one = dev.ones((3, 4)), dev.zeros(3, "int32"), dev.empty(())
    with pytest.raises(pk.DTypeError, match=r"\[nll_loss\] target must be int32 or int64"):
        kernels.nll_loss(x, x, one)
    with pytest.raises(pk.ShapeError, match=r"\[nll_loss\] target must have shape \(3,\) for x of"):
        kernels.nll_loss(x, dev.zeros(4, "int32"), one)
    with pytest.raises(pk.ShapeError, match=r"\[nll_loss_backward\] dst must have classes along"):
        kernels.nll_loss_backward(t, one, dev.empty((3, 0)))
    with pytest.raises(pk.ShapeError, match=r"\[nll_loss_backward\] dy must have shape \(\) or"):
        kernels.nll_loss_backward(t, dev.ones(4), x)
    assert (x.numpy() == 1).all()
