"""cross_entropy and its gradient: against the reference, in any layout, special values, faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.forcing import choice, force
from pykernels.plans.loss.cross_entropy import choose
from pykernels.reference import loss as reference
from pykernels.steps import Caps
from pykernels.tuning import named
from tests.harness import Form, caps, forms
from tests.kernels.loss.loss_calls import DTYPES, LossCalls

COLS = (1, 2, 3, 4, 10, 31, 32, 33, 64, 65, 1000, 1028, 8191, 8193)
KINDS = ("int32", "int64", "same")
INF, NAN = np.inf, np.nan


def test_choose_cuts_rows_where_units_would_be_idle() -> None:
    given = Caps(True, False, 256, 256, 16384, 1 << 27, 65535, named("generic-large"))
    assert choose(given, 8192, 4).pieces == 1
    assert choose(given, 4, 512).pieces > 1
    assert choose(given, 4, 8).pieces == 1  # of too little work
    assert choose(given, 100_000, 8192).pieces == 2  # loops end somewhere


@pytest.mark.gpu
@pytest.mark.sample
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy_matches_reference(dev: pk.Device, dtype: str, kind: str) -> None:
    """Lengths about those that lanes and vectors take, with and without weights and smoothing."""
    calls = LossCalls(dev, len(kind))
    own = dtype if kind == "same" else kind
    for n, cols in enumerate(COLS):
        options: dict[str, Any] = {"reduction": ("mean", "none", "sum")[n % 3]}
        calls.add((7, cols), dtype, own, weighted=n % 2 == 0, **options)
        smoothed = options | {"label_smoothing": 0.1}
        calls.add((3, cols), dtype, own, form=Form(phase=1), weighted=n % 4 == 1, **smoothed)
    calls.check()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ("int32", "float32"))
def test_cross_entropy_in_pieces(dev: pk.Device, kind: str) -> None:
    for pieces in (2, 5, 70):
        with force(dev, choice("cross_entropy", pieces=pieces)):
            calls = LossCalls(dev, pieces)
            calls.add((2, 8193), "float32", kind, weighted=True)
            calls.add((3, 150000), "float32", kind, reduction="none", label_smoothing=0.3)
            calls.check()


@pytest.mark.gpu
@pytest.mark.sample
@pytest.mark.parametrize("form", forms(3, repeats=True))
def test_cross_entropy_in_any_layout(dev: pk.Device, form: str) -> None:
    calls = LossCalls(dev)
    layout = forms(3, repeats=True)[form]
    for n, shape in enumerate(((4, 5, 6), (2, 33, 40), (1, 1, 1), (0, 2, 3))):
        kind = ("int32", "float32", "int64", "int32")[n]
        reduction = ("none", "mean")[n % 2]
        calls.add(shape, "float32", kind, form=layout, reduction=reduction)
        if "repeat" not in form:
            calls.add(shape, "float32", kind, dst_form=layout, reduction=reduction)
            calls.add(shape, "float32", kind, form=layout, in_place=True, reduction=reduction)
        if kind == "float32":
            calls.add(shape, "float32", kind, target_form=layout, reduction=reduction)
    calls.check()


@pytest.mark.gpu
def test_cross_entropy_of_classes_that_lie_apart(dev: pk.Device) -> None:
    """Images: (N, C, H, W), whose rows lie closer together than their classes."""
    calls = LossCalls(dev)
    for cols in (2, 21, 70):
        calls.add((2, 9, 11, cols), "float32", "int32", form=Form(order=(0, 3, 1, 2)))
        calls.add((2, 9, 11, cols), "float16", "float16", form=Form(order=(0, 3, 1, 2)),
                  dst_form=Form(order=(0, 3, 1, 2)))  # fmt: skip
    calls.check()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy_in_parts(dev: pk.Device, dtype: str) -> None:
    """Tensors larger than one binding, without halves of the device's own too."""
    with caps(dev, max_binding=dev._context.caps.alignment + 2048):
        calls = LossCalls(dev)
        for shape in ((70, 36), (2, 3, 20, 33)):
            far = Form(order=tuple(range(len(shape)))[::-1], phase=1)
            calls.add(shape, dtype, "int32", form=Form(gap=3), in_place=True)
            calls.add(shape, dtype, dtype, form=far, reduction="none")
        calls.check()
    with caps(dev, f16=False):
        calls = LossCalls(dev)
        calls.add((5, 300), dtype, "int32", form=Form(phase=1), weighted=True)
        calls.add((5, 12), dtype, dtype, reduction="none")
        calls.check()


@pytest.mark.gpu
def test_cross_entropy_sums_many_rows(dev: pk.Device) -> None:
    """More losses than one workgroup adds."""
    calls = LossCalls(dev)
    calls.add((40_000, 3), "float32", "int32", weighted=True)
    calls.check()
    with caps(dev, max_binding=1 << 18):  # nor does one binding hold them
        calls = LossCalls(dev)
        calls.add((40_000, 3), "float32", "int32", weighted=True)
        calls.check()


@pytest.mark.gpu
def test_cross_entropy_special_values(dev: pk.Device) -> None:
    """NaN and +inf make a row NaN, as do -inf alone; a row that does not count costs nothing."""
    rows = np.array([
        [1, 2, 3, 4], [-INF, 2, 3, 4], [-INF, 2, 3, 4], [INF, 2, 3, 4], [NAN, 2, 3, 4],
        [-INF, -INF, -INF, -INF], [NAN, NAN, 1, 1], [INF, 1, 1, 1], [1e38, -1e38, 0, 0],
        [-NAN, 1, 2, 3],
    ], np.float32)  # fmt: skip
    target = np.array([0, 0, 1, 1, 1, 1, -100, -100, 1, 3], np.int32)
    want = reference.cross_entropy(rows, target, reduction="none")
    assert np.isinf(want[1]) and np.isnan(want[3:6]).all() and (want[6:8] == 0).all()
    stats, dy = dev.empty((10, 2)), dev.ones(10)
    t, dst, dx = dev.tensor(target), dev.empty(10), dev.empty((10, 4))
    for form in (rows, np.tile(rows, (1, 3000))):
        x = dev.tensor(form)
        dx = dev.empty(form.shape)
        kernels.cross_entropy(x, t, dst, stats=stats, reduction="none")
        kernels.cross_entropy_backward(x, t, stats, dy, dx)
        found = dst.numpy()
        expected = reference.cross_entropy(form, target, reduction="none")
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        lost = np.isnan(dx.numpy()).all(1)
        assert lost.tolist() == np.isnan(expected).tolist()
        assert (dx.numpy()[6:8] == 0).all()
    assert np.isnan(pk.cross_entropy(x[6:8], t[6:8]).item())
    assert pk.cross_entropy(x[6:8], t[6:8], reduction="sum").item() == 0


@pytest.mark.gpu
def test_cross_entropy_reports_classes_out_of_range(dev: pk.Device) -> None:
    for kind in ("int32", "int64"):
        target = np.zeros((3, 50), kind)
        target[1, 7] = -3
        target[2, 9] = 5
        target[0, 2] = -100
        x, dst = dev.rand((3, 50, 5), seed=0), dev.empty((3, 50))
        told = r"\[cross_entropy\] target must be in \[0, 5\) but is -3 at position \(1, 7\)"
        kernels.cross_entropy(x, dev.tensor(target), dst, reduction="none")
        with pytest.raises(pk.IndexRangeError, match=told):
            dev.sync()
        assert (dst.numpy() == 0).sum() == 3
        kernels.cross_entropy(x, dev.tensor(target), dst, reduction="none", ignore_index=-3)
        with pytest.raises(pk.IndexRangeError, match=r"but is -100 at position \(0, 2\)"):
            dev.sync()
    far = dev.tensor(np.array([(1 << 40) + 1, 0]))  # its lower word is a class
    given = x[0, :2], far, dst[0, :2]
    kernels.cross_entropy(*given, reduction="none", ignore_index=(1 << 40) + 1)
    dev.sync()
    kernels.cross_entropy(*given, reduction="none")
    with pytest.raises(pk.IndexRangeError, match=f"but is {(1 << 40) + 1} at position"):
        dev.sync()


@pytest.mark.gpu
def test_cross_entropy_is_the_same_each_time(dev: pk.Device) -> None:
    x, t = dev.rand((300, 1000), seed=0), dev.tensor(np.arange(300, dtype=np.int32))
    first = pk.cross_entropy(x, t).numpy()
    assert all(pk.cross_entropy(x, t).numpy() == first for _ in range(5))


@pytest.mark.gpu
def test_cross_entropy_rejects(dev: pk.Device) -> None:
    x, t, one = dev.ones((3, 4)), dev.zeros(3, "int32"), dev.empty(())
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy\] target must have shape \(3,\)"):
        kernels.cross_entropy(x, dev.zeros(4, "int32"), one)
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy\] target must have shape \(3, 4\)"):
        kernels.cross_entropy(x, dev.zeros(3), one)
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy\] weight must have shape \(4,\)"):
        kernels.cross_entropy(x, t, one, weight=dev.ones(3))
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy\] dst must have shape \(\) for"):
        kernels.cross_entropy(x, t, dev.empty(3))
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy\] x must have classes along"):
        kernels.cross_entropy(dev.ones((3, 0)), t, one)
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy\] total must have shape \(\), for"):
        kernels.cross_entropy(x, t, dev.empty(3), total=one, reduction="none")
    with pytest.raises(pk.ArgumentError, match=r"reduction must be 'none', 'mean' or 'sum' but"):
        kernels.cross_entropy(x, t, one, reduction="all")  # type: ignore[arg-type]
    with pytest.raises(pk.ArgumentError, match=r"label_smoothing must be from 0 to 1 but is 1.5"):
        kernels.cross_entropy(x, t, one, label_smoothing=1.5)
    stats = dev.ones((3, 2))
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy_backward\] stats must have shape"):
        kernels.cross_entropy_backward(x, t, dev.ones((3, 3)), one, x)
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy_backward\] dy must have shape \(\)"):
        kernels.cross_entropy_backward(x, t, stats, dev.ones(4), x)
    with pytest.raises(pk.ShapeError, match=r"\[cross_entropy_backward\] total and dy must have"):
        kernels.cross_entropy_backward(x, t, stats, dev.ones(3), x, total=one)
    assert (x.numpy() == 1).all()
    if not dev._context.caps.f16:  # all are float32 there
        return
    half = dev.ones((3, 4), "float16")
    with pytest.raises(
        pk.DTypeError, match=r"\[cross_entropy\] target must be int32, int64 or have"
    ):
        kernels.cross_entropy(x, half, one)
    with pytest.raises(pk.DTypeError, match=r"\[cross_entropy\] weight must have the dtype of x"):
        kernels.cross_entropy(x, t, one, weight=half[0])
    with pytest.raises(
        pk.DTypeError, match=r"\[cross_entropy_backward\] dy must have the dtype of dst"
    ):
        kernels.cross_entropy_backward(x, t, stats, half[0, 0], x)
