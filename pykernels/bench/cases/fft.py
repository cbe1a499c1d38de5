"""fft: lengths that take one, two or more passes over memory; real numbers; other axes and lengths.

The share of the roofline counts the bytes of one pass, in which each element is read once and
written once. A plan of two passes moves twice as many bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from pykernels.bench.case import Case, Operand
from pykernels.bench.cases import problem
from pykernels.bench.peers import numpy_peer, torch_peer
from pykernels.bench.shapes import cut
from pykernels.dtypes import DTypeName
from pykernels.plans.fft.lengths import layout
from pykernels.reference.fft import fft_table

Array = np.ndarray[Any, Any]
ELEMENTS = 1 << 24
POWERS = tuple(1 << bits for bits in (4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22))
OTHERS = (1000, 729, 2401, 100_000, 1009)
MAIN = {"complex": ("f32>c64-4096x4096",), "fft": ("c64-16384x1024", "c64-4x4194304")}


def fft(
    shape: tuple[int, ...] = (16384, 1024), dtype: str = "complex64", out: str = "",
    order: tuple[int, ...] = (), inverse: bool = False,
) -> Case:  # fmt: skip
    """A case: the transform of complex rows. Rows of float32 give half a spectrum, and with
    out="float32", half a spectrum gives rows of float32."""
    length = shape[-1]
    given, made = (*shape[:-1], length), (*shape[:-1], length)
    if dtype == "float32":
        out, made = "complex64", (*shape[:-1], length // 2 + 1)
    elif out == "float32":
        given = (*shape[:-1], length // 2 + 1)
    table = Operand((layout(length).size,), "complex64", values=lambda _, __: fft_table(length))
    tensors = {
        "x": Operand(given, cast(DTypeName, dtype), order), "table": table,
        "dst": Operand(made, cast(DTypeName, out or "complex64"), order),
    }  # fmt: skip
    note = "axis 0" if order else "inverse" if inverse else ""
    args = {"length": length, "inverse": inverse or out == "float32"}
    return Case("fft", tensors, args, shape, note, part=_last_rows)


def complex(shape: tuple[int, ...] = (4096, 4096), dtype: str = "float32", out: str = "") -> Case:
    """A case: real and imaginary parts are joined into complex numbers."""
    part = Operand(shape, "float32")
    return Case(
        "complex", {"real": part, "imag": part, "dst": Operand(shape, "complex64")}, {}, shape
    )


def _last_rows(t: dict[str, Any]) -> dict[str, Any]:
    return {"x": t["x"][-4:], "table": t["table"], "dst": t["dst"][-4:]}


def cases(edge: int = 0) -> Iterator[Case]:
    total = ELEMENTS if not edge else edge * edge
    for n in POWERS:
        if n <= total:
            yield problem("fft", (total // n, n), "complex64")
    for n in (1 << 10, 1 << 20):
        if n <= total:
            yield fft((total // n, n), "float32")
            yield fft((total // n, n), out="float32")
    n = cut(1024, edge)
    yield fft((total // n, n), order=(1, 0))
    for n in OTHERS:
        if n <= total:
            yield fft((total // n, n))
    yield complex((cut(4096, edge),) * 2)


@numpy_peer
def numpy(case: Case, t: dict[str, Any]) -> Any:
    return t["real"] + 1j * t["imag"] if case.kernel == "complex" else np.fft.fft(t["x"])


@torch_peer
def torch(torch: Any, case: Case, t: dict[str, Any]) -> None:
    if case.kernel == "complex":
        torch.complex(t["real"], t["imag"], out=t["dst"])
    elif t["x"].dtype == torch.float32:
        torch.fft.rfft(t["x"], out=t["dst"])
    elif t["dst"].dtype == torch.float32:
        torch.fft.irfft(t["x"], n=case.args["length"], norm="forward", out=t["dst"])
    else:
        torch.fft.fft(t["x"], out=t["dst"])


PEERS = {"numpy": numpy, "torch": torch}
