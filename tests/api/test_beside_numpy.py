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
