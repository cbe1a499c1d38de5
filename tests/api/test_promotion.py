"""The dtype of a result: what the rules say of every pair, and of Python's numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pykernels.call.promotion import promote, result_type, weak
from pykernels.dtypes import DTYPES, DTypeName

COMPUTED: list[DTypeName] = [d for d in DTYPES if d != "int64"]
# Where numpy goes to 64 bits, or knows no bfloat16.
OURS = {
    ("int32", "uint32"): "int32", ("int16", "uint32"): "int32", ("int8", "uint32"): "int32",
    ("float16", "bfloat16"): "float32",
}  # fmt: skip


def expected(a: DTypeName, b: DTypeName) -> str:
    for pair in ((a, b), (b, a)):
        if pair in OURS:
            return OURS[pair]
    if "complex64" in (a, b):
        return "complex64"
    kinds = {a: DTYPES[a].kind, b: DTYPES[b].kind}
    if "f" in kinds.values() and set(kinds.values()) != {"f"}:
        return a if kinds[a] == "f" else b  # numpy goes up to hold every integer
    if "bfloat16" in (a, b):
        return a if a == b else "float32"
    return np.promote_types(a, b).name


@pytest.mark.parametrize(("a", "b"), list(itertools.product(COMPUTED, COMPUTED)))
def test_pairs(a: DTypeName, b: DTypeName) -> None:
    assert promote(a, b) == promote(b, a) == expected(a, b)


def test_promotion_does_not_depend_on_the_order() -> None:
    for three in itertools.combinations(COMPUTED, 3):
        assert len({result_type(p) for p in itertools.permutations(three)}) == 1, three


@pytest.mark.parametrize(
    ("operands", "result"),
    [
        (["int8", weak("int32")], "int8"), (["uint8", weak("float32")], "float32"),
        (["float16", weak("float32")], "float16"), (["bool", weak("int32")], "int32"),
        (["bool", weak("bool")], "bool"), (["bool", weak("float32")], "float32"),
        (["float16", weak("int32"), "float32"], "float32"), ([weak("int32")], "int32"),
        ([weak("int32"), weak("float32")], "float32"), (["bfloat16", weak("bool")], "bfloat16"),
    ],
)  # fmt: skip
def test_numbers_of_python_are_weak(operands: list[str], result: str) -> None:
    assert result_type(operands) == result


def test_int64_takes_part_as_int32() -> None:
    assert promote("int64", "int64") == "int64"
    assert promote("int64", "bool") == promote("int64", "int32") == "int32"
    assert promote("int64", "uint32") == "int32"
    assert promote("float16", "int64") == "float16"
