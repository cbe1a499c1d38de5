"""CITATION.cff and the forms of .github."""

from __future__ import annotations

import re

import pykernels as pk
from tests.docs.pages import ROOT


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", text, re.MULTILINE) == [pk.__version__]


def test_commands_of_the_forms_exist() -> None:
    """Scripts and commands that the issue forms and the pull request template ask for."""
    forms = [p for p in (ROOT / ".github").rglob("*") if p.is_file()]
    text = "\n".join(p.read_text(encoding="utf-8") for p in forms)
    scripts = set(re.findall(r"\bci/\w+\.\w+", text))
    commands = set(re.findall(r"`pykernels (\w+)", text))
    assert scripts and commands
    assert [s for s in scripts if not (ROOT / s).is_file()] == []
    assert [c for c in commands if not (ROOT / "pykernels" / "cli" / f"{c}.py").is_file()] == []
