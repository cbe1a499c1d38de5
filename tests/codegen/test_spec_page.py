"""The page of the spec language has every key that codegen knows, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen import operations, ops, reductions
from codegen.keys import EXCLUDE, TABLES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "spec.md").read_text(encoding="utf-8")
SECTIONS = {f"Keys of {table}": set(keys) for table, keys in TABLES.items()}
SECTIONS["Keys of a row"] = set(ops._KEYS)
SECTIONS["Keys of a reduction"] = set(reductions._ROW)
SECTIONS["Keys of a function"] = set(operations._FUNCTION)
SECTIONS["Keys of an argument"] = set(operations._ARGUMENT)
SECTIONS["Keys of a result"] = set(operations._RESULT)
SECTIONS["Keys of a kernel that is a reduction"] = set(reductions._KERNEL)


def section(title: str) -> str:
    found = re.search(rf"^#+ {title}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("title", SECTIONS)
def test_every_key_has_its_line(title: str) -> None:
    cells = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    named = {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}
    assert named == SECTIONS[title]


def test_keys_that_exclude_each_other_are_those_of_codegen() -> None:
    rows = re.findall(
        r"^\| `(\w+)`(?: of (a \w+))? \| ([^:;|]*)", section("Keys that exclude each other"), re.M
    )
    told = {(table or "the block", key): re.findall(r"`(\w+)`", rest) for key, table, rest in rows}
    assert told == {
        (t, key): list(others) for t, all_ in EXCLUDE.items() for key, others, _ in all_
    }


def test_the_budget_is_the_one_that_a_build_checks() -> None:
    from codegen.checks import MAX_TEXTS

    assert f"at most {MAX_TEXTS:,} texts" in PAGE
