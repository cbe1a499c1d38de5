"""A build in pip's isolation has Jinja2 and hatchling, and neither numpy nor wgpu."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("without", "modules"),
    [
        (("numpy", "wgpu", "wgpudawn", "click"), "codegen.build, codegen.__main__"),
        # Texts made at run time have heads too.
        (("numpy", "wgpu", "wgpudawn", "jinja2", "codegen"), "pykernels.wgsl.head"),
    ],
)
def test_imports_without(without: tuple[str, ...], modules: str) -> None:
    code = f"import sys\nsys.modules.update(dict.fromkeys({without!r}))\nimport {modules}\n"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
