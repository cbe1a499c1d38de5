"""The Python of README and guide runs, page by page; commands have the options that pages name."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

import pykernels as pk
from pykernels.cli import main
from tests.docs.pages import GUIDE, blocks, name_of


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")  # skips, or fails in CI, without a driver
@pytest.mark.parametrize("page", [p for p in GUIDE if blocks(p.read_text(), "python")], ids=name_of)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("PYKERNELS_TEST_COLUMN", "").startswith("dawn"):
        pytest.skip("the pages use the engine wgpu")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for line, code in blocks(page.read_text(encoding="utf-8"), "python"):
        # Blank lines first, so that a traceback has the page's line.
        exec(compile("\n" * line + code, str(page), "exec"), names)
    for value in list(names.values()):
        if isinstance(value, pk.Device):
            value.close()


COMMANDS = [
    (name_of(page), line)
    for page in GUIDE
    for _, block in blocks(page.read_text(encoding="utf-8"), "sh")
    for line in block.splitlines()
    if line.startswith("pykernels ")
]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_has_its_options(page: str, line: str) -> None:
    """Only parsed: names of commands and options, and the number of arguments."""
    name, *arguments = shlex.split(line, comments=True)[1:]
    top = click.Context(main, info_name="pykernels")
    command = main.get_command(top, name)
    assert command is not None, f"{page}: there is no command {name}"
    context = click.Context(command, parent=top, info_name=name)
    _, left, _ = command.make_parser(context).parse_args(list(arguments))
    assert not left


def test_the_pages_have_what_is_tested() -> None:
    """So that a change of the form of blocks cannot empty the tests above."""
    assert sum(len(blocks(p.read_text(), "python")) for p in GUIDE) > 25
    assert len(COMMANDS) > 12
