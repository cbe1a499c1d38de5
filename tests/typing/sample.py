"""What a user writes, on all three layers. It is type-checked, not run: see test_typing.py."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import wgpu

import pykernels as pk
from pykernels.validate import Lints, Source, find_naga, validate

Array = np.ndarray[Any, np.dtype[Any]]


def layer_one(dev: pk.Device, a: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> Array:
    x = dev.tensor(a)
    dst = dev.empty(x.shape, "float32")
    with dev.batch():
        pk.kernels.softmax(x[::-1], dst, scale=0.5, mask=None)
        pk.kernels.cpy(x.T, dst.reshape(x.shape[::-1]))
        pk.kernels.memset(dst, 255, offset=1, size=3)
        pk.kernels.fill(dst[0], 1.5)
    return dst.numpy()


def layer_two(a: np.ndarray[tuple[int, int], np.dtype[np.float32]], t: pk.Tensor) -> pk.Tensor:
    assert_type(pk.softmax(a), Array)
    assert_type(pk.softmax(t, 0, scale=2.0), pk.Tensor)
    assert_type(pk.softmax(t, mask=a), pk.Tensor)
    assert_type(pk.softmax(a, out=t), pk.Tensor)
    assert_type(pk.softmax(a, mask=t), "pk.Tensor | Array")
    assert_type(pk.log_softmax(a, dim=-1, mask=a, sinks=a, max_bias=8.0), Array)
    assert_type(pk.softmax_backward(t, t), pk.Tensor)
    assert_type(pk.add(a, a), Array)
    assert_type(pk.add(t, a), pk.Tensor)
    assert_type(pk.add(a, t), pk.Tensor)
    assert_type(pk.exp(a, out=t), pk.Tensor)
    q = pk.quantize(a, "q8_0")
    assert_type(pk.linear(a, q), pk.Tensor)
    assert_type(pk.matmul(t, q.T, bias=a), pk.Tensor)
    assert_type(pk.get_rows(q, a), pk.Tensor)
    assert_type(pk.embedding(q, t), pk.Tensor)
    grads = pk.flash_attn_backward(t, t, t, t, t, t, causal="top-left", window=(3, None))
    assert_type(grads, tuple[pk.Tensor, pk.Tensor, pk.Tensor])
    assert_type(pk.flash_attn_backward(a, a, a, a, a, a, mask=a), tuple[Array, Array, Array])
    assert_type(pk.matmul(a, a, residual=a, scale=2.0), Array)
    assert_type(pk.matmul(t, a, bias=a, residual=t, activation="silu"), pk.Tensor)
    assert_type(pk.conv2d(a, a, residual=a, layout="NHWC"), Array)
    assert_type(pk.conv2d(t, a, residual=t), pk.Tensor)
    assert_type(pk.conv1d(a, t, residual=a, activation="relu"), pk.Tensor)
    assert_type(pk.conv2d_backward_input(t, a, (1, 2, 3, 3), padding="same"), pk.Tensor)
    assert_type(pk.conv2d_backward_weight(a, a, [1, 2, 3, 3], (1, 2), layout="NHWC"), Array)
    assert_type(pk.conv2d_backward_bias(a), Array)
    assert_type(pk.max_pool2d(t, 2, ceil_mode=True), pk.Tensor)
    assert_type(pk.max_pool2d(a, (3, 2), return_indices=True), tuple[Array, Array])
    assert_type(pk.avg_pool1d(a, 2), Array)
    assert_type(pk.adaptive_avg_pool2d(t, (None, 2)), pk.Tensor)
    assert_type(pk.conv1d(a, t, padding="same"), pk.Tensor)
    assert_type(pk.astype(t, "float16"), pk.Tensor)
    assert_type(pk.astype(a, np.float16), Array)
    assert_type(pk.copy(a), Array)
    assert_type(pk.layer_norm(a, 3, out=t), pk.Tensor)
    assert_type(pk.layer_norm(a, 3, t), "pk.Tensor | Array")
    assert_type(pk.sum(a, 0, True), Array)
    assert_type(pk.sum(a, out=t), pk.Tensor)
    assert_type(pk.scaled_dot_product_attention(a, t, a), pk.Tensor)
    assert_type(pk.clamp(t, 0), pk.Tensor)
    assert_type(pk.zeros_like(a), Array)
    assert_type(pk.split(t, 2), list[pk.Tensor])
    assert_type(pk.elementwise("a * b", a=t, b=t), pk.Tensor)
    assert_type(pk.top_k(a, 2), tuple[Array, Array])
    pk.copyto(t, a)
    pk.fill(t, 0)
    return pk.zeros((2, 3), "bfloat16") if a.size else pk.full(3, 1.0, np.dtype("uint8"))


def short_dtypes() -> tuple[pk.Tensor, pk.Tensor]:
    return pk.zeros(3, "bf16"), pk.zeros(3, "u1")


def making(torch_tensor: Any) -> list[float]:
    t = pk.tensor([[1, 2], [3, 4.5]])
    assert_type(pk.asarray(t, "f2", device=t.device), pk.Tensor)
    assert_type(pk.from_dlpack(torch_tensor), pk.Tensor)
    assert_type(pk.rand((2, 2), seed=1), pk.Tensor)
    t[0] = 1
    t[:, 1] = np.ones(2)
    assert t.dtype == "float32"
    return [float(v) for row in t for v in row]


def both(x: pk.Tensor | Array) -> pk.Tensor | Array:
    return pk.softmax(x)


def devices(name: pk.DTypeName) -> pk.DTypeName:
    infos = pk.list_adapters()
    infos += pk.list_adapters("dawn")
    with pk.Device(infos[0]["name"], engine="wgpu", checks=True) as dev, dev.profile() as p:
        t = dev.rand((3, 4), "float16", seed=1)
        assert_type(t.shape, tuple[int, ...])
        assert_type(t[0, None, ..., 1:], pk.Tensor)
        dev.flush()
        dev.sync()
    print(p.table(), dev.memory_stats())
    try:
        pk.Device("no such adapter")
    except pk.NoAdapterError as e:
        print(e)
    return pk.empty(3, name).dtype


def shared(gpu_device: wgpu.GPUDevice) -> pk.Tensor:
    dev = pk.Device.from_wgpu(gpu_device)
    buffer = gpu_device.create_buffer(size=256, usage=wgpu.BufferUsage.STORAGE)
    compute_pass = gpu_device.create_command_encoder().begin_compute_pass()
    t = pk.Tensor.from_buffer(buffer, (3, 5), "int16", offset=2, strides=(20, 2), device=dev)
    with dev.record(compute_pass):
        pk.kernels.cpy(t, t)
    return t


def layer_three() -> None:
    naga = find_naga()
    for finding in validate([Source("mine", "")], [Lints(), *([naga] if naga else [])]):
        print(finding.line, finding.message)
    if naga is not None:
        assert_type(naga.translate(Source("mine", ""), "spv"), bytes)
