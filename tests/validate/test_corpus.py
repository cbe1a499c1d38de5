"""Texts by others, and the compilers' own verdicts on them: corpus/make.py wrote both."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from pykernels.validate import Lints, Source, agree, arrange, find_naga, find_tint
from pykernels.validate._files import fragments, gather, templates

CORPUS = Path(__file__).parent / "corpus"


def verdicts() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((CORPUS / "verdicts.json").read_text())["files"]
    return found


def test_the_corpus_is_listed_with_its_licenses() -> None:
    files = {p.relative_to(CORPUS).as_posix() for p in CORPUS.rglob("*.wgsl")}
    listed = re.findall(r"^\| (\S+\.wgsl) \| \S+ \S+ \| (.+) \|$",
                        (CORPUS / "SOURCES.md").read_text(), re.MULTILINE)  # fmt: skip
    assert len(files) >= 150 and files == {name for name, _ in listed} == verdicts().keys()
    assert all("MIT" in license for _, license in listed)
    assert all(list((CORPUS / name.split("/")[0]).glob("LICENSE*")) for name in files)
    assert sum(p.stat().st_size for p in CORPUS.rglob("*") if p.is_file()) < 1e6


def test_each_text_is_judged_as_the_compilers_do() -> None:
    tools = [find_naga(), find_tint(), Lints()]
    if None in tools:
        assert "CI" not in os.environ, "naga and Tint are required in CI"
        pytest.skip("needs naga and Tint")
    known = verdicts()
    sources = [Source(n, (CORPUS / n).read_text(encoding="utf-8").replace("\r\n", "\n"))
               for n in known]  # fmt: skip
    _, skipped, unfit = gather([CORPUS])
    assert skipped == []
    empty = {Path(f.source).relative_to(CORPUS).as_posix() for f in unfit}
    found = [f for tool in tools if tool is not None for f in tool.check(sources)]
    versions = {tool.name: tool.version for tool in tools if tool is not None}
    found = arrange(sources, agree(sources, found, versions))
    found, rendered = templates(sources, found, {"naga", "tint"})
    found, pieces = fragments(sources, found)
    aside = {s.file for s in (*rendered, *pieces)}
    errors = {f.source for f in found if f.severity == "error"}
    said = {f.source for f in found}
    for name, verdict in known.items():
        valid = [verdict[tool] == "valid" for tool in ("naga", "tint")]
        if name in empty:
            continue
        if all(valid):
            assert name not in errors | aside, (name, [str(f) for f in found if f.source == name])
        elif not any(valid):
            assert name in errors | aside, name
        else:  # one of them alone: an error, or what the other one lacks
            assert name in said | aside, name
