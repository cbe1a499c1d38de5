"""What is wrong in a kernel source fails the build and names the template's file and line.

Each folder of data/ is a kernels folder with one mistake; expected.txt is how the error begins.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from codegen import BuildError, generate
from codegen.sources import _READ
from pykernels.validate import find_naga, find_tint

ROOT = Path(__file__).parents[2]
DATA = Path(__file__).parent / "data"


def make_root(folder: Path, kernels: Path) -> Path:
    """As much of a checkout as a build reads."""
    shutil.copytree(kernels, folder / "kernels")
    for name in ("errors.py", *_READ):
        path = folder / "pykernels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "pykernels" / name, path)
    return folder


@pytest.mark.parametrize("case", sorted(p.name for p in DATA.iterdir()))
def test_mistake_fails_the_build(case: str, tmp_path: Path) -> None:
    if "wgsl_" in case and None in (find_naga(), find_tint()):
        pytest.skip("needs naga and Tint")
    root = make_root(tmp_path, DATA / case)
    with pytest.raises(BuildError) as caught:
        generate(root, report=lambda line: None)
    expected = (DATA / case / "expected.txt").read_text(encoding="utf-8").strip()
    assert str(caught.value).startswith(expected)
    assert not (root / "pykernels" / "_generated").exists()


def test_mistakes_found_without_validators(tmp_path: Path) -> None:
    root = make_root(tmp_path, DATA / "param_in_wgsl_only")
    with pytest.raises(BuildError, match=r"bad\.wgsl:18: p\.offset"):
        generate(root, validate="skip", report=lambda line: None)


def test_a_missing_validator_fails_only_where_it_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_root(tmp_path, DATA / "param_in_spec_only")
    source = root / "kernels" / "toy" / "bad.wgsl"
    text = source.read_text(encoding="utf-8").splitlines()
    source.write_text("\n".join(line for line in text if "params.offset" not in line) + "\n")
    monkeypatch.setattr("codegen.validation.find_naga", lambda: None)
    monkeypatch.setattr("codegen.validation.find_tint", lambda: None)
    with pytest.raises(BuildError, match="validator not found: naga, tint"):
        generate(root, validate="require", report=lambda line: None)
    lines: list[str] = []
    generate(root, validate="auto", report=lines.append)
    assert "NOTHING WAS VALIDATED" in lines[0]
