"""One kernel alone, and how far a build is."""

from __future__ import annotations

import resource
import subprocess
import time
from pathlib import Path

import pytest

from codegen import progress
from tests.checkout import ROOT, run_python

# To render and validate one kernel, in times of the imports that it needs: it takes 3 to 6, all
# kernels take 40 to render. A busy core inflates both sides, not always in the same moment.
MOST = 15


def spent(*args: str, **env: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Seconds of the processor that a run of Python takes, and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_python(ROOT, *args, **env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        ("fill", "of fill"),
        ("exp", "of unary"),
        ("get_rows", "of get_rows"),
        ("softmax T=f16 VEC=4 mode=read", "of softmax, softmax_apply, softmax_partial"),
    ],
)
def test_one_kernel_is_rendered_and_validated(args: str, texts: str, tmp_path: Path) -> None:
    written = {p: p.stat().st_mtime_ns for p in (ROOT / "pykernels" / "_generated").iterdir()}
    imports = min(spent("-c", "import numpy, jinja2, wgpu")[0] for _ in range(3))
    for cache in ("first", "second"):  # nothing is remembered
        path = str(tmp_path / cache)
        taken, done = spent("-m", "codegen", *args.split(), PYKERNELS_CACHE=path)
        if taken < MOST * imports:
            break
    assert taken < MOST * imports
    assert done.returncode == 0, done.stderr
    assert f"{texts}, nothing written\n" in done.stdout
    assert "validated with lint" in done.stdout
    for file, time_ in written.items():
        assert file.stat().st_mtime_ns == time_


def test_a_text_is_validated_once(checkout: Path, tmp_path: Path) -> None:
    """So that another try of a kernel of hundreds of texts costs what was changed."""

    def tried(*args: str) -> subprocess.CompletedProcess[str]:
        return run_python(checkout, "-m", "codegen", *args, PYKERNELS_CACHE=str(tmp_path))

    path = checkout / "kernels" / "fill" / "fill.wgsl"
    good = path.read_text()
    first = tried("fill")
    assert first.returncode == 0 and "validated before" not in first.stdout, first.stderr
    assert "4 of 4 texts were validated before" in tried("fill").stdout
    path.write_text(good.replace("dst_index(i)", "dst_indx(i)"))
    wrong = [tried("fill") for _ in range(2)]
    if "NOTHING WAS VALIDATED" in wrong[0].stdout:
        pytest.skip("needs naga or Tint")
    assert "validated before" not in wrong[0].stdout
    assert "4 of 4 texts were validated before" in wrong[1].stdout
    assert wrong[0].returncode == wrong[1].returncode == 1
    assert wrong[0].stderr == wrong[1].stderr != ""  # with the place in the template
    path.write_text(good)
    assert "4 of 4 texts were validated before" in tried("fill").stdout


def test_one_kernel_that_is_wrong(checkout: Path) -> None:
    path = checkout / "kernels" / "fill" / "fill.wgsl"
    path.write_text(path.read_text().replace("dst_index(i)", "dst_indx(i)"))
    done = run_python(checkout, "-m", "codegen", "fill")
    if "NOTHING WAS VALIDATED" in done.stdout:
        pytest.skip("needs naga or Tint")
    assert done.returncode == 1
    assert "error: kernels/fill/fill.wgsl:" in done.stderr and "dst_indx" in done.stderr
    assert run_python(checkout, "-m", "codegen", "memset").returncode == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("sofmax", "there is no kernel and no body 'sofmax': did you mean 'softmax'?"),
        ("softmax T=f64", "no variant of softmax matches T=f64; there are T=f32 MASK="),
        ("softmax --check", "are for all kernels: leave out the name"),
        ("--show", "--show needs the name of a kernel"),
    ],
)
def test_one_kernel_that_is_not_there(args: str, said: str) -> None:
    done = run_python(ROOT, "-m", "codegen", *args.split())
    assert done.returncode in (1, 2)
    assert said in done.stderr


def test_progress_says_how_many_are_done_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines: list[str] = []
    parts = [progress.Part(10, work) for work in (1, 1, 2, 4)]
    done = []
    for index in progress.told(parts, "texts validated", lines.append):
        done.append(index)
        now += 2 * parts[index].work
    assert done == [0, 1, 2, 3]
    assert lines == [
        "pykernels: texts validated: 20 of 40, about 12 s left",
        "pykernels: texts validated: 30 of 40, about 8 s left",
    ]
