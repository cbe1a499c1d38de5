"""Functions of pools and conv1d: torch's values and gradients, layouts of results, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels import kernels
from pykernels.plans.pool import backward
from pykernels.reference import pool as reference
from tests.harness import Array, assert_same_bits

pytestmark = pytest.mark.gpu

CASES = json.loads(Path(__file__).with_name("torch_values.json").read_text(encoding="utf-8"))
NAMES = sorted({case["name"] for case in CASES})


def array(tensor: dict[str, Any], dtype: str = "float32") -> Any:
    return np.array(tensor["values"], dtype).reshape(tensor["shape"])


def arguments(case: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in case["args"].items()}


@pytest.mark.once
@pytest.mark.parametrize("name", NAMES)
def test_torchs_values_and_gradients(dev: pk.Device, name: str) -> None:
    for case in (c for c in CASES if c["name"] == name):
        args, told = arguments(case), f"{name} {case['args']}"
        inputs = [dev.tensor(array(case[f"input{i}"])) for i in range(case["inputs"])]
        more = [dev.tensor(array(case["indices"], "int64"))] if "indices" in case else []
        seed = dev.tensor(array(case["dy"]))
        with pk.Tape() as tape:
            y = getattr(pk, name)(*inputs, *more, **args)
        want = array(case["y"])
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6, atol=1e-6, err_msg=told)
        for i, found in enumerate(tape.gradient(y, inputs, seed)):
            grad = array(case[f"gradient{i}"])
            np.testing.assert_allclose(found.numpy(), grad, rtol=1e-6, atol=1e-6, err_msg=told)
        if "index" in case:
            values, index = getattr(pk, name)(*inputs, **args, return_indices=True)
            assert_same_bits(values.numpy(), want, told)
            assert index.numpy().tolist() == array(case["index"], "int64").tolist(), told


@pytest.mark.once
def test_the_tape_finds_positions_that_nobody_kept(dev: pk.Device) -> None:
    """Of kernels that were called without an index; images and dy have their channels last."""
    x = np.random.default_rng(7).normal(size=(2, 6, 7, 4)).astype("float32").transpose(0, 3, 1, 2)
    t = dev.tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
    calls: list[tuple[Any, dict[str, Any], tuple[int, int]]] = [
        (kernels.max_pool2d, {"kernel": 3, "stride": 2, "padding": 1}, (3, 4)),
        (kernels.adaptive_max_pool2d, {}, (2, 3)),
    ]
    for run, options, size in calls:
        dst = dev.empty((2, 4, *size))
        seed = dev.rand((2, *size, 4), seed=8)
        with pk.Tape() as tape:
            run(t, dst, **options)
            loss = pk.sum(dst.transpose(0, 2, 3, 1) * seed)
        (found,) = tape.gradient(loss, [t])
        index = getattr(reference, run.__name__)(x, dst.shape, index=x, **options)[1]
        back = getattr(reference, f"{run.__name__}_backward")
        want = back(seed.numpy().transpose(0, 3, 1, 2), index, x.shape, **options)
        np.testing.assert_allclose(found.numpy(), want, atol=1e-6)


@pytest.mark.once
def test_gradients_of_functions(dev: pk.Device) -> None:
    """With torch's arguments and sizes, of images without N and of numpy arrays."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 7, 8)).astype("float32")
    y, index = pk.max_pool2d(x, 3, 2, 1, return_indices=True)
    dy = rng.normal(size=y.shape).astype("float32")
    got = pk.max_pool2d_backward(dy, index, x.shape, 3, 2, 1)
    shape, windows = (1, *x.shape), {"kernel": 3, "stride": 2, "padding": 1}
    want = reference.max_pool2d_backward(dy[None], index[None], shape, **windows)[0]
    np.testing.assert_allclose(got, want, atol=1e-6)
    got = pk.avg_pool2d_backward(dev.tensor(dy), x.shape, 3, 2, 1, False).numpy()
    want = reference.avg_pool2d_backward(dy[None], shape, **windows, count_include_pad=False)[0]
    np.testing.assert_allclose(got, want, atol=1e-6)
    for size in (1, (2, 3)):
        out = dev.empty(x.shape)
        values, index = pk.adaptive_max_pool2d(x, size, return_indices=True)
        found = pk.adaptive_max_pool2d_backward(values, index, x.shape)
        want = reference.adaptive_max_pool2d_backward(values[None], index[None], shape)[0]
        np.testing.assert_allclose(found, want, atol=1e-6)
        given = dev.tensor(pk.adaptive_avg_pool2d(x, size))
        assert pk.adaptive_avg_pool2d_backward(given, x.shape, out=out) is out
        want = reference.adaptive_avg_pool2d_backward(given.numpy()[None], shape)[0]
        np.testing.assert_allclose(out.numpy(), want, atol=1e-6)


@pytest.mark.once
def test_gradients_of_conv1d_are_those_of_conv2d(dev: pk.Device) -> None:
    rng = np.random.default_rng(2)
    x, w, dy = (rng.normal(size=s).astype("float32") for s in ((2, 4, 9), (6, 2, 3), (2, 6, 4)))
    args: dict[str, Any] = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}
    pairs = {**args, "stride": (1, 2), "padding": (0, 1), "dilation": (1, 2)}
    x2, w2, dy2 = x[:, :, None], w[:, :, None], dy[:, :, None]
    back = pk.conv1d_backward_input(dy, w, x.shape, **args)
    assert_same_bits(back, pk.conv2d_backward_input(dy2, w2, x2.shape, **pairs)[:, :, 0])
    weight = pk.conv1d_backward_weight(dev.tensor(dy), x, w.shape, **args).numpy()
    assert_same_bits(weight, pk.conv2d_backward_weight(dy2, x2, w2.shape, **pairs)[:, :, 0])
    assert_same_bits(pk.conv1d_backward_bias(dy[0]), pk.conv2d_backward_bias(dy2[0]))
    one = pk.conv1d(x[0], w, **args, activation="relu")
    assert_same_bits(one, np.maximum(pk.conv1d(x, w, **args)[0], 0))
    out = dev.empty((4, 9))
    assert pk.conv1d_backward_input(dy[0], w, (4, 9), **args, out=out) is out


@pytest.mark.parametrize("dtype", ("float32", "float16"))
def test_results_lie_as_images_do(dev: pk.Device, dtype: Any) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (2, 4, 6, 8)).astype(dtype)
    last = dev.tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
    found, index = pk.max_pool2d(last, 3, 2, 1, return_indices=True)
    plain, at = pk.max_pool2d(dev.tensor(x), 3, 2, 1, return_indices=True)
    assert found.strides[1] == found.itemsize and plain.contiguous
    assert_same_bits(found.numpy(), plain.numpy())
    assert_same_bits(index.numpy(), at.numpy())
    wide = dev.zeros((2, 4, 3, 8), dtype)
    assert pk.avg_pool2d(last, 2, out=wide[..., ::2]).shape == (2, 4, 3, 4)
    assert_same_bits(wide[..., ::2].numpy(), pk.avg_pool2d(x, 2))
    assert not wide[..., 1::2].numpy().any()


def test_sizes(dev: pk.Device) -> None:
    empty = dev.zeros((0, 3, 8, 8))
    assert pk.max_pool2d(empty, 2).shape == (0, 3, 4, 4)
    assert pk.avg_pool1d(empty[:, 0], 2).shape == (0, 8, 4)
    assert pk.adaptive_avg_pool2d(empty, 1).shape == (0, 3, 1, 1)
    assert pk.max_pool2d(dev.zeros((1, 1, 2, 2)), 3, 2, ceil_mode=True).shape == (1, 1, 1, 1)
    view = dev.zeros((3, 5, 7))[..., ::2]
    unpooled = pk.max_unpool2d(dev.ones((3, 2, 2)), dev.zeros((3, 2, 2), "int32"), (2, 2), (3, 2),
                               out=view)  # fmt: skip
    assert unpooled is view and view.numpy().sum() == 3 and view.numpy()[:, 0, 0].all()


def test_pools_reject(dev: pk.Device) -> None:
    x, y = dev.zeros((1, 2, 6, 6)), dev.zeros((1, 2, 3, 3))
    index = y.astype("int32")
    calls: list[tuple[Any, type[Exception], str]] = [
        (lambda: pk.max_pool2d(x, 3, padding=2), pk.ArgumentError,
         r"\[max_pool2d\] padding must be at most half of a window's reach, 1, but is 2"),
        (lambda: pk.max_pool1d(x[0], 2, padding=2), pk.ArgumentError, r"\[max_pool1d\] padding"),
        (lambda: pk.max_pool2d(x, 7), pk.ShapeError, r"\[max_pool2d\] the image with its padding"),
        (lambda: pk.max_pool2d(x, 0), pk.ArgumentError, "kernel_size must be .* of 1 or"),
        (lambda: pk.max_pool2d(x, 2, 0), pk.ArgumentError, "stride must be .* of 1 or"),
        (lambda: pk.max_pool2d(x, (1, 2, 3)), pk.ArgumentError, "kernel_size must be"),
        (lambda: pk.max_pool1d(x[0], (2, 2)), pk.ArgumentError, "kernel_size must be one integer"),
        (lambda: pk.max_pool2d(x, 2, ceil_mode=1), pk.ArgumentError, "ceil_mode must be True"),
        (lambda: pk.max_pool2d(x[0, 0], 2), pk.ShapeError, r"axes \(N, C, H, W\), the first may"),
        (lambda: pk.max_pool1d(x, 2), pk.ShapeError, r"axes \(N, C, L\), the first may"),
        (lambda: pk.max_pool2d(index, 2), pk.DTypeError, ".* or bfloat16 but is int32"),
        (lambda: pk.max_pool2d(x, 2, out=x), pk.ShapeError, r"out must have shape \(1, 2, 3, 3\)"),
        (lambda: pk.avg_pool2d(x, 2, divisor_override=0), pk.ArgumentError, "64 bits, not 0"),
        (lambda: pk.avg_pool2d(x, 2, divisor_override=10**40), pk.ArgumentError, "of 64 bits"),
        (lambda: pk.max_pool2d(x, 1, 1 << 31), pk.ArgumentError, r"of 1 or more, below 2\*\*31"),
        (lambda: pk.max_pool2d(x, 1 << 30, padding=1 << 29), pk.LimitError, "beyond 32 bits"),
        (lambda: pk.max_pool2d(x[:, :, :0], 1), pk.ShapeError, "the image with its padding"),
        (lambda: pk.adaptive_avg_pool2d(x[:, :, :0], 1), pk.ShapeError, "must have rows and"),
        (lambda: pk.adaptive_avg_pool2d(x, 0), pk.ArgumentError, "output_size must be .* of 1 or"),
        (lambda: pk.adaptive_max_pool2d(x, (1, 2, 3)), pk.ArgumentError, "one or two integers"),
        (lambda: pk.adaptive_max_pool1d(x[0], (1, 2)), pk.ArgumentError, "must be one integer"),
        (lambda: pk.max_pool2d_backward(y, index, (1, 2, 7, 8), 2), pk.ShapeError,
         r"for images of 8 columns the result must have 4 but has 3"),
        (lambda: pk.avg_pool2d_backward(y, (6, 6), 2), pk.ShapeError, "input_size must be an"),
        (lambda: pk.max_unpool2d(y, index[..., :2], 2), pk.ShapeError, "indices must have the"),
        (lambda: pk.max_unpool2d(y, index[0], 2), pk.ShapeError, "images must have the axis N"),
        (lambda: pk.max_unpool2d(y, index, 2, output_size=(8, 6)), pk.ArgumentError, "less than a"),
        (lambda: pk.max_unpool2d(y, index, 2, output_size=(6,)), pk.ArgumentError, "2 or 4 sizes"),
        (lambda: pk.conv1d(x, dev.zeros((2, 2, 3))), pk.ShapeError, r"axes \(N, C, L\), the first"),
        (lambda: pk.conv1d(x[0], x), pk.ShapeError, r"\[conv1d\] w must have three axes"),
        (lambda: pk.conv1d(x[0], x[0], padding=(1, 1)), pk.ArgumentError, "one integer"),
        (lambda: kernels.max_pool2d(x, y, kernel=3, stride=1), pk.ShapeError, "must have 4 but"),
        (lambda: kernels.max_pool2d(x, y, kernel=2, stride=0), pk.ArgumentError, "stride must be"),
        (lambda: kernels.max_pool2d(x, y[0], kernel=2), pk.ShapeError, "x must have axes"),
        (lambda: kernels.max_pool2d(x, y, index=index[0], kernel=2), pk.ShapeError, "index"),
        (lambda: kernels.max_pool2d(x, y, kernel="2"), pk.ArgumentError, "kernel must be one or"),  # type: ignore[arg-type]
        (lambda: kernels.avg_pool2d(dev.zeros((1, 1, 999, 999)), dev.zeros((1, 1, 1, 2)),
                                    kernel=(999, 998), stride=1), pk.LimitError, "are too large"),
    ]  # fmt: skip
    if "shader-f16" in dev.features:  # else both are computed in float32
        halves = y.astype("float16")
        calls.append((lambda: kernels.max_pool2d(x, halves, kernel=2), pk.DTypeError, "dst must"))
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call()


def test_the_largest_window(dev: pk.Device) -> None:
    """30,000 elements are one window, and not one more."""
    x = np.arange(150 * 201, dtype=np.float32).reshape(1, 1, 150, 201)
    got = pk.max_pool2d(dev.tensor(x), (150, 200), stride=1).numpy()
    assert got.tolist() == [[[[x[..., :200].max(), x.max()]]]]
    with pytest.raises(pk.LimitError, match="windows of 30001 x 1 are too large"):
        pk.max_pool2d(dev.zeros((1, 1, 30002, 1)), (30001, 1), stride=1)
    with pytest.raises(pk.LimitError, match="windows of 150 x 201 are too large"):
        pk.max_pool2d(dev.zeros((1, 1, 150, 202)), (150, 201), stride=1)


def test_the_most_windows_of_an_element(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many windows as a loop may have rounds, and not one more."""
    counted = backward._rounds
    rounds: list[int] = []

    def noting(side: Any) -> int:
        rounds.append(counted(side))
        return rounds[-1]

    monkeypatch.setattr(backward, "_rounds", noting)

    def gradient(size: int) -> Array:
        x = dev.tensor(np.arange(9.0 * size, dtype=np.float32).reshape(1, 1, 9, size))
        with pk.Tape() as tape:
            loss = pk.sum(pk.avg_pool2d(x, (5, 4), stride=(2, 1)))
        found: Array = tape.gradient(loss, [x])[0].numpy()
        return found

    want = gradient(11)[..., :4]
    most = rounds[0] * rounds[1]
    monkeypatch.setattr(backward, "MAX_ROUNDS", most)
    assert (gradient(12)[..., :4] == want).all()
    monkeypatch.setattr(backward, "MAX_ROUNDS", most - 1)
    with pytest.raises(pk.LimitError, match="elements are in too many windows of 5 x 4"):
        gradient(13)
