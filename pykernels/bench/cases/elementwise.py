"""The operations of kernels/elementwise/ops.toml, in a size that fits into caches and in a larger
size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Array, Case, Function, Operand
from pykernels.bench.cases import plain
from pykernels.bench.onnx import Node, onnx_peer
from pykernels.bench.peers import Skipped, numpy_peer, torch_peer
from pykernels.bench.shapes import POWER, Shape, pick
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.functional.elementwise import elementwise as evaluated
from pykernels.reference.elementwise import OPS

SIZES = [Shape("256MiB", (1 << 26,), POWER), Shape("4096", (4096, 4096), POWER)]
SMALLER = ("neg", "exp", "add")  # operations that are measured in the second size too
SHOWN = ("neg", "exp", "add", "gelu", "where")  # operations with a case in README
TORCH = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "logsigmoid": "log_sigmoid",
}  # fmt: skip


def cases(edge: int = 0) -> Iterator[Case]:
    for name in (n for n in MAIN if n in OPS):
        for s in pick(SIZES if name in SMALLER else SIZES[:1], edge):
            for dtype in OPS[name].dtypes[:2]:
                case = operation(name, s.dims, dtype, dtype)
                yield case.labelled(name=s.name, origin=s.origin)
    for s in pick(SIZES[:1], edge):
        yield elementwise(s.dims).labelled(name=s.name, origin=s.origin)


def elementwise(
    shape: tuple[int, ...] = (4096, 4096), dtype: str = "float32", out: str = ""
) -> Case:
    """An expression of three tensors."""
    tensors = {n: Operand(shape, cast(DTypeName, dtype)) for n in ("x", "y", "z", "dst")}

    def meaning(x: Array, y: Array, z: Array, shape: tuple[int, ...]) -> Array:
        return x.astype(np.float64) * y + z

    def bound(x: Array, y: Array, z: Array, shape: tuple[int, ...]) -> Array:
        return 2.0**-22 * (np.abs(x.astype(np.float64) * y) + np.abs(z))

    function = Function(fused, meaning, bound, 2 * math.prod(shape))
    return Case("elementwise", tensors, {}, shape, function=function)


def fused(x: Tensor, y: Tensor, z: Tensor, dst: Tensor) -> None:
    evaluated("x * y + z", out=dst, x=x, y=y, z=z)


def __getattr__(name: str) -> Callable[..., Case]:
    if name in OPS:
        return partial(operation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def operation(
    kernel: str,
    shape: tuple[int, ...] = (4096, 4096),
    dtype: str = "",
    out: str = "",
) -> Case:
    """A case in which all tensors have one shape. Inputs are from [-1, 1), or from the operation's
    domain if that does not contain [-1, 1), or integers. Without a dtype, the case has the first
    dtype that the operation takes."""
    op = OPS[kernel]
    given = dtype if dtype in op.dtypes else op.dtypes[0]
    case = plain(kernel, shape, given, "bool" if op.output == "bool" else out or given)
    tensors = dict(case.tensors)
    for name in op.conditions:
        tensors[name] = replace(tensors[name], dtype="bool")
    values = [name for name in op.inputs if name not in op.conditions]
    for name, (low, high) in zip(values, op.domain, strict=True):
        if (low > -1 or high < 1) and given != "bool":
            tensors[name] = replace(tensors[name], values=partial(between, low, high))
    return replace(case, tensors=tensors)


def between(low: float, high: float, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of the domain that float16 can hold."""
    return rng.uniform(max(low, -6e4), min(high, 6e4), shape)


MAIN = {
    name: (operation(name, SIZES[0].dims).id,) if name in SHOWN else ()
    for name, op in OPS.items()
    if op.public
} | {"elementwise": ("f32-67108864",)}


def named(home: Any, kernel: str) -> Any:
    """The function of a library that has one of the operation's names."""
    found = (getattr(home, n, None) for n in (kernel, *OPS[kernel].aliases))
    return next((f for f in found if f is not None), None)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "elementwise":
        np.add(t["x"] * t["y"], t["z"], out=t["dst"])
        return
    function = named(np, case.kernel)
    if not isinstance(function, np.ufunc):
        raise Skipped("numpy has no such function")
    *inputs, dst = t.values()
    with np.errstate(all="ignore"):
        function(*inputs, out=dst)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "elementwise":
        torch.addcmul(t["z"], t["x"], t["y"], out=t["dst"])
        return
    name = TORCH.get(case.kernel, case.kernel)
    function = getattr(torch, name, None)
    if function is None:  # a function of torch.nn.functional, which takes no argument `out`
        function = getattr(getattr(torch.ops.aten, name, None), "out", None)
    if function is None:
        raise Skipped("torch has no such function")
    *inputs, dst = t.values()
    function(*inputs, out=dst)


@onnx_peer
def ort(case: Case) -> Node:
    if case.function is not None:
        raise Skipped("ONNX has no node for an expression")
    inputs = OPS[case.kernel].inputs
    return Node(case.kernel.capitalize(), inputs[0], inputs)


PEERS = {"numpy": numpy, "torch": torch, "ort": ort}
