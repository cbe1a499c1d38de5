"""Reductions: values, axes, layouts, pieces, and more workgroups than one row of a grid."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels.forcing import choice, force
from pykernels.plans.reduce.reduction import choose
from pykernels.steps import Caps, Scratch
from pykernels.tuning import named
from tests.harness import Form, caps, forms, random_form

from .reduce_calls import KERNELS, Axis, ReduceCalls

gpu = pytest.mark.gpu
CAPS = Caps(True, False, 256, 256, 16384, 1 << 30, 65535, named("nvidia-h200"))
# Short and long rows and columns, whole vectors and others, axes that lie apart.
SHAPES: list[tuple[tuple[int, ...], Axis]] = [
    ((), None), ((5,), None), ((1, 1), 1), ((7, 33), 1), ((7, 32), -1), ((9, 4), 1), ((300, 3), 1),
    ((64, 128), 0), ((33, 7), 0), ((3000,), None), ((1031,), 0), ((2, 4096), 1), ((4, 9, 12), 1),
    ((3, 5, 70), (0, 2)), ((6, 5, 8), (0, 2)), ((5, 3, 7), None), ((3, 4, 5, 6), (1, 3)),
    ((3, 4), ()), ((513, 4), 0), ((0, 3), 1),
]  # fmt: skip


FEW: list[tuple[tuple[int, ...], Axis]] = [
    ((), None), ((33, 8), 1), ((9, 256), 1), ((5, 31), 0), ((64, 12), 0), ((3, 5, 70), (0, 2)),
]  # fmt: skip
OTHERS = [
    *((name, "float16") for name in KERNELS),
    *((name, dtype) for name in ("sum", "max", "argmax", "all")
      for dtype in ("int32", "uint32", "uint8", "bool")),
    ("min", "int16"), ("prod", "int32"), ("count_nonzero", "bool"), ("mean", "int16"),
    ("any", "bool"),
]  # fmt: skip


@gpu
@pytest.mark.parametrize("name", KERNELS)
def test_reductions_match_their_references(dev: pk.Device, name: str) -> None:
    calls = ReduceCalls(dev)
    for i, (shape, axis) in enumerate(SHAPES):
        calls.add(name, shape, axis, keepdims=i % 2 == 1, form=Form(phase=i // 2 % 2))
    calls.check()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize(("name", "dtype"), OTHERS)
def test_other_dtypes(dev: pk.Device, name: str, dtype: str) -> None:
    calls = ReduceCalls(dev)
    for i, (shape, axis) in enumerate(FEW):
        calls.add(name, shape, axis, dtype=dtype, keepdims=i % 2 == 1, dst=None)
    calls.check()


@gpu
@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
@pytest.mark.parametrize("name", ["sum", "argmax", "var"])
def test_any_layout(dev: pk.Device, name: str, form: str) -> None:
    calls = ReduceCalls(dev)
    layout = forms(3, repeats=True)[form]
    for shape in ((4, 5, 6), (8, 3, 64), (2, 70, 8)):
        for axis in (0, 1, 2, (0, 1), (0, 2), (1, 2), None):
            calls.add(name, shape, axis, form=layout)
    if "repeat" not in form:
        for axis in (0, 1, 2):
            calls.add(name, (4, 5, 6, 8), axis, dst=layout)
    calls.check()


@gpu
@pytest.mark.parametrize("name", ["sum", "min", "argmin", "std"])
def test_random_layouts(dev: pk.Device, name: str) -> None:
    rng = np.random.default_rng(3)
    calls = ReduceCalls(dev)
    for _ in range(25):
        ndim = int(rng.integers(1, 6))
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 12], ndim))
        axes = tuple(int(a) for a in np.flatnonzero(rng.random(ndim) < 0.5))
        out = ndim - len(axes)
        calls.add(name, shape, axes, form=random_form(rng, ndim, repeats=True),
                  dst=random_form(rng, out, repeats=False) if out else None)  # fmt: skip
    calls.check()


@gpu
@pytest.mark.parametrize("name", KERNELS)
def test_pieces(dev: pk.Device, name: str) -> None:
    calls = ReduceCalls(dev)
    calls.add(name, (1, 20_483), 1)
    calls.add(name, (3, 16_388), 1)
    calls.add(name, (700, 40), 0)
    calls.add(name, (2, 600, 3), 1, keepdims=True)
    calls.add(name, (2, 300, 3, 4), (1, 3))
    with force(dev, choice(name, pieces=3)):
        calls.check()


@gpu
@pytest.mark.parametrize("name", ["sum", "argmax", "var", "logsumexp"])
def test_more_states_than_one_workgroup_combines(dev: pk.Device, name: str) -> None:
    calls = ReduceCalls(dev)
    calls.add(name, (9000, 2, 3), (0, 2))
    calls.add(name, (3, 9000, 2), (0, 2), form=Form(order=(1, 2, 0)))
    calls.check()


@gpu
@pytest.mark.parametrize("name", ["sum", "argmin", "std", "all"])
def test_more_than_one_binding_holds(dev: pk.Device, name: str) -> None:
    calls = ReduceCalls(dev)
    for axis in (None, 0, 1, 2, (0, 2), (1, 2)):
        calls.add(name, (10, 30, 50), axis, form=Form(phase=3))
    calls.add(name, (5, 9000), 1)
    calls.add(name, (30, 40, 20), 0, form=Form(order=(2, 0, 1)))
    with caps(dev, max_binding=12_288):
        calls.check()


@pytest.mark.crowd
@gpu
def test_a_long_grid_folds(dev: pk.Device) -> None:
    calls = ReduceCalls(dev)
    calls.add("sum", (1031, 3), 1)
    with caps(dev, max_groups=2):
        calls.check()


@gpu
@pytest.mark.parametrize("name", ["sum", "mean", "var", "logsumexp"])
def test_the_same_call_gives_the_same_bits(dev: pk.Device, name: str) -> None:
    x = dev.tensor(np.random.default_rng(0).normal(size=(3, 40_000)).astype(np.float32))
    with force(dev, choice(name, pieces=4)):
        first = getattr(pk, name)(x, 1).numpy()
        for _ in range(3):
            assert (getattr(pk, name)(x, 1).numpy() == first).all()


def test_choose_keeps_units_busy() -> None:
    units, each = CAPS.tuning.device.units, CAPS.tuning.reduce.groups
    assert choose(CAPS, 1, 1).pieces == 1
    assert choose(CAPS, 1, 100_000).pieces == units * each
    assert choose(CAPS, 64, 512).pieces * 64 <= units * each
    assert choose(CAPS, units * each, 100).pieces == 1
    assert choose(CAPS, units * each, 1280).pieces == 10  # terms that one lane adds


def test_small_calls_are_one_dispatch() -> None:
    from pykernels._generated.kernels.sum import KERNEL
    from pykernels.dtypes import DTYPES
    from pykernels.tensors.layout import View, contiguous_strides

    for shape, axis, steps in (((512, 1000), 1, 1), ((512, 1000), 0, 1), ((20_000,), 0, 1),
                               ((4, 8, 16), (0, 2), 2), ((1 << 20,), 0, 2)):  # fmt: skip
        kept = [n for a, n in enumerate(shape) if a not in ((axis,) if type(axis) is int else axis)]
        views = [
            View(i, DTYPES["float32"], tuple(s), contiguous_strides(s, 4), 0)
            for i, s in enumerate((shape, kept))
        ]
        assert len(KERNEL.plan(CAPS, Scratch(), *views, axis)) == steps, (shape, axis)
