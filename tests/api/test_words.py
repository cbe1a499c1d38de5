"""torch's words beside numpy's: `dim` and `keepdim`, other names, methods of tensors."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from codegen.methods import METHODS

pytestmark = pytest.mark.gpu
X = np.random.default_rng(0).standard_normal((3, 4, 6), np.float32)
# What functions take besides x and an axis.
MORE: dict[str, tuple[Any, ...]] = {
    "chunk": (2,), "gather": (0, np.zeros((1, 4, 6), np.int32)),
    "index_select": (0, np.int32([1, 0])),
    "masked_fill": (X > 0, 2.0), "matmul": (X[0].T.copy(),), "maximum": (X,), "minimum": (X,),
    "quantile": (0.25,),
    "repeat": (2,), "roll": (1,), "split": (2,), "tile": ((2, 1, 1),), "top_k": (2,), "topk": (2,),
    "clamp": (-0.5, 0.5), "clip": (-0.5, 0.5),
}  # fmt: skip
WITH_DIM = [
    n for n in pk.functional.__all__
    if {"axis", "dim"} <= {*inspect.signature(getattr(pk, n)).parameters}
]  # fmt: skip


def equal(a: Any, b: Any) -> None:
    parts = (zip(a, b, strict=True)) if isinstance(a, (list, tuple)) else [(a, b)]
    for one, other in parts:
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def arguments(name: str, dev: pk.Device) -> tuple[Any, ...]:
    x = dev.tensor(np.abs(X) + 0.5 if name in ("log", "log2", "sqrt", "rsqrt") else X)
    if name in ("concatenate", "cat", "stack"):
        return ([x, x],)
    if name == "squeeze":
        return (x[:, :1],)
    if name == "cross_entropy_backward":
        pytest.skip("its axis is that of classes")
    if name in ("l2_norm_backward", "softmax_backward", "take_along_axis"):
        more = dev.tensor(np.argsort(X, 1).astype(np.int32)) if "take" in name else x
        return (x, more)
    return (x, *MORE.get(name, ()))


@pytest.mark.parametrize("name", sorted(WITH_DIM))
def test_dim_is_axis(dev: pk.Device, name: str) -> None:
    function, given = getattr(pk, name), arguments(name, dev)
    equal(function(*given, dim=1), function(*given, axis=1))
    with pytest.raises(pk.ArgumentError, match="axis and dim are two names of one argument"):
        function(*given, axis=1, dim=1)
    parameters = inspect.signature(function).parameters
    assert ("keepdims" in parameters) == ("keepdim" in parameters)
    if "keepdim" in parameters:
        equal(function(*given, dim=1, keepdim=True), function(*given, axis=1, keepdims=True))


def test_many_functions_have_dim() -> None:
    assert len(WITH_DIM) > 35


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_the_function(dev: pk.Device, name: str) -> None:
    x, *more = arguments(name, dev)
    equal(getattr(x, name)(*more), getattr(pk, name)(x, *more))
    assert f"pk.{name}" in (getattr(pk.Tensor, name).__doc__ or "")


def test_a_method_has_the_parameters_of_the_function() -> None:
    for name in METHODS:
        method, function = (inspect.signature(getattr(o, name)) for o in (pk.Tensor, pk))
        _, *rest = function.parameters
        assert [*method.parameters] == ["self", *rest], name
        for parameter in rest:
            ours, theirs = method.parameters[parameter], function.parameters[parameter]
            assert (ours.default, ours.kind) == (theirs.default, theirs.kind), (name, parameter)


def test_names_of_torch(dev: pk.Device) -> None:
    x = dev.tensor(X)
    equal(pk.cat([x, x], dim=1), pk.concatenate([x, x], axis=1))
    equal(pk.topk(x, 2), pk.top_k(x, 2))
    for order in ((2, 0, 1), (-1, 0, 1)):
        equal(pk.permute(x, order), x.transpose(*order))
        equal(x.permute(*order), x.transpose(*order))
        np.testing.assert_array_equal(pk.permute(X, order), X.transpose(order))
    for wrong in ((0, 1), (0, 0, 1), (0, 1, 3)):
        for array in (x, X):
            with pytest.raises(pk.ShapeError):
                pk.permute(array, wrong)
    assert x[0, 0].tolist() == X[0, 0].tolist() and x.ravel().shape == (72,)


def test_methods_are_recorded(dev: pk.Device) -> None:
    x = dev.tensor(X)
    with pk.Tape() as tape:
        tape.watch(x)
        loss = x.square().sum(dim=-1).mean()
    [dx] = tape.gradient(loss, [x])
    np.testing.assert_allclose(dx.numpy(), 2 * X / 12, rtol=1e-6)
