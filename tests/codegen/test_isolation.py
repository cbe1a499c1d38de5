"""A build in pip's isolation has Jinja2 and hatchling, and neither numpy nor wgpu."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_codegen_imports_without_numpy_and_wgpu() -> None:
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('numpy', 'wgpu', 'wgpudawn', 'click')))\n"
        "import codegen.build, codegen.__main__\n"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
