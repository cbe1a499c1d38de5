"""The operations of kernels/elementwise/ops.toml, in a size that caches hold and a larger one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pykernels.bench.case import Array, Case
from pykernels.bench.cases import plain
from pykernels.bench.onnx import Node, onnx_peer
from pykernels.bench.peers import Skipped, numpy_peer, torch_peer
from pykernels.bench.shapes import POWER, Shape, pick
from pykernels.reference.elementwise import OPS

SIZES = [Shape("256MiB", (1 << 26,), POWER), Shape("4096", (4096, 4096), POWER)]
NUMPY = {"neg": "negative"}  # operations that numpy calls otherwise
MAIN = {name: ("f32-67108864",) for name, op in OPS.items() if op.public}


def cases(edge: int = 0) -> Iterator[Case]:
    for name in MAIN:
        for s in pick(SIZES, edge):
            for dtype in ("float32", "float16"):
                case = operation(name, s.dims, dtype, dtype)
                yield case.labelled(name=s.name, origin=s.origin)


def __getattr__(name: str) -> Callable[..., Case]:
    if name in MAIN:
        return partial(operation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def operation(
    kernel: str,
    shape: tuple[int, ...] = (4096, 4096),
    dtype: str = "float32",
    out: str = "float32",
) -> Case:
    """Tensors of one shape, with inputs from the operation's domain where [-1, 1) is not in it."""
    case = plain(kernel, shape, dtype, out)
    tensors = dict(case.tensors)
    op = OPS[kernel]
    for name, (low, high) in zip(op.inputs, op.domain, strict=True):
        if low > -1 or high < 1:
            tensors[name] = replace(tensors[name], values=partial(between, low, high))
    return replace(case, tensors=tensors)


def between(low: float, high: float, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of the domain that float16 can hold."""
    return rng.uniform(max(low, -6e4), min(high, 6e4), shape)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> None:
    function = getattr(np, NUMPY.get(case.kernel, case.kernel), None)
    if function is None:
        raise Skipped("numpy has no such function")
    *inputs, dst = t.values()
    function(*inputs, out=dst)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    function = getattr(torch, case.kernel, None)
    if function is None:
        raise Skipped("torch has no such function")
    *inputs, dst = t.values()
    function(*inputs, out=dst)


@onnx_peer
def ort(case: Case) -> Node:
    inputs = OPS[case.kernel].inputs
    return Node(case.kernel.capitalize(), inputs[0], inputs)


PEERS = {"numpy": numpy, "torch": torch, "ort": ort}
