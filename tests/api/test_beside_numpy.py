"""Dtypes of tensors compare with numpy's."""

from __future__ import annotations

import numpy as np
import pytest

import pykernels as pk

pytestmark = pytest.mark.gpu


def test_dtypes_equal_numpys(dev: pk.Device) -> None:
    t = dev.zeros(3)
    assert t.dtype == np.float32 and t.dtype == np.dtype("f4") and t.dtype == "float32"
    assert np.float32 == t.dtype and np.dtype("f4") == t.dtype and "float32" == t.dtype
    assert not t.dtype != np.float32 and not t.dtype != "float32"
    assert t.dtype != np.float16 and t.dtype != np.dtype("i4") and t.dtype != "float16"
    assert t.dtype != np.dtype(">f4") and t.dtype != 32 and t.dtype is not None
    assert (
        {t.dtype: 1}["float32"] == 1 and f"{t.dtype}" == "float32" and repr(t.dtype) == "'float32'"
    )
    assert np.empty(1, t.dtype).dtype == np.float32
    half = dev.zeros(3, "bfloat16")
    assert half.dtype == "bfloat16" and half.dtype != np.float16


def test_reductions_of_numpy_reduce_here(dev: pk.Device) -> None:
    """A ufunc's own `reduce` takes axis 0, numpy's functions all axes."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    t = dev.tensor(x)
    for of in (np.add.reduce, np.sum, np.max, np.min, np.prod):
        got = of(t)
        assert isinstance(got, pk.Tensor)
        np.testing.assert_array_equal(got.numpy(), of(x), strict=True)
        np.testing.assert_array_equal(of(t, axis=1, keepdims=True).numpy(), of(x, 1, keepdims=True))
    for of in (np.any, np.all):
        assert of(t > 3).item() == of(x > 3)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("t.gelu()", "'Tensor' object has no attribute 'gelu': use pk.gelu"),
        ("t.cpu()", "'cpu': use .numpy()"),
        ("t.to('cpu')", "'to': use .astype(dtype) or device.tensor(t)"),
        ("t.view(4)", "'view': use .reshape"),
        ("t.shap", "'Tensor' object has no attribute 'shap'"),
        ("t[pk.tensor([0.0, 1])]", "but is float32: pk.tensor(values, 'int32') makes one"),
    ],
)
def test_other_spellings_are_told(dev: pk.Device, code: str, said: str) -> None:
    names = {"t": dev.tensor(np.zeros((2, 2), np.float32)), "pk": pk}
    with pytest.raises((AttributeError, pk.PyKernelsError)) as caught:
        eval(code, names)
    assert str(caught.value).endswith(said)
    assert not hasattr(names["t"], "clone") and not hasattr(names["t"], "__cuda_array_interface__")
