"""Optimisers with a rule: torch's values over 50 steps, captured steps, settings, groups, averages,
and how many launches a step is."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.plans.optim.adam_step import powers
from pykernels.plans.optim.optimizer_step import STATES
from pykernels.reference.optim_rules import Near, advance, take
from pykernels.validate._types import Limits
from tests.harness import assert_close, assert_same_bits
from tests.kernels.optim.torch_rules import CASES, data, run

pytestmark = pytest.mark.gpu
U = 2.0**-24
KINDS = [0, 3, 5, 7, 10, 13]  # a case of each class
COUNTED = ("adagrad", "amsgrad", "nadam")


def bound(
    optimizer: Any, rule: str, states: int, param: Any, grads: list[Any], begin: float
) -> Any:
    """What float32 may be off by after all steps, to first order, rounding by rounding."""
    given = optimizer._values
    numbers = [0.0] * 15
    for name, at in optimizer._places.items():
        value = given[name]
        betas = {"betas": value, "alpha": [value]}.get(name, [])
        found = [x for beta in betas for x in powers("beta", beta)] or [float(value)]
        numbers[at : at + len(found)] = found
    for at, value in optimizer._initial.items():
        numbers[at] = value
    s = [Near(x, U * abs(x)) for x in numbers]  # rounded once
    values = [Near(param.astype(np.float64)), *[Near(np.full(param.shape, begin))] * states]
    for t, g in enumerate(grads, 1):
        s = advance(rule, t, s) if rule in COUNTED else s
        values = list(take(rule, Near(g.astype(np.float64)), values[0], values[1:], s))
    return values[0]


@pytest.mark.parametrize("at", range(len(CASES)))
def test_fifty_steps_have_the_published_values(dev: pk.Device, at: int) -> None:
    """State saved after 20 steps and loaded into another optimiser."""
    kind, rule, args = CASES[at]
    param, grads = data()
    want = run(kind, param, grads, args)[-1]
    w = dev.tensor(param)
    optimizer = getattr(pk, kind)(w, **args)
    for g in grads[:20]:
        optimizer.step(dev.tensor(g))
    saved = {n: t.numpy() for n, t in optimizer.state_dict().items()}
    states = sum(n.endswith(".0") for n in saved)
    again = getattr(pk, kind)(w.copy(), **args)
    again.load_state_dict(saved)
    for g in grads[20:]:
        optimizer.step(dev.tensor(g))
        again.step(dev.tensor(g))
    near = bound(optimizer, rule, states, param, grads, args.get("initial_accumulator_value", 0.0))
    np.testing.assert_allclose(near.value, want, rtol=1e-9, atol=1e-12)
    assert_close(w.numpy(), want, near.off, kind)
    assert np.max(near.off / (np.abs(want) + 0.1)) < 2e-2  # it says something
    assert_same_bits(again._params[0].numpy(), w.numpy())
    assert [*again.state_dict()] == [*saved]


@pytest.mark.parametrize("at", KINDS)
@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_captured_and_skipped_steps(dev: pk.Device, at: int, dtype: str) -> None:
    """Replays have the bits of plain steps; a step that is left out leaves everything."""
    kind, _, args = CASES[at]
    param, grads = data(5)
    eager, captured = (dev.tensor(param.astype(dtype)) for _ in range(2))
    one, other = (getattr(pk, kind)([t], **args) for t in (eager, captured))
    grad, skip = dev.tensor(grads[0]), dev.zeros(1)
    with dev.capture() as program:
        other.step([grad], skip=skip)
    for t, g in enumerate(grads):
        grad.write(g)
        kernels.fill(skip, float(t == 2))
        before = {n: x.numpy() for n, x in (*other.state_dict().items(), ("w", captured))}
        program()
        if t == 2:
            for n, x in {**other.state_dict(), "w": captured}.items():
                assert_same_bits(x.numpy(), before[n], f"{kind} {n}")
        else:
            one.step([grad])
        assert_same_bits(captured.numpy(), eager.numpy(), f"{kind} {t}")
    for n, x in one.state_dict().items():
        assert_same_bits(other.state_dict()[n].numpy(), x.numpy(), n)


@pytest.mark.parametrize("at", KINDS)
def test_settings_count_for_later_steps(dev: pk.Device, at: int) -> None:
    """Set and captured, they give the bits of an optimiser that was made so."""
    kind, _, args = CASES[at]
    param, grads = data(3)
    changes: dict[str, Any] = {
        "lr": 0.5, "betas": (0.5, 0.7), "eps": 1e-2, "weight_decay": 0.3, "alpha": 0.8,
        "momentum": 0.7, "lr_decay": 0.2, "momentum_decay": 0.01, "decoupled_weight_decay": True,
    }  # fmt: skip
    w, plain = dev.tensor(param), dev.tensor(param)
    one = getattr(pk, kind)(w, **args)
    changes = {n: v for n, v in changes.items() if n in one._places}
    if not args.get("momentum"):
        changes.pop("momentum", None)
    grad = dev.tensor(grads[0])
    with dev.capture() as program:
        one.step(grad)
    for name, value in changes.items():
        setattr(one, name, value)
        assert getattr(one, name) == value
    other = getattr(pk, kind)(plain, **{**args, **changes})
    for g in grads:
        grad.write(g)
        program()
        other.step(grad)
    assert_same_bits(w.numpy(), plain.numpy(), kind)
    copied = copy.deepcopy(one)
    assert {n: getattr(copied, n) for n in changes} == changes
    assert pickle.loads(pickle.dumps(one)).lr == 0.5
    copied.step(grad)
    one.step(grad)
    for n, x in one.state_dict().items():
        assert_same_bits(copied.state_dict()[n].numpy(), x.numpy(), n)


def test_settings_that_choose_the_kernel(dev: pk.Device) -> None:
    param, grads = data(4)
    w, plain = dev.tensor(param), dev.tensor(param)
    one, grad = pk.RMSprop(w), dev.tensor(grads[0])
    assert [*one.state_dict()] == ["square_avg.0"]
    one.momentum, one.centered, one.eps = 0.5, True, 0.1
    assert [*one.state_dict()] == ["square_avg.0", "momentum_buffer.0", "grad_avg.0"]
    other = pk.RMSprop(plain, momentum=0.5, centered=True, eps=0.1)
    for g in grads:
        one.step(dev.tensor(g))
        other.step(dev.tensor(g))
    assert_same_bits(w.numpy(), plain.numpy())
    adam = pk.Adam(dev.tensor(param))
    adam.amsgrad = True
    assert "max_exp_avg_sq.0" in adam.state_dict() and adam.amsgrad
    with dev.capture() as program:
        one.step(grad)
        adam.step(grad)
    for which, name, value in (
        (one, "centered", False), (one, "momentum", 0.0), (adam, "amsgrad", False),
        (one, "lr", pk.Schedule.constant(0.1, device=dev)),
    ):  # fmt: skip
        with pytest.raises(pk.BufferStateError, match="a captured program contains a step"):
            setattr(which, name, value)
    del program
    one.centered, adam.amsgrad = False, False
    adam.step(grad)


def test_groups_have_their_own_settings(dev: pk.Device) -> None:
    """The bits of an optimiser for each group; gradients are in the order of all parameters."""
    param, grads = data(3)
    for kind in (pk.SGD, pk.Adam, pk.RMSprop, pk.Adagrad, pk.NAdam, pk.Lion):
        ours, plain = ([dev.tensor(param) for _ in range(3)] for _ in range(2))
        one = kind(
            [{"params": ours[:2], "lr": 0.1}, {"params": ours[2], "weight_decay": 0.3}], lr=0.01
        )
        first, second = kind(plain[:2], lr=0.1), kind(plain[2], lr=0.01, weight_decay=0.3)
        for t, g in enumerate(grads):
            three = [dev.tensor(g * (i + 1)) for i in range(3)]
            one.step(three)
            first.step(three[:2])
            second.step(three[2])
            if t == 0:
                one.groups[1].lr = first.lr = second.lr = 0.02
                one.lr = 0.02
        for a, b in zip(ours, plain, strict=True):
            assert_same_bits(a.numpy(), b.numpy(), kind.__name__)
        assert one.lr == 0.02 and [g.weight_decay for g in one.groups][1] == 0.3
        with pytest.raises(AttributeError, match=r"groups have different weight_decay"):
            _ = one.weight_decay
        state = one.state_dict()
        found = {n: t.numpy() for n, t in state.items()}
        assert {n.partition(".")[0] for n in found} <= {"0", "1"}
        other = kind([{"params": ours[:2], "lr": 0.1}, {"params": ours[2]}], lr=0.01)
        other.load_state_dict(found)
        for n, t in other.state_dict().items():
            assert_same_bits(t.numpy(), found[n], n)
        copied = copy.deepcopy(one)
        assert copied.groups[0].lr == 0.02


def test_groups_reject(dev: pk.Device) -> None:
    w = dev.ones(3)
    for given in ([{"lr": 0.1}], [{"params": [w], "momentum": 0.9}], [{}]):
        with pytest.raises(
            pk.ArgumentError, match=r"\[Adam\] params\[0\] must have the key params"
        ):
            pk.Adam(given)
    with pytest.raises(pk.ArgumentError, match="params must be a list of one or more"):
        pk.Adam([{"params": []}])
    with pytest.raises(pk.ArgumentError, match="there must be 2 gradients"):
        pk.Adam([{"params": w}, {"params": w.copy()}]).step([w])
    with pytest.raises(AttributeError, match="no setting is called 'eps'"):
        pk.Lion(w).eps = 0.1  # type: ignore[attr-defined]


def test_how_many_launches_a_step_is(dev: pk.Device) -> None:
    """One for each tensor, and so for a flat one; one more counts, and one is a schedule's."""
    counts = {"SGD": 0, "Adam": 1, "RMSprop": 0, "Adagrad": 1, "NAdam": 1, "Lion": 0}
    for kind, schedule in itertools.product(counts, (False, True)):
        rate = pk.Schedule.constant(0.1, device=dev) if schedule else 0.1
        for params in ([dev.ones((2, 3)), dev.ones(4), dev.ones(5)], [dev.ones(15)]):
            optimizer, skip = getattr(pk, kind)(params, rate), dev.zeros(1, "uint32")
            with dev.profile() as p:
                optimizer.step(params, skip=skip)
            found = [r.kernel for r in p.records if r.kernel != "cpy_bytes"]
            extra = counts[kind] + schedule
            assert len(found) == len(params) + extra, (kind, found)
    # Three states, gradient and parameter, settings, a rate and a flag: all that WebGPU promises,
    # so that no second tensor fits into the launch of the largest rule.
    assert max(STATES.values()) + 5 == Limits().max_storage_buffers


def test_averages_of_parameters(dev: pk.Device) -> None:
    """In float64 the formula; captured, skipped, saved, and with another decay."""
    param, grads = data(6)
    w, half = dev.tensor(param), dev.tensor(param.astype(np.float16))
    averages, skip = pk.EMA([w, half], decay=0.9), dev.zeros(1)
    want = [param.astype(np.float64), param.astype(np.float16).astype(np.float64)]
    with dev.capture() as program:
        averages.update(skip=skip)
    for t, g in enumerate(grads):
        w.write(g)
        half.write((g / 8).astype(np.float16))
        kernels.fill(skip, float(t == 2))
        if t == 3:
            averages.decay = 0.3
        program()
        decay = 0.9 if t < 3 else 0.3
        if t != 2:
            values = g.astype(np.float64), (g / 8).astype(np.float16).astype(np.float64)
            want = [decay * a + (1 - decay) * v for a, v in zip(want, values, strict=True)]
    assert averages.decay == 0.3 and [t.dtype for t in averages.tensors] == ["float32"] * 2
    for t, a in zip(averages.tensors, want, strict=True):
        assert_close(t.numpy(), a, np.full(a.shape, 40 * U * max(np.max(np.abs(g)) for g in grads)))
    again = pk.EMA([w, half])
    again.load_state_dict({n: t.numpy() for n, t in averages.state_dict().items()})
    assert_same_bits(again.tensors[1].numpy(), averages.tensors[1].numpy())
    for call, match in (
        (lambda: pk.EMA([w], decay=1.0), r"decay must be in \[0, 1\)"),
        (lambda: pk.EMA([dev.zeros(2, "int32")]), "params must be float32, float16 or bfloat16"),
        (lambda: again.load_state_dict({}), "names that are missing or unknown: average.0"),
        (lambda: again.update(skip=dev.zeros(2)), "skip must have one element"),
    ):
        with pytest.raises(pk.PyKernelsError, match=match):
            call()


def test_gradients_are_clipped_by_value(dev: pk.Device) -> None:
    values = np.array([-3, -0.5, 0, 0.25, 9, np.nan, np.inf], np.float32)
    grads = [dev.tensor(values), dev.tensor(values.astype(np.float16))]
    pk.clip_grad_value(grads, 0.5)
    for g in grads:
        np.testing.assert_array_equal(g.numpy(), np.clip(values, -0.5, 0.5).astype(g.dtype))
    pk.clip_grad_value(grads[0], 0.25)
    assert np.nanmax(np.abs(grads[0].numpy())) == 0.25
    for call, match in (
        (lambda: pk.clip_grad_value([], 1.0), "must be a list of one or more"),
        (lambda: pk.clip_grad_value(grads, -1.0), "clip_value must be 0 or more"),
        (lambda: pk.clip_grad_value(dev.zeros(2, "int32"), 1.0), "float32, float16 or bfloat16"),
    ):
        with pytest.raises(pk.PyKernelsError, match=match):
            call()
