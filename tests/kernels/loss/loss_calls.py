"""What the tests of losses of classes share: logits, targets, budgets, and checked calls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pykernels as pk
import pykernels.kernels as kernels
from pykernels.reference import loss as reference
from tests.harness import Array, Case, Form, Operand, assert_close

DTYPES = ("float32", "float16")
EPS = 2.0**-23


def logits(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Rows of three kinds: some units wide, wide enough to underflow, far from zero."""
    kind = rng.integers(0, 3, (*shape[:-1], 1))
    x = rng.normal(0, 1, shape) * np.array([3.0, 40.0, 0.5])[kind]
    return (x + np.array([0.0, 0.0, 1000.0])[kind]).astype(dtype)


def targets(
    rng: np.random.Generator, shape: tuple[int, ...], kind: str, ignored: float = 0.2
) -> Array:
    """Classes of rows of this shape, some of them -100; or weights of all classes."""
    if kind.startswith("float"):
        return rng.random(shape).astype(kind)
    found = rng.integers(0, shape[-1], shape[:-1])
    return np.where(rng.random(shape[:-1]) < ignored, -100, found).astype(kind)


def budget(x: Array, target: Array, weight: Array | None, **options: Any) -> Array:
    """What the loss may be off by: the logarithm of the sum as in softmax, and the sum of costs."""
    t, counted, weights = reference._targets(
        x, target, weight, options.get("ignore_index", -100), options.get("label_smoothing", 0.0)
    )
    x = x.astype(np.float64)
    top = x.max(-1, keepdims=True)
    losses = reference.cross_entropy(x, target, weight, **options | {"reduction": "none"})
    share, cost = np.abs(t).sum(-1), (np.abs(t) * (top - x)).sum(-1)
    sum_error = 2.0**-21 + EPS * (32 + 4 * math.log(x.shape[-1] + 1))
    each = share * sum_error + EPS * ((math.sqrt(x.shape[-1]) + 16) * cost + 4 * np.abs(losses))
    each = np.where(counted, each, 0.0) + 2.0**-126
    return reduced_budget(losses, each, weights, options.get("reduction", "mean"))


def reduced_budget(losses: Array, each: Array, weights: Array, reduction: str) -> Array:
    """The same of the sum or the mean of rows."""
    if reduction == "none":
        return each
    terms = EPS * (math.sqrt(losses.size) + 8)
    found = each.sum() + terms * np.abs(losses).sum()
    if reduction == "mean":
        total = abs(weights.sum()) or np.nan
        share = terms * np.abs(weights).sum() / total
        found = found / total + (share + 4 * EPS) * abs(losses.sum() / total)
    return np.asarray(found)


def gradient_budget(
    x: Array, target: Array, dy: Array, total: Array | None, weight: Array | None, **options: Any
) -> Array:
    """What the gradient may be off by: the exponential, and the difference to the target."""
    t, _, _ = reference._targets(
        x, target, weight, options.get("ignore_index", -100), options.get("label_smoothing", 0.0)
    )
    depth = x.max(-1, keepdims=True).astype(np.float64) - x
    found = reference._softmax(x) * np.abs(t).sum(-1, keepdims=True)
    each = found * (40 + 4 * math.log(x.shape[-1] + 1) + 2 * depth) + 8 * np.abs(t)
    k = np.abs(reference._factor(dy, total))
    with np.errstate(invalid="ignore"):  # exponentials below the smallest float may be 0
        return k * (EPS * each + 2.0**-126 * np.abs(t).sum(-1, keepdims=True)) + 2.0**-126


class LossCalls:
    """Many calls of cross_entropy and its gradient in one case, checked against the reference."""

    def __init__(self, dev: pk.Device, seed: int = 0) -> None:
        self.dev = dev
        self.case = Case(dev, seed)
        self.rng = self.case.rng
        self.calls: list[tuple[dict[str, Operand], dict[str, Any]]] = []

    def add(
        self, shape: tuple[int, ...], dtype: str, kind: str, *, weighted: bool = False,
        form: Form | None = None, target_form: Form | None = None, dst_form: Form | None = None,
        in_place: bool = False, x: Array | None = None, target: Array | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        """A call on rows of this shape; `kind` is the dtype of the targets."""
        reduction, lead = options.get("reduction", "mean"), shape[:-1]
        x = logits(self.rng, shape, dtype) if x is None else x
        target = targets(self.rng, shape, kind) if target is None else target
        made = self.case.in_place if in_place else self.case.input
        own = {"x": made(x, form, buffer="dx" if in_place else "x"),
               "target": self.case.input(target, target_form, buffer="target")}  # fmt: skip
        if weighted:
            weight = self.rng.uniform(0.5, 2, shape[-1:]).astype(dtype)
            own["weight"] = self.case.input(weight, Form(steps=(-2,)), buffer="weight")
        dy = self.rng.normal(0, 2, () if reduction != "none" else lead).astype(dtype)
        own["dy"] = self.case.input(dy, buffer="dy")
        own["stats"] = self.case.output((*lead, 2), "float32", buffer="stats")
        if reduction == "mean":
            own["total"] = self.case.output((), "float32", buffer="total")
        out = Form() if reduction != "none" or not lead else Form(phase=1, gap=1)
        own["loss"] = self.case.output(dy.shape, dtype, out, buffer="loss")
        own["dx"] = own["x"]
        if not in_place:
            own["dx"] = self.case.output(shape, dtype, dst_form, buffer="dx")
        self.calls.append((own, options))

    def check(self) -> None:
        self.case.build()
        before = [{n: o.array.copy() for n, o in own.items()} for own, _ in self.calls]
        outputs = [o for o in self.case.operands if o.output]
        results = self.case.run(self._run)
        for arrays, (own, options) in zip(before, self.calls, strict=True):
            got = {n: results[outputs.index(o)] for n, o in own.items() if o.output}
            x, target, weight = arrays["x"], arrays["target"], arrays.get("weight")
            what = f"{x.dtype} {x.shape} {own['x'].strides} {target.dtype} {options}"
            want = reference.cross_entropy(x, target, weight, **options)
            bound = budget(x, target, weight, **options)
            assert_close(got["loss"], want, bound, f"{what} loss")
            rest = {n: v for n, v in options.items() if n != "reduction"}
            total = got.get("total")
            dx = reference.cross_entropy_backward(
                x, target, None, arrays["dy"], total, weight, **rest
            )
            bound = gradient_budget(x, target, arrays["dy"], total, weight, **rest)
            assert_close(got["dx"], dx, bound, f"{what} gradient")

    def _run(self) -> None:
        for own, options in self.calls:
            t = {n: o.tensor for n, o in own.items()}
            kernels.cross_entropy(
                t["x"], t["target"], t["loss"], weight=t.get("weight"), stats=t["stats"],
                total=t.get("total"), **options,
            )  # fmt: skip
            rest = {n: v for n, v in options.items() if n != "reduction"}
            kernels.cross_entropy_backward(
                t["x"], t["target"], t["stats"], t["dy"], t["dx"], total=t.get("total"),
                weight=t.get("weight"), **rest,
            )  # fmt: skip
