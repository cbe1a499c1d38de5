"""`pykernels validate`: exit codes, formats, what it takes, and that speed changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykernels.cli import main
from pykernels.errors import ArgumentError
from pykernels.validate import CODES, Limits, Lints, Source, _apart, _pool, find_naga, find_tint
from pykernels.validate._cache import Cache
from pykernels.validate._files import gather, read_limits
from pykernels.validate._pool import Checker, check
from pykernels.wgsl.texts import read_manifest

DATA = Path(__file__).parent / "data"
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "lints.md"
ONLY = {  # what one validator alone reports of a text: line, part of the message
    "barrier_loaded": ("tint", 8, "must only be called from uniform control flow"),
    "uniform_array": ("naga", 4, "is not a multiple of the required alignment"),
    "small_workgroup": ("lint", 7, "128 invocations along x"),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYKERNELS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def both_compilers(request: pytest.FixtureRequest) -> None:
    import os

    if None in (find_naga(), find_tint()):
        assert "CI" not in os.environ, "naga and Tint are required in CI"
        pytest.skip("needs naga and Tint")


def run(*args: object, exit_code: int) -> Result:
    result = CliRunner().invoke(main, ["validate", *map(str, args)])
    assert result.exit_code == exit_code, result.output
    return result


def report(*args: object, exit_code: int = 1) -> Any:
    return json.loads(run(*args, "--json", exit_code=exit_code).stdout)


@pytest.mark.parametrize("name", ONLY)
def test_each_validator_catches_what_only_it_can(name: str, tmp_path: Path) -> None:
    limits = tmp_path / "limits.json"
    limits.write_text('{"maxComputeWorkgroupSizeX": 64}')
    file = DATA / f"{name}.wgsl"
    found = report(file, "--limits", limits)["findings"]
    validator, line, part = ONLY[name]
    assert [(f["validator"], f["file"], f["line"]) for f in found] == [
        (validator, file.as_posix(), line)
    ]
    assert part in found[0]["message"] and found[0]["column"] >= 1
    others = {"naga", "tint", "lint"} - {validator}
    # Without a compiler a lint stands in for it, as far as the text shows the mistake.
    left = report(
        file, "--limits", limits, "--with", ",".join(others), "--level", "error", exit_code=0
    )
    assert left["findings"] == []


def test_a_clean_file_ends_with_0() -> None:
    result = run(DATA / "clean.wgsl", "--to", "spv,msl,hlsl", "--limits", "webgpu", exit_code=0)
    assert result.stdout.startswith("1 shader valid (naga 29.")


def test_text_names_file_line_and_column() -> None:
    file = DATA / "type_error.wgsl"
    lines = run(file, "--with", "tint", exit_code=1).stdout.splitlines()
    assert lines[0] == f"{file.as_posix()}:7:16: error: cannot assign 'u32' to 'f32' [tint]"
    assert lines[2].index("^") == 4 + 11
    assert lines[3].startswith("1 error, 0 warnings in 1 of 1 shaders (tint ")


def test_github_annotations(tmp_path: Path) -> None:
    file = tmp_path / "a,b.wgsl"
    shutil.copy(DATA / "read_before_write.wgsl", file)
    line = run(file, "--with", "lint", "--format", "github", exit_code=0).stdout.splitlines()[0]
    escaped = file.as_posix().replace(",", "%2C")
    assert line.startswith(
        f"::warning file={escaped},line=11,col=5,title=lint PK008::workgroup memory tile is read"
    )


def test_levels_and_ignored_codes() -> None:
    file = DATA / "read_before_write.wgsl"
    assert "\n1 shader valid, 3 warnings in 1 (" in run(file, exit_code=0).stdout
    run(file, "--strict", exit_code=1)
    run(file, "--strict", "--level", "error", exit_code=0)
    run(file, "--strict", "--ignore", "PK008", exit_code=0)
    assert "no lint PK999" in run(file, "--ignore", "PK999", exit_code=2).stderr


def test_translations_are_proven() -> None:
    file = DATA / "immediate.wgsl"
    run(file, exit_code=0)
    [finding] = report(file, "--to", "spv,hlsl")["findings"]
    assert (finding["code"], finding["line"]) == ("translate-hlsl", 1)


def test_folders_templates_and_fragments(tmp_path: Path) -> None:
    shutil.copy(DATA / "clean.wgsl", tmp_path / "a.wgsl")
    (tmp_path / "template.wgsl").write_text("const A = {{ a }};\n")
    (tmp_path / "lines.wgsl").write_text("$$ if a\nconst A = 1;\n$$ endif\n")
    (tmp_path / "kernel.wgsl").write_text('// /// kernel\n// doc = ""\n// ///\n')
    (tmp_path / "import.wgsl").write_text("#import bevy::a\n")
    (tmp_path / "piece.wgsl").write_text("fn f() -> f32 { return elsewhere(1.0); }\n")
    (tmp_path / "other.glsl").write_text("void main() {}\n")
    for folder in (".hidden", "node_modules"):
        (tmp_path / folder).mkdir()
        shutil.copy(DATA / "type_error.wgsl", tmp_path / folder / "bad.wgsl")
    found = report(tmp_path, tmp_path / "a.wgsl", exit_code=0)
    assert (found["findings"], found["checked"]) == ([], 1)
    reasons = {Path(s["file"]).name: s["reason"] for s in found["skipped"]}
    assert reasons == {
        "template.wgsl": "a template (jinja): render it first",
        "lines.wgsl": "a template (jinja): render it first",
        "kernel.wgsl": "a template (a kernel source of pykernels): render it first",
        "import.wgsl": "a template (directives of a preprocessor): render it first",
        "piece.wgsl": "a fragment without an entry point (names not defined here: elsewhere)",
    }
    run(tmp_path, "--strict", exit_code=1)


def test_a_piece_with_other_mistakes_is_no_fragment(tmp_path: Path) -> None:
    file = tmp_path / "piece.wgsl"
    file.write_text("fn g() -> f32 { return 1u; }\nfn f() -> f32 { return elsewhere(1.0); }\n")
    assert 1 in {f["line"] for f in report(file)["findings"]}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["/no/such.wgsl"], "/no/such.wgsl cannot be read: there is no such file"),
        (["--with", "tint,glslang"], "'glslang' is not one of naga, tint, lint"),
        (["--limits", "/no/limits.json"], "limits must be webgpu, or a JSON or TOML file"),
        (["--to", "dxil"], "'dxil' is not one of spv, msl, hlsl, glsl"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_wrong_use_ends_with_2(args: list[str], said: str) -> None:
    assert said in run(DATA / "clean.wgsl", *args, exit_code=2).stderr


def test_nothing_to_validate(tmp_path: Path) -> None:
    assert "no .wgsl file there" in run(tmp_path, exit_code=2).stderr


@pytest.mark.parametrize("args", [["--with", "naga"], ["--to", "spv"], []])
def test_a_missing_tool_ends_with_2(args: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykernels.validate.find_naga", lambda: None)
    monkeypatch.setattr("pykernels.validate.find_tint", lambda: None)
    assert "cargo install naga-cli" in run(DATA / "clean.wgsl", *args, exit_code=2).stderr
    run(DATA / "clean.wgsl", "--with", "lint", exit_code=0)


def test_limits_by_any_spelling(tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(
        "max-bind-groups = 2\nmaxBufferSize = 1\nmax_storage_buffers_per_shader_stage = 9"
    )
    assert read_limits(str(file)) == Limits(max_bind_groups=2, max_storage_buffers=9)
    assert read_limits("webgpu") == Limits()
    for text, said in (
        ("maxBindGroup = 1", "no limit 'maxBindGroup'"),
        ("maxBindGroups = 'a'", "must be a number"),
        ("= 1", "but .* is neither"),
    ):
        file.write_text(text)
        with pytest.raises(ArgumentError, match=said):
            read_limits(str(file))


def test_known_verdicts_are_not_asked_for_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(DATA, exit_code=1).stdout
    asked: list[str] = []
    monkeypatch.setattr(Checker, "run", lambda self, sources: asked.append(self.name) or [])
    assert run(DATA, exit_code=1).stdout == first
    assert asked == []
    run(DATA, "--no-cache", exit_code=0)
    assert set(asked) == {"naga", "tint", "lint"}
    asked.clear()
    run(DATA / "clean.wgsl", "--limits", "webgpu", exit_code=0)  # the file declares none
    assert set(asked) == {"naga", "tint", "lint"}


def test_a_spoiled_cache_is_no_harm(own_cache: Path) -> None:
    run(DATA / "clean.wgsl", exit_code=0)
    for file in (own_cache / "validate").iterdir():
        file.write_text("[")
    run(DATA / "clean.wgsl", exit_code=0)
    cache = Cache(own_cache, "lint", ("lint", "2"))
    cache.put(Source("a", "b"), [])
    cache.save()
    assert Cache(own_cache, "lint", ("lint", "2")).get(Source("other", "b")) == []
    assert Cache(own_cache, "lint", ("lint", "3")).get(Source("other", "b")) is None


def test_processes_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    sources, _, _ = gather([DATA])
    names = [("tint", find_tint()), ("lint", None)]
    checkers = [Checker(n, tool.version if tool else "2") for n, tool in names]
    here = check(sources, checkers, cache=None)
    monkeypatch.setattr(_pool, "_FEW", 1)
    monkeypatch.setattr(_pool, "_CHUNK", 10)
    away = check(sources, checkers, cache=None, jobs=2)
    assert {str(f) for f in away} == {str(f) for f in here} and len(away) == len(here)


def test_a_text_that_kills_a_worker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.run

    def run_or_die(*args: Any, **kwargs: Any) -> Any:
        if "killer" in kwargs["input"]:
            return subprocess.CompletedProcess(args, -11, "", "Segmentation fault")
        return real(*args, **kwargs)

    monkeypatch.setattr(_pool, "_FEW", 1)
    monkeypatch.setattr("pykernels.validate._apart.subprocess.run", run_or_die)
    text = (DATA / "grid_x.wgsl").read_text()
    sources = [Source(f"{i}", f"{text}// {i}") for i in range(5)]
    sources[2] = Source("2", "// killer")
    found = {f.source: f for f in check(sources, [Checker("lint", "2")], cache=None)}
    assert found["2"].message == "lint ended with -11" and found["2"].severity == "error"
    assert {f.code for name, f in found.items() if name != "2"} == {"PK009"} and len(found) == 5


def test_equal_texts_are_checked_once_and_all_reported() -> None:
    text = (DATA / "type_error.wgsl").read_text()
    found = check([Source("a", text), Source("b", text)], [Checker("tint", "0")], cache=None)
    assert sorted(f.source for f in found) == ["a", "b"]


def test_without_files_the_installed_collection_is_validated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two bodies of it: the build and ci/validate.sh look at all texts."""
    variants = {
        name: v for name, v in read_manifest()["variants"].items() if v["body"] in ("fill", "tri")
    }
    monkeypatch.setattr("pykernels.validate._files.read_manifest", lambda: {"variants": variants})
    number = len({v["sha256"] for v in variants.values()})
    result = run("--with", "lint", "--ignore", "PK007,PK008", exit_code=0)
    assert result.stdout.startswith(f"All {number} shaders valid (lint ")


def test_a_checkout_tells_its_state(tmp_path: Path) -> None:
    """As a program, in another folder, as pre-commit runs it."""
    import sys

    done = subprocess.run(
        [sys.executable, "-c", "from pykernels.cli import main; main()", "validate",
         str(DATA / "nonuniform_barrier.wgsl")],
        cwd=Path(__file__).parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "[tint]" in done.stdout


def test_every_code_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [c for c in CODES if f"### {c} " not in text] == []


TEXTBOOK = """@group(0) @binding(0) var<storage, read_write> o: array<f32>;
override size = 64;
@compute @workgroup_size(size)
fn main(@builtin(global_invocation_id) g: vec3u) { o[g.x] = 1.0; }
"""


def test_the_house_rules_are_for_the_house(tmp_path: Path) -> None:
    file = tmp_path / "textbook.wgsl"
    file.write_text(TEXTBOOK)
    assert run(file, "--strict", exit_code=0).stdout.startswith("1 shader valid (")
    assert {f.code for f in Lints().check([Source("t", TEXTBOOK)])} == {"PK001", "PK009"}


def test_standard_input_and_the_exit_codes_in_the_help() -> None:
    def piped(text: str, exit_code: int) -> str:
        result = CliRunner().invoke(main, ["validate", "-"], input=text)
        assert result.exit_code == exit_code
        return result.stdout

    assert piped(TEXTBOOK, 0).startswith("1 shader valid (")
    lines = piped(TEXTBOOK.replace("1.0", "1u"), 1).splitlines()
    assert lines[0] == "<stdin>:4:59: error: cannot assign 'u32' to 'f32' [naga, tint]"
    assert len(lines) == 4
    text = run("--help", exit_code=0).stdout
    assert re.search(r"^ +0  no errors.*\n +1  errors;.*\n +2  wrong use", text, re.MULTILINE)


def test_files_that_cannot_be_checked_are_findings(tmp_path: Path) -> None:
    shutil.copy(DATA / "clean.wgsl", tmp_path / "clean.wgsl")
    (tmp_path / "dangling.wgsl").symlink_to("nowhere")
    (tmp_path / "loop.wgsl").symlink_to("loop.wgsl")
    os.mkfifo(tmp_path / "pipe.wgsl")
    (tmp_path / "latin.wgsl").write_bytes(b"// a\n// Gr\xfc\xdfe\n")
    (tmp_path / "large.wgsl").write_text("// a line\n" * 600_000)
    (tmp_path / "many.wgsl").write_text("".join(f"fn f{i}() {{}}\n" for i in range(20_001)))
    start = time.monotonic()
    found = report(tmp_path)
    assert time.monotonic() - start < 60  # 0.2 s; to look at all functions takes minutes
    said = {Path(f["file"]).name: f["message"] for f in found["findings"]}
    assert said == {
        "dangling.wgsl": "a link to nothing",
        "loop.wgsl": "cannot be read: Too many levels of symbolic links",
        "pipe.wgsl": "no regular file (- reads standard input)",
        "latin.wgsl": "no UTF-8 in line 2 (byte 10)",
        "large.wgsl": "more than 5 MB: not checked",
        "many.wgsl": "20,001 functions, more than 20,000: not checked",
    }
    assert {f["severity"] for f in found["findings"]} == {"error"} and found["checked"] == 7
    for name in said:
        assert "1 error, 0 warnings in 1 of 1" in run(tmp_path / name, exit_code=1).stdout


def test_names_and_messages_do_not_speak_to_the_terminal(tmp_path: Path) -> None:
    for name in (b"a\x1b[31m.wgsl", b"b\xff.wgsl"):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_text("const a = ;")
    lines = run(tmp_path, exit_code=1).stdout.splitlines()
    assert [line.partition(":")[0].rpartition("/")[2] for line in lines[:6:3]] == [
        r"a\x1b[31m.wgsl", r"b\udcff.wgsl"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (3, "const a = 1;\nfn f() {\n    let x: u32 = 1.0;\n}"),  # naga points at x, Tint at 1.0
        (3, "fn f() {\n    let x = 1.0;\n    x = 2.0;\n}"),  # naga points at the declaration
        (4, "fn f() -> f32 {\n    let x = 1.0;\n    let y = x;\n    return 1u;\n}"),
        (5, "fn f(x: u32) {\n switch x {\n  default: { }\n  case 1: { }\n  case 1: { }\n }\n}"),
        (2, "@compute\nfn main() { }"),
    ],
)
def test_one_finding_for_a_fault_that_both_compilers_see(
    line: int, text: str, tmp_path: Path
) -> None:
    file = tmp_path / "fault.wgsl"
    file.write_text(text)
    [found] = report(file)["findings"]
    assert (found["validator"], found["line"]) == ("naga, tint", line)
    for tool in ("naga", "tint"):
        assert [f["validator"] for f in report(file, "--with", tool)["findings"]] == [tool]


def test_one_finding_for_a_limit_and_one_for_what_both_see(tmp_path: Path) -> None:
    file = DATA / "workgroup_memory.wgsl"
    [found] = report(file, "--limits", "webgpu")["findings"]
    assert (found["code"], found["line"]) == ("PK003", 9)
    (tmp_path / "two.wgsl").write_text(
        "enable subgroups;\n\n\n\nfn f() -> f32 {\n    return 1u;\n}"
    )
    found = report(tmp_path / "two.wgsl")["findings"]
    assert [(f["validator"], f["line"], f["severity"]) for f in found] == [
        ("naga", 1, "note"), ("naga, tint", 6, "error")
    ]  # fmt: skip


def test_a_text_that_overflows_tints_stack_is_a_finding(tmp_path: Path) -> None:
    calls = "".join(f"fn f{i}() {{ f{i + 1}(); }}\n" for i in range(1000))
    text = f"{calls}fn f1000() {{ }}\n"
    tool = find_tint()
    assert tool is not None and tool.check([Source("t", text + "//" * 50_000)]) == []
    with pytest.MonkeyPatch.context() as patch:  # what it does for 20,000 of them, after minutes
        patch.setattr("pykernels.validate._apart.sys.executable", "false")
        [found] = tool.check([Source("t", text + "//" * 50_000)])
    assert found.message == "tint ended with 1"


def test_a_text_that_takes_for_ever_is_a_finding(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_apart, "_MOST_SECONDS", 0.01)
    text = (DATA / "clean.wgsl").read_text() + "//" * 50_000
    for _ in range(2):  # the verdict is not kept
        [found] = check([Source("t", text)], [Checker("tint", "0")], cache=own_cache)
        assert (found.code, found.message) == ("timeout", "tint took longer than 0.01 s")
    monkeypatch.setattr(_apart, "_MOST_SECONDS", 60)
    assert check([Source("t", text)], [Checker("tint", "0")], cache=own_cache) == []


def test_limits_files_may_be_hostile(tmp_path: Path) -> None:
    for name, text in (("deep.json", "[" * 200_000), ("deep.toml", "a = " + "[" * 200_000)):
        (tmp_path / name).write_text(text)
        result = run(DATA / "clean.wgsl", "--limits", tmp_path / name, exit_code=2)
        assert result.stderr.count("\n") == 1 and len(result.stderr) < 400
    os.mkfifo(tmp_path / "pipe")
    said = run(DATA / "clean.wgsl", "--limits", tmp_path / "pipe", exit_code=2).stderr
    assert "no regular file" in said
