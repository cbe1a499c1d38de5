"""pk.conv2d and its gradients as functions: torch's shapes, arrays and tensors, what is refused.

The values are those of the kernels, which have tests of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference import conv as reference
from tests.harness import Array, assert_same_bits
from tests.kernels.conv.conv_calls import Sizes

pytestmark = pytest.mark.gpu

SIZES = (
    Sizes((7, 9), c=3, o=5, stride=(2, 1), padding=(1, 1, 2, 2), dilation=(1, 2)),
    Sizes((6, 5), c=4, o=2, groups=2, padding=(0, 1, 2, 1), layout="NHWC"),
)


def integers(shape: tuple[int, ...], seed: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("s", SIZES, ids=lambda s: s.layout)
def test_gradients_match_the_reference(dev: pk.Device, s: Sizes) -> None:
    x, w, dy = integers(s.x, 0), integers(s.w, 1), integers(s.y, 2)
    options: Any = s.options
    want = (
        reference.conv2d_backward_input(dy, w, s.x, **options),
        reference.conv2d_backward_weight(dy, x, s.w, **options),
        reference.conv2d_backward_bias(dy, layout=s.layout),
    )
    # Sizes as torch takes them: torch.Size is a tuple, and lists do as well.
    positional = (s.stride, s.padding, s.dilation, s.groups)
    tx, tw, ty = map(dev.tensor, (x, w, dy))
    layout: Any = s.layout
    tensors = (
        pk.conv2d_backward_input(ty, tw, s.x, *positional, layout=layout),
        pk.conv2d_backward_weight(ty, tx, list(s.w), *positional, layout=layout),
        pk.conv2d_backward_bias(ty, layout=layout),
    )
    arrays = (
        pk.conv2d_backward_input(dy, w, list(s.x), **options),
        pk.conv2d_backward_weight(dy, x, s.w, **options),
        pk.conv2d_backward_bias(dy, layout=layout),
    )
    for t, a, wanted in zip(tensors, arrays, want, strict=True):
        assert isinstance(t, pk.Tensor) and isinstance(a, np.ndarray)
        assert_same_bits(t.numpy() + 0, wanted.astype("f4") + 0)
        assert_same_bits(a + 0, wanted.astype("f4") + 0)


def test_one_image_and_padding_in_words(dev: pk.Device) -> None:
    x, w, dy = integers((3, 6, 5), 0), integers((4, 3, 3, 3), 1), integers((4, 6, 5), 2)
    got = pk.conv2d_backward_input(dev.tensor(dy), w, x.shape, padding="same")
    want = reference.conv2d_backward_input(dy[None], w, (1, 3, 6, 5), padding=1)[0]
    assert_same_bits(got.numpy() + 0, want.astype("f4") + 0)
    got = pk.conv2d_backward_weight(dy, dev.tensor(x), w.shape, padding=[1])
    want = reference.conv2d_backward_weight(dy[None], x[None], w.shape, padding=1)
    assert_same_bits(got.numpy() + 0, want.astype("f4") + 0)
    assert_same_bits(pk.conv2d_backward_bias(dy) + 0, dy.sum((1, 2)) + 0)
    assert_same_bits(pk.conv2d_backward_bias(dy.transpose(1, 2, 0), layout="NHWC") + 0,
                     dy.sum((1, 2)) + 0)  # fmt: skip


def test_dtypes_and_out_of_gradients(dev: pk.Device) -> None:
    half, full = dev.ones((1, 2, 3, 3), "float16"), dev.ones((1, 2, 3, 3))
    one = dev.ones((2, 2, 1, 1), "float16")
    assert pk.conv2d_backward_input(half, one, half.shape).dtype == "float16"
    assert pk.conv2d_backward_input(full, one, half.shape).dtype == "float32"
    assert pk.conv2d_backward_weight(half, half, one.shape).dtype == "float16"
    assert pk.conv2d_backward_weight(half, full, one.shape).dtype == "float32"
    assert pk.conv2d_backward_bias(half).dtype == "float16"
    out = dev.zeros(2)
    assert pk.conv2d_backward_bias(half, out=out) is out
    assert (out.numpy() == 9).all()
    for call in (
        lambda **o: pk.conv2d_backward_input(half, one, half.shape, **o),
        lambda **o: pk.conv2d_backward_weight(half, half, one.shape, **o),
        lambda **o: pk.conv2d_backward_bias(half, **o),
    ):
        with pytest.raises(pk.ShapeError, match="out must have shape"):
            call(out=dev.zeros((5, 5)))
        with pytest.raises(pk.DTypeError, match=r"out must be .* or bfloat16 but is int32"):
            call(out=dev.zeros((5, 5), "int32"))
        with pytest.raises(pk.ArgumentError, match="layout must be 'NCHW' or 'NHWC'"):
            call(layout="NCWH")


def test_sizes_that_do_not_fit(dev: pk.Device) -> None:
    dy, x, w = dev.ones((2, 4, 5, 5)), dev.ones((2, 3, 7, 7)), dev.ones((4, 3, 3, 3))
    given, weights = pk.conv2d_backward_input, pk.conv2d_backward_weight
    with pytest.raises(pk.ShapeError, match=r"\[conv2d_backward_input\] dy must have shape "
                       r"\(2, 4, 6, 5\) but has shape \(2, 4, 5, 5\)"):  # fmt: skip
        given(dy, w, (2, 3, 8, 7))
    with pytest.raises(pk.ShapeError, match=r"input_size must .* four .* \(3, 7, 7\)"):
        given(dy, w, (3, 7, 7))
    with pytest.raises(pk.ShapeError, match=r"input_size must .* three .* \(2, 3, 7, 7\)"):
        given(dy[0], w, (2, 3, 7, 7))
    with pytest.raises(pk.ShapeError, match=r"w must have .* shape \(4, 3, 3, 3\)"):
        given(dy, w, (2, 4, 7, 7))
    with pytest.raises(pk.ShapeError, match=r"weight_size must .* four .* \(3, 3\)"):
        weights(dy, x, (3, 3))
    with pytest.raises(pk.ShapeError, match=r"\[conv2d_backward_weight\] dy must have shape"):
        weights(dy, x, (4, 3, 2, 3))
    with pytest.raises(pk.ShapeError, match="images must have the axis N"):
        weights(dy[0], x, (4, 3, 3, 3))
    with pytest.raises(pk.ShapeError, match="dy must have the axes"):
        pk.conv2d_backward_bias(dy[0, 0])
    wrong: Any
    for wrong in (None, "2377", (2, 3, -7, 7), (2, 3, 7.0, 7), (True, 3, 7, 7)):
        with pytest.raises(pk.PyKernelsError, match=r"\[conv2d_backward_input\] input_size must"):
            given(dy, w, wrong)
        with pytest.raises(pk.PyKernelsError, match=r"\[conv2d_backward_weight\] weight_size must"):
            weights(dy, x, wrong)
