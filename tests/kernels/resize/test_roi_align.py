"""roi_align and nms: samples inside and outside of images, layouts, gradients, and suppression."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.resize import (
    roi_align,
    roi_align_backward,
    roi_align_backward_budget,
    roi_align_budget,
)
from tests.harness import Array, Case, assert_close, caps, random_form

pytestmark = pytest.mark.gpu

BOXES = np.array(
    [[0.3, 0.6, 5.2, 4.1], [-3.4, -2.2, 2.7, 3.3], [4.1, 2.6, 19.4, 11.7], [2.2, 2.3, 2.4, 2.2],
     [30.5, 1.5, 33.6, 4.4], [-9.7, -8.3, 40.1, 50.2], [6.3, 5.4, 1.2, 2.1]], np.float32,
)  # fmt: skip
INDEX = np.array([1, 0, 2, 1, 0, 2, 0], np.int32)
OPTIONS: list[dict[str, Any]] = [
    {"sampling_ratio": ratio, "aligned": aligned, "spatial_scale": scale}
    for ratio, aligned, scale in itertools.product((0, 2), (False, True), (1.0, 0.4375))
]


def image(rng: np.random.Generator, dtype: str = "f4") -> Array:
    found: Array = rng.normal(size=(3, 5, 9, 12)).astype(dtype)
    return found


def allowed(bound: Array, want: Array, dtype: str) -> Array:
    """With the rounding of the result."""
    found: Array = bound if dtype == "f4" else bound + 2.0**-10 * np.abs(want) + 2.0**-24
    return found


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_matches_its_reference(dev: pk.Device, dtype: str, mode: Any) -> None:
    case = Case(dev, seed=1)
    calls = []
    for options, odd in itertools.product(OPTIONS, (False, True)):
        x, shape = image(case.rng, dtype), (7, 5, 3, 4)
        forms = [random_form(case.rng, n, repeats=False) if odd else None for n in (4, 2, 1, 4)]
        given = [case.input(a, f) for a, f in zip((x, BOXES, INDEX), forms, strict=False)]
        calls.append((given, x, case.output(shape, x.dtype.name, forms[3]), options))
    case.build()

    def run() -> None:
        for given, _, dst, options in calls:
            pk.kernels.roi_align(*[g.tensor for g in given], dst.tensor, mode=mode, **options)

    for got, (_, x, _, options) in zip(case.run(run), calls, strict=True):
        want = roi_align(x, BOXES, INDEX, got.shape, mode=mode, **options)
        bound = roi_align_budget(x, BOXES, INDEX, got.shape, mode=mode, **options)
        assert_close(got, want, allowed(bound, want, dtype), str(options))


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_backward_matches_its_reference(dev: pk.Device, dtype: str) -> None:
    case = Case(dev, seed=2)
    calls = []
    for options, odd in itertools.product(OPTIONS, (False, True)):
        dy = case.rng.normal(size=(7, 5, 3, 4)).astype(dtype)
        forms = [random_form(case.rng, n, repeats=False) if odd else None for n in (4, 2, 1, 4)]
        given = [case.input(a, f) for a, f in zip((dy, BOXES, INDEX), forms, strict=False)]
        calls.append((given, dy, case.output((3, 5, 9, 12), dy.dtype.name, forms[3]), options))
    case.build()

    def run() -> None:
        for given, _, dst, options in calls:
            pk.kernels.roi_align_backward(*[g.tensor for g in given], dst.tensor, **options)

    for got, (_, dy, _, options) in zip(case.run(run), calls, strict=True):
        want = roi_align_backward(dy, BOXES, INDEX, got.shape, **options)
        bound = roi_align_backward_budget(dy, BOXES, INDEX, got.shape, **options)
        assert_close(got, want, allowed(bound, want, dtype), str(options))


def test_whole_pixels_are_exact(dev: pk.Device) -> None:
    """Samples in the middles of pixels are the pixels."""
    x = dev.tensor(np.arange(48, dtype="f4").reshape(1, 1, 6, 8))
    boxes = dev.tensor(np.array([[1, 2, 5, 5]], "f4"))
    got = pk.roi_align(x, boxes, None, (3, 4), aligned=True)
    assert (got.numpy()[0, 0] == x.numpy()[0, 0, 2:5, 1:5]).all()


def test_samples_one_pixel_outside_count_and_no_further_ones(dev: pk.Device) -> None:
    """A sample at -1 or at the size of the image reads the pixel at the edge, and 0 beyond."""
    x = dev.tensor(np.arange(1, 13, dtype="f4").reshape(1, 1, 3, 4))
    inside, outside = [[-2, -2, 0, 0], [3, 2, 5, 4]], [[-2.5, -2, 0, 0], [3, 2, 5, 4.5]]
    boxes = dev.tensor(np.array(inside + outside, "f4"))
    got = pk.roi_align(x, boxes, dev.zeros(4, "int32"), (1, 1), sampling_ratio=1)
    assert got.numpy().ravel().tolist() == [1, 12, 0, 0]


def test_functions_take_what_torchvision_takes(dev: pk.Device) -> None:
    x = image(np.random.default_rng(3))
    want = pk.roi_align(x, BOXES, INDEX, 3, sampling_ratio=2)
    assert isinstance(want, np.ndarray)
    five = np.concatenate([INDEX[:, None].astype("f4"), BOXES], 1)
    for index in (INDEX.astype("i8"), None):
        boxes = five if index is None else BOXES
        assert (pk.roi_align(x, boxes, index, (3, 3), 1.0, 2) == want).all()
    out = dev.empty((7, 5, 3, 3))
    halves = BOXES.astype("f2").astype("f4")
    pk.roi_align(dev.tensor(x), halves.astype("f2"), INDEX, 3, out=out)
    assert (out.numpy() == pk.roi_align(x, halves, INDEX, 3)).all()


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_gradients(dev: pk.Device, mode: Any, dtype: str) -> None:
    rng = np.random.default_rng(4)
    x = image(rng, dtype)
    t, dy = dev.tensor(x), rng.normal(size=(7, 5, 2, 3)).astype(dtype)
    options: dict[str, Any] = {"spatial_scale": 0.75, "mode": mode}
    with pk.Tape() as tape:
        y = pk.roi_align(t, dev.tensor(BOXES), dev.tensor(INDEX), (2, 3), **options)
    found = tape.gradient(y, t, dev.tensor(dy)).numpy()
    way = rng.normal(size=x.shape)
    h = 1e-6
    ends = [
        (roi_align(x.astype("f8") + s * way, BOXES, INDEX, (7, 5, 2, 3), **options) * dy).sum()
        for s in (h, -h)
    ]
    terms = found * way
    allowed_ = (1e-5 if dtype == "f4" else 2e-3) * (np.abs(terms).sum() + 1)
    assert abs(terms.sum() - (ends[0] - ends[1]) / (2 * h)) < allowed_


@pytest.mark.once
def test_second_gradients_of_the_mean(dev: pk.Device) -> None:
    """The gradient is linear in dy."""
    rng = np.random.default_rng(5)
    t, dy = dev.tensor(image(rng)), dev.rand((7, 5, 2, 3), seed=1)
    u = image(rng)
    with pk.Tape() as outer:
        with pk.Tape() as inner:
            y = pk.roi_align(t, dev.tensor(BOXES), dev.tensor(INDEX), (2, 3))
        loss = pk.sum(inner.gradient(y, t, dy) * dev.tensor(u))
    want = roi_align(u, BOXES, INDEX, (7, 5, 2, 3))
    assert_close(outer.gradient(loss, dy).numpy(), want,
                 roi_align_budget(u, BOXES, INDEX, (7, 5, 2, 3)) * 2)  # fmt: skip


def test_parts_and_long_grids(dev: pk.Device) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(1, 12, 20, 20)).astype("f4")
    index = np.zeros(7, np.int32)
    want = roi_align(x, BOXES, index, (7, 12, 6, 6))
    bound = roi_align_budget(x, BOXES, index, (7, 12, 6, 6))
    for changes in ({"max_binding": 8192}, {"max_groups": 2}):
        with caps(dev, **changes):
            got = pk.roi_align(dev.tensor(x), dev.tensor(BOXES), dev.tensor(index), 6)
            assert_close(got.numpy(), want, bound)


def test_strange_boxes_end(dev: pk.Device) -> None:
    """Infinite, undefined and huge corners take no long loops, and give numbers for other boxes."""
    boxes = BOXES.copy()
    boxes[1:6] = [[np.nan] * 4, [-np.inf, 0, np.inf, 3], [0, 0, 3e38, 3e38],
                  [-1e9, -1e9, 1e9, 1e9], [5e8, 5e8, 6e8, 6e8]]  # fmt: skip
    x = image(np.random.default_rng(7))
    for mode, aligned in itertools.product(("avg", "max"), (False, True)):
        options: Any = {"mode": mode, "aligned": aligned}
        t = dev.tensor(x)
        with pk.Tape() as tape:
            y = pk.roi_align(t, dev.tensor(boxes), dev.tensor(INDEX), 2, **options)
        tape.gradient(y, t, dev.ones(y.shape)).numpy()
        rest = [0, 6]
        want = roi_align(x, boxes[rest], INDEX[rest], (2, 5, 2, 2), **options)
        bound = roi_align_budget(x, boxes[rest], INDEX[rest], (2, 5, 2, 2), **options)
        assert_close(y.numpy()[rest], want, bound)


def test_what_is_refused(dev: pk.Device) -> None:
    x, boxes, index = dev.zeros((2, 1, 4, 4)), dev.zeros((3, 4)), dev.zeros(3, "int32")
    with pytest.raises(pk.ArgumentError, match=r"\[roi_align\] index must be given"):
        pk.roi_align(x, boxes, None, 2)
    with pytest.raises(pk.ShapeError, match=r"\[roi_align\] boxes must be \(R, 4\)"):
        pk.roi_align(x, boxes[:, :3], index, 2)
    with pytest.raises(pk.ShapeError, match=r"\[roi_align\] index must have shape \(3,\)"):
        pk.roi_align(x, boxes, index[:2], 2)
    with pytest.raises(pk.ArgumentError, match="mode must be"):
        pk.roi_align(x, boxes, index, 2, mode="min")  # type: ignore[arg-type]
    with pytest.raises(pk.LimitError, match="sampling_ratio 200"):
        pk.roi_align(x, boxes, index, 2, sampling_ratio=200)
    with pytest.raises(pk.ShapeError, match="must have pixels"):
        pk.roi_align(x[:, :, :0], boxes, index, 2)
    for wrong in (2, -1):
        pk.roi_align(x, boxes, dev.tensor(np.array([0, wrong, 1], "i4")), 2)
        with pytest.raises(pk.IndexRangeError, match=rf"but is {wrong} at position \(1,\)"):
            dev.sync()


# -- nms ------------------------------------------------------------------------------------------


def test_nms_keeps_the_better_boxes(dev: pk.Device) -> None:
    boxes = np.array([[0, 0, 4, 4], [1, 0, 5, 4], [4, 4, 0, 0], [6, 6, 8, 8], [0, 0, 4, 2]], "f4")
    scores = np.array([0.5, 0.9, 0.4, 0.7, 0.6], "f4")
    # 1 overlaps 0 and 2 by 12 / 20, and 4 by 6 / 18.
    assert pk.nms(boxes, scores, 0.5).tolist() == [1, 3, 4]
    assert pk.nms(boxes, scores, 0.6).tolist() == [1, 3, 4, 0]
    assert pk.nms(boxes, scores, 0.3).tolist() == [1, 3]
    assert pk.nms(boxes, scores, 0.6, score_threshold=0.5).tolist() == [1, 3, 4]
    assert pk.nms(boxes, scores, 0.6, max_boxes=1).tolist() == [1]
    got = pk.nms(dev.tensor(boxes), dev.tensor(scores.astype("f2")), 0.5)
    assert (got.dtype, got.numpy().tolist()) == ("int32", [1, 3, 4])
    centred = np.stack([boxes[:, :2].mean(1)] * 4, 1)
    assert pk.nms(centred[:0], scores[:0], 0.5).shape == (0,)


def test_nms_of_batches(dev: pk.Device) -> None:
    rng = np.random.default_rng(8)
    middle = rng.uniform(0, 10, (2, 30, 2))
    boxes = np.concatenate([middle, rng.uniform(1, 5, (2, 30, 2))], 2).astype("f4")
    scores = rng.random((2, 3, 30)).astype("f4")
    got = pk.nms(dev.tensor(boxes), dev.tensor(scores), 0.4, center=True, max_boxes=6).numpy()
    corners = np.concatenate([boxes[..., :2] - boxes[..., 2:] / 2,
                              boxes[..., :2] + boxes[..., 2:] / 2], 2)  # fmt: skip
    want = [
        [b, c, k] for b in range(2) for c in range(3)
        for k in pk.nms(corners[b], scores[b, c], 0.4, max_boxes=6)
    ]  # fmt: skip
    assert got.tolist() == want


def test_what_nms_refuses(dev: pk.Device) -> None:
    boxes, scores = dev.zeros((3, 4)), dev.zeros(3)
    with pytest.raises(pk.ShapeError, match=r"\[nms\] boxes and scores must be"):
        pk.nms(boxes, scores[:2], 0.5)
    with pytest.raises(pk.ArgumentError, match="iou_threshold must be from 0 to 1"):
        pk.nms(boxes, scores, 1.5)
    with pytest.raises(pk.DTypeError, match=r"\[nms\] boxes must be float32, float16 or bfloat16"):
        pk.nms(boxes.astype("int32"), scores, 0.5)
