"""Writes the source of the site into build/site: docs/, and mkdocs.yml with a navigation.

The table of contents of docs/README.md is the navigation. A file outside docs/ that a page links to
becomes a page of the site if it is Markdown, else a file of the site.

python ci/site_source.py
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

__all__ = ["in_site", "navigation", "outside", "rewritten", "write"]

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "site"
PROJECT = "project"  # the site's folder for files from outside docs/
SECTIONS = ("Guide", "Reference", "Design", "Records", "Project")
# both layers have a page for each family
LAYERS = ("reference/functions.md", "reference/kernels.md")
_LINK = re.compile(r"\[([^]\[]+)\]\(([^)\s]+)\)")

Nav = list[dict[str, Any]]


def navigation(contents: str, families: dict[str, list[str]]) -> Nav:
    """The sections of a table of contents with their links, and the pages of each layer's
    families."""
    nav: Nav = [{"Home": "README.md"}]
    for part in contents.split("\n## ")[1:]:
        section = part.partition("\n")[0].strip()
        if section not in SECTIONS:
            continue
        entries: list[Any] = []
        for title, link in _LINK.findall(part):
            if link in families:
                pages = [{Path(page).stem: page} for page in families[link]]
                entries.append({title: [link, *pages]})
            else:
                entries.append({title[0].upper() + title[1:]: in_site("README.md", link)})
        nav.append({section: entries})
    return nav


def in_site(page: str, link: str) -> str:
    """The link, changed to the target's place in the site if the target is outside docs/. `page` is
    relative to docs/."""
    target, mark, anchor = link.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if not target or re.match(r"[a-z]+:", link) or not path.startswith("../"):
        return link
    moved = posixpath.join(PROJECT, path.removeprefix("../"))
    return posixpath.relpath(moved, posixpath.dirname(page) or ".") + mark + anchor


def outside(page: str, text: str) -> set[str]:
    """The paths, in the repository, of the files outside docs/ that a page of docs/ links to."""
    found = set()
    for _, link in _LINK.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link.partition("#")[0]))
        if path.startswith("../") and not re.match(r"[a-z]+:", link):
            found.add(path.removeprefix("../"))
    return found


def _into_docs(page: str, link: str) -> str:
    """A link in a page from outside docs/, changed to the target's place in the site."""
    target, mark, anchor = link.partition("#")
    here = posixpath.dirname(page.removeprefix(f"{PROJECT}/"))
    path = posixpath.normpath(posixpath.join(here, target))
    if not target or re.match(r"[a-z]+:", link) or not path.startswith("docs/"):
        return link
    return posixpath.relpath(path.removeprefix("docs/"), posixpath.dirname(page)) + mark + anchor


def rewritten(page: str, text: str) -> str:
    """The text of a page, in which links are changed to places in the site."""
    if page.startswith(f"{PROJECT}/"):
        return _LINK.sub(lambda m: f"[{m[1]}]({_into_docs(page, m[2])})", text)
    return _LINK.sub(lambda m: f"[{m[1]}]({in_site(page, m[2])})", text)


def families() -> dict[str, list[str]]:
    """The pages of the families of each layer, relative to docs/."""
    return {
        layer: sorted(
            p.relative_to(DOCS).as_posix() for p in (DOCS / layer).with_suffix("").glob("*.md")
        )
        for layer in LAYERS
    }


def write() -> None:
    """Writes the pages and mkdocs.yml."""
    shutil.rmtree(SITE, ignore_errors=True)
    pages = SITE / "docs"
    shutil.copytree(DOCS, pages)
    linked: set[str] = set()
    for page in DOCS.rglob("*.md"):
        linked |= outside(page.relative_to(DOCS).as_posix(), page.read_text(encoding="utf-8"))
    for name in sorted(linked):
        copy = pages / PROJECT / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
    for copy in pages.rglob("*.md"):
        text = copy.read_text(encoding="utf-8")
        copy.write_text(rewritten(copy.relative_to(pages).as_posix(), text), encoding="utf-8")
    nav = navigation((DOCS / "README.md").read_text(encoding="utf-8"), families())
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (SITE / "mkdocs.yml").write_text(f"{config}\nnav: {json.dumps(nav)}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
