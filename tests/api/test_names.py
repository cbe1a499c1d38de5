"""What newcomers type, and what is said to them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pykernels as pk
from pykernels.tensors.interop.names import INSTEAD


def test_what_is_named_exists() -> None:
    public = {*dir(pk)}
    for name, text in INSTEAD.items():
        assert name not in public, f"{name} is here"
        assert {*re.findall(r"pk\.(\w+)", text)} <= public, name
        methods = re.findall(r"Tensor\.(\w+)", text)
        assert all(hasattr(pk.Tensor, method) for method in methods), name


@pytest.mark.parametrize(("name", "said"), [
    ("bmm", "pk.matmul"), ("reshape", "Tensor.reshape"), ("mm", "pk.matmul"),
    ("amax", "pk.max"), ("array", "pk.tensor"), ("nn", "the functions of pk"),
    ("inf", "math.inf"), ("addmm", "pk.matmul(a, b) + c"), ("percentile", "pk.quantile"),
    ("float64", "the text 'float32'"),
    ("float32", "the text 'float32'"), ("half", "the text 'float16'"),
    ("ReLU", "the function pk.relu"), ("GELU", "the function pk.gelu"),
    ("LayerNorm", "the function pk.layer_norm"), ("Linear", "the function pk.linear"),
    ("Conv2d", "the function pk.conv2d"), ("MaxPool2d", "the function pk.max_pool2d"),
    ("CrossEntropyLoss", "the function pk.cross_entropy"), ("Dropout", "the function pk.dropout"),
    ("BatchNorm2d", "the function pk.batch_norm"), ("Softmax", "the function pk.softmax"),
])  # fmt: skip
def test_names_that_others_have(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"no attribute '{name}': use {said}")):
        getattr(pk, name)


def test_other_names() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'softmx'$"):
        pk.softmx  # noqa: B018
    assert not hasattr(pk, "_private")


@pytest.mark.gpu
def test_arguments_in_another_order(dev: pk.Device) -> None:
    x, w = dev.ones((4, 8)), dev.ones(8)
    places = dev.tensor([0, 1], "int32")
    with pytest.raises(pk.DTypeError, match=r"the table comes first here, as in embedding\(weight"):
        pk.embedding(places, x)
    with pytest.raises(pk.DTypeError, match=r"\[embedding\] index must be int32 or int64 but is f"):
        pk.embedding(x, w)
    for name in ("layer_norm", "rms_norm"):
        match = rf"\[{name}\] normalized_shape must be sizes .* {name}\(x, weight\.shape, weight\)"
        with pytest.raises(pk.ShapeError, match=match):
            getattr(pk, name)(x, w)
    with pytest.raises(pk.ShapeError, match="b times a transposed, of a "):
        pk.kernels.mul_mat(dev.ones((8, 4)), x, dev.ones((4, 4)))
    with pytest.raises(pk.ShapeError, match="b times a transposed, of a "):
        pk.kernels.mul_mat(dev.ones((5, 8)), x, dev.ones((5, 4)))


@pytest.mark.gpu
def test_numpy_takes_tensors(dev: pk.Device) -> None:
    t = dev.tensor(np.arange(6, dtype="f4").reshape(2, 3))
    assert np.transpose(t).shape == (3, 2) and isinstance(np.transpose(t), pk.Tensor)
