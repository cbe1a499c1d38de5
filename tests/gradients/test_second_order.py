"""Gradients of gradients: nested tapes against differences of references in float64."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.lazy import load
from pykernels.reference import attention as attention_reference
from pykernels.reference import loss as loss_reference
from pykernels.tape._entry import rule_of
from tests.checkout import ROOT
from tests.gradients import test_norm_rules, test_reduce_expressions, test_rules, test_sequence
from tests.gradients.numeric import Example, apart
from tests.harness import Array

gpu = pytest.mark.gpu
RNG = np.random.default_rng(3)


def cross_entropy(reduction: str, **options: Any) -> Example:
    classes, smoothing = np.array([2, 0, -100, 3], np.int32), options.get("label_smoothing", 0.0)

    def wanted(x: Array, w: Array, target: Array) -> Array:
        return loss_reference.cross_entropy(
            x,
            target,
            w,
            reduction=reduction,
            label_smoothing=smoothing,  # type: ignore[arg-type]
        )

    return Example(
        lambda x, w, t: pk.cross_entropy(x, t, weight=w, reduction=reduction, **options),
        lambda x, w, t: wanted(x, w, t),
        [RNG.normal(0, 1, (4, 5)).astype("f4"), RNG.uniform(0.5, 2, 5).astype("f4")],
        [classes], wrt=1,
    )  # fmt: skip


def nll_loss() -> Example:
    """Linear in x: what is not 0 is by dy."""
    classes = np.array([2, 0, 1], np.int32)
    return Example(
        lambda x, t: pk.square(pk.nll_loss(x, t)),
        lambda x, t: loss_reference.nll_loss(x, t) ** 2, [RNG.normal(0, 1, (3, 4)).astype("f4")],
        [classes],
    )  # fmt: skip


def attention(mask: str, **options: Any) -> Example:
    q, k, v = (RNG.normal(0, 1, shape).astype("f4")
               for shape in ((1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3)))  # fmt: skip
    seen = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 0, 1], [0, 0, 1, 1, 1]], bool)
    others = [seen] if mask == "bool" else []
    return Example(
        lambda q, k, v, *m: pk.flash_attn(q, k, v, mask=m[0] if m else None, **options),
        lambda q, k, v, *m: attention_reference.flash_attn(
            q, k, v, m[0] if m else None, **options
        ), [q, k, v], others,
    )  # fmt: skip


EXAMPLES: dict[str, Example] = {
    "cross_entropy none": cross_entropy("none"),
    "cross_entropy smooth": cross_entropy("mean", label_smoothing=0.2),
    "nll_loss": nll_loss(),
    "attention causal": attention("", causal=True),
    "attention window softcap": attention("bool", window=(2, 1), softcap=2.0),
    "max of a product": Example(
        lambda x, y: pk.max(x * y, axis=1), lambda x, y: (x * y).max(1),
        [apart(RNG, (3, 4)), apart(RNG, (3, 4), 1, 2)],
    ),
    "expression": Example(
        lambda a, b: pk.elementwise("sin(a) * exp(b) / (1 + a * a)", a=a, b=b),
        lambda a, b: np.sin(a) * np.exp(b) / (1 + a * a),
        [RNG.normal(0, 1, (2, 3)).astype("f4"), RNG.normal(0, 1, 3).astype("f4")],
    ),
}  # fmt: skip
for module in (test_rules, test_norm_rules, test_sequence, test_reduce_expressions):
    for name, found in module.EXAMPLES.items():
        made = found(np.random.default_rng(zlib.crc32(name.encode()))) if callable(found) else found
        EXAMPLES[f"{name} of {module.__name__.rpartition('.')[2]}"] = made


@gpu
@pytest.mark.parametrize("name", EXAMPLES)
def test_second_order(dev: pk.Device, name: str) -> None:
    EXAMPLES[name].check_second(dev, zlib.crc32(name.encode()))


@gpu
def test_third_and_fourth_order(dev: pk.Device) -> None:
    x = dev.tensor(np.array([0.5, -1.25, 2.0], "f4"))
    tapes = [pk.Tape() for _ in range(4)]
    for tape in tapes:
        tape.__enter__()
    y = pk.sum(x**5)
    for tape in reversed(tapes):
        tape.__exit__(None, None, None)
        y = pk.sum(tape.gradient(y, x))
    np.testing.assert_allclose(y.item(), (120 * x.numpy()).sum(), rtol=1e-6)


@gpu
def test_a_gradient_penalty_is_jaxs(dev: pk.Device) -> None:
    """d/dw of (d/dx sum((w x)^2))^2 at w = 5, x = 1: 2 w^2 x = 50, and 50 * 2 * 4 w x = 2,000."""
    w, x = dev.tensor([5.0]), dev.tensor([1.0])
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            y = pk.sum(pk.square(w * x))
        dx = inner.gradient(y, x)
        penalty = pk.sum(pk.square(dx))
    assert dx.item() == 50 and outer.gradient(penalty, w).item() == 2000


@gpu
def test_an_inner_step_of_maml(dev: pk.Device) -> None:
    """l(w) = w^4; w' = w - r l'(w): d l(w') / dw = 4 w'^3 (1 - 12 r w^2), l by r: -4 w'^3 4 w^3."""
    w, rate = dev.tensor([1.5]), dev.tensor([0.02])
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            loss = pk.sum(w**4)
        stepped = w - rate * inner.gradient(loss, w)
        after = pk.sum(stepped**4)
    dw, dr = outer.gradient(after, [w, rate])
    new = 1.5 - 0.02 * 4 * 1.5**3
    assert dw.item() == pytest.approx(4 * new**3 * (1 - 12 * 0.02 * 1.5**2), rel=1e-5)
    assert dr.item() == pytest.approx(-4 * new**3 * 4 * 1.5**3, rel=1e-5)


@gpu
def test_a_captured_step_of_second_order(dev: pk.Device) -> None:
    """Replays with other values of x."""
    x = dev.tensor(np.array([1.0, 2.0], "f4"))
    with dev.capture() as program, pk.Tape() as outer:
        with pk.Tape() as inner:
            y = pk.sum(x**3)
        loss = pk.sum(pk.square(inner.gradient(y, x)))
        found = outer.gradient(loss, x)
    for values in ([1.0, 2.0], [3.0, -1.0]):
        x.write(np.array(values, "f4"))
        program()
        np.testing.assert_allclose(found.numpy(), 36 * np.array(values) ** 3, rtol=1e-6)


@gpu
def test_sums_of_gradients_keep_what_an_outer_tape_needs(dev: pk.Device) -> None:
    """Each use of x adds to the same memory where nobody records: here the parts are needed."""
    x = dev.tensor(np.array([0.7, -0.3], "f4"))
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            y = pk.sum(x * x * x * x + pk.exp(x) * x + x[:1] * x[1:])
        g = inner.gradient(y, x)
        loss = pk.sum(g * g * g)
    a = x.numpy().astype("f8")
    first = 4 * a**3 + np.exp(a) * (a + 1) + 2 * a[::-1]
    second = np.diag(12 * a**2 + np.exp(a) * (a + 2)) + np.array([[0, 2], [2, 0]])
    np.testing.assert_allclose(outer.gradient(loss, x).numpy(), second @ (3 * first**2), rtol=1e-5)


@gpu
def test_every_open_tape_records(dev: pk.Device) -> None:
    x = dev.tensor([3.0])
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            y = x * x
        z = pk.sum(y * y)
    assert inner.gradient(y, x, 1.0).item() == 6 and outer.gradient(z, x).item() == 108
    assert len(inner) == 1 and len(outer) == 3


@gpu
def test_a_pause_of_one_tape_is_none_of_the_other(dev: pk.Device) -> None:
    x = dev.tensor([3.0])
    with pk.Tape() as outer, pk.Tape() as inner:
        with outer.pause():
            y = x * x
        z = pk.sum(y * x)
    assert inner.gradient(z, x).item() == 27 and outer.gradient(z, x).item() == 9


def test_few_kernels_have_no_gradient() -> None:
    """Of those from floats to floats, which the guide lists. The list may only become shorter."""
    without = {"adam_step", "clip_by_norm", "optimizer_step", "schedule_step", "sgd_step"}
    found = set()
    for path in sorted((ROOT / "pykernels" / "_generated" / "kernels").glob("[a-z]*.py")):
        kernel = load(f"pykernels._generated.kernels.{path.stem}").KERNEL
        floats = {a.role for a in kernel.args if {"float32", "float16"} & {*a.dtypes}}
        if {"in", "out"} <= floats and rule_of(kernel) is None:
            found.add(kernel.name)
    assert found == without
    guide = (ROOT / "docs" / "guide" / "gradients.md").read_text(encoding="utf-8")
    listed = guide.partition("<!-- docs: no gradient -->\n")[2].partition("\n<!-- end -->")[0]
    assert listed == ", ".join(f"`{name}`" for name in sorted(without))
