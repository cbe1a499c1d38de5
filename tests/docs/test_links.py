"""Links, anchors and paths of README and docs lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, name_of, prose

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
# `pykernels/plans/x.py`: a path of the checkout. Words in capitals (FAMILY) stand for others.
_PATH = re.compile(r"`((?:kernels|pykernels|codegen|ci|bench|tests|docs|examples)/[\w./-]*)`")
_OTHERS = re.compile(r"(?<![A-Za-z])(?!README|CHANGELOG)[A-Z]{4,}(?![A-Za-z])")
_MADE = ("pykernels/_generated", "bench/results")  # by a build or a run: not in every checkout


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page.read_text(encoding="utf-8"))):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-")
        number = 1
        while slug in found:
            slug = f"{slug.rsplit('-', 1)[0] if number > 1 else slug}-{number}"
            number += 1
        found.add(slug)
    return found


def broken(page: Path) -> list[str]:
    """The page's links that lead nowhere."""
    found = []
    for link in _LINK.findall(prose(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n[a](#a-page) [b](#b) [c](nowhere.md) [d](https://example.org)\n")
    assert broken(page) == ["#b", "nowhere.md"]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "records" not in p.parts and p.name != "CHANGELOG.md"], ids=name_of
)
def test_paths_exist(page: Path) -> None:
    """Paths of the checkout in backticks. Records keep the paths of their time."""
    paths = _PATH.findall(prose(page.read_text(encoding="utf-8")))
    paths = [p for p in paths if not p.startswith(_MADE) and not _OTHERS.search(p)]
    assert [p for p in paths if not (ROOT / p).exists()] == []


def test_every_page_is_in_the_table_of_contents() -> None:
    """A family's page is in the table of its layer."""
    reference = DOCS / "reference"
    tables = [DOCS / "README.md", reference / "functions.md", reference / "kernels.md"]
    linked = {
        (table.parent / link.partition("#")[0]).resolve()
        for table in tables
        for link in _LINK.findall(table.read_text(encoding="utf-8"))
    }
    assert [p for p in DOCS.rglob("*.md") if p.resolve() not in {*linked, *tables[:1]}] == []


def test_pages_use_todays_names() -> None:
    """Bodies have the names of the move of 2026-11-22; records keep those of their time."""
    table = (DOCS / "records" / "house.md").read_text(encoding="utf-8")
    old = re.findall(r"^\| `(\w+)` \| `\w+` \|$", table, re.MULTILINE)
    assert len(old) == 20
    named = re.compile(rf"\b({'|'.join(old)})\b")
    pages = [p for p in PAGES if "records" not in p.parts]
    found = {name_of(p): named.findall(p.read_text(encoding="utf-8")) for p in pages}
    assert {page: names for page, names in found.items() if names} == {}
