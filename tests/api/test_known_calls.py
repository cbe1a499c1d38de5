"""Functions remember the layouts of calls that went well: later ones take a short way, judge what
they are given as the first one did, and compute the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from pykernels.call import arrays
from pykernels.call.arrays import Call
from pykernels.call.operation import Operation

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]


def _softmax(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.softmax(x, mask=mask, scale=2.0)


def _matmul(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.matmul(x, x[0], bias=mask[0, 0], activation="relu")


def _vector(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.matmul(x[0, 0], mask)


def _attention(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.scaled_dot_product_attention(x, x, x, mask)


def _causal(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.scaled_dot_product_attention(x[0], x[0], mask[0], is_causal=True)


def _residual(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.matmul(x, mask, residual=mask[0], scale=0.5)


def _flash(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.flash_attn(x[None], mask[None], x[None], mask=mask[0], causal=True)


def _lse(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.flash_attn(x[None], mask[None], x[None], sinks=mask[:, 0, 0], return_lse=True)[1]


def _convolution(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.conv2d(x[None], mask[None, :, :3, :3], x[:1, 0, 0], (1, 2), "valid", groups=1)


def _image(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.conv2d(x, mask[:3, :1, None, :5], None, [2], padding=1, groups=3, layout="NCHW")


def _joined(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.conv2d(x, mask[:, :3, :1, None], residual=mask[:, :1, :1], padding=(0, 1))


def _pool(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.max_pool2d(x.transpose(1, 2, 0), 2, [], (1, 0), return_indices=True)[1]


def _signal(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.avg_pool1d(x, 3, 2, 1)


def _adaptive(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.adaptive_max_pool1d(x[0], 3)


def _variance(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.var(x, (0, -1), keepdims=True, ddof=1)


def _norm(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.layer_norm(x, (8, 8), x[0], mask[1])


def _loss(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.cross_entropy(x, x, mask[0, 0], label_smoothing=0.25)


def _gather(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.gather(x, 1, (mask > 0).astype("int32"))


def _embedding(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.embedding(x[0], (mask[0] > 0).astype("int32"))


def _cumsum(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.cumsum(x, -1)


def _cumprod(x: pk.Tensor, mask: pk.Tensor) -> pk.Tensor:
    return pk.cumprod(x, 2)


CALLS = (_softmax, _matmul, _residual, _vector, _attention, _causal, _flash, _lse, _convolution,
         _image, _joined, _pool, _signal, _adaptive, _variance, _norm, _loss, _gather,
         _embedding, _cumsum, _cumprod)  # fmt: skip


class Forgetful(dict[Any, Any]):
    """Keeps nothing."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


@pytest.fixture
def places(dev: pk.Device) -> list[tuple[pk.Tensor, pk.Tensor]]:
    """Tensors of one layout that begin at different bytes of their buffers, and hold other data."""
    rng = np.random.default_rng(0)
    x, mask = (dev.tensor(rng.standard_normal((4, 3, 8, 8), np.float32)) for _ in range(2))
    return [(x[i], mask[i]) for i in range(4)]


@pytest.mark.parametrize("call", CALLS, ids=lambda f: f.__name__)
def test_a_known_call_computes_the_same(
    places: list[tuple[pk.Tensor, pk.Tensor]], monkeypatch: pytest.MonkeyPatch,
    call: Callable[..., pk.Tensor],
) -> None:  # fmt: skip
    made: list[str] = []
    init = Call.__init__

    def counted(self: Call, kernel: Any, *args: Any, **more: Any) -> None:
        made.append(kernel.name)
        init(self, kernel, *args, **more)

    monkeypatch.setattr(Call, "__init__", counted)
    call(*places[0])
    made.clear()
    short = [call(*p).numpy() for p in places]
    assert made == []
    monkeypatch.setattr(Call, "remember", lambda *args, **more: None)
    functions = (
        pk.softmax, pk.matmul, pk.scaled_dot_product_attention, pk.conv2d, pk.max_pool2d, pk.sum,
        pk.layer_norm, pk.cross_entropy, pk.gather, pk.embedding, pk.cumsum,
    )  # fmt: skip
    for function in functions:
        for name, value in inspect.unwrap(function).__globals__.items():
            if name.endswith("_known"):
                value.clear()
            if isinstance(value, Operation):
                monkeypatch.setattr(value, "known", Forgetful())
    for p, got in zip(places, short, strict=True):
        np.testing.assert_array_equal(got, call(*p).numpy())
    assert len(made) == len(places)


def test_an_axis_is_judged_by_itself(dev: pk.Device) -> None:
    x: Any = dev.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    want = pk.softmax(x).numpy()
    softmax: Any = pk.softmax
    for given in ({"axis": -1}, {"dim": -1}, {"axis": 1}, {"axis": np.int64(-1)}):
        np.testing.assert_array_equal(softmax(x, **given).numpy(), want)
    for given in ({"axis": -1.0}, {"dim": -1.0}, {"axis": "-1"}, {"axis": 0, "dim": -1}):
        with pytest.raises(pk.ArgumentError):
            softmax(x, **given)
    assert not np.array_equal(pk.softmax(x, axis=0).numpy(), want)
    np.testing.assert_array_equal(pk.softmax(x).numpy(), want)


def test_other_kinds_of_arguments_are_judged_by_themselves(dev: pk.Device) -> None:
    host = np.ones((2, 3), np.float32)
    x: Any = dev.tensor(host)
    pk.softmax(x)
    pk.add(x, x)
    softmax: Any = pk.softmax
    with pytest.raises(pk.DTypeError, match=r"x must be a pykernels\.Tensor or a numpy array"):
        softmax([[1.0]])
    with pytest.raises(pk.DTypeError, match=r"mask must be a pykernels\.Tensor"):
        softmax(x, mask=1)
    with pytest.raises(pk.DTypeError, match=r"out must be a pykernels\.Tensor"):
        softmax(x, out=host)
    with pytest.raises(pk.ShapeError, match="out must have shape"):
        softmax(x, out=dev.empty((3, 2)))
    with pytest.raises(pk.ArgumentError, match="scale"):
        softmax(x, scale="2")
    assert isinstance(pk.softmax(host), np.ndarray) and isinstance(pk.add(x, host), pk.Tensor)


def test_a_known_call_keeps_to_its_device(dev: pk.Device) -> None:
    other = pk.Device(dev.info["name"], engine=dev.engine)
    x, y = (d.tensor(np.ones((2, 3), np.float32)) for d in (dev, other))
    for t in (x, y, x):
        assert pk.add(t, t).device is t.device
    with pytest.raises(pk.BufferStateError, match="two devices"):
        pk.add(x, y)
    other.close()
    with pytest.raises(pk.DeviceLostError, match="closed"):
        pk.add(y, y)


def test_what_is_known_is_bounded(dev: pk.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MAX_KNOWN", 3)
    known = pk.neg.__globals__["_neg_known"]
    known.clear()
    for n in range(1, 9):
        np.testing.assert_array_equal(pk.neg(dev.ones((n,))).numpy(), -np.ones(n, np.float32))
        assert len(known) <= 3


def test_what_goes_with_the_last_axis_only_is_asked_in_each_call(dev: pk.Device) -> None:
    """Numbers are no part of what calls are remembered by."""
    x = dev.rand((2, 3, 4), seed=0)
    for _ in range(2):
        pk.softmax(x, axis=0)
        pk.softmax(x, axis=2)
    with pytest.raises(pk.ArgumentError, match="axis must be -1 if max_bias is given"):
        pk.softmax(x, axis=0, max_bias=8.0)
    assert pk.softmax(x, axis=2, max_bias=8.0).shape == x.shape
