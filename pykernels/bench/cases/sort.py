"""sort and argsort: one long row, many short ones, narrow keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.cases import problem
from pykernels.bench.peers import numpy_peer, torch_peer
from pykernels.bench.run import Skipped
from pykernels.bench.shapes import POWER, RAGGED, Shape, cut, pick
from pykernels.dtypes import DTypeName

ROWS = [
    Shape("one-row", (1, 1 << 24), POWER),
    Shape("4096", (4096, 4096), POWER),
    Shape("short-rows", (65536, 256), "many rows that share a workgroup"),
    Shape("block-rows", (8192, 2048), "rows that fill workgroup memory"),
    Shape("ragged", (1, 9_999_999), RAGGED),
]
MAIN = {"argsort": ("f32>i32-1x16777216",), "sort": ("f32-1x16777216",)}


def argsort(shape: tuple[int, ...] = (1, 1 << 24), dtype: DTypeName = "float32") -> Case:
    """Positions of rows in order."""
    return Case("argsort", {"x": Operand(shape, dtype), "dst": Operand(shape, "int32")}, {}, shape)


def cases(edge: int = 0) -> Iterator[Case]:
    for s in pick(ROWS, edge):
        for case in (argsort(s.dims), problem("sort", s.dims, "float32")):
            yield case.labelled(name=s.name, origin=s.origin)
    n = cut(1 << 24, edge)
    yield argsort((1, n), "float16")
    yield argsort((1, n), "uint32")


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    return getattr(np, case.kernel)(t["x"], -1, kind="stable")


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if t["x"].dtype == torch.uint32:
        raise Skipped("torch sorts no uint32")
    found = torch.sort(t["x"], dim=-1, stable=True)
    t["dst"].copy_(found[1] if case.kernel == "argsort" else found[0])


PEERS = {"numpy": numpy, "torch": torch}
