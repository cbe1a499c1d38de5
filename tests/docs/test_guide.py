"""The Python of README and guide runs, page by page; commands have the options that pages name."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import pykernels as pk
from pykernels.call.casts import FLOAT16, FLOAT32
from pykernels.cli import main
from pykernels.validate import find_naga, find_tint
from tests.docs.pages import GUIDE, blocks, in_code, name_of


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """A page may set levels and add handlers, which later tests are not to run with."""
    root, ours = logging.getLogger(), logging.getLogger("pykernels")
    levels, handlers = (root.level, ours.level), (list(root.handlers), list(ours.handlers))
    yield
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    root.handlers[:], ours.handlers[:] = handlers


@pytest.mark.gpu
@pytest.mark.usefixtures("dev", "restored_logging")  # dev skips, or fails in CI, without a driver
@pytest.mark.parametrize("page", [p for p in GUIDE if blocks(p.read_text(), "python")], ids=name_of)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one column runs the pages, which use the engine wgpu")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for line, code in blocks(page.read_text(encoding="utf-8"), "python"):
        # Blank lines first, so that a traceback has the page's line.
        exec(compile("\n" * line + code, str(page), "exec"), names)
    for value in list(names.values()):
        if isinstance(value, pk.Device):
            value.close()


# In fenced blocks, and in indented ones.
_COMMAND = re.compile(r"^(?: {4})?pykernels (\w+.*)$", re.MULTILINE)
COMMANDS = [
    (name_of(page), m[1])
    for page in GUIDE
    for m in _COMMAND.finditer(in_code(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_has_its_options(page: str, line: str) -> None:
    """Only parsed: names of commands and options, and the number of arguments."""
    name, *arguments = shlex.split(line, comments=True)
    top = click.Context(main, info_name="pykernels")
    command = main.get_command(top, name)
    assert command is not None, f"{page}: there is no command {name}"
    context = click.Context(command, parent=top, info_name=name)
    if isinstance(command, click.Group):
        name, *arguments = arguments
        inner = command.get_command(context, name)
        assert inner is not None, f"{page}: there is no command {name}"
        command, context = inner, click.Context(inner, parent=context, info_name=name)
    _, left, _ = command.make_parser(context).parse_args(list(arguments))
    assert not left


# Whole benches, all texts and the page of all kernels take long, and have their own tests; so has
# build, whose folder has a kernel, and so have
# networks (tests/models/test_command.py).
_LONG = re.compile(r"bench.*|build .*|validate|export site --page|onnx .*")
QUICK = [(page, line) for page, line in COMMANDS if not _LONG.fullmatch(line)]


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")
@pytest.mark.parametrize(("page", "line"), QUICK)
def test_a_command_runs(
    page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands, in a folder that has the files that it names."""
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one driver is enough")
    if find_naga() is None and ("--to" in line or "naga" in line):
        pytest.skip("needs naga")
    if find_tint() is None and "tint" in line:
        pytest.skip("needs Tint")
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones((4, 100), np.float32))
    shader = "@compute @workgroup_size(64)\nfn main() {}\n"
    Path("shaders").mkdir()
    for file in ("shaders/a.wgsl", "other.wgsl"):
        Path(file).write_text(shader)
    arguments = shlex.split(line, comments=True)
    done = CliRunner().invoke(main, arguments, input=shader)
    assert done.exit_code == 0, f"{page}: {line}\n{done.output}"


def test_the_pages_have_what_is_tested() -> None:
    """So that a change of the form of blocks cannot empty the tests above."""
    assert sum(len(blocks(p.read_text(), "python")) for p in GUIDE) > 25
    assert len(COMMANDS) > 24


def test_training_lists_what_autocast_converts() -> None:
    text = next(p for p in GUIDE if p.name == "training.md").read_text(encoding="utf-8")
    for start, table in (("float32 operands", FLOAT16), ("float16 arguments", FLOAT32)):
        [row] = re.findall(rf"^\| {start} become [^|]* \| (.*) \|$", text, re.MULTILINE)
        assert row == ", ".join(f"`{name}`" for name in table)
