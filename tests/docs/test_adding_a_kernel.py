"""The files of docs/guide/adding-a-kernel.md make kernels, in a small copy of the checkout."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.checkout import FAMILIES, ROOT, run_python, small_checkout
from tests.docs.pages import DOCS, files

COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe")
PAGE = (DOCS / "guide" / "adding-a-kernel.md").read_text(encoding="utf-8")
TABLE_TESTS = "tests/kernels/elementwise/test_ops.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout with few families."""
    small_checkout(tmp_path, (*FAMILIES, "elementwise", "reduce"))
    (tmp_path / TABLE_TESTS).parent.mkdir(parents=True)
    shutil.copy(ROOT / TABLE_TESTS, tmp_path / TABLE_TESTS)
    return tmp_path


def run(folder: Path, *args: str) -> str:
    done = run_python(folder, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")  # skips, or fails in CI, without a driver
@pytest.mark.skipif(COLUMN != "wgpu-lavapipe", reason="one column builds the copy")
def test_the_files_of_the_page_make_kernels(checkout: Path) -> None:
    tests = []
    for name, append, text in files(PAGE):
        path = checkout / name
        assert append == path.exists(), name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" + text if append else text)
        tests += [name] if name.startswith("tests/") else []
    run(checkout, "-m", "codegen", "--no-validate")
    pytest_ = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    out = run(checkout, *pytest_, *tests)
    assert "passed" in out and "skipped" not in out, out
    assert "passed" in run(checkout, *pytest_, TABLE_TESTS, "-k", "signed_square")
    for command in ("list", "show pairwise --axis TILE=tile64", "export site pairwise scale"):
        said = run(checkout, "-c", f"from pykernels.cli import main; main({command.split()})")
        assert "no layout was recorded" not in said, said  # the plan runs in a browser, too
