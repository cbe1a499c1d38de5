"""The pages of the documentation, as the tests of this folder read them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDE = [ROOT / "README.md", *sorted((DOCS / "guide").glob("*.md"))]
_TOP = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*_TOP, *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]

# Also inside a list, where a block is indented.
_BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
# A file that readers make: its path on a line of its own, then its text.
_FILE = re.compile(r"^`([\w./-]+)`( \(append\))?:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return str(page.relative_to(ROOT))


def blocks(text: str, language: str) -> list[tuple[int, str]]:
    """The fenced blocks in one language, without files: the line before the first, and the text."""
    found = []
    text = _FILE.sub(lambda m: "\n" * m[0].count("\n"), text)
    for m in _BLOCK.finditer(text):
        if m[2] == language:
            code = re.sub(rf"^{m[1]}", "", m[3], flags=re.MULTILINE)
            found.append((text.count("\n", 0, m.start()) + 1, code))
    return found


def files(text: str) -> list[tuple[str, bool, str]]:
    """The files that a page has its readers make: path, whether it is appended, text."""
    return [(m[1], bool(m[2]), m[3]) for m in _FILE.finditer(text)]


def prose(text: str) -> str:
    """The text without fenced blocks and files; each line keeps its number."""
    for form in (_FILE, _BLOCK):
        text = form.sub(lambda m: "\n" * m[0].count("\n"), text)
    return text


def in_code(text: str) -> str:
    """The lines of fenced and of indented blocks; each line keeps its number."""
    fenced, lines = False, []
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        lines.append(line if (fenced and not fence) or line.startswith("    ") else "")
    return "\n".join(lines)
