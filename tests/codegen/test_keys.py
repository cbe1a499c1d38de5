"""Every key of a spec does something: without it a toy kernel does not build, or answers otherwise.

The keys are those that codegen knows; each has its toy in toys.py.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from codegen import BuildError
from codegen.keys import TABLES
from tests.checkout import run_python, small_checkout
from tests.codegen.toys import HELPERS, TOYS, build_files

COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe")
KEYS = [(table, key) for table, keys in TABLES.items() for key in keys]


def test_every_key_has_its_toy() -> None:
    assert {table: set(toys) for table, toys in TOYS.items()} == {
        table: set(keys) for table, keys in TABLES.items()
    }


def name_of(table: str, key: str, which: str) -> str:
    return f"{table.split()[-1]}_{key}_{which}"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each toy answers with its key and without; the error of one that does not build."""
    found: dict[str, Any] = {}
    questions: dict[str, str] = {}
    checkout = small_checkout(tmp_path_factory.mktemp("toys") / "checkout")
    files = dict(HELPERS)
    for table, key in KEYS:
        toy = TOYS[table][key]
        for which, block in (("with", toy.merged()), ("less", toy.less(key))):
            name = name_of(table, key, which)
            try:
                own = toy.files(name, block)
                build_files(tmp_path_factory.mktemp(name), {**HELPERS, **own})
            except (BuildError, KeyError) as e:
                found[name] = repr(e)
                continue
            files |= own
            questions[name] = toy.ask
    for name, text in files.items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (checkout / "tests" / "codegen").mkdir()
    shutil.copy(Path(__file__).with_name("ask_toys.py"), checkout / "tests" / "codegen")
    (checkout / "questions.json").write_text(json.dumps(questions), encoding="utf-8")
    for args in (["codegen", "--no-validate"], ["tests.codegen.ask_toys", "questions.json"]):
        done = run_python(checkout, "-m", *args)
        assert done.returncode == 0, done.stderr
    return found | json.loads(done.stdout)


@pytest.mark.gpu
@pytest.mark.usefixtures("dev")  # skips, or fails in CI, without a driver
@pytest.mark.skipif(COLUMN != "wgpu-lavapipe", reason="one column builds the copy")
@pytest.mark.parametrize(("table", "key"), KEYS)
def test_without_a_key_the_result_is_another(table: str, key: str, answers: dict[str, Any]) -> None:
    assert answers[name_of(table, key, "with")] == TOYS[table][key].want
    assert answers[name_of(table, key, "less")] != TOYS[table][key].want
