"""pykernels build: what it makes, where its errors point, what it leaves alone; without a GPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner

import pykernels as pk
from pykernels.cli import main
from pykernels.own import SourceError, build_package
from pykernels.own.watch import watch
from tests.checkout import ROOT

EXAMPLE = ROOT / "examples" / "own_package" / "shaders"


def quiet(line: str) -> None:
    pass


@pytest.fixture
def shaders(tmp_path: Path) -> Path:
    """The sources of the example, to be broken."""
    folder = tmp_path / "shaders"
    shutil.copytree(EXAMPLE, folder)
    return folder


def replace(path: Path, old: str, new: str) -> int:
    """Replaces a text that is there once; returns its line."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")
    return text[: text.index(old)].count("\n") + 1


def files_of(folder: Path) -> dict[str, bytes]:
    found = (p for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts)
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in found}


def test_builds_are_equal_wherever_they_are_made(shaders: Path, tmp_path: Path) -> None:
    first = build_package(shaders, tmp_path / "a", validate="skip", report=quiet)
    assert first.kernels == ("blend", "norm", "normals", "peaks", "soft_clip")
    elsewhere = tmp_path / "deep" / "er" / "shaders"
    for path in sorted(shaders.rglob("*"), reverse=True):  # in another order, from Windows
        if path.is_file():
            copy = elsewhere / path.relative_to(shaders)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    build_package(elsewhere, tmp_path / "b", validate="skip", report=quiet)
    made = files_of(tmp_path / "a")
    assert made == files_of(tmp_path / "b")
    assert not any(str(tmp_path).encode() in data or b"\r" in data for data in made.values())
    again = build_package(shaders, tmp_path / "a", validate="skip", report=quiet)
    assert again.written == ()


def test_the_package_imports_pykernels_only(shaders: Path, tmp_path: Path) -> None:
    build_package(shaders, tmp_path / "pkg" / "_kernels", validate="skip", report=quiet)
    (tmp_path / "pkg" / "__init__.py").write_text("from ._kernels import *\n")
    code = (
        "import sys; import pkg, pkg._kernels.reference\n"
        "others = {'jinja2', 'wgpu', 'pykernels._codegen', 'codegen'} & {*sys.modules}\n"
        "assert not others, others\nprint(pkg.norm.__module__)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": ""},
    )  # fmt: skip
    assert done.stdout.strip() == "pkg._kernels.wrappers.norm", done.stderr


BROKEN = [
    # file, what is replaced, by what, what the error says
    ("blend.wgsl", "let a = a_load", "let a = a_laod", "a_laod"),
    ("blend.wgsl", 'iterate = "nd"', 'iterate = "ndd"', "iterate must be rows, nd, tiles or none"),
    ("blend.wgsl", "p.share * mask", "p.shore * mask", "the spec has no params.shore"),
    ("peaks.wgsl", "p.cols; c +=", "p.cols; c =+", ""),
    ("lib/sums.wgsl", "li + apart]; }", "li + aparts]; }", "aparts"),
    ("norm_partial.wgsl", 'uses = ["sums"]', 'uses = ["some"]', "there is no kernels/lib/some.wgsl "
     "and no shaders/lib/some.wgsl"),
    ("tuning/software.toml", "groups = 16", "group = 16", "generic-large has no norm.group"),
    ("plans/norm.py", "return [first,", "return first,]", "unmatched"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "said"), BROKEN, ids=[b[1] for b in BROKEN])
def test_errors_name_the_line_of_the_source(
    shaders: Path, tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    line = replace(shaders / file, old, new)
    with pytest.raises(SourceError) as caught:
        build_package(shaders, tmp_path / "out", report=quiet)
    where = f"shaders/{file}" + ("" if file.endswith(".toml") else f":{line}")
    assert str(caught.value).startswith(f"{where}: ") and said in str(caught.value)
    assert caught.value.file == f"shaders/{file}"
    assert not (tmp_path / "out").exists()


def test_what_is_missing_is_said_in_names_of_the_folder(shaders: Path, tmp_path: Path) -> None:
    (shaders / "plans" / "norm.py").rename(shaders / "plans" / "morn.py")
    with pytest.raises(SourceError, match=r"norm\.wgsl:1: .* needs shaders/plans/norm\.py"):
        build_package(shaders, tmp_path / "out", report=quiet)
    shutil.copy(shaders / "plans" / "morn.py", shaders / "plans" / "norm.py")
    with pytest.raises(SourceError, match=r"^shaders/plans/morn\.py: there is no such kernel"):
        build_package(shaders, tmp_path / "out", report=quiet)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"^empty: no \*\.wgsl file there begins with"):
        build_package(tmp_path / "empty", tmp_path / "out", report=quiet)
    with pytest.raises(pk.ArgumentError, match="is no folder"):
        build_package(tmp_path / "nothing", tmp_path / "out", report=quiet)


def test_only_files_of_a_build_are_replaced(shaders: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("keep me")
    with pytest.raises(pk.ArgumentError, match="has files that no build made"):
        build_package(shaders, mine, validate="skip", report=quiet)
    assert files_of(mine) == {"notes.txt": b"keep me"}
    out = tmp_path / "out"
    build_package(shaders, out, validate="skip", report=quiet)
    (shaders / "peaks.wgsl").unlink()
    built = build_package(shaders, out, validate="skip", report=quiet)
    assert {"wgsl/peaks.json", "wrappers/peaks.py"} <= {*built.written}
    assert not [name for name in files_of(out) if "peaks" in name]


def test_command(shaders: Path, tmp_path: Path) -> None:
    def run(*args: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["build", str(shaders), "--into", str(out), *args])
        assert done.exit_code == code, done.output
        return done.output

    out = tmp_path / "pkg"
    assert "out of date: run pykernels build" in run("--check", "--no-validate", code=1)
    assert not out.exists()
    assert "5 kernels, 21 texts" in run("--no-validate")
    assert "up to date" in run("--check", "--no-validate")
    replace(shaders / "blend.wgsl", "default = 0.5", "default = 0.75")
    assert "+    share: float = 0.75," in run("--check", "--no-validate", code=1)
    line = replace(shaders / "blend.wgsl", "p.share * mask", "q.share * mask")
    assert f"error: shaders/blend.wgsl:{line}: " in run(code=1)
    run("--require", "--no-validate", code=2)
    run("--check", "--watch", code=2)


def test_watch_builds_on_save_and_goes_on_after_an_error(shaders: Path, tmp_path: Path) -> None:
    body = shaders / "blend.wgsl"
    steps: Iterator[Callable[[], object]] = iter([
        lambda: replace(body, "p.share * mask", "p.shore * mask"),
        lambda: None,  # nothing is saved: nothing is built
        lambda: replace(body, "p.shore * mask", "p.share  * mask"),
    ])  # fmt: skip
    found = watch(
        shaders, shaders / "_kernels", validate="skip", report=quiet, wait=lambda s: next(steps)()
    )
    first, second, third = islice(found, 3)
    assert not isinstance(first, SourceError) and len(first.kernels) == 5
    assert isinstance(second, SourceError) and second.file == "shaders/blend.wgsl"
    assert not isinstance(third, SourceError) and "wgsl/blend.json" in third.written
    assert next(steps, None) is None


def test_new_refuses_what_is_there(tmp_path: Path) -> None:
    def run(*args: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["new", *args, "--into", str(tmp_path / "shaders")])
        assert done.exit_code == code, done.output
        return done.output

    assert "shaders/plans/near.py" in run("near", "--kind", "tile")
    before = files_of(tmp_path)
    assert "is there already" in run("near", code=2)
    assert "a kernel has a name like" in run("Near", code=2)
    assert "a kernel has a name like" in run("import", code=2)
    (tmp_path / "shaders" / "near.wgsl").unlink()
    (tmp_path / "shaders" / "tests" / "test_near.py").unlink()
    assert "has near already" in run("near", "--kind", "row", code=2)
    assert {*files_of(tmp_path)} < {*before}
