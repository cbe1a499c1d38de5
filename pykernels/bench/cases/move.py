"""Picks by index, triangles, borders, and the positions where a mask is True."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.peers import Skipped, numpy_peer, torch_peer
from pykernels.bench.shapes import POWER, Shape, cut, pick
from pykernels.dtypes import DTypeName

Array = np.ndarray[Any, Any]
# number of rows x their width x number of rows that they are added to
SUMS = [
    Shape("few-to-each", (1 << 20, 1, 1 << 16), POWER),
    Shape("16-to-each", (1 << 24, 1, 1 << 20), POWER),
    Shape("rows-of-128", (65536, 128, 8192), POWER),
]
MAIN = {
    "gather": ("f32xi32>f32-16384x4096-axis_0",),
    "last_index": ("i32-4194304",),
    "nonzero": ("boolxi32>i32-67108864",),
    "nonzero_offsets": ("bool>i32-67108864",),
    "pad": ("f32-262144x128-rows_of_512_bytes",),
    "scatter": ("f32xi32>f32-16384x4096-axis_0",),
    "scatter_add": ("f32xi32>f32-1048576x1",),
    "tri": ("f32-16384x16384",),
}


def columns(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the last two columns."""
    return {n: a[:, -2:] for n, a in t.items()}


def picks(kernel: str, shape: tuple[int, ...], dtype: str, axis: int) -> Case:
    """A case: each element moves once, from or to another place along an axis."""

    def places(rng: np.random.Generator, of: tuple[int, ...]) -> Array:
        order = rng.permutation(of[axis]).astype(np.int32)
        return np.broadcast_to(order if axis else order[:, None], of)

    side = Operand(shape, cast(DTypeName, dtype))
    tensors = {"src": side, "index": Operand(shape, "int32", values=places), "dst": side}
    return Case(
        kernel, tensors, {"axis": axis}, shape, note=f"axis {axis}",
        part=columns if axis == 0 else rows,
    )  # fmt: skip


def rows(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the last two rows."""
    return {n: a[-2:] for n, a in t.items()}


def gather(
    shape: tuple[int, ...] = (16384, 4096), dtype: str = "float32", out: str = "float32"
) -> Case:
    return picks("gather", shape, dtype, 0)


def scatter(
    shape: tuple[int, ...] = (16384, 4096), dtype: str = "float32", out: str = "float32"
) -> Case:
    return picks("scatter", shape, dtype, 0)


def last_index(
    shape: tuple[int, ...] = (1 << 22,), dtype: str = "int32", out: str = "int32"
) -> Case:
    """A case: indices, each of which occurs twice on average."""

    def places(rng: np.random.Generator, of: tuple[int, ...]) -> Array:
        return rng.integers(0, max(of[0] // 2, 1), of).astype(np.int32)

    tensors = {"index": Operand(shape, "int32", values=places), "kept": Operand(shape, "int32")}
    return Case("last_index", tensors, {"axis": 0}, shape, part=whole_index)


def whole_index(t: dict[str, Any]) -> dict[str, Any]:
    """The part for checking is the whole problem, because the last of equal indices depends on all
    indices."""
    return t


def scatter_add(
    shape: tuple[int, ...] = (1 << 20, 1), dtype: str = "float32", out: str = "float32"
) -> Case:
    return adding(shape, max(shape[0] // 16, 1))


def adding(shape: tuple[int, ...], m: int) -> Case:
    """A case: elements are added to m rows; a row may get any number of them."""

    def places(rng: np.random.Generator, of: tuple[int, ...]) -> Array:
        return np.broadcast_to(rng.integers(0, m, (of[0], 1)).astype(np.int32), of)

    tensors = {
        "src": Operand(shape, "float32", values=whole),
        "index": Operand(shape, "int32", values=places),
        "dst": Operand((m, *shape[1:]), "float32", values=whole),
    }
    return Case("scatter_add", tensors, {"axis": 0}, shape, part=columns)


def whole(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Small integers, whose sums are exact."""
    return rng.integers(0, 8, shape).astype(np.float32)


def pad(
    shape: tuple[int, ...] = (262144, 128), dtype: str = "float32", out: str = "float32"
) -> Case:
    """A case: matrices get a border of four columns."""
    return padded(shape, ((0, 0),) * (len(shape) - 1) + ((4, 4),), dtype, "constant")


def padded(
    shape: tuple[int, ...], widths: tuple[tuple[int, int], ...], dtype: str, mode: str
) -> Case:
    whole = tuple(n + a + b for n, (a, b) in zip(shape, widths, strict=True))
    tensors = {
        "src": Operand(shape, cast(DTypeName, dtype)), "dst": Operand(whole, cast(DTypeName, dtype))
    }  # fmt: skip
    args = {"before": tuple(a for a, _ in widths), "mode": mode}
    return Case("pad", tensors, args, shape, note=mode if mode != "constant" else "", part=first)


def first(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking: the first matrices along the first axis, which has no border."""
    return {n: a[:2] for n, a in t.items()}


def tri(shape: tuple[int, ...] = (16384, 16384), dtype: str = "float32", out: str = "") -> Case:
    """A case: a triangle of a square. The first rows are checked, because the number of a row
    decides which elements stay."""
    square = Operand(shape, cast(DTypeName, dtype))
    return Case("tri", {"src": square, "dst": square}, {"upper": False}, shape, part=first)


def nonzero_offsets(
    shape: tuple[int, ...] = (1 << 26,), dtype: str = "bool", out: str = "int32"
) -> Case:
    """A case: the offsets of the chunks of a mask that is half full."""
    return counting("nonzero_offsets", shape)


def nonzero(shape: tuple[int, ...] = (1 << 26,), dtype: str = "bool", out: str = "int32") -> Case:
    """A case: half of the elements are zero, and their indices are written."""
    return counting("nonzero", shape)


def mask(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(0, 2, shape).astype(bool)


def counting(kernel: str, shape: tuple[int, ...]) -> Case:
    size = int(np.prod(shape))
    chunks = -(-size // 4096)
    tensors = {"src": Operand(shape, "bool", values=mask)}
    if kernel == "nonzero_offsets":
        return Case(kernel, tensors | {"offsets": Operand((chunks + 1,), "int32")}, {}, shape)
    # `count` computes the offsets of the chunks; about half of the mask is True.
    tensors |= {
        "offsets": Operand((chunks + 1,), "int32"),
        "dst": Operand((len(shape), size // 2), "int32"),
    }
    return Case(kernel, tensors, {}, shape, prepare=count, part=indices)


def count(t: dict[str, Any]) -> None:
    from pykernels import kernels

    kernels.nonzero_offsets(t["src"], t["offsets"])


def indices(t: dict[str, Any]) -> dict[str, Any]:
    """The part for checking is the whole problem, because each part of the result needs the whole
    mask."""
    return t


def cases(edge: int = 0) -> Iterator[Case]:
    n, m = cut(16384, edge), cut(4096, edge)
    for kernel in ("gather", "scatter"):
        for dtype in ("float32", "float16"):
            for axis in (0, 1):
                yield picks(kernel, (n, m), dtype, axis)
    for dtype in ("float32", "float16"):
        for upper in (False, True):
            yield tri((n, n), dtype).labelled(
                args={"upper": upper}, note="upper" if upper else ""
            )  # fmt: skip
        some = (cut(262144, edge * edge), 128)
        yield padded(some, ((0, 0), (4, 4)), dtype, "constant").labelled(note="rows of 512 bytes")
        images = (cut(32, edge), cut(64, edge), cut(224, edge), cut(224, edge))
        around = ((0, 0), (0, 0), (1, 1), (1, 1))
        for mode in ("constant", "reflect", "replicate", "circular"):
            yield padded(images, around, dtype, mode)
    for s in pick(SUMS, edge):
        *shape, rows_of_dst = s.dims
        yield adding(tuple(shape), rows_of_dst).labelled(name=s.name, origin=s.origin)
    size = (cut(1 << 26, edge * edge),)
    yield last_index((cut(1 << 22, edge * edge),))
    yield counting("nonzero_offsets", size)
    yield counting("nonzero", size)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "gather":
        t["dst"][...] = np.take_along_axis(t["src"], t["index"], case.args["axis"])
    elif case.kernel == "scatter":
        np.put_along_axis(t["dst"], t["index"], t["src"], case.args["axis"])
    elif case.kernel == "tri":
        t["dst"][...] = (np.triu if case.args.get("upper") else np.tril)(t["src"])
    elif case.kernel == "nonzero":
        np.nonzero(t["src"])
    else:
        raise Skipped("this peer is written for other kernels")


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    args = case.args
    if case.kernel == "gather":
        torch.gather(t["src"], args["axis"], _long(case, t), out=t["dst"])
    elif case.kernel == "scatter":
        t["dst"].scatter_(args["axis"], _long(case, t), t["src"])
    elif case.kernel == "scatter_add":
        t["dst"].scatter_add_(args["axis"], _long(case, t), t["src"])
    elif case.kernel == "tri":
        (torch.triu if args.get("upper") else torch.tril)(t["src"], out=t["dst"])
    elif case.kernel == "pad":
        widths: list[int] = []
        pairs = zip(args["before"], t["src"].shape, t["dst"].shape, strict=True)
        for before, n, whole in pairs:
            widths = [before, whole - n - before, *widths]
        used = widths if args["mode"] == "constant" else widths[:4]
        torch.nn.functional.pad(t["src"], used, args["mode"])
    else:
        raise Skipped("torch's nonzero counts and reads in one call")


def _long(case: Case, t: dict[str, Any]) -> Any:
    """torch's index is int64, so it is converted once before the calls."""
    if "long" not in t:
        t["long"] = t["index"].long()
    return t["long"]


PEERS = {"numpy": numpy, "torch": torch}
