"""group_norm, batch_norm, and their gradients: images of all layouts, vectors, few and many."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from tests.harness import Form, caps
from tests.kernels.norm.norm_calls import DTYPES, NormCalls

pytestmark = pytest.mark.gpu

# Shapes and groups: groups in registers, with and without vectors; in pieces; one pixel; one group.
SHAPES = [
    ((3, 6, 4, 4), 2), ((2, 6, 3, 5), 3), ((2, 4, 12, 20), 4), ((1, 8, 70, 60), 2), ((5, 6), 3),
    ((2, 6, 7), 1), ((2, 3, 2, 2, 3), 3),
]  # fmt: skip
FORMS = {
    "contiguous": lambda ndim: Form(),
    "channels_last": lambda ndim: Form(order=(0, *range(2, ndim), 1)),
    "images_innermost": lambda ndim: Form(order=(*range(1, ndim), 0), phase=1),
    "apart": lambda ndim: Form(gap=3, phase=5),
    "backwards": lambda ndim: Form(steps=(-1,) * ndim),
}


def add_all(
    calls: NormCalls, shape: tuple[int, ...], groups: int, dtype: str, form: Form | None = None,
    in_place: bool = False,
) -> None:  # fmt: skip
    """One call of each."""
    rng, c = calls.rng, shape[1:2]
    x = (rng.normal(0, 1, shape) + (300 if dtype == "float32" else 3)).astype(dtype)
    dy = rng.normal(0, 1, shape).astype(dtype)
    w, b = (rng.normal(1, 0.5, c).astype("float32") for _ in range(2))
    mean, variance = (rng.normal(2, 0.3, c).astype("float32") for _ in range(2))
    named = ("x", "dy", "dst") if form else ()
    forms = {n: form for n in named if form is not None}
    of_x, of_dy = ("x", "dy") if in_place else ("", "")
    affine = {"weight": w, "bias": b}
    out, both = {"dst": shape}, {"dweight": c, "dbias": c, "dst": shape}
    kept = {"running_mean": "float32", "running_variance": "float32", "saved": "float32"}
    wide = {"dweight": "float32", "dbias": dtype}
    calls.add("group_norm", {"x": x, **affine}, out, forms=forms, groups=groups, in_place=of_x)
    calls.add("batch_norm", {"x": x, "mean": mean, "variance": variance, **affine}, out,
              forms=forms, eps=1e-3, in_place=of_x)  # fmt: skip
    calls.add("group_norm_backward", {"dy": dy, "x": x, "weight": w}, both, forms=forms,
              dtypes=wide, groups=groups, in_place=of_dy)  # fmt: skip
    if x.size > shape[1]:
        calls.add("batch_norm_training", {"x": x, "weight": w}, {"saved": (3, *c), **out},
                  forms=forms, dtypes=kept, in_place=of_x)  # fmt: skip
        axes = (0, *range(2, x.ndim))
        wide_x = x.astype(np.float64)
        middle = wide_x.mean(axes)
        first = middle.astype("f4")
        squares = wide_x.var(axes) * (x.size // shape[1])
        saved = np.stack([first, (middle - first).astype("f4"), squares.astype("f4")])
        calls.add("batch_norm_backward", {"dy": dy, "x": x, "saved": saved, "weight": w}, both,
                  forms=forms, dtypes=wide, in_place=of_dy)  # fmt: skip


@pytest.mark.sample
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm_matches_reference(dev: pk.Device, dtype: str, form: str) -> None:
    calls = NormCalls(dev)
    for shape, groups in SHAPES:
        add_all(calls, shape, groups, dtype, FORMS[form](len(shape)))
    calls.check()


def test_group_norm_of_vectors_images_and_in_place(dev: pk.Device) -> None:
    """One call of each kind that stands for the others where those are sampled."""
    calls = NormCalls(dev)
    for (shape, groups), form in zip(SHAPES, ("contiguous", "channels_last") * 4, strict=False):
        add_all(calls, shape, groups, "float32", FORMS[form](len(shape)))
    add_all(calls, (2, 4, 4, 8), 2, "float32", in_place=True)
    calls.check()


def test_group_norm_of_one_channel(dev: pk.Device) -> None:
    calls = NormCalls(dev)
    add_all(calls, (3, 1, 4, 5), 1, "float32")
    calls.check()


def test_group_norm_without_parameters(dev: pk.Device) -> None:
    calls = NormCalls(dev)
    x, dy = (calls.rng.normal(1, 1, (3, 4, 6, 6)).astype("f4") for _ in range(2))
    calls.add("group_norm", {"x": x}, {"dst": x.shape}, groups=2)
    calls.add("group_norm", {"x": x, "bias": x[0, :, 0, 0]}, {"dst": x.shape}, groups=4)
    calls.add("group_norm_backward", {"dy": dy, "x": x}, {"dst": x.shape}, groups=2)
    calls.add("batch_norm_training", {"x": x, "bias": x[0, :, 0, 0]}, {"dst": x.shape})
    calls.check()


def test_group_norm_without_native_halves_and_in_parts(dev: pk.Device) -> None:
    with caps(dev, f16=False):
        calls = NormCalls(dev)
        add_all(calls, (2, 4, 4, 8), 2, "float16")
        calls.check()
    with caps(dev, max_binding=dev._context.caps.alignment + 4096):
        calls = NormCalls(dev)
        for shape in ((4, 6, 10, 10), (300, 20)):
            add_all(calls, shape, 2, "float32")
        calls.check()


def test_batch_norm_training_keeps_running_statistics(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    mean, variance = dev.zeros(5), dev.ones((5, 2))[:, 0]
    want = [np.zeros(5), np.ones(5)]
    for _ in range(2):
        x = rng.normal(3, 2, (8, 5, 3)).astype("f4")
        kernels.batch_norm_training(
            dev.tensor(x), dev.empty(x.shape), running_mean=mean, running_variance=variance,
            momentum=0.25,
        )  # fmt: skip
        now = x.mean((0, 2), dtype="f8"), x.var((0, 2), dtype="f8", ddof=1)
        want = [before * 0.75 + new * 0.25 for before, new in zip(want, now, strict=True)]
    np.testing.assert_allclose(mean.numpy(), want[0], 1e-6)
    np.testing.assert_allclose(variance.numpy(), want[1], 1e-6)


def test_group_norm_of_nothing(dev: pk.Device) -> None:
    for shape in ((0, 4, 3), (2, 4, 0), (2, 0, 3)):
        x, w = dev.zeros(shape), dev.ones(shape[1])
        kernels.group_norm(x, dev.zeros(shape), groups=1)
        kernels.batch_norm_training(x, dev.zeros(shape))
        kernels.group_norm_backward(x, x, dev.zeros(shape), dweight=w, groups=1)
        assert not w.numpy().any()


def test_group_norm_rejects(dev: pk.Device) -> None:
    x, dst = dev.ones((2, 4, 3)), dev.zeros((2, 4, 3))
    with pytest.raises(pk.ArgumentError, match=r"\[group_norm\] groups must divide 4 channels"):
        kernels.group_norm(x, dst, groups=3)
    with pytest.raises(pk.ShapeError, match=r"\[group_norm\] x must have two or more axes"):
        kernels.group_norm(dev.ones(4), dev.ones(4))
    with pytest.raises(pk.ShapeError, match=r"\[batch_norm\] mean must have shape \(4,\)"):
        kernels.batch_norm(x, dev.ones(3), dev.ones(4), dst)
    with pytest.raises(pk.ArgumentError, match=r"running_mean and running_variance go together"):
        kernels.batch_norm_training(x, dst, running_mean=dev.ones(4))
    with pytest.raises(pk.ShapeError, match=r"a channel must have two or more elements"):
        kernels.batch_norm_training(dev.ones((1, 4)), dev.ones((1, 4)))
    with pytest.raises(pk.ShapeError, match=r"saved must have shape \(3, 4\)"):
        kernels.batch_norm_backward(x, x, dev.ones((2, 4)), dst)
    with pytest.raises(pk.DTypeError, match=r"\[group_norm_backward\] x must have the dtype of dy"):
        kernels.group_norm_backward(x, dev.ones((2, 4, 3), "float16"), dst)
    assert not dst.numpy().any()


def test_batch_norm_of_channels_last_with_one_weight(dev: pk.Device) -> None:
    """Statistics come in vectors, and a weight that repeats does not."""
    rng = np.random.default_rng(0)
    x, mean, var = rng.normal(size=(2, 3, 3, 8)).astype("f4"), rng.normal(size=8), rng.random(8) + 1
    mean, var = mean.astype("f4"), var.astype("f4")
    weight = dev.tensor(np.array([2.0], "f4")).broadcast_to((8,))
    t = dev.tensor(x).permute((0, 3, 1, 2))
    got = pk.batch_norm(t, dev.tensor(mean), dev.tensor(var), weight).numpy()
    want = 2 * (x.astype("f8") - mean) / np.sqrt(var.astype("f8") + 1e-5)
    np.testing.assert_allclose(got.transpose(0, 2, 3, 1), want, rtol=1e-5, atol=1e-6)
