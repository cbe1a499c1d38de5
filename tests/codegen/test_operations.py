"""Declared functions: what they become, how mistakes are told, what a change costs in files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from codegen import BuildError
from codegen.build import Build
from tests.checkout import ROOT, run_python, small_checkout
from tests.codegen.test_toy_kernel import KERNEL

RULES = '''\
"""The rules of toys."""

from pykernels.arrays import Call
from pykernels.call.operation import Made


def flipped(call: Call, x, backwards: bool, times: int) -> Made:
    """The elements from the last to the first."""
    dst = call.out(x.shape, x.dtype)
    return Made({"dst": dst}, {"x": x[::-1] if backwards else x, "dst": dst[::-1]})


def word(op, name, value):
    return value
'''

DECLARED = """\
[words.usual]
order = "the usual order"

[forms.flip]
rule = "flipped"
words = "usual"
given = { times = 2 }
doc = "Multiply in {order}."

[forms.flip.arguments]
x = {}
backwards = { type = "bool", default = "False", same = "reverse", doc = "Is it {order}?" }
factor = { keyword = true, default = "2.0" }
out = { keyword = true }

[functions.flip]
form = "flip"
kernel = "toy_scale"
"""

FILES = {
    "kernels/toy/toy_scale.wgsl": KERNEL,
    "kernels/toy/toy.op.toml": DECLARED,
    "pykernels/rules/toy.py": RULES,
}


def test_a_declaration_becomes_a_function(toy: Callable[..., Build]) -> None:
    build = toy(FILES)
    text = build.files["operations/toy.py"]
    for line in (
        "def flip(", "    x: Array,", "    backwards: bool = False,", "    factor: float = 2.0,",
        "    out: Tensor | None = None,", "    reverse: bool | None = None,", ") -> Array:",
        '    """Multiply in the usual order.', "        backwards: Is it the usual order?",
        "        reverse: Another name for backwards.",
        "        backwards = either('flip', 'backwards', backwards, False, 'reverse', reverse)",
        "        factor = real('flip', 'factor', factor)",
    ):  # fmt: skip
        assert line in text.splitlines(), line
    assert "'flip': 'pykernels._generated.operations.toy'," in build.files["functions.py"]
    assert "def flip(x: NDArray" in build.files["functions.pyi"]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('rule = "flipped"', 'rule = "fliped"', "there is no 'fliped' in pykernels/rules/toy.py"),
        ('form = "flip"\nk', 'form = "flop"\nk', "flip: there is no form 'flop'"),
        ('"toy_scale"', '"toy_scales"', "flip: there is no kernel 'toy_scales'"),
        ("given = { times = 2 }", "", "flip has no times, which rule flipped takes"),
        ('type = "bool", ', "", "flip: backwards needs a type"),
        ('"bool"', '"list[int]"', "flip: backwards needs a check"),
        ("words = ", "wards = ", "unknown key 'forms.flip.wards': did you mean 'words'?"),
        ('same = "reverse"', "same = 3", "functions.flip.arguments.backwards.same cannot be 3"),
        ("[functions.flip]", "[functions.flip", "no TOML"),
    ],
)
def test_mistakes_are_named(toy: Callable[..., Build], old: str, new: str, error: str) -> None:
    text = DECLARED.replace(old, new)
    assert text != DECLARED
    with pytest.raises(BuildError, match=re.escape(error)) as told:
        toy({**FILES, "kernels/toy/toy.op.toml": text})
    assert told.value.file == "kernels/toy/toy.op.toml" and told.value.line > 0


def test_a_function_is_declared_once(toy: Callable[..., Build]) -> None:
    files = {**FILES, "pykernels/functional/toy.py": '"""Toys."""\n\n__all__ = ["flip"]\n'}
    with pytest.raises(BuildError, match=r"flip is in pykernels\.functional\.toy already"):
        toy(files)


# -- what a change costs ------------------------------------------------------------------------


def changed(folder: Path, edits: dict[str, tuple[tuple[str, str], ...]]) -> int:
    """Edits files of a checkout; how many there are."""
    for name, pairs in edits.items():
        path = folder / name
        text = path.read_text(encoding="utf-8")
        for old, new in pairs:
            assert old in text, (name, old)
            text = text.replace(old, new, 1)
        path.write_text(text, encoding="utf-8")
    return len(edits)


def families(tmp_path: Path, *names: str) -> Path:
    """A checkout with these families too."""
    folder = small_checkout(tmp_path / "checkout", (
        "fill", "copy", "random", "rows", "scan", "sort", "move", *names,
    ))  # fmt: skip
    shutil.copytree(ROOT / "tests" / "kernels", folder / "tests" / "kernels")
    return folder


def run(folder: Path, code: str) -> None:
    done = run_python(folder, "-m", "codegen", "--no-validate")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_python(folder, "-W", "ignore", "-c", code)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")
def test_a_new_reduction_is_two_files(tmp_path: Path) -> None:
    folder = families(tmp_path, "reduce")
    edits = {
        "kernels/reduce/reductions.toml": ((
            'finish.norm_2 = ', 'finish.sum_of_squares = "bitcast<u32>(a.sum)"\nfinish.norm_2 = ',
        ), (
            "[kernels.norm]", '[kernels.sum_of_squares]\ndoc = "The sum of the squares."\n'
            'output = "float"\nempty = true\n\n[kernels.norm]',
        )),
        "kernels/reduce/reduce.op.toml": ((
            "[functions]\n", '[functions]\nsum_of_squares = { form = "reduced" }\n',
        ),),
    }  # fmt: skip
    assert changed(folder, edits) <= 2
    run(folder, (
        "import numpy as np, pykernels as pk\n"
        "x = np.arange(6, dtype='f4').reshape(2, 3)\n"
        "assert (pk.sum_of_squares(x, dim=1) == (x * x).sum(1)).all()\n"
        "assert 'The sum of the squares.' in pk.sum_of_squares.__doc__\n"
    ))  # fmt: skip
