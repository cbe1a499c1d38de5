"""Where modules live: few at the top, none with a twin, and imports by name know their layers."""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

import pykernels as pk

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pykernels"
# Rooms that all families share; in the others a file has the name of its family.
SHARED = ("", "tensors", "call", "runtime", "wgsl", "tuning", "tape")
# Imports by name that lead up, so that what is below loads nothing that it seldom needs.
UP = {
    ("call.apply", "functional.complex"),  # operations of complex tensors
    ("runtime.control", "bench.explain"),  # Device.explain
    ("runtime.control", "raw.debugging"),  # Device.debug
    ("runtime.launch", "raw.checking"),  # PYKERNELS_DEBUG=2
    ("runtime.launch", "raw.records"),  # Device.debug
    ("tape._entry", "gradients"),  # the rules of a family, when a tape meets one of its kernels
    ("tensors.interop.composed", "fft"),  # np.fft.fft(x)
    ("tensors.operators", "functional"),  # x + y
    ("tensors.quantised", "tensors.raw_quantised"),  # bytes of types that are only dequantised
}


def contracts(kind: str) -> list[dict[str, list[str]]]:
    """The import contracts of a kind."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [c for c in config["tool"]["importlinter"]["contracts"] if c["type"] == kind]


@functools.cache
def layers() -> dict[str, int]:
    """The number of each layer from the top."""
    [contract] = contracts("layers")
    rows = enumerate(contract["layers"])
    return {name: i for i, row in rows for name in row.replace(" ", "").split("|")}


def layer_of(module: str) -> int | None:
    """The layer of a module below `pykernels`, None where it has none."""
    known, parts = layers(), module.split(".")
    heads = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((known[head] for head in heads if head in known), None)


@functools.cache
def modules(folder: Path) -> list[str]:
    """The modules and packages in a folder; not what the build writes."""
    files = [p.stem for p in folder.glob("*.py") if p.stem != "__init__"]
    return sorted([*files, *(p.parent.name for p in folder.glob("[a-z]*/__init__.py"))])


def named(path: Path) -> Iterator[str]:
    """The modules below `pykernels` that texts of a file name from their beginning."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts = node.values[:1] if isinstance(node, ast.JoinedStr) else [node]
        for text in parts:
            if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
                continue
            words = text.value.split(".")
            if words[0] != "pykernels" or " " in text.value:
                continue
            found, folder = [], PACKAGE
            for word in words[1:]:
                if not word or word not in modules(folder):
                    break
                found.append(word)
                folder /= word
            if found:
                yield ".".join(found)


def test_few_modules_are_at_the_top() -> None:
    found = sorted(p.stem for p in PACKAGE.glob("*.py"))
    assert len(found) <= 12, found


def test_no_module_hides_a_function() -> None:
    """Once `pykernels.tensor` is imported, `pykernels.tensor(...)` would call a module."""
    assert sorted({*pk.functional.__all__} & {*modules(PACKAGE)}) == []


def twins(names: list[str]) -> list[tuple[str, str]]:
    """Names that differ by an s or not at all."""
    pairs = combinations(sorted(names), 2)
    return [(a, b) for a, b in pairs if b in (a, a + "s")]


def test_no_module_has_a_twin() -> None:
    names = [n for room in SHARED for n in modules(PACKAGE / room) if not n.startswith("_")]
    assert twins(names) == []


def test_a_twin_is_found() -> None:
    assert twins(["plans", "axes", "plan", "axes"]) == [("axes", "axes"), ("plan", "plans")]


@pytest.mark.parametrize("room", ["tensors", "call"])
def test_each_module_of_a_room_is_a_layer(room: str) -> None:
    """import-linter asks that of the top only."""
    known = layers()
    assert [n for n in modules(PACKAGE / room) if f"{room}.{n}" not in known] == []


def test_no_package_may_have_circles() -> None:
    known = {name for contract in contracts("acyclic_siblings") for name in contract["ancestors"]}
    assert [n for n in modules(PACKAGE) if (PACKAGE / n).is_dir() and f"pykernels.{n}" not in known
            ] == []  # fmt: skip


def test_a_library_that_one_family_uses_lives_with_it() -> None:
    """Dialects of matrix units and quantised types are chosen by an axis; helpers of rows are for
    epilogues, too."""
    kernels = ROOT / "kernels"
    lonely = []
    for path in sorted((kernels / "lib").rglob("*.wgsl")):
        name = path.relative_to(kernels / "lib").with_suffix("").as_posix()
        marks = (f'"{name}"', f'"kernels/lib/{name}.wgsl"')
        users, helps = set(), False
        for file in [*kernels.glob("[a-z]*/*.*"), *kernels.glob("[a-z]*/lib/**/*.wgsl")]:
            text = file.read_text(encoding="utf-8")
            helps |= file.name == "ops.toml" and f'"{name}.' in text
            if any(mark in text for mark in marks):
                users.add(file.relative_to(kernels).parts[0])
        if len(users - {"lib"}) < 2 and not helps and not name.startswith(("mma/", "quant")):
            lonely.append(name)
    assert lonely == []


def test_imports_by_name_lead_down_but_for_those_that_are_known() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        module = module.removesuffix("__init__").rstrip(".")
        here = layer_of(module)
        if module.startswith("_generated") or here is None:
            continue
        for name in named(path):
            there = layer_of(name)
            if there is not None and there < here:
                found.add((module, name))
    assert found == UP
