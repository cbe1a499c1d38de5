"""Lines that install something: they work without an index that has pykernels."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALLING = ROOT / "docs" / "guide" / "installing.md"
FROM_AN_INDEX = re.compile(r"""pip install ["']?pykernels(?!-)(?!\S* @)""")


def texts() -> Iterator[tuple[str, str]]:
    """What people read or run, by name: pages, examples, messages."""
    for pattern in ("README.md", "docs/guide/*.md", "examples/*", "pykernels/**/*.py", ".*.yaml"):
        for path in ROOT.glob(pattern):
            if path.is_file() and "_generated" not in path.parts:
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_no_line_asks_an_index_for_pykernels() -> None:
    assert FROM_AN_INDEX.search("pip install 'pykernels[dawn]'")
    assert not FROM_AN_INDEX.search("pip install 'pykernels[dawn] @ git+https://")
    assert [name for name, text in texts() if FROM_AN_INDEX.search(text)] == []


def test_versions_stand_in_one_place() -> None:
    """Of pykernels in _version.py, of Dawn in pyproject.toml: the others agree."""
    from pykernels import __version__

    others = [n for n, text in texts() if __version__ in text and not n.endswith("_version.py")]
    assert others == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [pin] = project["optional-dependencies"]["dawn"]
    found = {m for _, text in texts() for m in re.findall(r"wgpudawn~=[\d.]*\d", text)}
    assert found == {pin}


def test_the_page_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = INSTALLING.read_text(encoding="utf-8")
    assert [e for e in project["optional-dependencies"] if f"`{e}`" not in page] == []


def test_a_clone_without_jinja2_says_what_to_install() -> None:
    code = (
        "import sys, runpy\n"
        "sys.modules['jinja2'] = None\n"
        "sys.argv = ['codegen', 'scale']\n"
        "runpy.run_module('codegen', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: python -m codegen needs the package jinja2: pip install")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("store", [True, False])
def test_pre_commit_installs_without_kernels(store: bool, tmp_path: Path) -> None:
    """In a clone in its store only."""
    code = (
        "import sys; from pathlib import Path; from hatch_build import is_for_pre_commit; "
        "print(is_for_pre_commit(Path(sys.argv[1])))"
    )
    folder = tmp_path / "repoa1b2c3d4"
    folder.mkdir()
    if store:
        (tmp_path / "db.db").touch()
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(store), done.stderr
