"""What one compiler lacks, and limits that nobody declared, are no errors of a text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykernels.cli import main
from pykernels.validate import Lints, Source, find_naga, find_tint, validate

OUT = "@group(0) @binding(0) var<storage, read_write> o: array<u32>;\n"
MAIN = "@compute @workgroup_size(1) fn main() {"
SUBGROUPS = (
    f"{OUT}@compute @workgroup_size(32)\n"
    "fn main(@builtin(subgroup_invocation_id) i: u32) { o[i] = subgroupAdd(i); }\n"
)


@pytest.fixture(autouse=True)
def both_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYKERNELS_CACHE", str(tmp_path / "cache"))
    if None in (find_naga(), find_tint()):
        assert "CI" not in os.environ, "naga and Tint are required in CI"
        pytest.skip("needs naga and Tint")


def said(tmp_path: Path, text: str, *args: str, exit_code: int = 0) -> list[Any]:
    """Severity, validators, line and message of what the command says of a file."""
    file = tmp_path / "a.wgsl"
    file.write_text(text)
    result = CliRunner().invoke(main, ["validate", "--json", str(file), *args])
    assert result.exit_code == exit_code, result.output
    found = json.loads(result.stdout)["findings"]
    return [(f["severity"], f["validator"], f["line"], f["message"]) for f in found]


@pytest.mark.parametrize(
    "text",
    [
        "enable clip_distances;\nstruct V { @builtin(position) p: vec4f,\n"
        "  @builtin(clip_distances) c: array<f32, 2> }\n@vertex fn v() -> V { return V(); }",
        "enable dual_source_blending;\nstruct F { @location(0) @blend_src(0) a: vec4f,\n"
        "  @location(0) @blend_src(1) b: vec4f }\n@fragment fn f() -> F { return F(); }",
        "enable primitive_index;\n@fragment fn f(@builtin(primitive_index) i: u32) { }",
        "requires pointer_composite_access;\n@fragment fn f() { }",
    ],
)
def test_what_a_text_enables_is_on(text: str, tmp_path: Path) -> None:
    assert said(tmp_path, text, "--strict") == []


@pytest.mark.parametrize("directive", ["enable subgroups;", "enable f16, subgroups;"])
def test_subgroups_as_browsers_want_them(directive: str, tmp_path: Path) -> None:
    """naga has the functions but not the directive: it checks and translates without it."""
    note = "naga 29 has no `enable subgroups`: checked without it"
    text = f"{directive}\n{SUBGROUPS}"
    assert said(tmp_path, text, "--strict", "--to", "spv,msl,hlsl") == [("note", "naga", 1, note)]
    [_, error] = said(tmp_path, text.replace("(i);", "(1.0);"), exit_code=1)
    assert error[:3] == ("error", "naga, tint", 4)


def test_subgroups_as_naga_wants_them(tmp_path: Path) -> None:
    message = "Tint has no subgroup built-ins without `enable subgroups;`: checked with it"
    assert said(tmp_path, SUBGROUPS) == [("warning", "tint", 3, message)]
    found = said(tmp_path, SUBGROUPS.replace("(i);", "(1.0);"), exit_code=1)
    assert [f[:2] for f in found] == [("warning", "tint"), ("error", "naga, tint")]


@pytest.mark.parametrize(
    ("text", "severity", "message"),
    [
        ("enable chromium_disable_uniformity_analysis;\n" + MAIN + "}", "note",
         "naga 29 has no `enable chromium_disable_uniformity_analysis`: tint alone"),
        ("enable wgpu_ray_query;\n" + MAIN + "}", "note",
         "tint 0.32 has no `enable wgpu_ray_query`: naga alone"),
        ("requires uniform_buffer_standard_layout;\n" + MAIN + "}", "note",
         "naga 29 has no `requires uniform_buffer_standard_layout`: tint alone"),
        (OUT + MAIN + " var v = vec4u(); v.xy = vec2u(1); o[0] = v.x; }", "warning",
         "naga 29 has no assignments to swizzles: tint alone"),
        (OUT + "fn f(p: ptr<storage, u32, read_write>) { }\n" + MAIN + " f(&o[0]); }", "warning",
         "naga 29 has no such pointers as parameters: tint alone"),
        ("@group(0) @binding(0) var t: binding_array<texture_2d<f32>, 4>;\n" + MAIN
         + " let x = textureLoad(t[1], vec2u(), 0); }", "warning",
         "tint 0.32 has no `binding_array`: naga alone"),
        (MAIN + " var a: i64; }", "warning", "tint 0.32 has no `i64`: naga alone"),
    ],
)  # fmt: skip
def test_what_one_compiler_lacks_is_said_as_such(
    text: str, severity: str, message: str, tmp_path: Path
) -> None:
    [found] = said(tmp_path, text)
    assert found[0] == severity and found[3] == f"{message} checked this text"


@pytest.mark.parametrize(
    "text",
    [
        "enable nonsense;\n" + MAIN + "}",
        "requires nonsense;\n" + MAIN + "}",
        MAIN + " elsewhere(); }",
        MAIN + " var v = vec4u(); v.xyx = vec3u(1); }",  # a swizzle, but nobody takes it
    ],
)
def test_what_no_compiler_knows_is_an_error(text: str, tmp_path: Path) -> None:
    assert [f[0] for f in said(tmp_path, text, exit_code=1)] == ["error"]


@pytest.mark.parametrize("tool", ["naga", "tint"])
def test_a_compiler_alone_excuses_nothing(tool: str, tmp_path: Path) -> None:
    text = {"naga": "enable chromium_internal;", "tint": "enable wgpu_ray_query;"}[tool]
    assert [f[0] for f in said(tmp_path, text, "--with", tool, exit_code=1)] == ["error"]


def test_limits_that_nobody_declared_are_notes(tmp_path: Path) -> None:
    large = f"{OUT}@compute @workgroup_size(32, 32) fn main() {{ o[0] = 1; }}"
    note = "1024 invocations in a workgroup of main, more than WebGPU guarantees: 256"
    assert said(tmp_path, large, "--strict") == [("note", "lint", 2, note)]
    declared = "1024 invocations in a workgroup of main, but the declared limit is 256"
    assert said(tmp_path, large, "--limits", "webgpu", exit_code=1)[0][3] == declared
    assert said(tmp_path, large, "--level", "warning") == []
    buffers = "".join(
        f"@group(0) @binding({i}) var<storage, read_write> b{i}: array<u32>;\n" for i in range(9)
    )
    uses = " ".join(f"b{i}[0] = 1;" for i in range(9))
    assert [f[:3] for f in said(tmp_path, f"{buffers}{MAIN} {uses} }}")] == [("note", "lint", 9)]


@pytest.mark.parametrize("text", ["", "\n \n", "// all of it\n/* is a\ncomment */"])
def test_an_empty_file_is_no_shader(text: str, tmp_path: Path) -> None:
    message = "nothing in it but blanks and comments: no shader"
    assert said(tmp_path, text, exit_code=1) == [("error", "file", 1, message)]


def test_one_finding_for_functions_that_all_call_each_other(tmp_path: Path) -> None:
    names = [f"f{i}" for i in range(9)]
    calls = " ".join(f"{n}();" for n in names)
    text = "".join(f"fn {n}() {{ {calls} }}\n" for n in names)
    [found] = said(tmp_path, text, exit_code=1)
    assert found[:3] == ("error", "naga, tint", 1) and "cyclic dependency" in found[3]
    apart = "fn a() { b(); }\nfn b() { a(); }\n\n\nfn c() { d(); }\nfn d() { c(); }\n"
    assert [f[2] for f in said(tmp_path, apart, exit_code=1)] == [1, 5]


def test_github_annotates_notes(tmp_path: Path) -> None:
    file = tmp_path / "a.wgsl"
    file.write_text(f"enable subgroups;\n{SUBGROUPS}")
    result = CliRunner().invoke(main, ["validate", "--format", "github", str(file)])
    assert result.stdout.startswith("::notice file=") and ", 1 note in 1 (" in result.stdout


def test_python_agrees_too() -> None:
    found = [v for v in (find_naga(), find_tint(), Lints()) if v is not None]
    text = OUT + MAIN + " var v = vec4u(); v.xy = vec2u(1); o[0] = v.x; }"
    assert [f.severity for f in validate([Source("t", text)], found)] == ["warning"]


OVERRIDE = f"override N: u32;\n{OUT}@compute @workgroup_size(N) fn main() {{ o[0] = N; }}\n"


def test_an_override_without_a_value_is_a_note(tmp_path: Path) -> None:
    """What is translated needs one; what is checked, not."""
    note = "not translated: override N has no default, give --override N=VALUE"
    assert said(tmp_path, OVERRIDE) == []
    assert said(tmp_path, OVERRIDE, "--to", "spv,msl") == [("note", "naga", 1, note)]


@pytest.mark.parametrize("given", ["N=64", "*/a.wgsl:N=64"])
def test_overrides_get_values(given: str, tmp_path: Path) -> None:
    args = ("--to", "spv,msl,hlsl", "--override", given)
    assert said(tmp_path, OVERRIDE, *args) == []
    numbered = OVERRIDE.replace("override", "@id(7) override")
    assert said(tmp_path, numbered, *args) == []
    assert said(tmp_path, numbered, *args[:3], "7=64") == []
    [found] = said(tmp_path, OVERRIDE, "--override", "N=512", "--limits", "webgpu", exit_code=1)
    assert found[:2] == ("error", "lint") and found[3].startswith("512 invocations along x")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("M=1", "no text has an override 'M'"),
        ("b.wgsl:N=1", "no text of b.wgsl has an override 'N'"),
        ("N", "must be [FILES:]NAME=VALUE"),
        ("N=many", "must be [FILES:]NAME=VALUE"),
    ],
)
def test_wrong_overrides_end_with_2(given: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.wgsl").write_text(OVERRIDE)
    args = ["validate", str(tmp_path), "--override", given]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2 and message in result.stderr


def test_what_a_target_cannot_express_is_a_note(tmp_path: Path) -> None:
    external = "@group(0) @binding(0) var t: texture_external;\n"
    use = f"{MAIN} let x = textureLoad(t, vec2u()); }}"
    assert [f[0] for f in said(tmp_path, external + use, "--to", "spv")] == ["note"]
    plain = "@group(0) @binding(1) var t: texture_2d<f32>;\n"
    use = f"{MAIN} o[0] = u32(textureLoad(t, vec2u(), 0).x); }}"
    assert said(tmp_path, OUT + plain + use, "--to", "glsl") == []  # an ordinary texture


@pytest.mark.parametrize(
    "text",
    [
        "@group(0) @binding(0) var t: texture_storage_2d<bgra8unorm, write>;\n"
        f"{MAIN} textureStore(t, vec2u(), vec4f()); }}",
        "enable wgpu_ray_query;\n@group(0) @binding(0) var a: acceleration_structure;\n"
        f"{MAIN} var q: ray_query; rayQueryInitialize(&q, a, RayDesc(0u, 255u, .1, 9.,"
        " vec3f(), vec3f(0., 1., 0.))); rayQueryProceed(&q); }",
    ],
)
def test_what_glsl_has_not_is_a_note(text: str, tmp_path: Path) -> None:
    options = ["--to", "spv,glsl", "--features", "bgra8unorm-storage,wgpu-ray-query"]
    found = [f for f in said(tmp_path, text, *options) if "glsl" in f[3]]
    assert [f[0] for f in found] == ["note"] and "no glsl output" in found[0][3]


@pytest.mark.parametrize(
    "text",
    [
        "@compute @workgroup_size(1) fn main() {{ let a = 1; }}\n",  # a block in a block
        "@fragment fn f() { {{ var a = 1; a += 1; }} }\n",
    ],
)
def test_what_compiles_is_no_template(text: str, tmp_path: Path) -> None:
    assert said(tmp_path, text, "--strict") == []


def test_an_error_outside_of_the_marks_is_reported(tmp_path: Path) -> None:
    text = "fn f() -> u32 {\n  return 1.5;\n}\n@fragment fn g() { {{ let a = 1; }} }\n"
    assert [f[:3] for f in said(tmp_path, text, exit_code=1)] == [("error", "naga, tint", 2)]
    assert [f[0] for f in said(tmp_path, "# comment\nfn f() {}\n", exit_code=1)] == ["error"]
    assert said(tmp_path, "#import a::b\nfn f() {}\n") == []  # skipped


def test_a_byte_order_mark_is_an_error(tmp_path: Path) -> None:
    message = "begins with a byte order mark, which compilers refuse"
    found = said(tmp_path, "\ufefffn f() {}\n", exit_code=1)
    assert found == [("error", "file", 1, message)]
