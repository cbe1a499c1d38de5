"""The search of the documentation's site finds what a reader of numpy asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import missing

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


@pytest.fixture
def search(browser: Any, served: Callable[[Path], str]) -> Iterator[Any]:
    """The first page of the site, with its search open."""
    if not SITE.is_dir():
        missing("no site in build/site: bash ci/site.sh builds it")
    tab = browser.new_page()
    tab.goto(f"{served(SITE)}/index.html")
    tab.locator(".md-search__button").first.click()
    yield tab
    tab.close()


@pytest.mark.parametrize("words", TOPICS)
def test_the_search_finds(search: Any, words: str) -> None:
    search.keyboard.insert_text(words)
    query = "+".join(words.split())
    search.wait_for_function(f"({RESULTS})().some((a) => a.includes({query!r}))")
    first = [link.partition("?")[0] for link in search.evaluate(RESULTS)[:3]]
    assert any(link.endswith(TOPICS[words]) for link in first), first
