"""What the translation of plans knows, and what it refuses; what it makes of them runs in
tests/browser.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykernels.export._javascript import expression, plan_module
from pykernels.export._translate import Module, NotTranslated, translate
from pykernels.export._write import module


def translated(text: str, folder: Path) -> str:
    (folder / "mine.py").write_text(text, encoding="utf-8")
    done: dict[str, Module] = {}
    translate("mine", folder, done)
    return plan_module(done["mine"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("def f():\n    return list[int]()\n", "return py.list();"),
        ("import math\nX = math.nan\n", "X = py.math.nan;"),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ._no import No\nX = 1\n",
            "X = 1;",
        ),
        ("f = lambda x: (y := x) + y\n", "let y;"),
        ("f = lambda a, b: a is None and not b\n", "return ((a === null) && !py.truth(b));"),
        ("f = lambda a, b: max(a, b)\n", "return py.largest(a, b);"),
        ("f = lambda a: max(a)\n", "return py.max(a);"),
        ("f = lambda max: max(1)\n", "return py.call(max, [1], {  });"),
        ("f = lambda x: x.vec(4)\n", "return x.vec(4);"),
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


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("cdiv(dst.shape[-1], WG >> 2)", "py.cdiv(py.at(dst.shape, -1), py.shr(WG, 2))"),
        ("dtype(x) or 'f32'", 'py.one_of(() => py.dtype(x), () => "f32")'),
        ("4 if it.vec(4) and V != 1 else 1", "((it.vec(4) && (V !== 1)) ? 4 : 1)"),
        ("x.strides[:-1] + (0,)", "py.add(py.cut(x.strides, null, -1, null), [0])"),
        ("rows * taps", "py.mul(rows, taps)"),  # a param, which is named as a function is
        ("public // 2", "py.floordiv(public_, 2)"),
    ],
)
def test_expressions_of_specs(text: str, wanted: str) -> None:
    assert expression(text) == wanted


def test_what_counts_work_is_no_part_of_a_step() -> None:
    with pytest.raises(NotTranslated, match="taps"):
        expression("taps(dst.shape)")


def test_a_module_has_what_its_texts_call() -> None:
    """Operators and index spaces of others would make recorded exports larger."""
    text = module(["softmax"], ["softmax"], {"softmax": None})
    assert "\npy.floordiv = " in text and "\npy.Rows = " in text
    assert "\npy.number = " in text  # which floordiv calls
    assert "\npy.Tiles = " not in text and "\npy.pow = " not in text
