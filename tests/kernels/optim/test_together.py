"""Steps of several tensors in one launch: how many launches, and the bits of one launch each."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.functional._copy_together import BUFFERS
from pykernels.plans.optim.together import MOST
from pykernels.steps import cdiv
from pykernels.validate._types import Limits
from tests.harness import assert_same_bits, caps

pytestmark = pytest.mark.gpu
KINDS: list[tuple[str, dict[str, Any], int, int]] = [  # with the numbers and states that are bound
    ("SGD", {"weight_decay": 0.1}, 1, 0),
    ("SGD", {"momentum": 0.9, "nesterov": True}, 1, 1),
    ("Adam", {"weight_decay": 0.1}, 2, 1),
    ("AdamW", {"betas": (0.3, 0.9)}, 2, 1),
    ("Adam", {"amsgrad": True}, 1, 1),
    ("RMSprop", {"weight_decay": 0.1}, 1, 1),
    ("RMSprop", {"centered": True, "momentum": 0.9}, 1, 1),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5}, 1, 1),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}, 1, 1),
    ("Lion", {}, 1, 1),
]
VECTORS = [(8, 4), (64,), (300, 4), (2, 2), (1028,)]  # read in fours
ODD = [(5,), (3, 7), (), (257,)]


def some(dev: pk.Device, shapes: Sequence[tuple[int, ...]], seed: int = 0) -> list[pk.Tensor]:
    rng = np.random.default_rng(seed)
    return [dev.tensor(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]


def launches(dev: pk.Device, call: Any) -> int:
    """Of steps, without those that count."""
    with dev.profile() as p:
        call()
    kinds = ("adam", "sgd", "optimizer_step")
    return sum(any(kind in r.kernel for kind in kinds) for r in p.records)


@pytest.mark.parametrize("at", range(len(KINDS)))
@pytest.mark.parametrize("limit", [Limits().max_storage_buffers, None])
def test_as_many_as_the_limit_makes_necessary(
    dev: pk.Device, monkeypatch: pytest.MonkeyPatch, at: int, limit: int | None
) -> None:
    """With the bits of an optimiser for each tensor, states too; `limit` None: the device's."""
    kind, args, numbers, states = KINDS[at]
    most = limit or dev.limits[BUFFERS]
    monkeypatch.setitem(dev.limits, BUFFERS, most)
    for more in (0, 2):  # with a rate and a flag
        rate: Any = pk.Schedule.constant(0.1, device=dev) if more else 0.1
        skip = dev.zeros(1, "uint32") if more else None
        ours, plain = (some(dev, VECTORS + ODD) for _ in range(2))
        one = getattr(pk, kind)(ours, rate, **args)
        each = [getattr(pk, kind)(w, rate, **args) for w in plain]
        grads = [some(dev, VECTORS + ODD, seed) for seed in (1, 2)]
        fit = max(min((most - numbers - states - more) // 2, MOST), 1)
        want = cdiv(len(VECTORS), fit) + cdiv(len(ODD), fit)
        assert launches(dev, lambda g=grads[0], o=one, s=skip: o.step(g, skip=s)) == want
        one.step(grads[1], skip=skip)
        for given in grads:
            for optimizer, g in zip(each, given, strict=True):
                optimizer.step(g, skip=skip)
        state = one.state_dict()
        for i, optimizer in enumerate(each):
            assert_same_bits(ours[i].numpy(), plain[i].numpy(), f"{kind} {i}")
            for name, t in optimizer.state_dict().items():
                if name.endswith(".0"):
                    found = state[f"{name[:-1]}{i}"].numpy()
                    assert_same_bits(found, t.numpy(), f"{kind} {name} {i}")


def test_captured_and_skipped(dev: pk.Device) -> None:
    """A replay has the bits of a plain step; one that is left out leaves everything."""
    eager, captured = (some(dev, VECTORS + ODD) for _ in range(2))
    one, other = pk.Adam(eager, 0.1), pk.Adam(captured, 0.1)
    grads, skip = some(dev, VECTORS + ODD, 1), dev.zeros(1)
    with dev.capture() as program:
        other.step(grads, skip=skip)
    for t in range(3):
        kernels.fill(skip, float(t == 1))
        program()
        if t != 1:
            one.step(grads)
        for a, b in zip(eager, captured, strict=True):
            assert_same_bits(a.numpy(), b.numpy())
    assert other.state_dict()["step"].item() == 2


def test_what_needs_a_launch_of_its_own(dev: pk.Device) -> None:
    """Other dtypes, gradients not in one piece, shared buffers; none writes into its neighbour."""
    shapes = [(8, 4)] * 4
    plain, grads = some(dev, shapes), some(dev, shapes, 1)
    grads[1] = dev.tensor(grads[1].numpy().T).T  # of the same elements
    for i, w in enumerate(plain):
        pk.Adam(w, 0.1).step(grads[i])
    ours = some(dev, shapes)
    one = pk.Adam(ours, 0.1)
    assert launches(dev, lambda: one.step(grads)) == 2
    for a, b in zip(ours, plain, strict=True):
        assert_same_bits(a.numpy(), b.numpy())

    _, views = pk.flatten_parameters(some(dev, shapes))
    shared = pk.Adam(views, 0.1)
    assert launches(dev, lambda: shared.step(some(dev, shapes, 1))) == 4
    assert launches(dev, lambda: pk.SGD(ours).step([ours[1], *grads[1:]])) == 4
    contiguous = some(dev, shapes, 2)
    with caps(dev, max_binding=1100):  # holds the states of two
        small = pk.Adam(ours, 0.1)
        assert launches(dev, lambda: small.step(contiguous)) == 2


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "RMSprop"])
def test_weights_and_gradients_of_float16(dev: pk.Device, kind: str) -> None:
    """Those of the same dtypes share a launch."""
    if not dev.features & {"shader-f16"}:
        pytest.skip("no shader-f16")
    args = {"momentum": 0.9} if kind != "AdamW" else {}
    shapes, kinds = [*VECTORS[:2], *ODD[:2]], (("float16", "float16"), ("float16", "float32"))
    for weights, gradients in (*kinds, ("float32", "float16")):
        ours, plain = ([t.astype(weights) for t in some(dev, shapes)] for _ in range(2))
        one = getattr(pk, kind)(ours, 0.1, **args)
        each = [getattr(pk, kind)(w, 0.1, **args) for w in plain]
        for seed in (1, 2):
            grads = [t.astype(gradients) for t in some(dev, shapes, seed)]
            count = launches(dev, lambda o=one, g=grads: o.step(g))
            assert count == (2 if dev.limits[BUFFERS] >= 8 else 4)
            for optimizer, g in zip(each, grads, strict=True):
                optimizer.step(g)
        for a, b in zip(ours, plain, strict=True):
            assert_same_bits(a.numpy(), b.numpy(), f"{kind} {weights} {gradients}")
    mixed = pk.SGD([*some(dev, [(8, 4)] * 2), dev.ones((8, 4), "float16")], momentum=0.9)
    assert launches(dev, lambda: mixed.step(some(dev, [(8, 4)] * 3, 1))) == 2


def test_averages_share_launches(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dev.limits, BUFFERS, Limits().max_storage_buffers)
    params = some(dev, VECTORS)
    averages, each = pk.EMA(params, 0.9), [pk.EMA(p, 0.9) for p in params]
    for p in params:
        kernels.fill(p, 3.0)
    assert launches(dev, averages.update) == cdiv(len(VECTORS), 3)
    for i, one in enumerate(each):
        one.update()
        assert_same_bits(averages.tensors[i].numpy(), one.tensors[0].numpy())


def test_copies_and_what_is_added_later(dev: pk.Device) -> None:
    """A copy by deepcopy has states side by side; a pickled one steps them one by one."""
    ours = some(dev, VECTORS)
    one = pk.SGD(ours, 0.1)
    one.momentum = 0.9
    one.step(some(dev, VECTORS, 1))
    grads = some(dev, VECTORS, 2)
    copied = copy.deepcopy(one)
    pickled, others = pickle.loads(pickle.dumps((one, grads)))
    count = launches(dev, lambda: one.step(grads))
    assert launches(dev, lambda: copied.step(grads)) == count < len(VECTORS)
    assert launches(others[0].device, lambda: pickled.step(others)) == len(VECTORS)
    for other in (copied, pickled):
        for a, b in zip(one._params, other._params, strict=True):
            assert_same_bits(b.numpy(), a.numpy())
        for name, t in one.state_dict().items():
            assert_same_bits(other.state_dict()[name].numpy(), t.numpy(), name)
