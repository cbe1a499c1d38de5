"""`pykernels validate`: features, preludes, baselines, skips, and how findings are said."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykernels.cli import main
from pykernels.validate import Source, find_naga, find_tint, validate
from pykernels.validate._features import _of_format


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKERNELS_CACHE", f"{tmp_path}-cache")
    monkeypatch.chdir(tmp_path)
    if None in (find_naga(), find_tint()):
        assert "CI" not in os.environ, "naga and Tint are required in CI"
        pytest.skip("needs naga and Tint")


def run(*args: object, exit_code: int) -> Result:
    result = CliRunner().invoke(main, ["validate", *map(str, args)])
    assert result.exit_code == exit_code, result.output
    return result


def report(*args: object, exit_code: int = 1) -> Any:
    return json.loads(run(*args, "--json", exit_code=exit_code).stdout)


STORAGE = """@group(0) @binding(0) var t: texture_storage_2d<{}, {}>;
@compute @workgroup_size(1) fn main() {{ _ = textureDimensions(t); }}
"""
HALF = "enable f16;\n@compute @workgroup_size(1) fn main() { let x: f16 = 1.0h; _ = x; }\n"


@pytest.mark.parametrize(
    ("form", "access", "feature"),
    [
        ("bgra8unorm", "write", "bgra8unorm-storage"),
        ("r8unorm", "write", "texture-formats-tier1"),
        ("r16unorm", "read", "texture-formats-tier1"),
        ("rg16float", "write", "texture-formats-tier1"),
        ("rgba8unorm", "read_write", "texture-formats-tier2"),
    ],
)
def test_storage_formats_need_features(
    form: str, access: str, feature: str, tmp_path: Path
) -> None:
    file = tmp_path / "t.wgsl"
    file.write_text(STORAGE.format(form, access))
    [found] = report(file)["findings"]
    want = f"{access} access to {form} needs the feature {feature}, which --features does not name"
    assert (found["line"], found["column"], found["message"]) == (1, 30, want)
    assert report(file, "--features", feature, exit_code=0)["findings"] == []
    assert len(report(file, "--features", "none")["findings"]) == 1


def test_none_forbids_what_a_text_enables(tmp_path: Path) -> None:
    file = tmp_path / "half.wgsl"
    file.write_text(HALF)
    run(file, exit_code=0)
    run(file, "--features", "shader-f16", exit_code=0)
    for given in ("none", "subgroups"):
        [found] = report(file, "--features", given)["findings"]
        want = "enable f16 needs the feature shader-f16, which --features does not name"
        assert (found["line"], found["message"]) == (1, want)


def test_a_tier_has_the_tier_below(tmp_path: Path) -> None:
    file = tmp_path / "t.wgsl"
    file.write_text(STORAGE.format("r8unorm", "write"))
    run(file, "--features", "texture-formats-tier2", exit_code=0)


def test_a_wrong_feature_is_wrong_use(tmp_path: Path) -> None:
    file = tmp_path / "half.wgsl"
    file.write_text(HALF)
    assert "one is 'f16'" in run(file, "--features", "f16", exit_code=2).stderr


def test_the_formats_of_each_feature_are_those_of_tint() -> None:
    tint = find_tint()
    assert tint is not None
    kinds = [f"{c}{b}{t}" for c in ("r", "rg", "rgba") for b in (8, 16)
             for t in ("unorm", "snorm", "uint", "sint")]  # fmt: skip
    formats = [*kinds, "r16float", "rg16float", "bgra8unorm", "rgb10a2unorm", "rg11b10ufloat"]
    for form, access in itertools.product(formats, ("read", "write", "read_write")):
        if _of_format(form, access) is not None:
            source = Source("t", STORAGE.format(form, access))
            assert tint.check([source]) == [], (form, access)
            assert [f.validator for f in validate([source], [tint])] == ["features"]


PLAIN = "@compute @workgroup_size(1)\nfn main() {{ let x: f32 = {}; _ = x; }}\n"


def lines(*args: object, exit_code: int) -> list[str]:
    return run(*args, exit_code=exit_code).stdout.splitlines()


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        ("const A = {{ a }};", True),
        ("var<private> a: array<{{T}}, 3>;", True),
        ("const A = {{ a\n if b }};", True),  # within
        ("const A = 1 + {% if a %} 2 {% endif %};", True),
        ("#ifdef A\nconst a = 1;\n#endif", True),
        ("const A = ; const B = {{ b }};", False),  # before, on the same line
        ("# comment\nconst A = 1;", False),
        ("const B = {{ b }};\n// {{\n", True),
    ],
)
def test_a_template_fails_on_its_marks(text: str, skipped: bool, tmp_path: Path) -> None:
    (tmp_path / "a.wgsl").write_text(text)
    found = report("a.wgsl", exit_code=0 if skipped else 1)
    assert bool(found["skipped"]) == skipped and bool(found["findings"]) != skipped


def test_marks_cost_time_in_proportion() -> None:
    import time

    from pykernels.validate._files import _marks

    start = time.monotonic()
    for text in ("{{" * 500_000, "{{ }}" * 200_000, "{{" * 500_000 + "}}", "${" * 500_000):
        _marks(text)
    assert time.monotonic() - start < 10  # 1 s


def test_skips_have_a_flag_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.wgsl").write_text("const A = {{ a }};")
    run("a.wgsl", "--strict", exit_code=1)
    run("a.wgsl", "--strict", "--allow-skip", "b*", exit_code=1)
    run("a.wgsl", "--strict", "--allow-skip", "a*", exit_code=0)


def test_folders_that_are_left_out_are_counted(tmp_path: Path) -> None:
    for name in ("target", "rust/target", "node_modules", ".git", "shaders"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.WGSL").write_text(PLAIN.format("1.0") + f"// {name}")
    (tmp_path / "rust" / "Cargo.toml").write_text("")
    (tmp_path / "linked").symlink_to("shaders")
    found = report(".", exit_code=0)
    assert found["checked"] == 2  # shaders, target
    assert set(found["left_out"]) == {".git", "linked", "node_modules", "rust/target"}
    assert lines(".", exit_code=0)[-1].endswith("; 4 folders left out")
    for pattern in ("target", "./target", "tar*", "target/a.WGSL"):
        assert report(".", "--exclude", pattern, exit_code=0)["checked"] == 1, pattern


def test_a_prelude_stands_in_front_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "quad.wgsl").write_text("fn half(x: f32) -> f32 {\n    return one(x);\n}")
    (tmp_path / "solid.wgsl").write_text("fn one(x: f32) -> f32 { return x; }\n" +
                                         PLAIN.format("half(1.0)"))  # fmt: skip
    (tmp_path / "other.wgsl").write_text(PLAIN.format("1.0"))
    assert len(report(".", exit_code=1)["skipped"]) == 1
    found = report(".", "--prepend", "solid*:quad.wgsl", "--strict", exit_code=0)
    assert (found["checked"], found["skipped"]) == (2, [])
    (tmp_path / "solid.wgsl").write_text("fn one(x: f32) -> f32 { return x; }\n" +
                                         PLAIN.format("half(1u)"))  # fmt: skip
    [one] = report(".", "--prepend", "solid*:quad.wgsl")["findings"]
    assert (one["file"], one["line"]) == ("solid.wgsl", 3)
    (tmp_path / "quad.wgsl").write_text("\nfn half(x: f32) -> f32 { return 1u; }")
    found = report("quad.wgsl", "solid.wgsl", "--prepend", "quad.wgsl")["findings"]
    assert ("quad.wgsl", 2) in {(f["file"], f["line"]) for f in found}
    said = run(".", "--prepend", "no*:quad.wgsl", exit_code=2).stderr
    assert "no file matches 'no*'" in said
    assert "there is no such file" in run(".", "--prepend", "none.wgsl", exit_code=2).stderr


def test_a_baseline_leaves_out_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.wgsl").write_text(PLAIN.format("1u"))
    (tmp_path / "known.json").write_text(run("a.wgsl", "--json", exit_code=1).stdout)
    (tmp_path / "a.wgsl").write_text("\n\n" + PLAIN.format("1u"))  # it has moved
    assert lines("a.wgsl", "--baseline", "known.json", exit_code=0)[-1].endswith("; 1 known")
    (tmp_path / "a.wgsl").write_text(PLAIN.format("2u"))
    run("a.wgsl", "--baseline", "known.json", exit_code=1)
    (tmp_path / "known.json").write_text('{"findings": [1]}')
    assert "a file that --json wrote" in run("a.wgsl", "--baseline", "known.json",
                                             exit_code=2).stderr  # fmt: skip


def test_a_finding_shows_its_line_and_the_hint(tmp_path: Path) -> None:
    text = "@fragment\nfn f(/* \u00e9\U0001d11e */ @locatio(0) x: f32) {}\n"
    (tmp_path / "a.wgsl").write_text(text, encoding="utf-8")
    first, line, caret, *_ = lines("a.wgsl", exit_code=1)
    said = "expected attribute (did you mean 'location'?)"
    assert first == f"a.wgsl:2:16: error: {said} [naga, tint]"
    assert line[caret.index("^") :].startswith("locatio(0)")


def test_what_follows_from_a_fault_on_its_line_is_not_said(tmp_path: Path) -> None:
    text = "@fragment fn f(@loction(0) p: vec2f) {}\nfn g() -> u32 { return }\n"
    (tmp_path / "a.wgsl").write_text(text)
    found = [line for line in lines("a.wgsl", exit_code=1) if line.startswith("a.wgsl:")]
    assert [line.partition(" error: ")[0] for line in found] == ["a.wgsl:1:17:", "a.wgsl:2:24:"]


def test_sarif(tmp_path: Path) -> None:
    (tmp_path / "a b.wgsl").write_text(PLAIN.format("1u"))
    [done] = json.loads(run("a b.wgsl", "--format", "sarif", exit_code=1).stdout)["runs"]
    [result] = done["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b.wgsl"}
    assert place["region"] == {"startLine": 2, "startColumn": 17}
    assert (result["level"], result["ruleId"]) == ("error", "naga+tint")
    assert done["tool"]["driver"]["rules"] == [{"id": "naga+tint"}]
    assert done["columnKind"] == "unicodeCodePoints"


def test_an_override_without_a_value_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.wgsl").write_text(
        "override N: u32;\nconst M = N * 2;\n@compute @workgroup_size(M)\nfn main() {}\n"
        .replace("const", "override")
    )  # fmt: skip
    [found] = report("a.wgsl", "--limits", "webgpu", exit_code=0)["findings"]
    assert found["message"].startswith("needs a value for override N, ")
    [found] = report("a.wgsl", "--limits", "webgpu", "--override", "N=256")["findings"]
    assert found["code"] == "PK012"


RENDER = """struct V { @builtin(position) p: vec4f, @location(0) uv: vec2f }
@vertex fn vs_main() -> V { var v: V; return v; }
@fragment fn fs_main(%s) -> @location(0) vec4f { return vec4f(); }
"""


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ("v: V", None),
        ("@location(0) uv: vec2<f32>", None),
        ("@builtin(position) p: vec4f", None),
        ("", None),
        ("@location(0) uv: vec3f", "fs_main takes vec3<f32> at location 0, but vs_main has vec2"),
        ("@location(1) uv: vec2f", "at location 1, but vs_main has no such output"),
    ],
)
def test_the_stages_of_a_pipeline_fit(inputs: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.wgsl").write_text(RENDER % inputs)
    found = report("a.wgsl", exit_code=1 if said else 0)["findings"]
    assert [f["code"] for f in found] == (["PK014"] if said else [])
    assert said is None or said in found[0]["message"]
    other = "@vertex fn vs_x() -> @builtin(position) vec4f { return vec4f(); }\n"
    two = RENDER % inputs + "@fragment fn fs_other() {}\n" + other
    (tmp_path / "a.wgsl").write_text(two)
    assert len(report("a.wgsl", exit_code=1 if said else 0)["findings"]) == len(found)


def test_a_text_that_looks_like_glsl_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.wgsl").write_text("#version 450\nvoid main() {}\n")  # wgpudawn raises for it
    found = report("a.wgsl")["findings"]
    assert [(f["validator"], f["line"]) for f in found][:1] == [("naga, tint", 1)]
