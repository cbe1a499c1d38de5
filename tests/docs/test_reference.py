"""How ci/docstrings.py writes signatures and docstrings, and that ci/docs.py sees a stale page."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import ROOT

Module = Callable[[str], ModuleType]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    """Imports a script of ci/, as Python does that runs one."""
    monkeypatch.syspath_prepend(ROOT / "ci")
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name in ("docs", "docstrings", "families"):
            del sys.modules[name]


def product(a: float, b: float = 2.0, *, scale: float | None = None) -> float:
    """The product.

    More text::

        product(1)

    Args:
        a: The first factor, which has a text of
            two lines.
        b: The second one.

    Returns:
        A number.

    Raises:
        ValueError: never.
        TypeError and what `float` raises.
    """
    return a * b * (scale or 1.0)


def test_docstring(script: Module) -> None:
    lines = script("docstrings").docstring(product)
    assert re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) == (
        "The product.\n\nMore text:\n\n```text\nproduct(1)\n```\n\n**Args**\n\n"
        "- `a`: The first factor, which has a text of\n  two lines.\n- `b`: The second one.\n\n"
        "**Returns**\n\nA number.\n\n**Raises**\n\n- `ValueError`: never.\n"
        "- TypeError and what `float` raises."
    )


@contextmanager
def section() -> Iterator[int]:
    yield 1


def test_signature(script: Module) -> None:
    signature = script("docstrings").signature
    short = "f(a: float, b: float = 2.0, *, scale: float | None = None) -> float"
    assert signature("f", product) == f"```python\n{short}\n```"
    long = signature("pk.kernels.long_name", product).splitlines()
    assert long[1:4] == ["pk.kernels.long_name(", "    a: float,", "    b: float = 2.0,"]
    assert long[-2] == ") -> float"
    assert signature("s", section).splitlines()[1] == "s() -> ContextManager[int]"


def test_a_stale_page_fails_the_check(
    script: Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = script("docs")
    page: Path = docs.REFERENCE / "errors.md"
    texts = docs.texts()
    texts[page] += "One more line.\n"
    monkeypatch.setattr(docs, "texts", lambda: texts)
    monkeypatch.setattr(sys, "argv", ["docs.py", "--check"])
    assert docs.main() == 1
    said = capsys.readouterr().err
    assert "errors.md is out of date: run python ci/docs.py" in said and "+One more line." in said
    texts[page] = page.read_text(encoding="utf-8")
    assert docs.main() == 0


def test_a_page_of_no_family_fails_the_check(
    script: Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = script("docs")
    texts = docs.texts()
    del texts[docs.REFERENCE / "functions" / "softmax.md"]
    monkeypatch.setattr(docs, "texts", lambda: texts)
    monkeypatch.setattr(sys, "argv", ["docs.py", "--check"])
    assert docs.main() == 1
    assert "functions/softmax.md has no family: run python ci/docs.py" in capsys.readouterr().err
