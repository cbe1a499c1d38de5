"""What type checkers see of layer two: overloads made of one annotated signature."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import pykernels as pk
from codegen import BuildError
from codegen.build import Build
from codegen.signatures import Signatures, signatures

HELPERS = """
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["up", "down"]
"""
TOY = """
from collections.abc import Sequence
from typing import TypeAlias, overload

from ._helpers import Mode

Size: TypeAlias = int | Sequence[int]


def zoom(
    x: Array, y: Array, /, size: Size, bias: Array | None = None, scale: float = LEVEL, *,
    mode: Mode = "up", state: Tensor | None = None, out: Tensor | None = None,
) -> Array: ...


magnify = zoom


def zap(x: Array, axis: int | None = None, out: Tensor | None = None) -> Array: ...


def peak(x: Array, axis: int = 0, return_indices: bool = False) -> Array | tuple[Array, Array]: ...


def both(*arrays: Array) -> tuple[Array, ...]: ...


def parts(x: Array) -> list[Array]: ...


def named(text: str, **operands: Array | float) -> Array: ...


@overload
def own(x: Tensor) -> Tensor: ...
@overload
def own(x: NDArray) -> NDArray: ...
def own(x: Array) -> Array: ...


def length(x: Array) -> int: ...
"""
WANT = {
    "zoom": [
        "(x: Tensor, y: Array, /, {many}, out: Tensor | None = None) -> Tensor",
        "(x: Array, y: Tensor, /, {many}, out: Tensor | None = None) -> Tensor",
        "(x: Array, y: Array, /, {many}, out: Tensor) -> Tensor",
        "(x: NDArray, y: NDArray, /, {none}, out: None = None) -> NDArray",
        "(x: Array, y: Array, /, {many}, out: Tensor | None = None) -> Array",
    ],
    "zap": [
        "(x: Tensor, axis: int | None = None, out: Tensor | None = None) -> Tensor",
        "(x: Array, axis: int | None = None, *, out: Tensor) -> Tensor",
        "(x: NDArray, axis: int | None = None, out: None = None) -> NDArray",
        "(x: Array, axis: int | None = None, out: Tensor | None = None) -> Array",
    ],
    "peak": [
        "(x: Tensor, axis: int = 0, return_indices: Literal[False] = False) -> Tensor",
        "(x: NDArray, axis: int = 0, return_indices: Literal[False] = False) -> NDArray",
        "(x: Tensor, axis: int = 0, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]",
        "(x: NDArray, axis: int = 0, *, return_indices: Literal[True]) -> tuple[NDArray, NDArray]",
        "(x: Array, axis: int = 0, return_indices: bool = False) -> Array | tuple[Array, Array]",
    ],
    "both": [
        "(*arrays: Tensor) -> tuple[Tensor, ...]",
        "(*arrays: NDArray) -> tuple[NDArray, ...]",
        "(*arrays: Array) -> tuple[Array, ...]",
    ],
    "parts": [
        "(x: Tensor) -> list[Tensor]",
        "(x: NDArray) -> list[NDArray]",
        "(x: Array) -> list[Tensor] | list[NDArray]",
    ],
    "named": [
        "(text: str, **operands: Tensor) -> Tensor",
        "(text: str, **operands: NDArray | float) -> NDArray",
        "(text: str, **operands: Array | float) -> Array",
    ],
}  # fmt: skip
MANY = (
    "size: int | Sequence[int], bias: Array | None = None, scale: float = ..., *, "
    "mode: Literal['up', 'down'] = 'up', state: Tensor | None = None"
)
NONE = MANY.replace("Array", "NDArray").replace("Tensor | None", "None")


def found(folder: Path, text: str) -> Signatures:
    room = folder / "pykernels" / "functional"
    room.mkdir(parents=True, exist_ok=True)
    (room / "_helpers.py").write_text(HELPERS, encoding="utf-8")
    (room / "toy.py").write_text(text, encoding="utf-8")
    names = [*re.findall(r"^def (\w+)", text, re.MULTILINE), "magnify"]
    return signatures(folder, dict.fromkeys(names, "pykernels.functional.toy"))


def test_each_way_to_call_is_an_overload(tmp_path: Path) -> None:
    made = found(tmp_path, TOY)
    assert made.imports == {
        "from collections.abc import Sequence", "from typing import Literal",
    }  # fmt: skip
    assert made.functions.pop("magnify") == ["magnify = zoom"]
    assert {*made.functions} == {*WANT}  # the others are taken as they are
    for name, wanted in WANT.items():
        told = [w.format(many=MANY, none=NONE) for w in wanted]
        assert made.functions[name][1::2] == [f"def {name}{t}: ..." for t in told]
        assert {*made.functions[name][::2]} == {"@overload"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def zoom(x: Array, y) -> Array: ...", "toy.py:1: y has no annotation"),
        ("def zoom(x: Array, y: What) -> Array: ...", "toy.py:1: annotation What: no such name"),
    ],
)
def test_what_an_annotation_must_be(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(BuildError, match=re.escape(error)):
        found(tmp_path, text)


def test_overloads_have_the_parameters_of_the_functions(here: Build) -> None:
    """The last overload of each is the signature that it has when it runs."""
    last = {
        d.name: d.args
        for d in ast.parse(here.files["functions.pyi"]).body
        if isinstance(d, ast.FunctionDef)
    }
    assert len(last) > 100
    for name, args in last.items():
        parts = (args.posonlyargs, args.args, [args.vararg], args.kwonlyargs, [args.kwarg])
        names = [a.arg for part in parts for a in part if a is not None]
        assert names == list(inspect.signature(getattr(pk, name)).parameters), name
