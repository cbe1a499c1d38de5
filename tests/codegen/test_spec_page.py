"""The page of the spec language has every key that codegen knows, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codegen import ops
from codegen.keys import TABLES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "spec.md").read_text(encoding="utf-8")
SECTIONS = {f"Keys of {table}": set(keys) for table, keys in TABLES.items()}
SECTIONS["Keys of a row"] = set(ops._KEYS)


@pytest.mark.parametrize("title", SECTIONS)
def test_every_key_has_its_line(title: str) -> None:
    section = re.search(rf"^#+ {title}\n(.*?)(?=^#|\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None
    cells = [line.split("|")[1] for line in section[1].splitlines() if line.startswith("| `")]
    named = {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}
    assert named == SECTIONS[title]


def test_the_budget_is_the_one_that_a_build_checks() -> None:
    from codegen.checks import MAX_TEXTS

    assert f"at most {MAX_TEXTS:,} texts" in PAGE
