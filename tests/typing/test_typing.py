"""User code on all three layers type-checks, and a wrong dtype does not: mypy and pyright."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SAMPLE, WRONG = HERE / "sample.py", HERE / "wrong_dtype.py"


def run(*args: str) -> str:
    env = {**os.environ, "MYPYPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *args], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy(path: Path) -> list[tuple[int, str]]:
    """Line and message of each error."""
    out = run("mypy", "--strict", "--no-error-summary", "--hide-error-context", str(path))
    found = re.findall(rf"^[^\n]*{path.name}:(\d+): error: (.*)", out, flags=re.MULTILINE)
    return [(int(line), message) for line, message in found]


def pyright(path: Path) -> list[tuple[int, str]]:
    out = run("pyright", "--outputjson", "--pythonpath", sys.executable, str(path))
    return [
        (d["range"]["start"]["line"] + 1, d["message"])
        for d in json.loads(out)["generalDiagnostics"]
    ]


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_sample_type_checks(checker: Callable[[Path], list[tuple[int, str]]]) -> None:
    assert checker(SAMPLE) == []


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_wrong_dtypes_are_refused(checker: Callable[[Path], list[tuple[int, str]]]) -> None:
    lines = WRONG.read_text(encoding="utf-8").splitlines()
    wrong = {n for n, text in enumerate(lines, 1) if text.endswith("# wrong")}
    assert {line for line, _ in checker(WRONG)} == wrong
