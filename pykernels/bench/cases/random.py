"""Random numbers, which are slower than a fill because of their arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pykernels.bench.case import Case, Operand
from pykernels.bench.peers import Skipped, torch_peer
from pykernels.bench.shapes import POWER, Shape, cut, pick
from pykernels.dtypes import DTypeName

SIZES = [Shape("256MiB", (1 << 26,), POWER), Shape("1GiB", (1 << 28,), POWER)]
MAIN = {
    "rand": ("f32-268435456",), "randn": ("f32-268435456",), "randint": ("i32-268435456",),
    "bernoulli": ("bool-268435456", "f16-268435456"), "random_advance": ("u32-6",),
    "categorical": ("f32>i32-1x128256", "f16>i32-1x128256"),
}  # fmt: skip
ARGS: dict[str, dict[str, Any]] = {
    "rand": {}, "randn": {}, "randint": {"low": -5, "high": 1000},
    "bernoulli": {"p": 0.9, "value": 1 / 0.9},
}  # fmt: skip
DTYPES = {
    "rand": ("float32", "float16"), "randn": ("float32", "float16"), "randint": ("int32",),
    "bernoulli": ("bool", "float16", "float32"),
}  # fmt: skip
CHECKED = 1 << 19


def beginning(t: dict[str, Any]) -> dict[str, Any]:
    """A part for checking. A number depends only on its position, so the numbers at the beginning
    are a small problem of the same kind."""
    return {"dst": t["dst"][:CHECKED]}


def drawn(kernel: str, shape: tuple[int, ...], dtype: str) -> Case:
    """A case: the numbers of one seed."""
    dst = Operand(shape, cast(DTypeName, dtype))
    args = ARGS[kernel] | {"seed": 1}
    return Case(kernel, {"dst": dst}, args, shape, part=beginning if len(shape) == 1 else None)


def rand(shape: tuple[int, ...] = (1 << 28,), dtype: str = "float32", out: str = "") -> Case:
    return drawn("rand", shape, dtype)


def randn(shape: tuple[int, ...] = (1 << 28,), dtype: str = "float32", out: str = "") -> Case:
    return drawn("randn", shape, dtype)


def randint(shape: tuple[int, ...] = (1 << 28,), dtype: str = "int32", out: str = "") -> Case:
    return drawn("randint", shape, dtype)


def bernoulli(shape: tuple[int, ...] = (1 << 28,), dtype: str = "bool", out: str = "") -> Case:
    return drawn("bernoulli", shape, dtype)


def random_advance(shape: tuple[int, ...] = (6,), dtype: str = "uint32", out: str = "") -> Case:
    """A case: one random state is advanced."""
    return Case("random_advance", {"dst": Operand((6,), "uint32")}, {"blocks": 7}, (6,))


def categorical(
    shape: tuple[int, ...] = (1, 128256), dtype: str = "float32", out: str = "int32"
) -> Case:
    """A case: a draw from each row of logits."""
    logits = Operand(shape, cast(DTypeName, dtype))
    return Case("categorical", {"logits": logits, "dst": Operand(shape[:-1], "int32")},
                {"seed": 1}, shape)  # fmt: skip


def cases(edge: int = 0) -> Iterator[Case]:
    for kernel, dtypes in DTYPES.items():
        for s in pick(SIZES, edge):
            for dtype in dtypes:
                yield drawn(kernel, s.dims, dtype).labelled(name=s.name, origin=s.origin)
    rows = cut(16384, edge)
    gaps = Operand((rows, rows), "float32", gap=64)
    yield Case("rand", {"dst": gaps}, {"seed": 1}, (rows, rows), "with gaps", part=first_row)
    yield random_advance()
    for shape in ((1, 128256), (64, 128256), (4096, 1000)):
        for dtype in ("float32", "float16"):
            rows, cols = shape
            yield categorical((cut(rows, edge), cut(cols, edge)), dtype)


def first_row(t: dict[str, Any]) -> dict[str, Any]:
    return {"dst": t["dst"][:1]}


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    dst = t["dst"]
    if case.kernel == "rand":
        dst.uniform_()
    elif case.kernel == "randn":
        dst.normal_()
    elif case.kernel == "randint":
        dst.random_(-5, 1000)
    elif case.kernel == "bernoulli":
        dst.bernoulli_(0.9)
    elif case.kernel == "categorical":
        dst.copy_(torch.multinomial(torch.softmax(t["logits"].float(), -1), 1)[:, 0])
    else:
        raise Skipped("torch has no such function")


PEERS = {"torch": torch}
