"""Tests of pykernels.onnx with networks that others made."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / ".tools" / "models"

if not os.environ.get("CI") and not all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder with networks that others made."""
    if not MODELS.is_dir() and not os.environ.get("CI"):
        pytest.skip("no .tools/models: `bash ci/setup.sh` downloads them")
    return MODELS
