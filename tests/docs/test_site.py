"""ci/site_source.py: the navigation and the links of the site that ci/site.sh builds."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.pages import DOCS, ROOT


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, imported as Python does that runs it."""
    monkeypatch.syspath_prepend(ROOT / "ci")
    yield importlib.import_module("site_source")
    del sys.modules["site_source"]


def leaves(nav: Any) -> list[str]:
    """The pages of a navigation."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in leaves(part)]


def test_navigation(site: ModuleType) -> None:
    contents = (
        "# Docs\n\n## Guide\n\n- [Start](guide/start.md): and [more](../MORE.md)\n\n"
        "## Reference\n\n- [Functions](reference/functions.md)\n\n## Words\n\n[no](no.md)\n"
    )
    families = {"reference/functions.md": ["reference/functions/sort.md"]}
    assert site.navigation(contents, families) == [
        {"Home": "README.md"},
        {"Guide": [{"Start": "guide/start.md"}, {"More": "project/MORE.md"}]},
        {
            "Reference": [
                {"Functions": ["reference/functions.md", {"sort": "reference/functions/sort.md"}]}
            ]
        },
    ]


def test_the_navigation_has_every_page(site: ModuleType) -> None:
    nav = site.navigation((DOCS / "README.md").read_text(encoding="utf-8"), site.families())
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    found = leaves(nav)
    assert {page for page in found if not page.startswith("project/")} == pages
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("page", "link", "want"),
    [
        ("guide/a.md", "b.md#c", "b.md#c"),
        ("guide/a.md", "../design/b.md", "../design/b.md"),
        ("guide/a.md", "../../SECURITY.md#x", "../project/SECURITY.md#x"),
        ("README.md", "../CONTRIBUTING.md", "project/CONTRIBUTING.md"),
        ("guide/a.md", "https://example.org/../x", "https://example.org/../x"),
        ("guide/a.md", "#here", "#here"),
    ],
)
def test_links_stay_in_the_site(site: ModuleType, page: str, link: str, want: str) -> None:
    assert site.rewritten(page, f"[a]({link})") == f"[a]({want})"


def test_links_of_files_from_outside(site: ModuleType) -> None:
    assert site.outside("guide/a.md", "[a](../../LICENSE#x) [b](b.md)") == {"LICENSE"}
    text = "[a](docs/guide/a.md)"
    assert site.rewritten("project/X.md", text) == "[a](../guide/a.md)"
    text = "[a](../docs/guide/a.md#b) [c](c.py) [d](https://example.org/docs/d)"
    want = "[a](../../guide/a.md#b) [c](c.py) [d](https://example.org/docs/d)"
    assert site.rewritten("project/bench/X.md", text) == want


def test_what_the_site_is_built_from(
    site: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "SITE", tmp_path / "site")
    site.write()
    config = (tmp_path / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    nav = json.loads(config.rpartition("\nnav: ")[2])
    missing = [p for p in leaves(nav) if not (tmp_path / "site" / "docs" / p).is_file()]
    assert missing == []
