"""`pykernels validate`: exit codes, formats, what it takes, and that speed changes nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykernels.cli import main
from pykernels.errors import ArgumentError
from pykernels.validate import CODES, Limits, Source, _pool, find_naga, find_tint
from pykernels.validate._cache import Cache
from pykernels.validate._files import gather, read_limits
from pykernels.validate._pool import Checker, check

DATA = Path(__file__).parent / "data"
DOCS = Path(__file__).parents[2] / "docs" / "reference" / "lints.md"
ONLY = {  # what one validator alone reports of a text: line, part of the message
    "barrier_loaded": ("tint", 8, "must only be called from uniform control flow"),
    "storage_pointer": ("naga", 5, "can't be passed into functions"),
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
    assert result.stdout.startswith("0 errors, 0 warnings in 0 of 1 shaders (naga 29.")


def test_text_names_file_line_and_column() -> None:
    file = DATA / "type_error.wgsl"
    lines = run(file, "--with", "tint", exit_code=1).stdout.splitlines()
    assert lines[0] == f"{file.as_posix()}:7:16: error: cannot assign 'u32' to 'f32' [tint]"
    assert lines[1].startswith("1 error, 0 warnings in 1 of 1 shaders (tint ")


def test_github_annotations(tmp_path: Path) -> None:
    file = tmp_path / "a,b.wgsl"
    shutil.copy(DATA / "grid_x.wgsl", file)
    line = run(file, "--with", "lint", "--format", "github", exit_code=1).stdout.splitlines()[0]
    escaped = file.as_posix().replace(",", "%2C")
    assert line.startswith(f"::warning file={escaped},line=4,col=1,title=lint PK009::main reads")


def test_levels_and_ignored_codes() -> None:
    file = DATA / "grid_x.wgsl"
    run(file, exit_code=1)
    run(file, "--level", "error", exit_code=0)
    run(file, "--ignore", "PK009", exit_code=0)
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
    (tmp_path / "latin.wgsl").write_bytes(b"// Gr\xfc\xdfe\n")
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
        "latin.wgsl": "no UTF-8",
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
        (["/no/such.wgsl"], "/no/such.wgsl cannot be read"),
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
        ("= 1", "but .* is none"),
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
    sources, _ = gather([DATA])
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
    monkeypatch.setattr("pykernels.validate._pool.subprocess.run", run_or_die)
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


def test_the_installed_collection_passes_the_lints() -> None:
    result = run("--with", "lint", "--ignore", "PK007,PK008", exit_code=0)
    assert "0 errors, 0 warnings in 0 of" in result.stdout


def test_a_checkout_tells_its_state(tmp_path: Path) -> None:
    """As a program, in another folder, as pre-commit runs it."""
    import sys

    done = subprocess.run(
        [sys.executable, "-c", "from pykernels.cli import main; main()", "validate",
         str(DATA / "override.wgsl")],
        cwd=Path(__file__).parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "[lint PK001]" in done.stdout


def test_every_code_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert [c for c in CODES if f"### {c} " not in text] == []
