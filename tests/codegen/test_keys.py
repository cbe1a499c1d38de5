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
from codegen.keys import EXCLUDE, TABLES
from tests.checkout import run_python, small_checkout
from tests.codegen.toys import HELPERS, TOYS, Block, build_files, source

COLUMN = os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe")
KEYS = [(table, key) for table, keys in TABLES.items() for key in keys]


def test_every_key_has_its_toy() -> None:
    assert {table: set(toys) for table, toys in TOYS.items()} == {
        table: set(keys) for table, keys in TABLES.items()
    }


def name_of(table: str, key: str, which: str) -> str:
    return f"{table.replace(' ', '_')}_{key}_{which}"


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


VALUES = {str: "x", bool: True, list: ["x"], dict: {"a": 1}, int: 1, object: 1}
PLACES = {"a tensor": ("inputs", "x"), "a param": ("params", "factor"), "axis": ("axis",),
          "an axis": ("axes", "T"), "an option": ("options", "times")}  # fmt: skip


def refusal(tmp_path: Path, table: str, fields: Block) -> str:
    """What a build says of a block with these fields in one of its tables."""
    block: Block = {"doc": "A toy.", "inputs": {}, "outputs": {}, "grid": "1"}
    inner = block
    for name in PLACES.get(table, ()):
        inner = inner.setdefault(name, {})
    inner |= fields
    if table != "the block":
        block["outputs"] = {"dst": {"dtype": "f32"}}
    if "bodies" in fields and "grid" not in fields:
        del block["grid"]
    with pytest.raises(BuildError) as caught:
        build_files(tmp_path, {"kernels/toy/toy.wgsl": source(block)})
    return str(caught.value)


@pytest.mark.parametrize(
    ("table", "one", "other"),
    [(t, one, other) for t, rows in EXCLUDE.items() for one, others, _ in rows for other in others],
)
def test_keys_that_exclude_each_other(tmp_path: Path, table: str, one: str, other: str) -> None:
    given = {key: VALUES[TABLES[table][key].kinds[0]] for key in (one, other)}
    where = "".join(f"{name}." for name in PLACES.get(table, ()))
    said = refusal(tmp_path, table, given)
    assert f"{where}{one} and {where}{other} exclude each other: " in said


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_what_a_misspelt_key_meant(tmp_path: Path, table: str, key: str) -> None:
    typo = key + key[-1]
    assert f"{typo}': did you mean {key!r}?" in refusal(tmp_path, table, {typo: 1})


@pytest.mark.parametrize(
    ("table", "key"), [(t, k) for t, k in KEYS if object not in TABLES[t][k].kinds]
)
def test_a_value_of_another_type(tmp_path: Path, table: str, key: str) -> None:
    takes = TABLES[table][key]
    wrong = 1 if str in takes.kinds else "x"
    said = refusal(tmp_path, table, {key: wrong})
    assert f"{key} must be {takes.words} but is {wrong!r}" in said


def test_a_key_of_another_table(tmp_path: Path) -> None:
    said = refusal(tmp_path, "a param", {"optional": True})
    assert "unknown key 'params.factor.optional', which is a key of a tensor; known: arg" in said
