"""Reductions of all elements, of rows and of columns, both long and short."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np

from pykernels import functional
from pykernels._generated.ops.reductions import RESULTS
from pykernels.bench.case import Case, Function, Operand
from pykernels.bench.peers import numpy_peer, torch_peer
from pykernels.bench.shapes import POWER, RAGGED, Shape, pick
from pykernels.device import Tensor
from pykernels.dtypes import DTypeName
from pykernels.reference import reduce as reference

# for an output of another dtype than the input: the end of the dtypes in the case's name
SHORT = {"int32": ">i32", "bool": ">bool"}
SHAPES = {
    "all": [Shape("1GiB", (1 << 28,), POWER)],
    "rows": [
        Shape("16384", (16384, 16384), POWER),
        Shape("hidden", (8192, 4096), "rows of a hidden state: 8192 tokens of 4096"),
        Shape("short-rows", (4194304, 8), POWER),
        Shape("imagenet-logits", (4096, 1000), "ImageNet classes, batch 4096"),
        Shape("llama-3-logits", (512, 128256), "Llama 3: logits of 512 tokens"),
        Shape("4095", (4095, 4095), RAGGED),
        Shape("small", (64, 256), "as small as calls get"),
    ],
    "columns": [
        Shape("16384", (16384, 16384), POWER),
        Shape("hidden", (8192, 4096), "gradient of a bias: 8192 tokens of 4096"),
        Shape("4095", (4095, 4095), RAGGED),
        Shape("colors", (1 << 24, 3), "the colors of 16 Mi pixels"),
    ],
}
AXES = {"all": None, "rows": -1, "columns": 0}
# kernels that are measured on all shapes; other kernels get the first shape of each list
EVERYWHERE = ("sum", "argmax")
# kernels that are also measured on all elements at once, and on halves
LARGE = (*EVERYWHERE, "var")
MAIN = {
    name: tuple(
        f"{dtype}{SHORT.get(RESULTS[name][0], '')}-{size}"
        for dtype in ("f32", "f16")
        for size in ("268435456-all", "16384x16384-rows", "16384x16384-columns")
        if name in LARGE or (dtype == "f32" and "all" not in size)
    )
    for name in RESULTS
} | {"reduction": ("f32-134217728-all", "f32-16384x16384-rows", "f32-16384x16384-columns")}
DOTS = {
    "all": Shape("1GiB", (1 << 27,), POWER),
    "rows": Shape("16384", (16384, 16384), POWER),
    "columns": Shape("16384", (16384, 16384), POWER),
}  # sums of products: `pk.reduction`


def cases(edge: int = 0) -> Iterator[Case]:
    for kernel in RESULTS:
        for note, shapes in SHAPES.items():
            if note == "all" and kernel not in LARGE:
                continue
            chosen = shapes if kernel in EVERYWHERE else shapes[:1]
            for s in pick(chosen, edge):
                for dtype in ("float32", "float16") if kernel in LARGE else ("float32",):
                    case = reduced(kernel, s.dims, dtype, axis=AXES[note])
                    yield case.labelled(name=s.name, origin=s.origin, note=note)
    for note, shape in DOTS.items():
        for s in pick([shape], edge):
            case = reduction(s.dims, axis=AXES[note])
            yield case.labelled(name=s.name, origin=s.origin, note=note)


def __getattr__(name: str) -> Callable[..., Case]:
    if name in RESULTS:
        return partial(reduced, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def reduced(
    kernel: str,
    shape: tuple[int, ...] = (4096, 4096),
    dtype: str = "float32",
    out: str = "",
    axis: int | None = -1,
) -> Case:
    """A case: a reduction over one axis or all axes; a product has the factors 1 and -1."""
    output = RESULTS[kernel][0]
    result = output if output in ("int32", "bool") else dtype
    rest = [n for a, n in enumerate(shape) if axis is not None and a != axis % len(shape)]
    values = signs if kernel == "prod" else None
    return Case(
        kernel,
        {
            "x": Operand(shape, cast(DTypeName, dtype), values=values),
            "dst": Operand(tuple(rest), cast(DTypeName, result)),
        },
        {"axis": axis},
        shape,
        part=None if axis is None or len(shape) != 2 else partial(some, axis % 2),
    )


def reduction(
    shape: tuple[int, ...] = (4096, 4096),
    dtype: str = "float32",
    out: str = "",
    axis: int | None = -1,
) -> Case:
    """A case: sums of the products of two tensors."""
    case = reduced("sum", shape, dtype, axis=axis)
    x, dst = case.tensors.values()
    with_y = None if case.part is None else partial(some, cast(int, axis) % 2)

    def products(x: Any, y: Any, shape: tuple[int, ...]) -> Any:
        return reference.sum(x.astype(np.float64) * y, axis, shape)

    def bound(x: Any, y: Any, shape: tuple[int, ...]) -> Any:
        return reference.sum_budget(x.astype(np.float64) * y, axis, shape)

    return Case(
        "reduction",
        {"x": x, "y": x, "dst": dst},
        {"axis": axis},
        shape,
        part=with_y,
        function=Function(dot, products, bound, 2 * math.prod(shape)),
    )


def dot(x: Tensor, y: Tensor, dst: Tensor, axis: int | None) -> None:
    functional.reduction("x * y", "sum", axis, out=dst, x=x, y=y)


def some(axis: int, t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the last rows or columns, which do not fill a tile."""
    n = min(77, t["dst"].size)
    ins = {k: x[:, -n:] if axis == 0 else x[-n:] for k, x in t.items() if k != "dst"}
    return {**ins, "dst": t["dst"][-n:]}


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Factors of 1 and -1, whose product stays in range."""
    return rng.integers(0, 2, shape, np.int8) * np.int8(2) - np.int8(1)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    axis, x = case.args["axis"], t["x"]
    if case.kernel == "reduction":
        return (x * t["y"]).sum(axis)
    if case.kernel == "norm":
        return np.sqrt((x * x).sum(axis))
    if case.kernel == "logsumexp":
        top = x.max(axis, keepdims=True)
        return np.log(np.exp(x - top).sum(axis)) + top.squeeze(axis)
    return getattr(np, case.kernel)(x, axis)


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    axis, x, dst = case.args["axis"], t["x"], t["dst"]
    axes = tuple(range(x.ndim)) if axis is None else (axis,)
    kernel = case.kernel
    if kernel == "reduction":  # the fastest of torch's ways
        torch.dot(x, t["y"], out=dst) if axis is None else torch.linalg.vecdot(
            x, t["y"], dim=axis, out=dst
        )
    elif kernel in ("var", "std"):
        getattr(torch, kernel)(x, axes, correction=0, out=dst)
    elif kernel == "norm":
        torch.linalg.vector_norm(x, 2, axes, out=dst)
    elif kernel in ("max", "min"):
        getattr(torch, f"a{kernel}")(x, axes, out=dst)
    elif kernel == "count_nonzero":
        dst.copy_(torch.count_nonzero(x, axes))
    elif kernel in ("argmax", "argmin", "prod", "any", "all"):
        found = getattr(torch, kernel)
        # torch chooses the dtype of this result, and `copy_` converts it
        dst.copy_(found(x) if axis is None else found(x, axis))
    else:
        getattr(torch, kernel)(x, axes, out=dst)


PEERS = {"numpy": numpy, "torch": torch}
