"""The table of the five kernels: pykernels bench --module bench.py"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import five
import numpy as np
from five._kernels import reference

import pykernels as pk
from pykernels import bench

suite = bench.Suite("five")
Made = tuple[Any, ...]
N = 100_003


def launched(kernel: Callable[..., None], *outputs: int, **numbers: float) -> Callable[..., Any]:
    """A function that calls the kernel and returns its outputs, which are the arguments at the
    positions `outputs`."""

    def call(*tensors: pk.Tensor) -> Any:
        kernel(*tensors, **numbers)
        found = tuple(tensors[i] for i in outputs)
        return found[0] if len(found) == 1 else found

    return call


@suite.case(check=lambda x, _: reference.peaks(x))
def peaks(dev: pk.Device) -> Made:
    x = dev.rand((300, 333))
    return launched(five.peaks, 1, 2), x, dev.empty(300), dev.empty(300, "uint32")


@suite.case(check=lambda a, b: reference.blend(a, b, share=0.25))
def blend(dev: pk.Device) -> Made:
    return launched(five.blend, 2, share=0.25), dev.rand(N), dev.rand(N, seed=1), dev.empty(N)


@suite.case(check=lambda a, b, mask: reference.blend(a, b, mask))
def blend_masked(dev: pk.Device) -> Made:
    def call(a: pk.Tensor, b: pk.Tensor, mask: pk.Tensor, dst: pk.Tensor) -> pk.Tensor:
        five.blend(a, b, dst, mask=mask)
        return dst

    return call, dev.rand(N), dev.rand(N, seed=1), dev.rand(N, seed=2), dev.empty(N)


@suite.case(check=lambda x: reference.soft_clip(x, 2.0), atol=1e-3)
def soft_clip(dev: pk.Device) -> Made:
    x = dev.rand(N, dtype="float16")
    return launched(five.soft_clip, 1, gain=2.0), x, dev.empty(N, "float16")


@suite.case(check=reference.normals, atol=1e-6)
def normals(dev: pk.Device) -> Made:
    def call(x: pk.Tensor, vectors: pk.Tensor) -> pk.Tensor:
        vectors[...] = x
        five.normals(vectors)
        return vectors

    return (
        call,
        dev.tensor(np.random.default_rng(0).random((N // 3, 3), np.float32)),
        dev.empty((N // 3, 3)),
    )


@suite.case(check=reference.norm, rtol=1e-5)
def norm(dev: pk.Device) -> Made:
    return launched(five.norm, 1), dev.rand(N), dev.empty(1)
