"""pk.supports answers what a call would do, for every function and kernel, and runs nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pykernels as pk
from bench.functions import functions, public
from pykernels.call.asking import Unsupported

pytestmark = pytest.mark.gpu


def test_every_function(dev: pk.Device) -> None:
    """A good call of each: yes, without a submit or memory."""
    calls = functions(dev)
    assert {*public()} <= {*calls}
    pk.rand(1, device=dev)  # its state is there
    dev.sync()
    memory, submits = dev.memory_stats().current, dev.submits
    answers = {name: pk.supports(call) for name, call in calls.items()}
    assert [f"{name}: {answer}" for name, answer in answers.items() if not answer] == []
    dev.sync()
    assert dev.submits == submits
    assert dev.memory_stats().current == memory


def arguments(kernel: Callable[..., None], make: Callable[[], Any]) -> tuple[list[Any], set[str]]:
    """The positional arguments of a kernel: things that `make` makes, and ones."""
    positional, tensors = [], set()
    for p in inspect.signature(kernel).parameters.values():
        if p.kind is not p.KEYWORD_ONLY:
            is_tensor = "Tensor" in str(p.annotation)
            positional.append(make() if is_tensor else 1)
            tensors |= {p.name} if is_tensor else set()
    return positional, tensors


@pytest.mark.parametrize(("shape", "dtype"), [((2, 3), "float32"), ((4,), "int64"), ((), "uint8")])
def test_every_kernel_as_the_call_itself(
    dev: pk.Device, shape: tuple[int, ...], dtype: pk.DTypeName
) -> None:
    """Mostly wrong calls: the answer is the error that the call raises, or both go well."""
    wrong = 0
    for name in pk.kernels.__all__:
        kernel = getattr(pk.kernels, name)
        metas, _ = arguments(kernel, lambda: pk.Meta(shape, dtype))
        answer = pk.supports(kernel, *metas)
        given, _ = arguments(kernel, lambda: dev.zeros(shape, dtype))
        try:
            kernel(*given)
        except pk.PyKernelsError as e:
            wrong += 1
            assert isinstance(answer, Unsupported), f"{name}: yes, but {e}"
            assert (type(answer.error), str(answer)) == (type(e), str(e)), name
        else:
            assert answer is True, f"{name}: {answer}"
    dev.sync()
    assert wrong > 20  # so that it asks something


def test_shapes_beyond_all_memory_and_views(dev: pk.Device) -> None:
    half = pk.Meta((1 << 14, 1 << 14), "float16")
    assert pk.supports(pk.matmul, half, half) is True
    answer = pk.supports(pk.matmul, half, pk.Meta((3, 5), "float16"))
    assert not answer and isinstance(answer.error, pk.ShapeError)
    assert str(answer).startswith("[matmul] ") and "(3, 5)" in repr(answer)
    assert not pk.supports(pk.zeros, (1 << 20, 1 << 20), device=dev)
    x = dev.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    dst = dev.ones((4, 3))
    assert pk.supports(pk.kernels.softmax, x.T, dst)
    assert pk.supports(pk.kernels.softmax, x, x)  # in place
    assert not pk.supports(pk.kernels.softmax, x, dst)
    overlapping = x.reshape(12)[:4].broadcast_to((3, 4))
    answer = pk.supports(pk.kernels.softmax, x, overlapping)
    assert not answer and isinstance(answer.error, pk.AliasError)
    assert (dst.numpy() == 1).all() and x.numpy().sum() == 66
    assert pk.supports(pk.sum, np.ones((3, 4), "f4")) and not pk.supports(
        pk.softmax, np.ones(3) + 0j
    )
    assert not pk.supports(pk.concatenate, [x, pk.Meta((3, 4)), pk.Meta((3, 5))])
    assert pk.supports(pk.concatenate, [x, pk.Meta((3, 4)), pk.Meta((9, 4))])


def test_functions_of_the_caller_and_raw_kernels(dev: pk.Device) -> None:
    def network(x: pk.Tensor, w: pk.Tensor) -> pk.Tensor:
        return pk.relu(x @ w).sum()

    x, w = dev.rand((8, 16)), dev.rand((16, 4))
    assert pk.supports(network, x, w)
    assert not pk.supports(network, w, x)
    twice = pk.raw_kernel(
        """
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@group(0) @binding(1) var<uniform> n: u32;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3u) {
  if (i.x < n) { y[i.x] *= 2.0; }
}""",
        name="twice",
    )
    assert pk.supports(twice, x, n=3)
    assert str(pk.supports(twice, x.T, n=3)).startswith("[twice] y must be contiguous")
    assert "[twice]" in str(pk.supports(twice, x))
    assert "fit" in str(pk.supports(twice, x, n=1 << 40))
    with pytest.raises(ZeroDivisionError):
        pk.supports(lambda: 1 / 0)
    with pytest.raises(pk.ArgumentError, match=r"\[supports\] function must be callable"):
        pk.supports(3)  # type: ignore[arg-type]
    with dev.capture(), pytest.raises(pk.BufferStateError, match="supports"):
        pk.supports(network, x, w)
    assert pk.supports(network, x, w)  # the device is as before


def test_tapes_do_not_see_it(dev: pk.Device) -> None:
    x = dev.rand((4, 4))
    with pk.Tape() as tape:
        tape.watch(x)
        y = x * x
        assert pk.supports(pk.kernels.softmax, x, y)  # which writes nothing
        loss = y.sum()
    assert np.allclose(tape.gradient(loss, x).numpy(), 2 * x.numpy())
