"""The dtype of a result that is computed from operands of several dtypes.

The rules, which docs/reference/promotion.md shows as a table:

- Beside a number, bool becomes the number's type; beside a float, an integer becomes that float;
  beside float32, a 16-bit float becomes float32.
- Two integers become the smallest signed or unsigned integer that holds both, but no integer of
  more than 32 bits: int32 with uint32 gives int32, which wraps.
- Two kinds of 16-bit floats give float32.
- A Python number is weak: it takes the dtype of the tensors, but an int beside bool tensors gives
  int32, and a float beside integer tensors gives float32. numpy's integer scalars are weak, too.
- complex64 with any other dtype gives complex64.
- int64 is computed as int32; the next synchronisation reports elements that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pykernels.dtypes import DTYPES, DTypeName

__all__ = ["WEAK", "promote", "result_type", "weak"]

# The dtypes of Python's numbers if there is no stronger operand.
WEAK: dict[type, DTypeName] = {bool: "bool", int: "int32", float: "float32"}


def weak(dtype: str) -> str:
    """The mark of a Python number that has this dtype if there is no stronger operand."""
    return f"weak {dtype}"


def promote(a: DTypeName, b: DTypeName) -> DTypeName:
    """The dtype of a result of operands of two dtypes; int64 stays int64 only beside int64."""
    if a == b:
        return a
    if "complex64" in (a, b):
        return "complex64"
    if "int64" in (a, b):
        return promote("int32" if a == "int64" else a, "int32" if b == "int64" else b)
    x, y = sorted((DTYPES[a], DTYPES[b]), key=lambda d: (d.kind == "f", d.kind != "b", d.itemsize))
    if y.kind == "f":
        return "float32" if x.kind == "f" else y.name
    if x.kind in ("b", y.kind):
        return y.name
    signed, unsigned = (x, y) if x.kind == "i" else (y, x)
    if signed.itemsize > unsigned.itemsize:
        return signed.name
    return "int16" if unsigned.itemsize == 1 else "int32"


def result_type(operands: Iterable[str]) -> DTypeName:
    """The dtype of a result. `operands` are names of dtypes, or marks that `weak` returns."""
    strong: list[DTypeName] = []
    weaker: list[DTypeName] = []
    for name in operands:
        mark, _, rest = name.rpartition(" ")
        (weaker if mark else strong).append(rest)  # type: ignore[arg-type]
    if not weaker:
        return reduce(promote, strong)
    number = reduce(promote, weaker)
    found = reduce(promote, strong) if strong else number
    return found if _level(found) >= _level(number) else number


def _level(dtype: DTypeName) -> int:
    """0 for bool, 1 for an integer dtype, 2 for a float dtype."""
    return {"b": 0, "f": 2}.get(DTYPES[dtype].kind, 1)
