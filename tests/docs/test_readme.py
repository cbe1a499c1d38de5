"""README stays one that people read: short, and no line that is a page."""

from __future__ import annotations

from tests.docs.pages import ROOT


def test_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 200
    assert [line[:60] for line in lines if len(line) > 700] == []


def test_readme_shows_a_picture_and_leads_to_the_quickstart() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    head = text[: text.index("## Install")]
    assert "](docs/guide/demo.png)" in head and (ROOT / "docs/guide/demo.png").is_file()
    assert "](docs/guide/quickstart.md)" in head
