"""Clipping by the norm, and flat parameters."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.reference import optim as reference
from tests.harness import Case, Form, assert_close, assert_same_bits, caps, forms

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_clip_by_norm_any_layout(dev: pk.Device, dtype: str) -> None:
    case = Case(dev)
    norms = [case.input(np.float32([n]), Form(phase=i)) for i, n in enumerate((0.5, 2.0, 7.0))]
    values = [case.rng.normal(0, 1, (3, 5, 8)).astype(dtype) for _ in forms(3, repeats=False)]
    views = [
        case.in_place(v, form)
        for v, form in zip(values, forms(3, repeats=False).values(), strict=True)
    ]
    case.build()

    def run() -> None:
        for i, v in enumerate(views):
            kernels.clip_by_norm(norms[i % 3].tensor, v.tensor, max_norm=2.0)

    for i, (got, x) in enumerate(zip(case.run(run), values, strict=True)):
        norm = norms[i % 3].values
        assert norm is not None
        want = reference.clip_by_norm(norm, x, 2.0)
        assert_close(got, want, reference.clip_by_norm_budget(norm, x, 2.0))
        if i % 3 == 0:
            assert_same_bits(got, x)


def test_clip_by_norm_in_parts(dev: pk.Device) -> None:
    x = np.random.default_rng(0).normal(0, 1, (60, 36)).astype(np.float32)
    for changes in ({"max_binding": dev._context.caps.alignment + 2048}, {"max_groups": 2}):
        with caps(dev, **changes):
            t = dev.tensor(x)
            kernels.clip_by_norm(dev.full(1, 4.0), t)
            np.testing.assert_allclose(t.numpy(), x / 4, rtol=1e-6)
    kernels.clip_by_norm(dev.full(1, 4.0), dev.zeros((0, 3)))


@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_clip_grad_norm_scales_all_alike(dev: pk.Device, dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(0, 3, s).astype(dtype) for s in ((7, 9), (5,), (), (300, 40))]
    flat = np.concatenate([a.astype(np.float64).ravel() for a in arrays])
    norm = np.sqrt((flat**2).sum())
    for limit in (1.0, 1e4):
        runs = []
        for _ in range(2):
            grads = [dev.tensor(a) for a in arrays]
            total = pk.clip_grad_norm(grads, limit)
            assert total.shape == () and total.dtype == "float32"
            assert abs(total.item() - norm) <= 2.0**-20 * norm  # sums of blocks, and roots
            runs.append([g.numpy() for g in (*grads, total)])
        for one, other in zip(*runs, strict=True):
            assert_same_bits(one, other)
        for got, a in zip(runs[0], arrays, strict=False):
            if limit > norm:
                assert_same_bits(got, a)
            else:
                want = a.astype(np.float64) * (limit / (norm + 1e-6))
                assert_close(got, want, 2.0**-19 * np.abs(want))
    one = dev.tensor(arrays[0])
    assert pk.clip_grad_norm(one, 0.0).item() > 0
    assert not one.numpy().any()


def test_clip_grad_norm_is_captured(dev: pk.Device) -> None:
    g = dev.ones(64)
    with dev.capture() as program:
        total = pk.clip_grad_norm(g, 4.0)
    program()
    assert total.item() == 8.0
    program()
    assert abs(total.item() - 4.0) < 1e-5
    np.testing.assert_allclose(g.numpy(), 0.5, rtol=1e-6)


def test_flatten_parameters(dev: pk.Device) -> None:
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float16"):
        arrays = [rng.normal(0, 1, s).astype(dtype) for s in ((3, 5), (7,), (), (0, 4), (2, 2, 4))]
        given = [dev.tensor(arrays[0].T.copy()).T, *arrays[1:]]  # any layout, and arrays
        flat, views = pk.flatten_parameters(given)
        assert flat.ndim == 1 and flat.dtype == dtype
        for view, a in zip(views, arrays, strict=True):
            assert view.offset % 16 == 0
            assert_same_bits(view.numpy(), a)
        parts = flat.numpy()
        assert np.count_nonzero(parts) == sum(np.count_nonzero(a) for a in arrays)
        optimizer = pk.SGD(flat, lr=1.0, weight_decay=0.5)
        optimizer.step(dev.zeros(flat.shape, dtype))
        for view, a in zip(views, arrays, strict=True):
            assert_same_bits(view.numpy(), a / 2)


def test_flatten_parameters_takes_a_device(dev: pk.Device) -> None:
    flat, (view,) = pk.flatten_parameters([np.ones(3, np.float32)], device=dev)
    assert flat.device is dev and view.numpy().tolist() == [1, 1, 1]


def test_clip_and_flatten_reject(dev: pk.Device) -> None:
    x, half, whole = dev.ones(3), dev.ones(3, "float16"), dev.ones(3, "int32")
    for match, call in {
        r"\[clip_grad_norm\] grads must be a list of one or more": lambda: pk.clip_grad_norm([], 1),
        r"\[clip_grad_norm\] grads\[1\]|grads\[1\] is int32": lambda: pk.clip_grad_norm(
            [x, whole], 1
        ),
        r"\[clip_grad_norm\] max_norm must be 0 or more": lambda: pk.clip_grad_norm(x, -1),
        r"\[clip_grad_norm\] grads must hold pykernels.Tensors but grads\[0\] is": (
            lambda: pk.clip_grad_norm([np.ones(3)], 1)  # type: ignore[list-item]
        ),
        r"\[clip_by_norm\] norm must have one element": lambda: kernels.clip_by_norm(x, x),
        r"\[flatten_parameters\] .* parameters\[1\] is float16 beside float32": (
            lambda: pk.flatten_parameters([x, half])
        ),
        r"\[flatten_parameters\] .* parameters\[0\] is int32": lambda: pk.flatten_parameters(
            [whole]
        ),
        r"\[flatten_parameters\] .* parameters\[0\] is int64": lambda: pk.flatten_parameters(
            [np.ones(3, np.int64)]
        ),
    }.items():
        with pytest.raises(pk.PyKernelsError, match=match):
            call()


def trained(flat: pk.Tensor) -> None:
    pk.SGD(flat, 0.5).step(flat.device.ones(flat.size))


@pytest.mark.parametrize("way", ("deepcopy", "pickle", "model", "views first"))
def test_copies_of_flat_parameters_share_again(way: str) -> None:
    """A copied model trains what its views see, and leaves the first one alone."""
    arrays = [np.float32([[1, 2, 3]]), np.array(4, np.float32), np.arange(5, dtype=np.float32)]
    flat, views = pk.flatten_parameters(arrays)
    if way == "deepcopy":
        other, seen = copy.deepcopy((flat, views))
    elif way == "pickle":
        other, seen = pickle.loads(pickle.dumps((flat, views)))
    elif way == "views first":
        seen, other = copy.deepcopy((views[::-1], flat))
        seen = seen[::-1]
    else:
        model = copy.deepcopy({"w": views[0], "optimizer": pk.Adam(flat), "flat": flat,
                               "rest": views[1:]})  # fmt: skip
        other, seen = model["flat"], [model["w"], *model["rest"]]
        assert model["optimizer"]._params[0]._storage is other._storage
    trained(other)
    for first, view, a in zip(views, seen, arrays, strict=True):
        assert_same_bits(view.numpy(), a - np.float32(0.5))
        assert_same_bits(first.numpy(), a)
    again = copy.deepcopy(seen[2])  # a copy of a copy, and of a view alone
    trained(other)
    assert_same_bits(again.numpy(), arrays[2] - np.float32(0.5))


def test_a_view_that_is_pickled_alone_is_its_own_elements() -> None:
    flat, (small, large) = pk.flatten_parameters([np.ones(3, "f4"), np.ones(100_000, "f4")])
    data = pickle.dumps(small)
    assert len(data) < 1000 and pickle.loads(data).numpy().tolist() == [1, 1, 1]
    views = pk.flatten_parameters([np.ones(3, "f4"), np.ones(2, "f4")])[1]
    views.append(large[:2])  # of another tensor
    found = pickle.loads(pickle.dumps(views))
    assert [v.numpy().tolist() for v in found] == [[1, 1, 1], [1, 1], [1, 1]]
    trained(found._flat)
    assert [v.numpy().tolist() for v in found] == [[0.5] * 3, [0.5] * 2, [1, 1]]
    assert flat.size == 100_004
