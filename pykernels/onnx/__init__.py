"""Networks from ONNX files on a device: see docs/guide/models.md.

Needs the package onnx: `pip install pykernels[onnx]`.
"""

try:
    import onnx as _onnx  # noqa: F401
except ModuleNotFoundError as e:
    raise ImportError(f"{e.name} is missing: pip install pykernels[onnx]") from e

from .errors import ModelError
from .model import Model, load
from .session import InferenceSession
from .shapes import Value

__all__ = ["InferenceSession", "Model", "ModelError", "Value", "load"]
