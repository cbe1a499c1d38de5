"""The first hour of several kinds of users, from the installed wheel alone.

numpy_user.py       knows numpy and torch
torch_user.py       comes from torch
jax_user.py         trains, coming from JAX
wgsl_user.py        has a repository of WGSL; installs the extra `validate`
measuring_user.py   measures
sharing_user.py     has a GPUDevice already, with buffers, frames and passes of their own
service_user.py     runs a service: threads, tasks, memory, processes, the end

And examples/own_kernels, the folder of somebody who has kernels of their own, and
examples/own_package, a package of such kernels.

Each is a script that asserts what it sees. It is copied into an empty folder and run by a virtual
environment that has the wheel and what the wheel asks for, and nothing else.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from pykernels.own import build_package
from tests.checkout import ROOT

HERE = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# What the wheel asks for, and what its extras add.
NEEDS = {
    "": ["click", "numpy", "wgpu"],
    "validate": ["click", "numpy", "wgpu", "wgpudawn"],
    # hatchling: its hook; setuptools: the example's setup.py
    "build": ["click", "hatchling", "jinja2", "numpy", "setuptools", "wgpu", "wgpudawn"],
}
# An environment with what an example draws with, beside the wheel.
PYGFX = "pygfx"
NEEDS[PYGFX] = [*NEEDS[""], "pygfx", "rendercanvas"]


def run(*args: object, cwd: Path = ROOT, **env: str) -> str:
    """What a command prints; nothing else of it may go to the terminal."""
    done = subprocess.run(
        [str(a) for a in args], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{args}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of an sdist of this checkout, as pip makes it: what is built already is taken."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder, "-t")
    run(*build, "sdist", HATCH_BUILD_NO_HOOKS="1")
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(folder, filter="data")
    # As `python -m build` does, without a network where the system can take it away.
    command = (*offline(), sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder)
    run(*command, cwd=folder / sdist.name.removesuffix(".tar.gz"), PIP_NO_INDEX="1")
    (found,) = folder.glob("*.whl")
    return found


def offline() -> tuple[str, ...]:
    """What starts a program in a place without a network; nothing where that needs rights."""
    start = ("unshare", "--map-root-user", "--net")
    try:
        done = subprocess.run([*start, "true"], capture_output=True)
    except FileNotFoundError:
        return ()
    return start if done.returncode == 0 else ()


def test_the_wheel_has_what_is_generated(wheel: Path) -> None:
    """The wheel is of an sdist, built without a network: texts, wrappers, the generator."""
    with zipfile.ZipFile(wheel) as files:
        names = {n for n in files.namelist() if "__pycache__" not in n}
    generated = ROOT / "pykernels" / "_generated"
    wanted = {
        p.relative_to(ROOT).as_posix() for p in generated.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }  # fmt: skip
    assert wanted and wanted <= names
    assert {"pykernels/_codegen/__main__.py", "pykernels/export/crate/src/lib.rs"} <= names
    assert wheel.name.endswith("-py3-none-any.whl")  # of every platform


@functools.cache
def environment(wheel: Path, extra: str) -> Path:
    """The folder `bin` of an environment with this wheel; the others stay for the next time."""
    pins = [
        pin for name in NEEDS[extra] for pin in PROJECT["dependency-groups"]["dev"]
        if pin.startswith(f"{name}==")
    ]  # fmt: skip
    digest = hashlib.sha256("\n".join([sys.version, *pins]).encode()).hexdigest()[:12]
    folder = ROOT / ".tools" / "first_hour" / f"{extra or 'alone'}-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "ready").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    try:
        if not (folder / "ready").is_file():
            run(*pip, "install", "--quiet", *pins)
            (folder / "ready").touch()
    except AssertionError as e:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"pip installs nothing here: {str(e).splitlines()[-1]}")
    # Python compiles what a script imports: pip would take seconds for all modules.
    again = ("install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--force-reinstall")
    run(*pip, *again, wheel)
    asked = f"pykernels[{extra}]" if extra not in ("", PYGFX) else "pykernels"
    run(*pip, "install", "--quiet", "--no-index", asked)  # fails if the wheel asks for more
    return python.parent


def spend(script: str, wheel: Path, folder: Path, extra: str = "") -> Path:
    """Run the script where there is nothing but it, with the programs of a bare system. Returns the
    folder `bin` of the environment."""
    tools = environment(wheel, extra)
    if not (folder / script).exists():
        shutil.copy(HERE / script, folder)
    kept = ("CI", "HOME", "LANG", "OPENBLAS_NUM_THREADS", "VK_ICD_FILENAMES", "VK_DRIVER_FILES",
            "XDG_RUNTIME_DIR")  # fmt: skip
    env = {k: os.environ[k] for k in kept if k in os.environ}
    env["PATH"] = os.pathsep.join([str(tools), str(ROOT / ".tools" / "bin"), "/usr/bin", "/bin"])
    env["PYKERNELS_REQUIRE_GPU"] = "0"  # no word about a software driver
    env["PYKERNELS_CACHE"] = str(folder / ".cache")
    done = subprocess.run(
        [str(tools / "python"), "-I", "-W", "error", script],
        cwd=folder, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""  # no noise of drivers either
    return tools


def on_lavapipe() -> None:
    if os.environ.get("PYKERNELS_TEST_COLUMN", "wgpu-lavapipe") != "wgpu-lavapipe":
        pytest.skip("one driver is enough")


@pytest.mark.gpu
@pytest.mark.parametrize(
    "script", ["numpy_user.py", "torch_user.py", "jax_user.py", "measuring_user.py",
               "sharing_user.py", "service_user.py"],
)  # fmt: skip
def test_on_a_device(script: str, wheel: Path, tmp_path: Path) -> None:
    on_lavapipe()
    spend(script, wheel, tmp_path)


def test_wgsl_needs_no_device(wheel: Path, tmp_path: Path) -> None:
    spend("wgsl_user.py", wheel, tmp_path, "validate")


def started(folder: Path, *programs: str) -> str:
    """A script that runs programs of the folder, which import each other."""
    lines = ["import runpy, sys", "sys.path.insert(0, '.')", "del sys.argv[1:]"]
    lines += [f"runpy.run_path({name!r}, run_name='__main__')" for name in programs]
    script = f"start_{Path(programs[0]).stem}.py"
    (folder / script).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return script


@pytest.mark.gpu
def test_a_folder_of_kernels(wheel: Path, tmp_path: Path) -> None:
    """Loaded, checked, timed; beside render passes; with pygfx; validated by the command; typed."""
    on_lavapipe()
    shutil.copytree(ROOT / "examples" / "own_kernels", tmp_path, dirs_exist_ok=True)
    programs = ("own_kernels.py", "neon.py", "particles.py")
    tools = spend(started(tmp_path, *programs[:2]), wheel, tmp_path, "validate")
    found = run(tools / "pykernels", "validate", "--strict", "--with", "tint,lint", tmp_path)
    assert "All 11 shaders valid" in found
    tools = spend(started(tmp_path, programs[2]), wheel, tmp_path, PYGFX)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", tools / "python")
    said = run(*mypy, "--disable-error-code=import-untyped", *programs, cwd=tmp_path)
    assert "no issues found in 3 source files" in said  # wgpu and pygfx have no types


def kernels_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as files:
        return {n for n in files.namelist() if n.startswith("five/_kernels/")}


def by_setuptools(folder: Path, tools: Path) -> Path:
    """A wheel of the folder's sdist, made with the lines of setup.py in pyproject.toml; offline."""
    setup = (folder / "setup.py").read_text(encoding="utf-8")
    [lines] = re.findall(r"^\[build-system\]\n.*?(?=\"\"\")", setup, re.DOTALL | re.MULTILINE)
    toml = (folder / "pyproject.toml").read_text(encoding="utf-8")
    toml = lines + toml[toml.index("\n[project]") : toml.index("\n[tool.hatch")] + "\n"
    (folder / "pyproject.toml").write_text(toml, encoding="utf-8")
    make = "from setuptools import build_meta; build_meta.build_sdist('by_setuptools')"
    run(tools / "python", "-c", make, cwd=folder)
    (sdist,) = (folder / "by_setuptools").glob("five-*.tar.gz")
    pip = (*offline(), sys.executable, "-m", "pip", "--python", tools / "python", "wheel")
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", "by_setuptools")
    run(*pip, *options, sdist, cwd=folder)
    (wheel,) = (folder / "by_setuptools").glob("five-*.whl")
    return wheel


@pytest.mark.gpu
@pytest.mark.timeout(600)  # two builds, mypy, a bench
def test_a_package_of_kernels(wheel: Path, tmp_path: Path) -> None:
    """Built and validated by the command, the same by hatchling's hook and by setuptools; typed;
    checked at every offset where only the wheels are; a table of times."""
    on_lavapipe()
    example = ROOT / "examples" / "own_package"
    shutil.copytree(
        example, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_kernels")
    )
    tools = environment(wheel, "build")
    path = os.pathsep.join([str(tools), str(ROOT / ".tools" / "bin"), "/usr/bin", "/bin"])
    env = {"PATH": path, "PYKERNELS_CACHE": str(tmp_path / ".cache"), "PYTHONPATH": ""}
    build = (tools / "pykernels", "build", "shaders", "--into", "five/_kernels")
    assert "tint" in run(*build, cwd=tmp_path, **env)
    assert "5 kernels, 21 texts, up to date" in run(*build, "--check", cwd=tmp_path, **env)
    # A checkout makes the same bytes.
    build_package(example / "shaders", tmp_path / "here", validate="skip", report=lambda line: None)
    names = {p.relative_to(tmp_path / "here") for p in (tmp_path / "here").rglob("*.*")}
    for name in names:
        made = (tmp_path / "five" / "_kernels" / name).read_bytes()
        assert made == (tmp_path / "here" / name).read_bytes(), name

    shutil.rmtree(tmp_path / "five" / "_kernels")
    run(tools / "python", "-m", "hatchling", "build", "-t", "wheel", cwd=tmp_path, **env)
    (theirs,) = (tmp_path / "dist").glob("five-*.whl")
    assert kernels_in(theirs) == {f"five/_kernels/{name.as_posix()}" for name in names}

    theirs = by_setuptools(tmp_path, tools)
    assert kernels_in(theirs) == {f"five/_kernels/{name.as_posix()}" for name in names}
    with zipfile.ZipFile(theirs) as files:
        for name in names:
            made = files.read(f"five/_kernels/{name.as_posix()}")
            assert made == (tmp_path / "here" / name).read_bytes(), name

    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", tools / "python")
    said = run(*mypy, "five", "bench.py", "check.py", cwd=tmp_path)
    assert "Success: no issues found in 27 source files" in said
    # The wheel in an environment without Jinja2, in a folder without the sources.
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(example / "check.py", empty)
    pip = (sys.executable, "-m", "pip", "--python", environment(wheel, "") / "python")
    run(*pip, "install", "--no-index", "--force-reinstall", "--no-deps", theirs)
    try:
        run(*pip, "check")
        spend(started(empty, "check.py"), wheel, empty)
    finally:
        run(*pip, "uninstall", "--yes", "five")
    bench = (tools / "pykernels", "bench", "--module", "bench.py", "--warmup", 0, "--rounds", 1)
    env |= {"PYKERNELS_BENCH_CEILINGS": "0"}
    table = run(*bench, cwd=tmp_path, **env)
    measured = sorted(re.findall(r"^five +(\w+)", table, re.MULTILINE))
    assert measured == ["blend", "blend_masked", "norm", "normals", "peaks", "soft_clip"]
