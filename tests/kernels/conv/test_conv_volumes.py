"""conv3d and conv_transpose3d: values, gradients, layouts, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]


def numbers(*shape: int, seed: int = 0, dtype: str = "f4") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def full(value: Any, count: int = 3) -> tuple[int, ...]:
    return (value,) * count if isinstance(value, int) else tuple(value)


def transposed(
    x: Array, w: Array, stride: Any = 1, dilation: Any = 1, groups: int = 1, more: Any = 0
) -> Array:
    """The products of each element of x, added where they belong, with nothing left out: float64.
    w is (C, O / groups, KD, KH, KW)."""
    steps, gaps, added = full(stride), full(dilation), full(more)
    kernel = w.shape[2:]
    sizes = [
        (n - 1) * s + (k - 1) * g + 1 + a
        for n, k, s, g, a in zip(x.shape[2:], kernel, steps, gaps, added, strict=True)
    ]
    n, each = x.shape[0], x.shape[1] // groups
    result = np.zeros((n, groups, w.shape[1], *sizes))
    xs = x.astype(np.float64).reshape(n, groups, each, *x.shape[2:])
    ws = w.astype(np.float64).reshape(groups, each, *w.shape[1:])
    for at in np.ndindex(*kernel):
        part = np.einsum("ngcdhw,gco->ngodhw", xs, ws[(..., *at)])
        place = tuple(
            slice(i * g, i * g + (m - 1) * s + 1, s)
            for i, g, s, m in zip(at, gaps, steps, x.shape[2:], strict=True)
        )
        result[(slice(None),) * 3 + place] += part
    return result.reshape(n, -1, *sizes)


def forward(
    x: Array, w: Array, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Array:
    """conv3d in float64; padding is one or three integers, or six."""
    steps, gaps = full(stride), full(dilation)
    around = full(padding) if isinstance(padding, int) or len(padding) == 3 else padding
    pairs = (
        [(p, p) for p in around]
        if len(around) == 3
        else [*zip(around[::2], around[1::2], strict=True)]
    )
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pairs])
    n, each, outputs = x.shape[0], x.shape[1] // groups, w.shape[0] // groups
    sizes = [
        (m - (k - 1) * g - 1) // s + 1
        for m, k, g, s in zip(x.shape[2:], w.shape[2:], gaps, steps, strict=True)
    ]
    xs = x.reshape(n, groups, each, *x.shape[2:])
    ws = w.astype(np.float64).reshape(groups, outputs, *w.shape[1:])
    result = np.zeros((n, groups, outputs, *sizes))
    for at in np.ndindex(*w.shape[2:]):
        place = tuple(
            slice(i * g, i * g + (m - 1) * s + 1, s)
            for i, g, s, m in zip(at, gaps, steps, sizes, strict=True)
        )
        result += np.einsum("ngcdhw,goc->ngodhw", xs[(slice(None),) * 3 + place], ws[(..., *at)])
    return result.reshape(n, groups * outputs, *sizes)


FORMS: list[dict[str, Any]] = [
    {},
    {"stride": (2, 1, 2), "padding": 1},
    {"dilation": (1, 2, 1), "padding": (2, 0, 1)},
    {"stride": 2, "padding": (1, 0, 0, 2, 1, 1), "groups": 2},
    {"groups": 4, "dilation": 2, "padding": 2},
]


# Sums of at most 96 products of normal numbers; of float16 the rounding of results of about 30.
@pytest.mark.parametrize(("dtype", "bound"), [("f4", 2e-5), ("f2", 2e-2)])
@pytest.mark.parametrize("form", FORMS)
def test_conv3d_is_its_formula(dev: pk.Device, form: dict[str, Any], dtype: str, bound: float
                               ) -> None:  # fmt: skip
    x, groups = numbers(2, 4, 6, 7, 5, dtype=dtype), form.get("groups", 1)
    w, b = numbers(8, 4 // groups, 3, 2, 3, seed=1, dtype=dtype), numbers(8, seed=2)
    found = pk.conv3d(dev.tensor(x), dev.tensor(w), dev.tensor(b), **form)
    assert found.dtype == ("float32" if dtype == "f4" else "float16")
    want = forward(x, w, **form) + b[:, None, None, None]
    np.testing.assert_allclose(found.numpy(), want, rtol=bound, atol=bound)


def test_conv3d_with_residual_and_activation(dev: pk.Device) -> None:
    x, w = numbers(2, 3, 5, 6, 4), numbers(4, 3, 3, 3, 3, seed=1)
    want = forward(x, w, padding=1)
    for shape in ((2, 4, 5, 6, 4), (5, 6, 4), (4, 1, 1, 1), (2, 1, 5, 1, 1), (4, 5, 1, 4)):
        r = numbers(*shape, seed=2)
        found = pk.conv3d(x, w, padding="same", residual=r, activation="relu")
        np.testing.assert_allclose(found, np.maximum(want + r, 0), rtol=2e-5, atol=2e-5)
    turned = dev.tensor(np.ascontiguousarray(x[0].transpose(3, 1, 0, 2))).transpose(2, 1, 3, 0)
    found = pk.conv3d(turned, w, padding=[1, 1, 1], residual=dev.tensor(r), activation="relu")
    np.testing.assert_allclose(found.numpy(), np.maximum(want + r, 0)[0], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("dtype", "bound"), [("f4", 2e-5), ("f2", 2e-2)])
@pytest.mark.parametrize(
    ("form", "cut"),
    [
        ({}, (0, 0, 0)),
        ({"stride": 2, "padding": 1, "output_padding": (1, 0, 1)}, (1, 1, 1)),
        ({"stride": (3, 1, 2), "dilation": (2, 1, 1), "padding": (0, 1, 0)}, (0, 1, 0)),
        ({"stride": (4, 2, 2), "groups": 2}, (0, 0, 0)),
    ],
)
def test_conv_transpose3d_is_its_formula(
    dev: pk.Device, form: dict[str, Any], cut: tuple[int, ...], dtype: str, bound: float
) -> None:
    groups = form.get("groups", 1)
    x, b = numbers(2, 4, 3, 4, 5, dtype=dtype), numbers(6, seed=2)
    w = numbers(4, 6 // groups, 3, 2, 3, seed=1, dtype=dtype)
    found = pk.conv_transpose3d(dev.tensor(x), dev.tensor(w), dev.tensor(b), **form)
    options = [form.get(n, d) for n, d in (("stride", 1), ("dilation", 1), ("groups", 1),
                                           ("output_padding", 0))]  # fmt: skip
    want = transposed(x, w, *options) + b[:, None, None, None]
    place = tuple(slice(c, n - c) for c, n in zip(cut, want.shape[2:], strict=True))
    assert found.dtype == ("float32" if dtype == "f4" else "float16")
    np.testing.assert_allclose(found.numpy(), want[(..., *place)], rtol=bound, atol=bound)


def test_gradients_of_convolutions_of_volumes(dev: pk.Device) -> None:
    """Both are linear in each argument: the gradient along a direction is the value there."""
    cases: list[Any] = [
        (pk.conv3d, (2, 4, 5, 4, 6), (6, 2, 3, 3, 2), {"stride": (2, 1, 1), "padding": 1,
                                                       "groups": 2}),
        (pk.conv_transpose3d, (2, 4, 3, 4, 3), (4, 3, 3, 2, 2), {"stride": 2, "padding": (1, 0, 0),
                                                                 "groups": 2}),
    ]  # fmt: skip
    for function, x_shape, w_shape, form in cases:
        given = [numbers(*x_shape), numbers(*w_shape, seed=1), numbers(6, seed=2)]
        tensors = [dev.tensor(a) for a in given]
        with pk.Tape() as tape:
            y = function(*tensors, **form)
            dy = numbers(*y.shape, seed=3)
            loss = pk.sum(y * dev.tensor(dy))
        found = tape.gradient(loss, tensors)
        for i, gradient in enumerate(found):
            step = numbers(*given[i].shape, seed=4)
            moved = [step if k == i else a if k < 2 else 0 * a for k, a in enumerate(given)]
            if i == 2:
                moved[0] = 0 * given[0]
            want = float((function(*moved, **form).astype("f8") * dy).sum())
            assert float((gradient.numpy() * step).sum()) == pytest.approx(want, rel=1e-4, abs=1e-3)


def test_gradients_of_a_transposed_convolution_whose_padding_hides_all_taps(
    dev: pk.Device,
) -> None:
    """The result is the bias, and gradients of x and w are zeros."""
    x, w, b = (dev.tensor(a) for a in (numbers(1, 2, 1, 3, 3), numbers(2, 4, 1, 2, 2), numbers(4)))
    with pk.Tape() as tape:
        y = pk.conv_transpose3d(x, w, b, stride=3, padding=(1, 0, 0, 0, 0, 0), output_padding=2)
        loss = pk.sum(y)
    dx, dw, db = tape.gradient(loss, [x, w, b])
    want = np.broadcast_to(b.numpy()[:, None, None, None], y.shape)
    np.testing.assert_array_equal(y.numpy(), want)
    assert not dx.numpy().any() and not dw.numpy().any()
    np.testing.assert_array_equal(db.numpy(), y.numpy()[0, 0].size)


def test_convolutions_of_volumes_reject(dev: pk.Device) -> None:
    x, w = dev.zeros((1, 2, 4, 4, 4)), dev.zeros((3, 2, 2, 2, 2))
    with pytest.raises(
        pk.ShapeError, match=r"\[conv3d\] x must have axes .* has shape \(4, 4, 4\)"
    ):
        pk.conv3d(x[0, 0], w)
    with pytest.raises(pk.ShapeError, match=r"\[conv3d\] w must have five axes but has shape"):
        pk.conv3d(x, w[0])
    with pytest.raises(pk.ShapeError, match=r"\[conv3d\] the kernel must fit into x .* 2 planes"):
        pk.conv3d(x, w, dilation=(5, 1, 1))
    with pytest.raises(pk.ArgumentError, match=r"\[conv3d\] stride must be one or three integers"):
        pk.conv3d(x, w, stride=(1, 2))
    with pytest.raises(pk.ArgumentError, match=r"\[conv3d\] padding must be 'same' or 'valid'"):
        pk.conv3d(x, w, padding="full")  # type: ignore[arg-type]
    with pytest.raises(pk.ArgumentError, match=r"\[conv3d\] stride must be 1 with padding 'same'"):
        pk.conv3d(x, w, padding="same", stride=2)
    with pytest.raises(
        pk.DTypeError, match=r"\[conv3d\] x must be float32, float16 or bfloat16 but is int32"
    ):
        pk.conv3d(x.astype("int32"), w)
    turned = w.transpose(1, 0, 2, 3, 4)
    with pytest.raises(pk.ArgumentError, match=r"\[conv_transpose3d\] output_padding must be less"):
        pk.conv_transpose3d(x, turned, output_padding=1)
    with pytest.raises(pk.ShapeError, match=r"\[conv_transpose3d\] bias must have shape \(3,\)"):
        pk.conv_transpose3d(x, turned, dev.zeros(2))
    text = r"\[conv_transpose3d\] the output must have one plane or more but would have -1"
    with pytest.raises(pk.ShapeError, match=text):
        pk.conv_transpose3d(x, turned, padding=(3, 0, 0))
