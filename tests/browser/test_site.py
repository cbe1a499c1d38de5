"""The search of the documentation's site finds what a reader of numpy asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import missing, serve

pytestmark = pytest.mark.browser

SITE = Path(__file__).resolve().parents[2] / "build" / "site" / "html"
# What is typed, and a page that is to be among the first three results.
TOPICS = {
    "softmax along an axis": "guide/how-to.html",
    "view at an offset": "guide/tensors.html",
    "share a buffer with wgpu": "guide/sharing-a-device.html",
    "time a call": "guide/how-to.html",
    "validate a folder": "guide/how-to.html",
    "export to a page": "guide/exporting.html",
    "own expression": "guide/how-to.html",
    "gradient": "guide/gradients.html",
    "half precision": "guide/how-to.html",
    "threads": "guide/threads.html",
    "what an error means": "guide/how-to.html",
    "which GPU is used": "guide/how-to.html",
}
RESULTS = """() => {
  const hosts = [...document.querySelectorAll("*")].filter((e) => e.shadowRoot);
  return hosts.flatMap((e) => [...e.shadowRoot.querySelectorAll("a")].map((a) => a.href));
}"""


@pytest.fixture(scope="module")
def search(browser: Any) -> Iterator[Any]:
    """The first page of the site, for all searches: its index is loaded once."""
    if not SITE.is_dir():
        missing("no site in build/site: bash ci/site.sh builds it")
    with contextlib.contextmanager(serve)(SITE) as address:
        tab = browser.new_page()
        tab.goto(f"{address}/index.html")
        yield tab
        tab.close()


def results(tab: Any, words: str) -> list[str]:
    """Links that the search answers `words` with, best first.

    The page's script draws the field, takes the focus and starts a worker each at a time of its
    own, so a click or a word that comes too early is lost on a busy machine: both are repeated.
    """
    field = tab.get_by_role("combobox", name="Search")
    query = "+".join(words.split())
    for attempt in range(300):
        if not field.is_visible():
            tab.locator(".md-search__button").first.click()
        elif attempt % 20 == 0 or field.input_value() != words:
            field.fill(words)
        tab.wait_for_timeout(100)
        links = tab.evaluate(RESULTS)
        if any(query in link for link in links):
            return [link.partition("?")[0] for link in links]
    raise AssertionError(f"no result for {words!r} in 30 s")


@pytest.mark.parametrize("words", TOPICS)
def test_the_search_finds(search: Any, words: str) -> None:
    first = results(search, words)[:3]
    assert any(link.endswith(TOPICS[words]) for link in first), first
