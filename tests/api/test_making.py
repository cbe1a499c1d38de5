"""Ways to make a tensor, to set its elements, and to take them out again."""

from __future__ import annotations

import copy
import pickle
import sys
import types
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.reference.random import rand

pytestmark = pytest.mark.gpu
F4 = np.arange(12, dtype="f4").reshape(3, 4)


@pytest.fixture(autouse=True)
def _needs_an_adapter(dev: pk.Device) -> None:
    """Skips, or fails in CI, where there is no driver."""


@pytest.mark.parametrize(
    ("values", "dtype", "want"),
    [
        ([[1, 2], [3, 4.5]], None, np.array([[1, 2], [3, 4.5]], "f4")),
        ([1.0, 2], None, np.array([1, 2], "f4")),
        (2.5, None, np.array(2.5, "f4")),
        ((), None, np.zeros(0, "f4")),
        ([True, False], None, np.array([True, False])),
        ([np.int32(1), np.int32(2)], "i4", np.array([1, 2], "i4")),
        ([F4[0], F4[1]], None, F4[:2]),
        ([1, 300], "i2", np.array([1, 300], "i2")),
        ([1, 2], np.int64, np.array([1, 2], "i8")),
        (np.ones((2, 3)), "f4", np.ones((2, 3), "f4")),
        (np.ones((2, 3)), "float16", np.ones((2, 3), "f2")),
        (np.arange(3), "i4", np.arange(3, dtype="i4")),
        (F4.astype(">f4"), "f4", F4),
        (F4[:, ::-2].T, None, F4[:, ::-2].T),
    ],
)
def test_tensor(values: Any, dtype: Any, want: np.ndarray) -> None:
    for t in (pk.tensor(values, dtype), pk.default_device().tensor(values, dtype=dtype)):
        assert t.dtype == want.dtype and t.shape == want.shape
        np.testing.assert_array_equal(t.numpy(), want)


def test_bfloat16_of_anything() -> None:
    t = pk.tensor([1.0, 2.5, 1.00390625], "bf16")
    assert t.dtype == "bfloat16" and t.astype("f4").numpy().tolist() == [1.0, 2.5, 1.0]
    again = pk.tensor(t.numpy(), "float32")
    assert again.numpy().tolist() == [1.0, 2.5, 1.0]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [("abc", None), ([None], None), (object(), "f4"), ([[1], [2, 3]], None),
     (["a"], "f4"), (np.ones(3), "f8"), ([1], "float64"), ([2**70], None), ([None], "f4")],
)  # fmt: skip
def test_what_makes_no_tensor(values: Any, dtype: Any) -> None:
    with pytest.raises((pk.DTypeError, pk.ArgumentError)):
        pk.tensor(values, dtype)


def test_a_tensor_of_a_tensor_is_a_copy(dev: pk.Device) -> None:
    x = dev.tensor(F4)
    y = dev.tensor(x.T)
    pk.fill(x, 0)
    np.testing.assert_array_equal(y.numpy(), F4.T)
    assert dev.tensor(x, dtype="f2").dtype == "float16"
    other = pk.tensor(y)  # of another device
    assert other.device is pk.default_device()
    np.testing.assert_array_equal(other.numpy(), F4.T)


def test_asarray_copies_only_what_it_must(dev: pk.Device) -> None:
    x = dev.tensor(F4)
    assert pk.asarray(x) is x and pk.asarray(x, "f4", device=dev) is x
    assert pk.asarray(x, "f2").device is dev
    assert pk.asarray([1.0, 2]).dtype == "float32"


def test_rand_is_the_devices(dev: pk.Device) -> None:
    same = pk.rand((3, 4), seed=5).numpy()
    np.testing.assert_array_equal(dev.rand((3, 4), seed=5).numpy(), same)
    np.testing.assert_array_equal(same, rand((3, 4), same.dtype, seed=5))
    assert pk.rand(3, "f2", device=dev).device is dev


def test_from_dlpack(dev: pk.Device) -> None:
    np.testing.assert_array_equal(pk.from_dlpack(F4).numpy(), F4)
    np.testing.assert_array_equal(pk.from_dlpack(dev.tensor(F4), device=dev).numpy(), F4)
    with pytest.raises(pk.DTypeError, match="__dlpack__"):
        pk.from_dlpack([1, 2])

    class Far:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError

    with pytest.raises(pk.ArgumentError, match="host"):
        pk.from_dlpack(Far())


class FakeTorchTensor:
    """As much of torch's tensor as is used, where torch is not installed."""

    def __init__(self, array: np.ndarray, dtype: str, device: str = "cpu") -> None:
        self.array, self.dtype = array, dtype
        self.device = types.SimpleNamespace(type=device)
        self.requires_grad = True

    def detach(self) -> FakeTorchTensor:
        found = FakeTorchTensor(self.array, self.dtype, self.device.type)
        found.requires_grad = False
        return found

    def contiguous(self) -> FakeTorchTensor:
        return self

    def view(self, dtype: str) -> FakeTorchTensor:
        found = FakeTorchTensor(self.array, dtype)
        found.requires_grad = self.requires_grad
        return found

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        return self.numpy()

    def numpy(self) -> np.ndarray:
        if self.requires_grad or self.dtype == "bfloat16":
            raise RuntimeError("torch does not")
        return self.array


def _torch(monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = types.ModuleType("torch")
    fake.Tensor, fake.bfloat16, fake.int16 = FakeTorchTensor, "bfloat16", "int16"
    monkeypatch.setitem(sys.modules, "torch", fake)


def test_tensors_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    _torch(monkeypatch)
    np.testing.assert_array_equal(pk.tensor(FakeTorchTensor(F4, "float32")).numpy(), F4)
    ones = FakeTorchTensor(np.array([0x3F80, -0x4000], "i2"), "bfloat16")
    for make in (pk.tensor, pk.from_dlpack, pk.asarray):
        t = make(ones)
        assert t.dtype == "bfloat16" and t.astype("f4").numpy().tolist() == [1.0, -2.0]
    assert pk.tensor(ones, "f4").numpy().tolist() == [1.0, -2.0]
    with pytest.raises(pk.ArgumentError, match=r"\.cpu\(\)"):
        pk.tensor(FakeTorchTensor(F4, "float32", "cuda"))


def test_tensors_of_the_real_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    np.testing.assert_array_equal(pk.tensor(x.T.requires_grad_()).numpy(), F4.T)
    np.testing.assert_array_equal(pk.from_dlpack(x).numpy(), F4)
    half = pk.tensor(x.bfloat16().T)
    assert half.dtype == "bfloat16"
    np.testing.assert_array_equal(half.astype("f4").numpy(), F4.T)


def test_elements_are_set(dev: pk.Device) -> None:
    want = F4.copy()
    t = dev.tensor(F4)
    pairs: list[tuple[Any, Any]] = [
        (0, 1), ((1, 2), 7.5), (slice(1, 3), np.arange(4, dtype="f4")), (..., True),
        ((slice(None), slice(None, None, -2)), np.ones((3, 1))), ((2, slice(1, 3)), [3, 4]),
        (slice(0, 0), 5), ((0, 0), np.float64(2)),
    ]  # fmt: skip
    for index, value in pairs:
        want[index] = value
        t[index] = value
        np.testing.assert_array_equal(t.numpy(), want)
    t[:2] = t[1:]
    want[:2] = want[1:].copy()
    np.testing.assert_array_equal(t.numpy(), want)
    t[0] = dev.tensor(np.arange(4, dtype="i4"))
    assert t[0].numpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(pk.ShapeError, match=r"value must broadcast to \(4,\) but has shape \(3,\)"):
        t[0] = np.ones(3, "f4")
    with pytest.raises(IndexError):
        t[5] = 1
    with pytest.raises((pk.DTypeError, pk.ArgumentError)):
        t[0] = "abc"
    with pytest.raises(pk.ArgumentError):
        dev.zeros(3, "uint8")[0] = 300


def test_numbers_and_iteration(dev: pk.Device) -> None:
    t = dev.tensor(F4)
    assert float(t[0, 1]) == 1.0 and int(t[2, 3]) == 11 and len(t) == 3
    assert isinstance(float(dev.tensor(np.array(3, "i4"))), float)
    assert float(dev.full((1, 1), 2.5, "bfloat16")) == 2.5
    assert [float(v) for v in t[1]] == [4.0, 5.0, 6.0, 7.0]
    assert [row.shape for row in t] == [(4,)] * 3
    with pytest.raises(pk.ShapeError):
        float(t)
    with pytest.raises(TypeError, match="without axes"):
        iter(t[0, 0])


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "bool", "int64"))
def test_pickles_and_copies(dev: pk.Device, dtype: str) -> None:
    t = dev.tensor(F4, dtype=dtype)[:, ::2]  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(t))
    assert again.dtype == dtype and again.device is pk.default_device()
    np.testing.assert_array_equal(again.numpy(), t.numpy())
    for made in (copy.copy(t), copy.deepcopy(t), copy.deepcopy([t])[0]):
        assert made.device is dev and made is not t
        np.testing.assert_array_equal(made.numpy(), t.numpy())


@pytest.mark.parametrize("given", [((),), ([1, 2],), (1, 2, 3, 4), ()])
def test_the_class_says_how_tensors_are_made(given: Any) -> None:
    with pytest.raises(TypeError, match=r"pk\.tensor"):
        pk.Tensor(*given)
    with pytest.raises(TypeError, match=r"pk\.tensor"):
        pk.Tensor(data=given)
