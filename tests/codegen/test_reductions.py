"""reductions.toml: what a row becomes, and mistakes, which are named with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen import BuildError
from codegen.reductions import Reduction, emit_reductions, read_table

TABLE = """\
# Toys.
[reductions.sum]
classes = "float int"
state = { sum = "V" }
init = "S(V())"
one = "S(x)"
combine = "S(a.sum + b.sum)"
finish.sum = "bitcast<u32>(a.sum)"
finish.mean.float = "bitcast<u32>(a.sum / p.divisor)"

[reductions.spread]
classes = "float"
state = { pivot = "V", count = "f32" }
init = "S(V(), 0.0f)"
batch = "spread"
combine = '''
let far = apart(a.pivot, b.pivot);
return S(far, a.count + b.count);
'''
finish.spread = "bitcast<u32>(a.pivot)"
typed_helpers = '''
fn apart(a: V, b: V) -> V { return a - b; }
'''

[kernels.sum]
doc = "The sum."
output = "wide"

[kernels.spread]
doc = "The spread."
output = "float"
empty = true
option = { name = "order", type = "int", default = 0, doc = "Of it." }
"""


def read(folder: Path, text: str) -> tuple[dict[str, Reduction], str]:
    path = folder / "reductions.toml"
    path.write_text(text, encoding="utf-8")
    rows, kernels = read_table(path, "kernels/toy/reductions.toml")
    return {row.name: row for row in rows}, emit_reductions(rows, kernels)


def test_functions_of_vectors_and_of_one_component(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, TABLE)
    text = rows["spread"].functions("f32", 4)
    assert "struct S { pivot: vec4<f32>, count: f32 }" in text
    assert "struct Z { pivot: f32, count: f32 }" in text
    assert "fn component_2(s: S) -> Z { return Z(s.pivot[2], s.count); }" in text
    # Both have the helper, by different names.
    assert "fn apart(a: vec4<f32>, b: vec4<f32>) -> vec4<f32>" in text
    assert "fn apart_z(a: f32, b: f32) -> f32" in text
    assert "let far = apart_z(a.pivot, b.pivot);" in text
    one = rows["sum"].functions("i32", 1)
    assert "alias Z = S;" in one and "fn one(x: i32, i: u32) -> S" in one
    assert "fn one(" not in rows["sum"].functions("i32", 1, reads=False)


def test_finishes_by_class(tmp_path: Path) -> None:
    rows, data = read(tmp_path, TABLE)
    assert "if (p.finish == 0u) { return sum_of(a); }" in rows["sum"].functions("f32", 1)
    assert "mean_of" not in rows["sum"].functions("i32", 1)
    names: dict[str, dict[str, object]] = {}
    exec(compile(data, "reductions.py", "exec"), names)
    assert names["FINISHES"]["mean"] == ("sum", 1, 1, ("float",))
    assert names["RESULTS"] == {"sum": ("wide", False), "spread": ("float", True)}


def test_lines_lead_back_to_the_table(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, TABLE)
    marked = rows["spread"].functions("f32", 1).splitlines()
    line, *_ = [text for text in marked if "let far" in text]
    assert line.endswith("//@kernels/toy/reductions.toml:17@")


def test_results_narrower_than_a_word(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, TABLE)
    assert rows["sum"].packed("f16") and not rows["sum"].packed("i32")
    rows, _ = read(tmp_path, TABLE.replace('"wide"', '"same"'))
    assert rows["sum"].packed("i32")
    rows, _ = read(tmp_path, TABLE.replace('"wide"', '"int32"'))
    assert not rows["sum"].packed("f16")


@pytest.mark.parametrize(
    ("text", "mistake", "line", "message"),
    [
        ("[kernels.sum]", "[kernel.sum]", 1, "unknown table 'kernel'"),
        ('init = "S(V())"', "", 2, "sum has no 'init'"),
        ('one = "S(x)"', 'ones = "S(x)"', 6, "sum: unknown key 'ones': did you mean 'one'"),
        ('one = "S(x)"', "", 2, "sum must have either 'one' or 'batch'"),
        ('one = "S(x)"', 'one.float = "S(x)"', 6, "sum: one must have every class"),
        ("float int", "float half", 3, "sum: classes must be some of float, int, uint, bool"),
        ('{ sum = "V" }', '{ sum = "W" }', 4, "sum: sum must be one of V, U, I, f32"),
        ("finish.mean.float", "finish.mean.uint", 9, "sum has no class 'uint'"),
        ('output = "wide"', 'output = "same as x"', 25, "sum: output must be one of same, wide"),
        ("finish.sum", "finish.total", 25, "sum: there is no finish of this name"),
        ("empty = true", "empty = 1", 32, "spread: empty cannot be 1"),
        ('type = "int", ', "", 33, "spread: an option has name, type, default, doc"),
        ('init = "S(V())"', "init = S", 5, "no TOML"),
    ],
)
def test_mistakes(text: str, mistake: str, line: int, message: str, tmp_path: Path) -> None:
    assert TABLE.count(text) == 1
    with pytest.raises(BuildError) as caught:
        read(tmp_path, TABLE.replace(text, mistake))
    assert str(caught.value).startswith(f"kernels/toy/reductions.toml:{line}: {message}")
