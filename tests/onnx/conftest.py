"""Tests of pykernels.onnx; without the packages onnx and onnxruntime there are none."""

from __future__ import annotations

import importlib.util
import os

if not os.environ.get("CI") and not all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))):
    collect_ignore_glob = ["test_*.py"]
