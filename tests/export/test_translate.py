"""What the translation of plans knows, and what it refuses; what it makes of them runs in
tests/browser.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykernels.export._translate import NotTranslated, translate


def translated(text: str, folder: Path) -> str:
    (folder / "mine.py").write_text(text, encoding="utf-8")
    done: dict[str, str] = {}
    translate("mine", folder, done)
    return done["mine"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("def f():\n    return list[int]()\n", "return py.call(py.list, [], {  });"),
        ("import math\nX = math.nan\n", "X = py.math.nan;"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ._no import No\nX = 1\n",
            "X = 1;",
        ),
        ("f = lambda x: (y := x) + y\n", "let y;"),
    ],
)
def test_known(text: str, wanted: str, tmp_path: Path) -> None:
    assert wanted in translated(text, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x[0](1)\n",
        "import math\nX = math.erf(1.0)\n",
        "import os\n",
        "from ._no import f\n",
        "X = open('a')\n",
        "def f():\n    with f:\n        pass\n",
        "def f(x):\n    del x\n",
    ],
)
def test_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(NotTranslated):
        translated(text, tmp_path)
